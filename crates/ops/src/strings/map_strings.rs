//! Helpers that map the strings of input 0.

use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::{Element, Tensor};

/// Maps each string of input 0 to a string.
pub(super) fn map_strings(
    cx: &TensorCx<'_>,
    f: impl Fn(&[u8]) -> Vec<u8>,
) -> Result<Vec<Tensor>, KernelError> {
    try_map_strings(cx, |s| Ok(f(s)))
}

/// Like [`map_strings`]; an error of `f` names the element.
pub(super) fn try_map_strings(
    cx: &TensorCx<'_>,
    f: impl Fn(&[u8]) -> Result<Vec<u8>, String>,
) -> Result<Vec<Tensor>, KernelError> {
    let mut all = cx.string_tensor(cx.tensor(0)?.dims())?;
    for map_each in map_each(cx, f)? {
        all.push(&map_each?)?;
    }
    Ok(vec![all.finish()?])
}

/// Maps each string of input 0 to a number.
pub(super) fn map_to_numbers<T: Element>(
    cx: &TensorCx<'_>,
    f: impl Fn(&[u8]) -> Result<T, String>,
) -> Result<Vec<Tensor>, KernelError> {
    let map_each: Vec<T> = map_each(cx, f)?.collect::<Result<_, _>>()?;
    Ok(vec![cx.tensor_of(cx.tensor(0)?.dims(), &map_each)?])
}

/// Collects the results of `f` on the strings of input 0.
fn map_each<'a, T>(
    cx: &TensorCx<'a>,
    f: impl Fn(&[u8]) -> Result<T, String> + 'a,
) -> Result<impl Iterator<Item = Result<T, KernelError>> + 'a, KernelError>
where
    T: 'a,
{
    let mut stop = cx.stop_check();
    Ok(cx.strings(0)?.iter().enumerate().map(move |(element, s)| {
        stop.tick()?;
        f(s).map_err(|reason| KernelError::Element {
            input: 0,
            element,
            reason,
        })
    }))
}

/// A string as it appears in a message.
pub(super) fn quoted_escaped(s: &[u8]) -> String {
    format!("\"{}\"", s.escape_ascii())
}
