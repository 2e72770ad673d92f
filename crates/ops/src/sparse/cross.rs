//! SparseCross, SparseCrossV2, SparseCrossHashed: all combinations of the features of each row, one from each column.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{
    Arg, AttrDef, Gradient, any_count_attr, arg, arg_of, args_of, attr, type_attr, types_attr,
};
use thalweg_graph::{AttrKind, Attrs, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

use super::sparse_input::{index_tensor, invalid, set_sparse, shape_tensor};
use crate::strings::{fingerprint, joined_fingerprints, sip_hash};
use crate::support::tensors::AccountedVec;

/// The features of a column, row by row.
pub(super) struct Column<'a> {
    values: &'a Tensor,
    /// The first feature of each row, and the end of the last row.
    starts: AccountedVec<usize>,
    is_dense: bool,
}

impl<'a> Column<'a> {
    /// The column of a sparse matrix. The features of a row are those that follow each other.
    pub(super) fn sparse(
        cx: &TensorCx<'a>,
        [indices, values, shape]: [usize; 3],
        rows: usize,
        position: usize,
    ) -> Result<Column<'a>, KernelError> {
        let (index, values) = (cx.tensor(indices)?, cx.tensor(values)?);
        if index.dims().len() != 2 || index.dims()[1] != 2 {
            let found = index.shape();
            return Err(invalid(format!(
                "Input indices should be a matrix of two columns but received shape {found} at position {position}"
            )));
        }
        if values.dims() != [index.dims()[0]] {
            return Err(invalid(format!(
                "Expected size of values to be {} got {} at position {position}",
                index.dims()[0],
                values.shape()
            )));
        }
        let [batch, _] = *cx.slice::<i64>(shape)? else {
            return Err(invalid(format!(
                "shape should imply a 2D tensor, but got {} at position {position}",
                cx.tensor(shape)?.shape()
            )));
        };
        if usize::try_from(batch) != Ok(rows) {
            return Err(invalid(format!(
                "Expected batch size {rows} got {batch} at position {position}"
            )));
        }
        let mut starts = AccountedVec::filled(rows.saturating_add(1), 0, cx.memory())?;
        let (index, mut at, mut stop) = (cx.slice::<i64>(indices)?, 0, cx.stop_check());
        for row in 0..rows {
            stop.tick()?;
            starts[row] = at;
            while index.get(2 * at) == Some(&(row as i64)) {
                at += 1;
            }
        }
        starts[rows] = at;
        Ok(Column {
            values,
            starts,
            is_dense: false,
        })
    }

    /// The column of a dense matrix.
    pub(super) fn dense(
        cx: &TensorCx<'a>,
        input: usize,
        rows: usize,
    ) -> Result<Column<'a>, KernelError> {
        let values = cx.tensor(input)?;
        let &[batch, width] = values.dims() else {
            return Err(invalid(format!(
                "Dense inputs should be a matrix but received shape {}",
                values.shape()
            )));
        };
        if batch != rows {
            return Err(invalid(format!(
                "Expected batch size {rows} got {batch} at dense tensor {input}"
            )));
        }
        let mut starts = AccountedVec::filled(rows + 1, 0, cx.memory())?;
        starts
            .iter_mut()
            .enumerate()
            .for_each(|(row, at)| *at = row * width);
        Ok(Column {
            values,
            starts,
            is_dense: true,
        })
    }

    /// The column of a ragged tensor, whose row splits fit its values.
    pub(super) fn ragged(values: &'a Tensor, starts: AccountedVec<usize>) -> Column<'a> {
        Column {
            values,
            starts,
            is_dense: false,
        }
    }

    /// The number of features of a row.
    pub(super) fn count(&self, row: usize) -> usize {
        self.starts[row + 1] - self.starts[row]
    }

    /// Calls a function with the bytes of a string, or another one with a number.
    fn feature<R>(
        &self,
        at: usize,
        string: impl FnOnce(&[u8]) -> R,
        number: impl FnOnce(i64) -> R,
    ) -> Result<R, KernelError> {
        match self.values.dtype() {
            DType::String => Ok(string(&self.values.as_strings()?[at])),
            _ => Ok(number(self.values.as_slice::<i64>()?[at])),
        }
    }
}

