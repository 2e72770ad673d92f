//! Slices of variables of strings and handles: ResourceGather, and ResourceScatterNdUpdate of strings.

use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::shape::{checked_elements, elements};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Tensor};

use super::row_indices::{RowIndices, batch_dims, shape_mismatch};
use crate::support::tensors::{AccountedVec, take_slices};

/// Stands for an element that keeps its value.
const KEPT: usize = usize::MAX;

/// The slices at indices, of any dtype.
pub(super) fn gather(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (value, indices) = (cx.variable(0)?.read()?, cx.tensor(1)?);
    let (dims, own) = (value.dims(), indices.dims());
    let batch = batch_dims(cx.attrs().int("batch_dims"), own.len());
    let batch = batch.filter(|&b| b < dims.len() && dims[..b] == own[..b]);
    let batch = batch.ok_or_else(|| shape_mismatch(&value.shape()))?;
    let (len, count) = (dims[batch], elements(&own[batch..]).max(1));
    let to = [own, &dims[batch + 1..]].concat();
    if checked_elements(&to).is_none() {
        return Err(KernelError::Argument("so many slices"));
    }
    let checks = RowIndices::at(1, indices.dtype());
    let row = |(i, at): (usize, i64)| Ok(i / count * len + checks.checked(i, at, len)?);
    let rows = cx.ints(1)?.into_iter().enumerate().map(row);
    let rows: Vec<usize> = rows.collect::<Result<_, KernelError>>()?;
    let width = elements(&dims[batch + 1..]);
    Ok(vec![take_slices(cx, &value, &rows, width, &to)?])
}

/// Replaces slices of strings.
pub(super) fn scatter_nd_update(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (variable, indices, updates) = (cx.variable(0)?, cx.tensor(1)?, cx.strings(2)?);
    if variable.dtype() != DType::String {
        return Err(KernelError::DType(variable.dtype()));
    }
    let at = cx.ints(1)?;
    // No other update comes between.
    let mut held = variable.lock();
    let value = held.as_ref().ok_or_else(|| variable.uninitialized())?;
    let depth = indices.dims().last().copied().unwrap_or(0);
    let (Some(named), Some(left)) = (value.dims().get(..depth), value.dims().get(depth..)) else {
        return Err(shape_mismatch(&value.shape()));
    };
    let (width, slices) = (
        elements(left),
        elements(&indices.dims()[..indices.dims().len().saturating_sub(1)]),
    );
    if updates.len() != slices.saturating_mul(width) {
        return Err(KernelError::Invalid(format!(
            "there are {} for {} of {}",
            counted(updates.len(), "update"),
            counted(slices, "slice"),
            counted(width, "element")
        )));
    }
    let lenient = cx.attrs().str("bad_indices_policy") == "IGNORE";
    let checks = RowIndices::at(1, indices.dtype());
    let mut stop = cx.stop_check();
    let mut source = AccountedVec::filled(value.len(), KEPT, cx.memory())?;
    for slice in 0..slices {
        stop.tick()?;
        let place = (0..depth).try_fold(0, |start, entry| {
            let i = slice * depth + entry;
            Ok(start * named[entry] + checks.checked(i, at[i], named[entry])?)
        });
        match place {
            Ok(start) => {
                let own = source[start * width..][..width].iter_mut();
                own.enumerate().for_each(|(k, to)| *to = slice * width + k);
            }
            Err(_) if lenient => {}
            Err(error) => return Err(error),
        }
    }
    let old = value.as_strings()?;
    let new = source.iter().zip(old).map(|(&update, old)| match update {
        KEPT => old,
        update => &updates[update],
    });
    let new = cx.strings_of(value.dims(), new)?;
    *held = Some(new);
    Ok(Vec::new())
}
