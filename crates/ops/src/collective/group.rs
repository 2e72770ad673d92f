//! Groups of ranks of TensorFlow's collectives, given by inputs.

use thalweg_device::{KernelError, RankOf, TensorCx};
use thalweg_graph::op::{
    Allowed, Arg, AttrDef, Default, arg, arg_of, attr, bool_attr, float_attr, str_attr,
};
use thalweg_graph::{AttrKind, OpDef};
use thalweg_tensor::DType;

use super::run::{COLLECTIVE_OP, collectives};

/// Input: number of ranks in the group.
pub(super) const GROUP_SIZE: Arg = arg_of("group_size", DType::I32);
/// Input: key of the group.
pub(super) const GROUP_KEY: Arg = arg_of("group_key", DType::I32);
/// Input: key of the collective in the group. Not used here: the node's name and the order of the plan identify it.
pub(super) const INSTANCE_KEY: Arg = arg_of("instance_key", DType::I32);
/// Input: TensorFlow's order of collectives. Not used here: the plan has an order of its own.
const TOKEN: Arg = arg_of("ordering_token", DType::Resource).list(TOKENS.name);

/// Attribute: algorithm to use. Not used here: the transport chooses one.
pub(super) const COMMUNICATION_HINT: AttrDef = str_attr("communication_hint", "auto", &[]);
/// Attribute: time limit. Not used here: the time limit of the step applies.
pub(super) const TIMEOUT: AttrDef = float_attr("timeout_seconds", 0.0);
pub(super) const STATELESS: AttrDef = bool_attr("is_stateless", false);
pub(super) const TOKENS: AttrDef = AttrDef {
    default: Default::Int(0),
    allowed: Allowed::AtLeast(0),
    ..attr("Nordering_token", AttrKind::Int)
};

/// Inputs of an op on a group.
pub(super) const INPUTS: &[Arg] = &[
    arg("input", "T"),
    GROUP_SIZE,
    GROUP_KEY,
    INSTANCE_KEY,
    TOKEN,
];

/// Base definition of an op on a group.
pub(super) const GROUP_OP: OpDef = OpDef {
    inputs: INPUTS,
    outputs: &[arg("data", "T")],
    ..COLLECTIVE_OP
};

/// Process set of a group, and this rank's place in it. `at` is the index of the input with its size; the next input is
/// its key. A group of as many ranks as there are is the set of all ranks, whatever its key.
pub(super) fn group(cx: &TensorCx<'_>, at: usize) -> Result<(i32, RankOf), KernelError> {
    let collectives = collectives(cx)?;
    let (expected, key) = (cx.int(at)?, cx.int(at + 1)?);
    let is_right = |of: RankOf| i64::try_from(of.size).is_ok_and(|size| size == expected);
    let all = collectives.ranks(0)?;
    if is_right(all) {
        return Ok((0, all));
    }
    let set = i32::try_from(key).map_err(|_| KernelError::Argument("a key of 32 bits"))?;
    let of = collectives.ranks(set)?;
    match is_right(of) {
        true => Ok((set, of)),
        false => Err(KernelError::Ranks {
            group: set,
            expected,
            found: of.size,
        }),
    }
}
