//! `_Region`: the op that runs a region.

use crate::attr::AttrKind;
use crate::function::{ARGUMENTS, RESULTS};
use crate::op::{Effect, Gradient, OpDef, attr, list_attr};

/// The op that stands for a region.
pub static REGION: OpDef = OpDef {
    name: "_Region",
    summary: "A region of TensorFlow 1's control flow (Switch, Merge and loops), interpreted.",
    inputs: &[ARGUMENTS],
    outputs: &[RESULTS],
    attrs: &[
        list_attr("Tin", AttrKind::Types),
        list_attr("Tout", AttrKind::Types),
        attr("f", AttrKind::Func),
    ],
    gradient: Gradient::None,
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};
