#!/usr/bin/env python3
"""Loops of TensorFlow 1 programs, with gradients: writes a GraphDef of each, for `cargo bench --bench loops`, and measures
its steps in TensorFlow on two threads. `loops.py FOLDER [NAME...]`; needs tensorflow-cpu and tf_keras."""

import os
import pathlib
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import tensorflow as tf
from tf_keras.src.layers.rnn import legacy_cells as cells

v1 = tf.compat.v1
v1.disable_v2_behavior()
v1.disable_control_flow_v2()

WARM_UP, MOST_STEPS, SECONDS = 3, 400, 3.0


def weights(name, shape, seed=1):
    return v1.get_variable(name, shape, initializer=v1.random_normal_initializer(stddev=0.1, seed=seed))


def numbers(*shape):
    return tf.constant(np.random.RandomState(1).rand(*shape).astype("f"))


def ids(most, *shape):
    return tf.constant(np.random.RandomState(2).randint(0, most, shape))


def classified(values, labels, classes):
    scores = v1.matmul(values, weights("out", [values.shape[-1], classes]))
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores)
    return tf.reduce_mean(loss)


def descent(loss):
    return loss, v1.train.GradientDescentOptimizer(0.1).minimize(loss)


def lstm(batch=64, steps=28, inputs=28, units=128):
    """An LSTM of one layer over the rows of an image."""
    out, _ = v1.nn.dynamic_rnn(cells.BasicLSTMCell(units), numbers(batch, steps, inputs), dtype=tf.float32)
    return descent(classified(out[:, -1], ids(10, batch), 10))


def text(both=False, batch=32, steps=40, units=64, words=1000):
    """A GRU over sentences of several lengths; with `both`, LSTMs in both directions."""
    lengths = tf.constant(np.random.RandomState(3).randint(5, steps, batch).astype("i"))
    x = tf.nn.embedding_lookup(weights("words", [words, 32], 2), ids(words, batch, steps))
    options = {"sequence_length": lengths, "dtype": tf.float32}
    if both:
        pair = [cells.BasicLSTMCell(units) for _ in range(2)]
        out = tf.concat(v1.nn.bidirectional_dynamic_rnn(*pair, x, **options)[0], 2)
    else:
        out, _ = v1.nn.dynamic_rnn(cells.GRUCell(units), x, **options)
    return descent(classified(tf.reduce_mean(out, 1), ids(2, batch), 2))


def language_model(units, steps, batch=20, words=10000, layers=2):
    """The PTB model: layers of LSTMs, gradients clipped by their global norm."""
    read = ids(words, batch, steps)
    x = tf.nn.embedding_lookup(weights("words", [words, units], 2), read)
    cell = cells.MultiRNNCell([cells.BasicLSTMCell(units) for _ in range(layers)])
    out, _ = v1.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    loss = classified(tf.reshape(out, [-1, units]), tf.reshape(read, [-1]), words)
    variables = v1.trainable_variables()
    slopes, _ = tf.clip_by_global_norm(v1.gradients(loss, variables), 5.0)
    return loss, v1.train.GradientDescentOptimizer(1.0).apply_gradients(zip(slopes, variables))


def seq2seq(batch=32, steps=15, units=64, words=200):
    """An encoder, and a decoder with a conditional in its loop."""
    source, target = ids(words, batch, steps), ids(words, batch, steps)
    table = weights("words", [words, units], 2)
    _, state = v1.nn.dynamic_rnn(
        cells.GRUCell(units), tf.nn.embedding_lookup(table, source), dtype=tf.float32, scope="encoder"
    )

    def step(at, out, before, _):
        over = at >= steps
        row = lambda: tf.nn.embedding_lookup(table, target[:, tf.minimum(at, steps - 1)])
        following = tf.cond(over, lambda: tf.zeros([batch, units]), row)
        return tf.tile([over], [batch]), following, state if out is None else before, out, None

    array, _, _ = v1.nn.raw_rnn(cells.GRUCell(units), step, scope="decoder")
    out = tf.reshape(tf.transpose(array.stack(), [1, 0, 2]), [-1, units])
    return descent(classified(out, tf.reshape(target, [-1]), words))


def sampling(steps=30, units=64, words=200):
    """Tokens chosen one by one, from all before them: the values of the loop grow."""
    table = weights("words", [words, units])

    def step(at, chosen, past):
        row = tf.nn.embedding_lookup(table, chosen[:, -1:])
        past = tf.concat([past, row], 1)
        seen = v1.matmul(tf.nn.softmax(v1.matmul(row, past, transpose_b=True)), past)[:, 0]
        following = tf.argmax(v1.matmul(seen, table, transpose_b=True), 1)[:, None]
        return at + 1, tf.concat([chosen, following], 1), past

    start = [tf.constant(0), tf.ones([1, 1], tf.int64), tf.zeros([1, 0, units])]
    shapes = [tf.TensorShape(dims) for dims in ([], [1, None], [1, None, units])]
    _, chosen, past = tf.while_loop(lambda at, *_: at < steps, step, start, shape_invariants=shapes)
    return tf.reduce_sum(past), chosen


def counter(most=100000):
    """A loop that only counts."""
    end = v1.while_loop(lambda at: at < most, lambda at: at + 1, [tf.constant(0)])
    return tf.cast(end, tf.float32), end


def mapped(rows=1000):
    """map_fn over short rows."""
    out = tf.map_fn(lambda row: tf.reduce_sum(row * row), numbers(rows, 16))
    return tf.reduce_sum(out), out


PROGRAMS = {
    "bidirectional_text": lambda: text(both=True),
    "counter": counter,
    "lstm": lstm,
    "map_fn": mapped,
    "ptb_medium": lambda: language_model(650, 35),
    "ptb_small": lambda: language_model(200, 20),
    "sampling": sampling,
    "seq2seq": seq2seq,
    "text_gru": text,
}


def measure(folder, name):
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(7)
        loss, step = PROGRAMS[name]()
        with tf.control_dependencies([step]):
            tf.identity(loss, name="loss_after_step")
        tf.group(v1.global_variables_initializer(), name="init")
        (folder / f"{name}.pb").write_bytes(graph.as_graph_def().SerializeToString())
        threads = {"intra_op_parallelism_threads": 2, "inter_op_parallelism_threads": 2}
        with v1.Session(config=v1.ConfigProto(**threads)) as session:
            session.run("init")
            run = session.make_callable("loss_after_step:0")
            losses, times, begin = [], [], time.time()
            while len(times) < MOST_STEPS and (len(times) < 2 * WARM_UP or time.time() - begin < SECONDS):
                now = time.time()
                losses.append(float(run()))
                times.append(1e3 * (time.time() - now))
    measured = times[WARM_UP:]
    print(f"{name}: {np.median(measured):.3f} ms median, {min(measured):.3f} least; losses {losses[:WARM_UP]}", flush=True)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or sorted(PROGRAMS):
        measure(folder, name)


if __name__ == "__main__":
    main()
