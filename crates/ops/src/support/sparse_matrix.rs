//! Sparse matrices in compressed rows: one matrix, or a batch of them, as a variant.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;
use thalweg_cpu::number::Arithmetic;
use thalweg_device::{KernelError, TensorCx};
use thalweg_graph::{Infer, InferError};
use thalweg_tensor::num_complex::Complex;
use thalweg_tensor::{DType, Nesting, Tensor};

use super::tensors::{AccountedVec, take_slices};

/// Dtypes of the entries.
pub(crate) const ENTRIES: &[DType] = &[DType::F32, DType::F64, DType::C64, DType::C128];

/// Numbers of rows and columns, with the number of matrices before them in a batch.
pub(crate) type MatrixDims = SmallVec<[usize; 3]>;

/// The places of the entries.
pub(crate) struct Pattern {
    dims: MatrixDims,
    /// Of each matrix, the first entry of each row and the end of the last one, counted from the matrix's first entry.
    row_ptrs: AccountedVec<i32>,
    /// The first entry of each matrix, and the end of the last one.
    starts: AccountedVec<usize>,
    /// The column of each entry.
    columns: AccountedVec<i32>,
}

/// A sparse matrix, or a batch of them.
#[derive(Clone)]
pub(crate) struct SparseMatrix {
    pub(crate) pattern: Arc<Pattern>,
    /// A vector with the value of each entry.
    pub(crate) values: Tensor,
}

/// Fails unless there can be a matrix, or a batch, of these dimensions.
fn check_dims(dims: &[usize]) -> Result<(), KernelError> {
    let most = i32::MAX as usize;
    let (batch, rows, columns) = match *dims {
        [rows, columns] => (1, rows, columns),
        [batch, rows, columns] => (batch, rows, columns),
        _ => {
            return Err(KernelError::Invalid(format!(
                "SparseTensor must have rank 2 or 3; but the dense shape has rank {}",
                dims.len()
            )));
        }
    };
    if batch >= most {
        return Err(KernelError::Invalid(format!(
            "dense_shape[0]=batch_size must be < Int32Max, and is {batch}"
        )));
    }
    match rows.checked_add(1).and_then(|rows| rows.checked_mul(batch)) {
        Some(size) if size <= most && columns <= most => Ok(()),
        _ => Err(KernelError::Invalid(format!(
            "csr row index size (batch_size * (rows + 1)) must be <= Int32Max, and so must the columns; the dense shape is {dims:?}"
        ))),
    }
}

impl Pattern {
    /// The pattern of these entries, given in the order of matrices and rows: `place` has the matrix, row and column of
    /// an entry.
    pub(crate) fn of(
        cx: &TensorCx<'_>,
        dims: &[usize],
        entries: usize,
        place: impl Fn(usize) -> [usize; 3],
    ) -> Result<Arc<Pattern>, KernelError> {
        check_dims(dims)?;
        if entries > i32::MAX as usize {
            return Err(KernelError::Invalid(format!(
                "{entries} entries are more than a sparse matrix holds"
            )));
        }
        let dims: MatrixDims = dims.into();
        let [batch, rows, _] = sizes(&dims);
        let mut row_ptrs = AccountedVec::filled(batch * (rows + 1), 0, cx.memory())?;
        let mut starts = AccountedVec::filled(batch + 1, 0, cx.memory())?;
        let mut columns = AccountedVec::filled(entries, 0, cx.memory())?;
        for (entry, to) in columns.iter_mut().enumerate() {
            let [matrix, row, column] = place(entry);
            row_ptrs[matrix * (rows + 1) + row + 1] += 1;
            starts[matrix + 1] += 1;
            *to = column as i32;
        }
        for matrix in row_ptrs.chunks_exact_mut(rows + 1) {
            for row in 0..rows {
                matrix[row + 1] += matrix[row];
            }
        }
        for matrix in 0..batch {
            starts[matrix + 1] += starts[matrix];
        }
        Ok(Arc::new(Pattern {
            dims,
            row_ptrs,
            starts,
            columns,
        }))
    }

    /// The dense shape.
    pub(crate) fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// The numbers of matrices, rows and columns.
    pub(crate) fn sizes(&self) -> [usize; 3] {
        sizes(&self.dims)
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.columns.len()
    }

    /// The entries of a matrix.
    pub(crate) fn matrix(&self, matrix: usize) -> Range<usize> {
        self.starts[matrix]..self.starts[matrix + 1]
    }

    /// The row pointers of a matrix.
    pub(crate) fn row_ptrs(&self, matrix: usize) -> &[i32] {
        let size = self.sizes()[1] + 1;
        &self.row_ptrs[matrix * size..][..size]
    }

    /// The entries of a row.
    pub(crate) fn row(&self, matrix: usize, row: usize) -> Range<usize> {
        let (start, ends) = (self.starts[matrix], self.row_ptrs(matrix));
        start + ends[row] as usize..start + ends[row + 1] as usize
    }

    /// The columns of all entries.
    pub(crate) fn columns(&self) -> &[i32] {
        &self.columns
    }

    /// Calls `f` with the matrix, row and column of each entry, in order.
    pub(crate) fn each(
        &self,
        cx: &TensorCx<'_>,
        mut f: impl FnMut(usize, [usize; 3]),
    ) -> Result<(), KernelError> {
        let ([batch, rows, _], mut stop) = (self.sizes(), cx.stop_check());
        for matrix in 0..batch {
            for row in 0..rows {
                stop.tick()?;
                for entry in self.row(matrix, row) {
                    f(entry, [matrix, row, self.columns[entry] as usize]);
                }
            }
        }
        Ok(())
    }
}

