//! Control flow: branches and loops as function calls and as in TensorFlow 1; tensor arrays, stacks and lists for the
//! values of loops.

mod array;
mod array_parts;
mod build;
mod calls;
mod frames;
mod gradient;
mod gradient_loop;
mod list;
mod list_gradient;
mod list_items;
mod list_parts;
pub(crate) mod list_sum;
pub(crate) mod rows;
mod stack;

pub use build::FlowOps;
use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &frames::SWITCH,
    &frames::REF_SWITCH,
    &frames::MERGE,
    &frames::REF_MERGE,
    &frames::ENTER,
    &frames::REF_ENTER,
    &frames::EXIT,
    &frames::REF_EXIT,
    &frames::NEXT_ITERATION,
    &frames::REF_NEXT_ITERATION,
    &frames::LOOP_COND,
    &frames::CONTROL_TRIGGER,
    &frames::REF_SELECT,
    &frames::HANDLE_OF,
    &calls::IF,
    &calls::STATELESS_IF,
    &calls::CASE,
    &calls::STATELESS_CASE,
    &calls::WHILE,
    &calls::STATELESS_WHILE,
    &calls::PARTITIONED_CALL,
    &calls::STATEFUL_PARTITIONED_CALL,
    &calls::FAKE_PARAM,
    &list::EMPTY,
    &list::RESERVE,
    &list::PUSH_BACK,
    &list::POP_BACK,
    &list::GET_ITEM,
    &list::SET_ITEM,
    &list::LENGTH,
    &list::ELEMENT_SHAPE,
    &list::RESIZE,
    &list_parts::STACK,
    &list_parts::FROM_TENSOR,
    &list_parts::GATHER,
    &list_parts::SCATTER,
    &list_parts::SCATTER_INTO,
    &list_parts::CONCAT,
    &list_parts::SPLIT,
    &stack::STACK,
    &stack::PUSH,
    &stack::POP,
    &stack::CLOSE,
    &stack::NEW,
    &stack::REF_STACK,
    &stack::REF_PUSH,
    &stack::REF_POP,
    &stack::REF_CLOSE,
    &array::ARRAY,
    &array::GRADIENT,
    &array::WRITE,
    &array::READ,
    &array::SIZE,
    &array::CLOSE,
    &array_parts::GATHER,
    &array_parts::SCATTER,
    &array_parts::SPLIT,
    &array_parts::CONCAT,
];
