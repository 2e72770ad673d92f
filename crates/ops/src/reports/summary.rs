//! ScalarSummary, HistogramSummary, ImageSummary, MergeSummary, TensorSummary, TensorSummaryV2: serialized
//! `Summary` messages.

use std::collections::HashSet;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{
    Allowed, Arg, AttrDef, Default, Gradient, arg, arg_of, attr, count_attr, int_attr, str_attr,
    type_attr, type_attr_or,
};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Tensor};

use super::encode::{append_scalar, histogram, image, numbers};
use super::wire::{Message, TAG, VALUE, fields};
use crate::support::shapes::{expect_scalar, scalar};

pub(super) const SUMMARY: &[Arg] = &[arg_of("summary", DType::String)];
// Field numbers of a `Value`.
const NODE_NAME: u32 = 7;
const TENSOR: u32 = 8;
const METADATA: u32 = 9;

fn output(summary: Message) -> Result<Vec<Tensor>, KernelError> {
    Ok(vec![Tensor::strings(&[], &[summary.0])?])
}

pub(super) fn tag<'a>(cx: &TensorCx<'a>) -> Result<&'a [u8], KernelError> {
    match cx.strings(0)?.only() {
        Some(one) => Ok(one),
        None => Err(KernelError::Argument("one tag")),
    }
}

/// Summary of numbers with their tags.
pub(crate) static SCALAR: Op = Op {
    def: OpDef {
        name: "ScalarSummary",
        summary: "A serialized summary of a number for each tag.",
        inputs: &[arg_of("tags", DType::String), arg("values", "T")],
        outputs: SUMMARY,
        attrs: &[type_attr("T", DType::NUMBERS)],
        shape: |cx| {
            let one = |i: usize| cx.shape(i).elements() == Some(1);
            if !(one(0) && one(1)) {
                cx.same(0, 1)?;
            }
            scalar(cx)
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let (tags, values) = (cx.strings(0)?, numbers(cx.tensor(1)?)?);
        let all = tags.iter().zip(values);
        output(all.fold(Message::default(), |summary, (tag, value)| {
            append_scalar(summary, tag, value as f32)
        }))
    })],
};

/// Summary of the distribution of numbers.
pub(crate) static HISTOGRAM_SUMMARY: Op = Op {
    def: OpDef {
        name: "HistogramSummary",
        summary: "A serialized summary with a histogram of a tensor's numbers, which must be finite.",
        inputs: &[arg_of("tag", DType::String), arg("values", "T")],
        outputs: SUMMARY,
        attrs: &[type_attr_or("T", DType::NUMBERS, DType::F32)],
        shape: |cx| {
            expect_scalar(cx, 0)?;
            scalar(cx)
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        output(Message(histogram(tag(cx)?, cx.tensor(1)?)?))
    })],
};

fn image_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    expect_scalar(cx, 0)?;
    let channels = cx.ranked(1, 4)?.dim(3);
    if !matches!(channels, None | Some(1 | 3 | 4)) {
        return Err(InferError::Value {
            input: 1,
            reason: format!(
                "images have 1, 3 or 4 channels in their last dimension: {}",
                cx.shape(1)
            ),
        });
    }
    let color = cx.attrs().tensor("bad_color");
    if color.is_none_or(|t| t.dtype() != DType::U8 || t.dims().len() != 1) {
        return Err(InferError::Attr {
            attr: "bad_color",
            reason: "it is a vector of u8, with a number for each channel".to_owned(),
        });
    }
    scalar(cx)
}

/// Summary of images.
pub(crate) static IMAGE: Op = Op {
    def: OpDef {
        name: "ImageSummary",
        summary: "A serialized summary with the first images of a batch as PNG; floats are scaled to 8 bits.",
        inputs: &[arg_of("tag", DType::String), arg("tensor", "T")],
        outputs: SUMMARY,
        attrs: &[
            AttrDef {
                allowed: Allowed::AtLeast(1),
                ..int_attr("max_images", 3)
            },
            type_attr_or(
                "T",
                &[DType::U8, DType::F32, DType::F16, DType::F64],
                DType::F32,
            ),
            attr("bad_color", AttrKind::Tensor),
        ],
        shape: image_shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let most = usize::try_from(cx.attrs().int("max_images")).unwrap_or(usize::MAX);
        let color = cx.attrs().tensor("bad_color");
        let color = color.ok_or(KernelError::Argument("bad_color"))?;
        let color = color.as_slice::<u8>()?;
        output(Message(image(tag(cx)?, cx.tensor(1)?, most, color)?))
    })],
};

