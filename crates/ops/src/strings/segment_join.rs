//! Strings that belong together, joined.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg, arg_of, str_attr, type_attr, type_attr_or};
use thalweg_tensor::shape::elements;
use thalweg_tensor::{DType, Tensor};

use crate::array::unsorted_shape;

/// The most strings: a number that a file may choose decides how many there are.
const MOST: usize = 1 << 26;

fn join(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (input, ids) = (cx.tensor(0)?, cx.ints(1)?);
    let segments = usize::try_from(cx.int(2)?).map_err(|_| KernelError::Argument("a count"))?;
    let inner = input.dims().get(cx.tensor(1)?.dims().len()..);
    let inner = inner.ok_or(KernelError::Argument("slices"))?;
    let separator = cx.attrs().str("separator").as_bytes();
    let width = elements(inner);
    let count = segments.saturating_mul(width);
    if count > MOST {
        return Err(KernelError::Invalid(format!(
            "{segments} segments of {width} strings are too many: there may be {MOST}"
        )));
    }
    let mut joined = vec![Vec::new(); count];
    let slices = cx.strings(0)?.chunks(width.max(1));
    for (element, (&id, slice)) in ids.iter().zip(slices).enumerate() {
        let segment = usize::try_from(id).ok().filter(|&s| s < segments);
        let segment = segment.ok_or_else(|| KernelError::Element {
            input: 1,
            element,
            reason: format!("segment {id} is not within 0..{segments}"),
        })?;
        for (out, string) in joined[segment * width..].iter_mut().zip(slice) {
            // As in TensorFlow, nothing separates a string from empty ones before it.
            if !out.is_empty() {
                out.extend_from_slice(separator);
            }
            out.extend_from_slice(string);
        }
    }
    let dims: Vec<usize> = [segments]
        .into_iter()
        .chain(inner.iter().copied())
        .collect();
    Ok(vec![Tensor::strings(&dims, &joined)?])
}

/// Strings of one segment put together.
pub(crate) static UNSORTED_SEGMENT_JOIN: Op = Op {
    def: OpDef {
        name: "UnsortedSegmentJoin",
        summary: "The strings with each segment id put together in order, with a separator between.",
        inputs: &[
            arg_of("inputs", DType::String),
            arg("segment_ids", "Tindices"),
            arg("num_segments", "Tnumsegments").host(),
        ],
        outputs: &[arg_of("output", DType::String)],
        attrs: &[
            str_attr("separator", "", &[]),
            type_attr("Tindices", DType::INDICES),
            type_attr_or("Tnumsegments", DType::INDICES, DType::I32),
        ],
        shape: unsorted_shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(join)],
};
