//! GPU launches of copies by tables, and of sums along axes.

use std::sync::Arc;

use thalweg_device::gpu::{Arg, Launch, Launches};
use thalweg_device::{KernelError, Prepare};
use thalweg_tensor::DType;

use super::fill::zero;
use super::sources::TABLES;
use super::strided_copy::by_size;

/// Maximum number of axes in `kernels/tables.cu`, without those that are adjacent in both tensors.
const MAX_AXES: usize = 8;

/// Fills each element of output 0 from the element of input 0 at its offset.
pub(crate) fn gather_by_tables(
    p: &Prepare<'_>,
    tables: &[Vec<usize>],
    each: usize,
) -> Result<Launches, KernelError> {
    let n = p.outputs[0].elements();
    Ok(by_tables(p, ("GatherByTables", n), tables, each)?.into())
}

/// Copies each element of input 0 to its offset in output 0; other elements are zeros.
pub(crate) fn scatter_by_tables(
    p: &Prepare<'_>,
    tables: &[Vec<usize>],
    each: usize,
) -> Result<Launches, KernelError> {
    let n = p.inputs[0].elements();
    let mut launches = Launches::default();
    launches.list.push(zero(p, 0)?);
    if n > 0 {
        let scatter = by_tables(p, ("ScatterByTables", n), tables, each)?;
        launches.list.push(scatter);
    }
    Ok(launches)
}

fn by_tables(
    p: &Prepare<'_>,
    (name, n): (&'static str, usize),
    tables: &[Vec<usize>],
    each: usize,
) -> Result<Launch, KernelError> {
    if tables.len() > MAX_AXES {
        return Err(KernelError::Invalid(format!(
            "its elements move along {} axes; a GPU's kernel takes {MAX_AXES}: Reshape, or place it on a CPU",
            tables.len()
        )));
    }
    let mut sizes = [0; 2 + 2 * MAX_AXES];
    (sizes[0], sizes[1]) = (tables.len(), each);
    let mut all: Vec<u64> = Vec::new();
    for (axis, table) in tables.iter().enumerate() {
        sizes[2 + axis] = table.len();
        sizes[2 + MAX_AXES + axis] = all.len();
        all.extend(table.iter().map(|&at| at as u64));
    }
    let longest = n.max(p.inputs[0].elements()).max(p.outputs[0].elements());
    let launch = Launch::over(longest, &TABLES, name, &[by_size(p.dtype(0))?]);
    let launch = launch.input(0).output(0).arg(Arg::Table(all.into()));
    Ok(launch.indices(&[n]).indices(&sizes))
}

/// Lists of the elements along an axis that each element of a result is the sum of.
#[derive(Clone, Debug, Default)]
pub(crate) struct AxisLists {
    /// By element of the result: where its list begins, and behind them the end of the last.
    starts: Vec<u64>,
    from: Vec<u64>,
    weights: Vec<f64>,
    /// Number of elements of the result.
    len: usize,
}

impl AxisLists {
    /// By element of the result: the elements that it is the sum of, each with its weight.
    pub(crate) fn new<L>(lists: impl IntoIterator<Item = L>) -> AxisLists
    where
        L: IntoIterator<Item = (usize, f32)>,
    {
        let mut all = AxisLists {
            starts: vec![0],
            ..AxisLists::default()
        };
        for list in lists {
            for (from, weight) in list {
                all.from.push(from as u64);
                all.weights.push(f64::from(weight));
            }
            all.starts.push(all.from.len() as u64);
            all.len += 1;
        }
        all
    }

    /// The lists of the gradient: each of these elements, of which there are `len`, is the sum of the results that have
    /// it.
    pub(crate) fn transposed(&self, len: usize) -> AxisLists {
        let mut lists = vec![Vec::new(); len];
        for (to, ends) in self.starts.windows(2).enumerate() {
            for k in ends[0] as usize..ends[1] as usize {
                lists[self.from[k] as usize].push((to, self.weights[k] as f32));
            }
        }
        AxisLists::new(lists)
    }

    /// Tables of [`AxisSum::Lerp`]: by element of the result the two elements that it lies between, in place of starts and
    /// lists, and the fraction of the way from the first to the second.
    pub(crate) fn between(pairs: impl IntoIterator<Item = (usize, usize, f32)>) -> AxisLists {
        let mut all = AxisLists::default();
        for (low, high, fraction) in pairs {
            all.starts.push(low as u64);
            all.from.push(high as u64);
            all.weights.push(f64::from(fraction));
            all.len += 1;
        }
        all
    }
}

/// Kind of a sum along axes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AxisSum {
    /// Without weights, in the dtype of input and output.
    Plain,
    /// With weights, in `f32`.
    Weighted,
    /// Between two elements, in `f32`: exact where both are equal.
    Lerp,
}

/// Sums input 0, of these dimensions, along some axes, one after the other, to output 0.
pub(crate) fn sum_along(
    p: &Prepare<'_>,
    kind: AxisSum,
    dims: &[usize],
    axes: &[(usize, AxisLists)],
) -> Result<Launches, KernelError> {
    let mut launches = Launches::default();
    if p.outputs[0].elements() == 0 {
        return Ok(launches);
    }
    let mut dims = dims.to_vec();
    let between = match kind {
        AxisSum::Plain => p.dtype(0),
        AxisSum::Weighted | AxisSum::Lerp => DType::F32,
    };
    let (mut from, mut dtype) = (Arg::Input(0), p.dtype(0));
    for (number, (axis, lists)) in axes.iter().enumerate() {
        let inner: usize = dims[axis + 1..].iter().product();
        let sizes = [dims[*axis], lists.len, inner];
        let before: usize = dims.iter().product();
        dims[*axis] = lists.len;
        let n: usize = dims.iter().product();
        let (to, result) = match number + 1 == axes.len() {
            true => (Arg::Output(0), p.outputs[0].dtype),
            false => {
                let at = launches.scratch;
                let bytes = n.checked_mul(between.size());
                let bytes = bytes.and_then(|b| b.checked_next_multiple_of(256));
                let end = bytes.and_then(|b| at.checked_add(b));
                launches.scratch = end.ok_or(KernelError::Memory { bytes: usize::MAX })?;
                (Arg::Scratch(at), between)
            }
        };
        let (name, types) = match kind {
            AxisSum::Plain => ("SumAlongAxis", &[dtype][..]),
            AxisSum::Weighted => ("WeighAlongAxis", &[dtype, result][..]),
            AxisSum::Lerp => ("LerpAlongAxis", &[dtype, result][..]),
        };
        let launch = Launch::over(n.max(before), &TABLES, name, types);
        let mut launch = launch.arg(from).arg(to.clone());
        launch = launch.arg(Arg::Table(lists.starts.as_slice().into()));
        launch = launch.arg(Arg::Table(lists.from.as_slice().into()));
        if kind != AxisSum::Plain {
            let weights: Arc<[u64]> = lists.weights.iter().map(|w| w.to_bits()).collect();
            launch = launch.arg(Arg::Table(weights));
        }
        launches.list.push(launch.indices(&[n]).indices(&sizes));
        (from, dtype) = (to, result);
    }
    Ok(launches)
}
