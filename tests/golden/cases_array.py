"""Ops that hand a tensor on, convert its type, describe its shape or change only that."""

import numpy as np

from kinds import ANY, dims_label, ivec, some, text
from reference import f32, f64, i8, i32, i64, u8, u64


def add(s):
    """Adds the cases of this module."""
    passing(s)
    casts(s)
    shapes(s)


def passing(s):
    """Ops that hand a tensor on, and the two that make one like it."""
    for op in ("Identity", "StopGradient"):
        for name, dtype in ANY.items():
            s.case(op, f"{name}_2x3", input=some(dtype, [2, 3]))
        for dims in ([], [1], [0, 3], [2, 1, 3, 2]):
            s.case(op, f"f32_{dims_label(dims)}_shape", input=some(f32, dims))
    s.case("Identity", "string_3", input=text("a", "", "thalweg \u00e9"))
    for op in ("ZerosLike", "OnesLike"):
        for name, dtype in ANY.items():
            s.case(op, f"{name}_3x2", x=some(dtype, [3, 2]))
        for dims in ([], [0], [2, 0, 3], [7, 3]):
            s.case(op, f"f32_{dims_label(dims)}_shape", x=some(f32, dims))


def casts(s):
    """Every type to every other, then the values where conversions are easy to get wrong."""
    for source, a in ANY.items():
        for target, b in ANY.items():
            signed = np.dtype(b).kind not in "u"
            values = np.array(
                [0, 1, 2, 7, 100, 113] + ([-1, -5, -100] if signed and np.dtype(a).kind not in "ub" else [])
            )
            s.case("Cast", f"{source}_to_{target}", x=values.astype(a), DstT=b)
    toward_zero = np.array([-2.9, -2.5, -1.5, -0.9, -0.5, -0.0, 0.5, 0.9, 1.5, 2.5, 2.999, 100.7])
    for source in ("f16", "bf16", "f32", "f64"):
        for target in ("i8", "i16", "i32", "i64"):
            s.case(
                "Cast", f"{source}_to_{target}_truncates", x=toward_zero.astype(ANY[source]), DstT=ANY[target]
            )
        s.case("Cast", f"{source}_to_u8_truncates", x=np.abs(toward_zero).astype(ANY[source]), DstT=u8)
        s.case("Cast", f"{source}_to_bool_fractions", x=toward_zero.astype(ANY[source]), DstT=np.bool_)
    wide = np.array(
        [0, 1, -1, 127, 128, 255, 256, -128, -129, 32767, 32768, 65535, 65536, -32769, 2**31 - 1, -(2**31)]
    )
    for target in ("i8", "u8", "i16", "u16", "u32", "f16", "bf16", "f32", "f64", "bool"):
        s.case("Cast", f"i32_to_{target}_wraps_or_rounds", x=wide.astype(i32), DstT=ANY[target])
    wider = np.concatenate([wide, [2**31, 2**32, 2**32 + 1, -(2**31) - 1, 2**53 + 1, 2**63 - 1, -(2**63)]])
    for target in ("i8", "u8", "i32", "u32", "u64", "f32", "f64", "bool"):
        s.case("Cast", f"i64_to_{target}_wraps_or_rounds", x=wider.astype(i64), DstT=ANY[target])
    s.case("Cast", "i8_to_u8_negative", x=np.array([-1, -128, 127], i8), DstT=u8)
    s.case("Cast", "u8_to_i8_high", x=np.array([0, 127, 128, 255], u8), DstT=i8)
    s.case("Cast", "u64_to_f64_high", x=np.array([2**63, 2**64 - 1, 2**53 + 1], u64), DstT=f64)
    rounding = np.array(
        [
            1 + 2**-9,
            1 + 2**-8 + 2**-9,
            1 + 2**-11,
            1 + 3 * 2**-11,
            65504,
            65519,
            65520,
            1e5,
            -1e5,
            3.38e38,
            np.inf,
            -np.inf,
            0.1,
            -0.0,
        ]
    )
    for target in ("f16", "bf16", "f64"):
        s.case("Cast", f"f32_to_{target}_nearest_even", x=rounding.astype(f32), DstT=ANY[target])
    for target in ("f16", "bf16"):
        s.case(
            "Cast",
            f"{target}_to_f32_exact",
            x=np.array([0.1, -3.25, 1e4, np.inf, -np.inf]).astype(ANY[target]),
            DstT=f32,
        )
    s.case(
        "Cast",
        "f64_to_f32_nearest_even",
        x=np.array([0.1, 1 + 2**-24, 1 + 3 * 2**-24, 1e39, -1e39, 1e-50, np.inf]),
        DstT=f32,
    )
    s.case("Cast", "f32_to_i32_empty", x=np.zeros([2, 0], f32), DstT=i32)
    s.case("Cast", "f32_to_i64_scalar", x=np.array(-7.99, f32), DstT=i64)
    s.case("Cast", "f32_to_i64_large", x=np.array([2.0**40, -(2.0**62), 16777217.0], f32), DstT=i64)


