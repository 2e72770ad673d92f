"""Elementwise arithmetic."""

import numpy as np

from inputs import rnd
from kinds import ANY
from reference import bf16, f16, f32, f64, i8, i32, i64, u8

FLOAT = {"f32": f32, "f64": f64, "f16": f16, "bf16": bf16}
INT = {"i32": i32, "i64": i64, "i8": i8, "u8": u8}
ALL = FLOAT | INT

# Pairs of shapes: equal, broadcast one way, the other, both, scalars, empty.
PAIRS = {
    "same_2x3": ([2, 3], [2, 3]),
    "scalars": ([], []),
    "scalar_right": ([3, 2], []),
    "scalar_left": ([], [5]),
    "row": ([4, 3], [3]),
    "column": ([4, 3], [4, 1]),
    "both_ways": ([4, 1], [1, 3]),
    "inner": ([2, 3, 4], [2, 1, 4]),
    "outer": ([3, 4], [2, 3, 4]),
    "rank_4": ([2, 1, 3, 1], [1, 2, 1, 2]),
    "rank_5": ([2, 1, 2, 1, 3], [1, 3, 1, 2, 1]),
    "empty": ([0, 3], [0, 3]),
    "empty_broadcast": ([0, 3], [1, 3]),
    "odd_257": ([257], [257]),
}


def add(s):
    """Adds the cases of this module."""
    unary(s)
    unary_gradients(s)
    binary(s)
    edges(s)


# op: (lowest, highest) argument
UNARY = {
    "Neg": (-9, 9),
    "Abs": (-9, 9),
    "Sign": (-2, 2),
    "Square": (-5, 5),
    "Sqrt": (0, 9),
    "Rsqrt": (0.01, 9),
    "Exp": (-6, 6),
    "Log": (0.01, 9),
    "Log1p": (-0.9, 6),
    "Tanh": (-4, 4),
    "Sigmoid": (-8, 8),
    "Softplus": (-12, 12),
    "Floor": (-9, 9),
}
UNARY_INT = ("Neg", "Abs", "Sign", "Square")


def unary(s):
    """Functions of one tensor."""
    for op, (lo, hi) in UNARY.items():
        key = "features" if op == "Softplus" else "x"
        for name, dtype in FLOAT.items():
            s.case(op, f"{name}_3x5", **{key: rnd(dtype, [3, 5], lo, hi)})
        for dims in ([], [0], [2, 0, 3], [257], [2, 3, 2, 3]):
            label = "x".join(map(str, dims)) or "scalar"
            s.case(op, f"f32_shape_{label}", **{key: rnd(f32, dims, lo, hi)})
        s.case(op, "f64_scalar", **{key: rnd(f64, [], lo, hi)})
    for op in UNARY_INT:
        for name in ("i32", "i64", "i8"):
            s.case(op, f"{name}_7", x=rnd(INT[name], [7], -9, 9))
    inf = np.inf
    for name in ("f32", "f64"):
        dtype = FLOAT[name]
        for op, values in (
            ("Sqrt", [0.0, -0.0, inf, -1.0]),
            ("Rsqrt", [inf, 0.0, 4.0]),
            ("Exp", [inf, -inf, 0.0, 1000.0]),
            ("Log", [0.0, inf, -1.0, 1.0]),
            ("Log1p", [0.0, 1e-7, -1.0, inf]),
            ("Tanh", [inf, -inf, 0.0, 1e-5, 20.0]),
            ("Sigmoid", [inf, -inf, 0.0, -80.0, 80.0]),
            ("Sign", [0.0, -0.0, inf, -inf, 1e-20]),
            ("Abs", [-0.0, -inf, inf]),
            ("Floor", [-0.0, -inf, inf, -0.5, 0.5, 2.0]),
            ("Softplus", [40.0, -40.0, 100.0, -100.0, 0.0]),
        ):
            key = "features" if op == "Softplus" else "x"
            s.case(op, f"{name}_limits", **{key: np.array(values, dtype)})


def unary_gradients(s):
    """Gradient ops that take the function's output, or the features, and the incoming gradient."""
    for op, keys, lo, hi in (
        ("SqrtGrad", ("y", "dy"), 0.1, 3),
        ("RsqrtGrad", ("y", "dy"), 0.1, 3),
        ("TanhGrad", ("y", "dy"), -1, 1),
        ("SigmoidGrad", ("y", "dy"), 0, 1),
        ("SoftplusGrad", ("features", "gradients"), -8, 8),
    ):
        for name, dtype in FLOAT.items():
            s.case(op, f"{name}_3x5", **{keys[0]: rnd(dtype, [3, 5], lo, hi), keys[1]: rnd(dtype, [3, 5])})
        for dims in ([], [0, 2], [129]):
            label = "x".join(map(str, dims)) or "scalar"
            s.case(op, f"f32_shape_{label}", **{keys[0]: rnd(f32, dims, lo, hi), keys[1]: rnd(f32, dims)})


    # TensorFlow's kernels of these give 0 where the incoming gradient is 0, whatever the output is.
    for op in ("SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad"):
        for name, dtype in FLOAT.items():
            if (op, name) != ("InvGrad", "bf16"):
                y = np.array([0, np.inf, -np.inf, np.nan, 2, 0, np.inf, 0], dtype)
                dy = np.array([0, 0, -0.0, 0, 0, 1, -2, -0.0], dtype)
                s.case(op, f"{name}_zero_gradient", y=y, dy=dy)


