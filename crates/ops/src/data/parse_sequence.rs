//! ParseSequenceExample, ParseSequenceExampleV2, ParseSingleSequenceExample.

use thalweg_data::example::SequenceExample;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{
    Arg, AttrDef, Default, Gradient, any_count_attr, arg_of, args_of, list_attr,
};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

use super::features::{
    Columns, Keys, TypeAttrs, batch_dims, check, check_shapes, is_batch, keys, keys_of_attr,
    keys_of_inputs, set_shapes, set_vectors,
};
use super::steps::Steps;

const CONTEXT: TypeAttrs = TypeAttrs {
    sparse: "context_sparse_types",
    dense: "Tcontext_dense",
    dense_shapes: "context_dense_shapes",
    ragged: "context_ragged_value_types",
    splits: "context_ragged_split_types",
};

const LISTS: TypeAttrs = TypeAttrs {
    sparse: "feature_list_sparse_types",
    dense: "feature_list_dense_types",
    dense_shapes: "feature_list_dense_shapes",
    ragged: "feature_list_ragged_value_types",
    splits: "feature_list_ragged_split_types",
};

/// The features of a sequence to parse.
struct Request {
    context: Keys,
    lists: Keys,
    /// For each dense feature of steps, `true` if an example without it has no steps.
    may_miss: Vec<bool>,
    /// The input with the first default value.
    first_default: usize,
    batched: bool,
}

fn steps<'a>(kind: &str, keys: &[String], types: &[DType]) -> Result<Vec<Steps<'a>>, KernelError> {
    check(kind, keys, types)?;
    let all = keys.iter().zip(types);
    all.map(|(key, &dtype)| Steps::new(key.clone(), dtype))
        .collect()
}

/// Parses sequences. The results are those of the context; then sparse indices, values and shapes, dense values and
/// lengths, and ragged values, splits over examples and splits over steps.
fn parse(cx: &TensorCx<'_>, request: Request) -> Result<Parsed, KernelError> {
    let (attrs, batched) = (cx.attrs(), request.batched);
    let (keys, shapes) = (&request.lists, attrs.shapes(LISTS.dense_shapes));
    let mut context = Columns::new(cx, request.context, &CONTEXT, request.first_default)?;
    check_shapes(shapes, attrs.types(LISTS.dense))?;
    let mut dense = steps("dense", &keys.dense, attrs.types(LISTS.dense))?;
    let mut sparse = steps("sparse", &keys.sparse, attrs.types(LISTS.sparse))?;
    let mut ragged = steps("ragged", &keys.ragged, attrs.types(LISTS.ragged))?;
    let mut stop = cx.stop_check();
    for (number, serialized) in cx.strings(0)?.iter().enumerate() {
        stop.tick()?;
        let example = SequenceExample::parse(serialized).map_err(|e| {
            KernelError::Invalid(format!("sequence {number} cannot be parsed: {e}"))
        })?;
        context.add(example.context())?;
        for (i, (key, column)) in keys.dense.iter().zip(&mut dense).enumerate() {
            let list = example.list(key);
            if list.is_none() && !request.may_miss.get(i).is_some_and(|&may| may) {
                return Err(KernelError::Invalid(format!(
                    "sequence {number} does not have feature '{key}': say that it may be missing, or parse it as sparse"
                )));
            }
            column.add(list)?;
        }
        let sparse = keys.sparse.iter().zip(&mut sparse);
        for (key, column) in sparse.chain(keys.ragged.iter().zip(&mut ragged)) {
            column.add(example.list(key))?;
        }
    }
    let mut parts: [Vec<Tensor>; 8] = std::array::from_fn(|_| Vec::new());
    let mut put = |first: usize, made: &[Tensor]| {
        let parts = parts[first..].iter_mut().zip(made);
        parts.for_each(|(part, tensor)| part.push(tensor.clone()));
    };
    for column in &sparse {
        put(0, &column.sparse(cx, batched)?);
    }
    for (column, shape) in dense.iter().zip(shapes) {
        put(3, &column.dense(cx, shape, batched)?);
    }
    for (column, &splits) in ragged.iter().zip(attrs.types(LISTS.splits)) {
        put(5, &column.ragged(cx, splits, batched)?);
    }
    Ok(Parsed {
        context: context.finish(cx, batched)?,
        lists: parts,
    })
}

