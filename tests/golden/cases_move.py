"""Ops that pick and reorder elements: Transpose, slices, joins, lookups."""

import numpy as np

from kinds import ANY, dims_label, ivec, some
from reference import f32, f64, i32, i64

STRIDED = {
    # label: (dims, begin, end, strides, masks)
    "vector": ([6], [1], [4], [1], {}),
    "vector_step_2": ([7], [0], [7], [2], {}),
    "vector_backward": ([6], [5], [0], [-1], {}),
    "vector_backward_whole": ([6], [0], [0], [-1], {"begin_mask": 1, "end_mask": 1}),
    "vector_backward_by_3": ([8], [-1], [-9], [-3], {}),
    "negative_bounds": ([6], [-4], [-1], [1], {}),
    "clamped_bounds": ([4], [-99], [99], [1], {}),
    "clamped_bounds_backward": ([4], [99], [-99], [-2], {}),
    "nothing_left": ([4], [3], [1], [1], {}),
    "nothing_left_backward": ([4], [1], [3], [-1], {}),
    "matrix": ([4, 5], [1, 0], [3, 5], [1, 2], {}),
    "matrix_first_rows": ([4, 5], [1], [3], [1], {}),
    "row": ([4, 5], [2, 0], [3, 0], [1, 1], {"shrink_axis_mask": 1, "end_mask": 2}),
    "last_row": ([4, 5], [-1], [0], [1], {"shrink_axis_mask": 1}),
    "column": ([4, 5], [0, 3], [0, 4], [1, 1], {"begin_mask": 1, "end_mask": 1, "shrink_axis_mask": 2}),
    "element": ([4, 5], [1, -2], [0, 0], [1, 1], {"shrink_axis_mask": 3}),
    "begin_mask": ([4, 5], [3, 1], [3, 4], [1, 1], {"begin_mask": 1}),
    "end_mask": ([4, 5], [1, 1], [0, 2], [1, 1], {"end_mask": 3}),
    "both_masks_backward": ([4, 5], [0, 0], [0, 0], [-1, -2], {"begin_mask": 3, "end_mask": 3}),
    "ellipsis_first": ([2, 3, 4], [0, 1], [0, 3], [1, 1], {"ellipsis_mask": 1}),
    "ellipsis_middle": ([2, 3, 4, 2], [1, 0, 0], [2, 0, 1], [1, 1, 1], {"ellipsis_mask": 2}),
    "ellipsis_last": ([2, 3, 4], [1, 0], [2, 0], [1, 1], {"ellipsis_mask": 2}),
    "ellipsis_empty": ([2, 3], [0, 0, 1], [2, 0, 3], [1, 1, 1], {"ellipsis_mask": 2}),
    "new_axis_first": ([3, 4], [0, 0], [0, 2], [1, 1], {"new_axis_mask": 1}),
    "new_axis_last": ([3, 4], [0, 0, 0], [3, 4, 0], [1, 1, 1], {"new_axis_mask": 4}),
    "new_axis_and_ellipsis": (
        [2, 3, 4],
        [0, 0, 0],
        [0, 0, 0],
        [1, 1, 1],
        {"ellipsis_mask": 2, "new_axis_mask": 5},
    ),
    "new_axis_beats_shrink": ([3, 4], [0, 1], [1, 2], [1, 1], {"new_axis_mask": 1, "shrink_axis_mask": 3}),
    "shrink_and_new_axis": (
        [3, 4, 2],
        [1, 0, 0],
        [2, 0, 2],
        [1, 1, 1],
        {"shrink_axis_mask": 1, "new_axis_mask": 2},
    ),
    "shrink_ellipsis_shrink": (
        [2, 3, 4, 2],
        [1, 0, 1],
        [2, 0, 2],
        [1, 1, 1],
        {"shrink_axis_mask": 5, "ellipsis_mask": 2},
    ),
    "rank_4_steps": ([2, 5, 6, 3], [0, 1, 5, 0], [2, 5, 0, 3], [1, 2, -2, 1], {}),
    "no_specification": ([2, 3], [], [], [], {}),
    "empty_input": ([0, 3], [0, 1], [0, 3], [1, 1], {"end_mask": 1}),
    "scalar_new_axis": ([], [0], [0], [1], {"new_axis_mask": 1}),
}


def add(s):
    """Adds the cases of this module."""
    moves(s)
    joins(s)
    stacks(s)
    segments(s)
    lookups(s)


