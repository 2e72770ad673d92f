//! The losses of a graph, and their sum.

use thalweg_graph::{Graph, Output, Reason};
use thalweg_ops::SourceOps;

use crate::regularizers::REGULARIZATION_LOSSES;

/// The collection of losses: TensorFlow's `GraphKeys.LOSSES`.
pub const LOSSES: &str = "losses";

/// The sum of all losses of the graph and of the penalties of its regularizers: a scalar
/// (`tf.compat.v1.losses.get_total_loss`).
///
/// All must have one dtype and shape. A graph without losses is a mistake, which the graph keeps.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_layers::losses;
/// use thalweg_ops::{NewGraph, SourceOps};
/// use thalweg_session::Session;
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// losses::absolute_difference([1.0f32, 2.0], g.constant([2.0f32, 4.0])).value();
/// g.add_to_collection(losses::REGULARIZATION_LOSSES, g.constant(0.25f32));
/// let total = losses::total(&g);
///
/// assert_eq!(Session::new(&g)?.run::<f32>(total, [])?, 1.75);
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn total(graph: &Graph) -> Output<'_> {
    let mut all = graph.collection(LOSSES);
    all.extend(graph.collection(REGULARIZATION_LOSSES));
    if all.is_empty() {
        let text = "the graph has no losses: build one with Loss::value first";
        return graph.fail("total_loss", "AddN", Reason::Argument(text.to_owned()));
    }
    sum(graph, "total_loss", all)
}

/// The sum of the penalties of all regularizers: a scalar; 0 if there are none
/// (`tf.compat.v1.losses.get_regularization_loss`).
#[track_caller]
pub fn regularization(graph: &Graph) -> Output<'_> {
    let all = graph.collection(REGULARIZATION_LOSSES);
    match all.is_empty() {
        true => graph.constant(0.0f32),
        false => sum(graph, "total_regularization_loss", all),
    }
}

#[track_caller]
fn sum<'g>(graph: &'g Graph, name: &str, terms: Vec<Output<'g>>) -> Output<'g> {
    graph.op("AddN").inputs(terms).name(name).output()
}