struct Parsed {
    context: Vec<Tensor>,
    lists: [Vec<Tensor>; 8],
}

impl Parsed {
    fn all(self) -> Vec<Tensor> {
        let lists = self.lists.into_iter().flatten();
        self.context.into_iter().chain(lists).collect()
    }
}

/// Sets the shapes of outputs; `batch` is the shape of the examples.
fn shapes(
    cx: &mut Infer<'_>,
    batch: Option<&[Option<usize>]>,
    lengths: bool,
) -> Result<(), InferError> {
    let rank = batch.map(|batch| batch.len() + 1);
    let context_ragged = 2 * cx.attrs().types(CONTEXT.ragged).len();
    let next = set_shapes(cx, &CONTEXT, 0, rank, batch);
    let next = set_vectors(cx, next, context_ragged);
    let steps = batch.map(|batch| [batch, &[None]].concat());
    let rank = rank.map(|rank| rank + 1);
    let mut next = set_shapes(cx, &LISTS, next, rank, steps.as_deref());
    let dense = cx.attrs().types(LISTS.dense).len();
    if lengths {
        if let Some(batch) = batch {
            (next..next + dense).for_each(|i| cx.set(i, Shape::partial(batch.iter().copied())));
        }
        next += dense;
    }
    set_vectors(cx, next, 3 * cx.attrs().types(LISTS.ragged).len());
    Ok(())
}

/// A number of features, 0 by default.
const fn count(name: &'static str) -> AttrDef {
    AttrDef {
        default: Default::Int(0),
        ..any_count_attr(name)
    }
}

const fn types(name: &'static str) -> AttrDef {
    list_attr(name, AttrKind::Types)
}

const SERIALIZED: Arg = arg_of("serialized", DType::String);
const DEBUG_NAME: Arg = arg_of("debug_name", DType::String);
const DEFAULTS: Arg = args_of("context_dense_defaults", "Tcontext_dense");
const SPARSE_INDICES: Arg = arg_of("context_sparse_indices", DType::I64).list("Ncontext_sparse");
const SPARSE_VALUES: Arg = args_of("context_sparse_values", "context_sparse_types");
const SPARSE_SHAPES: Arg = arg_of("context_sparse_shapes", DType::I64).list("Ncontext_sparse");
const DENSE_VALUES: Arg = args_of("context_dense_values", "Tcontext_dense");
const LIST_INDICES: Arg =
    arg_of("feature_list_sparse_indices", DType::I64).list("Nfeature_list_sparse");
const LIST_VALUES: Arg = args_of("feature_list_sparse_values", "feature_list_sparse_types");
const LIST_SHAPES: Arg =
    arg_of("feature_list_sparse_shapes", DType::I64).list("Nfeature_list_sparse");
const LIST_DENSE: Arg = args_of("feature_list_dense_values", "feature_list_dense_types");
const LIST_LENGTHS: Arg =
    arg_of("feature_list_dense_lengths", DType::I64).list("Nfeature_list_dense");

const CONTEXT_SPARSE: AttrDef = count("Ncontext_sparse");
const CONTEXT_DENSE: AttrDef = count("Ncontext_dense");
const LIST_SPARSE_COUNT: AttrDef = count("Nfeature_list_sparse");
const LIST_DENSE_COUNT: AttrDef = count("Nfeature_list_dense");
const CONTEXT_SPARSE_TYPES: AttrDef = types("context_sparse_types");
const CONTEXT_DENSE_TYPES: AttrDef = types("Tcontext_dense");
const LIST_DENSE_TYPES: AttrDef = types("feature_list_dense_types");
const LIST_SPARSE_TYPES: AttrDef = types("feature_list_sparse_types");
const CONTEXT_DENSE_SHAPES: AttrDef = list_attr("context_dense_shapes", AttrKind::Shapes);
const LIST_DENSE_SHAPES: AttrDef = list_attr("feature_list_dense_shapes", AttrKind::Shapes);

