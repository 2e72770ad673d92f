#!/usr/bin/env python3
"""Training and inference of the example `bench` in JAX, compiled by `jax.jit`: `peer.py` describes the lines read
and written. XLA takes all processors that the process may run on: cases of other numbers of threads are not
done (`taskset` gives fewer)."""

import os

import jax
import jax.numpy as jnp
from jax import lax

import peer

THREADS = len(os.sched_getaffinity(0))


def network(c):
    deep = c["model"] == "deep_mnist"
    convs = [(5, 5, 1, 32), (5, 5, 32, 64)] if deep else [(5, 5, 1, 6), (5, 5, 6, 16)]
    dense = [(3136, 1024), (1024, 10)] if deep else [(400, 120), (120, 84), (84, 10)]
    paddings = ["SAME", "SAME" if deep else "VALID"]
    keys = iter(jax.random.split(jax.random.key(0), 8))
    parameters = [(0.1 * jax.random.normal(next(keys), d), jnp.zeros(d[-1])) for d in convs + dense]
    nhwc = c["format"] == "NHWC"
    dims = ("NHWC", "HWIO", "NHWC") if nhwc else ("NCHW", "HWIO", "NCHW")
    window = (1, 2, 2, 1) if nhwc else (1, 1, 2, 2)

    def logits(parameters, x, key):
        for (w, b), padding in zip(parameters[:2], paddings):
            x = lax.conv_general_dilated(x, w, (1, 1), padding, dimension_numbers=dims)
            x = jax.nn.relu(x + (b if nhwc else b[:, None, None]))
            x = lax.reduce_window(x, -jnp.inf, lax.max, window, window, "VALID")
        x = x.reshape(x.shape[0], -1)
        for w, b in parameters[2:-1]:
            x = jax.nn.relu(x @ w + b)
        if key is not None and deep:
            x = jnp.where(jax.random.bernoulli(key, 0.5, x.shape), x * 2, 0)
        w, b = parameters[-1]
        return x @ w + b

    shape = (c["batch"], 28, 28, 1) if nhwc else (c["batch"], 1, 28, 28)
    return logits, parameters, jax.random.uniform(next(keys), shape)


def train(c):
    logits, parameters, images = network(c)
    labels = jnp.arange(c["batch"]) % 10
    deep, one, two = c["model"] == "deep_mnist", 0.9, 0.999

    def loss_of(parameters, images, labels, key):
        found = jax.nn.log_softmax(logits(parameters, images, key))
        return -jnp.take_along_axis(found, labels[:, None], 1).mean()

    def adam(p, m, v, g, t):
        m, v = one * m + (1 - one) * g, two * v + (1 - two) * g * g
        rate = 1e-4 * jnp.sqrt(1 - two**t) / (1 - one**t)
        return p - rate * m / (jnp.sqrt(v) + 1e-8), m, v

    def step(state, images, labels):
        parameters, m, v, t, key = state
        key, own = jax.random.split(key)
        loss, g = jax.value_and_grad(loss_of)(parameters, images, labels, own)
        if deep:
            each = jax.tree.map(lambda *a: adam(*a, t), parameters, m, v, g)
            parameters, m, v = jax.tree.transpose(jax.tree.structure(g), jax.tree.structure((0, 0, 0)), each)
        else:
            parameters = jax.tree.map(lambda p, g: p - 0.01 * g, parameters, g)
        return (parameters, m, v, t + 1, key), loss

    compiled = jax.jit(step, donate_argnums=0)
    zeros = [jax.tree.map(jnp.zeros_like, parameters) for _ in range(2)]
    state = (parameters, *zeros, jnp.float32(1), jax.random.key(1))

    def run():
        nonlocal state
        state, loss = compiled(state, images, labels)
        # A step is done when all of it is.
        return jax.block_until_ready((state[0], loss))

    return run


def infer(c):
    logits, parameters, images = network(c)
    compiled = jax.jit(lambda p, x: logits(p, x, None).argmax(1))
    return lambda: compiled(parameters, images).block_until_ready()


def case(c):
    does = {"train": train, "infer": infer}.get(c["kind"])
    return does(c) if does and c["threads"] == THREADS else None


peer.answer(case)
