"""Ops that join, count, find or deal out elements: segments, largest, distinct, partitions."""

import numpy as np

from inputs import rnd
from kinds import ANY, dims_label, ivec, some, text
from reference import f32, f64, i32, i64


def add(s):
    """Adds the cases of this module."""
    segments(s)
    sparse(s)
    largest(s)
    distinct(s)
    dealt(s)
    sets(s)


def segments(s):
    """Segments of sorted and of any ids."""
    for op in ("Sum", "Mean", "Prod", "Max", "Min"):
        for name in ("f32", "f64", "f16", "bf16", "i8", "i32", "i64", "u8"):
            lo = 0 if name[0] == "u" else -3
            x = rnd(ANY[name], [5, 2], lo, 3, 1)
            if op == "Mean" and name[0] in "iu":
                x = rnd(ANY[name], [5, 2], lo, 9)
            s.case(f"Segment{op}", f"{name}_5x2", data=x, segment_ids=ivec(0, 0, 2, 2, 2))
        for dims, ids in (([3], [0, 1, 1]), ([2, 2, 2], [1, 3]), ([0, 3], []), ([2, 0], [0, 1])):
            x = rnd(f32, dims)
            s.case(f"Segment{op}", f"f32_{dims_label(dims)}", data=x, segment_ids=np.array(ids, i64))
    for op in ("Max", "Min", "Prod"):
        for name in ("f32", "f64", "f16", "i8", "i32", "i64", "u8"):
            lo = 0 if name[0] == "u" else -3
            x = rnd(ANY[name], [5, 2], lo, 3, 1)
            ids = ivec(2, 0, -1, 2, 0)
            s.case(f"UnsortedSegment{op}", f"{name}_5x2", audit=False, data=x, segment_ids=ids, num_segments=np.array(4, i32))
        for dims, ids in (([3], [1, 0, 1]), ([2, 2, 2], [[1, 0], [0, 1]]), ([0, 3], []), ([2, 0], [0, 1])):
            x = rnd(f32, dims)
            ids = np.array(ids, i64)
            s.case(f"UnsortedSegment{op}", f"f32_{dims_label(dims)}", audit=False, data=x, segment_ids=ids, num_segments=np.array(2, i64))
    # A NaN takes the place of a number, and the next number its place.
    for name, dtype in {"f32": f32, "f64": np.float64, "f16": np.float16}.items():
        x = np.array([np.nan, 1, 2, np.nan, np.nan, np.nan, 3, np.nan, -np.inf, -0.0, 0], dtype)
        ids = np.array([0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 4], i32)
        for op in ("Max", "Min"):
            s.case(f"Segment{op}", f"{name}_nan", data=x, segment_ids=ids)
            s.case(f"UnsortedSegment{op}", f"{name}_nan", audit=False, data=x, segment_ids=ids, num_segments=np.array(6, i32))


def sparse(s):
    """Segments of slices that indices name."""
    for op in ("Sum", "Mean", "SqrtN"):
        for name in ("f32", "f64", "f16") + (("i32",) if op == "Sum" else ()):
            x, at, ids = rnd(ANY[name], [4, 2], -3, 3, 1), ivec(3, 0, 3, 1), ivec(0, 0, 2, 2)
            s.case(f"SparseSegment{op}", f"{name}_4x2", data=x, indices=at, segment_ids=ids)
            if name in ("f32", "f64"):
                rows = np.array(4, i32)
                s.case(f"SparseSegment{op}WithNumSegments", f"{name}_4x2", data=x, indices=at, segment_ids=ids, num_segments=rows)
                grad = rnd(ANY[name], [3, 2])
                s.case(f"SparseSegment{op}Grad", f"{name}_3x2", grad=grad, indices=at, segment_ids=ids, output_dim0=rows)
                s.case(f"SparseSegment{op}GradV2", f"{name}_3x2", grad=grad, indices=at, segment_ids=ids, dense_output_dim0=rows)
        wide = {"indices": np.array([5, 2, 5, 5, 0], i64), "segment_ids": np.array([0, 0, 1, 2, 2], i64)}
        s.case(f"SparseSegment{op}GradV2", "f32_3x2x2", grad=rnd(f32, [3, 2, 2]), dense_output_dim0=np.array(7, i32), **wide)
        s.case(f"SparseSegment{op}GradV2", "f32_none", grad=rnd(f32, [0, 2]), indices=ivec(), segment_ids=ivec(), dense_output_dim0=np.array(4, i32))
        none = np.zeros([0], i64)
        s.case(f"SparseSegment{op}", "f32_none", data=rnd(f32, [3, 2]), indices=none, segment_ids=none.astype(i32))
        x = rnd(f32, [3, 2, 2])
        s.case(f"SparseSegment{op}", "f32_3x2x2", data=x, indices=np.array([2, 2], i64), segment_ids=ivec(1, 1))


