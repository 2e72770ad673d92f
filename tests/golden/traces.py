"""Short training runs and the functions round them: clipping and learning-rate decay."""

import numpy as np

from encode import dumps, tensor
from harness import session
from inputs import generator, rnd
from reference import f32, f64, i64, tf, v1

FLOAT = {"f32": f32, "f64": f64}
TOLERANCE = {"f32": {"rel": 1e-5, "abs": 1e-6}, "f64": {"rel": 1e-11, "abs": 1e-12}}

# label: (v1.train class, its arguments)
OPTIMIZERS = {
    "gradient_descent": ("GradientDescentOptimizer", {"learning_rate": 0.1}),
    "momentum": ("MomentumOptimizer", {"learning_rate": 0.05, "momentum": 0.9, "use_nesterov": False}),
    "momentum_nesterov": (
        "MomentumOptimizer",
        {"learning_rate": 0.05, "momentum": 0.9, "use_nesterov": True},
    ),
    "adam": ("AdamOptimizer", {"learning_rate": 0.01, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}),
    "adagrad": ("AdagradOptimizer", {"learning_rate": 0.05, "initial_accumulator_value": 0.1}),
    "rmsprop": (
        "RMSPropOptimizer",
        {"learning_rate": 0.01, "decay": 0.9, "momentum": 0.0, "epsilon": 1e-6, "centered": False},
    ),
    "rmsprop_momentum": (
        "RMSPropOptimizer",
        {"learning_rate": 0.005, "decay": 0.9, "momentum": 0.9, "epsilon": 1e-6, "centered": False},
    ),
    "rmsprop_centered": (
        "RMSPropOptimizer",
        {"learning_rate": 0.005, "decay": 0.9, "momentum": 0.5, "epsilon": 1e-6, "centered": True},
    ),
}


def trace_lines():
    """All lines of training.jsonl.gz."""
    lines = []
    for name, dtype in FLOAT.items():
        lines.append(linear_regression(name, dtype))
        lines += [conv_net(name, dtype, label) for label in OPTIMIZERS]
        lines += clips(name, dtype)
    return [dumps(line) for line in lines + list(decays())]


def draw(name, dtype, dims, lo, hi):
    """A random tensor of a trace, the same digits in every float type."""
    return rnd(dtype, dims, lo, hi).draw(generator(name))


def linear_regression(name, dtype):
    """y = x * w + b, one (x, y) pair a step, the squared error as loss."""
    xs = draw("linear x", dtype, [20], -5, 5)
    noise = draw("linear noise", f64, [20], -0.5, 0.5)
    ys = np.round(3 * draw("linear x", f64, [20], -5, 5) + 2 + noise, 3).astype(dtype)
    with tf.Graph().as_default() as graph:
        x, y = v1.placeholder(dtype, []), v1.placeholder(dtype, [])
        w = v1.get_variable("weight", initializer=dtype(0), use_resource=True)
        b = v1.get_variable("bias", initializer=dtype(0), use_resource=True)
        loss = tf.square(y - (x * w + b))
        train = v1.train.GradientDescentOptimizer(0.001).minimize(loss)
        rows = []
        with session(graph) as sess:
            sess.run(v1.global_variables_initializer())
            for feed in zip(xs, ys):
                _, value = sess.run([train, loss], dict(zip((x, y), feed)))
                rows.append([value, *sess.run([w, b])])
    losses, ws, bs = np.array(rows, dtype).T
    return {
        "name": f"linear_regression/{name}",
        "kind": "linear_regression",
        "optimizer": {"class": "GradientDescentOptimizer", "learning_rate": 0.001},
        "x": tensor(xs),
        "y": tensor(ys),
        "losses": tensor(losses),
        "w": tensor(ws),
        "b": tensor(bs),
        "tolerance": TOLERANCE[name],
    }


def conv_net(name, dtype, label):
    """Conv 3x3 SAME to 4 channels, bias, relu, max pool 2x2, fully connected to 10, mean cross entropy."""
    kind, settings = OPTIMIZERS[label]
    images, labels = draw("net images", dtype, [8, 8, 8, 1], 0, 1), draw("net labels", i64, [8], 0, 9)
    start = {
        "conv_w": draw("net conv_w", dtype, [3, 3, 1, 4], -0.5, 0.5),
        "conv_b": draw("net conv_b", dtype, [4], 0, 0.2),
        "fc_w": draw("net fc_w", dtype, [64, 10], -0.3, 0.3),
        "fc_b": draw("net fc_b", dtype, [10], -0.1, 0.1),
    }
    with tf.Graph().as_default() as graph:
        weights = {k: v1.get_variable(k, initializer=v, use_resource=True) for k, v in start.items()}
        x, y = v1.placeholder(dtype, images.shape), v1.placeholder(tf.int64, labels.shape)
        hidden = tf.nn.bias_add(tf.nn.conv2d(x, weights["conv_w"], [1, 1, 1, 1], "SAME"), weights["conv_b"])
        hidden = tf.nn.max_pool2d(tf.nn.relu(hidden), 2, 2, "VALID")
        logits = tf.nn.bias_add(tf.matmul(tf.reshape(hidden, [8, 64]), weights["fc_w"]), weights["fc_b"])
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        train = getattr(v1.train, kind)(**settings).minimize(loss)
        with session(graph) as sess:
            sess.run(v1.global_variables_initializer())
            losses = [sess.run([train, loss], {x: images, y: labels})[1] for _ in range(10)]
            final = sess.run(weights)
    return {
        "name": f"conv_net/{name}_{label}",
        "kind": "conv_net",
        "optimizer": {"class": kind} | settings,
        "images": tensor(images),
        "labels": tensor(labels),
        "initial": {k: tensor(v) for k, v in start.items()},
        "losses": tensor(np.array(losses, dtype)),
        "final": {k: tensor(v) for k, v in final.items()},
        "tolerance": TOLERANCE[name],
    }


