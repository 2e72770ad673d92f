//! Features of examples by key: the dense, sparse and ragged tensors that parsers make of them.

use thalweg_data::example::Example;
use thalweg_device::{KernelError, TensorCx};
use thalweg_graph::Infer;
use thalweg_tensor::{DType, Shape, Tensor};

use super::columns::{Dense, Varying};

/// Keys of features.
#[derive(Default)]
pub(super) struct Keys {
    pub(super) sparse: Vec<String>,
    pub(super) dense: Vec<String>,
    pub(super) ragged: Vec<String>,
}

/// A key in text.
pub(super) fn key_text(key: &[u8]) -> Result<String, KernelError> {
    let text = std::str::from_utf8(key);
    text.map(str::to_owned)
        .map_err(|_| KernelError::Invalid("the key of a feature is not in UTF-8".to_owned()))
}

/// The keys in a vector at input `i`.
pub(super) fn keys(cx: &TensorCx<'_>, i: usize) -> Result<Vec<String>, KernelError> {
    cx.strings(i)?.iter().map(key_text).collect()
}

/// The keys at so many inputs, from index `from` on, with one each.
pub(super) fn keys_of_inputs(
    cx: &TensorCx<'_>,
    from: usize,
    count: usize,
) -> Result<Vec<String>, KernelError> {
    let all = (from..from + count)
        .map(|i| keys(cx, i))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(all.into_iter().flatten().collect())
}

/// The keys in attribute `attr`.
pub(super) fn keys_of_attr(cx: &TensorCx<'_>, attr: &str) -> Result<Vec<String>, KernelError> {
    let keys = cx.attrs().strs(attr).iter();
    keys.map(|key| key_text(key)).collect()
}

/// `true` for one serialized string, `false` for a vector of them.
pub(super) fn is_batch(serialized: &Tensor) -> Result<bool, KernelError> {
    match serialized.dims() {
        [] => Ok(false),
        [_] => Ok(true),
        _ => Err(KernelError::Invalid(
            "serialized must be one string or a vector of them".to_owned(),
        )),
    }
}

/// Fails unless there are as many keys as types.
pub(super) fn check(kind: &str, keys: &[String], types: &[DType]) -> Result<(), KernelError> {
    match keys.len() == types.len() {
        true => Ok(()),
        false => Err(KernelError::Invalid(format!(
            "there are {} {kind} keys and {} {kind} types: give as many of each",
            keys.len(),
            types.len()
        ))),
    }
}

/// Fails unless there are as many shapes as types.
pub(super) fn check_shapes(shapes: &[Shape], types: &[DType]) -> Result<(), KernelError> {
    match shapes.len() == types.len() {
        true => Ok(()),
        false => Err(KernelError::Invalid(format!(
            "there are {} dense types and {} dense shapes: give as many of each",
            types.len(),
            shapes.len()
        ))),
    }
}

/// Names of the attributes with the types and shapes of features. An attribute that an op does not have stands for
/// no features.
pub(super) struct TypeAttrs {
    pub(super) sparse: &'static str,
    pub(super) dense: &'static str,
    pub(super) dense_shapes: &'static str,
    pub(super) ragged: &'static str,
    pub(super) splits: &'static str,
}

/// Features of all examples of a batch.
pub(super) struct Columns<'a> {
    keys: Keys,
    sparse: Vec<Varying<'a>>,
    dense: Vec<Dense<'a>>,
    ragged: Vec<Varying<'a>>,
    splits: &'a [DType],
}