def largest(s):
    """The largest of rows, places in sorted rows, counts."""
    for name in ("f32", "f64", "f16", "bf16", "i8", "i32", "i64", "u8"):
        x = some(ANY[name], [2, 6])
        s.case("TopKV2", f"{name}_2x6", input=x, k=np.array(3, i32), sorted=True)
    for dims, k in (([7], 7), ([5], 1), ([2, 2, 4], 2), ([3, 4], 0), ([0, 4], 2), ([1], 1)):
        label = f"f32_{dims_label(dims)}_{k}"
        s.case("TopKV2", label, input=rnd(f32, dims, -2, 2, 0), k=np.array(k, i32), sorted=True)
    x = np.array([[1, np.inf, -np.inf, 1, 0, -0.0]], f32)
    for name, dtype in (("i16", np.int16), ("i64", i64)):
        s.case("TopKV2", f"k_of_{name}", input=np.array([[1, 2, 3], [6, 5, 4]], f32), k=np.array(2, dtype), sorted=True)
    s.case("TopKV2", "f32_ties_as_i64", input=x, k=np.array(6, i64), sorted=True, index_type=i64)
    x = np.array([[0.1, 0.5, 0.5, 0.2], [1, 2, np.inf, 0], [3, 1, 2, 0], [1, 1, 1, 1], [4, 3, 2, 1]], f32)
    for k in (1, 2, 3, 9):
        s.case("InTopK", f"{k}", predictions=x, targets=ivec(1, 1, 2, 3, 9), k=k)
        s.case("InTopKV2", f"{k}_i64", predictions=x, targets=np.array([3, 0, 0, 0, 0], i64), k=np.array(k, i64))
    for name in ("f32", "f64", "f16", "bf16", "i8", "i32", "i64", "u8"):
        for reverse in (False, True):
            label = f"{name}_{'last' if reverse else 'first'}"
            s.case("NthElement", label, input=some(ANY[name], [2, 6]), n=np.array(2, i32), reverse=reverse)
    for dims, n in (([7], 6), ([1], 0), ([0, 4], 1), ([2, 2, 3], 1)):
        s.case("NthElement", f"f32_{dims_label(dims)}_{n}", input=rnd(f32, dims, -2, 2, 0), n=np.array(n, i32))
    for name in ("i32", "i64", "f32", "f64"):
        x = rnd(ANY[name], [3, 4], -9, 9)
        s.case("Bucketize", f"{name}_3x4", input=x, boundaries=[-3.0, 0.5, 0.5, 4.0])
        ends = np.array([-5, 5], ANY[name])
        for bins, out in ((4, i32), (1, i64), (7, i64)):
            count = np.array(bins, i32)
            s.case("HistogramFixedWidth", f"{name}_{bins}", values=x, value_range=ends, nbins=count, dtype=out)
    x = np.array([np.nan, np.inf, -np.inf, -1, 0.5, 2], f32)
    s.case("Bucketize", "f32_limits", input=x, boundaries=[-1.0, 0.5, 2.0])
    for op in ("LowerBound", "UpperBound"):
        for name in ("f32", "f64", "i32", "i64"):
            x = np.array([[-3, 0, 0, 2], [1, 2, 3, 4]], ANY[name])
            v = np.array([[0, -9, 9], [2, 4, 0]], ANY[name])
            s.case(op, f"{name}_2x4", sorted_inputs=x, values=v, out_type=i32)
        s.case(op, "f32_as_i64", sorted_inputs=rnd(f32, [1, 0]), values=rnd(f32, [1, 2]), out_type=i64)
    for name in ("i32", "i64", "f32", "f64"):
        size, none = np.array(5, i32), np.zeros([0], ANY[name])
        arr = rnd(i32, [8], 0, 6)
        s.case("Bincount", f"{name}_8", arr=arr, size=size, weights=none)
        s.case("Bincount", f"{name}_weights", arr=arr, size=size, weights=rnd(ANY[name], [8], 0, 3))
        for binary in (False, True):
            label = f"{name}{'_binary' * binary}"
            s.case("DenseBincount", label, input=arr, size=size, weights=none, binary_output=binary)
        x, size = rnd(i64, [2, 4], 0, 6), np.array(4, i64)
        s.case("DenseBincount", f"{name}_2x4", input=x, size=size, weights=rnd(ANY[name], [2, 4], 0, 3), binary_output=False)


