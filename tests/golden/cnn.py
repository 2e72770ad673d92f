#!/usr/bin/env python3
"""Losses and gradients of tf_cnn_benchmarks' networks, as TensorFlow computes them: `cnn.jsonl.gz`.

usage: cnn.py CHECKOUT [--models NAME,...] [--out FILE]

CHECKOUT is one of https://github.com/tensorflow/benchmarks. It takes tensorflow-cpu 2, tf-keras and tf-slim.

Variables and images have values that a formula gives by name and index, so that no file has to hold them: see `values`.
Nothing is dropped. A line for each model: its losses of three steps, the norm of each gradient in the first, and the
largest relative difference of all these from those with a millionth of noise in the images.
"""

import argparse
import gzip
import json
import os
import sys
import zlib

os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np  # noqa: E402
import tensorflow.compat.v1 as tf  # noqa: E402

# Model, data, images of a step.
MODELS = [
    ("trivial", "imagenet", 4), ("lenet", "imagenet", 4), ("alexnet", "imagenet", 4),
    ("overfeat", "imagenet", 2), ("vgg11", "imagenet", 2), ("vgg16", "imagenet", 2),
    ("vgg19", "imagenet", 2), ("googlenet", "imagenet", 2), ("inception3", "imagenet", 4),
    ("inception4", "imagenet", 4), ("resnet50", "imagenet", 4), ("resnet101", "imagenet", 4),
    ("resnet152", "imagenet", 4), ("resnet50_v1.5", "imagenet", 4), ("resnet50_v2", "imagenet", 4),
    ("resnet101_v2", "imagenet", 4), ("resnet152_v2", "imagenet", 4), ("mobilenet", "imagenet", 4),
    ("nasnet", "imagenet", 4), ("trivial", "cifar10", 4), ("alexnet", "cifar10", 4),
    ("resnet20", "cifar10", 8), ("resnet32", "cifar10", 8), ("resnet44", "cifar10", 8),
    ("resnet56", "cifar10", 8), ("resnet110", "cifar10", 8), ("resnet20_v2", "cifar10", 8),
    ("resnet32_v2", "cifar10", 8), ("resnet56_v2", "cifar10", 8), ("densenet40_k12", "cifar10", 4),
    ("densenet100_k12", "cifar10", 4),
]
DECAY, STEPS = 4e-5, 3


