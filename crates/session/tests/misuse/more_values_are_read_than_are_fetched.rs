use thalweg_graph::Graph;
use thalweg_ops::{NewGraph, SourceOps, StateOps};
use thalweg_session::{Session, SessionError};

fn main() -> Result<(), SessionError> {
    let g = Graph::new();
    let (a, b) = (g.constant(1.0f32), g.variable("w", 1.0f32));
    let (_a, _b, _c): (f32, f32, f32) = Session::new(&g)?.run((a, b), [])?;
    Ok(())
}
