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
    "it computes with quantised integers (qint8, quint8, qint32), which are no dtypes here";
const REMOVED: &str = "TensorFlow has removed it";
const GPU_ALONE: &str = "TensorFlow has it on GPUs alone";
const NO_KERNEL: &str = "TensorFlow has no kernel for it";

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
];
