//! Control flow: branches and loops as function calls and as in TensorFlow 1; tensor arrays, stacks, lists and
//! optionals for the values of loops and branches.

mod build;
mod device_index;
mod functional_for;
mod gradient;
mod gradient_loop;
mod if_while_call;
mod list_gradient;
mod list_items;
mod optional;
mod remote_call;
pub(crate) mod rows;
mod shape_error;
mod stack;
mod switch_merge_enter;
mod tensor_array;
mod tensor_array_parts;
mod tensor_list;
mod tensor_list_more;
mod tensor_list_parts;
mod tensor_map;
pub(crate) mod variant_sum;

pub use build::FlowOps;
pub(crate) use optional::Optional;
use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &switch_merge_enter::SWITCH,
    &switch_merge_enter::REF_SWITCH,
    &switch_merge_enter::MERGE,
    &switch_merge_enter::REF_MERGE,
    &switch_merge_enter::ENTER,
    &switch_merge_enter::REF_ENTER,
    &switch_merge_enter::EXIT,
    &switch_merge_enter::REF_EXIT,
    &switch_merge_enter::NEXT_ITERATION,
    &switch_merge_enter::REF_NEXT_ITERATION,
    &switch_merge_enter::LOOP_COND,
    &switch_merge_enter::CONTROL_TRIGGER,
    &switch_merge_enter::REF_SELECT,
    &switch_merge_enter::HANDLE_OF,
    &if_while_call::IF,
    &if_while_call::STATELESS_IF,
    &if_while_call::CASE,
    &if_while_call::STATELESS_CASE,
    &if_while_call::WHILE,
    &if_while_call::STATELESS_WHILE,
    &if_while_call::PARTITIONED_CALL,
    &if_while_call::STATEFUL_PARTITIONED_CALL,
    &remote_call::REMOTE_CALL,
    &device_index::DEVICE_INDEX,
    &if_while_call::FAKE_PARAM,
    &shape_error::SHAPE_ERROR,
    &tensor_list::EMPTY,
    &tensor_list::RESERVE,
    &tensor_list::PUSH_BACK,
    &tensor_list::POP_BACK,
    &tensor_list::GET_ITEM,
    &tensor_list::SET_ITEM,
    &tensor_list::LENGTH,
    &tensor_list::ELEMENT_SHAPE,
    &tensor_list::RESIZE,
    &tensor_list_parts::STACK,
    &tensor_list_parts::FROM_TENSOR,
    &tensor_list_parts::GATHER,
    &tensor_list_parts::SCATTER,
    &tensor_list_parts::SCATTER_INTO,
    &tensor_list_parts::CONCAT,
    &tensor_list_parts::SPLIT,
    &tensor_list_more::SCATTER_V1,
    &tensor_list_more::CONCAT_V1,
    &tensor_list_more::CONCAT_LISTS,
    &tensor_list_more::PUSH_BACK_BATCH,
    &tensor_map::EMPTY,
    &tensor_map::SIZE,
    &tensor_map::LOOKUP,
    &tensor_map::INSERT,
    &tensor_map::ERASE,
    &tensor_map::HAS_KEY,
    &tensor_map::STACK_KEYS,
    &optional::FROM_VALUE,
    &optional::GET_VALUE,
    &optional::HAS_VALUE,
    &optional::NONE,
    &stack::STACK,
    &stack::PUSH,
    &stack::POP,
    &stack::CLOSE,
    &stack::NEW,
    &stack::REF_STACK,
    &stack::REF_PUSH,
    &stack::REF_POP,
    &stack::REF_CLOSE,
    &functional_for::FOR,
    &functional_for::MAP_DEFUN,
    &tensor_array::ARRAY,
    &tensor_array::GRADIENT,
    &tensor_array::GRADIENT_WITH_SHAPE,
    &tensor_array::WRITE,
    &tensor_array::READ,
    &tensor_array::SIZE,
    &tensor_array::CLOSE,
    &tensor_array_parts::GATHER,
    &tensor_array_parts::SCATTER,
    &tensor_array_parts::SPLIT,
    &tensor_array_parts::CONCAT,
];
