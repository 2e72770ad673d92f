"""How far a result may be from the recorded one."""

import numpy as np

from encode import FLOATS, PARTS, short_name
from reference import f64

# (rel, abs): a few roundings of the type for elementwise functions.
BASE_TOLERANCE = {"f64": (1e-12, 1e-13), "f32": (1e-5, 1e-6), "f16": (4e-3, 1e-3), "bf16": (2e-2, 1e-2)}
LOOSEST_FIRST = ("bf16", "f16", "f32", "f64")

# Results that IEEE arithmetic or plain copying fixes to the last bit.
EXACT_OPS = set(
    """
Identity StopGradient Cast Reshape Shape Rank Size ExpandDims Squeeze Transpose ConcatV2 Split Pack Unpack Slice
StridedSlice StridedSliceGrad Pad PadV2 Tile GatherV2 OneHot Fill ZerosLike OnesLike BroadcastTo
BroadcastGradientArgs ConcatOffset InvertPermutation AddV2 Add Sub Mul RealDiv Div Floor Neg Abs Sign Square Maximum
Minimum Equal NotEqual Less LessEqual Greater GreaterEqual LogicalAnd LogicalOr LogicalNot SelectV2 Max
Min All Any ArgMax ArgMin FloorMod FloorDiv BiasAdd Relu ReluGrad Relu6 Relu6Grad MaxPool AssignVariableOp
AssignAddVariableOp AssignSubVariableOp ReadVariableOp VarIsInitializedOp Ceil Round Rint NextAfter CheckNumerics
TopK TopKV2 Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2 ListDiff DynamicStitch ParallelDynamicStitch
DynamicPartition SegmentMax SegmentMin UnsortedSegmentMax UnsortedSegmentMin ReverseV2 Roll ReverseSequence MirrorPad SpaceToDepth DepthToSpace SpaceToBatchND BatchToSpaceND SpaceToBatch
BatchToSpace MatrixDiag MatrixDiagV2 MatrixDiagV3 MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixSetDiag
MatrixSetDiagV2 MatrixSetDiagV3 MatrixBandPart Diag DiagPart Gather GatherNd TensorScatterUpdate TensorScatterMax
TensorScatterMin Concat SplitV Snapshot PreventGradient EnsureShape IdentityN Bitcast Empty
Select ClipByValue DivNoNan MulNoNan Xdivy
AssignAddVariableOp AssignSubVariableOp ReadVariableOp VarIsInitializedOp ResourceScatterUpdate ResourceScatterMin
ResourceScatterMax ResourceScatterNdUpdate ResourceScatterNdMin ResourceScatterNdMax ResourceGather ResourceGatherNd
ResourceStridedSliceAssign
Min All Any ArgMax ArgMin FloorMod FloorDiv BiasAdd Relu ReluGrad Relu6 Relu6Grad MaxPool MaxPoolV2 MaxPoolGradGrad MaxPoolGradGradV2
MaxPoolWithArgmax MaxPool3D MaxPool3DGradGrad Dilation2D FractionalMaxPool ResizeNearestNeighbor AssignVariableOp
AssignAddVariableOp AssignSubVariableOp ReadVariableOp VarIsInitializedOp
""".split()
)

# Sums of many terms: the order of summation is free, so the bound follows the largest value.
SUMMING_OPS = set(
    """
AddN AccumulateNV2 Einsum Cross BatchMatMulV3 SegmentSum SegmentMean SegmentProd SparseSegmentSum SparseSegmentMean SparseSegmentSqrtN
Cumsum Cumprod EuclideanNorm MatMul BatchMatMulV2 Sum Mean Prod Conv2D Conv2DBackpropInput Conv2DBackpropFilter BiasAddGrad
AvgPool AvgPoolGrad L2Loss MaxPoolGrad
AddN MatMul BatchMatMulV2 Sum Mean Prod Conv2D Conv2DBackpropInput Conv2DBackpropFilter BiasAddGrad
AvgPool AvgPoolGrad L2Loss MaxPoolGrad FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 FusedBatchNormGrad
FusedBatchNormGradV2 FusedBatchNormGradV3 LRNGrad DepthwiseConv2dNative DepthwiseConv2dNativeBackpropInput
DepthwiseConv2dNativeBackpropFilter MaxPoolGradV2 MaxPoolGradWithArgmax ResizeBilinearGrad
ResizeNearestNeighborGrad Qr CTCLoss CTCBeamSearchDecoder FakeQuantWithMinMaxVarsGradient
FakeQuantWithMinMaxVarsPerChannelGradient
Conv Conv3D Conv3DBackpropInput Conv3DBackpropInputV2 Conv3DBackpropFilter Conv3DBackpropFilterV2
AvgPool3D AvgPool3DGrad MaxPool3DGrad
Dilation2DBackpropInput Dilation2DBackpropFilter FractionalAvgPool FractionalMaxPoolGrad FractionalAvgPoolGrad
""".split()
)

# TensorFlow's kernels add logarithms in f32, whatever the dtype is.
SUMMED_IN_F32 = {"CTCLoss", "CTCBeamSearchDecoder"}


def floats_of(arrays):
    """The dtype names of the floating arrays among `arrays`; of complex ones, those of their parts."""
    numeric = [a for a in map(np.asarray, arrays) if a.dtype.kind not in "OSU"]
    names = [PARTS.get(short_name(a.dtype), short_name(a.dtype)) for a in numeric]
    return [name for name in names if name in FLOATS]


def default_tolerance(op, inputs, outputs):
    """rel and abs for the coarsest floating type involved, or None where results are exact."""
    present = floats_of(outputs)
    if op in EXACT_OPS or not present:
        return None
    present += floats_of(inputs)
    kind = next(k for k in LOOSEST_FIRST if k in present)
    if op in SUMMED_IN_F32:
        kind = "f32"
    rel, absolute = BASE_TOLERANCE[kind]
    if op in SUMMING_OPS:
        finite = [
            np.abs(a[np.isfinite(a)]).max()
            for a in (np.abs(np.asarray(o)).astype(f64) for o in outputs)
            if np.isfinite(a).any()
        ]
        absolute *= max([1.0] + [float(f) for f in finite])
        absolute *= 4 if kind in ("f16", "bf16") else 10
    return {"rel": rel, "abs": float(f"{absolute:.1e}")}
