"""Golden graphs: loops of both versions of control flow, nested, with invariants, gradients and updates."""

from graphs_parts import floats, variable
from graphs_record import golden
from reference import i32, raw, tf, v1


def nested(g):
    """Loops in loops: how often the inner one runs depends on the outer; gradients through both."""
    n = v1.placeholder(tf.int32, [], name="n")
    x = v1.placeholder(tf.float32, [2, 2], name="x")
    weight = variable("weight", [2, 2], "resource")

    def outer(i, total):
        def inner(j, value):
            return j + 1, tf.tanh(tf.matmul(value, weight)) + x

        _, value = tf.while_loop(lambda j, _: j < i, inner, (0, total), parallel_iterations=2)
        return i + 1, value + 0.1

    steps, total = tf.while_loop(lambda i, _: i < n, outer, (0, x), parallel_iterations=3)
    gradients = tf.gradients(total, [x, weight])
    second = tf.gradients(tf.reduce_sum(tf.square(gradients[0])), [x])[0] if second_order() else None
    g.init_variables()
    for count in (0, 1, 3, 5):
        feeds = {n: i32(count), x: floats("nested loops", [2, 2])}
        g.step(steps, total, *gradients, feeds=feeds)
        if second is not None:
            g.step(second, feeds=feeds)


def second_order():
    """Loops of the first version have no second gradients."""
    return v1.control_flow_v2_enabled()


golden("while_nested_v1")(nested)
golden("while_nested_v2", flow="v2")(nested)


