//! LoadAndRemapMatrix.

use thalweg_checkpoint::{BundleReader, SliceSpec};
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{AttrDef, Effect, Gradient, arg_of, attr, int_attr};
use thalweg_graph::{AttrKind, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

use super::checkpoint_inputs::{disk, kernel_error, prefix};
use crate::support::accounted_map::AccountedMap;
use crate::support::shapes::expect_at_least;

const NUM_ROWS: AttrDef = attr("num_rows", AttrKind::Int);
const NUM_COLS: AttrDef = attr("num_cols", AttrKind::Int);

/// New numbers by old ones.
type NewNumbers = AccountedMap<i64, usize>;

/// Reverses a list of old numbers, of which negative ones are missing.
fn reversed(cx: &TensorCx<'_>, old: &[i64]) -> Result<NewNumbers, KernelError> {
    let (mut new, mut stop) = (AccountedMap::new(cx.memory()), cx.stop_check());
    for (i, &old) in old.iter().enumerate().filter(|(_, old)| **old >= 0) {
        stop.tick()?;
        if let Some(other) = new.get(&old) {
            return Err(KernelError::Invalid(format!(
                "Old ID {old} is mapped to both new ID {other} and {i}, which is not supported: map it to one"
            )));
        }
        new.or_insert(old, i, 0)?;
    }
    Ok(new)
}

/// The matrix in a checkpoint.
struct OldMatrix {
    reader: BundleReader,
    name: String,
    dims: [usize; 2],
}

impl OldMatrix {
    fn open(cx: &TensorCx<'_>) -> Result<OldMatrix, KernelError> {
        let disk = disk(cx.environment().files());
        let reader = BundleReader::open_on(&*disk, &prefix(cx, 0)?).map_err(kernel_error)?;
        let Some(name) = cx.strings(1)?.only() else {
            return Err(KernelError::Invalid(
                "old_tensor_name must be one string".to_owned(),
            ));
        };
        let name = String::from_utf8_lossy(name).into_owned();
        let missing =
            || KernelError::NotFound(format!("the checkpoint has no tensor named '{name}'"));
        let info = reader.info(&name).ok_or_else(missing)?;
        if info.dtype.known() != Some(DType::F32) {
            return Err(KernelError::Invalid(format!(
                "Tensor {name} has invalid type {} instead of expected type f32",
                info.dtype
            )));
        }
        let dims = <[usize; 2]>::try_from(&info.dims[..]).map_err(|_| {
            KernelError::Invalid(format!(
                "Tensor {name} has shape {:?} instead of expected shape of rank 2",
                info.dims
            ))
        })?;
        Ok(OldMatrix { reader, name, dims })
    }

    /// Rows from `first` on.
    fn rows(&self, first: usize, count: usize) -> Result<Tensor, KernelError> {
        let slice = SliceSpec::new(&self.dims, &[Some((first, count)), None]);
        let rows = self
            .reader
            .part(&self.name, Some(&slice.map_err(kernel_error)?));
        rows.map_err(kernel_error)
    }
}

/// Rows and columns of the new matrix.
struct NewMatrix<'a> {
    rows: &'a [i64],
    /// `None` where columns stay as they are.
    columns: Option<&'a [i64]>,
    width: usize,
}

fn new_matrix<'a>(cx: &TensorCx<'a>) -> Result<NewMatrix<'a>, KernelError> {
    let (rows, columns) = (cx.slice::<i64>(2)?, cx.slice::<i64>(3)?);
    let width = cx.attrs().int(NUM_COLS.name);
    let sizes = [
        (rows, NUM_ROWS.name, true),
        (columns, NUM_COLS.name, !columns.is_empty()),
    ];
    for (list, attr, given) in sizes {
        if given && i64::try_from(list.len()) != Ok(cx.attrs().int(attr)) {
            return Err(KernelError::Invalid(format!(
                "the remapping has {} entries instead of being equal to {attr}={}",
                list.len(),
                cx.attrs().int(attr)
            )));
        }
    }
    Ok(NewMatrix {
        rows,
        columns: Some(columns).filter(|c| !c.is_empty()),
        width: usize::try_from(width).unwrap_or(1),
    })
}

