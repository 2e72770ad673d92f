"""Reductions, arguments of extremes, and matrix products."""

import numpy as np

from inputs import rnd
from reference import bf16, f16, f32, f64, i8, i32, i64, u8

FLOAT = {"f32": f32, "f64": f64, "f16": f16, "bf16": bf16}
NUMERIC = FLOAT | {"i32": i32, "i64": i64, "i8": i8, "u8": u8}

# label: (dims, axes); the axes None is a scalar axis input.
REDUCTIONS = {
    "all_axes": ([2, 3], [0, 1]),
    "axis_0": ([3, 4], [0]),
    "axis_1": ([3, 4], [1]),
    "last_axis": ([3, 5], [-1]),
    "negative_axes": ([2, 3, 4], [-1, -3]),
    "middle_axis": ([2, 3, 4], [1]),
    "outer_axes": ([2, 3, 4], [0, 2]),
    "leading_axes": ([2, 3, 4], [0, 1]),
    "unordered_axes": ([2, 3, 4], [2, 0]),
    "no_axes": ([2, 3], []),
    "scalar": ([], []),
    "vector": ([7], [0]),
    "size_one_axes": ([1, 3, 1], [0, 2]),
    "batch_and_space": ([2, 3, 3, 4], [0, 1, 2]),
    "alternate_axes": ([2, 3, 2, 3, 2], [1, 3]),
    "empty_kept": ([0, 3], [1]),
    "empty_reduced": ([0, 3], [0]),
    "empty_all": ([2, 0], [0, 1]),
}


def add(s):
    """Adds the cases of this module."""
    reductions(s)
    logical(s)
    extremes(s)
    matmul(s)
    batch_matmul(s)


def reductions(s):
    """Sum, Mean, Prod, Max and Min."""
    for op in ("Sum", "Mean", "Prod", "Max", "Min"):
        for label, (dims, axes) in REDUCTIONS.items():
            for keep in (False, True):
                suffix = "_keep" if keep else ""
                s.case(
                    op, f"f32_{label}{suffix}", input=rnd(f32, dims), axis=np.array(axes, i32), keep_dims=keep
                )
        s.case(op, "f32_scalar_axis_i64", input=rnd(f32, [2, 3]), axis=np.array(-1, i64), keep_dims=False)
        for name, dtype in NUMERIC.items():
            lo = 0 if name == "u8" else -3
            dims = [3, 4] if op == "Prod" else [4, 6]
            for label, axes in (("axis_0", [0]), ("axis_1", [1]), ("all_axes", [0, 1])):
                if name != "f32":
                    s.case(
                        op,
                        f"{name}_{label}",
                        input=rnd(dtype, dims, lo, 3),
                        axis=np.array(axes, i64),
                        keep_dims=False,
                    )
        for name in ("f64", "i32"):
            s.case(
                op,
                f"{name}_empty_reduced",
                input=rnd(NUMERIC[name], [0, 2]),
                axis=np.array([0] if op != "Mean" or name != "i32" else [1], i32),
                keep_dims=True,
            )
        if op != "Prod":
            s.case(op, "f32_long_row", input=rnd(f32, [1, 1001]), axis=np.array([1], i32), keep_dims=False)
            s.case(op, "f32_long_column", input=rnd(f32, [515, 3]), axis=np.array([0], i32), keep_dims=False)
            s.case(op, "f64_long_row", input=rnd(f64, [2, 513]), axis=np.array([1], i32), keep_dims=False)
        for name in ("f32", "f64"):
            x = np.array([[1, np.inf, 2], [-np.inf, 0, 3]], NUMERIC[name])
            s.case(op, f"{name}_infinities", input=x, axis=np.array([1], i32), keep_dims=False)
    for op in ("Max", "Min"):
        s.case(
            op,
            "i32_lowest_and_highest",
            input=np.array([[-(2**31), 5], [2**31 - 1, -2]], i32),
            axis=np.array([0], i32),
            keep_dims=False,
        )
    s.case(
        "Sum", "i32_wraps", input=np.array([2**31 - 1, 1, 1], i32), axis=np.array([0], i32), keep_dims=False
    )
    s.case(
        "Mean",
        "i32_rounds_towards_zero",
        input=np.array([[1, 2], [-1, -2], [3, 4]], i32),
        axis=np.array([1], i32),
        keep_dims=False,
    )


