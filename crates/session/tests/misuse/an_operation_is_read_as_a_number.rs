use thalweg_graph::Graph;
use thalweg_ops::{NewGraph, SourceOps, StateOps};
use thalweg_session::{Session, SessionError};

fn main() -> Result<(), SessionError> {
    let g = Graph::new();
    let add = g.variable("w", 1.0f32).assign_add(g.constant(1.0f32));
    let _w: f32 = Session::new(&g)?.run(add, [])?;
    Ok(())
}
