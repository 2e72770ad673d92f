//! ResourceStridedSliceAssign, StridedSliceAssign.

use bytemuck::Pod;
use thalweg_device::{KernelCx, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Arg, Effect, Gradient, arg, arg_of};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape};

use super::stride_spec::spec;
use super::strided_slice::{ATTRS, spec_of, start, taken};
use crate::support::raw_elements::{by_size, input_as};
use crate::support::strided_copy::{CopyAxis, StridedCopy, steps};

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let Some((dtype, variable)) = cx.variable(0) else {
        return Ok(());
    };
    if cx.dtype(4) != dtype {
        return Err(InferError::Value {
            input: 4,
            reason: format!("the variable holds {dtype}, not {}", cx.dtype(4)),
        });
    }
    check_value(cx, &variable)?;
    cx.set_variable(0, dtype, variable);
    Ok(())
}

/// Checks that input 4 can be broadcast to the slice of a tensor of this shape. A slice without elements takes any.
pub(super) fn check_value(cx: &Infer<'_>, sliced: &Shape) -> Result<(), InferError> {
    let fits = |slice: &Shape| {
        let is_empty = slice.dims().is_some_and(|d| d.contains(&Some(0)));
        let whole = cx.shape(4).broadcast(slice);
        is_empty || whole.is_some_and(|w| w.merge(slice).is_some())
    };
    if let Some(spec) = spec(cx, 1, sliced)?
        && !fits(&spec.shape)
    {
        return Err(InferError::Mismatch {
            what: "the value must have the shape of the slice, or broadcast to it".to_owned(),
            left: cx.shape(4).clone(),
            right: spec.shape,
        });
    }
    Ok(())
}

/// The copy of a value, input 4, to the slice of a tensor of input 0's shape, and its number of elements.
pub(super) fn copy_to_slice(p: &Prepare<'_>) -> Result<(StridedCopy, usize), KernelError> {
    let (dims, value) = (p.dims(0), p.dims(4));
    let spec = spec_of(p, dims, 1)?;
    let (first, axes) = taken(&spec, dims);
    let start = start(first, &axes)?;
    let (own, rank) = (steps(value), spec.shape.rank().unwrap_or(0));
    // The value is broadcast: it has the last dimensions of the slice.
    let from = |kept: Option<usize>| {
        let d = (kept? + value.len()).checked_sub(rank)?;
        (*value.get(d)? != 1).then(|| own[d])
    };
    let axes: Vec<CopyAxis> = axes
        .into_iter()
        .zip(&spec.kept)
        .map(|((len, to, _), kept)| CopyAxis {
            len,
            from: from(*kept).unwrap_or(0),
            to,
        })
        .collect();
    let elements = axes.iter().fold(1, |n: usize, a| n.saturating_mul(a.len));
    Ok((StridedCopy::new(0, start, &axes)?, elements))
}

fn prepare(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let (moved, elements) = copy_to_slice(p)?;
    let dims = p.dims(0).to_vec();
    let dtype = p.dtype(4);
    Ok(Prepared::new(
        elements,
        move |cx| by_size!(dtype, T => assign::<T>(cx, &moved, &dims)),
    ))
}

fn assign<T: Pod + Send + Sync>(
    cx: &KernelCx<'_>,
    moved: &StridedCopy,
    dims: &[usize],
) -> Result<(), KernelError> {
    let value = input_as::<T>(cx, 4)?;
    let variable = cx.variable(0)?;
    let mut held = variable.lock();
    let Some(tensor) = held.as_mut() else {
        return Err(variable.uninitialized());
    };
    if tensor.dims() != dims {
        return Err(KernelError::Invalid(format!(
            "the variable has shape {}, which the slice was not made for",
            tensor.shape()
        )));
    }
    thalweg_tensor::dispatch!(tensor.dtype(), PLAIN, E => {
        let to = tensor.as_mut_slice::<E>()?;
        // SAFETY: only bytes of elements of the same dtype are written: the value has the variable's dtype.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(to.as_mut_ptr().cast::<u8>(), size_of_val(to))
        };
        match bytes.is_empty() {
            true => Ok(()),
            false => moved.run(cx.cpu(), value, bytemuck::try_cast_slice_mut(bytes)
                .map_err(|_| KernelError::Argument("elements of this size"))?),
        }
    }, else Err(KernelError::DType(tensor.dtype())))
}

const fn with_variable(variable: Arg) -> [Arg; 5] {
    [
        variable,
        arg("begin", "Index").host(),
        arg("end", "Index").host(),
        arg("strides", "Index").host(),
        arg("value", "T"),
    ]
}

/// Assigns to a slice of the variable behind a handle.
pub(crate) static RESOURCE_STRIDED_SLICE_ASSIGN: Op = Op {
    def: OpDef {
        name: "ResourceStridedSliceAssign",
        summary: "Gives the elements of a variable that StridedSlice would take other values.",
        inputs: &with_variable(arg_of("ref", DType::Resource)),
        attrs: ATTRS,
        shape,
        gradient: Gradient::None,
        effect: Effect::Write,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(prepare).only(&[("T", DType::PLAIN)])],
};

/// [`RESOURCE_STRIDED_SLICE_ASSIGN`] on a reference.
pub(crate) static STRIDED_SLICE_ASSIGN: Op = Op {
    def: OpDef {
        name: "StridedSliceAssign",
        summary: "Gives the elements of a variable that StridedSlice would take other values.",
        inputs: &with_variable(arg("ref", "T").reference()),
        outputs: &[arg("output_ref", "T").reference()],
        attrs: ATTRS,
        shape,
        gradient: Gradient::None,
        effect: Effect::Write,
        on_handles: Some("ResourceStridedSliceAssign"),
        ..OpDef::EMPTY
    },
    kernels: &[],
};