/// Sequences whose features attributes name.
pub(crate) static PARSE_SEQUENCE: Op = Op {
    def: OpDef {
        name: "ParseSequenceExample",
        summary: "Features of serialized tf.train.SequenceExample messages, of the whole and of steps, as sparse and dense tensors.",
        inputs: &[SERIALIZED, DEBUG_NAME, DEFAULTS],
        outputs: &[
            SPARSE_INDICES,
            SPARSE_VALUES,
            SPARSE_SHAPES,
            DENSE_VALUES,
            LIST_INDICES,
            LIST_VALUES,
            LIST_SHAPES,
            LIST_DENSE,
            LIST_LENGTHS,
        ],
        attrs: &[
            list_attr("feature_list_dense_missing_assumed_empty", AttrKind::Strs),
            list_attr("context_sparse_keys", AttrKind::Strs),
            list_attr("context_dense_keys", AttrKind::Strs),
            list_attr("feature_list_sparse_keys", AttrKind::Strs),
            list_attr("feature_list_dense_keys", AttrKind::Strs),
            CONTEXT_SPARSE,
            CONTEXT_DENSE,
            LIST_SPARSE_COUNT,
            LIST_DENSE_COUNT,
            CONTEXT_SPARSE_TYPES,
            CONTEXT_DENSE_TYPES,
            LIST_DENSE_TYPES,
            CONTEXT_DENSE_SHAPES,
            LIST_SPARSE_TYPES,
            LIST_DENSE_SHAPES,
        ],
        shape: |cx| {
            cx.ranked(0, 1)?;
            let batch = batch_dims(cx);
            shapes(cx, batch.as_deref(), true)
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let named = |attr| keys_of_attr(cx, attr);
        let missing = named("feature_list_dense_missing_assumed_empty")?;
        let dense = named("feature_list_dense_keys")?;
        let request = Request {
            context: Keys {
                sparse: named("context_sparse_keys")?,
                dense: named("context_dense_keys")?,
                ragged: Vec::new(),
            },
            may_miss: dense.iter().map(|key| missing.contains(key)).collect(),
            lists: Keys {
                sparse: named("feature_list_sparse_keys")?,
                dense,
                ragged: Vec::new(),
            },
            first_default: 2,
            batched: is_batch(cx.tensor(0)?)?,
        };
        Ok(parse(cx, request)?.all())
    })],
};

/// Sequences of which vectors name features.
pub(crate) static PARSE_SEQUENCE_V2: Op = Op {
    def: OpDef {
        name: "ParseSequenceExampleV2",
        summary: "Features of serialized tf.train.SequenceExample messages, of the whole and of steps, as sparse, dense and ragged tensors.",
        inputs: &[
            SERIALIZED,
            DEBUG_NAME,
            arg_of("context_sparse_keys", DType::String),
            arg_of("context_dense_keys", DType::String),
            arg_of("context_ragged_keys", DType::String),
            arg_of("feature_list_sparse_keys", DType::String),
            arg_of("feature_list_dense_keys", DType::String),
            arg_of("feature_list_ragged_keys", DType::String),
            arg_of("feature_list_dense_missing_assumed_empty", DType::Bool),
            DEFAULTS,
        ],
        outputs: &[
            SPARSE_INDICES,
            SPARSE_VALUES,
            SPARSE_SHAPES,
            DENSE_VALUES,
            args_of("context_ragged_values", "context_ragged_value_types"),
            args_of("context_ragged_row_splits", "context_ragged_split_types"),
            LIST_INDICES,
            LIST_VALUES,
            LIST_SHAPES,
            LIST_DENSE,
            LIST_LENGTHS,
            args_of(
                "feature_list_ragged_values",
                "feature_list_ragged_value_types",
            ),
            args_of(
                "feature_list_ragged_outer_splits",
                "feature_list_ragged_split_types",
            ),
            args_of(
                "feature_list_ragged_inner_splits",
                "feature_list_ragged_split_types",
            ),
        ],
        attrs: &[
            CONTEXT_SPARSE,
            CONTEXT_DENSE_TYPES,
            CONTEXT_SPARSE_TYPES,
            types("context_ragged_value_types"),
            types("context_ragged_split_types"),
            CONTEXT_DENSE_SHAPES,
            LIST_SPARSE_COUNT,
            LIST_DENSE_COUNT,
            LIST_DENSE_TYPES,
            LIST_SPARSE_TYPES,
            types("feature_list_ragged_value_types"),
            types("feature_list_ragged_split_types"),
            LIST_DENSE_SHAPES,
        ],
        shape: |cx| {
            let batch = batch_dims(cx);
            shapes(cx, batch.as_deref(), true)
        },
        ..PARSE_SEQUENCE.def
    },
    kernels: &[cpu_tensors(|cx| {
        let request = Request {
            context: Keys {
                sparse: keys(cx, 2)?,
                dense: keys(cx, 3)?,
                ragged: keys(cx, 4)?,
            },
            lists: Keys {
                sparse: keys(cx, 5)?,
                dense: keys(cx, 6)?,
                ragged: keys(cx, 7)?,
            },
            may_miss: cx.slice::<bool>(8)?.to_vec(),
            first_default: 9,
            batched: is_batch(cx.tensor(0)?)?,
        };
        Ok(parse(cx, request)?.all())
    })],
};

