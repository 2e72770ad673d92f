"""Golden graphs: the effects that run in branches and loops of which some outputs are fetched; branches that are not taken."""

from reference import f32, tf, v1  # isort: skip

import numpy as np

from graphs_record import golden


def counters():
    """Two variables that count."""
    return [v1.get_variable(name, initializer=0, use_resource=True) for name in ("a", "b")]


@golden("pruned_branches", flow="v2")
def pruned_branches(g):
    """An output that nothing reads runs nothing in a branch, and needs no input of it."""
    a, b = counters()
    p = v1.placeholder(tf.bool, [], name="p")
    index = v1.placeholder(tf.int32, [], name="index")
    unfed = v1.placeholder(tf.int32, [], name="unfed")

    def count():
        return [v1.assign_add(a, 1), v1.assign_add(b, 2)]

    def constants():
        return [tf.constant(3), tf.constant(10)]

    def unconnected():
        v1.assign_add(a, 100)
        return tf.constant(2)

    branch = tf.cond(p, count, constants)
    case = v1.switch_case(index, [count, constants])
    nested = tf.cond(p, lambda: tf.cond(index < 1, count, constants), constants)
    inner_unused = tf.cond(p, lambda: tf.cond(index < 1, count, constants)[1], lambda: tf.constant(3))
    outer = [v1.assign_add(a, 1) + 0, v1.assign_add(b, 2) + 0]
    from_outside = tf.cond(p, lambda: [outer[0] + 1, outer[1] + 1], constants)
    with tf.control_dependencies([branch[0]]):
        after = tf.identity(unfed)
    g.init_variables()
    feeds = {p: True, index: 0}
    for fetched in (branch[0], branch[1], case[1], nested[0], inner_unused, from_outside[1]):
        g.step(fetched, feeds=feeds)
        g.step(a, b)
    g.step(from_outside[0], feeds={p: False})
    g.step(tf.cond(p, unconnected, lambda: tf.constant(3)), feeds={p: True})
    g.step(tf.cond(p, lambda: [unfed, index], constants)[1], feeds={p: True, index: 5})
    g.step(after, feeds={p: True, unfed: 1})
    g.step(run=branch[1].op, feeds={p: True})
    g.step(a, b)


@golden("pruned_loops", flow="v2")
def pruned_loops(g):
    """A loop keeps the values that its condition and the fetched outputs depend on."""
    a, b = counters()
    n = v1.placeholder(tf.int32, [], name="n")

    def counting(i, x, y):
        # Each update waits for the one of the iteration before.
        return [i + 1, v1.assign_add(a, 1 + 0 * x), v1.assign_add(b, 2 + 0 * y)]

    def shifting(i, x, y, z):
        # Each value comes from the one before it.
        return [i + 1, v1.assign_add(a, i + 0 * x), x + y, y + z]

    def unconnected(i, x):
        v1.assign_add(a, 100)
        return i + 1, x + 1

    starts = [v1.assign_add(a, 10) + 0, v1.assign_add(b, 20) + 0]
    counted = tf.while_loop(lambda i, x, y: i < n, counting, [0, 0, 0])
    shifted = tf.while_loop(lambda i, *_: i < n, shifting, [0, 1, 2, 3])
    started = tf.while_loop(lambda i, x, y: i < n, lambda i, x, y: [i + 1, x + 1, y + 2], [0, *starts])
    lonely = tf.while_loop(lambda i, x: i < n, unconnected, [0, 0])
    g.init_variables()
    for fetched in (counted[0], counted[1], counted[2], shifted[1], shifted[2], shifted[3], started[2], lonely[1]):
        g.step(fetched, feeds={n: 3})
        g.step(a, b)


@golden("untaken_branches")
def untaken_branches(g):
    """An op that does not fit the fed shapes fails only in a branch that is taken."""
    x = v1.placeholder(tf.float32, name="x")
    labels, predictions = v1.placeholder(tf.int64, name="labels"), v1.placeholder(tf.int64, name="predictions")
    v = v1.get_variable("v", initializer=np.zeros([2], f32), use_resource=False)
    rank, size = tf.rank(x), tf.size(x)
    squeezed = tf.cond(tf.equal(rank, 2), lambda: tf.squeeze(x, [-1]), lambda: x)
    reshaped = tf.cond(tf.equal(size, 4), lambda: tf.reduce_sum(tf.reshape(x, [2, 2])), lambda: tf.reduce_sum(x))
    added = tf.cond(tf.equal(size, 2), lambda: tf.reduce_sum(x + tf.constant([1.0, 2.0])), lambda: tf.reduce_sum(x))
    product = tf.cond(tf.equal(rank, 2), lambda: tf.matmul(tf.matmul(x, x), x), lambda: x * 2.0)
    assigned = tf.cond(tf.equal(size, 2), lambda: v1.assign(v, x), lambda: v1.assign_add(v, [1.0, 1.0]))
    slope = tf.gradients(product, x)[0]
    forced = [
        tf.cond(tf.reduce_sum(x) > 0, lambda: tf.squeeze(x, [-1]), lambda: x),
        tf.cond(tf.reduce_sum(x) > 0, lambda: tf.matmul(x, x), lambda: x),
    ]
    matrix = v1.math.confusion_matrix(labels, predictions, num_classes=2)
    _, accuracy = v1.metrics.accuracy(labels, predictions)
    weights = v1.placeholder(tf.float32, name="weights")
    mse = v1.losses.mean_squared_error(x, x * 2.0, weights=weights)
    _, mean = v1.metrics.mean(x, weights=weights)
    g.init_variables()
    g.step(run=v1.local_variables_initializer())
    three, four = np.array([1, 2, 3], f32), np.array([[1, 2], [3, 4]], f32)
    two = np.array([5, 6], f32)
    for feed in (three, four, two):
        g.step(reshaped, feeds={x: feed})
    for feed in (three, two):
        g.step(squeezed, product, slope, feeds={x: feed})
    g.step(added, assigned, feeds={x: two})
    g.step(added, assigned, feeds={x: three})
    g.step(product, slope, feeds={x: four})
    g.step(squeezed, feeds={x: four[:, :1]})
    for output in forced:
        g.step(output, feeds={x: three}, fails=True)
        g.step(output, feeds={x: -three})
    pairs = {labels: np.array([0, 1]), predictions: np.array([1, 1])}
    g.step(matrix, accuracy, feeds=pairs)
    g.step(matrix, accuracy, feeds={labels: np.array([[0], [1]]), predictions: np.array([1, 1])})
    for given in (np.array([1, 0, 2], f32), np.array(0.5, f32)):
        g.step(mse, mean, feeds={x: three, weights: given})
    g.step(mse, feeds={x: four, weights: np.array([[1], [3]], f32)})
    g.step(mse, feeds={x: three, weights: two}, fails=True)
