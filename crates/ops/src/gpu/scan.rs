//! GPU launches of cumulative sums and products, and of the largest elements of rows.

use thalweg_device::Prepare;
use thalweg_device::gpu::{Launch, Launches};
use thalweg_tensor::DType;

use super::sources::{SCAN, TOP_K};

/// Maximum number of blocks of a grid.
const MAX_BLOCKS: usize = 1 << 16;

/// The same launch with a block for each line or row.
fn by_line(launch: Launch, lines: usize) -> Launch {
    Launch {
        blocks: lines.clamp(1, MAX_BLOCKS) as u32,
        ..launch
    }
}

/// Cumulative values along the middle one of three dimensions, by the function of `kernels/scan.cu` with the op's name.
pub(crate) fn scan(p: &Prepare<'_>, [len, inner]: [usize; 2]) -> Launches {
    let n = p.outputs[0].elements();
    if n == 0 {
        return Launches::default();
    }
    let lines = n / len;
    let flag = |name| u32::from(p.node.attrs.bool(name));
    let launch = Launch::over(n, &SCAN, p.node.op.name, &[p.dtype(0)])
        .input(0)
        .output(0)
        .indices(&[lines])
        .indices(&[len])
        .indices(&[inner])
        .value(flag("exclusive"))
        .value(flag("reverse"));
    by_line(launch, lines).into()
}

/// The largest elements of each row, and their indices.
pub(crate) fn top_k(p: &Prepare<'_>) -> Launches {
    let columns = p.dims(0).last().copied().unwrap_or(0);
    let k = p.output_dims(0).last().copied().unwrap_or(0);
    let n = p.inputs[0].elements();
    if n == 0 || k == 0 {
        return Launches::default();
    }
    let indices = p.outputs.get(1).map_or(DType::I32, |o| o.dtype);
    let launch = Launch::over(n, &TOP_K, "TopK", &[p.dtype(0), indices])
        .input(0)
        .output(0)
        .output(1)
        .indices(&[n / columns])
        .indices(&[columns])
        .indices(&[k]);
    by_line(launch, n / columns).into()
}

/// `true` for each target in input 1 that is among the `k` largest elements of its row.
pub(crate) fn in_top_k(p: &Prepare<'_>, k: i64) -> Launches {
    let columns = p.dims(0).last().copied().unwrap_or(0);
    let rows = p.inputs[1].elements();
    if rows == 0 {
        return Launches::default();
    }
    let longest = p.inputs[0].elements().max(rows);
    let launch = Launch::over(longest, &TOP_K, "InTopK", &[p.dtype(0), p.dtype(1)])
        .input(0)
        .input(1)
        .output(0)
        .indices(&[rows])
        .indices(&[columns])
        .value(k);
    by_line(launch, rows).into()
}
