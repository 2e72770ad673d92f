//! GPU launches of copies by tables, and of sums along axes.

use std::sync::Arc;

use thalweg_device::gpu::{ALIGNMENT, Arg, Launch, Launches};
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
}

/// Computation of the elements along an axis from those along it.
#[derive(Clone, Debug)]
pub(crate) enum AlongAxis {
    /// Sums of listed elements, without weights, in the dtype of the input.
    Sum(AxisLists),
    /// Sums of listed elements with their weights, in `f32`.
    WeightedSum(AxisLists),
    /// By element: the two that it lies between, and the fraction of the way from the first to the second, in `f32`.
    /// Exact where both are equal.
    Lerp(Vec<(usize, usize, f32)>),
}

impl AlongAxis {
    /// Number of elements of the result.
    fn len(&self) -> usize {
        match self {
            AlongAxis::Sum(lists) | AlongAxis::WeightedSum(lists) => lists.starts.len() - 1,
            AlongAxis::Lerp(pairs) => pairs.len(),
        }
    }

    /// The function of `kernels/tables.cu`, and its tables.
    fn kernel(&self) -> (&'static str, Vec<Arc<[u64]>>) {
        let bits = |of: &mut dyn Iterator<Item = f64>| of.map(f64::to_bits).collect();
        match self {
            AlongAxis::Sum(AxisLists { starts, from, .. }) => {
                let tables = [starts, from].map(|t| t.as_slice().into());
                ("SumAlongAxis", tables.into())
            }
            AlongAxis::WeightedSum(AxisLists {
                starts,
                from,
                weights,
            }) => {
                let weights = bits(&mut weights.iter().copied());
                let tables = [starts, from].map(|t| t.as_slice().into());
                (
                    "WeighAlongAxis",
                    tables.into_iter().chain([weights]).collect(),
                )
            }
            AlongAxis::Lerp(pairs) => {
                let low = pairs.iter().map(|p| p.0 as u64).collect();
                let high = pairs.iter().map(|p| p.1 as u64).collect();
                let fractions = bits(&mut pairs.iter().map(|p| f64::from(p.2)));
                ("LerpAlongAxis", vec![low, high, fractions])
            }
        }
    }
}

/// Computes output 0 from input 0, of these dimensions, along some axes, one after the other.
pub(crate) fn along_axes(
    p: &Prepare<'_>,
    dims: &[usize],
    axes: &[(usize, AlongAxis)],
) -> Result<Launches, KernelError> {
    let mut launches = Launches::default();
    if p.outputs[0].elements() == 0 {
        return Ok(launches);
    }
    let mut dims = dims.to_vec();
    let (mut from, mut dtype) = (Arg::Input(0), p.dtype(0));
    for (number, (axis, along)) in axes.iter().enumerate() {
        let inner: usize = dims[axis + 1..].iter().product();
        let sizes = [dims[*axis], along.len(), inner];
        let before: usize = dims.iter().product();
        dims[*axis] = along.len();
        let n: usize = dims.iter().product();
        let keeps_dtype = matches!(along, AlongAxis::Sum(_));
        let (to, result) = match number + 1 == axes.len() {
            true => (Arg::Output(0), p.outputs[0].dtype),
            false => {
                let result = if keeps_dtype { dtype } else { DType::F32 };
                let at = launches.scratch;
                let bytes = n.checked_mul(result.size());
                let bytes = bytes.and_then(|b| b.checked_next_multiple_of(ALIGNMENT));
                let end = bytes.and_then(|b| at.checked_add(b));
                launches.scratch = end.ok_or(KernelError::Memory { bytes: usize::MAX })?;
                (Arg::Scratch(at), result)
            }
        };
        let types = [dtype, result];
        let types = if keeps_dtype { &types[..1] } else { &types[..] };
        let (name, tables) = along.kernel();
        let launch = Launch::over(n.max(before), &TABLES, name, types);
        let launch = launch.arg(from).arg(to.clone());
        let launch = tables.into_iter().map(Arg::Table).fold(launch, Launch::arg);
        launches.list.push(launch.indices(&[n]).indices(&sizes));
        (from, dtype) = (to, result);
    }
    Ok(launches)
}
