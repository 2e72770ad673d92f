"""Golden graphs: LSTMs in loops of both kinds, with the gradients that train them."""

import numpy as np

from graphs_parts import Layers, floats, train, variable, whole
from graphs_record import golden
from reference import i32, tf, v1

BATCH, TIME, INPUTS, UNITS, CLASSES = 4, 6, 3, 8, 5


class Cell:
    """A basic LSTM cell, as far as dynamic_rnn asks for one."""

    output_size = UNITS
    state_size = (UNITS, UNITS)

    def __init__(self, kind):
        self.weights = variable("kernel", [INPUTS + UNITS, 4 * UNITS], kind)
        self.bias = variable("bias", [4 * UNITS], kind, v1.zeros_initializer())

    def zero_state(self, batch, dtype):
        """The state before the first step."""
        return tuple(tf.zeros([batch, UNITS], dtype) for _ in range(2))

    def get_initial_state(self, inputs=None, batch_size=None, dtype=None):
        """An attribute that newer versions of dynamic_rnn need."""
        return self.zero_state(batch_size, dtype)

    def __call__(self, inputs, state, scope=None):
        memory, hidden = state
        sums = tf.nn.bias_add(tf.matmul(tf.concat([inputs, hidden], 1), self.weights), self.bias)
        enter, new, forget, leave = tf.split(sums, 4, 1)
        memory = memory * tf.sigmoid(forget + 1.0) + tf.sigmoid(enter) * tf.tanh(new)
        hidden = tf.tanh(memory) * tf.sigmoid(leave)
        return hidden, (memory, hidden)


def looped(cell, inputs):
    """The outputs of all steps, by a loop over arrays of tensors."""
    reads = tf.TensorArray(tf.float32, TIME).unstack(tf.transpose(inputs, [1, 0, 2]))
    writes = tf.TensorArray(tf.float32, TIME)

    def body(time, state, writes):
        hidden, state = cell(reads.read(time), state)
        return time + 1, state, writes.write(time, hidden)

    start = (tf.constant(0), cell.zero_state(tf.shape(inputs)[0], tf.float32), writes)
    _, _, writes = tf.while_loop(lambda time, *_: time < TIME, body, start, parallel_iterations=4)
    return tf.transpose(writes.stack(), [1, 0, 2])


def lstm(g, kind, dynamic, optimizer):
    """Classifies the last of an LSTM's outputs, or with `dynamic` that where each sequence ends."""
    inputs = v1.placeholder(tf.float32, [None, TIME, INPUTS], name="inputs")
    labels = v1.placeholder(tf.int32, [None], name="labels")
    lengths = v1.placeholder(tf.int32, [None], name="lengths")
    cell = Cell(kind)
    if dynamic:
        outputs, state = v1.nn.dynamic_rnn(cell, inputs, lengths, dtype=tf.float32, swap_memory=True)
        last = state[1]
    else:
        outputs = looped(cell, inputs)
        last = outputs[:, -1]
    logits = Layers(kind).dense("softmax", last, CLASSES)
    loss = tf.reduce_mean(v1.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    variables = v1.trainable_variables()
    gradients, norm = tf.clip_by_global_norm(tf.gradients(loss, variables), 0.5)
    step = optimizer().apply_gradients(zip(gradients, variables))
    feeds = {inputs: floats("sequences", [BATCH, TIME, INPUTS]), labels: whole("classes", [BATCH], CLASSES)}
    if dynamic:
        feeds[lengths] = np.array([6, 2, 0, 4], i32)
    train(g, step, [loss, norm, outputs], feeds)


def descent():
    return v1.train.GradientDescentOptimizer(0.5)


def adam():
    return v1.train.AdamOptimizer(0.01)


golden("lstm_while_v1", rel=1e-4, kind="resource", dynamic=False, optimizer=adam)(lstm)
golden("lstm_while_v1_ref", rel=1e-4, kind="ref", dynamic=False, optimizer=descent)(lstm)
golden("lstm_dynamic_rnn_v1", rel=1e-4, kind="resource", dynamic=True, optimizer=descent)(lstm)
golden("lstm_while_v2", rel=1e-4, flow="v2", kind="resource", dynamic=False, optimizer=adam)(lstm)
golden("lstm_dynamic_rnn_v2", rel=1e-4, flow="v2", kind="resource", dynamic=True, optimizer=descent)(lstm)
