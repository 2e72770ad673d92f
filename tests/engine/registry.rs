//! Completeness of the op registry: every op has a case in the table, and a gradient or a reason to have none.

use std::collections::BTreeSet;

use thalweg_graph::op::Gradient;
use thalweg_tests::golden::cases;

/// Reasons for ops without a case.
const NEEDS_FILES: &str = "it works on files: tests/engine/checkpoints.rs runs it";
const READS_FILES: &str =
    "it reads files: tests/tensorflow_client/input.py runs it beside TensorFlow";
const BESIDE_ANOTHER: &str = "another op with the same kernel has the cases";
const IMAGE_FILES: &str =
    "the bytes or pixels depend on the codec: tests/engine/image_files.rs compares them";
const FIRST_FORMAT: &str = "it reads files: tests/engine/first_checkpoints.rs runs it";
const NO_KERNEL: &str = "it is there so that graphs can be read, and has no kernel yet";

const RANKS: &str = "it takes several sessions: crates/session/tests/collectives runs it";
const NOT_IN_TENSORFLOW: &str = "TensorFlow does not have it: tests/cluster/synchronous.rs runs it";
const ON_GPUS_ALONE: &str =
    "TensorFlow has no kernel of it for CPUs: tests/engine/csr_matrices.rs runs it";
const NOT_IN_TABLE: &str =
    "the table has no lists, arrays or stacks: tests/engine/tensor_lists.rs runs it";

/// The ops that the golden graphs have, which `tests/engine/golden_graphs.rs` runs.
fn in_graphs() -> BTreeSet<String> {
    let folder = thalweg_tests::root().join("tests/golden/graphs");
    let mut ops = BTreeSet::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|e| e == "json") {
            let json: serde_json::Value =
                serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
            let listed = json["ops"].as_array().into_iter().flatten();
            ops.extend(listed.filter_map(|op| op.as_str().map(str::to_owned)));
        }
    }
    ops
}

