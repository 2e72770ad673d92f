//! UnicodeScript.

use thalweg_device::{Op, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg_of};
use thalweg_tensor::DType;

use crate::support::shapes;

/// Entries of four bytes, in order: the first code point of a range, the lowest byte first, and the number of its script.
const SCRIPTS: &[u8] = include_bytes!("scripts.bin");
const LAST_CODE_POINT: u32 = 0x0010_ffff;
/// The script of what is no code point.
const NO_SCRIPT: i32 = -1;

/// The number of a code point's script in ICU's list.
fn script(point: i32) -> i32 {
    let Some(point) = u32::try_from(point).ok().filter(|&p| p <= LAST_CODE_POINT) else {
        return NO_SCRIPT;
    };
    let (ranges, _) = SCRIPTS.as_chunks::<4>();
    let after = ranges.partition_point(|&[a, b, c, _]| u32::from_le_bytes([a, b, c, 0]) <= point);
    let range = after.checked_sub(1).and_then(|i| ranges.get(i));
    range.map_or(NO_SCRIPT, |&[.., script]| script.into())
}

/// Scripts of code points.
pub(crate) static SCRIPT: Op = Op {
    def: OpDef {
        name: "UnicodeScript",
        summary: "The number of each code point's script in ICU's list, or -1 of what is no code point.",
        inputs: &[arg_of("input", DType::I32)],
        outputs: &[arg_of("output", DType::I32)],
        shape: shapes::unchanged,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let mut stop = cx.stop_check();
        let mut scripts = cx.zeros(DType::I32, cx.tensor(0)?.dims())?;
        for (to, &point) in scripts.as_mut_slice()?.iter_mut().zip(cx.slice::<i32>(0)?) {
            stop.tick()?;
            *to = script(point);
        }
        Ok(vec![scripts])
    })],
};
