"""Comparison, logic, selection and AddN."""

import numpy as np

from cases_math import ALL, FLOAT, INT, PAIRS
from inputs import rnd
from reference import f32


def add(s):
    """Adds the cases of this module."""
    comparisons(s)
    logic(s)
    sums(s)


def comparisons(s):
    """Two tensors to a bool tensor."""
    for op in ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"):
        for label in (
            "same_2x3",
            "scalars",
            "scalar_right",
            "row",
            "both_ways",
            "rank_4",
            "empty",
            "odd_257",
        ):
            a, b = PAIRS[label]
            s.case(op, f"f32_{label}", x=rnd(f32, a, -1, 1, 0), y=rnd(f32, b, -1, 1, 0))
        for name, dtype in (FLOAT | INT).items():
            lo = 0 if name == "u8" else -1
            s.case(op, f"{name}_3x3", x=rnd(dtype, [3, 3], lo, 1, 0), y=rnd(dtype, [3, 3], lo, 1, 0))
        inf, nan = np.inf, np.nan
        for name in ("f32", "f64"):
            s.case(
                op,
                f"{name}_special",
                x=np.array([nan, nan, 1, inf, -inf, 0.0, inf], FLOAT[name]),
                y=np.array([nan, 1, nan, inf, inf, -0.0, 1], FLOAT[name]),
            )
    for op in ("Equal", "NotEqual"):
        s.case(op, "bool_6", x=rnd(np.bool_, [6]), y=rnd(np.bool_, [6]))


def logic(s):
    """Bools, and selection by them."""
    for label in ("same_2x3", "scalars", "row", "both_ways", "empty"):
        a, b = PAIRS[label]
        for op in ("LogicalAnd", "LogicalOr"):
            s.case(op, label, x=rnd(np.bool_, a), y=rnd(np.bool_, b))
    for dims in ([], [5], [2, 3], [0]):
        s.case("LogicalNot", "x".join(map(str, dims)) or "scalar", x=rnd(np.bool_, dims))
    for name, dtype in (FLOAT | INT | {"bool": np.bool_}).items():
        lo = 0 if name == "u8" else -9
        s.case(
            "SelectV2",
            f"{name}_same_2x3",
            condition=rnd(np.bool_, [2, 3]),
            t=rnd(dtype, [2, 3], lo, 9),
            e=rnd(dtype, [2, 3], lo, 9),
        )
    for label, c, t, e in (
        ("scalar_condition", [], [2, 3], [2, 3]),
        ("scalars", [], [], []),
        ("row_condition", [3], [2, 3], [2, 3]),
        ("column_condition", [2, 1], [2, 3], [2, 3]),
        ("scalar_branches", [2, 3], [], []),
        ("all_broadcast", [2, 1, 1], [3, 1], [4]),
        ("scalar_else", [2, 3], [2, 3], []),
        ("row_then", [2, 3], [3], [2, 3]),
        ("empty", [0, 3], [0, 3], [0, 3]),
        ("wide_condition", [2, 2, 3], [3], [2, 3]),
    ):
        s.case("SelectV2", f"f32_{label}", condition=rnd(np.bool_, c), t=rnd(f32, t), e=rnd(f32, e))
    s.case(
        "SelectV2",
        "f32_unpicked_nan",
        condition=np.array([True, False, True]),
        t=np.array([1, np.nan, 3], f32),
        e=np.array([np.nan, 2, np.inf], f32),
    )


def sums(s):
    """AddN."""
    for name in ("f32", "f64", "f16", "bf16", "i32", "i64"):
        for n in (1, 2, 3):
            s.case("AddN", f"{name}_{n}_of_2x3", inputs=[rnd(ALL[name], [2, 3], -9, 9) for _ in range(n)])
    for n, dims in ((8, [5]), (9, [5]), (17, [3]), (3, []), (4, [0, 2])):
        label = "x".join(map(str, dims)) or "scalar"
        s.case("AddN", f"f32_{n}_of_{label}_shape", inputs=[rnd(f32, dims, -9, 9) for _ in range(n)])