/// Ops without a case in the table, with the reason.
const WITHOUT_CASE: &[(&str, &str)] = &[
    ("TFRecordDataset", READS_FILES),
    ("TFRecordDatasetV2", READS_FILES),
    ("TextLineDataset", READS_FILES),
    ("CSVDataset", READS_FILES),
    ("CSVDatasetV2", READS_FILES),
    ("ExperimentalCSVDataset", BESIDE_ANOTHER),
    ("FixedLengthRecordDataset", READS_FILES),
    ("FixedLengthRecordDatasetV2", READS_FILES),
    ("MatchingFilesDataset", READS_FILES),
    ("TFRecordReaderV2", READS_FILES),
    ("TextLineReaderV2", READS_FILES),
    ("FixedLengthRecordReaderV2", READS_FILES),
    ("WholeFileReaderV2", READS_FILES),
    ("IdentityReaderV2", READS_FILES),
    ("ReaderReadV2", READS_FILES),
    ("ReaderReadUpToV2", READS_FILES),
    ("ReadFile", READS_FILES),
    ("MatchingFiles", READS_FILES),
    ("BatchDataset", BESIDE_ANOTHER),
    ("PaddedBatchDataset", BESIDE_ANOTHER),
    ("OptimizeDatasetV2", BESIDE_ANOTHER),
    ("WriteFile", "tests/engine/input runs it"),
    ("RecordInput", "tests/engine/input runs it"),
    ("GenerateVocabRemapping", READS_FILES),
    ("LoadAndRemapMatrix", READS_FILES),
    (
        "Timestamp",
        "it gives the time: tests/engine/ops_by_hand.rs runs it",
    ),
    ("ReaderNumRecordsProducedV2", "tests/engine/input runs it"),
    (
        "ReaderNumWorkUnitsCompletedV2",
        "tests/engine/input runs it",
    ),
    ("ReaderResetV2", "tests/engine/input runs it"),
    ("IteratorGetDevice", "tests/engine/input runs it"),
    (
        "BatchMatMul",
        "BatchMatMulV2 without broadcasting: tests/engine/gradients.rs runs it",
    ),
    ("RandomPoisson", BESIDE_ANOTHER),
    ("Const", "every constant of every case is one"),
    ("Placeholder", "every fed input of every case is one"),
    (
        "PlaceholderWithDefault",
        "a feed decides what it gives: tests/engine/steps.rs feeds it and leaves it",
    ),
    ("NoOp", "it computes nothing"),
    (
        "_HandleName",
        "a reference is read by it: tests/engine/opaque_values reads some",
    ),
    (
        "DisableCopyOnRead",
        "it computes nothing: crates/train/tests/exported_models.rs loads models that have it",
    ),
    (
        "AudioSummary",
        "TensorFlow has removed it: tests/engine/ops_by_hand.rs compares it with AudioSummaryV2",
    ),
    ("FakeParam", NOT_IN_TABLE),
    (
        "_ShapeError",
        "it stands for a node in a branch that is not taken: golden graph untaken_branches runs it",
    ),
    ("SparseMatrixAdd", ON_GPUS_ALONE),
    ("SparseMatrixMul", ON_GPUS_ALONE),
    ("SparseMatrixZeros", ON_GPUS_ALONE),
    ("SparseMatrixSoftmax", ON_GPUS_ALONE),
    ("SparseMatrixSoftmaxGrad", ON_GPUS_ALONE),
    ("TensorListGather", NOT_IN_TABLE),
    ("TensorListScatterV2", NOT_IN_TABLE),
    ("TensorListScatterIntoExistingList", NOT_IN_TABLE),
    ("TensorListConcatV2", NOT_IN_TABLE),
    ("TensorListSplit", NOT_IN_TABLE),
    ("StackCloseV2", NOT_IN_TABLE),
    ("TensorArrayCloseV3", NOT_IN_TABLE),
    ("TensorArraySplitV3", NOT_IN_TABLE),
    ("TensorArrayConcatV3", NOT_IN_TABLE),
    ("OptionalHasValue", NOT_IN_TABLE),
    (
        "TensorSummary",
        "it gives its own name, which the table does not have: tests/engine/ops_by_hand.rs runs it",
    ),
    (
        "ImageSummary",
        "the bytes of a PNG are its compressor's: crates/summary/tests/images.rs compares pixels",
    ),
    ("DecodeAndCropJpeg", IMAGE_FILES),
    ("EncodeJpeg", IMAGE_FILES),
    ("EncodePng", IMAGE_FILES),
    (
        "RandomCrop",
        "TensorFlow has removed it: tests/engine/image_files.rs runs it",
    ),
    ("SaveV2", NEEDS_FILES),
    ("RestoreV2", NEEDS_FILES),
    ("MergeV2Checkpoints", NEEDS_FILES),
    ("Save", NO_KERNEL),
    ("SaveSlices", NO_KERNEL),
    ("Restore", FIRST_FORMAT),
    ("RestoreSlice", FIRST_FORMAT),
    (
        "DestroyResourceOp",
        "it leaves no value to compare: tests/engine/ops_by_hand.rs runs it",
    ),
    ("GetSessionHandle", SESSION_TENSORS),
    ("GetSessionTensor", SESSION_TENSORS),
    ("DeleteSessionTensor", SESSION_TENSORS),
    (
        "TopK",
        "TensorFlow has taken it back; it is TopKV2 with an attribute for an input",
    ),
    ("BatchCholesky", TAKEN_BACK),
    ("BatchCholeskyGrad", TAKEN_BACK),
    ("BatchMatrixInverse", TAKEN_BACK),
    ("BatchMatrixSolve", TAKEN_BACK),
    ("BatchMatrixTriangularSolve", TAKEN_BACK),
    ("BatchMatrixDeterminant", TAKEN_BACK),
    ("BatchSelfAdjointEigV2", TAKEN_BACK),
    ("BatchSvd", TAKEN_BACK),
    ("BatchMatrixSolveLs", TAKEN_BACK),
    ("SelfAdjointEig", TAKEN_BACK),
    (
        "Eig",
        "eigenvalues in no order: tests/engine/eigenvalues.rs",
    ),
    ("BatchSelfAdjointEig", TAKEN_BACK),
    ("VarHandleOp", "every variable of every case is one"),
    ("CompareAndBitpack", TAKEN_BACK_RARE),
    ("WrapDatasetVariant", BESIDE_ANOTHER),
    ("UnwrapDatasetVariant", BESIDE_ANOTHER),
    ("ChooseFastestDataset", BESIDE_ANOTHER),
    ("GroupByReducerDataset", BESIDE_ANOTHER),
    ("ExperimentalChooseFastestDataset", BESIDE_ANOTHER),
    ("ExperimentalRebatchDataset", BESIDE_ANOTHER),
    ("ExperimentalRandomDataset", BESIDE_ANOTHER),
    ("ExperimentalGroupByWindowDataset", BESIDE_ANOTHER),
    ("ExperimentalScanDataset", BESIDE_ANOTHER),
    ("ExperimentalMatchingFilesDataset", BESIDE_ANOTHER),
    ("ExperimentalIteratorGetDevice", BESIDE_ANOTHER),
    (
        "RebatchDataset",
        "TensorFlow makes it for its own distribution: tests/engine/input runs it",
    ),
    ("TileGrad", TAKEN_BACK_RARE),
    ("AdjustContrast", TAKEN_BACK_RARE),
    ("BatchNormWithGlobalNormalization", TAKEN_BACK_RARE),
    ("BatchNormWithGlobalNormalizationGrad", TAKEN_BACK_RARE),
    (
        "HostConst",
        "it is Const by another name: tests/engine/rare_ops.rs runs it",
    ),
    (
        "ImmutableConst",
        "it reads a file: tests/engine/rare_ops.rs runs it",
    ),
    (
        "Fact",
        "TensorFlow draws one of several: tests/engine/rare_ops.rs runs it",
    ),
    (
        "NonDeterministicInts",
        "no seed gives its numbers again: tests/engine/rare_ops.rs runs it",
    ),
    ("GetSessionHandleV2", SESSION_TENSORS),
    (
        "_TakeVariable",
        "the golden graph temporary_variables runs it in place of another",
    ),
    ("EncodeJpegVariableQuality", IMAGE_FILES),
    ("_TurnSum", NOT_IN_TENSORFLOW),
    ("_TurnBegin", NOT_IN_TENSORFLOW),
    ("_TurnGive", NOT_IN_TENSORFLOW),
    ("_TurnMean", NOT_IN_TENSORFLOW),
    ("_TurnKeep", NOT_IN_TENSORFLOW),
    ("_TurnKept", NOT_IN_TENSORFLOW),
    ("HorovodAllreduce", RANKS),
    ("HorovodAllgather", RANKS),
    ("HorovodBroadcast", RANKS),
    ("HorovodAlltoall", RANKS),
    ("HorovodReducescatter", RANKS),
    ("HorovodSize", RANKS),
    ("HorovodRank", RANKS),
    ("_Barrier", RANKS),
    ("_GramMatrix", STATISTICS),
    ("_TriangularFactor", STATISTICS),
    ("_NearestCentroids", STATISTICS),
    ("_ClusterSums", STATISTICS),
    ("CollectiveReduceV2", RANKS),
    ("CollectiveReduceScatterV2", RANKS),
    ("CollectiveGatherV2", RANKS),
    ("CollectiveAllToAllV2", RANKS),
    ("CollectiveBcastSendV2", RANKS),
    ("CollectiveBcastRecvV2", RANKS),
];

