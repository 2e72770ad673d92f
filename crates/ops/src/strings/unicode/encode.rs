//! UnicodeEncode.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg, arg_of, type_attr_or};
use thalweg_tensor::{DType, Shape, Tensor};

use super::encoding::Encoding;
use super::malformed::{
    ERRORS, Malformed, OUTPUT_ENCODING, REPLACEMENT, check_attrs, is_character,
};
use crate::strings::ragged_rows::ragged_rows;

/// Strings of code points.
pub(crate) static ENCODE: Op = Op {
    def: OpDef {
        name: "UnicodeEncode",
        summary: "A string for each row of a ragged matrix of code points.",
        inputs: &[
            arg_of("input_values", DType::I32),
            arg("input_splits", "Tsplits"),
        ],
        outputs: &[arg_of("output", DType::String)],
        attrs: &[
            ERRORS,
            OUTPUT_ENCODING,
            REPLACEMENT,
            type_attr_or("Tsplits", DType::INDICES, DType::I64),
        ],
        shape: |cx| {
            check_attrs(cx)?;
            cx.ranked(0, 1)?;
            let splits = cx.ranked(1, 1)?.dim(0);
            cx.set(0, Shape::partial([splits.and_then(|n| n.checked_sub(1))]));
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(encode)],
};

fn encode(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let encoding = Encoding::of(cx.attrs().str("output_encoding"));
    let encoding = encoding.ok_or(KernelError::Argument("an encoding"))?;
    let malformed = Malformed::of(cx.attrs());
    let points = cx.slice::<i32>(0)?;
    let rows = ragged_rows(1, &cx.ints(1)?, points.len())?;
    let mut strings = cx.string_tensor(&[rows.len()])?;
    let (mut stop, mut bytes) = (cx.stop_check(), Vec::new());
    for row in rows {
        for at in row {
            stop.tick()?;
            let point = u32::try_from(points[at]).ok().filter(|p| is_character(*p));
            let point = malformed
                .code_point(point)
                .map_err(|_| KernelError::Element {
                    input: 0,
                    element: at,
                    reason: "Code point is out of range for Unicode, or a noncharacter. Set errors to 'replace' or 'ignore' to take it".to_owned(),
                })?;
            if let Some(point) = point {
                bytes.clear();
                encoding.write(point, &mut bytes);
                strings.extend(&bytes)?;
            }
        }
        strings.end();
    }
    Ok(vec![strings.finish()?])
}
