"""Ops on sparse tensors: conversions, products, joins, parts, reductions."""

import numpy as np

from inputs import rnd
from kinds import ANY, ivec, text
from reference import f32, f64, i32, i64, tf

NUMBERS = ("f32", "f64", "f16", "bf16", "i8", "i32", "i64", "u8")


def add(s):
    """Adds the cases of this module."""
    dense(s)
    products(s)
    order(s)
    joins(s)
    parts(s)
    sums(s)
    empty_rows(s)
    reductions(s)
    distances(s)
    counts(s)
    crosses(s)
    ragged_crosses(s)


def at(*rows):
    """A matrix of indices."""
    return np.array(rows, i64)


def sizes(*dims):
    """The shape of a sparse tensor."""
    return np.array(dims, i64)


def matrix(dtype, seed=4):
    """A sparse matrix of shape [3, 4] with four entries, as three arrays."""
    lo = 0 if np.dtype(dtype).kind in "ub" else -3
    return at([0, 1], [0, 3], [2, 0], [2, 2]), rnd(dtype, [seed], lo, 3), sizes(3, 4)


def dense(s):
    """Sparse tensors as dense ones, and added to dense ones."""
    op = "SparseToDense"
    for name in NUMBERS + ("bool",):
        indices, values, shape = matrix(ANY[name])
        s.case(op, f"{name}_3x4", sparse_indices=indices, output_shape=shape, sparse_values=values, default_value=rnd(ANY[name], [], 1, 1), validate_indices=True)
    one = np.array(7, f32)
    s.case(op, "f32_vector", sparse_indices=ivec(1, 3), output_shape=ivec(5), sparse_values=rnd(f32, [2]), default_value=one, validate_indices=True)
    s.case(op, "f32_scalar", sparse_indices=np.array(2, i32), output_shape=ivec(4), sparse_values=one, default_value=np.array(0, f32), validate_indices=True)
    s.case(op, "f32_one_value", sparse_indices=at([1, 0], [0, 1]), output_shape=sizes(2, 2), sparse_values=one, default_value=np.array(1, f32), validate_indices=False)
    s.case(op, "string", sparse_indices=at([1], [2]), output_shape=sizes(4), sparse_values=text("a", "b"), default_value=text("-").reshape([]), validate_indices=True)
    for name in NUMBERS:
        indices, values, shape = matrix(ANY[name])
        lo = 0 if name[0] == "u" else -3
        other = rnd(ANY[name], [3, 4], lo, 3)
        s.case("SparseTensorDenseAdd", f"{name}_3x4", a_indices=indices, a_values=values, a_shape=shape, b=other)
        for way in ("Add", "Mul", "Div"):
            if way == "Div" and name == "bf16":
                continue
            for label, other in (("3x4", rnd(ANY[name], [3, 4], 1, 3)), ("3x1", rnd(ANY[name], [3, 1], 1, 3)), ("4", rnd(ANY[name], [4], 1, 3))):
                s.case(f"SparseDenseCwise{way}", f"{name}_{label}", sp_indices=indices, sp_values=values, sp_shape=shape, dense=other)
    indices, values, shape = matrix(f32)
    s.case("SparseTensorDenseAdd", "f32_i32", a_indices=indices.astype(i32), a_values=values, a_shape=shape.astype(i32), b=rnd(f32, [3, 4]))


def products(s):
    """Products of sparse and dense matrices."""
    op = "SparseTensorDenseMatMul"
    for name in ("f32", "f64", "f16", "bf16", "i32"):
        for a, b in ((False, False), (True, False), (False, True), (True, True)):
            indices, values, shape = matrix(ANY[name])
            inner = 3 if a else 4
            other = rnd(ANY[name], [2, inner] if b else [inner, 2], -3, 3)
            s.case(op, f"{name}_{'at' * a}_{'bt' * b}", a_indices=indices, a_values=values, a_shape=shape, b=other, adjoint_a=a, adjoint_b=b)
    twice = at([0, 1], [0, 1], [1, 0], [0, 0], [1, 2])
    s.case(op, "f32_repeated", a_indices=twice.astype(i32), a_values=rnd(f32, [5]), a_shape=sizes(2, 3), b=rnd(f32, [3, 33]), adjoint_b=False)
    s.case(op, "f32_repeated_bt", a_indices=twice, a_values=rnd(f32, [5]), a_shape=sizes(2, 3), b=rnd(f32, [33, 3]), adjoint_b=True)
    none = np.zeros([0, 2], i64)
    s.case(op, "f32_none", a_indices=none, a_values=rnd(f32, [0]), a_shape=sizes(2, 3), b=rnd(f32, [3, 2]))
    s.case(op, "f32_no_columns", a_indices=twice, a_values=rnd(f32, [5]), a_shape=sizes(2, 3), b=rnd(f32, [3, 0]))


