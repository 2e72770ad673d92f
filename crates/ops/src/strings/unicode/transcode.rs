//! UnicodeTranscode.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Gradient, arg_of, attr};
use thalweg_graph::{AttrKind, OpDef};
use thalweg_tensor::{DType, Tensor};

use super::encoding::Encoding;
use super::malformed::{
    ERRORS, Malformed, OUTPUT_ENCODING, REPLACE_CONTROL, REPLACEMENT, check_encoding,
};
use crate::strings::map_strings::try_map_strings;
use crate::support::shapes;

/// Strings in another encoding.
pub(crate) static TRANSCODE: Op = Op {
    def: OpDef {
        name: "UnicodeTranscode",
        summary: "Each string in another encoding of Unicode.",
        inputs: &[arg_of("input", DType::String)],
        outputs: &[arg_of("output", DType::String)],
        attrs: &[
            attr("input_encoding", AttrKind::Str),
            OUTPUT_ENCODING,
            ERRORS,
            REPLACEMENT,
            REPLACE_CONTROL,
        ],
        shape: |cx| {
            check_encoding(cx)?;
            shapes::unchanged(cx)
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(transcode)],
};

fn transcode(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let encoding = |attr: &str| {
        let found = Encoding::of(cx.attrs().str(attr));
        found.ok_or(KernelError::Argument("an encoding"))
    };
    let (from, to) = (encoding("input_encoding")?, encoding("output_encoding")?);
    let malformed = Malformed::of(cx.attrs());
    try_map_strings(cx, |s| {
        let mut out = Vec::new();
        from.read(s, &mut |read, _| {
            if let Some(point) = malformed.code_point(read)? {
                to.write(point, &mut out);
            }
            Ok::<(), String>(())
        })?;
        Ok(out)
    })
}
