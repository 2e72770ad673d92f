//! ParseExample, ParseExampleV2, ParseSingleExample.

use thalweg_data::example::Example;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{AttrDef, Gradient, any_count_attr, arg_of, args_of, list_attr};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

use super::columns::{Dense, Varying};

const DENSE_TYPES: AttrDef = list_attr("Tdense", AttrKind::Types);
const DENSE_SHAPES: AttrDef = list_attr("dense_shapes", AttrKind::Shapes);
const SPARSE_TYPES: AttrDef = list_attr("sparse_types", AttrKind::Types);
const RAGGED_TYPES: AttrDef = list_attr("ragged_value_types", AttrKind::Types);
const SPLIT_TYPES: AttrDef = list_attr("ragged_split_types", AttrKind::Types);

/// The names of the features to parse.
struct Keys {
    sparse: Vec<String>,
    dense: Vec<String>,
    ragged: Vec<String>,
}

fn text(key: &[u8]) -> Result<String, KernelError> {
    let text = std::str::from_utf8(key);
    text.map(str::to_owned)
        .map_err(|_| KernelError::Invalid("the key of a feature is not in UTF-8".to_owned()))
}

/// The keys in a vector at input `i`.
fn keys(cx: &TensorCx<'_>, i: usize) -> Result<Vec<String>, KernelError> {
    cx.strings(i)?.iter().map(|key| text(key)).collect()
}

/// The keys at so many inputs, from index `from` on, with one each.
fn keys_of_inputs(
    cx: &TensorCx<'_>,
    from: usize,
    count: usize,
) -> Result<Vec<String>, KernelError> {
    let all = (from..from + count)
        .map(|i| keys(cx, i))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(all.into_iter().flatten().collect())
}

/// Fails unless there are as many keys as types.
fn check(kind: &str, keys: &[String], types: &[DType]) -> Result<(), KernelError> {
    match keys.len() == types.len() {
        true => Ok(()),
        false => Err(KernelError::Invalid(format!(
            "there are {} {kind} keys and {} {kind} types: give as many of each",
            keys.len(),
            types.len()
        ))),
    }
}

/// Parses examples; the default values of dense features are the last inputs.
fn parse(cx: &TensorCx<'_>, keys: Keys, batched: bool) -> Result<Vec<Tensor>, KernelError> {
    let attrs = cx.attrs();
    let (dense_types, shapes) = (attrs.types("Tdense"), attrs.shapes("dense_shapes"));
    let (sparse_types, ragged_types) = (
        attrs.types("sparse_types"),
        attrs.types("ragged_value_types"),
    );
    check("dense", &keys.dense, dense_types)?;
    check("sparse", &keys.sparse, sparse_types)?;
    check("ragged", &keys.ragged, ragged_types)?;
    if shapes.len() != dense_types.len() {
        return Err(KernelError::Invalid(format!(
            "there are {} dense types and {} dense shapes: give as many of each",
            dense_types.len(),
            shapes.len()
        )));
    }
    let first_default = cx.inputs() - dense_types.len();
    let mut dense = Vec::with_capacity(dense_types.len());
    for (i, ((key, &dtype), shape)) in keys.dense.iter().zip(dense_types).zip(shapes).enumerate() {
        dense.push(Dense::new(
            key.clone(),
            dtype,
            shape,
            cx.tensor(first_default + i)?,
        )?);
    }
    let varying = |keys: &[String], types: &[DType]| {
        let all = keys
            .iter()
            .zip(types)
            .map(|(key, &dtype)| Varying::new(key.clone(), dtype));
        all.collect::<Result<Vec<_>, _>>()
    };
    let (mut sparse, mut ragged) = (
        varying(&keys.sparse, sparse_types)?,
        varying(&keys.ragged, ragged_types)?,
    );
    let mut stop = cx.stop_check();
    for (number, serialized) in cx.strings(0)?.iter().enumerate() {
        stop.tick()?;
        let example = Example::parse(serialized)
            .map_err(|e| KernelError::Invalid(format!("example {number} cannot be parsed: {e}")))?;
        for (key, column) in keys.dense.iter().zip(&mut dense) {
            column.add(example.get(key).as_ref())?;
        }
        for (key, column) in keys
            .sparse
            .iter()
            .zip(&mut sparse)
            .chain(keys.ragged.iter().zip(&mut ragged))
        {
            column.add(example.get(key).as_ref())?;
        }
    }
    let mut by_part: [Vec<Tensor>; 5] = Default::default();
    for column in sparse {
        for (part, tensor) in column.sparse(cx, batched)?.into_iter().enumerate() {
            by_part[part].push(tensor);
        }
    }
    let dense = dense.into_iter().map(|column| column.finish(cx, batched));
    let dense = dense.collect::<Result<Vec<_>, _>>()?;
    for (column, &splits) in ragged.iter().zip(attrs.types("ragged_split_types")) {
        let [values, splits] = column.ragged(cx, splits, batched)?;
        by_part[3].push(values);
        by_part[4].push(splits);
    }
    let [indices, values, shapes, ragged_values, ragged_splits] = by_part;
    Ok([indices, values, shapes, dense, ragged_values, ragged_splits].concat())
}

