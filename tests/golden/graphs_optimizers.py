"""Golden graphs: every optimizer on variables of both kinds, with clipping and averages."""

import numpy as np

from graphs_parts import KINDS, Layers, digests, floats, sparse_loss, train, variable, whole
from graphs_record import golden
from reference import i64, raw, tf, v1

REGULAR = {"l1_regularization_strength": 0.003, "l2_regularization_strength": 0.01}
OPTIMIZERS = {
    "gradient_descent": lambda: v1.train.GradientDescentOptimizer(0.5),
    "momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda: v1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adagrad": lambda: v1.train.AdagradOptimizer(0.3, initial_accumulator_value=0.2),
    "adadelta": lambda: v1.train.AdadeltaOptimizer(1.0, 0.9, 1e-3),
    "adam": lambda: v1.train.AdamOptimizer(0.02, 0.8, 0.9, 1e-4),
    "rmsprop": lambda: v1.train.RMSPropOptimizer(0.02, 0.9, 0.5, 1e-3),
    "rmsprop_centered": lambda: v1.train.RMSPropOptimizer(0.02, 0.9, 0.5, 1e-3, centered=True),
    "ftrl": lambda: v1.train.FtrlOptimizer(0.5, **REGULAR),
    "ftrl_shrinkage": lambda: v1.train.FtrlOptimizer(
        0.5, learning_rate_power=-0.6, l2_shrinkage_regularization_strength=0.05, beta=0.1, **REGULAR
    ),
    "proximal_adagrad": lambda: v1.train.ProximalAdagradOptimizer(0.3, **REGULAR),
    "proximal_gradient_descent": lambda: v1.train.ProximalGradientDescentOptimizer(0.5, **REGULAR),
    "adagrad_da": lambda: v1.train.AdagradDAOptimizer(0.5, v1.train.get_or_create_global_step(), **REGULAR),
}


def network(kind):
    """Two layers; the placeholders, the loss and the feeds."""
    x = v1.placeholder(tf.float32, [None, 5], name="x")
    labels = v1.placeholder(tf.int32, [None], name="labels")
    layers = Layers(kind, 0.5)
    loss = sparse_loss(layers.dense("out", layers.dense("hidden", x, 7, tf.tanh), 3), labels)
    feeds = {
        x: [floats(f"rows {i}", [6, 5]) for i in range(2)],
        labels: [whole(f"labels {i}", [6], 3) for i in range(2)],
    }
    return loss, feeds


def optimizer(g, kind, which):
    """Ten steps of a small network; all slots are looked at."""
    loss, feeds = network(kind)
    train(g, OPTIMIZERS[which]().minimize(loss, v1.train.get_or_create_global_step()), [loss], feeds)


def by_raw_op(g, kind, op, slots, settings):
    """An update that no class of tf.train has: one step is one op on each variable."""
    loss, feeds = network(kind)
    variables = v1.trainable_variables()
    gradients = tf.gradients(loss, variables)
    updates = []
    for v, gradient in zip(variables, gradients):
        zeros = {"kind": kind, "initializer": v1.zeros_initializer(), "trainable": False}
        given = {s: variable(f"{v.op.name}/{s}", v.shape, **zeros) for s in slots} | {"var": v}
        handles = {k: s.handle if kind == "resource" else s._ref() for k, s in given.items()}
        update = getattr(raw, ("Resource" if kind == "resource" else "") + op)
        # All gradients are there before the first update, which would change the values that others read.
        with tf.control_dependencies([loss, *gradients]):
            updates.append(update(grad=gradient, **handles, **settings))
    train(g, tf.group(*updates), [loss], feeds)


SIGNS = {"lr": 0.05, "sign_decay": 0.9, "beta": 0.8}
RAW = {
    "adamax": {
        "op": "ApplyAdaMax",
        "slots": ["m", "v"],
        "settings": {"beta1_power": 0.9, "lr": 0.05, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-4},
    },
    "add_sign": {"op": "ApplyAddSign", "slots": ["m"], "settings": SIGNS | {"alpha": 1.5}},
    "power_sign": {"op": "ApplyPowerSign", "slots": ["m"], "settings": SIGNS | {"logbase": 1.5}},
}

for _kind in KINDS:
    for _name in OPTIMIZERS:
        golden(f"optimizer_{_name}_{_kind}", rel=1e-4, kind=_kind, which=_name)(optimizer)
    for _name, _raw in RAW.items():
        golden(f"optimizer_{_name}_{_kind}", rel=1e-4, kind=_kind, **_raw)(by_raw_op)


def around(g, kind):
    """A decaying rate, gradients clipped by their global norm, averages of variables, a count of steps."""
    loss, feeds = network(kind)
    count = v1.train.get_or_create_global_step()
    rate = v1.train.exponential_decay(0.5, count, 3, 0.7)
    inner = v1.train.MomentumOptimizer(rate, 0.9)
    gradients, variables = zip(*inner.compute_gradients(loss))
    gradients, norm = tf.clip_by_global_norm(gradients, 0.3)
    first, second, *rest = gradients
    gradients = [tf.clip_by_norm(first, 0.1), tf.clip_by_value(second, -0.05, 0.05), *rest]
    step = inner.apply_gradients(zip(gradients, variables), count)
    averages = v1.train.ExponentialMovingAverage(0.9, count, zero_debias=False)
    with tf.control_dependencies([step]):
        step = averages.apply(variables)
    train(g, step, [loss, norm], feeds)
    g.step(count, rate, *digests(averages.average(v) for v in variables))


def unbiased(g, kind):
    """Averages without bias, of variables and of a value that is fed."""
    x = v1.placeholder(tf.float32, [2], name="x")
    weight = variable("weight", [2], kind)
    averages = v1.train.ExponentialMovingAverage(0.8, zero_debias=True)
    value = tf.identity(x * 2.0, name="value")
    step = averages.apply([weight, value])
    moved = v1.assign(weight, x)
    g.init_variables()
    for i in range(4):
        feeds = {x: floats(f"averaged {i}", [2])}
        g.step(feeds=feeds, run=moved)
        g.step(feeds=feeds, run=step)
        g.step(averages.average(weight), averages.average(value))


for _kind in KINDS:
    golden(f"decay_clip_average_{_kind}", rel=1e-4, kind=_kind)(around)
    golden(f"moving_average_{_kind}", kind=_kind)(unbiased)


@golden("schedules")
def schedules(g):
    """Every schedule at several steps, as the nodes that tf.train makes of it."""
    step = v1.placeholder(tf.int64, [], name="step")
    t = v1.train
    rates = [
        t.exponential_decay(0.1, step, 10, 0.9),
        t.exponential_decay(0.1, step, 10, 0.9, staircase=True),
        t.natural_exp_decay(0.1, step, 10, 0.5),
        t.inverse_time_decay(0.1, step, 10, 0.5, staircase=True),
        t.polynomial_decay(0.1, step, 30, 0.001, 2.0),
        t.polynomial_decay(0.1, step, 30, 0.01, 0.5, cycle=True),
        t.cosine_decay(0.1, step, 40, 0.1),
        t.cosine_decay_restarts(0.1, step, 20),
        t.linear_cosine_decay(0.1, step, 40),
        t.piecewise_constant(step, [np.int64(b) for b in (5, 20, 60)], [0.1, 0.05, 0.01, 0.001]),
    ]
    for number in (0, 1, 5, 6, 19, 20, 31, 60, 61, 100):
        g.step(*rates, feeds={step: i64(number)})