def moves(s):
    """Transpose, Slice, StridedSlice and its gradient."""
    for dims, perm in (
        ([2, 3], [1, 0]),
        ([2, 3], [0, 1]),
        ([2, 3, 4], [2, 0, 1]),
        ([2, 3, 4], [0, 2, 1]),
        ([], []),
        ([5], [0]),
        ([2, 3, 4, 5], [0, 3, 1, 2]),
        ([2, 3, 4, 5], [0, 2, 3, 1]),
        ([2, 3, 4, 5], [3, 2, 1, 0]),
        ([2, 0, 3], [2, 1, 0]),
        ([1, 7, 1, 3], [2, 1, 3, 0]),
        ([17, 19], [1, 0]),
        ([2, 1, 2, 3, 2], [4, 2, 0, 3, 1]),
    ):
        s.case(
            "Transpose",
            f"{dims_label(dims)}_by_{''.join(map(str, perm)) or 'none'}",
            x=some(f32, dims),
            perm=np.array(perm, i32),
        )
    for name in ("f64", "i32", "i64", "u8", "bool", "bf16", "f16"):
        s.case(
            "Transpose", f"{name}_3x4x2_by_102", x=some(ANY[name], [3, 4, 2]), perm=np.array([1, 0, 2], i64)
        )
    for dims, begin, size in (
        ([5], [1], [3]),
        ([4, 5], [1, 2], [2, 3]),
        ([4, 5], [0, 3], [-1, -1]),
        ([3, 4, 5], [1, 0, 2], [1, 4, 2]),
        ([4, 5], [2, 2], [0, 2]),
        ([], [], []),
        ([0, 3], [0, 1], [0, 2]),
        ([2, 2, 3, 3], [0, 1, 1, 0], [2, 1, -1, 2]),
    ):
        label = f"{dims_label(dims)}_at_{dims_label(begin)}_take_{dims_label(size).replace('-1', 'rest')}"
        s.case(
            "Slice",
            f"{label}_i32",
            input=some(f32, dims),
            begin=np.array(begin, i32),
            size=np.array(size, i32),
        )
    for name in ("f64", "i64", "i32", "bool", "u8"):
        s.case(
            "Slice",
            f"{name}_3x4_i64",
            input=some(ANY[name], [3, 4]),
            begin=np.array([1, 1], i64),
            size=np.array([2, 2], i64),
        )
    strided(s)


def strided(s):
    """StridedSlice and, with the same specification, StridedSliceGrad."""
    for label, (dims, begin, end, strides, masks) in STRIDED.items():
        for index in (i32, i64):
            kind = "i32" if index is i32 else "i64"
            spec = {
                "begin": np.array(begin, index),
                "end": np.array(end, index),
                "strides": np.array(strides, index),
                **masks,
            }
            run = s.case("StridedSlice", f"{label}_{kind}", input=some(f32, dims), **spec)
            if run is not None:
                dtype = f32 if index is i32 else f64
                s.case(
                    "StridedSliceGrad",
                    f"{label}_{kind}",
                    shape=np.array(dims, index),
                    dy=some(dtype, run.outputs[0].shape),
                    **spec,
                )
                s.case(
                    "TensorStridedSliceUpdate",
                    f"{label}_{kind}",
                    input=some(dtype, dims),
                    value=some(dtype, run.outputs[0].shape),
                    **spec,
                )
    # A value that is broadcast to the slice, over kept, dropped and new dimensions; and any value for an empty slice.
    for label, dims, begin, end, strides, value, masks in (
        ("row", [4, 5], [0, 1], [4, 4], [2, 1], [3], {}),
        ("column", [4, 5], [0, 1], [4, 4], [1, 1], [4, 1], {}),
        ("backwards", [2, 5], [0, 1], [1, 0], [1, 2], [1], {"end_mask": 2, "shrink_axis_mask": 1}),
        ("shrink", [2, 2, 3, 2], [0, 0, 1], [1, 0, 2], [1, 0, 1], [2, 1], {"ellipsis_mask": 2, "shrink_axis_mask": 5}),
        ("new_axis", [3, 4], [0, 0, 0], [3, 1, 4], [1, 1, 1], [1, 4], {"new_axis_mask": 2}),
        ("nothing", [2, 2], [0, 0], [0, 0], [1, 1], [2, 0], {}),
    ):
        s.case(
            "TensorStridedSliceUpdate",
            f"broadcast_{label}",
            input=some(f32, dims),
            begin=np.array(begin, i32),
            end=np.array(end, i32),
            strides=np.array(strides, i32),
            value=some(f32, value),
            **masks,
        )
    for name in ("i32", "i64", "u8", "bool", "f16"):
        s.case(
            "TensorStridedSliceUpdate",
            f"{name}_matrix",
            input=some(ANY[name], [4, 5]),
            begin=ivec(3, 1),
            end=ivec(0, 5),
            strides=ivec(-1, 2),
            value=some(ANY[name], [3, 2]),
        )
    for name in ("f64", "i32", "i64", "u8", "bool", "f16"):
        s.case(
            "StridedSlice",
            f"{name}_matrix",
            input=some(ANY[name], [4, 5]),
            begin=ivec(3, 1),
            end=ivec(0, 5),
            strides=ivec(-1, 2),
        )


