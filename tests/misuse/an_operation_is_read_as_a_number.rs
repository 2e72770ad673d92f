//~ error[E0308]: `?` operator has incompatible types
//~ expected `f32`, found `()`
use thalweg::prelude::*;

fn main() -> Result<(), SessionError> {
    let g = Graph::new();
    let add = g.variable("w", 1.0f32).assign_add(g.constant(1.0f32));
    let _w: f32 = Session::new(&g)?.run(add, [])?;
    Ok(())
}
