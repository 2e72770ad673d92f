//! PrefetchDataset, OptionsDataset, ModelDataset, OptimizeDataset, OptimizeDatasetV2, RewriteDataset,
//! FinalizeDataset, AssertCardinalityDataset, AssertNextDataset, BytesProducedStatsDataset, LatencyStatsDataset,
//! MaxIntraOpParallelismDataset, PrivateThreadPoolDataset, NonSerializableDataset: datasets with the elements of another
//! one.

use std::sync::Arc;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Arg, AttrDef, arg_of, attr, bool_attr, int_attr, list_attr};
use thalweg_graph::{AttrKind, OpDef};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Tensor};

use super::dataset::{
    Cardinality, DATASET_OP, Dataset, DatasetValue, INPUT, METADATA, Row, Rows, SHAPES, TYPES,
    input, number, over,
};

/// The input as it is.
fn unchanged(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    input(cx, 0)?;
    Ok(vec![cx.value(0)?])
}

/// A data set whose number of elements the graph asserts.
struct AssertCardinality {
    before: Arc<DatasetValue>,
    expected: u64,
}

impl Dataset for AssertCardinality {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(AssertedRows {
            before: self.before.dataset.rows(cx)?,
            expected: self.expected,
            found: 0,
        }))
    }

    fn cardinality(&self) -> Cardinality {
        Cardinality::Finite(self.expected)
    }
}

struct AssertedRows {
    before: Box<dyn Rows>,
    expected: u64,
    found: u64,
}

impl Rows for AssertedRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let row = self.before.next(cx)?;
        self.found += u64::from(row.is_some());
        if self.found > self.expected || (row.is_none() && self.found < self.expected) {
            return Err(KernelError::Invalid(format!(
                "the dataset was said to have {}, and has {}",
                counted(self.expected, "element"),
                if row.is_some() {
                    "more".to_owned()
                } else {
                    self.found.to_string()
                }
            )));
        }
        Ok(row)
    }
}

/// Elements that are made ahead in TensorFlow.
pub(crate) static PREFETCH: Op = Op {
    def: OpDef {
        name: "PrefetchDataset",
        summary: "The elements of a dataset. They are made in the step that takes them, not ahead of it.",
        inputs: &[INPUT, number("buffer_size")],
        attrs: &[
            TYPES,
            SHAPES,
            int_attr("slack_period", 0),
            bool_attr("legacy_autotune", true),
            int_attr("buffer_size_min", 0),
            METADATA,
        ],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(unchanged)],
};

/// Options of TensorFlow's runtime.
pub(crate) static OPTIONS: Op = Op {
    def: OpDef {
        name: "OptionsDataset",
        summary: "The elements of a dataset. The options, which are of TensorFlow's runtime, change nothing.",
        attrs: &[
            attr("serialized_options", AttrKind::Str),
            TYPES,
            SHAPES,
            METADATA,
        ],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(unchanged)],
};

/// A model of TensorFlow's autotuning.
pub(crate) static MODEL: Op = Op {
    def: OpDef {
        name: "ModelDataset",
        summary: "The elements of a dataset. Nothing is tuned.",
        attrs: &[
            int_attr("algorithm", 0),
            int_attr("cpu_budget", 0),
            int_attr("ram_budget", 0),
            TYPES,
            SHAPES,
        ],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(unchanged)],
};

const CONFIGS: AttrDef = list_attr("optimization_configs", AttrKind::Strs);

/// TensorFlow's optimizations.
pub(crate) static OPTIMIZE: Op = Op {
    def: OpDef {
        name: "OptimizeDataset",
        summary: "The elements of a dataset. Its chain of datasets is left as it is.",
        inputs: &[INPUT, arg_of("optimizations", DType::String)],
        attrs: &[TYPES, SHAPES, CONFIGS],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(unchanged)],
};

/// As [`OPTIMIZE`].
pub(crate) static OPTIMIZE_V2: Op = Op {
    def: OpDef {
        name: "OptimizeDatasetV2",
        summary: "The elements of a dataset. Its chain of datasets is left as it is.",
        inputs: &[
            INPUT,
            arg_of("optimizations_enabled", DType::String),
            arg_of("optimizations_disabled", DType::String),
            arg_of("optimizations_default", DType::String),
        ],
        attrs: &[TYPES, SHAPES, CONFIGS],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(unchanged)],
};

