//~ error[E0277]: `{float}` is fetched, and its values cannot be had as `_`
//~ an output gives a number, `Vec<T>`, `[T; N]`, `String` or `Tensor`; an operation gives `()`
use thalweg::prelude::*;

fn main() -> Result<(), SessionError> {
    let g = Graph::new();
    g.variable("w", 1.0f32);
    g.constant(2.0f32);
    let _x: f32 = Session::new(&g)?.run(1.5, [])?;
    Ok(())
}
