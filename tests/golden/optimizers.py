"""Optimizers that are given gradients, averages of weights, and warm-up."""

import keras
import numpy as np
import tf_keras
from tensorflow.python.eager import context

from encode import dumps, tensor
from harness import session
from reference import f32, f64, tf, v1
from traces import FLOAT, STEPS, TOLERANCE, draw

COUNT = 6
DIMS = {"w": [2, 3], "b": []}
# Keras rounds some numbers to f32 and others not, and its 1 - beta is that of Python. These are exact.
KERAS = {"learning_rate": 2.0**-5, "beta_1": 0.875, "beta_2": 0.9375, "epsilon": 2.0**-20}
DECAY = {"weight_decay": 2.0**-6}
BUT_B = {"exclude": ["b"]}
LARS = {"learning_rate": 0.25, "momentum": 0.875, "nesterov": False, "trust_coefficient": 0.5}

# label: (module, class or function, arguments). Of "default", which are in f32, the rest is the default.
OPTIMIZERS = {
    "adadelta": ("v1", "AdadeltaOptimizer", {"learning_rate": 0.5, "rho": 0.9, "epsilon": 1e-6}),
    "adadelta_default": ("v1", "AdadeltaOptimizer", {"learning_rate": 0.01}),
    "ftrl": ("v1", "FtrlOptimizer", {"learning_rate": 0.1, "initial_accumulator_value": 0.25}),
    "ftrl_default": ("v1", "FtrlOptimizer", {"learning_rate": 0.01}),
    "ftrl_penalties": (
        "v1",
        "FtrlOptimizer",
        {
            "learning_rate": 0.1,
            "learning_rate_power": -0.25,
            "l1_regularization_strength": 0.5,
            "l2_regularization_strength": 0.25,
            "beta": 0.75,
        },
    ),
    "ftrl_shrinkage": (
        "v1",
        "FtrlOptimizer",
        {
            "learning_rate": 0.1,
            "l1_regularization_strength": 0.25,
            "l2_shrinkage_regularization_strength": 0.125,
        },
    ),
    "adamax": ("tf_keras", "Adamax", KERAS),
    "adamax_default": ("tf_keras", "Adamax", {"learning_rate": 0.01}),
    "nadam": ("tf_keras", "Nadam", KERAS),
    "nadam_default": ("tf_keras", "Nadam", {"learning_rate": 0.01}),
    "adamw": ("tf_keras", "AdamW", KERAS | DECAY),
    "adamw_excluded": ("tf_keras", "AdamW", KERAS | DECAY | BUT_B),
    "adamw_default": ("tf_keras", "AdamW", {"learning_rate": 0.01}),
    "sgdw": ("tf_keras", "SGD", {"learning_rate": 2.0**-5, "momentum": 0.875, "nesterov": False} | DECAY | BUT_B),
    "sgdw_nesterov": ("tf_keras", "SGD", {"learning_rate": 2.0**-5, "momentum": 0.875, "nesterov": True} | DECAY),
    "lamb": ("keras", "Lamb", KERAS),
    "lamb_default": ("keras", "Lamb", {"learning_rate": 0.01}),
    "lamb_decay": ("paper", "lamb", KERAS | DECAY),
    "lamb_excluded": ("paper", "lamb", KERAS | DECAY | BUT_B),
    "lars": ("paper", "lars", LARS | {"weight_decay": 0.0}),
    "lars_decay": ("paper", "lars", LARS | DECAY),
    "lars_nesterov": ("paper", "lars", LARS | DECAY | {"nesterov": True}),
    "lars_excluded": ("paper", "lars", LARS | DECAY | BUT_B),
}


def optimizer_lines():
    """Lines of training.jsonl.gz, after those of traces.py."""
    lines = []
    for name, dtype in FLOAT.items():
        wanted = [label for label in OPTIMIZERS if name == "f32" or not label.endswith("_default")]
        lines += [optimizer(name, dtype, label) for label in wanted]
        lines += [moving_average(name, dtype, label) for label in MOVING_AVERAGES]
    return [dumps(line) for line in lines + list(warmups())]


