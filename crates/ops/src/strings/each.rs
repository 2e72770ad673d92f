//! Helpers that map the strings of input 0.

use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::{Element, Tensor};

/// Maps each string of input 0 to a string.
pub(super) fn strings(
    cx: &TensorCx<'_>,
    f: impl Fn(&[u8]) -> Vec<u8>,
) -> Result<Vec<Tensor>, KernelError> {
    try_strings(cx, |s| Ok(f(s)))
}

/// Like [`strings`]; an error of `f` names the element.
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

/// Maps each string of input 0 to a number.
pub(super) fn numbers<T: Element>(
    cx: &TensorCx<'_>,
    f: impl Fn(&[u8]) -> Result<T, String>,
) -> Result<Vec<Tensor>, KernelError> {
    let made: Vec<T> = made(cx, f)?.collect::<Result<_, _>>()?;
    Ok(vec![cx.tensor_of(cx.tensor(0)?.dims(), &made)?])
}

/// Collects the results of `f` on the strings of input 0.
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

/// A string as it appears in a message.
pub(super) fn shown(s: &[u8]) -> String {
    format!("\"{}\"", s.escape_ascii())
}
