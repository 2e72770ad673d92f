"""Layers of tf.compat.v1.layers, and of Keras 2 where that has none, each in a graph of its own."""

import tf_keras

import numpy as np

from encode import tensor
from harness import session
from inputs import generator, rnd
from reference import tf, v1

TYPES = {"f16": tf.float16, "f32": tf.float32, "f64": tf.float64, "i32": tf.int32, "i64": tf.int64, "bool": tf.bool}
TOLERANCE = {
    "f16": {"rel": 1e-2, "abs": 1e-2},
    "f32": {"rel": 1e-5, "abs": 1e-5},
    "f64": {"rel": 1e-11, "abs": 1e-11},
}


def initializer(what):
    """The initializer of a description: its class, and its arguments."""
    arguments = {key: value for key, value in what.items() if key != "class"}
    return getattr(v1.initializers, what["class"])(**arguments)


def regularizer(what):
    """The regularizer of factors l1 and l2."""
    return tf_keras.regularizers.L1L2(**what)


SEEDED = {"kernel_initializer": {"class": "glorot_uniform", "seed": 5}}
L2 = {"kernel_regularizer": {"l1": 0.0, "l2": 0.3}}

# Special cases: (type, options, placeholder's dimensions, options of the run)
CASES = {
    "dense/plain": ("dense", {"units": 4} | SEEDED, [3, 5], {}),
    "dense/batch of unknown size": ("dense", {"units": 4} | SEEDED, [None, 5], {}),
    "dense/rank 3": ("dense", {"units": 2} | SEEDED, [2, 3, 4], {}),
    "dense/rank 4, two unknown": ("dense", {"units": 2} | SEEDED, [None, 3, None, 4], {}),
    "dense/f64": ("dense", {"units": 3} | SEEDED, [2, 4], {"dtype": "f64"}),
    "dense/without bias": ("dense", {"units": 3, "use_bias": False} | SEEDED, [2, 4], {}),
    "dense/named": ("dense", {"units": 3, "name": "fc"} | SEEDED, [2, 4], {}),
    "dense/frozen": ("dense", {"units": 3, "trainable": False} | SEEDED, [2, 4], {}),
    "dense/regularizers": ("dense", {"units": 3, "bias_regularizer": {"l1": 0.1, "l2": 0.2}} | SEEDED | L2, [2, 4], {}),
    "dense/initializers": (
        "dense",
        {
            "units": 6,
            "kernel_initializer": {"class": "he_normal", "seed": 1},
            "bias_initializer": {"class": "constant", "value": 0.25},
        },
        [2, 4],
        {},
    ),
    "dense/its regularizer beside the scope's": (
        "dense",
        {"units": 3} | SEEDED | L2,
        [2, 4],
        {"scope": {"regularizer": {"l1": 0.5, "l2": 0.0}}},
    ),
    "dense/scope's regularizer": ("dense", {"units": 3} | SEEDED, [2, 4], {"scope": {"regularizer": {"l1": 0.5, "l2": 0.0}}}),
    "dense/scope's initializer": ("dense", {"units": 3}, [2, 4], {"scope": {"initializer": {"class": "random_normal", "seed": 9}}}),
    "conv2d/plain": ("conv2d", {"filters": 3, "kernel_size": [3, 3]} | SEEDED, [2, 6, 5, 2], {}),
    "conv2d/same, strides": (
        "conv2d",
        {"filters": 3, "kernel_size": [2, 3], "strides": [2, 1], "padding": "same"} | SEEDED | L2,
        [None, 6, 5, 2],
        {},
    ),
    "conv2d/unknown size": ("conv2d", {"filters": 2, "kernel_size": [3, 3]} | SEEDED, [None, None, None, 2], {"actual": [1, 5, 4, 2]}),
    "conv2d/dilated": (
        "conv2d",
        {"filters": 3, "kernel_size": [2, 2], "dilation_rate": [2, 3]} | SEEDED,
        [2, 6, 7, 2],
        {"without_gradients": True},
    ),
    "conv2d/without bias": ("conv2d", {"filters": 2, "kernel_size": [1, 1], "use_bias": False} | SEEDED, [1, 3, 3, 2], {}),
    "conv2d/f64": ("conv2d", {"filters": 2, "kernel_size": [2, 2]} | SEEDED, [1, 4, 3, 2], {"dtype": "f64"}),
    "depthwise_conv2d/plain": (
        "depthwise_conv2d",
        {"kernel_size": [3, 2], "depthwise_initializer": {"class": "glorot_uniform", "seed": 5}},
        [2, 5, 4, 3],
        {},
    ),
    "depthwise_conv2d/multiplier": (
        "depthwise_conv2d",
        {
            "kernel_size": [2, 2],
            "strides": [2, 2],
            "padding": "same",
            "depth_multiplier": 2,
            "depthwise_initializer": {"class": "he_uniform", "seed": 6},
        },
        [2, 5, 4, 3],
        {},
    ),
    "separable_conv2d/plain": (
        "separable_conv2d",
        {
            "filters": 4,
            "kernel_size": [3, 3],
            "depthwise_initializer": {"class": "glorot_uniform", "seed": 5},
            "pointwise_initializer": {"class": "glorot_uniform", "seed": 6},
        },
        [2, 5, 5, 2],
        {},
    ),
    "separable_conv2d/multiplier": (
        "separable_conv2d",
        {
            "filters": 3,
            "kernel_size": [3, 3],
            "strides": [2, 2],
            "padding": "same",
            "depth_multiplier": 3,
            "depthwise_initializer": {"class": "glorot_normal", "seed": 5},
            "pointwise_initializer": {"class": "he_normal", "seed": 6},
            "depthwise_regularizer": {"l1": 0.2, "l2": 0.0},
            "pointwise_regularizer": {"l1": 0.0, "l2": 0.1},
        },
        [2, 6, 5, 2],
        {},
    ),
    "separable_conv2d/dilated": (
        "separable_conv2d",
        {
            "filters": 2,
            "kernel_size": [2, 2],
            "dilation_rate": [2, 2],
            "depthwise_initializer": {"class": "glorot_uniform", "seed": 5},
            "pointwise_initializer": {"class": "glorot_uniform", "seed": 6},
        },
        [1, 6, 6, 2],
        {},
    ),
    "conv2d_transpose/valid": ("conv2d_transpose", {"filters": 3, "kernel_size": [3, 2], "strides": [2, 3]} | SEEDED, [2, 3, 2, 2], {}),
    "conv2d_transpose/same": (
        "conv2d_transpose",
        {"filters": 2, "kernel_size": [3, 3], "strides": [2, 2], "padding": "same"} | SEEDED | L2,
        [None, 3, 4, 2],
        {},
    ),
    "conv2d_transpose/unknown size": (
        "conv2d_transpose",
        {"filters": 2, "kernel_size": [5, 5], "strides": [2, 1]} | SEEDED,
        [None, None, 2, 1],
        {},
    ),
    "max_pool/valid": ("max_pool", {"pool_size": [2, 2], "strides": [2, 2]}, [2, 5, 4, 2], {}),
    "max_pool/same": ("max_pool", {"pool_size": [3, 2], "strides": [2, 1], "padding": "same"}, [2, 5, 4, 2], {}),
    "avg_pool/valid": ("avg_pool", {"pool_size": [2, 3], "strides": [1, 2]}, [2, 5, 5, 2], {}),
    "avg_pool/same": ("avg_pool", {"pool_size": [3, 3], "strides": [2, 2], "padding": "same"}, [2, 5, 4, 2], {}),
    "embedding/plain": ("embedding", {"rows": 7, "width": 3, "initializer": {"class": "random_uniform", "minval": -0.05, "maxval": 0.05, "seed": 3}}, [2, 4], {"dtype": "i32"}),
    "embedding/scalars": ("embedding", {"rows": 7, "width": 2, "initializer": {"class": "random_normal", "seed": 3}}, [None], {"dtype": "i64"}),
    "layer_norm/plain": ("layer_norm", {}, [3, 5], {}),
    "layer_norm/rank 3": ("layer_norm", {"epsilon": 0.1}, [None, 3, 4], {}),
    "layer_norm/without weights": ("layer_norm", {"center": False, "scale": False}, [3, 5], {}),
    "layer_norm/f64": ("layer_norm", {}, [3, 5], {"dtype": "f64"}),
    "dropout/used": ("dropout", {"rate": 0.5, "seed": 3}, [4, 5], {}),
}
for how in (True, False, "fed"):
    CASES |= {
        f"dropout/training {how}, {rate}": ("dropout", {"rate": rate, "seed": 3}, [6, 7], {"training": how})
        for rate in (0.5, 0.2)
    }
    CASES |= {
        f"batch_norm/images, training {how}": ("batch_norm", {}, [3, 4, 2, 3], {"training": how}),
        f"batch_norm/rows, training {how}": ("batch_norm", {"momentum": 0.9, "epsilon": 0.01}, [None, 4], {"training": how}),
        f"batch_norm/rank 3, training {how}": ("batch_norm", {}, [2, 5, 3], {"training": how}),
        f"batch_norm/f64, training {how}": ("batch_norm", {}, [2, 3, 4, 2], {"training": how, "dtype": "f64"}),
        f"batch_norm/f16, training {how}": ("batch_norm", {}, [2, 3, 4, 2], {"training": how, "dtype": "f16", "without_gradients": True}),
        f"batch_norm/without weights, training {how}": (
            "batch_norm",
            {"center": False, "scale": False},
            [3, 4, 2, 3],
            {"training": how},
        ),
        f"batch_norm/rows without scale, training {how}": ("batch_norm", {"scale": False}, [5, 2], {"training": how}),
    }
