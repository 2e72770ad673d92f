"""Types by name, and small helpers that several case modules share."""

import numpy as np

from inputs import rnd
from reference import bf16, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64

ANY = {
    "f32": f32,
    "f64": f64,
    "f16": f16,
    "bf16": bf16,
    "i8": i8,
    "i16": i16,
    "i32": i32,
    "i64": i64,
    "u8": u8,
    "u16": u16,
    "u32": u32,
    "u64": u64,
    "bool": np.bool_,
}


def low(dtype):
    """A lower bound for random values that the type can hold."""
    return 0 if np.dtype(dtype).kind == "u" else -9


def some(dtype, dims):
    """Random values of any type."""
    return rnd(dtype, dims, low(dtype), 9)


def ivec(*values):
    """An i32 vector."""
    return np.array(values, i32)


def dims_label(dims):
    """2x3x4, or scalar."""
    return "x".join(map(str, dims)) or "scalar"


def text(*words):
    """A string tensor of rank 1."""
    return np.array([w.encode() for w in words], dtype=object)
