"""Golden graphs: accumulators of sparse gradients, maps of sparse tensors, variants of ragged tensors."""

import numpy as np

from graphs_parts import floats
from graphs_record import golden
from reference import i64, raw, tf, v1


def ints(values):
    """An i64 array."""
    return np.array(values, i64)


@golden("accumulators_sparse")
def accumulators(g):
    """Rows of gradients are added by their numbers; the mean of a row is over the gradients that have it."""
    step = v1.placeholder(tf.int64, [], name="step")
    indices = v1.placeholder(tf.int64, [None], name="indices")
    x = v1.placeholder(tf.float32, [None, 2], name="x")
    mean = v1.SparseConditionalAccumulator(tf.float32, [5, 2], shared_name="mean", name="mean")
    total = v1.SparseConditionalAccumulator(tf.float32, reduction_type="SUM", name="total")
    both = (mean, total)
    applied = [a.apply_grad(indices, x, [5, 2], local_step=step) for a in both]
    counts = [a.num_accumulated() for a in both]
    taken = [part for a in both for part in a.take_grad(1)]
    moved = [a.set_global_step(step) for a in both]

    def apply(name, at, *rows, fails=False):
        feeds = {x: floats(name, [len(rows), 2]), indices: ints(rows), step: ints(at)}
        g.step(feeds=feeds, run=applied, fails=fails)

    apply("first", 0, 0, 3)
    apply("second", 0, 1, 3, 4)
    g.step(*counts)
    g.step(*taken)
    g.step(*counts)
    # After a take the accumulator is at step 1: a gradient of step 0 is dropped.
    apply("late", 0, 2)
    g.step(*counts)
    apply("third", 1, 2)
    apply("fourth", 1)
    apply("fifth", 1, 0, 2)
    g.step(*taken)
    g.step(feeds={step: ints(9)}, run=moved)
    apply("stale", 8, 1)
    g.step(*counts)
    apply("sixth", 9, 4)
    g.step(*taken)


@golden("sparse_tensors_map")
def tensors_map(g):
    """Sparse tensors are kept by numbers, one or the rows of one, and come back stacked."""
    whole = raw.AddSparseToTensorsMap(
        sparse_indices=ints([[0, 1], [2, 0]]), sparse_values=floats("whole", [2]), sparse_shape=ints([3, 2]), shared_name="map"
    )
    rows = raw.AddManySparseToTensorsMap(
        sparse_indices=ints([[0, 1, 0], [1, 0, 1], [2, 1, 0]]), sparse_values=floats("rows", [3]), sparse_shape=ints([3, 2, 4]), shared_name="map"
    )
    handles = v1.placeholder(tf.int64, [None], name="handles")
    taken = raw.TakeManySparseFromTensorsMap(sparse_handles=handles, dtype=tf.float32, shared_name="map")
    g.step(whole)
    g.step(rows)
    g.step(whole)
    g.step(*taken, feeds={handles: ints([4, 0, 3])})
    g.step(*taken, feeds={handles: ints([0])}, fails=True)
    g.step(*taken, feeds={handles: ints([1, 2])})


@golden("ragged_variant_gradient")
def variant_gradient(g):
    """The gradient of the values of rows that are variants."""
    values = v1.placeholder(tf.float32, [None], name="values")
    splits = ints([0, 2, 2, 3])
    rows = raw.RaggedTensorToVariant(rt_nested_splits=[splits], rt_dense_values=values, batched_input=True)
    back = raw.RaggedTensorToVariantGradient(
        encoded_ragged_grad=rows, row_splits=splits, dense_values_shape=tf.shape(values), Tvalues=tf.float32
    )
    g.step(back, feeds={values: floats("values", [3])})
