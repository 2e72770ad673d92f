//! UnsortedSegmentJoin.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg, arg_of, str_attr, type_attr, type_attr_or};
use thalweg_tensor::shape::elements;
use thalweg_tensor::{DType, Tensor};

use crate::array::segment::unsorted_shape;

/// Maximum number of strings, since a file may ask for any.
const MAX_STRINGS: usize = 1 << 26;

fn join(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (input, ids) = (cx.tensor(0)?, cx.ints(1)?);
    let segments = usize::try_from(cx.int(2)?).map_err(|_| KernelError::Argument("a count"))?;
    let inner = input.dims().get(cx.tensor(1)?.dims().len()..);
    let inner = inner.ok_or(KernelError::Argument("slices"))?;
    let separator = cx.attrs().str("separator").as_bytes();
    let width = elements(inner);
    let count = segments.saturating_mul(width);
    if count > MAX_STRINGS {
        return Err(KernelError::Invalid(format!(
            "{segments} segments of {width} strings are too many: there may be {MAX_STRINGS}"
        )));
    }
    // The slices of each segment, in order: by segment, and within it by position.
    let mut order: Vec<(usize, usize)> = Vec::with_capacity(ids.len());
    for (element, &id) in ids.iter().enumerate() {
        let segment = usize::try_from(id).ok().filter(|&s| s < segments);
        let segment = segment.ok_or_else(|| KernelError::Element {
            input: 1,
            element,
            reason: format!("segment {id} is not within 0..{segments}"),
        })?;
        order.push((segment, element));
    }
    order.sort_unstable();
    let dims: Vec<usize> = [segments]
        .into_iter()
        .chain(inner.iter().copied())
        .collect();
    let strings = cx.strings(0)?;
    let mut joined = cx.string_tensor(&dims)?;
    let mut rest = &order[..];
    for segment in 0..segments {
        let count = rest.iter().take_while(|(own, _)| *own == segment).count();
        let (own, after) = rest.split_at(count);
        rest = after;
        for at in 0..width {
            for (_, element) in own {
                let string = strings.get(element * width + at);
                // As in TensorFlow, no separator follows leading empty strings.
                if !joined.open().is_empty() {
                    joined.extend(separator)?;
                }
                joined.extend(string.ok_or(KernelError::Argument("a string"))?)?;
            }
            joined.end();
        }
    }
    Ok(vec![joined.finish()?])
}

/// Joins the strings of each segment.
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
