"""Ops that reorder, mirror, band, look up and scatter elements, as imported graphs have them."""

import numpy as np

from inputs import rnd
from kinds import ANY, dims_label, ivec, some
from reference import bf16, f16, f32, f64, i8, i32, i64, tf

SOME = ("f32", "f16", "f64", "bool", "i8", "i64")


def add(s):
    """Adds the cases of this module."""
    orders(s)
    blocks(s)
    diagonals(s)
    lookups(s)
    passing(s)


def orders(s):
    """Reversals, rolls, mirrors."""
    for name in SOME:
        s.case("ReverseV2", f"{name}_2x3", tensor=some(ANY[name], [2, 3]), axis=ivec(1))
        s.case("Roll", f"{name}_2x3", input=some(ANY[name], [2, 3]), shift=ivec(1, -1), axis=ivec(0, 1))
        lengths = np.array([2, 0], i64)
        x = some(ANY[name], [2, 3])
        s.case("ReverseSequence", f"{name}_2x3", input=x, seq_lengths=lengths, seq_dim=1, batch_dim=0)
        if name != "bool":
            x = some(ANY[name], [2, 3])
            s.case("MirrorPad", f"{name}_2x3", input=x, paddings=np.array([[1, 0], [2, 1]], i32), mode="REFLECT")
    for dims, axes in (([], []), ([5], [0]), ([2, 3, 4], [-1, 0]), ([2, 3, 4], []), ([0, 3], [0]), ([2, 1, 3, 2], [1, 2])):
        label = f"f32_{dims_label(dims)}_along_{'_'.join(map(str, axes))}"
        s.case("ReverseV2", label, tensor=some(f32, dims), axis=np.array(axes, i64))
    for dims, shift, axis in (([5], 2, 0), ([2, 3, 4], [-1, 7, 1], [0, 2, 2]), ([0, 3], [1], [0]), ([3, 2], -4, -2)):
        label = f"f32_{dims_label(dims)}_by_{shift}".replace(" ", "")
        s.case("Roll", label, input=some(f32, dims), shift=np.array(shift, i64), axis=np.array(axis, i32))
    for dims, seq, batch in (([4, 2], 0, 1), ([2, 3, 4], 2, 0), ([3, 2, 2], 1, 2), ([2, 0], 1, 0), ([3, 4, 2], 1, 0)):
        lengths = rnd(i32, [dims[batch]], 0, dims[seq])
        label = f"f32_{dims_label(dims)}_{seq}_{batch}"
        s.case("ReverseSequence", label, input=some(f32, dims), seq_lengths=lengths, seq_dim=seq, batch_dim=batch)
    for mode in ("REFLECT", "SYMMETRIC"):
        for dims, paddings in (
            ([4], [[3, 2]]),
            ([2, 3], [[1, 1], [0, 0]]),
            ([1, 3, 2], [[0, 0], [2, 1], [1, 1]]),
            ([3, 2], [[0, 0], [0, 0]]),
        ):
            label = f"f32_{dims_label(dims)}_{mode.lower()}"
            pads = np.array(paddings, i64)
            s.case("MirrorPad", label, input=some(f32, dims), paddings=pads, mode=mode)
            padded = [d + sum(p) for d, p in zip(dims, paddings)]
            s.case("MirrorPadGrad", label, input=rnd(f32, padded), paddings=pads, mode=mode)
        x = rnd(f64, [5, 4])
        s.case("MirrorPadGrad", f"f64_{mode.lower()}", input=x, paddings=np.array([[1, 1], [1, 0]], i32), mode=mode)


