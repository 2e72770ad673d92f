//! ParseExample, ParseExampleV2, ParseSingleExample.

use thalweg_data::example::Example;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{AttrDef, Gradient, any_count_attr, arg_of, args_of, list_attr};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Tensor};

use super::features::{
    Columns, Keys, TypeAttrs, batch_dims, is_batch, keys, keys_of_attr, keys_of_inputs, set_shapes,
    set_vectors,
};

const DENSE_TYPES: AttrDef = list_attr("Tdense", AttrKind::Types);
const DENSE_SHAPES: AttrDef = list_attr("dense_shapes", AttrKind::Shapes);
const SPARSE_TYPES: AttrDef = list_attr("sparse_types", AttrKind::Types);
const RAGGED_TYPES: AttrDef = list_attr("ragged_value_types", AttrKind::Types);
const SPLIT_TYPES: AttrDef = list_attr("ragged_split_types", AttrKind::Types);

const ATTRS: TypeAttrs = TypeAttrs {
    sparse: "sparse_types",
    dense: "Tdense",
    dense_shapes: "dense_shapes",
    ragged: "ragged_value_types",
    splits: "ragged_split_types",
};

/// Parses examples; the default values of dense features are the last inputs.
fn parse(cx: &TensorCx<'_>, keys: Keys, batched: bool) -> Result<Vec<Tensor>, KernelError> {
    let first_default = cx.inputs() - cx.attrs().types(ATTRS.dense).len();
    let mut columns = Columns::new(cx, keys, &ATTRS, first_default)?;
    let mut stop = cx.stop_check();
    for (number, serialized) in cx.strings(0)?.iter().enumerate() {
        stop.tick()?;
        let example = Example::parse(serialized)
            .map_err(|e| KernelError::Invalid(format!("example {number} cannot be parsed: {e}")))?;
        columns.add(&example)?;
    }
    columns.finish(cx, batched)
}

/// Sets the shapes of outputs; `batch` is the shape of the examples.
fn shapes(cx: &mut Infer<'_>, batch: Option<&[Option<usize>]>) -> Result<(), InferError> {
    let rank = batch.map(|batch| batch.len() + 1);
    let next = set_shapes(cx, &ATTRS, 0, rank, batch);
    set_vectors(cx, next, 2 * cx.attrs().types(ATTRS.ragged).len());
    Ok(())
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
            let batch = batch_dims(cx);
            shapes(cx, batch.as_deref())
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
            let batch = batch_dims(cx);
            shapes(cx, batch.as_deref())
        },
        ..PARSE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let keys = Keys {
            sparse: keys(cx, 2)?,
            dense: keys(cx, 3)?,
            ragged: keys(cx, 4)?,
        };
        parse(cx, keys, is_batch(cx.tensor(0)?)?)
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
            shapes(cx, Some(&[]))
        },
        ..PARSE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let keys = Keys {
            sparse: keys_of_attr(cx, "sparse_keys")?,
            dense: keys_of_attr(cx, "dense_keys")?,
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
