"""Golden graphs: functions, called by PartitionedCall and its like, and by nodes that have their name."""

# Before all else of TensorFlow, as it sets it up.
from reference import f32, raw, tf, v1  # isort: skip

import numpy as np
from tensorflow.python.framework import function

from graphs_parts import digests, floats, train, variable
from graphs_record import golden


@golden("functions", rel=1e-4)
def functions(g):
    """Functions in functions; variables that they capture, read and update; gradients through them."""
    x = v1.placeholder(tf.float32, [None, 3], name="x")
    weight = variable("weight", [3, 4], "resource")
    calls = variable("calls", [], "resource", v1.zeros_initializer(), trainable=False)

    @tf.function(autograph=False)
    def scaled(value, factor):
        return tf.tanh(value) * factor, tf.reduce_sum(value)

    @tf.function(autograph=False)
    def layer(value):
        calls.assign_add(1.0)
        product, total = scaled(tf.matmul(value, weight), 2.0)
        again, _ = scaled(product, total)
        return again + 0.1 * calls

    @tf.function(autograph=False)
    def pure(value):
        return tf.square(value) + scaled(value, 3.0)[0]

    plain = pure(x)
    y = layer(x)
    loss = tf.reduce_mean(tf.square(y - 1.0))
    step = v1.train.GradientDescentOptimizer(0.01).minimize(loss)
    slope = tf.gradients(plain, x)[0]
    # How often a step calls the function is how much this grows.
    feeds = {x: floats("functions", [5, 3])}
    train(g, step, [loss], feeds, count=5)
    g.step(plain, slope, feeds=feeds)
    g.step(*digests([weight, calls]))
    g.step(y, feeds=feeds)


@golden("functions_control", flow="v2")
def functions_control(g):
    """Branches and loops in a function, a function in a branch and in a loop, a function that is random."""
    x = v1.placeholder(tf.float32, [3], name="x")
    n = v1.placeholder(tf.int32, [], name="n")
    total = variable("total", [3], "resource", v1.zeros_initializer())

    @tf.function(autograph=False)
    def half(value):
        return value * 0.5 + 1.0

    @tf.function(autograph=False)
    def program(value, count):
        value = tf.while_loop(lambda i, v: i < count, lambda i, v: (i + 1, half(v)), (0, value))[1]
        return tf.cond(tf.reduce_sum(value) > 3.0, lambda: half(value) - 2.0, lambda: value * value)

    @tf.function(autograph=False)
    def noisy(value):
        return value + v1.random_uniform([3], seed=11)

    @tf.function(autograph=False)
    def keep(value):
        total.assign_add(value)
        return value

    y = program(x, n)
    slope = tf.gradients(y, x)[0]
    noise = noisy(x)
    branch = tf.cond(n > 1, lambda: half(x), lambda: noisy(x) * 0.0 + x)
    kept = keep(x)
    g.init_variables()
    for count, values in ((0, [1, 2, 3]), (2, [-1, 0, 5]), (3, [-20, -5, 0])):
        feeds = {x: np.array(values, f32), n: count}
        g.step(y, slope, branch, feeds=feeds)
        g.step(noise, feeds=feeds)
        g.step(feeds=feeds, run=kept)
        g.step(total)


@golden("functions_legacy")
def functions_legacy(g):
    """Defun: nodes whose op is a function's name; one in another; one with a gradient of its own."""
    x, y = (v1.placeholder(tf.float32, [2, 2], name=n) for n in "xy")

    def both_gradient(op, of_sum, of_product):
        a, b = op.inputs
        return of_sum + of_product * b, of_sum + of_product * a

    @function.Defun(
        tf.float32,
        tf.float32,
        func_name="SumAndProduct",
        out_names=["sum", "product"],
        python_grad_func=both_gradient,
    )
    def sum_and_product(a, b):
        return a + b, a * b

    def cube_gradient(op, gradient):
        return 3.0 * tf.square(op.inputs[0]) * gradient

    @function.Defun(tf.float32, func_name="Cube", python_grad_func=cube_gradient)
    def cube(a):
        return a * sum_and_product(a, a)[1]

    @function.Defun(tf.float32, tf.int32, func_name="Rows")
    def rows(a, axis):
        return tf.reduce_sum(a, axis), tf.cast(tf.shape(a), tf.float32)

    # No inputs, and a value from outside of it, which becomes an input.
    @function.Defun(func_name="Captured")
    def captured():
        return tf.matmul(x, x) + v1.random_uniform([2, 2], seed=5)

    both = sum_and_product(x, y, name="both")
    z = cube(both[0], name="cube")
    slope = tf.gradients(z, [x, y])
    sums = rows(z, 1)
    caught = captured()
    for i in range(2):
        feeds = {x: floats(f"legacy x {i}", [2, 2]), y: floats(f"legacy y {i}", [2, 2])}
        g.step(*both, z, *slope, *sums, feeds=feeds)
        g.step(caught, feeds=feeds)


@golden("functions_remote")
def functions_remote(g):
    """Calls on a device that a constant names, or a fed string; of a variable there; on a device that does not exist."""
    x = v1.placeholder(tf.float32, [2], name="x")
    target = v1.placeholder(tf.string, [], name="target")
    total = variable("total", [2], "resource", v1.zeros_initializer())

    @function.Defun(tf.float32, func_name="Twice")
    def twice(a):
        return a * 2.0

    @function.Defun(tf.resource, tf.float32, func_name="AddTo")
    def add_to(handle, a):
        raw.AssignAddVariableOp(resource=handle, value=a)
        with tf.control_dependencies(tf.compat.v1.get_default_graph().get_operations()[-1:]):
            return raw.ReadVariableOp(resource=handle, dtype=tf.float32)

    call = lambda name, f, *args: raw.RemoteCall(target=name, args=list(args), Tout=[tf.float32], f=f)[0]
    here, full = call("/cpu:0", twice, x), call("/job:localhost/replica:0/task:0/device:CPU:0", twice, x)
    fed = call(target, twice, x)
    added = call("/device:CPU:0", add_to, total.handle, x)
    feeds = {x: floats("remote x", [2])}
    g.init_variables()
    g.step(here, full, feeds=feeds)
    g.step(added, feeds=feeds)
    g.step(added, feeds=feeds)
    g.step(total.read_value())
    g.step(fed, feeds={**feeds, target: np.array(b"/cpu:0", object)})
    g.step(fed, feeds={**feeds, target: np.array(b"/device:GPU:7", object)}, fails=True)
    g.step(fed, feeds={**feeds, target: np.array(b"nowhere", object)}, fails=True)
