//! Reasons for which an op of TensorFlow is refused, by family.

/// The ops that a reason is about.
pub(super) enum Ops {
    /// All ops of an area.
    Area(&'static str),
    /// All ops whose names begin so.
    Prefix(&'static str),
    /// These ops.
    Names(&'static [&'static str]),
}

impl Ops {
    /// `true` if the reason is about this op.
    pub(super) fn has(&self, area: &str, name: &str) -> bool {
        match self {
            Ops::Area(all) => *all == area,
            Ops::Prefix(prefix) => name.starts_with(prefix),
            Ops::Names(names) => names.contains(&name),
        }
    }
}

const QUANTIZED: &str =
    "it computes with quantised integers; here they are moved, cast and dequantised, no more";
const REMOVED: &str = "TensorFlow has removed it";
const GPU_ALONE: &str = "TensorFlow has it on GPUs alone";
const NO_KERNEL: &str = "TensorFlow has no kernel for it";
const FIRST_ARRAYS: &str = "graphs before TensorFlow 1.0 have it; later ones have TensorArrayV3";
const EAGER: &str = "eager execution makes it; graphs have IteratorV2 and CacheDatasetV2";
const RUNTIME_STATISTICS: &str = "it takes statistics of TensorFlow's input threads";
const READER_STATE: &str = "its bytes are the state of TensorFlow's own reader";
const LMDB: &str = "a graph reads no LMDB files; `thalweg::data` does";
const CONTRIB_CLUSTERS: &str = "it is of tf.contrib.factorization; `thalweg::stats` has K-means";

/// The refused ops, with the reason.
pub(super) static REFUSED: &[(Ops, &str)] = &[
    (Ops::Area("tpu"), "it runs on TPUs"),
    (
        Ops::Area("script"),
        "it calls a Python function of the client's process",
    ),
    (Ops::Area("cudnn_rnn"), GPU_ALONE),
    (Ops::Area("nccl"), GPU_ALONE),
    (Ops::Names(&["MaxPoolGradGradWithArgmax"]), GPU_ALONE),
    (Ops::Area("boosted_trees"), REMOVED),
    (Ops::Area("tensor_forest"), REMOVED),
    (Ops::Area("rpc"), REMOVED),
    (
        Ops::Area("remote_fused_graph"),
        "it runs on Hexagon processors",
    ),
    (
        Ops::Area("debug"),
        "TensorFlow's debugger adds it to a running graph",
    ),
    (Ops::Prefix("Quantized"), QUANTIZED),
    (Ops::Prefix("Requanti"), QUANTIZED),
    (Ops::Names(&["QuantizeDownAndShrinkRange"]), QUANTIZED),
    (Ops::Prefix("BatchFFT"), NO_KERNEL),
    (Ops::Prefix("BatchIFFT"), NO_KERNEL),
    (
        Ops::Names(&["ExperimentalMapDataset", "FilterByLastComponentDataset"]),
        NO_KERNEL,
    ),
    (
        Ops::Area("sdca"),
        "it is of tf.contrib.linear_optimizer; other optimizers train linear models",
    ),
    (
        Ops::Names(&[
            "KMC2ChainInitialization",
            "KmeansPlusPlusInitialization",
            "NearestNeighbors",
        ]),
        CONTRIB_CLUSTERS,
    ),
    (
        Ops::Names(&[
            "CollectiveBcastRecv",
            "CollectiveBcastSend",
            "CollectiveGather",
            "CollectiveReduce",
        ]),
        "its keys are attributes of TensorFlow's tasks; the second versions run",
    ),
    (
        Ops::Names(&["Abort"]),
        "it ends the process, which no graph may do",
    ),
    (
        Ops::Names(&["MutableDenseHashTable"]),
        "TensorFlow's kernel asks for an input that it does not have; the second version runs",
    ),
    (Ops::Names(&FIRST_TENSOR_ARRAYS), FIRST_ARRAYS),
    (
        Ops::Names(&[
            "AnonymousMemoryCache",
            "AnonymousMultiDeviceIterator",
            "AnonymousRandomSeedGenerator",
            "DeleteMemoryCache",
            "DeleteMultiDeviceIterator",
            "DeleteRandomSeedGenerator",
        ]),
        EAGER,
    ),
    (
        Ops::Names(&[
            "StatsAggregatorHandle",
            "StatsAggregatorHandleV2",
            "StatsAggregatorSetSummaryWriter",
            "StatsAggregatorSummary",
            "SetStatsAggregatorDataset",
            "ExperimentalStatsAggregatorHandle",
            "ExperimentalStatsAggregatorSummary",
            "ExperimentalSetStatsAggregatorDataset",
        ]),
        RUNTIME_STATISTICS,
    ),
    (
        Ops::Names(&[
            "ReaderRestoreState",
            "ReaderRestoreStateV2",
            "ReaderSerializeState",
            "ReaderSerializeStateV2",
        ]),
        READER_STATE,
    ),
    (
        Ops::Names(&["LMDBDataset", "ExperimentalLMDBDataset", "LMDBReader"]),
        LMDB,
    ),
    (
        Ops::Names(&[
            "SqlDataset",
            "ExperimentalSqlDataset",
            "CreateSummaryDbWriter",
        ]),
        "it works on SQLite databases",
    ),
    (
        Ops::Names(&["NegTrain", "Skipgram"]),
        "TensorFlow has moved it to a tutorial",
    ),
    (
        Ops::Names(&["DatasetToGraph", "DatasetFromGraph"]),
        "it takes the graph that TensorFlow's own dataset stands for",
    ),
    (
        Ops::Names(&["FakeQueue"]),
        "it is a test of TensorFlow's queues",
    ),
];

/// The ops of the first two versions of TensorArray.
const FIRST_TENSOR_ARRAYS: [&str; 22] = [
    "TensorArray",
    "TensorArrayClose",
    "TensorArrayCloseV2",
    "TensorArrayConcat",
    "TensorArrayConcatV2",
    "TensorArrayGather",
    "TensorArrayGatherV2",
    "TensorArrayGrad",
    "TensorArrayGradV2",
    "TensorArrayPack",
    "TensorArrayRead",
    "TensorArrayReadV2",
    "TensorArrayScatter",
    "TensorArrayScatterV2",
    "TensorArraySize",
    "TensorArraySizeV2",
    "TensorArraySplit",
    "TensorArraySplitV2",
    "TensorArrayUnpack",
    "TensorArrayV2",
    "TensorArrayWrite",
    "TensorArrayWriteV2",
];