def distinct(s):
    """Positions of true elements, distinct elements, differences of lists."""
    for name in ("bool", "f32", "f64", "i8", "i32", "i64", "u8"):
        lo = 0 if name[0] == "u" else -1
        s.case("Where", f"{name}_3x4", condition=rnd(ANY[name], [3, 4], lo, 1, 0))
    for dims in ([0], [5], [2, 2, 2], [3, 0]):
        s.case("Where", f"bool_{dims_label(dims)}", condition=rnd(np.bool_, dims))
    s.case("Where", "f32_special", condition=np.array([np.nan, -0.0, 0, np.inf], f32))
    for name in ("f32", "f64", "i8", "i32", "i64", "u8"):
        lo = 0 if name[0] == "u" else -2
        x, y = rnd(ANY[name], [9], lo, 2, 0), rnd(ANY[name], [3], lo, 2, 0)
        s.case("Unique", f"{name}_9", x=x, out_idx=i32)
        s.case("UniqueWithCounts", f"{name}_9", x=x, out_idx=i64)
        s.case("ListDiff", f"{name}_9", x=x, y=y, out_idx=i32)
    words = text("b", "a", "b", "", "a")
    s.case("Unique", "string_5", x=words, out_idx=i64)
    s.case("ListDiff", "string_5", x=words, y=text("a", "c"), out_idx=i64)
    s.case("Unique", "f32_none", x=rnd(f32, [0]), out_idx=i32)
    s.case("Unique", "f32_zeros", x=np.array([0, -0.0, 1, np.inf, np.inf], f32), out_idx=i32)
    far = np.array([-(2**63), 2**63 - 1, 0, -(2**63), 5, 2**63 - 1], i64)
    s.case("Unique", "i64_far_apart", x=far, out_idx=i32)
    for dims, axis in (([4, 2], [0]), ([2, 5], [1]), ([6], []), ([2, 3, 2], [-1])):
        x = rnd(i32, dims, 0, 1)
        label = f"i32_{dims_label(dims)}_{'_'.join(map(str, axis))}"
        s.case("UniqueV2", label, x=x, axis=np.array(axis, i64), out_idx=i32)
        s.case("UniqueWithCountsV2", label, x=x, axis=np.array(axis, i32), out_idx=i32)