/// Sets the shapes of sparse parts, dense values and ragged parts. `batch` is the shape before a dense value's; `None`
/// where it is not known.
fn shapes(cx: &mut Infer<'_>, batch: Option<Vec<Option<usize>>>) -> Result<(), InferError> {
    let sparse = cx.attrs().types("sparse_types").len();
    let ragged = cx.attrs().types("ragged_value_types").len();
    let dense: Vec<Shape> = cx.attrs().shapes("dense_shapes").to_vec();
    let rank = batch.as_ref().map(|batch| batch.len() + 1);
    let first_ragged = 3 * sparse + dense.len();
    for i in 0..sparse {
        cx.set(i, Shape::partial([None, rank]));
        cx.set(sparse + i, Shape::partial([None]));
        cx.set(2 * sparse + i, Shape::partial([rank]));
    }
    for (i, shape) in dense.iter().enumerate() {
        if let (Some(batch), Some(dims)) = (&batch, shape.dims()) {
            cx.set(
                3 * sparse + i,
                Shape::partial(batch.iter().chain(dims).copied()),
            );
        }
    }
    for i in 0..2 * ragged {
        cx.set(first_ragged + i, Shape::partial([None]));
    }
    Ok(())
}

/// The shape of the examples at input 0: a vector of them, or one.
fn batch(cx: &Infer<'_>) -> Option<Vec<Option<usize>>> {
    cx.shape(0).dims().map(<[Option<usize>]>::to_vec)
}

const PARSE_OP: OpDef = OpDef {
    gradient: Gradient::None,
    ..OpDef::EMPTY
};

/// Examples of which each input names a feature.
pub(crate) static PARSE_EXAMPLE: Op = Op {
    def: OpDef {
        name: "ParseExample",
        summary: "Features of serialized tf.train.Example messages, as sparse and dense tensors.",
        inputs: &[
            arg_of("serialized", DType::String),
            arg_of("names", DType::String),
            arg_of("sparse_keys", DType::String).list("Nsparse"),
            arg_of("dense_keys", DType::String).list("Ndense"),
            args_of("dense_defaults", "Tdense"),
        ],
        outputs: &[
            arg_of("sparse_indices", DType::I64).list("Nsparse"),
            args_of("sparse_values", "sparse_types"),
            arg_of("sparse_shapes", DType::I64).list("Nsparse"),
            args_of("dense_values", "Tdense"),
        ],
        attrs: &[
            any_count_attr("Nsparse"),
            any_count_attr("Ndense"),
            SPARSE_TYPES,
            DENSE_TYPES,
            DENSE_SHAPES,
        ],
        shape: |cx| {
            cx.ranked(0, 1)?;
            let batch = batch(cx);
            shapes(cx, batch)
        },
        ..PARSE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let (sparse, dense) = (
            cx.attrs().types("sparse_types").len(),
            cx.attrs().types("Tdense").len(),
        );
        let keys = Keys {
            sparse: keys_of_inputs(cx, 2, sparse)?,
            dense: keys_of_inputs(cx, 2 + sparse, dense)?,
            ragged: Vec::new(),
        };
        parse(cx, keys, true)
    })],
};

