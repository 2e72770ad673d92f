//! Regular expressions in a build without the feature `regex`: an error that says so.

use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::Tensor;

fn without() -> Result<Vec<Tensor>, KernelError> {
    let text = "the program is built without regular expressions: add the feature `regex` of the package `thalweg`";
    Err(KernelError::Invalid(text.to_owned()))
}

pub(super) fn full_match(_: &TensorCx<'_>, _: &str) -> Result<Vec<Tensor>, KernelError> {
    without()
}

pub(super) fn replace(_: &TensorCx<'_>, _: &str, _: &str) -> Result<Vec<Tensor>, KernelError> {
    without()
}