def dealt(s):
    """Slices put together and dealt out."""
    for name in ("f32", "f64", "f16", "bool", "i8", "i32", "i64"):
        data = [some(ANY[name], [2, 2]), some(ANY[name], [3, 2])]
        at = [ivec(4, 1), ivec(0, 3, 2)]
        s.case("DynamicStitch", f"{name}_2", indices=at, data=data)
        s.case("ParallelDynamicStitch", f"{name}_2", indices=at, data=data)
        x = some(ANY[name], [5, 2])
        s.case("DynamicPartition", f"{name}_5x2", data=x, partitions=ivec(1, 0, 1, 2, 1), num_partitions=4)
    s.case("DynamicStitch", "f32_twice", indices=[ivec(0, 1), ivec(1, 0)], data=[some(f32, [2]), some(f32, [2])])
    at = [np.array(2, i32), np.array([[0, 1], [3, 1]], i32)]
    s.case("DynamicStitch", "f32_ranks", indices=at, data=[some(f32, [3]), some(f32, [2, 2, 3])])
    s.case("DynamicStitch", "f32_none", indices=[np.zeros([0], i32)], data=[some(f32, [0, 2])])
    at = np.array([[0, 1], [1, 1]], i32)
    s.case("DynamicPartition", "f64_matrix", data=some(f64, [2, 2, 3]), partitions=at, num_partitions=2)
    s.case("DynamicPartition", "f32_none", data=some(f32, [0]), partitions=np.zeros([0], i32), num_partitions=1)
    s.case("DynamicPartition", "string", data=text("a", "b", "c"), partitions=ivec(1, 0, 1), num_partitions=2)


def sets(s):
    """Operations on the sets along the last dimension."""
    words = [text("b", "a", "b", "").reshape(2, 2), text("c", "b", "b", "", "z", "a").reshape(2, 3)]
    for way in ("a-b", "b-a", "intersection", "union"):
        attrs = {"set_operation": way, "validate_indices": True}
        for name in ("i8", "i16", "i32", "i64", "u8", "u16"):
            a, b = rnd(ANY[name], [3, 4], 0, 5), rnd(ANY[name], [3, 5], 0, 5)
            s.case("DenseToDenseSetOperation", f"{name}_{way}", set1=a, set2=b, **attrs)
        s.case("DenseToDenseSetOperation", f"string_{way}", set1=words[0], set2=words[1], **attrs)
        for label, a, b in (
            ("2x1x3", [2, 1, 3], [2, 1, 2]),
            ("empty_first", [2, 0], [2, 3]),
            ("empty_both", [2, 0], [2, 0]),
            ("no_sets", [0, 2], [0, 3]),
        ):
            a, b = rnd(i64, a, -2, 2), rnd(i64, b, -2, 2)
            s.case("DenseToDenseSetOperation", f"i64_{label}_{way}", set1=a, set2=b, **attrs)
        at, other = np.array([[0, 1], [2, 0], [2, 3]], i64), np.array([[0, 0], [0, 4], [1, 1], [2, 2]], i64)
        second = {"set2_indices": other, "set2_shape": np.array([3, 5], i64)}
        for name in ("i32", "string"):
            values = text("q", "b", "q") if name == "string" else np.array([7, -2, 7], i32)
            others = text("b", "q", "q", "b") if name == "string" else np.array([9, 7, 7, -2], i32)
            dense = text("q", "q", "x", "b", "b", "").reshape(3, 2) if name == "string" else rnd(i32, [3, 2], 6, 9)
            s.case(
                "DenseToSparseSetOperation", f"{name}_{way}", set1=dense, set2_values=others, **second, **attrs
            )
            s.case(
                "SparseToSparseSetOperation",
                f"{name}_{way}",
                set1_indices=at,
                set1_values=values,
                set1_shape=np.array([3, 4], i64),
                set2_values=others,
                **second,
                **attrs,
            )
    for label, at, values, shape in (
        ("i32", [[0, 0], [0, 1], [2, 1]], np.array([5, 5, 6], i32), [3, 2]),
        ("string", [[0, 0], [0, 1], [2, 1]], text("a", "b", "b"), [3, 2]),
        ("i64_3d", [[0, 0, 0], [0, 1, 0], [0, 1, 1]], np.array([1, 2, 3], i64), [1, 2, 2]),
        ("i32_none", np.zeros([0, 2]), np.zeros([0], i32), [3, 2]),
    ):
        at, shape = np.array(at, i64), np.array(shape, i64)
        s.case("SetSize", label, set_indices=at, set_values=values, set_shape=shape, validate_indices=True)
