//! Fusion: one node in place of several that are computed together.
//!
//! - A bias and an activation behind a GEMM or a convolution become its epilogue; so do a batch normalization behind a
//!   convolution, where its mean and variance are given, and the sum with a residual behind that.
//! - A Pad before a convolution with an epilogue becomes its padding.
//! - A Relu behind a batch normalization, or behind the sum of one and another value, is computed in its pass; on GPUs the
//!   Relu's gradient in that of the normalization, too, and a sum of two gradients in that of a Relu.
//! - Elementwise ops that follow each other become a chain, which runs piece by piece in one pass over memory.
//! - Where the gradient of a max pooling is computed in the same step, the pooling stores the argmax of each window in a
//!   byte: the gradient then needs neither the images nor the pooled ones; on GPUs, too.
//!
//! The others are for CPUs alone.
//!
//! A rule looks at the graph and returns a [`Replacement`]; the [`Rewriter`] checks it before the graph changes. Only values
//! that nothing else uses are left out.

mod apply;
mod argmax_pooling;
mod batch_norms;
mod chains;
mod epilogue_ends;
#[cfg(test)]
mod epilogue_rule_tests;
mod epilogues;
mod pads;
mod pooling_gradients;
mod relu_gradients;
mod replacement;
mod rewriter;
#[cfg(test)]
mod rule_cases;
#[cfg(test)]
mod rule_tests;
#[cfg(test)]
mod tests;

use thalweg_device::Device;
use thalweg_graph::NodeId;
use thalweg_graph::simplify::Simplified;

use crate::request::PlanContext;
use replacement::Replacement;
use rewriter::Rewriter;

/// Finds the replacement that begins at a node.
type FindAt = fn(&Rewriter<'_>, NodeId) -> Option<Replacement>;

/// A fusion rule, by the way in which it finds the nodes to replace.
enum Rule {
    /// Node by node, in order: its replacement is applied before it is asked for the next node.
    Each(FindAt),
    /// All at once: its replacements must not overlap.
    All(fn(&Rewriter<'_>) -> Vec<Replacement>),
}

/// The rules, in the order in which they are applied.
const RULES: &[Rule] = &[
    Rule::Each(pooling_gradients::relu_before_pooling),
    Rule::Each(pooling_gradients::sum_before_pooling),
    Rule::Each(argmax_pooling::stored),
    Rule::Each(epilogues::with_batch_norm),
    Rule::Each(batch_norms::with_relu),
    Rule::Each(epilogues::with_bias),
    Rule::Each(epilogue_ends::with_residual),
    Rule::Each(epilogue_ends::with_activation),
    Rule::Each(pads::into_convolution),
    Rule::All(chains::found),
];

/// The rules for GPUs, each node by node.
const GPU_RULES: &[FindAt] = &[
    batch_norms::with_relu,
    batch_norms::gradient_with_relu,
    pooling_gradients::relu_before_pooling,
    argmax_pooling::stored,
    relu_gradients::of_sum,
];

/// Returns the same graph, with its nodes fused where a rule applies.
pub(crate) fn fused(simplified: Simplified, context: PlanContext<'_>) -> Simplified {
    let cpu = |device: &Device| matches!(device, Device::Cpu(_));
    let cpus = context.devices.iter().map(|d| cpu(d).then(|| d.host()));
    let cpus: Vec<_> = cpus.collect();
    let mut rewriter = Rewriter::new(simplified, &cpus, context.kernels);
    for rule in RULES {
        match rule {
            Rule::Each(find) => {
                let ids = rewriter.ids();
                apply_each(&mut rewriter, ids, *find);
            }
            Rule::All(find) => {
                for replacement in find(&rewriter) {
                    rewriter.apply(replacement);
                }
            }
        }
    }
    for find in GPU_RULES {
        let ids = rewriter.ids_on_gpus();
        apply_each(&mut rewriter, ids, *find);
    }
    rewriter.finish()
}

/// Asks for a replacement at one node after the other, and applies it before the next.
fn apply_each(rewriter: &mut Rewriter<'_>, ids: Vec<NodeId>, find: FindAt) {
    for id in ids {
        if let Some(replacement) = find(rewriter, id) {
            rewriter.apply(replacement);
        }
    }
}
