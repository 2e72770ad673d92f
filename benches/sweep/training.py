"""Optimizers' updates, random numbers, and expressions of layers with their gradients."""

import numpy as np
import tensorflow as tf2

from case import Case, Const, Var, below, op, shape, text, values

tf = tf2.compat.v1
f32, f64, i32 = np.float32, np.float64, np.int32


def cases(rng, count):
    """All cases."""
    for _ in range(count):
        for dtype in (f32, f64):
            yield from updates(rng, dtype)
        yield from randoms(rng)
        yield from expressions(rng)


def updates(rng, dtype):
    """Dense and sparse updates of a variable."""
    dims = shape(rng)
    w, g = values(rng, dims, dtype), values(rng, dims, dtype)
    one, label = np.array(0.1, dtype), f"{w.dtype}/{text(dims)}"
    slot = np.abs(w) + np.array(0.1, dtype)
    yield op("ResourceApplyGradientDescent", label, var=Var(w), alpha=one, delta=g)
    yield op("ResourceApplyMomentum", label, var=Var(w), accum=Var(slot), lr=one, grad=g, momentum=one)
    yield op("ResourceApplyAdam", label, var=Var(w), m=Var(slot), v=Var(slot), beta1_power=one, beta2_power=one, lr=one, beta1=one,
             beta2=one, epsilon=one, grad=g)
    yield op("ResourceApplyAdagrad", label, var=Var(w), accum=Var(slot), lr=one, grad=g)
    yield op("ResourceApplyRMSProp", label, var=Var(w), ms=Var(slot), mom=Var(slot), lr=one, rho=one, momentum=one, epsilon=one, grad=g)
    yield op("ResourceApplyFtrl", label, var=Var(w), accum=Var(slot), linear=Var(slot), grad=g, lr=one, l1=one, l2=one, lr_power=-one)
    yield op("AssignAddVariableOp", label, resource=Var(w), value=g)
    rows, width = rng.choice((1000, 50000)), rng.choice((1, 16, 100))
    table, accumulated = values(rng, (rows, width), dtype), np.ones((rows, width), dtype)
    ids = below(rng, (rng.choice((64, 3000)),), rows)
    grads = values(rng, (len(ids), width), dtype)
    label = f"{table.dtype}/{rows}x{width}/{len(ids)}"
    yield op("ResourceSparseApplyAdagrad", label, var=Var(table), accum=Var(accumulated), lr=one, grad=grads, indices=ids)
    yield op("ResourceSparseApplyMomentum", label, var=Var(table), accum=Var(accumulated), lr=one, grad=grads, indices=ids, momentum=one)


def randoms(rng):
    """Random numbers of all distributions."""
    dims = np.array(shape(rng), i32)
    label = text(dims)
    for dtype in (f32, f64):
        for name in ("RandomUniform", "RandomStandardNormal", "TruncatedNormal"):
            yield op(name, f"{np.dtype(dtype)}/{label}", shape=dims, dtype=dtype, seed=1, seed2=2)
    yield op("RandomUniformInt", label, shape=dims, minval=np.array(0, i32), maxval=np.array(99, i32), seed=1, seed2=2)
    seeds = np.array([1, 2], np.int64)
    yield op("StatelessRandomNormal", label, shape=dims, seed=seeds)
    x = values(rng, shape(rng, 2))
    yield op("RandomShuffle", text(x.shape), value=x, seed=1, seed2=2)
    yield op("Multinomial", text(x.shape), logits=x[:200].copy(), num_samples=Const(np.array(20, i32)), seed=1, seed2=2)
    few = np.array([200], i32)
    alpha = np.abs(values(rng, (50,))) + 0.1
    yield op("RandomGamma", "50x200", shape=few, alpha=alpha.astype(f32), seed=1, seed2=2)
    yield op("RandomPoissonV2", "50x200", shape=few, rate=(10 * alpha).astype(f32), seed=1, seed2=2)


def expressions(rng):
    """Layer norm, gelu, attention, dropout, losses; each with its gradient."""
    rows, width = rng.choice((64, 1000)), rng.choice((48, 256, 768))
    x, w = values(rng, (rows, width)), values(rng, (width,))

    def normalized(inputs):
        given, scale = inputs.input(x), inputs.input(w)
        mean, variance = tf.nn.moments(given, [1], keepdims=True)
        y = (given - mean) * tf.rsqrt(variance + 1e-6) * scale
        return tf.gradients(y * y, [given, scale])

    yield Case(f"layer_norm/{rows}x{width}", normalized)

    def gelu(inputs):
        given = inputs.input(x)
        y = 0.5 * given * (1 + tf.tanh(0.7978845608 * (given + 0.044715 * given**3)))
        return tf.gradients(y * y, [given])

    yield Case(f"gelu/{rows}x{width}", gelu)
    heads, length, deep = 4, rng.choice((32, 100)), rng.choice((16, 64))
    q, k, v = (values(rng, (2, heads, length, deep)) for _ in range(3))

    def attention(inputs):
        a, b, c = (inputs.input(t) for t in (q, k, v))
        y = tf.nn.softmax(tf.matmul(a, b, transpose_b=True) / deep**0.5) @ c
        return tf.gradients(y * y, [a, b, c])

    yield Case(f"attention/2x{heads}x{length}x{deep}", attention)

    def dropout(inputs):
        given = inputs.input(x)
        return tf.gradients(tf.nn.dropout(given, rate=0.3, seed=1), [given])

    yield Case(f"dropout/{rows}x{width}", dropout)
    labels = below(rng, (rows,), width)

    def loss(inputs):
        given = inputs.input(x)
        total = tf.losses.sparse_softmax_cross_entropy(inputs.input(labels), given)
        return tf.gradients(total, [given]) + [tf.nn.l2_normalize(given, 1)]

    yield Case(f"loss/{rows}x{width}", loss)
    table, ids = values(rng, (5000, 64)), below(rng, (rows, 10), 5000)

    def embedding(inputs):
        given = inputs.input(table)
        y = tf.reduce_sum(tf.nn.embedding_lookup(given, inputs.input(ids)), 1)
        slices = tf.gradients(y * y, [given])[0]
        return [slices.values, tf.convert_to_tensor(slices)]

    yield Case(f"embedding/{rows}", embedding)
