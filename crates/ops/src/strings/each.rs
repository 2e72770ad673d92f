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
    let mut all = cx.string_tensor(cx.tensor(0)?.dims())?;
    for made in made(cx, f)? {
        all.push(&made?)?;
    }
    Ok(vec![all.finish()?])
}

/// One number for each string of input 0.
pub(super) fn numbers<T: Element>(
    cx: &TensorCx<'_>,
    f: impl Fn(&[u8]) -> Result<T, String>,
) -> Result<Vec<Tensor>, KernelError> {
    let made: Vec<T> = made(cx, f)?.collect::<Result<_, _>>()?;
    Ok(vec![cx.tensor_of(cx.tensor(0)?.dims(), &made)?])
}

/// What `f` makes of each string of input 0.
fn made<'a, T>(
    cx: &TensorCx<'a>,
    f: impl Fn(&[u8]) -> Result<T, String> + 'a,
) -> Result<impl Iterator<Item = Result<T, KernelError>> + 'a, KernelError>
where
    T: 'a,
{
    Ok(cx.strings(0)?.iter().enumerate().map(move |(element, s)| {
        f(s).map_err(|reason| KernelError::Element {
            input: 0,
            element,
            reason,
        })
    }))
}

/// A string as people read it in a message.
pub(super) fn shown(s: &[u8]) -> String {
    format!("\"{}\"", s.escape_ascii())
}