/// One of TensorFlow's rewrites.
pub(crate) static REWRITE: Op = Op {
    def: OpDef {
        name: "RewriteDataset",
        summary: "The elements of a dataset. Its chain of datasets is left as it is.",
        inputs: &[INPUT, arg_of("rewrite_name", DType::String)],
        attrs: &[TYPES, SHAPES],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(unchanged)],
};

/// The end of a chain.
pub(crate) static FINALIZE: Op = Op {
    def: OpDef {
        name: "FinalizeDataset",
        summary: "The elements of a dataset.",
        attrs: &[bool_attr("has_captured_ref", false), TYPES, SHAPES],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(unchanged)],
};

/// A number of elements that is checked.
pub(crate) static ASSERT_CARDINALITY: Op = Op {
    def: OpDef {
        name: "AssertCardinalityDataset",
        summary: "The elements of a dataset; another number of them than it was said to have is an error.",
        inputs: &[INPUT, number("cardinality")],
        attrs: &[TYPES, SHAPES],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let before = input(cx, 0)?;
        let Ok(expected) = u64::try_from(cx.int(1)?) else {
            return unchanged(cx);
        };
        over(
            &[&before.clone()],
            AssertCardinality { before, expected },
            &[],
        )
    })],
};

/// A dataset with the elements of its input, whatever the other inputs are.
const fn unchanged_by(name: &'static str, summary: &'static str, inputs: &'static [Arg]) -> Op {
    Op {
        def: OpDef {
            name,
            summary,
            inputs,
            attrs: const { &[TYPES, SHAPES] },
            ..DATASET_OP
        },
        kernels: const { &[cpu_tensors(unchanged)] },
    }
}

/// A test of TensorFlow's optimizations.
pub(crate) static ASSERT_NEXT: Op = unchanged_by(
    "AssertNextDataset",
    "The elements of a dataset. Its chain of datasets, which nothing changes, is not checked.",
    &[INPUT, arg_of("transformations", DType::String)],
);
/// Statistics.
pub(crate) static BYTES_STATS: Op = unchanged_by(
    "BytesProducedStatsDataset",
    "The elements of a dataset. Their bytes are not counted.",
    &[INPUT, arg_of("tag", DType::String)],
);
/// Statistics.
pub(crate) static LATENCY_STATS: Op = unchanged_by(
    "LatencyStatsDataset",
    "The elements of a dataset. Their time is not taken.",
    &[INPUT, arg_of("tag", DType::String)],
);
/// Threads.
pub(crate) static MAX_PARALLELISM: Op = unchanged_by(
    "MaxIntraOpParallelismDataset",
    "The elements of a dataset, on the threads of the session.",
    &[INPUT, number("max_intra_op_parallelism")],
);
/// Threads.
pub(crate) static PRIVATE_THREADS: Op = unchanged_by(
    "PrivateThreadPoolDataset",
    "The elements of a dataset, on the threads of the session.",
    &[INPUT, number("num_threads")],
);
/// A dataset that TensorFlow does not save.
pub(crate) static NON_SERIALIZABLE: Op = unchanged_by(
    "NonSerializableDataset",
    "The elements of a dataset.",
    &[INPUT],
);

/// A dataset in another variant.
const fn wrapped(name: &'static str) -> Op {
    Op {
        def: OpDef {
            name,
            summary: "The dataset, as it is.",
            inputs: const { &[arg_of("input_handle", DType::Variant)] },
            outputs: const { &[arg_of("output_handle", DType::Variant)] },
            attrs: &[],
            ..DATASET_OP
        },
        kernels: const { &[cpu_tensors(unchanged)] },
    }
}

/// TensorFlow hides a dataset in a variant from its optimizer.
pub(crate) static WRAP: Op = wrapped("WrapDatasetVariant");
/// The other way.
pub(crate) static UNWRAP: Op = wrapped("UnwrapDatasetVariant");