CASES |= {
    "batch_norm/initializers and regularizers": (
        "batch_norm",
        {
            "gamma_initializer": {"class": "random_normal", "mean": 1.0, "stddev": 0.1, "seed": 3},
            "beta_initializer": {"class": "constant", "value": 0.5},
            "gamma_regularizer": {"l1": 0.0, "l2": 0.2},
            "beta_regularizer": {"l1": 0.3, "l2": 0.0},
            "name": "norm",
        },
        [3, 4, 2, 3],
        {"training": True},
    ),
    "batch_norm/scope's regularizer": ("batch_norm", {}, [3, 4, 2, 3], {"training": True, "scope": {"regularizer": {"l1": 0.0, "l2": 0.5}}}),
}


def apply(kind, options, x, training):
    """The layer on x."""
    arguments = dict(options)
    for key, value in options.items():
        if key.endswith("initializer"):
            arguments[key] = initializer(value)
        elif key.endswith("regularizer"):
            arguments[key] = regularizer(value)
    if kind in ("dense", "conv2d", "separable_conv2d", "conv2d_transpose"):
        return getattr(v1.layers, kind)(x, **arguments)
    if kind == "depthwise_conv2d":
        return tf_keras.layers.DepthwiseConv2D(**arguments)(x)
    if kind in ("max_pool", "avg_pool"):
        pool = {"max_pool": v1.layers.max_pooling2d, "avg_pool": v1.layers.average_pooling2d}
        return pool[kind](x, **arguments)
    if kind == "embedding":
        given = {"embeddings_initializer": arguments["initializer"]}
        return tf_keras.layers.Embedding(arguments["rows"], arguments["width"], **given)(x)
    if kind == "layer_norm":
        return tf_keras.layers.LayerNormalization(**arguments, dtype=x.dtype)(x)
    layer = {"dropout": v1.layers.dropout, "batch_norm": v1.layers.batch_normalization}
    return layer[kind](x, **arguments, training=training)


