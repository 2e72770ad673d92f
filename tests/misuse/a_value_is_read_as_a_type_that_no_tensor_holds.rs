//~ error[E0277]: `char` is no element of a tensor
//~ elements are `f32`, `f64`, `f16`, `bf16`, `Complex<f32>`, `Complex<f64>`, `bool`, and integers of 8 to 64 bits
use thalweg::prelude::*;

fn main() -> Result<(), SessionError> {
    let g = Graph::new();
    let w = g.variable("w", 1.0f32);
    g.constant(2.0f32);
    let _x: char = Session::new(&g)?.run(w, [])?;
    Ok(())
}
