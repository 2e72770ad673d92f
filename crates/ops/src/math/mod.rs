//! Arithmetic on elements, with broadcasting.

mod arithmetic;
pub(crate) mod broadcast;

use thalweg_device::Op;
use thalweg_graph::Output;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &arithmetic::ADD,
    &arithmetic::SUB,
    &arithmetic::MUL,
    &arithmetic::NEG,
    &arithmetic::SQUARE,
    &broadcast::BROADCAST_GRADIENT_ARGS,
];

/// Builder methods of this family.
pub trait MathOps<'g>: Sized {
    /// `x * x`, for each element.
    fn square(self) -> Output<'g>;
}

impl<'g> MathOps<'g> for Output<'g> {
    #[track_caller]
    fn square(self) -> Output<'g> {
        self.graph().op("Square").input(self).output()
    }
}
