//~ error[E0308]: `?` operator has incompatible types
//~ expected a tuple with 3 elements
use thalweg::prelude::*;

fn main() -> Result<(), SessionError> {
    let g = Graph::new();
    let (a, b) = (g.constant(1.0f32), g.variable("w", 1.0f32));
    let (_a, _b, _c): (f32, f32, f32) = Session::new(&g)?.run((a, b), [])?;
    Ok(())
}