def order(s):
    """Other orders and shapes."""
    mixed = at([2, 0], [0, 3], [2, 2], [0, 1])
    for name in NUMBERS + ("bool",):
        s.case("SparseReorder", f"{name}_3x4", input_indices=mixed, input_values=matrix(ANY[name])[1], input_shape=sizes(3, 4))
    indices, values, shape = matrix(f32)
    s.case("SparseReorder", "f32_ordered", input_indices=indices, input_values=values, input_shape=shape)
    s.case("SparseReorder", "string", input_indices=mixed, input_values=text("a", "b", "c", "d"), input_shape=shape)
    for new in ([12], [-1, 6], [2, 2, 3], [3, 4], [4, 3, 1], [2, -1]):
        label = "x".join(map(str, new)).replace("-", "m")
        s.case("SparseReshape", f"3x4_{label}", input_indices=indices, input_shape=shape, new_shape=np.array(new, i64))
    none = np.zeros([0, 2], i64)
    s.case("SparseReshape", "none", input_indices=none, input_shape=sizes(0, 3), new_shape=sizes(0, 5, 2))


def joins(s):
    """Sparse tensors one after the other, and the parts of one."""
    for dim in (0, 1, -1):
        for name in ("f32", "i64", "bool"):
            first, second = matrix(ANY[name]), (at([1, 0], [2, 3]), matrix(ANY[name], 2)[1], sizes(3, 4))
            parts = list(zip(first, second, first))
            s.case("SparseConcat", f"{name}_{dim % 2}{'m' * (dim < 0)}", indices=list(parts[0]), values=list(parts[1]), shapes=list(parts[2]), concat_dim=dim)
    first, second = (at([0, 1]), text("a"), sizes(1, 2)), (at([0, 0], [2, 1]), text("b", "c"), sizes(3, 2))
    s.case("SparseConcat", "string", indices=[first[0], second[0]], values=[first[1], second[1]], shapes=[first[2], second[2]], concat_dim=0)
    for dim, count in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (-1, 4)):
        indices, values, shape = matrix(f32)
        s.case("SparseSplit", f"f32_{dim % 2}_{count}{'m' * (dim < 0)}", split_dim=np.array(dim, i64), indices=indices, values=values, shape=shape, num_split=count)
    s.case("SparseSplit", "string", split_dim=np.array(0, i64), indices=second[0], values=second[1], shape=second[2], num_split=2)


def parts(s):
    """Boxes of sparse tensors."""
    for name in NUMBERS:
        indices, values, shape = matrix(ANY[name])
        s.case("SparseSlice", f"{name}_3x4", indices=indices, values=values, shape=shape, start=sizes(0, 1), size=sizes(2, 9))
        grad = rnd(ANY[name], [2], 0, 3)
        s.case("SparseSliceGrad", f"{name}_3x4", backprop_val_grad=grad, input_indices=indices, input_start=sizes(0, 1), output_indices=at([0, 0], [0, 2]))
    indices, values, shape = matrix(f32)
    for label, start, size in (("all", [0, 0], [3, 4]), ("none", [1, 0], [1, 4]), ("beyond", [5, 0], [1, 4]), ("no_size", [0, 0], [0, 4])):
        s.case("SparseSlice", f"f32_{label}", indices=indices, values=values, shape=shape, start=sizes(*start), size=sizes(*size))
    s.case("SparseSlice", "string", indices=indices, values=text("a", "b", "c", "d"), shape=shape, start=sizes(1, 0), size=sizes(2, 2))