fn sizes(dims: &[usize]) -> [usize; 3] {
    match *dims {
        [rows, columns] => [1, rows, columns],
        [batch, rows, columns] => [batch, rows, columns],
        _ => [0; 3],
    }
}

impl SparseMatrix {
    /// The matrix at input `i`.
    pub(crate) fn at(cx: &TensorCx<'_>, i: usize) -> Result<Arc<SparseMatrix>, KernelError> {
        cx.object::<SparseMatrix>(i)
    }

    /// The matrix at input `i`, whose entries are of the dtype of attribute `attr`.
    pub(crate) fn typed(
        cx: &TensorCx<'_>,
        i: usize,
        attr: &str,
    ) -> Result<Arc<SparseMatrix>, KernelError> {
        let (matrix, asked) = (SparseMatrix::at(cx, i)?, cx.attrs().dtype(attr));
        match asked {
            Some(asked) if asked != matrix.values.dtype() => Err(KernelError::Invalid(format!(
                "Asked for a CSRSparseMatrix of type {asked}, but input {i} has entries of type {}",
                matrix.values.dtype()
            ))),
            _ => Ok(matrix),
        }
    }

    /// The matrix of entries in any order, of which `index` has the places.
    ///
    /// # Errors
    /// [`KernelError::Invalid`] if a place lies outside of `dims`.
    pub(crate) fn of_entries(
        cx: &TensorCx<'_>,
        dims: &[usize],
        index: &[i64],
        values: &Tensor,
    ) -> Result<SparseMatrix, KernelError> {
        check_dims(dims)?;
        let (count, rank, mut stop) = (values.len(), dims.len(), cx.stop_check());
        let place = |entry: usize| {
            let mut all = [0; 3];
            let own = index[entry * rank..][..rank].iter();
            all[3 - rank..]
                .iter_mut()
                .zip(own)
                .for_each(|(to, &i)| *to = i as usize);
            all
        };
        for entry in 0..count {
            stop.tick()?;
            let own = &index[entry * rank..][..rank];
            if own
                .iter()
                .zip(dims)
                .any(|(&i, &size)| i < 0 || i as usize >= size)
            {
                return Err(KernelError::Invalid(format!(
                    "indices[{entry}] = {own:?} does not index into the dense shape {dims:?}"
                )));
            }
        }
        if (1..count).all(|entry| place(entry - 1)[..2] <= place(entry)[..2]) {
            let pattern = Pattern::of(cx, dims, count, place)?;
            let values = values.clone();
            return Ok(SparseMatrix { pattern, values });
        }
        let mut order = AccountedVec::filled(count, 0, cx.memory())?;
        order.iter_mut().enumerate().for_each(|(i, to)| *to = i);
        order.sort_unstable_by_key(|&entry| (place(entry), entry));
        let pattern = Pattern::of(cx, dims, count, |entry| place(order[entry]))?;
        let values = take_slices(cx, values, &order, 1, &[count])?;
        Ok(SparseMatrix { pattern, values })
    }

    /// The matrix as the only output of a kernel.
    pub(crate) fn output(self) -> Result<Vec<Tensor>, KernelError> {
        let nesting = Nesting {
            depth: 0,
            values: self.pattern.sizes()[0] as u64,
        };
        Ok(vec![Tensor::variant(Arc::new(self), nesting)?])
    }

    /// The same pattern with other values, each made of an entry's number and value.
    pub(crate) fn with_values<T: Arithmetic>(
        &self,
        cx: &TensorCx<'_>,
        f: impl Fn(usize, T) -> T,
    ) -> Result<SparseMatrix, KernelError> {
        let mut values = cx.zeros(T::DTYPE, &[self.pattern.len()])?;
        let to = values.as_mut_slice::<T>()?.iter_mut();
        let from = self.values.as_slice::<T>()?;
        to.zip(from)
            .enumerate()
            .for_each(|(i, (to, &x))| *to = f(i, x));
        Ok(SparseMatrix {
            pattern: self.pattern.clone(),
            values,
        })
    }

    /// The transpose of each matrix.
    pub(crate) fn transposed(&self, cx: &TensorCx<'_>) -> Result<SparseMatrix, KernelError> {
        let pattern = &self.pattern;
        let mut places = AccountedVec::filled(pattern.len(), [0; 3], cx.memory())?;
        pattern.each(cx, |entry, [matrix, row, column]| {
            places[entry] = [matrix, column, row];
        })?;
        let mut order = AccountedVec::filled(places.len(), 0, cx.memory())?;
        order.iter_mut().enumerate().for_each(|(i, to)| *to = i);
        order.sort_unstable_by_key(|&entry| (places[entry], entry));
        let mut dims = pattern.dims.clone();
        let last = dims.len() - 1;
        dims.swap(last - 1, last);
        Ok(SparseMatrix {
            pattern: Pattern::of(cx, &dims, places.len(), |entry| places[order[entry]])?,
            values: take_slices(cx, &self.values, &order, 1, &[order.len()])?,
        })
    }
}

/// The conjugate of each entry.
pub(crate) fn conjugated(
    cx: &TensorCx<'_>,
    matrix: &SparseMatrix,
) -> Result<SparseMatrix, KernelError> {
    match matrix.values.dtype() {
        DType::C64 => matrix.with_values(cx, |_, x: Complex<f32>| x.conj()),
        DType::C128 => matrix.with_values(cx, |_, x: Complex<f64>| x.conj()),
        _ => Ok(matrix.clone()),
    }
}

/// Makes the first output a scalar variant.
pub(crate) fn one_matrix(cx: &mut Infer<'_>) -> Result<(), InferError> {
    super::shapes::scalar(cx)
}