def uniform(name, count):
    """Numbers from -1 to 1 that look random: by the name, and the index."""
    x = np.arange(count, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(zlib.crc32(name.encode()))
    for factor in (0x045D9F3B, 0x045D9F3B):
        x = (x ^ (x >> np.uint32(16))) * np.uint32(factor)
    x ^= x >> np.uint32(16)
    return x.astype(np.float64) / 2.0**31 - 1.0


def values(name, shape):
    """The value of a variable, according to the last part of its name."""
    x = uniform(name, int(np.prod(shape)))
    kind = name.split("/")[-1]
    if kind == "moving_mean":
        x = x * 0
    elif kind == "moving_variance":
        x = x * 0 + 1
    elif kind == "gamma":
        x = 1 + 0.1 * x
    elif len(shape) == 1:
        x = 0.05 * x
    else:
        # The variance 2 / inputs: a depthwise filter has those of its window alone.
        inputs = np.prod(shape[:-1]) if "depthwise" not in kind else np.prod(shape[:2])
        x = x * np.sqrt(6.0 / inputs)
    return x.reshape(shape).astype(np.float32)


def without_dropout(builder):
    """Layers that drop keep all."""
    def dropout(self, keep_prob=0.5, input_layer=None):
        if input_layer is not None:
            self.top_layer, self.top_size = input_layer, None
        return self.top_layer
    builder.ConvNetBuilder.dropout = dropout
    from models.tf1_only import nasnet_utils
    from tf_slim.ops import arg_scope

    def drop_path(net, keep_prob, is_training=True):
        return net
    nasnet_utils.drop_path = arg_scope.add_arg_scope(drop_path)
    import tf_slim

    def slim_dropout(inputs, *args, **kwargs):
        return inputs
    tf_slim.dropout = arg_scope.add_arg_scope(slim_dropout)


class Normalization:
    """tf.layers' batch normalization of channels that come last, as far as slim uses it."""

    def __init__(self, axis, momentum, epsilon, center, scale, _scope, **_):
        self.momentum, self.epsilon, self.has_gamma, self.scope = momentum, epsilon, scale, _scope
        self.updates = []

    def apply(self, inputs, training):
        depth = inputs.shape.as_list()[-1:]
        with tf.variable_scope(self.scope, auxiliary_name_scope=False):
            get = lambda name, value, trainable: tf.get_variable(
                name, depth, initializer=tf.constant_initializer(value), trainable=trainable)
            self.gamma = get("gamma", 1.0, True) if self.has_gamma else tf.ones(depth)
            self.beta = get("beta", 0.0, True)
            self.moving_mean = get("moving_mean", 0.0, False)
            self.moving_variance = get("moving_variance", 1.0, False)
        y, mean, variance = tf.nn.fused_batch_norm(
            inputs, self.gamma, self.beta, epsilon=self.epsilon, is_training=training)
        for average, value in ((self.moving_mean, mean), (self.moving_variance, variance)):
            update = average.assign_sub((average - value) * (1 - self.momentum))
            self.updates.append(update)
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
        return y


def with_contrib():
    """A stand-in for tensorflow.contrib: MobileNet and NASNet use its slim."""
    import types
    from tensorflow.python.keras import legacy_tf_layers
    from tensorflow.python.keras.legacy_tf_layers import base, convolutional, core, pooling
    # tf-slim looks for these in tf-keras, which has lost them.
    sys.modules["tf_keras.legacy_tf_layers"] = legacy_tf_layers
    for part in (base, convolutional, core, pooling):
        sys.modules["tf_keras.legacy_tf_layers." + part.__name__.split(".")[-1]] = part
    lost = types.ModuleType("tf_keras.legacy_tf_layers.normalization")
    lost.BatchNormalization = Normalization
    sys.modules[lost.__name__] = legacy_tf_layers.normalization = lost
    import tf_slim
    from tf_slim.ops import arg_scope

    def module(name, **members):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__dict__.update(members)
        return sys.modules[name]

    class HParams(dict):
        def __init__(self, **kwargs):
            super().__init__(kwargs)
            self.__dict__.update(kwargs)

        def set_hparam(self, key, value):
            setattr(self, key, value)

    framework = module("tensorflow.contrib.framework", arg_scope=arg_scope.arg_scope, add_arg_scope=arg_scope.add_arg_scope)
    training = module("tensorflow.contrib.training", HParams=HParams)
    contrib = module("tensorflow.contrib", slim=tf_slim, layers=tf_slim.layers, framework=framework, training=training)
    sys.modules["tensorflow.contrib.slim"] = tf_slim
    sys.modules["tensorflow.contrib.layers"] = tf_slim.layers
    import tensorflow
    tensorflow.contrib = contrib


def made(model_config, name, dataset, params):
    """The model; those of DenseNet take no parameters."""
    try:
        return model_config.get_model_config(name, dataset, params)
    except TypeError:
        model = model_config._get_model_map(dataset.name)[name]()
        model.params, model.data_format = params, params.data_format
        return model


def one(name, data, batch, modules):
    benchmark_cnn, datasets, model_config = modules
    tf.reset_default_graph()
    params = benchmark_cnn.make_params(
        model=name, data_name=data, batch_size=batch, device="cpu", data_format="NHWC", weight_decay=DECAY)
    dataset = datasets.create_dataset(None, data)
    model = made(model_config, name, dataset, params)
    size = model.image_size
    pixels = uniform("images", batch * size * size * 3) * np.sqrt(3.0)
    pixels = pixels.reshape(batch, size, size, 3).astype(np.float32)
    images = tf.placeholder(tf.float32, pixels.shape)
    labels = tf.constant([(7 * i + 3) % (dataset.num_classes - 1) for i in range(batch)], tf.int32)
    with tf.variable_scope("v"):
        result = model.build_network([images, labels], phase_train=True, nclass=dataset.num_classes)
    cost = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=result.logits, labels=labels))
    trained = tf.trainable_variables()
    decays = [tf.nn.l2_loss(v) for v in trained if "batchnorm" not in v.name]
    total = cost + DECAY * tf.add_n(decays)
    gradients = tf.gradients(total, trained)
    # A network without batch normalization takes small steps only.
    normalized = any(v.op.name.endswith("moving_variance") for v in tf.global_variables())
    rate = 1e-3 if normalized else 1e-5
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train = tf.train.GradientDescentOptimizer(rate).apply_gradients(zip(gradients, trained))
    everything = tf.global_variables()
    fed = {v: tf.placeholder(v.dtype.base_dtype, v.shape) for v in everything}
    assign = tf.group(*[v.assign(p) for v, p in fed.items()])
    squares = [tf.sqrt(tf.reduce_sum(tf.square(tf.cast(g, tf.float64)))) for g in gradients]
    value = lambda v: values(v.op.name, v.shape.as_list()) if v.shape.rank else np.zeros([], v.dtype.as_numpy_dtype)
    averages = [v for v in everything if v.op.name.endswith("moving_variance")]

    noise = uniform("noise", pixels.size).reshape(pixels.shape).astype(np.float32)

    def learned(session, part):
        feed = {images: pixels + np.float32(part) * noise}
        session.run(assign, {p: value(v) for v, p in fed.items()})
        norms = session.run(squares, feed)
        losses = [float(session.run([total, train], feed)[0]) for _ in range(STEPS)]
        sums = [float(np.abs(session.run(v)).sum(dtype=np.float64)) for v in averages]
        return norms, losses, sums

    with tf.Session() as session:
        norms, losses, sums = learned(session, 0.0)
        far = 0.0
        # How far TensorFlow is from itself when images differ in the last bits: a ReLU that is open or closed.
        for part in (1e-6, -1e-6, 2e-6):
            for own, other in zip((norms, losses, sums), learned(session, part)):
                away = [abs(a - b) / max(abs(a), 1e-3) for a, b in zip(own, other)]
                far = max([far] + away)
    averages = {v.op.name: s for v, s in zip(averages, sums)}
    rounded = lambda x: float(f"{x:.7g}")
    return {
        "model": name, "data": data, "batch": batch, "rate": rate, "losses": losses, "varies": float(f"{far:.2g}"),
        "norms": {v.op.name: rounded(n) for v, n in zip(trained, norms)},
        "shapes": {v.op.name: v.shape.as_list() for v in trained},
        "moving_variances": {k: rounded(x) for k, x in averages.items()},
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("checkout")
    parser.add_argument("--models", default="")
    parser.add_argument("--out", default=os.path.join(os.path.dirname(__file__), "cnn.jsonl.gz"))
    args = parser.parse_args()
    sys.path.insert(0, os.path.join(args.checkout, "scripts/tf_cnn_benchmarks"))
    with_contrib()
    import benchmark_cnn
    import convnet_builder
    import datasets
    from models import model_config
    model_config.register_tf1_models()
    tf.disable_eager_execution()
    tf.disable_v2_tensorshape()
    tf.logging.set_verbosity(tf.logging.ERROR)
    without_dropout(convnet_builder)
    wanted = set(filter(None, args.models.split(",")))
    lines = []
    for name, data, batch in MODELS:
        if wanted and name not in wanted:
            continue
        try:
            line = one(name, data, batch, (benchmark_cnn, datasets, model_config))
        except Exception as error:
            print(f"{name} {data}: {error!r}"[:300], flush=True)
            continue
        lines.append(json.dumps(line))
        print(name, data, line["varies"], line["losses"], len(line["norms"]), flush=True)
    with open(args.out, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write("".join(line + "\n" for line in lines).encode())


main()