def in_scope(scope, build):
    """The result of `build`, in a variable scope where there is one."""
    if not scope:
        return build()
    arguments = {}
    if "initializer" in scope:
        arguments["initializer"] = initializer(scope["initializer"])
    if "regularizer" in scope:
        arguments["regularizer"] = regularizer(scope["regularizer"])
    with v1.variable_scope("around", **arguments):
        return build()


def run(name, kind, options, dims, how):
    """One layer: initial values, outputs for given weights, gradients of a weighted sum."""
    rng = generator(name)
    dtype = how.get("dtype", "f32")
    numpy = TYPES[dtype].as_numpy_dtype
    actual = how.get("actual", [d or 2 for d in dims])
    draw = lambda dims, lo=-2, hi=2: rnd(np.float64, dims, lo, hi).draw(rng)  # noqa: E731
    if kind == "embedding":
        value = rng.integers(0, options["rows"], actual).astype(numpy)
    else:
        value = draw(actual).astype(numpy)
    training = how.get("training", False)
    line = {"name": name, "layer": kind, "options": options, "dims": [-1 if d is None else d for d in dims], "training": training}
    line["scope"] = how.get("scope")
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(TYPES[dtype], dims)
        feeds = {x: value}
        if training == "fed":
            training = v1.placeholder(tf.bool, [])
        y = in_scope(how.get("scope"), lambda: apply(kind, options, x, training))
        variables = v1.global_variables()
        trained = v1.trainable_variables()
        losses = v1.losses.get_regularization_losses()
        updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
        with session(graph) as sess:
            sess.run([v.initializer for v in variables])
            initial = sess.run(variables)
            given = []
            for v in variables:
                low = 0.5 if "variance" in v.name else -1
                given.append(draw(v.shape.as_list(), low, 1).astype(v.dtype.as_numpy_dtype))
                v.load(given[-1], sess)
            line["input"] = tensor(value)
            line["variables"] = [
                {"name": v.op.name, "trainable": any(v is t for t in trained), "initial": tensor(i), "given": tensor(g)}
                for v, i, g in zip(variables, initial, given)
            ]
            line["regularization"] = [tensor(sess.run(loss)) for loss in losses]
            line["runs"] = []
            for on in (False, True) if how.get("training") == "fed" else (None,):
                one = {}
                if on is not None:
                    one["training"] = on
                    feeds[training] = on
                line["runs"].append(one | one_run(sess, x, y, trained, feeds, updates, variables, how, draw))
    kind = y.dtype.base_dtype.name
    line["tolerance"] = TOLERANCE[{"float16": "f16", "float32": "f32", "float64": "f64"}[kind]]
    return line


def one_run(sess, x, y, trained, feeds, updates, variables, how, draw):
    """The output and the gradients of one step, and the variables after the updates, which are another."""
    fetches, found = [y], {}
    if not how.get("without_gradients"):
        # A random op must not run for the shape alone.
        shape = y.shape.as_list() if y.shape.is_fully_defined() else sess.run(y, feeds).shape
        weights = draw(shape).astype(y.dtype.as_numpy_dtype)
        found["weights"] = tensor(weights)
        float_input = [x] if x.dtype.is_floating else []
        grads = tf.gradients(tf.reduce_sum(y * weights), float_input + trained)
        fetches += [tf.convert_to_tensor(g) for g in grads]
    output, *grads = sess.run(fetches, feeds)
    found |= {"output": tensor(output), "grads": [tensor(g) for g in grads]}
    if updates:
        sess.run(updates, feeds)
        found["after"] = [tensor(v) for v in sess.run(variables)]
    return found


def lines():
    for name, (kind, options, dims, how) in CASES.items():
        yield run(name, kind, options, dims, how)