/// Copies the rows and columns that both matrices have.
fn copy(
    cx: &TensorCx<'_>,
    old: &OldMatrix,
    new: &NewMatrix<'_>,
    out: &mut [f32],
) -> Result<(), KernelError> {
    let new_rows = reversed(cx, new.rows)?;
    let new_columns = new.columns.map(|c| reversed(cx, c)).transpose()?;
    let present = || new.rows.iter().copied().filter(|row| *row >= 0);
    let (Some(first), Some(last)) = (present().min(), present().max()) else {
        return Ok(());
    };
    let most = match cx.attrs().int("max_rows_in_memory") {
        most if most > 0 => most,
        _ => i64::MAX,
    };
    let (mut start, mut stop) = (first, cx.stop_check());
    while start <= last {
        let count = most.min(last - start + 1);
        let rows = old.rows(start as usize, count as usize)?;
        let rows = rows.as_slice::<f32>()?.chunks_exact(old.dims[1].max(1));
        for (number, row) in (start..).zip(rows) {
            stop.tick()?;
            let Some(to) = new_rows.get(&number) else {
                continue;
            };
            let to = &mut out[to * new.width..][..new.width];
            match &new_columns {
                None => to.copy_from_slice(row),
                Some(columns) => {
                    for (old, value) in (0..).zip(row) {
                        columns.get(&old).into_iter().for_each(|at| to[at] = *value);
                    }
                }
            }
        }
        start += count;
    }
    Ok(())
}

/// Puts initial values where the old matrix has none.
fn fill(new: &NewMatrix<'_>, initial: &[f32], out: &mut [f32]) -> Result<(), KernelError> {
    let missing = |list: &[i64], i: usize| list.get(i).is_some_and(|old| *old < 0);
    let mut values = initial.iter();
    for (i, to) in out.iter_mut().enumerate() {
        let (row, column) = (i / new.width, i % new.width);
        if missing(new.rows, row) || new.columns.is_some_and(|c| missing(c, column)) {
            *to = *values.next().ok_or_else(|| {
                KernelError::Invalid(format!(
                    "initializing_values contained {} elements, but more missing values remain",
                    initial.len()
                ))
            })?;
        }
    }
    match values.len() {
        0 => Ok(()),
        left => Err(KernelError::Invalid(format!(
            "initializing_values contained {} elements, of which {left} are left over",
            initial.len()
        ))),
    }
}

fn load(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let new = new_matrix(cx)?;
    let old = OldMatrix::open(cx)?;
    if new.columns.is_none() && old.dims[1] != new.width {
        return Err(KernelError::Invalid(format!(
            "Tensor {} has shape {:?}, where the size of its 2nd dimension is instead of being equal to num_cols={}",
            old.name, old.dims, new.width
        )));
    }
    let mut matrix = cx.zeros(DType::F32, &[new.rows.len(), new.width])?;
    let out = matrix.as_mut_slice::<f32>()?;
    copy(cx, &old, &new, out)?;
    fill(&new, cx.slice::<f32>(4)?, out)?;
    Ok(vec![matrix])
}

/// A matrix of a checkpoint with other rows and columns.
pub(crate) static LOAD: Op = Op {
    def: OpDef {
        name: "LoadAndRemapMatrix",
        summary: "A matrix of rows and columns of one in a checkpoint, and of initial values where that has none.",
        inputs: &[
            arg_of("ckpt_path", DType::String),
            arg_of("old_tensor_name", DType::String),
            arg_of("row_remapping", DType::I64),
            arg_of("col_remapping", DType::I64),
            arg_of("initializing_values", DType::F32),
        ],
        outputs: &[arg_of("output_matrix", DType::F32)],
        attrs: &[NUM_ROWS, NUM_COLS, int_attr("max_rows_in_memory", -1)],
        shape: |cx| {
            cx.ranked(2, 1)?;
            cx.ranked(3, 1)?;
            expect_at_least(cx, NUM_ROWS.name, 0)?;
            expect_at_least(cx, NUM_COLS.name, 1)?;
            let size = |attr| usize::try_from(cx.attrs().int(attr)).ok();
            let dims = [size(NUM_ROWS.name), size(NUM_COLS.name)];
            cx.set(0, Shape::partial(dims));
            Ok(())
        },
        gradient: Gradient::None,
        effect: Effect::Stateful,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(load)],
};