def shapes(s):
    """Ops that read shapes or change only the shape."""
    for dims in ([], [0], [5], [2, 3], [2, 0, 4], [1, 2, 1, 3, 1]):
        label = dims_label(dims)
        for out in ("i32", "i64"):
            s.case("Shape", f"{label}_as_{out}", input=some(f32, dims), out_type=ANY[out])
            s.case("Size", f"{label}_as_{out}", input=some(f32, dims), out_type=ANY[out])
        s.case("Rank", label, input=some(f32, dims))
    for name in ("f64", "i64", "bool", "bf16"):
        s.case("Shape", f"{name}_3x2", input=some(ANY[name], [3, 2]), out_type=i32)
        s.case("Size", f"{name}_3x2", input=some(ANY[name], [3, 2]), out_type=i32)
        s.case("Rank", f"{name}_3x2", input=some(ANY[name], [3, 2]))
    s.case("Shape", "string_2", input=text("x", "y"), out_type=i32)
    for dims, to in (
        ([6], [2, 3]),
        ([2, 3], [-1]),
        ([2, 3, 4], [4, -1]),
        ([], [1, 1]),
        ([1, 1], []),
        ([0, 3], [3, 0]),
        ([2, 0], [-1, 2]),
        ([2, 6], [3, -1, 2]),
        ([5], [5]),
    ):
        label = f"{dims_label(dims)}_to_{dims_label(to).replace('-1', 'rest')}"
        for index in ("i32", "i64"):
            s.case("Reshape", f"{label}_{index}", tensor=some(f32, dims), shape=np.array(to, ANY[index]))
    for name in ("f64", "i32", "i64", "u8", "bool", "f16"):
        s.case("Reshape", f"{name}_2x6_to_4x3", tensor=some(ANY[name], [2, 6]), shape=ivec(4, 3))
    s.case("Reshape", "string_4_to_2x2", tensor=text("a", "b", "c", "d"), shape=ivec(2, 2))
    for dims, axis in (
        ([2, 3], 0),
        ([2, 3], 1),
        ([2, 3], 2),
        ([2, 3], -1),
        ([2, 3], -3),
        ([], 0),
        ([], -1),
        ([0], 1),
    ):
        label = f"{dims_label(dims)}_axis_{axis}".replace("-", "minus_")
        s.case("ExpandDims", f"{label}_i32", input=some(f32, dims), axis=np.array(axis, i32))
        s.case("ExpandDims", f"{label}_i64", input=some(i64, dims), axis=np.array(axis, i64))
    for dims, axes in (
        ([1, 2, 1, 3], []),
        ([1, 2, 1, 3], [0]),
        ([1, 2, 1, 3], [2]),
        ([1, 2, 1, 3], [-2]),
        ([1, 2, 1, 3], [0, 2]),
        ([1, 1], []),
        ([2, 3], []),
        ([1, 0], [0]),
        ([], []),
        ([1, 2, 1], [-1, 0]),
    ):
        label = f"{dims_label(dims)}_axes_{'_'.join(map(str, axes)) or 'all'}".replace("-", "minus_")
        s.case("Squeeze", label, input=some(f32, dims), axis=axes)
    s.case("Squeeze", "i32_1x3x1", input=some(i32, [1, 3, 1]), axis=[])
    s.case("BroadcastTo", "f64_1x3_to_2x3", input=some(f64, [1, 3]), shape=ivec(2, 3))
    for dims, to in (
        ([3], [2, 3]),
        ([2, 1], [2, 3]),
        ([], [2, 2]),
        ([2, 1, 3], [2, 4, 3]),
        ([1, 3], [0, 3]),
        ([2, 3], [2, 3]),
        ([1, 1], [3, 5]),
        ([1, 2, 1, 2], [3, 2, 2, 2]),
    ):
        s.case(
            "BroadcastTo", f"{dims_label(dims)}_to_{dims_label(to)}", input=some(f32, dims), shape=ivec(*to)
        )
    s.case("BroadcastTo", "i32_3_to_2x3_i64_shape", input=some(i32, [3]), shape=np.array([2, 3], i64))
    gradient_args(s)


def gradient_args(s):
    """The axes that a gradient is summed over after broadcasting."""
    pairs = (
        ([2, 3], [2, 3]),
        ([2, 3], [3]),
        ([3], [2, 3]),
        ([2, 3], []),
        ([], [2, 3]),
        ([2, 1], [2, 3]),
        ([2, 1], [1, 3]),
        ([4, 1, 3], [2, 3]),
        ([1, 1], [1, 1]),
        ([], []),
        ([1], [5]),
        ([1, 3], [3]),
        ([0, 3], [1, 3]),
        ([7, 1, 5, 1], [1, 6, 1, 4]),
    )
    for a, b in pairs:
        for index in ("i32", "i64"):
            s.case(
                "BroadcastGradientArgs",
                f"{dims_label(a)}_with_{dims_label(b)}_{index}",
                s0=np.array(a, ANY[index]),
                s1=np.array(b, ANY[index]),
            )
