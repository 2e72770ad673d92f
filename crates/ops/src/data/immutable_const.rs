//! ImmutableConst, Fact.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Effect, Gradient, arg, arg_of, attr, type_attr};
use thalweg_graph::{AttrKind, OpDef};
use thalweg_tensor::{DType, Tensor};

use crate::files::record_files::OpenFile;
use crate::support::shapes;

fn contents(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let attrs = cx.attrs();
    let (dtype, name) = (
        attrs.dtype("dtype").unwrap_or(DType::F32),
        attrs.str("memory_region_name"),
    );
    let dims = attrs.shape("shape").to_dims();
    let dims = dims.ok_or(KernelError::Argument("a known shape"))?;
    let (all, _held) = OpenFile::new(cx, name.as_bytes())?.contents(cx.memory())?;
    let needed = thalweg_tensor::shape::checked_elements(&dims)
        .and_then(|n| n.checked_mul(dtype.size()))
        .unwrap_or(usize::MAX);
    let bytes = all.get(..needed).ok_or_else(|| {
        KernelError::Invalid(format!(
            "Region '{name}' has {} bytes, and {needed} are needed",
            all.len()
        ))
    })?;
    let constant = Tensor::from_bytes_in(dtype, &dims, bytes, Some(cx.memory()))?;
    Ok(vec![constant])
}

/// A tensor whose elements are the bytes of a file.
pub(crate) static IMMUTABLE_CONST: Op = Op {
    def: OpDef {
        name: "ImmutableConst",
        summary: "A tensor whose elements are the bytes of a file, in the order of this machine.",
        outputs: &[arg("tensor", "dtype")],
        attrs: &[
            type_attr("dtype", DType::PLAIN),
            attr("shape", AttrKind::Shape),
            attr("memory_region_name", AttrKind::Str),
        ],
        shape: |cx| {
            cx.set(0, cx.attrs().shape("shape"));
            Ok(())
        },
        gradient: Gradient::None,
        effect: Effect::Stateful,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(contents)],
};

/// A fact.
pub(crate) static FACT: Op = Op {
    def: OpDef {
        name: "Fact",
        summary: "A fact about factorials.",
        outputs: &[arg_of("fact", DType::String)],
        shape: shapes::scalar,
        gradient: Gradient::None,
        effect: Effect::Stateful,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| Ok(vec![cx.strings_of(&[], ["0! == 1"])?]))],
};
