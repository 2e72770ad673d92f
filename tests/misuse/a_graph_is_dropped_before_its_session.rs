//~ error[E0597]: `g` does not live long enough
use thalweg::prelude::*;

fn main() -> Result<(), SessionError> {
    let session = {
        let g = Graph::new();
        g.variable("w", 1.0f32);
        g.constant(2.0f32);
        Session::new(&g)?
    };
    session.run((), [])?;
    Ok(())
}