const STATISTICS: &str =
    "TensorFlow has no such op: tests/engine/statistics_ops.rs, and scikit-learn in crates/stats";
const TAKEN_BACK: &str = "TensorFlow has taken it back, for the op in the same file that has a case: \
     tests/engine/ops_by_hand.rs runs it";
const TAKEN_BACK_RARE: &str = "TensorFlow has taken it back: tests/engine/rare_ops.rs runs it";
const SESSION_TENSORS: &str =
    "its value lasts over steps: tests/engine/shared_engine.rs, and TensorFlow's client";
const FIRST_VERSIONS: &str = "of TensorFlow's first versions; the op that took its place has one";
const FILES: &str = "it comes from files, which bring their gradients along; what is built here is \
                     If and While, which have one";
const GRADIENTS_FROM_FILES: &str =
    "not written yet: files and TensorFlow's client bring their gradients along";
const ARRAYS: &str = "not written yet: files bring their gradients along, and loops that are built \
                      here have lists";

/// Ops without a gradient rule, with the reason.
const WITHOUT_GRADIENT: &[(&str, &str)] = &[
    (
        "MaxPoolGrad",
        "a second derivative through a maximum is asked for by no one yet",
    ),
    ("ResizeBicubicGrad", "TensorFlow has none"),
    ("ResizeArea", "TensorFlow has none"),
    ("AdjustContrastv2", "TensorFlow has none"),
    ("AdjustHue", "TensorFlow has none"),
    ("AdjustSaturation", "TensorFlow has none"),
    ("HSVToRGB", "TensorFlow has none"),
    ("RGBToHSV", "not written yet"),
    ("CropAndResizeGradImage", "TensorFlow has none"),
    ("CropAndResizeGradBoxes", "TensorFlow has none"),
    ("Bincount", "TensorFlow has none"),
    ("DenseBincount", "TensorFlow has none"),
    ("SparseSegmentSumGrad", "TensorFlow has none"),
    ("SparseSegmentMeanGrad", "TensorFlow has none"),
    ("SparseSegmentSqrtNGrad", "TensorFlow has none"),
    ("TensorMapLookup", GRADIENTS_FROM_FILES),
    ("TensorMapInsert", GRADIENTS_FROM_FILES),
    ("TensorMapErase", GRADIENTS_FROM_FILES),
    ("SparseTensorToCSRSparseMatrix", GRADIENTS_FROM_FILES),
    ("DenseToCSRSparseMatrix", GRADIENTS_FROM_FILES),
    ("CSRSparseMatrixToSparseTensor", GRADIENTS_FROM_FILES),
    ("CSRSparseMatrixToDense", GRADIENTS_FROM_FILES),
    ("SparseMatrixMatMul", GRADIENTS_FROM_FILES),
    ("SparseMatrixSparseMatMul", GRADIENTS_FROM_FILES),
    ("SparseMatrixTranspose", GRADIENTS_FROM_FILES),
    ("SparseMatrixAdd", GRADIENTS_FROM_FILES),
    ("SparseMatrixMul", GRADIENTS_FROM_FILES),
    ("SparseMatrixSoftmax", GRADIENTS_FROM_FILES),
    ("SparseMatrixSoftmaxGrad", "TensorFlow has none"),
    ("SparseSegmentSumGradV2", "TensorFlow has none"),
    ("SparseSegmentMeanGradV2", "TensorFlow has none"),
    ("SparseSegmentSqrtNGradV2", "TensorFlow has none"),
    ("SparseFillEmptyRowsGrad", "TensorFlow has none"),
    ("RaggedFillEmptyRowsGrad", "TensorFlow has none"),
    ("SparseSplit", "TensorFlow has none"),
    ("SparseSliceGrad", "TensorFlow has none"),
    ("SparseSparseMaximum", "TensorFlow has none"),
    ("SparseSparseMinimum", "TensorFlow has none"),
    ("SparseDenseCwiseAdd", "TensorFlow has none"),
    ("SparseReduceMax", "TensorFlow has none"),
    ("SparseReduceSumSparse", "TensorFlow has none"),
    ("SparseReduceMaxSparse", "TensorFlow has none"),
    ("DenseCountSparseOutput", "TensorFlow has none"),
    ("SparseCountSparseOutput", "TensorFlow has none"),
    ("RaggedCountSparseOutput", "TensorFlow has none"),
    ("SparseBincount", "TensorFlow has none"),
    ("RaggedBincount", "TensorFlow has none"),
    (
        "PreventGradient",
        "that it is an error to ask for one is what it is for",
    ),
    ("LRNGrad", "TensorFlow has none"),
    ("CholeskyGrad", "TensorFlow has none"),
    ("BatchCholeskyGrad", "TensorFlow has none"),
    ("Lu", "TensorFlow has none"),
    ("MatrixLogarithm", "TensorFlow has none"),
    ("Eig", "not written yet"),
    ("MatrixSquareRoot", "not written yet"),
    ("SelfAdjointEig", "TensorFlow has none"),
    ("BatchSelfAdjointEig", "TensorFlow has none"),
    ("Reverse", FIRST_VERSIONS),
    ("Switch", FILES),
    ("RefSwitch", FILES),
    ("Merge", FILES),
    ("RefMerge", FILES),
    ("Enter", FILES),
    ("RefEnter", FILES),
    ("Exit", FILES),
    ("RefExit", FILES),
    ("NextIteration", FILES),
    ("RefNextIteration", FILES),
    ("LoopCond", FILES),
    ("Case", FILES),
    ("StatelessCase", FILES),
    ("RemoteCall", "TensorFlow has none"),
    ("IgammaGradA", "TensorFlow has none either"),
    ("RandomGammaGrad", "TensorFlow has none"),
    ("TensorArrayV3", ARRAYS),
    ("TensorArrayGradV3", ARRAYS),
    ("TensorArrayGradWithShape", ARRAYS),
    ("TensorArrayWriteV3", ARRAYS),
    ("TensorArrayReadV3", ARRAYS),
    ("TensorArraySizeV3", ARRAYS),
    ("TensorArrayCloseV3", ARRAYS),
    ("TensorArrayGatherV3", ARRAYS),
    ("TensorArrayScatterV3", ARRAYS),
    ("TensorArraySplitV3", ARRAYS),
    ("TensorArrayConcatV3", ARRAYS),
    ("OptionalFromValue", ARRAYS),
    ("OptionalGetValue", ARRAYS),
    ("OptionalHasValue", ARRAYS),
    ("OptionalNone", ARRAYS),
    ("MaxPoolGradWithArgmax", "TensorFlow has none"),
    ("Conv", "TensorFlow has none"),
    ("Conv3DBackpropInput", FIRST_VERSIONS),
    (
        "QuantizeAndDequantizeV4Grad",
        "TensorFlow's is that of another function",
    ),
    ("Dilation2DBackpropInput", "TensorFlow has none"),
    ("Dilation2DBackpropFilter", "TensorFlow has none"),
    ("FractionalMaxPoolGrad", "TensorFlow has none"),
    ("FractionalAvgPoolGrad", "TensorFlow has none"),
    ("Conv3DBackpropFilter", FIRST_VERSIONS),
    ("ParallelConcat", "TensorFlow has none"),
    ("For", "TensorFlow has none"),
    ("MapDefun", "TensorFlow has none"),
    ("LSTMBlockCellGrad", "TensorFlow has none"),
    ("BlockLSTMGrad", "TensorFlow has none"),
    ("BlockLSTMGradV2", "TensorFlow has none"),
    ("GRUBlockCellGrad", "TensorFlow has none"),
    ("FusedPadConv2D", "TensorFlow has none"),
    ("FusedResizeAndPadConv2D", "TensorFlow has none"),
    (
        "BatchNormWithGlobalNormalizationGrad",
        "TensorFlow has none",
    ),
    ("ScaleAndTranslateGrad", "TensorFlow has none"),
    ("MatrixExponential", "TensorFlow has none"),
    ("CollectiveReduceV2", "TensorFlow has none"),
    ("CollectiveReduceScatterV2", "TensorFlow has none"),
    ("CollectiveGatherV2", "TensorFlow has none"),
    ("CollectiveAllToAllV2", "TensorFlow has none"),
    ("CollectiveBcastSendV2", "TensorFlow has none"),
    ("CollectiveBcastRecvV2", "TensorFlow has none"),
];

