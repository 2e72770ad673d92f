"""Golden graphs of maps of tensors and of sparse matrices in compressed rows."""

import numpy as np

from graphs_parts import floats
from graphs_record import golden
from reference import raw, tf, v1


@golden("tensor_maps")
def tensor_maps(g):
    """Entries that are inserted, replaced, looked up, erased, counted and added, by keys of several dtypes and shapes."""
    x = v1.placeholder(tf.float32, [2], name="x")
    key = v1.placeholder(tf.int64, [], name="key")
    empty = raw.EmptyTensorMap()
    put = lambda m, k, v: raw.TensorMapInsert(input_handle=m, key=k, value=v)
    look = lambda m, k, dtype: raw.TensorMapLookup(input_handle=m, key=k, value_dtype=dtype)
    size = lambda m: raw.TensorMapSize(input_handle=m)
    has = lambda m, k: raw.TensorMapHasKey(input_handle=m, key=k)
    seven = tf.constant(7, tf.int64)
    one = put(empty, key, x)
    two = put(one, seven, x * 2.0)
    g.step(size(empty), size(one), size(two), look(two, key, tf.float32), look(two, seven, tf.float32), feeds={x: [1, 2], key: 3})
    # The same key again: one entry, with the later value.
    g.step(size(two), look(two, key, tf.float32), has(empty, key), has(two, key), feeds={x: [1, 2], key: 7})
    mixed = put(put(put(two, "word", "value"), x, key), tf.constant([[7]], tf.int64), x)
    found = [look(mixed, "word", tf.string), look(mixed, x, tf.int64), has(mixed, tf.constant([7], tf.int64))]
    g.step(size(mixed), *found, feeds={x: [1, 2], key: 3})
    erased = raw.TensorMapErase(input_handle=two, key=key, value_dtype=tf.float32)
    g.step(size(erased), has(erased, key), has(erased, seven), feeds={x: [1, 2], key: 3})
    g.step(raw.TensorMapStackKeys(input_handle=erased, key_dtype=tf.int64), feeds={x: [1, 2], key: 3})
    both = tf.raw_ops.AddN(inputs=[two, one, put(empty, tf.constant(5, tf.int64), x)])
    sums = [look(both, key, tf.float32), look(both, seven, tf.float32), size(both), size(tf.zeros_like(two))]
    g.step(*sums, feeds={x: [1, 2], key: 3})
    lost = [
        look(empty, key, tf.float32),
        look(two, tf.constant(7, tf.int32), tf.float32),
        size(raw.TensorMapErase(input_handle=empty, key=key, value_dtype=tf.float32)),
        raw.TensorMapStackKeys(input_handle=empty, key_dtype=tf.int64),
        raw.TensorMapStackKeys(input_handle=two, key_dtype=tf.int32),
        raw.TensorMapStackKeys(input_handle=mixed, key_dtype=tf.int64),
        size(raw.EmptyTensorList(element_shape=[2], max_num_elements=1, element_dtype=tf.float32)),
    ]
    for result in lost:
        g.step(result, feeds={x: [1, 2], key: 3}, fails=True)


def matrix(name, dims, dtype):
    """A dense tensor with zeros in it."""
    x = floats(name, dims)
    if dtype.is_complex:
        x = x + 1j * floats(name + " imaginary", dims)
    return np.where(floats(name + " mask", dims) > 0, x, 0).astype(dtype.as_numpy_dtype)


def csr(dense):
    """A dense tensor as a sparse matrix."""
    return raw.DenseToCSRSparseMatrix(dense_input=dense, indices=tf.where(tf.not_equal(dense, 0)))


def fed(name, dims, dtype):
    """A dense tensor with zeros in it, and its feed: of complex numbers, the two parts."""
    value = matrix(name, dims, dtype)
    if not dtype.is_complex:
        x = v1.placeholder(dtype, dims, name=f"x_{dtype.name}_{len(dims)}")
        return x, {x: value}
    parts = v1.placeholder(dtype.real_dtype, [2, *dims], name=f"x_{dtype.name}_{len(dims)}")
    return tf.complex(parts[0], parts[1]), {parts: np.stack([value.real, value.imag])}


def plain(tensors):
    """Tensors without complex numbers: the parts of these."""
    return [tf.stack([tf.math.real(t), tf.math.imag(t)]) if t.dtype.is_complex else t for t in tensors]


TYPES = (tf.float32, tf.float64, tf.complex64, tf.complex128)


