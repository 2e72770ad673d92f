use thalweg_graph::Graph;
use thalweg_ops::{NewGraph, SourceOps, StateOps};
use thalweg_session::{Session, SessionError};

fn main() -> Result<(), SessionError> {
    let g = Graph::new();
    let w = g.variable("w", 1.0f32);
    g.constant(2.0f32);
    let _x: char = Session::new(&g)?.run(w, [])?;
    Ok(())
}