def blocks(s):
    """Space, depth and batch."""
    for name in SOME:
        s.case_twice("SpaceToDepth", f"{name}", images=(0,), input=some(ANY[name], [1, 2, 4, 3]), block_size=2)
        s.case_twice("DepthToSpace", f"{name}", images=(0,), input=some(ANY[name], [1, 1, 2, 8]), block_size=2)
    s.case_twice("SpaceToDepth", "f32_3", images=(0,), input=some(f32, [2, 6, 3, 1]), block_size=3)
    s.case_twice("DepthToSpace", "f32_3", images=(0,), input=some(f32, [2, 2, 1, 18]), block_size=3)
    s.case("SpaceToDepth", "f32_empty", input=some(f32, [0, 4, 2, 3]), block_size=2)
    for dims, block, pads in (
        ([1, 4, 2, 1], [2, 2], [[0, 0], [0, 0]]),
        ([2, 3, 3, 2], [2, 2], [[1, 0], [0, 1]]),
        ([2, 5], [3], [[2, 2]]),
        ([3, 4, 2], [1], [[0, 0]]),
        ([1, 2, 3, 2, 2], [2, 1, 2], [[1, 1], [2, 0], [0, 0]]),
        ([2, 0, 3], [2], [[2, 0]]),
    ):
        label = f"f32_{dims_label(dims)}_by_{dims_label(block)}"
        sides, around = np.array(block, i32), np.array(pads, i32)
        found = s.case("SpaceToBatchND", label, input=some(f32, dims), block_shape=sides, paddings=around)
        back = list(found.outputs[0].shape)
        s.case("BatchToSpaceND", label, input=some(f32, back), block_shape=sides.astype(i64), crops=around)
    for name in ("f64", "i8", "f16"):
        x = some(ANY[name], [1, 4, 2, 1])
        s.case("SpaceToBatchND", f"{name}", input=x, block_shape=ivec(2, 2), paddings=np.array([[1, 1], [0, 0]], i64))
        x = some(ANY[name], [4, 2, 2, 1])
        s.case("BatchToSpaceND", f"{name}", input=x, block_shape=ivec(2, 2), crops=np.array([[1, 0], [0, 1]], i64))
    around = np.array([[1, 1], [0, 2]], i32)
    s.case("SpaceToBatch", "f32", input=some(f32, [2, 4, 2, 3]), paddings=around, block_size=2)
    s.case("BatchToSpace", "f32", input=some(f32, [8, 3, 2, 3]), crops=around, block_size=2)


def diagonals(s):
    """Diagonals of matrices and matrices from them."""
    for name in SOME:
        dtype = ANY[name]
        s.case("MatrixDiag", f"{name}_2x3", diagonal=some(dtype, [2, 3]))
        s.case("MatrixDiagPart", f"{name}_2x3x3", input=some(dtype, [2, 3, 3]))
        s.case("MatrixSetDiag", f"{name}_2x3x2", input=some(dtype, [2, 3, 2]), diagonal=some(dtype, [2, 2]))
        lower, upper = np.array(1, i64), np.array(0, i64)
        s.case("MatrixBandPart", f"{name}_3x4", input=some(dtype, [3, 4]), num_lower=lower, num_upper=upper)
    for dims in ([3, 5], [5, 2], [2, 0, 3]):
        s.case("MatrixDiagPart", f"f32_{dims_label(dims)}", input=some(f32, dims))
    for dims, lower, upper in (([2, 3, 4], -1, 1), ([4, 3], 0, -1), ([3, 3], 0, 0), ([0, 3], 0, 1), ([4, 4], 2, -1)):
        label = f"f32_{dims_label(dims)}_{lower}_{upper}"
        lower, upper = np.array(lower, i32), np.array(upper, i32)
        s.case("MatrixBandPart", label, input=some(f32, dims), num_lower=lower, num_upper=upper)
    aligns = ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT")
    for dims, k in (([3, 4], [-1, 2]), ([2, 4, 3], [-2, 0]), ([4, 4], [1, 3]), ([3, 4], [2]), ([2, 3, 3], [-1, 1]), ([4, 2], -3)):
        label = f"f32_{dims_label(dims)}_{k}".replace(" ", "")
        which = np.array(k, i32)
        found = s.case("MatrixDiagPartV2", label, input=some(f32, dims), k=which, padding_value=np.array(7, f32))
        diagonal = list(found.outputs[0].shape)
        s.case("MatrixSetDiagV2", label, input=some(f32, dims), diagonal=some(f32, diagonal), k=which)
        rows, columns = np.array(dims[-2], i32), np.array(dims[-1], i32)
        padding = np.array(9, f32)
        d = some(f32, diagonal)
        s.case("MatrixDiagV2", label, diagonal=d, k=which, num_rows=rows, num_cols=columns, padding_value=padding)
        for align in aligns:
            own = f"{label}_{align.lower()}"
            x, d = some(f32, dims), some(f32, diagonal)
            s.case("MatrixDiagPartV3", own, input=x, k=which, padding_value=padding, align=align)
            s.case("MatrixSetDiagV3", own, input=some(f32, dims), diagonal=d, k=which, align=align)
            s.case(
                "MatrixDiagV3",
                own,
                diagonal=some(f32, diagonal),
                k=which,
                num_rows=rows,
                num_cols=columns,
                padding_value=padding,
                align=align,
            )
    none = np.array(-1, i32)
    for k in (0, 1, -2):
        d, padding = some(f32, [2, 3]), np.array(0, f32)
        s.case("MatrixDiagV3", f"f32_square_{k}", diagonal=d, k=np.array(k, i32), num_rows=none, num_cols=none, padding_value=padding, align="RIGHT_LEFT")
    rows = np.array(5, i32)
    s.case("MatrixDiagV3", "i64_rows", diagonal=some(i64, [3]), k=ivec(0), num_rows=rows, num_cols=none, padding_value=np.array(4, i64), align="RIGHT_LEFT")
    for name in ("f32", "f64", "f16", "i32", "i64"):
        s.case("Diag", f"{name}_3", diagonal=some(ANY[name], [3]))
        s.case("DiagPart", f"{name}_3x3", input=some(ANY[name], [3, 3]))
    s.case("Diag", "f32_2x3", diagonal=some(f32, [2, 3]))
    s.case("Diag", "f32_0", diagonal=some(f32, [0]))
    s.case("DiagPart", "f32_2x3x2x3", input=some(f32, [2, 3, 2, 3]))