def sums(s):
    """Two sparse tensors, entry by entry."""
    for name in ("f32", "f64", "i8", "i32", "i64"):
        a, b = matrix(ANY[name]), (at([0, 3], [1, 1], [2, 2]), matrix(ANY[name], 3)[1], sizes(3, 4))
        given = dict(zip(("a_indices", "a_values", "a_shape", "b_indices", "b_values", "b_shape"), a + b))
        for thresh in (0, 2):
            s.case("SparseAdd", f"{name}_{thresh}", audit=False, **given, thresh=np.array(thresh, ANY[name]))
        union = at([0, 1], [0, 3], [1, 1], [2, 0], [2, 2])
        s.case("SparseAddGrad", f"{name}", backprop_val_grad=rnd(ANY[name], [5], 0, 3), a_indices=a[0], b_indices=b[0], sum_indices=union)
        s.case("SparseAddGrad", f"{name}_less", backprop_val_grad=rnd(ANY[name], [2], 0, 3), a_indices=a[0], b_indices=b[0], sum_indices=union[2:4])
        # Out of order, as a graph's edges are that are sorted by their ends.
        mixed = at([2, 1], [0, 3], [1, 0], [0, 1])
        for label, other in (("", mixed), ("_some", mixed[1:3])):
            s.case("SparseAddGrad", f"{name}_out_of_order{label}", backprop_val_grad=rnd(ANY[name], [4], 0, 3), a_indices=mixed, b_indices=other, sum_indices=mixed)
    for name in NUMBERS:
        a, b = matrix(ANY[name]), (at([0, 3], [1, 1], [2, 2]), matrix(ANY[name], 3)[1], sizes(3, 4))
        given = dict(zip(("a_indices", "a_values", "a_shape", "b_indices", "b_values", "b_shape"), a + b))
        for way in ("Maximum", "Minimum"):
            s.case(f"SparseSparse{way}", name, **given)


def empty_rows(s):
    """Rows without an entry."""
    for name in NUMBERS + ("bool",):
        indices, values, shape = matrix(ANY[name])
        default = rnd(ANY[name], [], 1, 1)
        s.case("SparseFillEmptyRows", f"{name}_3x4", indices=indices, values=values, dense_shape=shape, default_value=default)
        s.case("RaggedFillEmptyRows", f"{name}", value_rowids=at(0, 0, 2, 2), values=values, nrows=np.array(4, i64), default_value=default)
        if name != "bool":
            grad = rnd(ANY[name], [6], 0, 3)
            for op in ("SparseFillEmptyRowsGrad", "RaggedFillEmptyRowsGrad"):
                s.case(op, name, reverse_index_map=at(0, 1, 3, 4), grad_values=grad)
    given = {"dense_shape": sizes(3, 4), "default_value": text("-").reshape([])}
    s.case("SparseFillEmptyRows", "string", indices=at([2, 0], [0, 1], [2, 1]), values=text("a", "b", "c"), **given)
    s.case("SparseFillEmptyRows", "none", indices=np.zeros([0, 2], i64), values=text("a")[:0], **given)
    s.case("SparseFillEmptyRows", "no_rows", indices=np.zeros([0, 2], i64), values=rnd(f32, [0]), dense_shape=sizes(0, 4), default_value=np.array(1, f32))


def reductions(s):
    """Sums, maxima and softmaxes."""
    for name in NUMBERS:
        indices, values, shape = matrix(ANY[name])
        for way in ("Sum", "Max"):
            for axes in ([0], [1], [-1, 0], []):
                for keep in (False, True):
                    label = f"{name}_{'_'.join(str(a % 2) for a in axes)}{'_keep' * keep}"
                    given = {"input_indices": indices, "input_values": values, "input_shape": shape, "reduction_axes": np.array(axes, i32), "keep_dims": keep}
                    s.case(f"SparseReduce{way}", label, **given)
                    s.case(f"SparseReduce{way}Sparse", label, **given)
    cube = at([1, 0, 2], [0, 1, 2], [0, 1, 1], [1, 0, 0], [0, 0, 0])
    for axes in ([0, 2], [1], [-3]):
        label = f"cube_{'_'.join(str(a % 3) for a in axes)}"
        given = {"input_indices": cube, "input_values": rnd(f64, [5]), "input_shape": sizes(2, 2, 3), "reduction_axes": np.array(axes, i32)}
        s.case("SparseReduceSum", label, **given)
        s.case("SparseReduceMaxSparse", label, **given)
    for name in ("f32", "f64", "f16"):
        indices, values, shape = matrix(ANY[name])
        s.case("SparseSoftmax", f"{name}_3x4", sp_indices=indices, sp_values=values, sp_shape=shape)
    s.case("SparseSoftmax", "f32_cube", sp_indices=cube[::-1], sp_values=rnd(f32, [5], -50, 50), sp_shape=sizes(2, 2, 3))