/// One sequence, of which each input names a feature.
pub(crate) static PARSE_SINGLE_SEQUENCE: Op = Op {
    def: OpDef {
        name: "ParseSingleSequenceExample",
        summary: "Features of a serialized tf.train.SequenceExample message, of the whole and of steps, as sparse and dense tensors.",
        inputs: &[
            SERIALIZED,
            arg_of("feature_list_dense_missing_assumed_empty", DType::String),
            arg_of("context_sparse_keys", DType::String).list("Ncontext_sparse"),
            arg_of("context_dense_keys", DType::String).list("Ncontext_dense"),
            arg_of("feature_list_sparse_keys", DType::String).list("Nfeature_list_sparse"),
            arg_of("feature_list_dense_keys", DType::String).list("Nfeature_list_dense"),
            DEFAULTS,
            DEBUG_NAME,
        ],
        outputs: &[
            SPARSE_INDICES,
            SPARSE_VALUES,
            SPARSE_SHAPES,
            DENSE_VALUES,
            LIST_INDICES,
            LIST_VALUES,
            LIST_SHAPES,
            LIST_DENSE,
        ],
        attrs: &[
            CONTEXT_SPARSE,
            CONTEXT_DENSE,
            LIST_SPARSE_COUNT,
            LIST_DENSE_COUNT,
            CONTEXT_SPARSE_TYPES,
            CONTEXT_DENSE_TYPES,
            LIST_DENSE_TYPES,
            CONTEXT_DENSE_SHAPES,
            LIST_SPARSE_TYPES,
            LIST_DENSE_SHAPES,
        ],
        shape: |cx| {
            cx.ranked(0, 0)?;
            shapes(cx, Some(&[]), false)
        },
        ..PARSE_SEQUENCE.def
    },
    kernels: &[cpu_tensors(|cx| {
        if is_batch(cx.tensor(0)?)? {
            return Err(KernelError::Invalid(
                "serialized must be one string: use ParseSequenceExample for several".to_owned(),
            ));
        }
        let missing = keys(cx, 1)?;
        let mut next = 2;
        let mut named = |count_of| {
            let count = cx.attrs().types(count_of).len();
            next += count;
            keys_of_inputs(cx, next - count, count)
        };
        let context = Keys {
            sparse: named(CONTEXT.sparse)?,
            dense: named(CONTEXT.dense)?,
            ragged: Vec::new(),
        };
        let lists = Keys {
            sparse: named(LISTS.sparse)?,
            dense: named(LISTS.dense)?,
            ragged: Vec::new(),
        };
        let request = Request {
            may_miss: lists
                .dense
                .iter()
                .map(|key| missing.contains(key))
                .collect(),
            context,
            lists,
            first_default: next,
            batched: false,
        };
        let mut parsed = parse(cx, request)?;
        // It has no output for the numbers of steps.
        parsed.lists[4].clear();
        Ok(parsed.all())
    })],
};