def lookups(s):
    """Lookups and updates by index."""
    for name in SOME:
        s.case("Gather", f"{name}_4x2", params=some(ANY[name], [4, 2]), indices=ivec(3, 0, 3))
        s.case("GatherNd", f"{name}_3x4", params=some(ANY[name], [3, 4]), indices=np.array([[0, 1], [2, 3]], i32))
        x, updates = some(ANY[name], [4, 2]), some(ANY[name], [2, 2])
        s.case("TensorScatterUpdate", f"{name}_4x2", tensor=x, indices=np.array([[2], [0]], i32), updates=updates)
        if name != "bool":
            at, shape = np.array([[2], [0], [2]], i32), ivec(4, 2)
            s.case("ScatterNd", f"{name}_4x2", indices=at, updates=some(ANY[name], [3, 2]), shape=shape)
    s.case("Gather", "f32_matrix", params=some(f32, [3, 2, 2]), indices=np.array([[0, 2], [1, 1]], i64))
    s.case("Gather", "f32_none", params=some(f32, [3, 2]), indices=np.zeros([0], i32))
    s.case("Gather", "f32_scalar", params=some(f32, [3]), indices=np.array(2, i32))
    for dims, indices in (
        ([3, 4], [[1], [0]]),
        ([3, 4], [1, 2]),
        ([2, 3, 2], [[[0, 1]], [[1, 2]]]),
        ([3], [[[2], [0]]]),
        ([3, 2], np.zeros([0, 2])),
    ):
        at = np.array(indices, i64)
        label = f"f32_{dims_label(dims)}_{dims_label(at.shape)}"
        found = s.case("GatherNd", label, params=some(f32, dims), indices=at)
        slices = list(found.outputs[0].shape)
        x = some(f32, dims)
        if at.ndim > 1:
            s.case("ScatterNd", label, indices=at, updates=some(f32, slices), shape=np.array(dims, i64))
            s.case("TensorScatterAdd", label, tensor=x, indices=at, updates=some(f32, slices))
            s.case("ScatterNdNonAliasingAdd", label, input=x, indices=at, updates=some(f32, slices))
    for name in ("f16", "f64", "i32", "u8"):
        at = np.array([[2], [0], [2]], i32)
        s.case("ScatterNdNonAliasingAdd", f"{name}_4x2", input=some(ANY[name], [4, 2]), indices=at, updates=some(ANY[name], [3, 2]))
    for name, dtype in (("i32", i32), ("i64", i64)):
        for label, at in (("scalar", 22), ("vector", [22, 3, 0, 59])):
            s.case("UnravelIndex", f"{name}_{label}", indices=np.array(at, dtype), dims=np.array([3, 4, 5], dtype))
    bad = {"indices": np.array([[1, 1], [3, 0], [0, -1], [2, 0]], i32), "bad_indices_policy": "IGNORE"}
    s.case("GatherNd", "ignore", params=some(f32, [3, 2, 2]), **bad)
    s.case("ScatterNd", "ignore", updates=some(f32, [4, 2]), shape=ivec(3, 2, 2), **bad)
    s.case("ScatterNdNonAliasingAdd", "ignore", input=some(f32, [3, 2, 2]), updates=some(f32, [4, 2]), **bad)
    for op in ("Update", "Add", "Sub", "Max", "Min"):
        s.case(f"TensorScatter{op}", "ignore", tensor=some(f32, [3, 2, 2]), updates=some(f32, [4, 2]), **bad)
    s.case("GatherNd", "f32_whole", params=some(f32, [2, 2]), indices=np.zeros([3, 0], i32))
    for op in ("Add", "Sub", "Max", "Min"):
        for name in ("f32", "f64", "i32"):
            x, updates = some(ANY[name], [4, 2]), some(ANY[name], [3, 2])
            at = np.array([[2], [0], [2]], i32)
            s.case(f"TensorScatter{op}", f"{name}_4x2", tensor=x, indices=at, updates=updates)
    for name in SOME:
        parts = [some(ANY[name], [2, n]) for n in (1, 3)]
        s.case("Concat", f"{name}_2", concat_dim=np.array(1, i32), values=parts)
    s.case("Concat", "f32_first", concat_dim=np.array(0, i32), values=[some(f32, [n, 2]) for n in (1, 0, 2)])
    s.case("Concat", "f32_negative", concat_dim=np.array(-2, i32), values=[some(f32, [n, 2]) for n in (1, 2)])
    for name in SOME:
        x, axis = some(ANY[name], [2, 6]), np.array(1, i32)
        s.case("SplitV", f"{name}_2x6", value=x, size_splits=np.array([1, 3, 2], i64), axis=axis, num_split=3)
    for dims, sizes, axis in (([5], [2, -1], 0), ([4, 2], [0, 4, 0], -2), ([2, 3, 2], [1, 2], 1), ([3], [3], 0), ([0, 2], [1, 1], 1)):
        label = f"f32_{dims_label(dims)}_{dims_label(sizes)}"
        s.case("SplitV", label, value=some(f32, dims), size_splits=ivec(*sizes), axis=np.array(axis, i32), num_split=len(sizes))


