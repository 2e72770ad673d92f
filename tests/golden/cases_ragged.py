"""Ops on ragged tensors: ranges, lookups, conversions."""

import numpy as np

from inputs import rnd
from kinds import ANY, ivec, text
from reference import f32, i32, i64

VALUES = ("f32", "f64", "f16", "bf16", "i8", "i32", "i64", "u8", "bool")


def add(s):
    """Adds the cases of this module."""
    ranges(s)
    lookups(s)
    conversions(s)


def ends(*values, dtype=i64):
    """Row splits."""
    return np.array(values, dtype)


def ranges(s):
    """Ranges of rows."""
    op = "RaggedRange"
    for name in ("i32", "i64", "f32", "f64"):
        dtype = ANY[name]
        starts, limits, deltas = (np.array(v, dtype) for v in ([0, 5, 8, 3], [3, 5, 2, 9], [1, 1, -2, 4]))
        s.case(op, name, audit=False, starts=starts, limits=limits, deltas=deltas, Tsplits=i32)
        s.case(op, f"{name}_scalars", audit=False, starts=np.array(0, dtype), limits=limits, deltas=np.array(2, dtype))
        s.case(op, f"{name}_one", audit=False, starts=np.array(1, dtype), limits=np.array(4, dtype), deltas=np.array(1, dtype))
    s.case(op, "f32_steps", audit=False, starts=np.array([0, 1], f32), limits=np.array([0.5, 2], f32), deltas=np.array(0.25, f32))
    s.case(op, "i32_none", starts=ivec(), limits=ivec(), deltas=np.array(1, i32))


def lookups(s):
    """Rows of ragged tensors."""
    op = "RaggedGather"
    for name in VALUES:
        given = {"params_nested_splits": [ends(0, 2, 2, 5)], "params_dense_values": rnd(ANY[name], [5], 0, 3)}
        s.case(op, name, **given, indices=ivec(2, 0, 1, 2), OUTPUT_RAGGED_RANK=1)
    words = text("a", "b", "c", "d", "e")
    deep = {"params_nested_splits": [ends(0, 1, 3, dtype=i32), ends(0, 2, 2, 5, dtype=i32)]}
    for label, indices, rank in (("scalar", np.array(1, i32), 1), ("vector", ivec(1, 1, 0), 2), ("matrix", np.array([[0, 1], [1, 1]], i64), 3), ("none", ivec(), 2)):
        s.case(op, f"string_{label}", **deep, params_dense_values=words, indices=indices, OUTPUT_RAGGED_RANK=rank)
        s.case(op, f"f32_inner_{label}", **deep, params_dense_values=rnd(f32, [5, 2]), indices=indices, OUTPUT_RAGGED_RANK=rank)
    s.case(op, "f32_one_row", params_nested_splits=[ends(0, 2, 5)], params_dense_values=rnd(f32, [5]), indices=np.array(1, i32), OUTPUT_RAGGED_RANK=0)


def conversions(s):
    """Ragged tensors as sparse and as dense ones."""
    for name in VALUES:
        values = rnd(ANY[name], [5], 0, 3)
        s.case("RaggedTensorToSparse", name, rt_nested_splits=[ends(0, 2, 2, 5)], rt_dense_values=values)
        s.case("RaggedTensorToTensor", name, shape=np.array([-1, -1], i64), values=values, default_value=rnd(ANY[name], [], 1, 1), row_partition_tensors=[ends(0, 2, 2, 5)], row_partition_types=["ROW_SPLITS"])
    words = text("a", "b", "c", "d", "e")
    for label, splits in (("two", [ends(0, 2, 2, 3), ends(0, 2, 2, 5)]), ("i32", [ends(0, 0, 5, dtype=i32)])):
        s.case("RaggedTensorToSparse", f"string_{label}", rt_nested_splits=splits, rt_dense_values=words)
        s.case("RaggedTensorToSparse", f"f32_inner_{label}", rt_nested_splits=splits, rt_dense_values=rnd(f32, [5, 2, 2]))
    s.case("RaggedTensorToSparse", "f32_none", rt_nested_splits=[ends(0, 0)], rt_dense_values=rnd(f32, [0, 2]))
    to = "RaggedTensorToTensor"
    two = {"row_partition_tensors": [ends(0, 2, 2, 3), ends(0, 2, 2, 5)], "row_partition_types": ["ROW_SPLITS", "ROW_SPLITS"]}
    ids = {"row_partition_tensors": [np.array(4, i64), ends(0, 0, 2, 2, 2)], "row_partition_types": ["FIRST_DIM_SIZE", "VALUE_ROWIDS"]}
    dash = text("-").reshape([])
    for label, shape in (("free", [-1, -1, -1]), ("cut", [2, 1, 3]), ("wide", [5, 3, 2]), ("part", [-1, 1, -1]), ("empty", [0, 2, 2])):
        s.case(to, f"string_{label}", shape=np.array(shape, i64), values=words, default_value=dash, **two)
    for label, shape in (("free", [-1, -1]), ("cut", [2, 1]), ("wide", [5, 6])):
        s.case(to, f"i32_ids_{label}", shape=np.array(shape, i32), values=rnd(i32, [5]), default_value=np.array(7, i32), **ids)
    for label, default in (("scalar", []), ("row", [2]), ("ones", [1])):
        s.case(to, f"f32_inner_{label}", shape=np.array([-1, -1, -1, -1], i64), values=rnd(f32, [5, 2]), default_value=rnd(f32, default), **two)
    deep = {"row_partition_tensors": [np.array(3, i64), ends(0, 0, 2), ends(0, 1, 1, 2, 2)], "row_partition_types": ["FIRST_DIM_SIZE", "VALUE_ROWIDS", "VALUE_ROWIDS"]}
    s.case(to, "f32_ids_two", shape=np.array([-1, -1, -1], i64), values=rnd(f32, [5]), default_value=np.array(9, f32), **deep)