def joins(s):
    """ConcatV2, Split, ConcatOffset and InvertPermutation."""
    for name in ("f32", "f64", "i32", "i64", "u8", "bool", "bf16"):
        s.case(
            "ConcatV2",
            f"{name}_axis_1",
            values=[some(ANY[name], [2, 3]), some(ANY[name], [2, 1]), some(ANY[name], [2, 4])],
            axis=np.array(1, i32),
        )
    for label, parts, axis in (
        ("vectors", [[2], [3]], 0),
        ("rows", [[1, 4], [3, 4]], 0),
        ("columns_negative_axis", [[3, 1], [3, 2]], -1),
        ("middle", [[2, 1, 3], [2, 4, 3], [2, 2, 3]], 1),
        ("one_empty", [[2, 0], [2, 3]], 1),
        ("all_empty", [[0, 2], [0, 2]], 0),
        ("channels", [[2, 3, 3, 2], [2, 3, 3, 5]], 3),
        ("first_axis_negative", [[2, 2], [1, 2]], -2),
        ("empty_other_axis", [[0, 2], [0, 5]], 1),
    ):
        s.case("ConcatV2", label, values=[some(f32, p) for p in parts], axis=np.array(axis, i64))
    for dims, axis, n in (
        ([6], 0, 3),
        ([4, 6], 1, 2),
        ([4, 6], 0, 4),
        ([4, 6], -1, 3),
        ([2, 4, 3], 1, 2),
        ([2, 4, 3], -2, 4),
        ([0, 4], 1, 2),
        ([0, 4], 0, 3),
        ([3], 0, 1),
        ([2, 2, 2, 9], 3, 3),
    ):
        label = f"{dims_label(dims)}_axis_{axis}_into_{n}".replace("-", "minus_")
        s.case("Split", label, axis=np.array(axis, i32), value=some(f32, dims), num_split=n)
    for name in ("f64", "i32", "i64", "bool"):
        s.case("Split", f"{name}_2x6", axis=np.array(1, i32), value=some(ANY[name], [2, 6]), num_split=3)
    for label, parts, axis in (
        ("rows", [[2, 3], [4, 3], [1, 3]], 0),
        ("columns", [[2, 3], [2, 5]], 1),
        ("negative_axis", [[2, 3, 4], [2, 1, 4], [2, 0, 4]], -2),
    ):
        s.case(
            "ConcatOffset", f"{label}_i32", concat_dim=np.array(axis, i32), shape=[ivec(*p) for p in parts]
        )
        s.case(
            "ConcatOffset",
            f"{label}_i64",
            concat_dim=np.array(axis, i32),
            shape=[np.array(p, i64) for p in parts],
        )
    for perm in ([0], [1, 0], [2, 0, 1], [3, 1, 0, 2], []):
        for index in ("i32", "i64"):
            s.case(
                "InvertPermutation",
                f"{''.join(map(str, perm)) or 'empty'}_{index}",
                x=np.array(perm, ANY[index]),
            )


def stacks(s):
    """Pack and Unpack."""
    for label, dims, count, axis in (
        ("scalars", [], 3, 0),
        ("vectors", [4], 2, 0),
        ("vectors_axis_1", [4], 3, 1),
        ("matrices_axis_minus_1", [2, 3], 2, -1),
        ("matrices_axis_minus_2", [2, 3], 4, -2),
        ("one", [2, 2], 1, 1),
        ("empty", [0, 2], 2, 1),
    ):
        s.case("Pack", label, values=[some(f32, dims) for _ in range(count)], axis=axis)
        at = axis % (len(dims) + 1)
        s.case("Unpack", label, value=some(f32, dims[:at] + [count] + dims[at:]), num=count, axis=axis)
    for name in ("f64", "i32", "i64", "u8", "bool", "bf16"):
        s.case("Pack", f"{name}_axis_1", values=[some(ANY[name], [3]) for _ in range(2)], axis=1)
        s.case("Unpack", f"{name}_axis_1", value=some(ANY[name], [3, 2]), num=2, axis=1)


