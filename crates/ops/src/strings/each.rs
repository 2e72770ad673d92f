//! What the kernels on strings share.

use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::{Element, Tensor};

/// One string for each of input 0.
pub(super) fn strings(
    cx: &TensorCx<'_>,
    f: impl Fn(&[u8]) -> Vec<u8>,
) -> Result<Vec<Tensor>, KernelError> {
    try_strings(cx, |s| Ok(f(s)))
}

/// As [`strings`]; what `f` says is wrong names the element.
pub(super) fn try_strings(
    cx: &TensorCx<'_>,
    f: impl Fn(&[u8]) -> Result<Vec<u8>, String>,
) -> Result<Vec<Tensor>, KernelError> {
    let made = made(cx, f)?;
    Ok(vec![Tensor::strings(cx.tensor(0)?.dims(), &made)?])
}

/// One number for each string of input 0.
pub(super) fn numbers<T: Element>(
    cx: &TensorCx<'_>,
    f: impl Fn(&[u8]) -> Result<T, String>,
) -> Result<Vec<Tensor>, KernelError> {
    let made = made(cx, f)?;
    Ok(vec![Tensor::new(cx.tensor(0)?.dims(), &made)?])
}

fn made<T>(
    cx: &TensorCx<'_>,
    f: impl Fn(&[u8]) -> Result<T, String>,
) -> Result<Vec<T>, KernelError> {
    let made = cx.strings(0)?.iter().enumerate().map(|(element, s)| {
        f(s).map_err(|reason| KernelError::Element {
            input: 0,
            element,
            reason,
        })
    });
    made.collect()
}

/// A string as people read it in a message.
pub(super) fn shown(s: &[u8]) -> String {
    format!("\"{}\"", s.escape_ascii())
}