def clips(name, dtype):
    """clip_by_global_norm and clip_by_value."""
    lists = {
        "three_tensors": [
            draw("clip a", dtype, [3, 4], -2, 2),
            draw("clip b", dtype, [5], -2, 2),
            draw("clip c", dtype, [], -2, 2),
        ],
        "small": [draw("clip d", dtype, [2, 2], -0.1, 0.1), draw("clip e", dtype, [3], -0.1, 0.1)],
        "exactly_5": [np.array([3, 0], dtype), np.array([[4]], dtype)],
        "zeros": [np.zeros([3], dtype), np.zeros([2, 2], dtype)],
        "infinite": [np.array([1, np.inf], dtype), np.array([2], dtype)],
        "one_empty": [np.zeros([0, 3], dtype), np.array([30, 40], dtype)],
    }
    for label, values in lists.items():
        for clip_norm in (1.0, 5.0):
            with tf.Graph().as_default() as graph, session(graph) as sess:
                places = [v1.placeholder(v.dtype, v.shape) for v in values]
                clipped, norm = sess.run(tf.clip_by_global_norm(places, clip_norm), dict(zip(places, values)))
            yield {
                "name": f"clip_by_global_norm/{name}_{label}_to_{clip_norm:.0f}",
                "kind": "clip_by_global_norm",
                "inputs": [tensor(v) for v in values],
                "clip_norm": clip_norm,
                "outputs": [tensor(v) for v in clipped],
                "global_norm": tensor(norm),
                "tolerance": {"f32": {"rel": 1e-5, "abs": 1e-6}, "f64": {"rel": 1e-12, "abs": 1e-13}}[name],
            }
    value = draw("clip value", dtype, [3, 5], -2, 2)
    with tf.Graph().as_default() as graph, session(graph) as sess:
        out = sess.run(tf.clip_by_value(tf.constant(value), -0.5, 1.25))
    yield {
        "name": f"clip_by_value/{name}",
        "kind": "clip_by_value",
        "inputs": [tensor(value)],
        "low": -0.5,
        "high": 1.25,
        "outputs": [tensor(out)],
    }


DECAYS = {
    "exponential_decay": [
        {"learning_rate": 0.1, "decay_steps": 10, "decay_rate": 0.9, "staircase": False},
        {"learning_rate": 0.1, "decay_steps": 10, "decay_rate": 0.9, "staircase": True},
    ],
    "natural_exp_decay": [
        {"learning_rate": 0.1, "decay_steps": 10, "decay_rate": 0.5, "staircase": False},
        {"learning_rate": 0.1, "decay_steps": 10, "decay_rate": 0.5, "staircase": True},
    ],
    "inverse_time_decay": [
        {"learning_rate": 0.1, "decay_steps": 10, "decay_rate": 0.5, "staircase": False},
        {"learning_rate": 0.1, "decay_steps": 10, "decay_rate": 0.5, "staircase": True},
    ],
    "polynomial_decay": [
        {"learning_rate": 0.1, "decay_steps": 30, "end_learning_rate": 0.001, "power": 1.0, "cycle": False},
        {"learning_rate": 0.1, "decay_steps": 30, "end_learning_rate": 0.001, "power": 2.0, "cycle": False},
        {"learning_rate": 0.1, "decay_steps": 30, "end_learning_rate": 0.01, "power": 0.5, "cycle": True},
    ],
    "cosine_decay": [
        {"learning_rate": 0.1, "decay_steps": 40, "alpha": 0.0},
        {"learning_rate": 0.1, "decay_steps": 40, "alpha": 0.1},
    ],
    "piecewise_constant": [
        {"boundaries": [5, 20, 60], "values": [0.1, 0.05, 0.01, 0.001]},
        {"boundaries": [1], "values": [1.0, 0.5]},
    ],
}
STEPS = np.array(
    [0, 1, 2, 4, 5, 6, 9, 10, 11, 19, 20, 21, 29, 30, 31, 39, 40, 41, 59, 60, 61, 75, 90, 100, 1000], i64
)


def decays():
    """Every decay at a table of global steps, in f32."""
    for function, settings in DECAYS.items():
        for index, arguments in enumerate(settings):
            with tf.Graph().as_default() as graph, session(graph) as sess:
                step = v1.placeholder(tf.int64, [])
                given = dict(arguments)
                key = "x" if function == "piecewise_constant" else "global_step"
                rate = getattr(v1.train, function)(**given, **{key: step})
                rate = rate() if callable(rate) else rate
                values = np.array([sess.run(rate, {step: s}) for s in STEPS], f32)
            yield {
                "name": f"{function}/{index}",
                "kind": "decay",
                "function": function,
                "arguments": arguments,
                "steps": tensor(STEPS),
                "values": tensor(values),
                "tolerance": {"rel": 1e-5, "abs": 1e-8},
            }