impl<'a> Columns<'a> {
    /// Columns of these keys without an example. The default values of dense features are inputs from `first_default`
    /// on.
    pub(super) fn new(
        cx: &TensorCx<'a>,
        keys: Keys,
        attrs: &TypeAttrs,
        first_default: usize,
    ) -> Result<Columns<'a>, KernelError> {
        let types = |attr| cx.attrs().types(attr);
        let (dense_types, shapes) = (types(attrs.dense), cx.attrs().shapes(attrs.dense_shapes));
        check("dense", &keys.dense, dense_types)?;
        check_shapes(shapes, dense_types)?;
        let mut dense = Vec::with_capacity(dense_types.len());
        for (i, (key, (&dtype, shape))) in
            (keys.dense.iter().zip(dense_types.iter().zip(shapes))).enumerate()
        {
            let default = cx.tensor(first_default + i)?;
            dense.push(Dense::new(key.clone(), dtype, shape, default)?);
        }
        let varying = |kind, keys: &[String], types: &[DType]| {
            check(kind, keys, types)?;
            let all = keys.iter().zip(types);
            all.map(|(key, &dtype)| Varying::new(key.clone(), dtype))
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(Columns {
            sparse: varying("sparse", &keys.sparse, types(attrs.sparse))?,
            ragged: varying("ragged", &keys.ragged, types(attrs.ragged))?,
            splits: types(attrs.splits),
            dense,
            keys,
        })
    }

    /// Adds the features of the next example.
    pub(super) fn add(&mut self, example: &Example<'a>) -> Result<(), KernelError> {
        for (key, column) in self.keys.dense.iter().zip(&mut self.dense) {
            column.add(example.get(key).as_ref())?;
        }
        let sparse = self.keys.sparse.iter().zip(&mut self.sparse);
        let ragged = self.keys.ragged.iter().zip(&mut self.ragged);
        for (key, column) in sparse.chain(ragged) {
            column.add(example.get(key).as_ref())?;
        }
        Ok(())
    }

    /// Sparse indices, values and shapes, dense values, ragged values and splits.
    pub(super) fn finish(
        self,
        cx: &TensorCx<'_>,
        batched: bool,
    ) -> Result<Vec<Tensor>, KernelError> {
        let mut by_part: [Vec<Tensor>; 5] = Default::default();
        for column in self.sparse {
            for (part, tensor) in column.sparse(cx, batched)?.into_iter().enumerate() {
                by_part[part].push(tensor);
            }
        }
        let dense = self
            .dense
            .into_iter()
            .map(|column| column.finish(cx, batched));
        let dense = dense.collect::<Result<Vec<_>, _>>()?;
        for (column, &splits) in self.ragged.iter().zip(self.splits) {
            let [values, splits] = column.ragged(cx, splits, batched)?;
            by_part[3].push(values);
            by_part[4].push(splits);
        }
        let [indices, values, shapes, ragged_values, ragged_splits] = by_part;
        Ok([indices, values, shapes, dense, ragged_values, ragged_splits].concat())
    }
}

/// The shape of the examples at input 0: of a vector of them, or of one; `None` if it is not known.
pub(super) fn batch_dims(cx: &Infer<'_>) -> Option<Vec<Option<usize>>> {
    cx.shape(0).dims().map(<[Option<usize>]>::to_vec)
}

/// Sets the shapes of sparse parts and dense values, from output `first` on, and returns the output behind them.
/// Sparse tensors have `rank` dimensions; `before` are the dimensions before those of a dense value.
pub(super) fn set_shapes(
    cx: &mut Infer<'_>,
    attrs: &TypeAttrs,
    first: usize,
    rank: Option<usize>,
    before: Option<&[Option<usize>]>,
) -> usize {
    let sparse = cx.attrs().types(attrs.sparse).len();
    let dense: Vec<Shape> = cx.attrs().shapes(attrs.dense_shapes).to_vec();
    for i in first..first + sparse {
        cx.set(i, Shape::partial([None, rank]));
        cx.set(sparse + i, Shape::partial([None]));
        cx.set(2 * sparse + i, Shape::partial([rank]));
    }
    let first_dense = first + 3 * sparse;
    for (i, shape) in dense.iter().enumerate() {
        if let (Some(before), Some(dims)) = (before, shape.dims()) {
            let dims = before.iter().chain(dims).copied();
            cx.set(first_dense + i, Shape::partial(dims));
        }
    }
    first_dense + cx.attrs().types(attrs.dense).len()
}

/// Sets the shapes of so many outputs, from output `first` on, to vectors, and returns the output behind them.
pub(super) fn set_vectors(cx: &mut Infer<'_>, first: usize, count: usize) -> usize {
    (first..first + count).for_each(|i| cx.set(i, Shape::partial([None])));
    first + count
}