def distances(s):
    """Edit distances of sequences."""
    op = "EditDistance"
    for normalize in (False, True):
        label = "_normalized" * normalize
        words = {"hypothesis_values": text("a", "c", "b", "x"), "truth_values": text("a", "b", "b", "c", "d")}
        first = {"hypothesis_indices": at([0, 0], [0, 1], [0, 2], [2, 0]), "hypothesis_shape": sizes(3, 3)}
        second = {"truth_indices": at([0, 0], [0, 1], [1, 0], [1, 1], [1, 2]), "truth_shape": sizes(2, 3)}
        s.case(op, f"string{label}", **first, **second, **words, normalize=normalize)
        for name in ("f32", "i32", "i64", "u8", "bool"):
            values = {"hypothesis_values": rnd(ANY[name], [4], 0, 2), "truth_values": rnd(ANY[name], [5], 0, 2)}
            s.case(op, f"{name}{label}", audit=False, **first, **second, **values, normalize=normalize)
        none = {"hypothesis_indices": np.zeros([0, 3], i64), "hypothesis_values": rnd(i32, [0]), "hypothesis_shape": sizes(2, 1, 2)}
        cube = {"truth_indices": at([0, 0, 0], [1, 0, 0], [1, 0, 1]), "truth_values": rnd(i32, [3]), "truth_shape": sizes(2, 2, 2)}
        s.case(op, f"i32_cube{label}", **none, **cube, normalize=normalize)


def counts(s):
    """Occurrences of numbers."""
    numbers = rnd(i64, [6], 0, 4)
    sparse = {"indices": at([0, 1], [0, 2], [2, 0], [2, 1], [2, 3], [3, 0]), "values": numbers, "dense_shape": sizes(5, 4)}
    ragged = {"splits": at(0, 2, 2, 6), "values": numbers}
    for name in ("i32", "i64", "f32", "f64"):
        none, weights = rnd(ANY[name], [0]), rnd(ANY[name], [6], 1, 3)
        for label, given in (("", {"weights": none}), ("_weights", {"weights": weights})):
            for binary in (False, True):
                way = f"{name}{label}{'_binary' * binary}"
                s.case("DenseCountSparseOutput", way, values=numbers, **given, binary_output=binary)
                s.case("SparseCountSparseOutput", way, **sparse, **given, binary_output=binary)
                s.case("RaggedCountSparseOutput", way, **ragged, **given, binary_output=binary)
                s.case("SparseBincount", way, **sparse, size=np.array(4, i64), **given, binary_output=binary)
                s.case("RaggedBincount", way, **ragged, size=np.array(4, i64), **given, binary_output=binary)
    none = {"weights": rnd(f32, [0]), "binary_output": False}
    for label, limits in (("least", {"minlength": 9}), ("most", {"maxlength": 3}), ("both", {"minlength": 9, "maxlength": 3})):
        s.case("DenseCountSparseOutput", label, values=rnd(i32, [2, 3], 0, 4), **none, **limits)
        s.case("SparseCountSparseOutput", label, **sparse, **none, **limits)
        s.case("RaggedCountSparseOutput", label, **ragged, **none, **limits)
    s.case("DenseCountSparseOutput", "none", values=np.zeros([2, 0], i64), **none)
    line = {"indices": at([0], [3], [4]), "values": ivec(1, 4, 1), "dense_shape": sizes(5)}
    s.case("SparseCountSparseOutput", "vector", **line, **none)
    s.case("SparseBincount", "vector", **line, size=np.array(5, i32), **none)