#[test]
fn every_op_has_a_case_in_the_table_or_a_reason() {
    let mut covered: BTreeSet<String> = cases("").into_iter().map(|c| c.op).collect();
    let excused = |name: &str| WITHOUT_CASE.iter().any(|(op, _)| *op == name);
    let graphs = in_graphs();
    // An op on references is run as the corresponding op on handles.
    let stands_for = thalweg_ops::ops().filter(|op| graphs.contains(op.def.name));
    covered.extend(stands_for.filter_map(|op| op.def.on_handles.map(str::to_owned)));
    covered.extend(graphs.iter().cloned());
    let missing: Vec<&str> = thalweg_ops::ops()
        .filter(|op| op.def.on_handles.is_none())
        .map(|op| op.def.name)
        .filter(|name| !covered.contains(*name) && !excused(name))
        .collect();
    assert!(missing.is_empty(), "ops without a case: {missing:?}");
}

#[test]
fn every_op_of_the_table_is_registered() {
    let known: BTreeSet<&str> = thalweg_ops::ops().map(|op| op.def.name).collect();
    let unknown: BTreeSet<String> = cases("")
        .into_iter()
        .map(|c| c.op)
        .filter(|op| !known.contains(op.as_str()))
        .collect();
    assert!(
        unknown.is_empty(),
        "cases of ops that do not exist: {unknown:?}"
    );
}