def binary(s):
    """Arithmetic of two tensors, with broadcasting."""
    for op in (
        "AddV2",
        "Add",
        "Sub",
        "Mul",
        "RealDiv",
        "Div",
        "FloorDiv",
        "FloorMod",
        "Maximum",
        "Minimum",
        "SquaredDifference",
        "Pow",
    ):
        for label, (a, b) in PAIRS.items():
            for name in ("f32", "f64") if label in ("same_2x3", "both_ways", "scalars") else ("f32",):
                s.case(op, f"{name}_{label}", **operands(op, FLOAT[name], a, b))
        for name in ("f16", "bf16"):
            for label in ("same_2x3", "both_ways"):
                # One digit keeps quotients in 16 bits away from integers they could round up to.
                s.case(op, f"{name}_{label}", **operands(op, FLOAT[name], *PAIRS[label], digits=1))
        for name in int_types(op):
            for label in ("same_2x3", "both_ways", "scalar_right", "empty"):
                s.case(
                    op,
                    f"{name}_{label}",
                    **operands(op, ANY[name], *PAIRS[label]),
                )


def int_types(op):
    """Integer types that TensorFlow has a CPU kernel for."""
    return {
        "RealDiv": (),
        "Pow": ("i32", "i64"),
        "SquaredDifference": ("i32", "i64"),
        "AddV2": ("i32", "i64", "i8", "u8", "i16", "u32"),
        "Maximum": ("i32", "i64", "i8", "u8"),
        "Minimum": ("i32", "i64", "i8", "u8"),
        "FloorMod": ("i32", "i64", "i8", "u8"),
        "FloorDiv": ("i32", "i64", "i8", "u8"),
        "Div": ("i32", "i64", "i8", "u8"),
        "Add": ("i32", "i64"),
    }.get(op, ("i32", "i64", "i8", "u8"))


def operands(op, dtype, a, b, digits=3):
    """Arguments inside the op's domain: divisors are positive here, signs have cases of their own."""
    integer = np.dtype(dtype).kind in "iu"
    lo = 0 if np.dtype(dtype).kind == "u" else -9
    if op == "Pow":
        return {
            "x": rnd(dtype, a, 0 if integer else 0.1, 4, digits),
            "y": rnd(dtype, b, 0 if integer else -2, 3, digits),
        }
    if op in ("RealDiv", "Div", "FloorDiv", "FloorMod"):
        return {"x": rnd(dtype, a, lo, 9, digits), "y": rnd(dtype, b, 1 if integer else 0.3, 4, digits)}
    return {"x": rnd(dtype, a, lo, 9, digits), "y": rnd(dtype, b, lo, 9, digits)}


def edges(s):
    """Signs, overflow, infinities and NaN."""
    x, y = np.array([7, -7, 7, -7, 6, -6, 0, 1]), np.array([3, 3, -3, -3, 3, -3, 5, -9])
    for name in ("i32", "i64", "i8", "f32", "f64", "f16", "bf16"):
        for op in ("FloorDiv", "FloorMod", "Div"):
            s.case(op, f"{name}_signs", x=x.astype(ALL[name]), y=y.astype(ALL[name]))
    for name in ("f32", "f64"):
        dtype = FLOAT[name]
        a, b = (
            np.array([5.5, -5.5, 5.5, -5.5, -0.25, 0.25], dtype),
            np.array([2.25, 2.25, -2.25, -2.25, 1.0, -1.0], dtype),
        )
        for op in ("FloorDiv", "FloorMod"):
            s.case(op, f"{name}_fraction_signs", x=a, y=b)
        inf, nan = np.inf, np.nan
        s.case(
            "RealDiv",
            f"{name}_by_zero_and_infinity",
            x=np.array([1, -1, 0, 1, inf, inf], dtype),
            y=np.array([0, 0, 0, inf, inf, 2], dtype),
        )
        s.case(
            "AddV2",
            f"{name}_infinities",
            x=np.array([inf, inf, -inf, 1], dtype),
            y=np.array([1, -inf, -inf, nan], dtype),
        )
        s.case(
            "Mul",
            f"{name}_infinities",
            x=np.array([inf, inf, -inf, nan], dtype),
            y=np.array([0, -2, -1, 1], dtype),
        )
        s.case(
            "Pow",
            f"{name}_limits",
            x=np.array([0, 0, 2, -2, -2, 1, inf, -8], dtype),
            y=np.array([0, 2, -1, 3, 2, inf, -1, 0.5], dtype),
        )
        s.case(
            "Maximum",
            f"{name}_infinities",
            x=np.array([inf, -inf, 0, 3], dtype),
            y=np.array([1, 1, -inf, inf], dtype),
        )
        s.case(
            "Minimum",
            f"{name}_infinities",
            x=np.array([inf, -inf, 0, 3], dtype),
            y=np.array([1, 1, -inf, inf], dtype),
        )
        for op in ("Maximum", "Minimum"):
            s.case(
                op,
                f"{name}_nan",
                x=np.array([nan, 1, nan, 2, nan, -1, 0, nan, nan], dtype),
                y=np.array([1, nan, nan, 3, -inf, nan, nan, inf, 4], dtype),
            )
    for op in ("AddV2", "Sub", "Mul"):
        s.case(
            op, "i32_wraps", x=np.array([2**31 - 1, -(2**31), 65536], i32), y=np.array([1, -1, 65536], i32)
        )
        s.case(op, "u8_wraps", x=np.array([250, 3, 17], u8), y=np.array([10, 5, 16], u8))
        s.case(op, "i8_wraps", x=np.array([120, -120, 16], i8), y=np.array([10, 100, 16], i8))
    s.case("Neg", "i32_lowest", x=np.array([-(2**31), 2**31 - 1, 0], i32))
    s.case("Pow", "i64_large", x=np.array([3, -2, 10, 0, 1], i64), y=np.array([39, 62, 18, 0, 63], i64))
