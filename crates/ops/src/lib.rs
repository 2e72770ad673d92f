//! Every op, each in one place: builder, shape rule, gradient, kernels.

pub mod cpu;
