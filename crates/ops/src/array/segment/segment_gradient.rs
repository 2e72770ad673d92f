//! Gradients of segment reductions.

use smallvec::smallvec;
use thalweg_graph::op::InputGradients;
use thalweg_graph::{GradCx, Output};

use super::unsorted_segment_sum::gather_segments;
use crate::support::gradient_nodes::gather_rows;

/// Kind of ids, which selects the ops of a gradient.
pub(super) enum IdOrder {
    Sorted,
    Unsorted,
}

impl IdOrder {
    /// Reduces `x` by `op` (`Sum`, `Prod`) over the segments of the node.
    fn over<'g>(&self, g: &GradCx<'_, 'g>, op: &str, x: Output<'g>) -> Output<'g> {
        match self {
            IdOrder::Sorted => {
                let node = g.graph().op(&format!("Segment{op}")).input(x);
                node.input(g.input(1)).output()
            }
            IdOrder::Unsorted => {
                let node = g.graph().op(&format!("UnsortedSegment{op}")).input(x);
                node.input(g.input(1)).input(g.input(2)).output()
            }
        }
    }

    /// Gathers the slice of `x` for each id; 0 for an id of no segment.
    fn back<'g>(&self, g: &GradCx<'_, 'g>, x: Output<'g>) -> Output<'g> {
        match self {
            IdOrder::Sorted => gather_rows(x, g.input(1)),
            IdOrder::Unsorted => {
                let (slices, kept) = gather_segments(x, g.input(1));
                where_true(kept, slices)
            }
        }
    }
}

/// Selects `x` where `when` is true, and zeros elsewhere.
fn where_true<'g>(when: Output<'g>, x: Output<'g>) -> Output<'g> {
    let zeros = x.graph().op("ZerosLike").input(x).output();
    let node = x.graph().op("SelectV2").input(when).input(x);
    node.input(zeros).output()
}

/// Sends the gradient to the selected elements, in equal parts if several are equal.
pub(super) fn extreme_gradient<'g>(g: &GradCx<'_, 'g>, kin: &IdOrder) -> InputGradients<'g> {
    let (graph, x, dy) = (g.graph(), g.input(0), g.grad());
    let taken = graph.op("Equal").input(x).input(kin.back(g, g.output(0)));
    let taken = graph.op("Cast").input(taken.output());
    let taken = taken.attr("DstT", dy.dtype()).output();
    let number = kin.over(g, "Sum", taken);
    let share = graph.op("DivNoNan").input(dy).input(number).output();
    smallvec![Some(kin.back(g, share) * taken)]
}

/// Gradient of a product: the product of the other elements; for an element of 0, of those that are not 0.
pub(super) fn product_gradient<'g>(g: &GradCx<'_, 'g>, kin: &IdOrder) -> InputGradients<'g> {
    let (graph, x, dy) = (g.graph(), g.input(0), g.grad());
    let choose = |when: Output<'g>, a: Output<'g>, b: Output<'g>| {
        graph.op("SelectV2").input(when).input(a).input(b).output()
    };
    let zero = x.constant_like(0);
    let is_zero = graph.op("Equal").input(x).input(zero).output();
    let zeros = graph.op("Cast").input(is_zero).attr("DstT", x.dtype());
    let zeros = kin.over(g, "Sum", zeros.output());
    // With two zeros, the product of the others is 0.
    let at_most_one = graph.op("LessEqual").input(zeros).input(x.constant_like(1));
    let dy = where_true(at_most_one.output(), dy);
    let others = choose(is_zero, graph.op("OnesLike").input(x).output(), x);
    let product = kin.back(g, kin.over(g, "Prod", others));
    let without = choose(is_zero, product, kin.back(g, g.output(0)) / others);
    smallvec![Some(kin.back(g, dy) * without)]
}