#[test]
fn every_op_has_a_gradient_or_a_reason() {
    let missing: Vec<&str> = thalweg_ops::ops()
        .filter(|op| matches!(op.def.gradient, Gradient::Missing))
        .map(|op| op.def.name)
        .filter(|name| WITHOUT_GRADIENT.iter().all(|(op, _)| op != name))
        .collect();
    assert!(missing.is_empty(), "ops without a gradient: {missing:?}");
}

#[test]
fn names_are_unique_and_summaries_are_sentences() {
    let mut seen = BTreeSet::new();
    for op in thalweg_ops::ops() {
        let def = &op.def;
        assert!(seen.insert(def.name), "{} is registered twice", def.name);
        assert!(
            def.summary.ends_with('.'),
            "{}: {:?}",
            def.name,
            def.summary
        );
    }
}

#[test]
fn attributes_and_arguments_are_consistent() {
    for op in thalweg_ops::ops() {
        let def = &op.def;
        for arg in def.inputs.iter().chain(def.outputs) {
            for attr in arg.count.iter().chain(match &arg.ty {
                thalweg_graph::op::ArgType::Attr(a) | thalweg_graph::op::ArgType::List(a) => {
                    Some(a)
                }
                thalweg_graph::op::ArgType::Is(_) => None,
            }) {
                assert!(
                    def.attr(attr).is_some(),
                    "{}: no attribute {attr}",
                    def.name
                );
            }
        }
        for kernel in op.kernels {
            for &(input, output) in kernel.in_place {
                assert!(
                    input < def.inputs.len() && output < def.outputs.len(),
                    "{}: in place of what it does not have",
                    def.name
                );
            }
            for (attr, _) in kernel.dtypes {
                assert!(
                    def.attr(attr).is_some(),
                    "{}: no attribute {attr}",
                    def.name
                );
            }
        }
    }
}