/// Examples of which vectors name features.
pub(crate) static PARSE_EXAMPLE_V2: Op = Op {
    def: OpDef {
        name: "ParseExampleV2",
        summary: "Features of serialized tf.train.Example messages, or of one, as sparse, dense and ragged tensors.",
        inputs: &[
            arg_of("serialized", DType::String),
            arg_of("names", DType::String),
            arg_of("sparse_keys", DType::String),
            arg_of("dense_keys", DType::String),
            arg_of("ragged_keys", DType::String),
            args_of("dense_defaults", "Tdense"),
        ],
        outputs: &[
            arg_of("sparse_indices", DType::I64).list("num_sparse"),
            args_of("sparse_values", "sparse_types"),
            arg_of("sparse_shapes", DType::I64).list("num_sparse"),
            args_of("dense_values", "Tdense"),
            args_of("ragged_values", "ragged_value_types"),
            args_of("ragged_row_splits", "ragged_split_types"),
        ],
        attrs: &[
            DENSE_TYPES,
            any_count_attr("num_sparse"),
            SPARSE_TYPES,
            RAGGED_TYPES,
            SPLIT_TYPES,
            DENSE_SHAPES,
        ],
        shape: |cx| {
            let batch = batch(cx);
            shapes(cx, batch)
        },
        ..PARSE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let keys = Keys {
            sparse: keys(cx, 2)?,
            dense: keys(cx, 3)?,
            ragged: keys(cx, 4)?,
        };
        match cx.tensor(0)?.dims() {
            [] => parse(cx, keys, false),
            [_] => parse(cx, keys, true),
            _ => Err(KernelError::Invalid(
                "serialized must be one string or a vector of them".to_owned(),
            )),
        }
    })],
};

/// One example, whose features attributes name.
pub(crate) static PARSE_SINGLE_EXAMPLE: Op = Op {
    def: OpDef {
        name: "ParseSingleExample",
        summary: "Features of a serialized tf.train.Example message, as sparse and dense tensors.",
        inputs: &[
            arg_of("serialized", DType::String),
            args_of("dense_defaults", "Tdense"),
        ],
        outputs: &[
            arg_of("sparse_indices", DType::I64).list("num_sparse"),
            args_of("sparse_values", "sparse_types"),
            arg_of("sparse_shapes", DType::I64).list("num_sparse"),
            args_of("dense_values", "Tdense"),
        ],
        attrs: &[
            any_count_attr("num_sparse"),
            list_attr("sparse_keys", AttrKind::Strs),
            list_attr("dense_keys", AttrKind::Strs),
            SPARSE_TYPES,
            DENSE_TYPES,
            DENSE_SHAPES,
        ],
        shape: |cx| {
            cx.ranked(0, 0)?;
            shapes(cx, Some(Vec::new()))
        },
        ..PARSE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let named = |attr| {
            cx.attrs()
                .strs(attr)
                .iter()
                .map(|key| text(key))
                .collect::<Result<Vec<_>, _>>()
        };
        let keys = Keys {
            sparse: named("sparse_keys")?,
            dense: named("dense_keys")?,
            ragged: Vec::new(),
        };
        if cx.strings(0)?.len() != 1 {
            return Err(KernelError::Invalid(
                "serialized must be one string".to_owned(),
            ));
        }
        parse(cx, keys, false)
    })],
};