def passing(s):
    """Ops that hand on, describe or fill."""
    for name in SOME:
        s.case("Snapshot", f"{name}_2x3", input=some(ANY[name], [2, 3]))
        s.case("GuaranteeConst", f"{name}_2x3", input=some(ANY[name], [2, 3]))
        s.case("DeepCopy", f"{name}_2x3", x=some(ANY[name], [2, 3]))
        s.case("PreventGradient", f"{name}_2x3", input=some(ANY[name], [2, 3]), message="no")
        s.case("EnsureShape", f"{name}_2x3", input=some(ANY[name], [2, 3]), shape=tf.TensorShape([None, 3]))
    for name, value in (("f32", -0.5), ("f64", 0.0), ("i32", 3), ("i8", 0), ("bool", True)):
        s.case("ToBool", f"{name}_scalar", input=np.array(value, ANY[name]))
    for name, value in (("string", b"a"), ("no_string", b"")):
        s.case("ToBool", name, input=np.array(value, object))
    s.case("ToBool", "f32_vector", input=np.zeros(2, f32))
    s.case("ToBool", "f32_empty", input=np.zeros([0, 2], f32))
    s.case("IdentityN", "mixed", input=[some(f32, [2]), some(i64, [3, 1]), some(np.bool_, [])])
    s.case("ShapeN", "f32_3", input=[some(f32, d) for d in ([2, 3], [], [0, 1])], out_type=i32)
    s.case("ShapeN", "i8_1_as_i64", input=[some(i8, [4])], out_type=i64)
    for a, b, dims in (("f32", "i32", [2, 3]), ("f32", "u8", [3]), ("u8", "i32", [2, 4]), ("i64", "f64", [2]), ("f16", "bf16", [3])):
        s.case("Bitcast", f"{a}_to_{b}", audit=False, input=rnd(ANY[a], dims, 0, 9), type=ANY[b])
    s.case("Bitcast", "f64_to_u16_scalar", input=np.array(1.5, f64), type=ANY["u16"])
    s.case("Bitcast", "u16_to_f64", input=np.array([0, 0, 1, 16376], ANY["u16"]), type=f64)
    s.case("Empty", "f32_2x3", shape=ivec(2, 3), dtype=f32, init=True)
    s.case("Empty", "bool_0", shape=ivec(0), dtype=np.bool_, init=True)
    for a, b in (([2, 1], [3]), ([], [2]), ([4, 1, 3], [2, 1]), ([0, 1], [1, 5])):
        s.case("BroadcastArgs", f"{dims_label(a)}_{dims_label(b)}", s0=np.array(a, i32), s1=np.array(b, i32))
    s.case("BroadcastArgs", "i64", s0=np.array([3, 1], i64), s1=np.array([2], i64))
    for name, dtype in (("f32", f32), ("f64", f64), ("f16", f16), ("bf16", bf16)):
        if name in ("f32", "f64"):
            for num in (1, 2, 7):
                s.case("LinSpace", f"{name}_{num}", start=np.array(-1, dtype), stop=np.array(2.5, dtype), num=np.array(num, i32))
    s.case("LinSpace", "f32_down", start=np.array(4, f32), stop=np.array(-4, f32), num=np.array(5, i64))
