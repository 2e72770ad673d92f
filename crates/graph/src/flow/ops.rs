//! Names of the control-flow ops.

/// The op that forwards its input to one of two outputs.
pub const SWITCH: &str = "Switch";
/// The op that forwards whichever input arrives.
pub const MERGE: &str = "Merge";
/// The op through which a value enters a loop.
pub const ENTER: &str = "Enter";
/// The op through which a value leaves a loop.
pub const EXIT: &str = "Exit";
/// The op through which a value goes to the next iteration of a loop.
pub const NEXT: &str = "NextIteration";

/// `true` for an op that makes a holder of tensors, a tensor array or a stack; the handle is its first output.
pub fn makes_holder(op: &str) -> bool {
    matches!(
        op,
        "TensorArrayV3"
            | "TensorArrayGradV3"
            | "TensorArrayGradWithShape"
            | "StackV2"
            | "_NewStack"
    )
}
