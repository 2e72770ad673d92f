#!/usr/bin/env python3
"""Training and inference of the example `bench` in TensorFlow 2, compiled by `tf.function`: `peer.py` says
what is read and written. TensorFlow's threads are fixed once it has begun: cases of other numbers of threads
than the first argument (2 where there is none) are not done, nor are convolutions in NCHW, which it lacks."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

import peer

THREADS = int(sys.argv[1]) if len(sys.argv) > 1 else 2
tf.config.threading.set_intra_op_parallelism_threads(THREADS)
tf.config.threading.set_inter_op_parallelism_threads(1)


def weights(*dims):
    return tf.Variable(tf.random.truncated_normal(dims, stddev=0.1))


def zeros(n):
    return tf.Variable(tf.zeros(n))


def pooled(x):
    return tf.nn.max_pool2d(x, 2, 2, "VALID")


def network(c):
    if c["model"] == "deep_mnist":
        convs, dense, paddings = [(5, 5, 1, 32), (5, 5, 32, 64)], [(3136, 1024), (1024, 10)], ["SAME", "SAME"]
    else:
        convs, dense, paddings = [(5, 5, 1, 6), (5, 5, 6, 16)], [(400, 120), (120, 84), (84, 10)], ["SAME", "VALID"]
    convs = [(weights(*d), zeros(d[-1])) for d in convs]
    dense = [(weights(*d), zeros(d[-1])) for d in dense]

    def logits(x, training):
        for (w, b), padding in zip(convs, paddings):
            x = pooled(tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w, 1, padding), b)))
        x = tf.reshape(x, [x.shape[0], -1])
        for w, b in dense[:-1]:
            x = tf.nn.relu(x @ w + b)
        if training and c["model"] == "deep_mnist":
            x = tf.nn.dropout(x, 0.5)
        w, b = dense[-1]
        return x @ w + b

    return logits, [v for pair in convs + dense for v in pair]


def train(c):
    logits, variables = network(c)
    images = tf.random.uniform([c["batch"], 28, 28, 1])
    labels = tf.random.uniform([c["batch"]], 0, 10, tf.int32)
    is_deep = c["model"] == "deep_mnist"
    rate, one, two, epsilon = 1e-4, 0.9, 0.999, 1e-8
    slots = [[tf.Variable(tf.zeros_like(v)) for v in variables] for _ in range(2)]
    powers = [tf.Variable(one), tf.Variable(two)]

    @tf.function
    def step(images, labels):
        with tf.GradientTape() as tape:
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits(images, True))
            loss = tf.reduce_mean(each)
        for i, (v, g) in enumerate(zip(variables, tape.gradient(loss, variables))):
            if is_deep:
                tf.raw_ops.ResourceApplyAdam(
                    var=v.handle, m=slots[0][i].handle, v=slots[1][i].handle, beta1_power=powers[0],
                    beta2_power=powers[1], lr=rate, beta1=one, beta2=two, epsilon=epsilon, grad=g)
            else:
                tf.raw_ops.ResourceApplyGradientDescent(var=v.handle, alpha=0.01, delta=g)
        if is_deep:
            powers[0].assign(powers[0] * one)
            powers[1].assign(powers[1] * two)
        return loss

    return lambda: step(images, labels).numpy()


def infer(c):
    logits, _ = network(c)
    images = tf.random.uniform([c["batch"], 28, 28, 1])
    step = tf.function(lambda x: tf.argmax(logits(x, False), 1))
    return lambda: step(images).numpy()


def case(c):
    does = {"train": train, "infer": infer}.get(c["kind"])
    return does(c) if does and c["format"] == "NHWC" and c["threads"] == THREADS else None


peer.answer(case)