def logical(s):
    """All and Any."""
    for op in ("All", "Any"):
        for label, (dims, axes) in REDUCTIONS.items():
            s.case(op, label, input=rnd(np.bool_, dims), axis=np.array(axes, i32), keep_dims=False)
        s.case(op, "keep_axis_1", input=rnd(np.bool_, [3, 2]), axis=np.array([1], i64), keep_dims=True)
        for label, value in (("all_true", True), ("all_false", False)):
            s.case(op, label, input=np.full([2, 3], value), axis=np.array([1], i32), keep_dims=False)


def extremes(s):
    """ArgMax and ArgMin; the first of equal values wins."""
    for op in ("ArgMax", "ArgMin"):
        for label, dims, axis in (
            ("vector", [7], 0),
            ("rows", [3, 5], 1),
            ("columns", [3, 5], 0),
            ("last_axis", [2, 3, 4], -1),
            ("middle_axis", [2, 3, 4], 1),
            ("first_axis", [2, 3, 4], -3),
            ("rank_4", [2, 2, 3, 3], 2),
            ("empty_kept", [0, 3], 1),
            ("long", [301], 0),
        ):
            for out in (i32, i64):
                s.case(
                    op,
                    f"f32_{label}_as_{np.dtype(out).name[0]}{np.dtype(out).itemsize * 8}",
                    input=rnd(f32, dims),
                    dimension=np.array(axis, i32),
                    output_type=out,
                )
        for name, dtype in NUMERIC.items():
            lo = 0 if name == "u8" else -3
            s.case(
                op,
                f"{name}_ties",
                input=rnd(dtype, [4, 9], lo, 3, 0),
                dimension=np.array(1, i32),
                output_type=i64,
            )
            s.case(
                op,
                f"{name}_ties_axis_0",
                input=rnd(dtype, [9, 4], lo, 3, 0),
                dimension=np.array(0, i64),
                output_type=i32,
            )
        s.case(op, "bool_ties", input=rnd(np.bool_, [3, 4]), dimension=np.array(1, i32), output_type=i64)
        s.case(op, "f32_all_equal", input=np.ones([3, 3], f32), dimension=np.array(0, i32), output_type=i64)
        s.case(
            op,
            "f32_infinities",
            input=np.array([[-np.inf, -np.inf], [np.inf, 1], [np.inf, np.inf]], f32),
            dimension=np.array(1, i32),
            output_type=i64,
        )


