"""Parts that several golden graphs share: variables of both kinds, layers, digests, training loops."""

import contextlib
import itertools
import unittest.mock
import zlib

import numpy as np

from inputs import generator
from reference import f32, i32, tf, v1

KINDS = ("ref", "resource")


def variable(name, dims, kind, initializer=None, dtype=tf.float32, trainable=True):
    """A variable; without an initializer its values are uniform, drawn by a seeded op of the graph."""
    if initializer is None:
        initializer = v1.random_uniform_initializer(-0.5, 0.5, seed=zlib.crc32(name.encode()) % 1000)
    return v1.get_variable(
        name, dims, dtype, initializer, trainable=trainable, use_resource=kind == "resource"
    )


@contextlib.contextmanager
def counted_names():
    """Counts where TensorFlow gives lookup tables random names, so that a graph is the same each time."""
    with unittest.mock.patch("uuid.uuid4", itertools.count().__next__):
        yield


def digests(tensors):
    """A digest of large tensors: their mean magnitudes, and up to eight elements from all over each."""
    rows = [tf.reshape(t, [-1]) for t in tensors]
    means = [tf.reduce_mean(tf.abs(row)) for row in rows]
    some = [row[:: max(1, row.shape.num_elements() // 7)][:8] for row in rows]
    return [tf.stack(means), tf.concat(some, 0)]


def floats(name, dims, low=-1, high=1, digits=2):
    """An array to feed, random by its name; few digits keep the files small."""
    return np.round(generator(name).uniform(low, high, dims), digits).astype(f32)


def whole(name, dims, below, dtype=i32):
    """An array of random integers from 0."""
    return generator(name).integers(0, below, dims).astype(dtype)


def one_hot(name, count, classes):
    """Random labels, a one in each row."""
    return np.eye(classes, dtype=f32)[whole(name, [count], classes)]


def normal(stddev, seed):
    """The initializer of nearly every network of TensorFlow 1."""
    return v1.truncated_normal_initializer(stddev=stddev, seed=seed)


class Layers:
    """Layers of a network, their variables all of one kind and each seeded by its number."""

    def __init__(self, kind, stddev=0.1):
        self.kind, self.stddev, self.made = kind, stddev, 0

    def weight(self, name, dims):
        """A weight with an initial value of its own."""
        self.made += 1
        return variable(name, dims, self.kind, normal(self.stddev, self.made))

    def bias(self, name, dims, value=0.1):
        """A bias that starts as a constant."""
        return variable(name, dims, self.kind, v1.constant_initializer(value))

    def conv(self, name, images, size, channels, stride=1, padding="SAME", activation=tf.nn.relu):
        """Convolution, bias, and an activation; NHWC. `size` is a height and a width, or one for both."""
        height, width = size if isinstance(size, tuple) else (size, size)
        with v1.variable_scope(name):
            weights = self.weight("weights", [height, width, images.shape[-1], channels])
            sums = tf.nn.conv2d(images, weights, [1, stride, stride, 1], padding)
            return activation(tf.nn.bias_add(sums, self.bias("biases", [channels])))

    def dense(self, name, rows, width, activation=tf.identity):
        """A product, a bias, and an activation."""
        with v1.variable_scope(name):
            weights = self.weight("weights", [rows.shape[-1], width])
            return activation(v1.nn.xw_plus_b(rows, weights, self.bias("biases", [width])))


def flat(images):
    """Images as rows."""
    return tf.reshape(images, [-1, int(np.prod(images.shape[1:]))])


def sparse_loss(logits, labels):
    """Mean cross entropy of classes."""
    return tf.reduce_mean(v1.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def train(g, step, fetches, feeds, count=10):
    """Initializes all variables, trains, and then looks at them."""
    after = digests(v for v in v1.global_variables() if v.dtype.base_dtype == tf.float32)
    g.init_variables()
    for index in range(count):
        fed = {k: v[index % len(v)] if isinstance(v, list) else v for k, v in feeds.items()}
        g.step(*fetches, feeds=fed, run=step)
    g.step(*after)