/// The columns of a node, sparse ones first, and the number of rows.
fn columns<'a>(cx: &TensorCx<'a>) -> Result<(Vec<Column<'a>>, usize), KernelError> {
    let (sparse, dense) = counts(cx.attrs());
    let first_dense = 3 * sparse;
    let batch = match sparse {
        0 if dense == 0 => 0,
        0 => cx.tensor(first_dense)?.dims().first().copied().unwrap_or(0) as i64,
        _ => cx.slice::<i64>(2 * sparse)?.first().copied().unwrap_or(0),
    };
    let rows = usize::try_from(batch)
        .map_err(|_| invalid(format!("batch size {batch}: give 0 or more")))?;
    let mut all = Vec::with_capacity(sparse + dense);
    for i in 0..sparse {
        all.push(Column::sparse(
            cx,
            [i, sparse + i, 2 * sparse + i],
            rows,
            i,
        )?);
    }
    for i in 0..dense {
        all.push(Column::dense(cx, first_dense + i, rows)?);
    }
    Ok((all, rows))
}

/// The numbers of sparse and of dense columns.
fn counts(attrs: &Attrs) -> (usize, usize) {
    (
        attrs.types("sparse_types").len(),
        attrs.types("dense_types").len(),
    )
}

/// The combinations of all rows: how many there are, and the most of a row.
pub(super) fn totals(columns: &[Column<'_>], rows: usize) -> Result<(usize, usize), KernelError> {
    let (mut total, mut most) = (0usize, 0);
    for row in 0..rows {
        let product = columns
            .iter()
            .try_fold(1usize, |n, c| n.checked_mul(c.count(row)));
        let sum = product.and_then(|n| Some((n, total.checked_add(n)?)));
        let (count, sum) = sum.ok_or(KernelError::Memory { bytes: usize::MAX })?;
        (total, most) = (sum, most.max(count));
    }
    Ok((total, most))
}

/// Visits the combinations in order, the last column's features fastest: the row, the number within the row, and the
/// feature of each column.
fn each_combination(
    cx: &TensorCx<'_>,
    columns: &[Column<'_>],
    rows: usize,
    mut visit: impl FnMut(usize, usize, &[usize]) -> Result<(), KernelError>,
) -> Result<(), KernelError> {
    let mut stop = cx.stop_check();
    let mut chosen = vec![0; columns.len()];
    for row in 0..rows {
        stop.tick()?;
        if columns.iter().any(|c| c.count(row) == 0) {
            continue;
        }
        chosen
            .iter_mut()
            .zip(columns)
            .for_each(|(at, c)| *at = c.starts[row]);
        for number in 0.. {
            stop.tick()?;
            visit(row, number, &chosen)?;
            let next = chosen.iter_mut().zip(columns).rev().any(|(at, column)| {
                *at += 1;
                let within = *at < column.starts[row + 1];
                if !within {
                    *at = column.starts[row];
                }
                within
            });
            if !next {
                break;
            }
        }
    }
    Ok(())
}

/// The indices of the combinations and the shape, around their values.
fn crossed(
    cx: &TensorCx<'_>,
    (columns, rows): &(Vec<Column<'_>>, usize),
    values: Tensor,
) -> Result<Vec<Tensor>, KernelError> {
    let (total, most) = totals(columns, *rows)?;
    let mut places = AccountedVec::filled(total, (0, 0), cx.memory())?;
    let mut next = places.iter_mut();
    each_combination(cx, columns, *rows, |row, number, _| {
        if let Some(place) = next.next() {
            *place = (row as i64, number as i64);
        }
        Ok(())
    })?;
    let indices = index_tensor(cx, 2, total, |i, to| {
        to.copy_from_slice(&[places[i].0, places[i].1])
    })?;
    let shape = shape_tensor(cx, &[*rows as i64, most as i64])?;
    Ok(vec![indices, values, shape])
}

/// The combinations as strings, with a separator between features.
fn joined(cx: &TensorCx<'_>, separator: &[u8]) -> Result<Vec<Tensor>, KernelError> {
    let all = columns(cx)?;
    let values = joined_values(cx, &all.0, all.1, separator)?;
    crossed(cx, &all, values)
}

/// The combinations of the columns' features as strings, with a separator between features.
pub(super) fn joined_values(
    cx: &TensorCx<'_>,
    columns: &[Column<'_>],
    rows: usize,
    separator: &[u8],
) -> Result<Tensor, KernelError> {
    let mut values = cx.string_tensor(&[totals(columns, rows)?.0])?;
    each_combination(cx, columns, rows, |_, _, chosen| {
        for (i, (column, &at)) in columns.iter().zip(chosen).enumerate() {
            if i > 0 {
                values.extend(separator)?;
            }
            let text = column.feature(at, <[u8]>::to_vec, |n| n.to_string().into_bytes())?;
            values.extend(&text)?;
        }
        values.end();
        Ok(())
    })?;
    Ok(values.finish()?)
}

/// The hashes of features, and what they are joined to.
pub(super) struct Hashing<'a> {
    /// It is joined with the features' hashes.
    pub(super) start: Option<u64>,
    /// The hashes are below it, if it is positive.
    pub(super) buckets: i64,
    pub(super) string: &'a dyn Fn(&[u8]) -> u64,
    /// The hash of a number, but for those in a dense column, which are their own.
    pub(super) number: &'a dyn Fn(i64) -> u64,
}

/// The combinations as numbers.
fn hashed(cx: &TensorCx<'_>, hashing: &Hashing<'_>) -> Result<Vec<Tensor>, KernelError> {
    let all = columns(cx)?;
    let values = hashed_values(cx, &all.0, all.1, hashing)?;
    crossed(cx, &all, values)
}

/// The combinations of the columns' features as numbers.
pub(super) fn hashed_values(
    cx: &TensorCx<'_>,
    columns: &[Column<'_>],
    rows: usize,
    hashing: &Hashing<'_>,
) -> Result<Tensor, KernelError> {
    let &Hashing {
        start,
        buckets,
        string,
        number,
    } = hashing;
    let below = if buckets > 0 { buckets } else { i64::MAX } as u64;
    let mut values = cx.zeros(DType::I64, &[totals(columns, rows)?.0])?;
    let mut to = values.as_mut_slice::<i64>()?.iter_mut();
    each_combination(cx, columns, rows, |_, _, chosen| {
        let mut hash = start;
        for (column, &at) in columns.iter().zip(chosen) {
            let own = match column.is_dense {
                true => column.feature(at, string, |n| n as u64)?,
                false => column.feature(at, string, number)?,
            };
            hash = Some(hash.map_or(own, |hash| joined_fingerprints(hash, own)));
        }
        if let Some(to) = to.next() {
            *to = (hash.unwrap_or(0) % below) as i64;
        }
        Ok(())
    })?;
    Ok(values)
}

/// The hashes that attributes `hash_key` and `num_buckets` ask for.
pub(super) fn keyed(attrs: &Attrs) -> Hashing<'static> {
    Hashing {
        start: Some(attrs.int("hash_key") as u64),
        buckets: attrs.int("num_buckets"),
        string: &fingerprint,
        number: &|n| n as u64,
    }
}

/// Fails unless the number of buckets is not negative, and all columns are of dtypes of features.
pub(super) fn check_attrs(attrs: &Attrs, columns: &[&'static str]) -> Result<(), InferError> {
    let buckets = attrs
        .get("num_buckets")
        .map_or(0, |_| attrs.int("num_buckets"));
    if buckets < 0 {
        return Err(InferError::Attr {
            attr: "num_buckets",
            reason: format!("{buckets} buckets: give 0, for no limit, or more"),
        });
    }
    for &attr in columns {
        let mut listed = attrs.types(attr).iter();
        if let Some(other) = listed.find(|t| !FEATURES.contains(t)) {
            let reason = format!("{other} is no dtype of features: use int64 or string");
            return Err(InferError::Attr { attr, reason });
        }
    }
    Ok(())
}

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let (n, (values, _)) = (cx.attrs().int("N"), counts(cx.attrs()));
    if usize::try_from(n) != Ok(values) {
        return Err(InferError::Attr {
            attr: "sparse_types",
            reason: format!("Expected {n} input values, got {values}"),
        });
    }
    check_attrs(cx.attrs(), &["sparse_types", "dense_types"])?;
    set_sparse(cx, 0, None, Some(2));
    cx.set(2, Shape::known(&[2]));
    Ok(())
}

const INDICES: Arg = arg_of("indices", DType::I64).list("N");
const VALUES: Arg = args_of("values", "sparse_types");
const SHAPES: Arg = arg_of("shapes", DType::I64).list("N");
const DENSE: Arg = args_of("dense_inputs", "dense_types");
pub(super) const FEATURES: &[DType] = &[DType::I64, DType::String];

const N: AttrDef = any_count_attr("N");
const SPARSE_TYPES: AttrDef = types_attr("sparse_types");
const DENSE_TYPES: AttrDef = types_attr("dense_types");
const COMMON: OpDef = OpDef {
    shape,
    gradient: Gradient::None,
    ..OpDef::EMPTY
};

/// Combinations as strings or as numbers.
pub(crate) static CROSS: Op = Op {
    def: OpDef {
        name: "SparseCross",
        summary: "All combinations of the features of each row, as strings joined by _X_ or as hashes.",
        inputs: &[INDICES, VALUES, SHAPES, DENSE],
        outputs: &[
            arg_of("output_indices", DType::I64),
            arg("output_values", "out_type"),
            arg_of("output_shape", DType::I64),
        ],
        attrs: &[
            N,
            attr("hashed_output", AttrKind::Bool),
            attr("num_buckets", AttrKind::Int),
            attr("hash_key", AttrKind::Int),
            SPARSE_TYPES,
            DENSE_TYPES,
            type_attr("out_type", FEATURES),
            type_attr("internal_type", FEATURES),
        ],
        ..COMMON
    },
    kernels: &[cpu_tensors(|cx| {
        let attrs = cx.attrs();
        let hashes = attrs.dtype("out_type") == Some(DType::I64);
        let mut listed = attrs
            .types("sparse_types")
            .iter()
            .chain(attrs.types("dense_types"));
        if attrs.dtype("internal_type") == Some(DType::String) && listed.any(|t| *t == DType::I64) {
            return Err(invalid(
                "Input values should be of internal type string but received int64",
            ));
        }
        match hashes {
            true => hashed(cx, &keyed(attrs)),
            false => joined(cx, b"_X_"),
        }
    })],
};

/// Combinations as strings.
pub(crate) static CROSS_V2: Op = Op {
    def: OpDef {
        name: "SparseCrossV2",
        summary: "All combinations of the features of each row, as strings joined by a separator.",
        inputs: &[INDICES, VALUES, SHAPES, DENSE, arg_of("sep", DType::String)],
        outputs: &[
            arg_of("output_indices", DType::I64),
            arg_of("output_values", DType::String),
            arg_of("output_shape", DType::I64),
        ],
        attrs: &[N, SPARSE_TYPES, DENSE_TYPES],
        ..COMMON
    },
    kernels: &[cpu_tensors(|cx| {
        let separators = cx.strings(cx.inputs() - 1)?;
        match (separators.only(), cx.tensor(cx.inputs() - 1)?.dims()) {
            (Some(separator), []) => joined(cx, separator),
            _ => Err(invalid("Input separator should be a scalar.")),
        }
    })],
};

/// Combinations as numbers.
pub(crate) static CROSS_HASHED: Op = Op {
    def: OpDef {
        name: "SparseCrossHashed",
        summary: "All combinations of the features of each row, as hashes.",
        inputs: &[
            INDICES,
            VALUES,
            SHAPES,
            DENSE,
            arg_of("num_buckets", DType::I64),
            arg_of("strong_hash", DType::Bool),
            arg_of("salt", DType::I64),
        ],
        outputs: &[
            arg_of("output_indices", DType::I64),
            arg_of("output_values", DType::I64),
            arg_of("output_shape", DType::I64),
        ],
        attrs: &[N, SPARSE_TYPES, DENSE_TYPES],
        ..COMMON
    },
    kernels: &[cpu_tensors(|cx| {
        let first = cx.inputs() - 3;
        let buckets = cx.int(first)?;
        let ([strong], [a, b]) = (cx.slice::<bool>(first + 1)?, cx.slice::<i64>(first + 2)?) else {
            return Err(invalid(
                "strong_hash must be a scalar, and salt must have two numbers",
            ));
        };
        let key = [*a as u64, *b as u64];
        let hash = |bytes: &[u8]| match strong {
            true => sip_hash(key, bytes),
            false => fingerprint(bytes),
        };
        // TensorFlow hashes the lower half of a number in a sparse column.
        let number = |n: i64| hash(&n.to_le_bytes()[..4]);
        let hashing = Hashing {
            start: None,
            buckets,
            string: &hash,
            number: &number,
        };
        hashed(cx, &hashing)
    })],
};