def loops(g):
    """Shapes that grow, several variables of a loop, branches in it, one that never runs, Collatz."""
    n = v1.placeholder(tf.int32, [], name="n")
    x = v1.placeholder(tf.float32, [1, 2], name="x")
    _, grown = tf.while_loop(
        lambda i, v: i < n,
        lambda i, v: (i + 1, tf.concat([v, x * tf.cast(i, tf.float32)], 0)),
        (0, x),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 2])),
    )
    number, rounds = tf.while_loop(
        lambda v, _: v > 1,
        lambda v, i: (tf.cond(tf.equal(v % 2, 0), lambda: v // 2, lambda: 3 * v + 1), i + 1),
        (n, 0),
    )
    swapped = tf.while_loop(lambda i, *_: i < n, lambda i, a, b: (i + 1, b, a), (0, x, -x))
    limited = tf.while_loop(lambda i: True, lambda i: (i * 2,), (n + 1,), maximum_iterations=4)[0]
    array = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[2], clear_after_read=False)

    def written(i, array):
        return i + 1, array.write(i, x[0] + tf.cast(i, tf.float32))

    _, array = tf.while_loop(lambda i, _: i < n, written, (0, array))
    stacked = array.stack()
    slope = tf.gradients(tf.reduce_sum(stacked * stacked) + tf.reduce_sum(grown), x)[0]
    for count in (6, 1, 0):
        feeds = {n: i32(count), x: floats("loops", [1, 2])}
        g.step(grown, number, rounds, *swapped, limited, feeds=feeds)
        g.step(stacked, array.size(), slope, feeds=feeds)


golden("while_v1")(loops)
golden("while_v2", flow="v2")(loops)


def updates(g):
    """A loop updates a variable; control edges separate the reads before and after."""
    n = v1.placeholder(tf.int32, [], name="n")
    total = variable("total", [], "resource", v1.zeros_initializer())

    def body(i, last):
        with tf.control_dependencies([total.assign_add(tf.cast(i, tf.float32))]):
            return i + 1, total.read_value()

    _, last = tf.while_loop(lambda i, _: i < n, body, (0, -1.0), parallel_iterations=1)
    g.init_variables()
    for count in (4, 0, 2):
        g.step(last, feeds={n: i32(count)})
        g.step(total)


golden("while_updates_v1")(updates)
golden("while_updates_v2", flow="v2")(updates)


@golden("while_raw")
def by_hand(g):
    """A loop from Enter, Merge, LoopCond, Switch, NextIteration and Exit, and one of a reference."""
    n = v1.placeholder(tf.int32, [], name="n")
    old = variable("old", [], "ref", v1.zeros_initializer())
    frame = {"frame_name": "by_hand", "parallel_iterations": 2}
    # The loop's edge goes back, so the merge is made with the start twice and mended in the file.
    with tf.Graph().as_default() as aside:
        v1.placeholder(tf.int32, [], name="n")
        start = raw.Enter(data=tf.constant(0), name="start", **frame)
        bound = raw.Enter(data=aside.get_tensor_by_name("n:0"), is_constant=True, name="bound", **frame)
        merge = raw.Merge(inputs=[start, start], name="merge")
        go = raw.LoopCond(input=tf.less(merge.output, bound), name="go")
        switch = raw.Switch(data=merge.output, pred=go, name="switch")
        with tf.control_dependencies([tf.identity(switch.output_true, name="inside")]):
            one = tf.constant(1, name="one")
        raw.NextIteration(data=tf.add(switch.output_true, one), name="next")
        raw.Exit(data=switch.output_false, name="end")
        definition = aside.as_graph_def()
    for node in definition.node:
        if node.name == "merge":
            node.input[1] = "next"
    end, index = tf.import_graph_def(definition, {"n": n}, ["end:0", "merge:1"], name="by_hand")
    entered = raw.RefExit(data=raw.RefEnter(data=old._ref(), frame_name="reference"))
    update = v1.assign_add(entered, tf.cast(end, tf.float32), name="update")
    g.init_variables()
    for count in (3, 0, -2, 100):
        g.step(end, feeds={n: i32(count)})
    # A value of the inside of a loop belongs to no step.
    g.step(index, feeds={n: i32(3)}, fails=True)
    g.step(update, feeds={n: i32(3)})
    g.step(old)


def branches(g):
    """Branches in a loop, with gradients: the loop keeps which side was taken. A decoder's loop; sampling, which grows."""
    n = v1.placeholder(tf.int32, [], name="n")
    x = v1.placeholder(tf.float32, [2, 3], name="x")
    w = variable("w", [3, 3], "resource")

    def body(i, value, last):
        odd = tf.equal(i % 2, 1)
        value, last = tf.cond(odd, lambda: (tf.tanh(tf.matmul(value, w)), value), lambda: (value * x, last + value))
        return i + 1, value, last

    _, value, last = tf.while_loop(lambda i, *_: i < n, body, (0, x, tf.zeros([2, 3])))
    slopes = tf.gradients([value, last], [x, w])

    def token(i, ids, past):
        row = tf.gather(w, ids[-1:])
        past = tf.concat([past, row], 0)
        scores = tf.matmul(tf.nn.softmax(tf.matmul(row, past, transpose_b=True)), past)
        return i + 1, tf.concat([ids, tf.argmax(tf.matmul(scores, w), 1)], 0), past

    start = (0, tf.zeros([1], tf.int64), tf.zeros([0, 3]))
    shapes = (tf.TensorShape([]), tf.TensorShape([None]), tf.TensorShape([None, 3]))
    _, ids, past = tf.while_loop(lambda i, *_: i < n, token, start, shape_invariants=shapes)
    # Arrays whose elements have other shapes in each iteration, read in the loop that writes them.
    array = tf.TensorArray(tf.float32, 0, dynamic_size=True, infer_shape=False, clear_after_read=False)
    array = array.write(0, tf.ones([1]))

    def longer(i, array, total):
        before = array.read(i)
        return i + 1, array.write(i + 1, tf.concat([before, [2.0]], 0)), total + tf.reduce_sum(before)

    _, _, total = tf.while_loop(lambda i, *_: i < n, longer, (0, array, 0.0))
    g.init_variables()
    for count in (5, 1, 0, 4):
        feeds = {n: i32(count), x: floats(f"branches in loops {count}", [2, 3])}
        g.step(value, last, *slopes, feeds=feeds)
        g.step(ids, past, total, feeds=feeds)


golden("while_branches_v1")(branches)
golden("while_branches_v2", flow="v2")(branches)


def weights(g):
    """A loop over a matrix that is large enough that the products of its gradient follow the loop; no iteration, too. Sums
    in another order differ less in f64."""
    n = v1.placeholder(tf.int32, [], name="n")
    x = v1.placeholder(tf.float32, [None, 8], name="x")
    w = variable("w", [72, 64], "resource")
    b = variable("b", [64], "resource")
    wide, rows = tf.cast(w, tf.float64), tf.cast(x, tf.float64)

    def body(i, state, total):
        state = tf.tanh(tf.matmul(tf.concat([rows, state], 1), wide) + tf.cast(b, tf.float64))
        return i + 1, state, total + tf.reduce_sum(state * state)

    start = (0, tf.zeros([tf.shape(x)[0], 64], tf.float64), tf.zeros([], tf.float64))
    shapes = (tf.TensorShape([]), tf.TensorShape([None, 64]), tf.TensorShape([]))
    _, state, total = tf.while_loop(lambda i, *_: i < n, body, start, shape_invariants=shapes)
    slopes = [tf.convert_to_tensor(d) for d in tf.gradients([state, total], [x, w, b])]
    g.init_variables()
    for count, size in ((3, 2), (1, 5), (0, 2), (20, 1)):
        feeds = {n: i32(count), x: floats(f"weights in loops {count}", [size, 8])}
        g.step(state, total, *slopes, feeds=feeds)


golden("while_weights_v1")(weights)
golden("while_weights_v2", flow="v2")(weights)
