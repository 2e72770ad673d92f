//! StringFormat.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Gradient, arg_of, args_of, int_attr, str_attr, types_attr};
use thalweg_graph::{InferError, OpDef};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Shape, Tensor};

use super::summarize::summary_v2;

fn format(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (template, placeholder) = (cx.attrs().str("template"), cx.attrs().str("placeholder"));
    let max_elements = cx.attrs().int("summarize");
    let mut pieces = template.split(placeholder);
    let mut text = cx.string_tensor(&[])?;
    text.extend(pieces.next().unwrap_or("").as_bytes())?;
    for (i, piece) in pieces.enumerate() {
        summary_v2(&mut text, cx.tensor(i)?, max_elements)?;
        text.extend(piece.as_bytes())?;
    }
    text.end();
    Ok(vec![text.finish()?])
}

/// Inserts tensors at the placeholders of a template.
pub(crate) static FORMAT: Op = Op {
    def: OpDef {
        name: "StringFormat",
        summary: "A template, with a tensor's first and last elements for each of its placeholders.",
        inputs: &[args_of("inputs", "T")],
        outputs: &[arg_of("output", DType::String)],
        attrs: &[
            types_attr("T"),
            str_attr("template", "%s", &[]),
            str_attr("placeholder", "%s", &[]),
            int_attr("summarize", 3),
        ],
        shape: |cx| {
            let (template, placeholder) =
                (cx.attrs().str("template"), cx.attrs().str("placeholder"));
            if placeholder.is_empty() {
                return Err(InferError::Attr {
                    attr: "placeholder",
                    reason: "it is empty, and stands everywhere".to_owned(),
                });
            }
            let places = template.matches(placeholder).count();
            if places != cx.inputs() {
                return Err(InferError::Attr {
                    attr: "template",
                    reason: format!(
                        "it has {} for {}: give as many",
                        counted(places, "placeholder"),
                        counted(cx.inputs(), "tensor")
                    ),
                });
            }
            cx.set(0, Shape::scalar());
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(format)],
};