def crosses(s):
    """Combinations of the features of each row."""
    indices = at([0, 0], [0, 1], [1, 0], [3, 0])
    words, numbers = text("a", "bc", "d", "e"), np.array([7, -3, 2**40, 0], i64)
    dense_words, dense_numbers = np.array([["x", "y"], ["z", ""], ["u", "v"], ["w", "w"]], object), np.arange(8, dtype=i64).reshape(4, 2)
    shape = sizes(4, 2)
    for label, values, dense in (
        ("one", [words], []),
        ("words", [words, words], [dense_words]),
        ("numbers", [numbers, numbers], [dense_numbers]),
        ("mixed", [words, numbers], [dense_numbers, dense_words]),
        ("dense", [], [dense_words, dense_numbers]),
        ("nothing", [], []),
    ):
        lists = {"indices": [indices] * len(values), "values": values, "shapes": [shape] * len(values), "dense_inputs": dense}
        s.case("SparseCrossV2", label, sep=np.array(b"-", object), **lists)
        for buckets in (0, 100):
            salt = np.array([137, 12], i64)
            s.case("SparseCrossHashed", f"{label}_{buckets}", num_buckets=np.array(buckets, i64), strong_hash=np.array(False), salt=salt, **lists)
            if label in ("one", "words"):
                s.case("SparseCrossHashed", f"{label}_{buckets}_strong", num_buckets=np.array(buckets, i64), strong_hash=np.array(True), salt=salt, **lists)
            hashed = {"hashed_output": True, "num_buckets": buckets, "hash_key": 956888297470, "out_type": tf.int64}
            s.case("SparseCross", f"{label}_{buckets}", internal_type=tf.int64, **hashed, **lists)
        named = {"hashed_output": False, "num_buckets": 0, "hash_key": 0, "out_type": tf.string}
        kind = tf.string if label in ("one", "words") else tf.int64
        s.case("SparseCross", f"{label}_named", internal_type=kind, **named, **lists)


def ragged_crosses(s):
    """Combinations of the features of ragged, sparse and dense columns, in any order."""
    splits = np.array([0, 2, 2, 3, 4], i64)
    words, numbers = text("a", "bc", "d", "e"), np.array([7, -3, 2**40, 0], i64)
    indices, shape = at([0, 0], [0, 1], [1, 0], [3, 0]), sizes(4, 2)
    dense_words = np.array([["x", "y"], ["z", ""], ["u", "v"], ["w", "w"]], object)
    dense_numbers = np.arange(8, dtype=i64).reshape(4, 2)
    none = {"ragged_values": [], "sparse_values": [], "dense_inputs": []}
    for label, order, columns in (
        ("words", "RR", {"ragged_values": [words, words]}),
        ("one", "R", {"ragged_values": [numbers]}),
        ("mixed", "DRSR", {"ragged_values": [numbers, words], "sparse_values": [words], "dense_inputs": [dense_numbers]}),
        ("sparse_first", "SDSRD", {"ragged_values": [words], "sparse_values": [numbers, words], "dense_inputs": [dense_words, dense_numbers]}),
        ("dense", "DD", {"dense_inputs": [dense_words, dense_numbers]}),
        ("nothing", "", {}),
    ):
        columns = none | columns
        sparse, ragged = len(columns["sparse_values"]), len(columns["ragged_values"])
        for splits_type, dtype in (("i32", i32), ("i64", i64)):
            lists = columns | {
                "ragged_row_splits": [splits.astype(dtype)] * ragged,
                "sparse_indices": [indices] * sparse,
                "sparse_shape": [shape] * sparse,
                "input_order": order,
                "out_row_splits_type": tf.as_dtype(dtype),
            }
            s.case("RaggedCross", f"{label}_{splits_type}_named", hashed_output=False, num_buckets=0, hash_key=0, out_values_type=tf.string, **lists)
            for buckets, key in ((0, 956888297470), (100, 0)):
                s.case("RaggedCross", f"{label}_{splits_type}_{buckets}", hashed_output=True, num_buckets=buckets, hash_key=key, out_values_type=tf.int64, **lists)
