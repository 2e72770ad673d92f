"""Golden graphs: linear regression and deep MNIST, with both kinds of variables."""

import numpy as np

from graphs_parts import KINDS, digests, floats, normal, one_hot, variable
from graphs_record import golden
from reference import f32, raw, tf, v1


def linear_regression(g, kind):
    """y = x * w + b by gradient descent, a batch of eight points a step."""
    x, y = (v1.placeholder(tf.float32, [None], name=n) for n in "xy")
    w = v1.Variable(0.0, name="weight", use_resource=kind == "resource")
    b = v1.Variable(0.0, name="bias", use_resource=kind == "resource")
    loss = tf.reduce_mean(tf.square(y - (x * w + b)), name="loss")
    step = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    xs = [floats(f"points {i}", [8]) for i in range(10)]
    g.init_variables()
    for batch in xs:
        g.step(loss, feeds={x: batch, y: np.round(3 * batch + 2, 2).astype(f32)}, run=step)
    g.step(w, b)


def dropout_of_2015(values, keep):
    """Dropout as TensorFlow wrote it until 1.13."""
    random = keep + v1.random_uniform(tf.shape(values), seed=77)
    return values / keep * tf.floor(random)


def deep_mnist(g, kind):
    """Two convolutions of 5x5, a layer of 1024 with dropout, Adam: the tutorial "Deep MNIST for Experts"."""
    old = kind == "ref"
    x = v1.placeholder(tf.float32, [None, 784], name="x")
    labels = v1.placeholder(tf.float32, [None, 10], name="labels")
    keep = v1.placeholder(tf.float32, [], name="keep_prob")

    def parameters(name, dims, seed):
        weights = variable(name + "_w", dims, kind, normal(0.1, seed))
        return weights, variable(name + "_b", dims[-1:], kind, v1.constant_initializer(0.1))

    def add(sums, bias):
        # Files of old have Add where later ones have AddV2.
        return raw.Add(x=sums, y=bias) if old else sums + bias

    def conv_and_pool(images, name, dims, seed):
        weights, bias = parameters(name, dims, seed)
        hidden = tf.nn.relu(add(tf.nn.conv2d(images, weights, [1, 1, 1, 1], "SAME"), bias))
        return v1.nn.max_pool(hidden, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")

    # With this seed no unit is so near to where a relu bends that the rounding of a sum decides it: with
    # others a change of the input's last bit moves a bias's gradient by more than the tolerance.
    hidden = conv_and_pool(tf.reshape(x, [-1, 28, 28, 1]), "conv1", [5, 5, 1, 32], 11)
    hidden = conv_and_pool(hidden, "conv2", [5, 5, 32, 64], 2)
    weights, bias = parameters("fc1", [7 * 7 * 64, 1024], 3)
    hidden = tf.nn.relu(add(tf.matmul(tf.reshape(hidden, [-1, 7 * 7 * 64]), weights), bias))
    hidden = dropout_of_2015(hidden, keep) if old else tf.nn.dropout(hidden, rate=1 - keep, seed=77)
    weights, bias = parameters("fc2", [1024, 10], 4)
    logits = add(tf.matmul(hidden, weights), bias)
    entropy = v1.nn.softmax_cross_entropy_with_logits if old else v1.nn.softmax_cross_entropy_with_logits_v2
    loss = tf.reduce_mean(entropy(labels=labels, logits=logits), name="loss")
    step = v1.train.AdamOptimizer(1e-4).minimize(loss)
    correct = tf.equal(tf.argmax(logits, 1), tf.argmax(labels, 1))
    accuracy = tf.reduce_mean(tf.cast(correct, tf.float32), name="accuracy")
    after = digests(v1.global_variables())

    images = [floats(f"digits {i}", [8, 784], 0, 1) * (floats(f"ink {i}", [8, 784]) > 0.6) for i in range(2)]
    classes = [one_hot(f"digits {i}", 8, 10) for i in range(2)]
    g.init_variables()
    for index in range(10):
        batch = {x: images[index % 2], labels: classes[index % 2]}
        g.step(loss, feeds=batch | {keep: 0.5}, run=step)
        if index % 5 == 4:
            g.step(accuracy, loss, feeds=batch | {keep: 1.0})
    g.step(*after)


for _kind in KINDS:
    golden(f"linear_regression_{_kind}", kind=_kind)(linear_regression)
    golden(f"deep_mnist_{_kind}", rel=1e-4, absolute=1e-5, kind=_kind)(deep_mnist)