@golden("sparse_matrices")
def sparse_matrices(g):
    """Sparse matrices of sparse and dense tensors, their parts, and products with dense matrices."""
    for dtype in TYPES:
        for dims in ([4, 5], [3, 2, 4]):
            x, given = fed(f"{dtype.name} {len(dims)}", dims, dtype)
            a = csr(x)
            parts = raw.CSRSparseMatrixToSparseTensor(sparse_matrix=a, type=dtype)
            again = raw.SparseTensorToCSRSparseMatrix(indices=parts.indices, values=parts.values, dense_shape=parts.dense_shape)
            dense = lambda m: raw.CSRSparseMatrixToDense(sparse_input=m, type=dtype)
            arrays = raw.CSRSparseMatrixComponents(csr_sparse_matrix=again, index=len(dims) - 2, type=dtype)
            counts = raw.SparseMatrixNNZ(sparse_matrix=again)
            g.step(*plain([*parts, *arrays, counts, dense(again)]), feeds=given)
            turned = [raw.SparseMatrixTranspose(input=a, type=dtype, conjugate=c) for c in (False, True)]
            g.step(*plain([dense(t) for t in turned]), raw.SparseMatrixNNZ(sparse_matrix=turned[0]), feeds=given)
            g.step(*plain([dense(raw.Conj(input=a))]), feeds=given)
            if dtype in (tf.float32, tf.complex128):
                products(g, a, x, dtype, given)


WAYS = (({}, {}), ({"transpose_a": True}, {"transpose_b": True}), ({"adjoint_a": True}, {"adjoint_b": True}))


def products(g, a, x, dtype, given):
    """Products of a matrix with a dense one and with another sparse one, transposed in all ways."""
    fetched = []
    outs = ({}, {"transpose_output": True}, {"conjugate_output": True})
    for (of_a, _), ways in zip(WAYS, (outs, outs[::-1], outs[1:] + outs[:1])):
        for (_, of_b), out in zip(WAYS, ways):
            inner = x.shape[-2] if of_a else x.shape[-1]
            dims = [*x.shape[:-2], 3, inner] if of_b else [*x.shape[:-2], inner, 3]
            b = tf.constant(matrix(f"b {len(of_a)} {len(of_b)} {dims}", dims, dtype))
            fetched.append(raw.SparseMatrixMatMul(a=a, b=b, **of_a, **of_b, **out))
            c = raw.SparseMatrixSparseMatMul(a=a, b=csr(b), type=dtype, **of_a, **of_b)
            fetched += raw.CSRSparseMatrixToSparseTensor(sparse_matrix=c, type=dtype)[:2]
    g.step(*plain(fetched), feeds=given)


@golden("sparse_matrix_faults")
def sparse_matrix_faults(g):
    """Places outside of the shape, shapes that do not fit, and other dtypes."""
    at = v1.placeholder(tf.int64, [1, 2], name="at")
    shape = v1.placeholder(tf.int64, [None], name="shape")
    index = v1.placeholder(tf.int32, [], name="index")
    a = raw.SparseTensorToCSRSparseMatrix(indices=at, values=[2.0], dense_shape=shape)
    dense = raw.CSRSparseMatrixToDense(sparse_input=a, type=tf.float32)
    wide = raw.SparseMatrixMatMul(a=a, b=tf.ones([3, 2]))
    arrays = raw.CSRSparseMatrixComponents(csr_sparse_matrix=a, index=index, type=tf.float32)
    fits = {at: [[1, 2]], shape: [2, 3]}
    g.step(dense, wide, feeds=fits)
    g.step(dense, feeds={at: [[1, 2]], shape: [2, 3, 4]}, fails=True)
    g.step(dense, feeds={at: [[1, 2]], shape: [2]}, fails=True)
    g.step(wide, feeds={at: [[1, 2]], shape: [2, 4]}, fails=True)
    g.step(arrays.values, feeds={**fits, index: 0})
    for wrong in (1, -1):
        g.step(arrays.values, feeds={**fits, index: wrong}, fails=True)
    g.step(raw.CSRSparseMatrixToDense(sparse_input=a, type=tf.float64), feeds=fits, fails=True)


@golden("sliced_ragged_gradients")
def sliced_ragged_gradients(g):
    """The gradient of the rows of a ragged tensor, of which a slice alone decides the result."""
    x = v1.placeholder(tf.float32, [5, 2], name="x")
    rows = raw.RaggedTensorToVariant(
        rt_nested_splits=[tf.constant([0, 2, 2, 4, 5], tf.int64)], rt_dense_values=x, batched_input=True
    )
    for taken in (rows[1:3], rows[2:], rows[::-2], rows[:1]):
        back = raw.RaggedTensorFromVariant(
            encoded_ragged=taken, input_ragged_rank=0, output_ragged_rank=1, Tvalues=tf.float32, Tsplits=tf.int64
        )
        y = tf.reduce_sum(back.output_dense_values * back.output_dense_values)
        g.step(y, *tf.gradients(y, x), feeds={x: floats("sliced ragged", [5, 2])})
