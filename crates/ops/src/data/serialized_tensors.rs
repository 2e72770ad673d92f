//! ParseTensor, SerializeTensor: tensors as serialized `TensorProto` messages.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg, arg_of, type_attr};
use thalweg_graphdef::messages::TensorProto;
use thalweg_graphdef::tensor::{Budget, elements_bytes, from_proto, to_content_proto, to_proto};
use thalweg_graphdef::{file, sizes};
use thalweg_tensor::{DType, Shape, Tensor};

use crate::flow::rows::slice_elements;
use crate::support::shapes::expect_scalar;
use crate::support::tensors::reserved;

/// The tensor of a serialized message. A few bytes can stand for any number of elements: they count against the memory
/// before they are there.
pub(crate) fn parsed(cx: &TensorCx<'_>, bytes: &[u8]) -> Result<Tensor, KernelError> {
    let wrong = |why: &dyn std::fmt::Display| {
        KernelError::Invalid(format!("Could not parse serialized proto: {why}"))
    };
    let size = sizes::decoded_bytes::<TensorProto>(bytes, u64::MAX).map_err(|e| wrong(&e))?;
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let _message = reserved(size, Some(cx.memory()))?;
    let message: TensorProto =
        file::decode(bytes, "the string", "TensorProto").map_err(|e| wrong(&e))?;
    let size = elements_bytes(&message).map_err(|e| wrong(&e))?;
    let _elements = reserved(size, Some(cx.memory()))?;
    let tensor = from_proto(&message, &mut Budget::new(size)).map_err(|e| wrong(&e))?;
    slice_elements(cx.memory(), &tensor, 0, tensor.dims())
}

/// A tensor as a serialized message. TensorFlow has strings in a list, and in one piece if `packed`.
pub(crate) fn serialized(
    cx: &TensorCx<'_>,
    tensor: &Tensor,
    packed: bool,
) -> Result<Vec<u8>, KernelError> {
    let size = match tensor.dtype() {
        DType::String => tensor.as_strings()?.iter().map(|s| s.len() + 8).sum(),
        _ => tensor.bytes().len(),
    };
    // The message, and its bytes.
    let _held = reserved(2 * size, Some(cx.memory()))?;
    let message = match tensor.dtype() {
        DType::String if !packed => to_proto(tensor),
        _ => to_content_proto(tensor),
    };
    let message = message.map_err(|e| KernelError::Invalid(e.to_string()))?;
    Ok(file::encode(&message))
}

/// Reads a tensor from its bytes.
pub(crate) static PARSE_TENSOR: Op = Op {
    def: OpDef {
        name: "ParseTensor",
        summary: "The tensor that a serialized TensorProto holds.",
        inputs: &[arg_of("serialized", DType::String)],
        outputs: &[arg("output", "out_type")],
        attrs: &[type_attr("out_type", &DType::ALL)],
        shape: |cx| {
            expect_scalar(cx, 0)?;
            cx.set(0, Shape::unknown());
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let Some(bytes) = cx.strings(0)?.only() else {
            return Err(KernelError::Argument("one string"));
        };
        let tensor = parsed(cx, bytes)?;
        match cx.attrs().dtype("out_type") {
            Some(asked) if asked != tensor.dtype() => Err(KernelError::Invalid(format!(
                "the serialized tensor is of {}, but out_type is {asked}",
                tensor.dtype()
            ))),
            _ => Ok(vec![tensor]),
        }
    })],
};

/// Writes a tensor as bytes.
pub(crate) static SERIALIZE_TENSOR: Op = Op {
    def: OpDef {
        name: "SerializeTensor",
        summary: "A tensor as a serialized TensorProto.",
        inputs: &[arg("tensor", "T")],
        outputs: &[arg_of("serialized", DType::String)],
        attrs: &[type_attr("T", &DType::ALL)],
        shape: crate::support::shapes::scalar,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let bytes = serialized(cx, cx.tensor(0)?, false)?;
        Ok(vec![cx.strings_of(&[], [bytes])?])
    })],
};
