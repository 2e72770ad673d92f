//! OneHot.

use bytemuck::Pod;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{Gradient, arg, arg_of, int_attr, type_attr, type_attr_or};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape};

use crate::support::elementwise::CHUNK;
use crate::support::numbered_elements::numbered_kernel;
use crate::support::raw_elements::{by_size, input_as, output_as};
use crate::support::shape_inputs::{checked_shape, invalid_value, scalar_int};
use crate::support::shapes;
use crate::support::widened::with_i64_indices;

/// Position of the new axis in the output.
fn axis(axis: i64, rank: usize) -> Option<usize> {
    match axis {
        -1 => Some(rank),
        axis => usize::try_from(axis).ok().filter(|&a| a <= rank),
    }
}

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    shapes::expect_scalar(cx, 2)?;
    shapes::expect_scalar(cx, 3)?;
    let depth = match scalar_int(cx, 1)? {
        None => None,
        Some(d) => Some(
            usize::try_from(d)
                .map_err(|_| invalid_value(1, format!("a depth of {d}: use at least 0")))?,
        ),
    };
    let Some(dims) = cx.shape(0).dims() else {
        return Ok(());
    };
    let at = cx.attrs().int("axis");
    let axis = axis(at, dims.len()).ok_or_else(|| InferError::Attr {
        attr: "axis",
        reason: format!("{at} is no place for an axis: use -1..={}", dims.len()),
    })?;
    let (before, after) = dims.split_at(axis);
    let depth = [depth];
    let all = before.iter().chain(&depth).chain(after).copied();
    let shape = checked_shape(1, Shape::partial(all))?;
    cx.set(0, shape);
    Ok(())
}

/// Length of a row, and the stride between its elements.
fn rows(p: &Prepare<'_>) -> Result<(usize, usize), KernelError> {
    let out = p.output_dims(0);
    let place = axis(p.node.attrs.int("axis"), p.dims(0).len());
    let axis = place.ok_or(KernelError::Argument("an axis"))?;
    let depth = *out.get(axis).ok_or(KernelError::Argument("a depth"))?;
    Ok((depth, out[axis + 1..].iter().product()))
}

/// Kernel for elements `T` of the output.
fn prepare<T: Pod + Send + Sync>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let dtype = p.outputs[0].dtype;
    let (depth, inner) = rows(p)?;
    Ok(Prepared::new(p.outputs[0].elements(), move |cx| {
        let indices = cx.input::<i64>(0)?;
        let (on, off) = (input_as::<T>(cx, 2)?, input_as::<T>(cx, 3)?);
        let (&[on], &[off]) = (on, off) else {
            return Err(KernelError::Argument("two scalars"));
        };
        // SAFETY: only elements of two inputs of the same dtype are written to it.
        let out = unsafe { output_as::<T>(cx, 0, dtype) }?;
        for_chunks(cx.pool(), out, CHUNK, &|_, out| out.fill(off));
        for (i, &index) in indices.iter().enumerate() {
            // An index out of range sets no element.
            let index = usize::try_from(index).ok().filter(|&d| d < depth);
            if let Some(index) = index {
                out[(i / inner * depth + index) * inner + i % inner] = on;
            }
        }
        Ok(())
    }))
}

fn by_index<T: Pod + Send + Sync>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    with_i64_indices(p, &[0], &|p| prepare::<T>(p))
}

/// One-hot rows of indices.
pub(crate) static ONE_HOT: Op = Op {
    def: OpDef {
        name: "OneHot",
        summary: "For each index a row of depth elements: on_value where the index says, off_value elsewhere.",
        inputs: &[
            arg("indices", "TI"),
            arg_of("depth", DType::I32).host(),
            arg("on_value", "T"),
            arg("off_value", "T"),
        ],
        outputs: &[arg("output", "T")],
        attrs: &[
            int_attr("axis", -1),
            type_attr("T", &DType::ALL),
            type_attr_or(
                "TI",
                &[DType::U8, DType::I8, DType::I32, DType::I64],
                DType::I64,
            ),
        ],
        shape,
        // None, as in TensorFlow: the values are constants in practice.
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[
        numbered_kernel!(ONE_HOT, "T"),
        cpu(|p| by_size!(p.outputs[0].dtype, T => by_index::<T>(p))),
        gpu(|p| {
            let (depth, inner) = rows(p)?;
            crate::gpu::one_hot(p, depth, inner)
        }),
    ],
};
