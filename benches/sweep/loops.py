"""Loops, arrays of tensors and conditionals of TensorFlow 1."""

import numpy as np
import tensorflow as tf2

from case import Case, values

tf = tf2.compat.v1


def cases(rng, count):
    """All cases."""
    for _ in range(count):
        steps = rng.choice((100, 1000))
        yield Case(f"counter/{steps}", lambda inputs, n=steps: tf.while_loop(
            lambda i: i < n, lambda i: i + 1, [inputs.input(np.array(0, np.int32))]))
        x = values(rng, (rng.choice((20, 200)), rng.choice((1, 30, 300))))
        label = "x".join(map(str, x.shape))
        yield Case(f"map_fn/{label}", lambda inputs, x=x: tf.map_fn(lambda row: tf.tanh(row) * 2, inputs.input(x)))
        yield Case(f"map_fn_gradient/{label}", lambda inputs, x=x: mapped_gradient(inputs.input(x)))
        yield Case(f"scan/{label}", lambda inputs, x=x: tf.scan(lambda a, row: 0.9 * a + row, inputs.input(x)))
        yield Case(f"foldl/{label}", lambda inputs, x=x: tf.foldl(lambda a, row: a + row, inputs.input(x)))
        yield Case(f"array/{label}", lambda inputs, x=x: array(inputs.input(x), x.shape[0]))
        yield Case(f"array_scatter/{label}", lambda inputs, x=x: tf.TensorArray(tf.float32, x.shape[0]).unstack(inputs.input(x)).stack())
        yield Case(f"cond/{label}", lambda inputs, x=x: branch(inputs.input(x)))
        sequence, units = values(rng, (rng.choice((1, 16)), rng.choice((10, 50)), 20)), rng.choice((16, 64))
        for cell in ("BasicRNNCell", "LSTMCell", "GRUCell"):
            yield Case(f"{cell}/{'x'.join(map(str, sequence.shape))}/{units}",
                       lambda inputs, x=sequence, cell=cell, units=units: recurrent(inputs, x, cell, units))


def mapped_gradient(x):
    return tf.gradients(tf.map_fn(lambda row: tf.tanh(row) * row, x), [x])


def array(x, number):
    """Rows written one by one, and read back."""
    def body(i, rows):
        return i + 1, rows.write(i, x[i] * 2)

    rows = tf.TensorArray(tf.float32, number)
    return tf.while_loop(lambda i, _: i < number, body, [0, rows])[1].stack()


def branch(x):
    return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.sin(x), lambda: x * 2)


def recurrent(inputs, x, cell, units):
    """A layer of a cell and its gradients, with constant weights."""
    given = inputs.input(x)
    makers = {}

    def getter(getter, name, shape, **rest):  # As tf.variable_scope calls it.
        if name not in makers:
            own = np.random.default_rng(len(makers)).normal(0, 0.1, [int(d) for d in shape]).astype(np.float32)
            makers[name] = inputs.input(own)
        return makers[name]

    with tf.variable_scope("layer", custom_getter=getter):
        made = {"BasicRNNCell": basic, "LSTMCell": lstm, "GRUCell": gru}[cell](given, units)
    return tf.gradients(made * made, [given, *makers.values()])


def weights(name, *shape):
    return tf.get_variable(name, shape)


def steps(x, units, states, body):
    """Runs a cell over time, as dynamic_rnn does."""
    rows = tf.transpose(x, [1, 0, 2])
    length, batch = rows.shape[0], rows.shape[1]
    source = tf.TensorArray(tf.float32, length).unstack(rows)
    out = tf.TensorArray(tf.float32, length)

    def step(i, out, *state):
        state = body(source.read(i), *state)
        return (i + 1, out.write(i, state[0]), *state)

    zeros = [tf.zeros([batch, units])] * states
    return tf.while_loop(lambda i, *_: i < length, step, [0, out, *zeros])[1].stack()


def basic(x, units):
    w = weights("w", x.shape[2] + units, units)
    return steps(x, units, 1, lambda row, h: (tf.tanh(tf.concat([row, h], 1) @ w),))


def lstm(x, units):
    w, b = weights("w", x.shape[2] + units, 4 * units), weights("b", 4 * units)

    def body(row, h, c):
        i, j, f, o = tf.split(tf.nn.bias_add(tf.concat([row, h], 1) @ w, b), 4, 1)
        c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(j)
        return tf.tanh(c) * tf.sigmoid(o), c

    return steps(x, units, 2, body)


def gru(x, units):
    w, v = weights("w", x.shape[2] + units, 2 * units), weights("v", x.shape[2] + units, units)

    def body(row, h):
        r, u = tf.split(tf.sigmoid(tf.concat([row, h], 1) @ w), 2, 1)
        return (u * h + (1 - u) * tf.tanh(tf.concat([row, r * h], 1) @ v),)

    return steps(x, units, 1, body)