def optimizer(name, dtype, label):
    """A matrix and a scalar, which is zero at first; the gradient of one element is always zero."""
    module, kind, settings = OPTIMIZERS[label]
    start = {"w": draw("optimizer w", dtype, DIMS["w"], -1, 1), "b": dtype(0)}
    gradients = {k: draw(f"optimizer {k} gradients", dtype, [COUNT, *dims], -1, 1) for k, dims in DIMS.items()}
    gradients["w"][:, 0, 0] = 0
    run = {"v1": in_graph, "tf_keras": in_tf_keras, "keras": in_keras, "paper": by_paper}[module]
    weights, slots = run(kind, settings, start, gradients)
    tolerance = TOLERANCE[name]
    if label.endswith("_default"):
        # Python's 1 - 0.999 is not that of f32.
        tolerance = {"rel": 1e-4, "abs": 1e-6}
    if label == "nadam" and name == "f64":
        # State shared by all variables is f32.
        tolerance = {"rel": 1e-6, "abs": 1e-7}
    return {
        "name": f"optimizer/{name}_{label}",
        "kind": "optimizer",
        "optimizer": {"class": kind} | settings,
        "initial": {k: tensor(v) for k, v in start.items()},
        "gradients": {k: tensor(v) for k, v in gradients.items()},
        "weights": {k: tensor(np.array(v, dtype)) for k, v in weights.items()},
        "slots": {k: [tensor(np.asarray(s, dtype)) for s in v] for k, v in slots.items()},
        "tolerance": tolerance,
    }


def rows(gradients):
    """The gradients of each step."""
    return [{k: v[i] for k, v in gradients.items()} for i in range(COUNT)]


def in_graph(kind, settings, start, gradients):
    """By a class of `tf.compat.v1.train`: the weights after each step, and the slots after the last."""
    names = {"AdadeltaOptimizer": ("accum", "accum_update"), "FtrlOptimizer": ("accum", "linear")}[kind]
    weights = {k: [] for k in start}
    with tf.Graph().as_default() as graph:
        variables = {k: v1.get_variable(k, initializer=v, use_resource=True) for k, v in start.items()}
        places = {k: v1.placeholder(v.dtype, v.shape) for k, v in variables.items()}
        made = getattr(v1.train, kind)(**settings)
        train = made.apply_gradients([(places[k], v) for k, v in variables.items()])
        slots = {k: [made.get_slot(v, n) for n in names] for k, v in variables.items()}
        with session(graph) as sess:
            sess.run(v1.global_variables_initializer())
            for row in rows(gradients):
                sess.run(train, {places[k]: v for k, v in row.items()})
                for k, v in sess.run(variables).items():
                    weights[k].append(v)
            return weights, sess.run(slots)


def in_tf_keras(kind, settings, start, gradients):
    """By a class of `tf_keras.optimizers`."""
    settings = dict(settings)
    excluded = settings.pop("exclude", None)
    with context.eager_mode():
        variables = {k: tf.Variable(v, name=k) for k, v in start.items()}
        made = getattr(tf_keras.optimizers, kind)(**settings)
        if excluded:
            made.exclude_from_weight_decay(var_names=excluded)
        made.build(list(variables.values()))
        weights = {k: [] for k in start}
        for row in rows(gradients):
            made.apply_gradients([(tf.constant(row[k]), v) for k, v in variables.items()])
            for k, v in variables.items():
                weights[k].append(v.numpy())
        lists = {
            "Adamax": lambda: (made._m, made._u),
            "Nadam": lambda: (made._momentums, made._velocities),
            "AdamW": lambda: (made._momentums, made._velocities),
            # Keras keeps the step, with its sign; we keep the factor of the rate.
            "SGD": lambda: ([m / -settings["learning_rate"] for m in made.momentums],),
        }[kind]()
        return weights, {k: [one[i].numpy() for one in lists] for i, k in enumerate(variables)}


def in_keras(kind, settings, start, gradients):
    """By a class of `keras.optimizers`."""
    with context.eager_mode():
        variables = {k: keras.Variable(v, dtype=v.dtype.name, name=k) for k, v in start.items()}
        made = getattr(keras.optimizers, kind)(**settings)
        made.build(list(variables.values()))
        weights = {k: [] for k in start}
        for row in rows(gradients):
            made.apply([tf.constant(row[k]) for k in variables], list(variables.values()))
            for k, v in variables.items():
                weights[k].append(v.numpy())
        lists = (made._momentums, made._velocities)
        return weights, {k: [one[i].numpy() for one in lists] for i, k in enumerate(variables)}


def by_paper(kind, settings, start, gradients):
    """By a paper's formula, in f64."""
    weights, slots = {}, {}
    for k in start:
        settings = settings | {"follows": k not in settings.get("exclude", ())}
        rule = {"lamb": Lamb, "lars": Lars}[kind](settings)
        w, weights[k] = f64(start[k]), []
        for t, gradient in enumerate(f64(gradients[k]), 1):
            w = w - rule.step(t, w, gradient)
            weights[k].append(w)
        slots[k] = rule.slots
    return weights, slots


def norm(x):
    """Of all elements."""
    return np.sqrt(np.sum(np.square(x)))


