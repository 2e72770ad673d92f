//! Names of TensorFlow's experiments: each is the op whose name has no `Experimental`.

use thalweg_device::Op;
use thalweg_graph::OpDef;

use super::{
    batch, csv_dataset, file_datasets, functions, groups, interleave, iterator_ops, mixing,
    pass_through, reduce, selection,
};

/// The same op by another name.
const fn named(name: &'static str, op: &'static Op) -> Op {
    Op {
        def: OpDef { name, ..op.def },
        kernels: op.kernels,
    }
}

pub(crate) static ASSERT_NEXT: Op =
    named("ExperimentalAssertNextDataset", &pass_through::ASSERT_NEXT);
pub(crate) static BYTES_STATS: Op = named(
    "ExperimentalBytesProducedStatsDataset",
    &pass_through::BYTES_STATS,
);
pub(crate) static LATENCY_STATS: Op = named(
    "ExperimentalLatencyStatsDataset",
    &pass_through::LATENCY_STATS,
);
pub(crate) static MAX_PARALLELISM: Op = named(
    "ExperimentalMaxIntraOpParallelismDataset",
    &pass_through::MAX_PARALLELISM,
);
pub(crate) static PRIVATE_THREADS: Op = named(
    "ExperimentalPrivateThreadPoolDataset",
    &pass_through::PRIVATE_THREADS,
);
pub(crate) static NON_SERIALIZABLE: Op = named(
    "ExperimentalNonSerializableDataset",
    &pass_through::NON_SERIALIZABLE,
);
pub(crate) static CHOOSE_FASTEST: Op =
    named("ExperimentalChooseFastestDataset", &mixing::CHOOSE_FASTEST);
pub(crate) static DIRECTED_INTERLEAVE: Op = named(
    "ExperimentalDirectedInterleaveDataset",
    &mixing::DIRECTED_INTERLEAVE,
);
pub(crate) static REBATCH: Op = named("ExperimentalRebatchDataset", &mixing::REBATCH);
pub(crate) static SLEEP: Op = named("ExperimentalSleepDataset", &mixing::SLEEP);
pub(crate) static SLIDING_WINDOW: Op =
    named("ExperimentalSlidingWindowDataset", &mixing::SLIDING_WINDOW);
pub(crate) static UNIQUE: Op = named("ExperimentalUniqueDataset", &selection::UNIQUE);
pub(crate) static IGNORE_ERRORS: Op =
    named("ExperimentalIgnoreErrorsDataset", &selection::IGNORE_ERRORS);
pub(crate) static RANDOM: Op = named("ExperimentalRandomDataset", &selection::RANDOM);
pub(crate) static GROUP_BY_WINDOW: Op =
    named("ExperimentalGroupByWindowDataset", &groups::GROUP_BY_WINDOW);
pub(crate) static GROUP_BY_REDUCER: Op = named(
    "ExperimentalGroupByReducerDataset",
    &groups::GROUP_BY_REDUCER,
);
pub(crate) static SCAN: Op = named("ExperimentalScanDataset", &functions::SCAN);
pub(crate) static TAKE_WHILE: Op = named("ExperimentalTakeWhileDataset", &functions::TAKE_WHILE);
pub(crate) static UNBATCH: Op = named("ExperimentalUnbatchDataset", &batch::UNBATCH);
pub(crate) static MAP_AND_BATCH: Op =
    named("ExperimentalMapAndBatchDataset", &batch::MAP_AND_BATCH);
pub(crate) static MATCHING_FILES: Op = named(
    "ExperimentalMatchingFilesDataset",
    &file_datasets::MATCHING_FILES,
);
pub(crate) static CSV: Op = named("ExperimentalCSVDataset", &csv_dataset::CSV);
pub(crate) static PARALLEL_INTERLEAVE: Op = named(
    "ExperimentalParallelInterleaveDataset",
    &interleave::PARALLEL_INTERLEAVE,
);
pub(crate) static CARDINALITY: Op = named("ExperimentalDatasetCardinality", &reduce::CARDINALITY);
pub(crate) static GET_DEVICE: Op =
    named("ExperimentalIteratorGetDevice", &iterator_ops::GET_DEVICE);