def matmul(s):
    """MatMul with each pair of transposes."""
    sizes = {
        "2x3x4": (2, 3, 4),
        "1x1x1": (1, 1, 1),
        "7x5x3": (7, 5, 3),
        "17x19x23": (17, 19, 23),
        "1x9x6": (1, 9, 6),
        "6x9x1": (6, 9, 1),
        "5x1x5": (5, 1, 5),
    }
    for label, (m, k, n) in sizes.items():
        for ta in (False, True):
            for tb in (False, True):
                suffix = {(0, 0): "", (1, 0): "_ta", (0, 1): "_tb", (1, 1): "_ta_tb"}[(ta, tb)]
                for name in ("f32", "f64"):
                    s.case(
                        "MatMul",
                        f"{name}_{label}{suffix}",
                        a=rnd(FLOAT[name], [k, m] if ta else [m, k]),
                        b=rnd(FLOAT[name], [n, k] if tb else [k, n]),
                        transpose_a=ta,
                        transpose_b=tb,
                    )
    for name in ("f16", "bf16", "i32", "i64"):
        for ta, tb, suffix in (
            (False, False, ""),
            (True, False, "_ta"),
            (False, True, "_tb"),
            (True, True, "_ta_tb"),
        ):
            lo, hi = (-9, 9) if name[0] == "i" else (-2, 2)
            s.case(
                "MatMul",
                f"{name}_3x5x4{suffix}",
                a=rnd(NUMERIC[name], [5, 3] if ta else [3, 5], lo, hi),
                b=rnd(NUMERIC[name], [4, 5] if tb else [5, 4], lo, hi),
                transpose_a=ta,
                transpose_b=tb,
            )
    for label, m, k, n in (
        ("no_rows", 0, 3, 4),
        ("no_columns", 2, 3, 0),
        ("no_inner", 2, 0, 3),
        ("nothing", 0, 0, 0),
    ):
        s.case(
            "MatMul",
            f"f32_{label}",
            a=rnd(f32, [m, k]),
            b=rnd(f32, [k, n]),
            transpose_a=False,
            transpose_b=False,
        )
        s.case(
            "MatMul",
            f"f64_{label}_ta_tb",
            a=rnd(f64, [k, m]),
            b=rnd(f64, [n, k]),
            transpose_a=True,
            transpose_b=True,
        )
    s.case(
        "MatMul",
        "f32_3x300x5",
        a=rnd(f32, [3, 300]),
        b=rnd(f32, [300, 5]),
        transpose_a=False,
        transpose_b=False,
    )
    s.case(
        "MatMul",
        "f32_50x10x50_tb",
        a=rnd(f32, [50, 10]),
        b=rnd(f32, [50, 10]),
        transpose_a=False,
        transpose_b=True,
    )
    s.case(
        "MatMul",
        "f32_infinity",
        a=np.array([[1, np.inf], [0, 1]], f32),
        b=np.array([[1, 2], [3, -1]], f32),
        transpose_a=False,
        transpose_b=False,
    )


def batch_matmul(s):
    """BatchMatMulV2 with adjoints and broadcast batch dimensions."""
    batches = {
        "one_batch": ([3], [3]),
        "matrices": ([], []),
        "two_dims": ([2, 3], [2, 3]),
        "broadcast_right": ([3], [1]),
        "broadcast_left": ([], [3]),
        "both_ways": ([2, 1], [1, 3]),
        "missing_dims": ([2, 2], [2]),
    }
    for label, (x, y) in batches.items():
        for ax in (False, True):
            for ay in (False, True):
                suffix = {(0, 0): "", (1, 0): "_ax", (0, 1): "_ay", (1, 1): "_ax_ay"}[(ax, ay)]
                s.case(
                    "BatchMatMulV2",
                    f"f32_{label}{suffix}",
                    x=rnd(f32, x + ([4, 3] if ax else [3, 4])),
                    y=rnd(f32, y + ([2, 4] if ay else [4, 2])),
                    adj_x=ax,
                    adj_y=ay,
                )
    for name in ("f64", "f16", "bf16", "i32", "i64"):
        lo, hi = (-9, 9) if name[0] == "i" else (-2, 2)
        s.case(
            "BatchMatMulV2",
            f"{name}_2_3x4x2",
            x=rnd(NUMERIC[name], [2, 3, 4], lo, hi),
            y=rnd(NUMERIC[name], [2, 4, 2], lo, hi),
            adj_x=False,
            adj_y=False,
        )
        s.case(
            "BatchMatMulV2",
            f"{name}_broadcast_ay",
            x=rnd(NUMERIC[name], [2, 1, 3, 4], lo, hi),
            y=rnd(NUMERIC[name], [2, 2, 4], lo, hi),
            adj_x=False,
            adj_y=True,
        )
    for label, x, y in (
        ("no_batch", [0, 2, 3], [0, 3, 2]),
        ("no_inner", [2, 2, 0], [2, 0, 3]),
        ("no_rows", [2, 0, 3], [2, 3, 2]),
        ("odd", [3, 7, 11], [3, 11, 5]),
    ):
        s.case("BatchMatMulV2", f"f32_{label}", x=rnd(f32, x), y=rnd(f32, y), adj_x=False, adj_y=False)
