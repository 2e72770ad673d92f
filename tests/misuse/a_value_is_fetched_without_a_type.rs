//~ error[E0277]: `!` is no element of a tensor
//~ `let loss: f32 = session.run(loss, feeds)?`
use thalweg::prelude::*;

fn main() -> Result<(), SessionError> {
    let g = Graph::new();
    let w = g.variable("w", 1.0f32);
    g.constant(2.0f32);
    Session::new(&g)?.run(w, [])?;
    Ok(())
}