class Lamb:
    """Algorithm 2 of https://arxiv.org/abs/1904.00962."""

    def __init__(self, settings):
        self.settings, self.slots = settings, [f64(0), f64(0)]

    def step(self, t, w, gradient):
        """The amount subtracted from `w` at step `t`, from 1."""
        s = self.settings
        beta1, beta2 = s["beta_1"], s["beta_2"]
        m = beta1 * self.slots[0] + (1 - beta1) * gradient
        v = beta2 * self.slots[1] + (1 - beta2) * gradient**2
        self.slots = [m, v]
        r = (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + s["epsilon"])
        if not s["follows"]:
            return s["learning_rate"] * r
        u = r + s["weight_decay"] * w
        ratio = norm(w) / norm(u) if norm(w) > 0 and norm(u) > 0 else 1
        return s["learning_rate"] * ratio * u


class Lars:
    """Algorithm 1 of https://arxiv.org/abs/1708.03888."""

    def __init__(self, settings):
        self.settings, self.slots = settings, [f64(0)]

    def step(self, _, w, gradient):
        """The amount subtracted from `w`."""
        s = self.settings
        decay = s["weight_decay"] if s["follows"] else 0
        local = 1
        if s["follows"] and norm(w) > 0 and norm(gradient) > 0:
            local = s["trust_coefficient"] * norm(w) / (norm(gradient) + decay * norm(w))
        now = s["learning_rate"] * local * (gradient + decay * w)
        v = s["momentum"] * self.slots[0] + now
        self.slots = [v]
        return now + s["momentum"] * v if s["nesterov"] else v


# label: (decay, True if the global step is given)
MOVING_AVERAGES = {"plain": (0.75, False), "by_step": (0.375, True)}


def moving_average(name, dtype, label):
    """Variables that given numbers are added to, and their averages after each step."""
    decay, by_step = MOVING_AVERAGES[label]
    start = {k: draw(f"average {k}", dtype, dims, -1, 1) for k, dims in DIMS.items()}
    added = {k: draw(f"average {k} added", dtype, [COUNT, *dims], -1, 1) for k, dims in DIMS.items()}
    averages = {k: [] for k in start}
    with tf.Graph().as_default() as graph:
        variables = {k: v1.get_variable(k, initializer=v, use_resource=True) for k, v in start.items()}
        places = {k: v1.placeholder(v.dtype, v.shape) for k, v in variables.items()}
        step = v1.train.create_global_step()
        kept = tf.train.ExponentialMovingAverage(decay, num_updates=step if by_step else None)
        updates = [v.assign_add(places[k]) for k, v in variables.items()] + [step.assign_add(1)]
        with tf.control_dependencies(updates):
            apply = kept.apply(list(variables.values()))
        found = {k: kept.average(v) for k, v in variables.items()}
        assert found["w"].op.name == "w/ExponentialMovingAverage", found["w"].op.name
        with session(graph) as sess:
            sess.run(v1.global_variables_initializer())
            for row in rows(added):
                sess.run(apply, {places[k]: v for k, v in row.items()})
                for k, v in sess.run(found).items():
                    averages[k].append(v)
    return {
        "name": f"moving_average/{name}_{label}",
        "kind": "moving_average",
        "decay": decay,
        "by_step": by_step,
        "initial": {k: tensor(v) for k, v in start.items()},
        "added": {k: tensor(v) for k, v in added.items()},
        "averages": {k: tensor(np.array(v, dtype)) for k, v in averages.items()},
        # The decay is f32.
        "tolerance": {"f32": TOLERANCE["f32"], "f64": {"rel": 1e-11, "abs": 1e-12}}[name],
    }


def warmups():
    """Warm-up to a rate that then decays, at the same global steps as other schedules, in f32."""
    settings = [
        {"learning_rate": 0.5, "warmup_steps": 10, "start": 0.0, "decay_steps": 40, "alpha": 0.1},
        {"learning_rate": 0.1, "warmup_steps": 30, "start": 0.02, "decay_steps": 30, "alpha": 0.0},
    ]
    for index, s in enumerate(settings):
        with context.eager_mode():
            rate = tf_keras.optimizers.schedules.CosineDecay(
                s["start"],
                s["decay_steps"],
                alpha=s["alpha"],
                warmup_target=s["learning_rate"],
                warmup_steps=s["warmup_steps"],
            )
            values = np.array([rate(step).numpy() for step in STEPS], f32)
        yield {
            "name": f"linear_warmup/{index}",
            "kind": "decay",
            "function": "linear_warmup",
            "arguments": s,
            "steps": tensor(STEPS),
            "values": tensor(values),
            "tolerance": {"rel": 1e-5, "abs": 1e-8},
        }
