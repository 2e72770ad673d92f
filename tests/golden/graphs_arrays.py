"""Golden graphs: many ops on arrays whose shapes are known only when they run, and their gradients."""

import numpy as np

from graphs_parts import floats
from graphs_record import golden
from reference import i32, tf, v1


def inputs():
    """A tensor of three dimensions, two unknown, and numbers."""
    return v1.placeholder(tf.float32, [None, None, 4], name="x"), v1.placeholder(tf.int32, [None], name="n")


def run(g, x, n, tensors):
    """Fetches all, twenty a step, and the gradient of the sum of all floats, for two shapes."""
    slope = tf.gradients([t for t in tensors if t.dtype == tf.float32], x)[0]
    for dims, numbers in (([2, 3, 4], [2, 4, 2, 0]), ([2, 2, 4], [1, 5, 1])):
        feeds = {x: floats(f"arrays {dims}", dims), n: np.array(numbers, i32)}
        for start in range(0, len(tensors), 20):
            g.step(*tensors[start : start + 20], feeds=feeds)
        g.step(slope, feeds=feeds)


@golden("arrays_shapes")
def shapes(g):
    """Shapes, cuts, joins, moves."""
    x, n = inputs()
    row = x[0, 0]
    tensors = [
        tf.shape(x),
        tf.size(x),
        tf.rank(x),
        tf.shape(x, tf.int64),
        *v1.shape_n([x, row]),
        tf.transpose(x, [2, 0, 1]),
        tf.reshape(x, [-1, 2]),
        tf.expand_dims(x, -1),
        tf.squeeze(x[:1], [0]),
        x[:, ::-1, 1:3],
        x[..., tf.newaxis, -1],
        x[-1, :-1],
        x[0, n[0] // 3 :],
        tf.slice(x, [0, 1, 0], [-1, 1, 3]),
        tf.concat([x, -x], 1),
        tf.stack([row, -row], 1),
        *tf.unstack(row),
        *tf.split(x, [1, 3], 2),
        *tf.split(x, 2, 2),
        tf.tile(row, [2]),
        tf.pad(row, [[1, 2]], constant_values=3),
        tf.pad(row, [[1, 2]], "REFLECT"),
        tf.pad(row, [[2, 1]], "SYMMETRIC"),
        tf.reverse(x, [0, 2]),
        tf.reverse_sequence(x, tf.constant([1, 2]), 1, 0),
        tf.roll(row, 1, 0),
        tf.broadcast_to(row, [2, 4]),
        tf.meshgrid(n, n)[0],
        v1.space_to_depth(tf.reshape(row, [1, 2, 2, 1]), 2),
        v1.depth_to_space(tf.reshape(row, [1, 1, 1, 4]), 2),
        tf.identity_n([row, n])[1],
        tf.stop_gradient(row),
        tf.ones_like(n),
        v1.placeholder_with_default(row, [4]),
        tf.repeat(row, 2),
        tf.linalg.diag(row),
        tf.linalg.diag_part(tf.matmul(x[0], x[0], transpose_a=True)),
        tf.linalg.band_part(x, 0, 1),
        tf.eye(3),
        tf.bitcast(row, tf.int32),
    ]
    run(g, x, n, tensors)


@golden("arrays_choices")
def choices(g):
    """Ops that select, count, sort or distribute by indices."""
    x, n = inputs()
    row = x[0, 0]
    low, high = tf.dynamic_partition(row, tf.cast(row > 0.0, tf.int32), 2)
    tensors = [
        tf.gather(x, [1, 0, 3], axis=2),
        tf.gather(x, [[0], [2]], axis=2, batch_dims=1),
        tf.gather_nd(x, [[0, 1], [1, 0]]),
        tf.gather_nd(x, [[0, 1, 3]]),
        tf.where(x > 0.0, x, tf.zeros_like(x)),
        v1.where(row > 0.0, row, -row),
        v1.where(row > 0.0),
        tf.boolean_mask(row, row > 0.0),
        tf.one_hot(n, 5),
        tf.one_hot(n, 3, True, False),
        *tf.nn.top_k(x, 2),
        *tf.nn.top_k(x, 3, sorted=True),
        tf.math.in_top_k(tf.constant([0, 1]), x[0, :2], 2),
        tf.argsort(row),
        tf.sort(row, direction="DESCENDING"),
        tf.argmax(x, 2),
        tf.argmin(x, 1, tf.int32),
        low,
        high,
        tf.dynamic_stitch([[0, 2], [1, 3]], [row[:2], row[2:]]),
        *tf.unique_with_counts(n),
        *v1.setdiff1d(n, [2, 4]),
        tf.range(n[0], 10, 2),
        tf.range(0.0, 1.0, 0.25),
        tf.linspace(0.0, 1.0, 5),
        tf.fill([2, 2], n[0]),
        tf.scatter_nd([[1], [3], [1]], row[:3], [5]),
        tf.tensor_scatter_nd_add(row, [[1], [1]], row[:2]),
        tf.math.segment_sum(x, tf.constant([0, 0])),
        tf.math.segment_mean(x, tf.constant([0, 1])),
        tf.math.segment_max(x, tf.constant([0, 0])),
        tf.math.unsorted_segment_sum(x, tf.constant([2, 0]), 3),
        tf.math.unsorted_segment_max(row, [0, 0, 2, 2], 3),
        tf.math.bincount(n, minlength=6),
        tf.math.invert_permutation([2, 0, 1]),
        tf.sequence_mask(n, 5),
        tf.searchsorted(tf.sort(row), [0.0, 0.3]),
        tf.math.count_nonzero(x > 0.0),
    ]
    run(g, x, n, tensors)


@golden("arrays_numbers", absolute=1e-4)
def numbers(g):
    """Reductions, products, and functions of each element."""
    x, n = inputs()
    row = x[0, 0]
    tensors = [
        tf.reduce_prod(x, [0, 2]),
        tf.reduce_max(x, 1, keepdims=True),
        tf.reduce_min(x),
        tf.reduce_logsumexp(x, 2),
        tf.math.reduce_std(x),
        tf.reduce_any(x > 0.9),
        tf.reduce_all(x > -0.9, 2),
        *tf.nn.moments(x, [0, 1]),
        tf.cumsum(x, 1),
        tf.cumsum(row, exclusive=True, reverse=True),
        tf.math.cumprod(row),
        tf.einsum("aib,ajb->aij", x, x),
        tf.tensordot(x, row, 1),
        tf.matmul(x, x, transpose_b=True),
        tf.nn.l2_normalize(x, 2),
        tf.nn.softmax(x, 1),
        tf.nn.log_softmax(x),
        tf.clip_by_value(x, -0.5, 0.5),
        tf.add_n([row, row, -row]),
        tf.math.floormod(n, 3),
        tf.math.truediv(n, 3),
        tf.math.squared_difference(x, row),
        tf.math.divide_no_nan(x, tf.nn.relu(row)),
        tf.cast(x * 3.0, tf.int32),
        tf.math.is_nan(x / (x - row)),
        tf.math.is_finite(row / 0.0),
        tf.round(x * 4.0),
        tf.math.rint(x * 4.0),
        tf.math.ceil(x),
        tf.sign(x),
        tf.math.rsqrt(x * x + 1.0),
        tf.math.reciprocal(x + 3.0),
        tf.math.log1p(tf.abs(x)),
        tf.math.expm1(x),
        tf.math.erf(x),
        tf.math.lgamma(x + 3.0),
        tf.math.atan2(x, row + 2.0),
        tf.math.asin(x),
        tf.math.tan(x),
        tf.math.sinh(x),
        tf.nn.relu6(x * 9.0),
        tf.nn.selu(x),
        tf.nn.softsign(x),
        tf.maximum(x, row),
        tf.pow(tf.abs(x) + 0.1, row),
    ]
    run(g, x, n, tensors)
