//! Conv: a convolution in two or three dimensions, over any number of batch dimensions.

use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{AttrDef, arg, attr, int_attr, ints_attr, str_attr};
use thalweg_graph::{AttrKind, Attrs, Infer, InferError, OpDef};
use thalweg_tensor::Shape;

use super::conv_kernels::convolution;
use super::conv2d::{self, PADDING, grouped_shape};
use super::conv3d;
use super::format::Sliding;
use super::geometry::grouped_geometry;
use super::volumes::Volumes;
use crate::support::conv_groups::ConvDirection;

const ATTRS: &[AttrDef] = &[
    conv2d::ATTRS[0],
    attr("strides", AttrKind::Ints),
    PADDING,
    ints_attr("explicit_paddings", &[]),
    str_attr(
        "data_format",
        "CHANNELS_LAST",
        &["CHANNELS_FIRST", "CHANNELS_LAST"],
    ),
    ints_attr("dilations", &[]),
    int_attr("batch_dims", 1),
    int_attr("groups", 1),
];

/// Number of batch dimensions of an input of this rank.
fn batch_dims(attrs: &Attrs, rank: usize) -> Result<usize, InferError> {
    let groups = attrs.int("groups");
    if groups != 1 {
        return Err(InferError::Unsupported(format!(
            "groups is {groups}: leave it at 1, the channels of input and filter tell the groups"
        )));
    }
    let error = |reason: String| InferError::Attr {
        attr: "batch_dims",
        reason,
    };
    let batch = attrs.int("batch_dims");
    let batch = usize::try_from(batch).ok().filter(|&batch| batch > 0);
    match batch {
        Some(batch) if matches!(rank.checked_sub(batch), Some(3 | 4)) => Ok(batch),
        _ => Err(error(format!(
            "is {}, of an input of rank {rank}: two or three spatial dimensions and the channels come after them",
            attrs.int("batch_dims")
        ))),
    }
}

/// The dimensions with those of the batch multiplied.
fn flattened<T: Copy>(dims: &[T], batch: usize, multiply: impl Fn(T, T) -> T) -> Vec<T> {
    let (first, rest) = dims.split_at(batch);
    let mut all: Vec<T> = first.iter().copied().reduce(multiply).into_iter().collect();
    all.extend(rest);
    all
}

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let Some(dims) = cx.shape(0).dims().map(<[_]>::to_vec) else {
        cx.set(0, Shape::unknown());
        return Ok(());
    };
    let batch = batch_dims(cx.attrs(), dims.len())?;
    let flat = flattened(&dims, batch, |a, b| a?.checked_mul(b?));
    let (flat, filter) = (Shape::partial(flat.clone()), cx.ranked(1, flat.len())?);
    let out = match flat.rank() {
        Some(4) => grouped_shape(&Sliding::of(cx.attrs())?, 0, &flat, &filter)?,
        _ => conv3d::output_shape(&Volumes::of(cx.attrs())?, 0, &flat, &filter)?,
    };
    let rest = out.dims().unwrap_or(&[]).iter().skip(1).copied();
    cx.set(0, Shape::partial(dims[..batch].iter().copied().chain(rest)));
    Ok(())
}

fn prepare(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let batch = batch_dims(&p.node.attrs, p.dims(0).len());
    let batch = batch.map_err(|e| KernelError::Invalid(e.to_string()))?;
    let flat = flattened(p.dims(0), batch, usize::saturating_mul);
    match *flat {
        [_, _, _, _] => {
            let groups = grouped_geometry(&Sliding::of_node(p)?, &flat, p.dims(1))?;
            convolution(p, ConvDirection::Forward, groups)
        }
        _ => conv3d::forward(p, &flat),
    }
}

/// Convolution of images or volumes with a filter.
pub(crate) static CONV: Op = Op {
    def: OpDef {
        name: "Conv",
        summary: "The convolution of images or volumes, in a batch of one or more dimensions, with a filter.",
        inputs: &[arg("input", "T"), arg("filter", "T")],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(prepare)],
};
