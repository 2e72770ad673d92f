"""Ops that add elements or make a tensor: pads, Tile, Fill, Range."""

import numpy as np

from kinds import ANY, dims_label, ivec, some
from reference import f32, f64, i32, i64

MAIN = {"f32": f32, "f64": f64, "i32": i32, "i64": i64}


def add(s):
    """Adds the cases of this module."""
    pads(s)
    makers(s)


def pads(s):
    """Pad, PadV2 and Tile."""
    for dims, amounts in (
        ([3], [[1, 2]]),
        ([2, 3], [[0, 0], [1, 1]]),
        ([2, 3], [[2, 0], [0, 3]]),
        ([2, 3], [[0, 0], [0, 0]]),
        ([1, 2, 3, 2], [[0, 0], [1, 2], [2, 1], [0, 0]]),
        ([0, 2], [[1, 1], [0, 1]]),
        ([], []),
        ([2, 2, 2], [[1, 0], [0, 1], [1, 1]]),
    ):
        label = f"{dims_label(dims)}_by_{'_'.join(f'{a}{b}' for a, b in amounts) or 'none'}"
        for index in ("i32", "i64"):
            box = np.array(amounts, ANY[index]).reshape(len(dims), 2)
            s.case("Pad", f"{label}_{index}", input=some(f32, dims), paddings=box)
            s.case(
                "PadV2",
                f"{label}_{index}",
                input=some(f32, dims),
                paddings=box,
                constant_values=np.array(-1.5, f32),
            )
    for name in ("f64", "i32", "i64", "u8", "f16"):
        value = np.array(7).astype(ANY[name])
        s.case("Pad", f"{name}_2x2", input=some(ANY[name], [2, 2]), paddings=ivec(1, 0, 0, 2).reshape(2, 2))
        s.case(
            "PadV2",
            f"{name}_2x2",
            input=some(ANY[name], [2, 2]),
            paddings=ivec(1, 0, 0, 2).reshape(2, 2),
            constant_values=value,
        )
    for dims, times in (
        ([3], [2]),
        ([2, 3], [1, 2]),
        ([2, 3], [3, 1]),
        ([2, 1, 3], [2, 3, 2]),
        ([2, 3], [0, 2]),
        ([], []),
        ([2, 3], [1, 1]),
        ([0, 2], [3, 2]),
        ([2, 2, 2, 2], [1, 2, 1, 3]),
    ):
        label = f"{dims_label(dims)}_times_{dims_label(times)}"
        for index in ("i32", "i64"):
            s.case("Tile", f"{label}_{index}", input=some(f32, dims), multiples=np.array(times, ANY[index]))
    for name in ("f64", "i32", "i64", "u8", "bool"):
        s.case("Tile", f"{name}_2x2", input=some(ANY[name], [2, 2]), multiples=ivec(2, 2))


def makers(s):
    """Fill and Range."""
    for dims in ([], [3], [2, 3], [0, 2], [2, 1, 3]):
        for index in ("i32", "i64"):
            s.case(
                "Fill",
                f"{dims_label(dims)}_{index}",
                dims=np.array(dims, ANY[index]),
                value=np.array(2.5, f32),
            )
    for name in ("f64", "f16", "bf16", "i8", "i32", "i64", "u8", "bool"):
        s.case("Fill", f"{name}_2x2", dims=ivec(2, 2), value=np.array(1).astype(ANY[name]))
    for label, start, limit, delta in (
        ("up", 0, 5, 1),
        ("by_3", 1, 12, 3),
        ("down", 5, 0, -2),
        ("down_past_zero", 3, -4, -1),
        ("nothing", 3, 3, 1),
        ("exact_end", 0, 9, 3),
    ):
        for name, dtype in MAIN.items():
            s.case(
                "Range",
                f"{label}_{name}",
                start=np.array(start, dtype),
                limit=np.array(limit, dtype),
                delta=np.array(delta, dtype),
            )
    for label, start, limit, delta in (
        ("fractions", 0.5, 3.0, 0.5),
        ("not_reached", 0.0, 1.0, 0.3),
        ("down_fractions", 1.0, -1.0, -0.25),
    ):
        for name in ("f32", "f64"):
            s.case(
                "Range",
                f"{label}_{name}",
                start=np.array(start, ANY[name]),
                limit=np.array(limit, ANY[name]),
                delta=np.array(delta, ANY[name]),
            )