fn merge(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let mut tags: HashSet<&[u8]> = HashSet::new();
    let mut merged = Message::default();
    for input in 0..cx.inputs() {
        for (element, summary) in cx.strings(input)?.iter().enumerate() {
            let wrong = |reason: String| KernelError::Element {
                input,
                element,
                reason,
            };
            let no_summary = || wrong("it is no serialized summary".to_owned());
            for (field, value) in fields(summary).ok_or_else(no_summary)? {
                if field != u64::from(VALUE) {
                    continue;
                }
                let own = fields(value).ok_or_else(no_summary)?;
                let tag = own.iter().rfind(|(field, _)| *field == u64::from(TAG));
                if let Some((_, tag)) = tag
                    && !tag.is_empty()
                    && !tags.insert(tag)
                {
                    return Err(wrong(format!(
                        "Duplicate tag {} found in summary inputs",
                        tag.escape_ascii()
                    )));
                }
                merged = merged.bytes(VALUE, value);
            }
        }
    }
    output(merged)
}

/// Merges several summaries.
pub(crate) static MERGE: Op = Op {
    def: OpDef {
        name: "MergeSummary",
        summary: "The values of several serialized summaries in one; no two may have the same tag.",
        inputs: &[arg_of("inputs", DType::String).list("N")],
        outputs: SUMMARY,
        attrs: &[count_attr("N")],
        shape: scalar,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(merge)],
};

/// A `TensorProto` (`tensorflow/core/framework/tensor.proto`) with the elements as bytes.
fn tensor_proto(tensor: &Tensor) -> Result<Message, KernelError> {
    // Values of `DataType` in types.proto.
    let dtype = match tensor.dtype() {
        DType::F32 => 1,
        DType::F64 => 2,
        DType::I32 => 3,
        DType::U8 => 4,
        DType::I16 => 5,
        DType::I8 => 6,
        DType::C64 => 8,
        DType::I64 => 9,
        DType::String => 7,
        DType::Bool => 10,
        DType::QI8 => 11,
        DType::QU8 => 12,
        DType::QI32 => 13,
        DType::BF16 => 14,
        DType::QI16 => 15,
        DType::QU16 => 16,
        DType::U16 => 17,
        DType::C128 => 18,
        DType::F16 => 19,
        DType::U32 => 22,
        DType::U64 => 23,
        other => return Err(KernelError::DType(other)),
    };
    let shape = tensor
        .dims()
        .iter()
        .fold(Message::default(), |shape, &size| {
            let dim = match size {
                0 => Message::default(),
                size => Message::default().int(1, size as u64),
            };
            shape.bytes(2, &dim.0)
        });
    let proto = Message::default().int(1, dtype).bytes(2, &shape.0);
    if let Ok(strings) = tensor.as_strings() {
        return Ok(strings.iter().fold(proto, |proto, s| proto.bytes(8, s)));
    }
    Ok(match tensor.bytes() {
        [] => proto,
        bytes => proto.bytes(4, bytes),
    })
}

/// Summary of a tensor, by the name of the node.
pub(crate) static TENSOR_SUMMARY: Op = Op {
    def: OpDef {
        name: "TensorSummary",
        summary: "A serialized summary with a tensor, named as the node.",
        inputs: &[arg("tensor", "T")],
        outputs: SUMMARY,
        attrs: &[
            type_attr("T", &DType::ALL),
            str_attr("description", "", &[]),
            AttrDef {
                default: Default::Empty(AttrKind::Strs),
                ..attr("labels", AttrKind::Strs)
            },
            str_attr("display_name", "", &[]),
        ],
        shape: scalar,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let name = cx.node().name.as_bytes();
        let value = Message::default().bytes(NODE_NAME, name);
        let value = value.bytes(TENSOR, &tensor_proto(cx.tensor(0)?)?.0);
        output(Message::default().bytes(VALUE, &value.0))
    })
    .only(&[("T", DType::ELEMENTS)])],
};

fn tagged_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    expect_scalar(cx, 0)?;
    expect_scalar(cx, 2)?;
    scalar(cx)
}

/// Summary of a tensor with its tag.
pub(crate) static TENSOR_SUMMARY_V2: Op = Op {
    def: OpDef {
        name: "TensorSummaryV2",
        summary: "A serialized summary with a tensor and metadata for readers.",
        inputs: &[
            arg_of("tag", DType::String),
            arg("tensor", "T"),
            arg_of("serialized_summary_metadata", DType::String),
        ],
        outputs: SUMMARY,
        attrs: &[type_attr("T", &DType::ALL)],
        shape: tagged_shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let Some(metadata) = cx.strings(2)?.only() else {
            return Err(KernelError::Argument("one string"));
        };
        let value = Message::default().bytes(TAG, tag(cx)?);
        let value = value.bytes(TENSOR, &tensor_proto(cx.tensor(1)?)?.0);
        let value = value.bytes(METADATA, metadata);
        output(Message::default().bytes(VALUE, &value.0))
    })
    .only(&[("T", DType::ELEMENTS)])],
};
