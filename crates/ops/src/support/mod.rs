//! Helpers of several families of ops: elementwise loops, strided copies, widening, shape rules, nodes of gradients.

pub(crate) mod accounted_map;
pub(crate) mod broadcast_index;
pub(crate) mod constants;
pub(crate) mod conv_groups;
pub(crate) mod cpu;
pub(crate) mod dtype_names;
pub(crate) mod elementwise;
pub(crate) mod epilogue;
pub(crate) mod gradient_nodes;
pub(crate) mod inner_nodes;
pub(crate) mod join_rows;
pub(crate) mod number_bounds;
pub(crate) mod numbered_elements;
pub(crate) mod padding;
pub(crate) mod raw_elements;
pub(crate) mod references;
pub(crate) mod shape_inputs;
pub(crate) mod shapes;
pub(crate) mod sparse_matrix;
pub(crate) mod sparse_sum;
pub(crate) mod strided_copy;
pub(crate) mod tensors;
pub(crate) mod trivial_kernels;
pub(crate) mod widened;