def segments(s):
    """UnsortedSegmentSum, whose negative ids are left out."""
    for label, dims, ids, count in (
        ("rows", [5, 3], [2, 0, 2, 1, 0], 3),
        ("some_left_out", [4, 2], [1, -1, 0, -7], 2),
        ("segments_without_rows", [3, 2], [4, 0, 4], 6),
        ("numbers", [6], [1, 1, 0, 3, 1, 0], 4),
        ("matrix_of_ids", [2, 3, 2], [[0, 1, 1], [2, 0, -1]], 3),
        ("whole_matrix", [2, 2], [[0, 1], [1, 1]], 2),
        ("no_rows", [0, 3], [], 2),
        ("empty_rows", [2, 0], [0, 1], 2),
        ("wide", [3, 70], [1, 0, 1], 2),
    ):
        for kind in ("i32", "i64"):
            s.case(
                "UnsortedSegmentSum",
                f"{label}_{kind}",
                data=some(f32, dims),
                segment_ids=np.array(ids, ANY[kind]),
                num_segments=np.array(count, ANY[kind]),
            )
    for name in ("f64", "i32", "i64", "u8"):
        s.case(
            "UnsortedSegmentSum",
            f"{name}_rows",
            data=some(ANY[name], [4, 2]),
            segment_ids=ivec(1, 0, 1, 1),
            num_segments=np.array(2, i32),
        )


def lookups(s):
    """GatherV2 and OneHot."""
    for label, dims, index, axis, batch in (
        ("rows", [5, 3], [[4, 0, 4]], 0, 0),
        ("columns", [3, 5], [[1, 1, 0]], 1, 0),
        ("last_axis", [2, 3, 4], [[3, 0]], -1, 0),
        ("scalar_index", [5, 3], 2, 0, 0),
        ("scalar_index_axis_1", [5, 3], 2, 1, 0),
        ("matrix_of_indices", [4, 2], [[[0, 1, 3], [2, 2, 0]]], 0, 0),
        ("middle_axis", [2, 4, 3], [[[1, 3], [0, 0]]], 1, 0),
        ("vector", [6], [[5, 0, 3]], 0, 0),
        ("batch_1", [2, 4], [[[0, 3, 1], [2, 2, 0]]], 1, 1),
        ("batch_1_deep", [2, 4, 3], [[[0, 3], [2, 2]]], 1, 1),
        ("batch_1_far_axis", [2, 3, 4], [[[3, 0], [1, 1]]], 2, 1),
        ("batch_2", [2, 2, 3], [[[[0, 2], [1, 1]], [[2, 0], [0, 1]]]], 2, 2),
        ("batch_1_vector_of_indices", [3, 4], [[1, 0, 3]], 1, 1),
        ("batch_negative", [2, 4], [[[0, 3], [2, 1]]], 1, -1),
        ("no_indices", [4, 3], [[]], 0, 0),
        ("empty_rows", [3, 0], [[0, 2]], 0, 0),
    ):
        where = np.array(index[0] if isinstance(index, list) else index)
        for kind in ("i32", "i64"):
            s.case(
                "GatherV2",
                f"{label}_{kind}",
                params=some(f32, dims),
                indices=where.astype(ANY[kind]),
                axis=np.array(axis, i32),
                batch_dims=batch,
            )
    for name in ("f64", "i32", "i64", "u8", "bool", "bf16"):
        s.case(
            "GatherV2",
            f"{name}_rows",
            params=some(ANY[name], [4, 3]),
            indices=ivec(3, 0, 0),
            axis=np.array(0, i64),
            batch_dims=0,
        )
    for label, index, depth, axis in (
        ("vector", [0, 2, 1], 3, -1),
        ("vector_axis_0", [0, 2, 1], 3, 0),
        ("out_of_range", [-1, 3, 1, 99], 3, -1),
        ("matrix", [[0, 1], [2, 0]], 3, -1),
        ("matrix_axis_1", [[0, 1], [2, 0]], 3, 1),
        ("matrix_axis_0", [[0, 1], [2, 0]], 3, 0),
        ("scalar", 1, 4, -1),
        ("depth_0", [0, 1], 0, -1),
        ("no_indices", [], 3, -1),
    ):
        for kind in ("i32", "i64", "u8"):
            values = np.array(index)
            if kind == "u8":
                values = np.abs(values)
            s.case(
                "OneHot",
                f"{label}_{kind}",
                indices=values.astype(ANY[kind]),
                depth=np.array(depth, i32),
                on_value=np.array(1, f32),
                off_value=np.array(0, f32),
                axis=axis,
            )
    for name in ("f64", "i32", "i64", "u8"):
        s.case(
            "OneHot",
            f"{name}_values",
            indices=np.array([1, 0, 4], i64),
            depth=np.array(4, i32),
            on_value=np.array(5).astype(ANY[name]),
            off_value=np.array(2).astype(ANY[name]),
            axis=-1,
        )
    s.case(
        "OneHot",
        "bool_values",
        indices=np.array([1, 0], i64),
        depth=np.array(2, i32),
        on_value=np.array(True),
        off_value=np.array(False),
        axis=-1,
    )
