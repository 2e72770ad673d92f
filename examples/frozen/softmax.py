"""Writes softmax.pb: TensorFlow trains softmax regression on MNIST and freezes it.

    python softmax.py [FOLDER OF MNIST]

Prints how many of the 10,000 test images TensorFlow's frozen graph reads right. It takes `tensorflow-cpu`.
"""

import gzip
import os
import sys

import numpy as np
import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "..", "..", "data", "mnist")
v1 = tf.compat.v1
v1.disable_eager_execution()


def read(name, header):
    with gzip.open(os.path.join(FOLDER, name)) as f:
        return np.frombuffer(f.read(), np.uint8, offset=header)


def split(name):
    images = read(f"{name}-images-idx3-ubyte.gz", 16).reshape(-1, 784).astype(np.float32) / 255
    return images, read(f"{name}-labels-idx1-ubyte.gz", 8).astype(np.int64)


def accuracy(session, images, labels):
    guessed = session.run("digit:0", {"images:0": images})
    return int((guessed == labels).sum())


def main():
    images, labels = split("train")
    tests = split("t10k")
    x = v1.placeholder(tf.float32, [None, 784], "images")
    y = v1.placeholder(tf.int64, [None], "labels")
    weights = v1.get_variable("weights", [784, 10], initializer=v1.zeros_initializer())
    biases = v1.get_variable("biases", [10], initializer=v1.zeros_initializer())
    logits = tf.matmul(x, weights) + biases
    tf.nn.softmax(logits, name="probabilities")
    tf.argmax(logits, 1, name="digit")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    train = v1.train.GradientDescentOptimizer(0.5).minimize(loss)
    order = np.random.RandomState(1)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for _ in range(2000):
            rows = order.randint(len(labels), size=100)
            session.run(train, {x: images[rows], y: labels[rows]})
        frozen = v1.graph_util.convert_variables_to_constants(
            session, v1.get_default_graph().as_graph_def(), ["probabilities", "digit"]
        )
    with open(os.path.join(HERE, "softmax.pb"), "wb") as f:
        f.write(frozen.SerializeToString())
    with tf.Graph().as_default(), v1.Session() as session:
        tf.import_graph_def(frozen, name="")
        print(f"{accuracy(session, *tests)} of {len(tests[1])} test images")


if __name__ == "__main__":
    main()
