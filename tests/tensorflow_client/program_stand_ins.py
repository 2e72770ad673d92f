"""Stand-ins for what programs of TensorFlow 1 import and nobody has any more."""

import builtins
import collections
import gzip
import importlib
import inspect
import json
import os
import struct
import sys
import time
import types

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops

v1 = tf.compat.v1


def module(name, *sources, **more):
    """A module by this name with what the sources have."""
    made = types.ModuleType(name)
    for source in sources:
        for key in dir(source):
            if not key.startswith("__"):
                setattr(made, key, getattr(source, key))
    for key, value in more.items():
        setattr(made, key, value)
    made.__path__ = []
    sys.modules[name] = made
    parent, _, last = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], last, made)
    return made


class HParams:
    """Named settings of a model, as `tf.contrib.training` had them."""

    def __init__(self, **values):
        self.__dict__.update(values)

    def add_hparam(self, name, value):
        setattr(self, name, value)

    set_hparam = add_hparam

    def values(self):
        return dict(self.__dict__)

    def to_json(self, **named):
        return json.dumps(self.__dict__, **named)

    def parse(self, text):
        for part in filter(None, text.split(",")):
            name, value = part.split("=")
            kind = type(getattr(self, name))
            setattr(self, name, value == "True" if kind is bool else kind(value))
        return self


def contrib(folder):
    """`tf.contrib`, as far as `tf_slim`, `tensorflow_addons` and TensorFlow itself have its contents."""
    import tf_slim as slim

    root = "tensorflow.contrib"
    module(root)
    initializers = {"xavier_initializer_conv2d": slim.initializers.xavier_initializer}
    layers = module(root + ".layers", slim.layers, slim.initializers, slim.regularizers, slim, **initializers)
    module(root + ".layers.python")
    module(root + ".layers.python.layers", layers)
    module(root + ".layers.python.layers.layers", layers)
    sys.modules[root + ".slim"] = sys.modules[root].slim = slim
    cells = module(root + ".rnn", v1.nn.rnn_cell, static_rnn=v1.nn.static_rnn)
    cells.static_bidirectional_rnn = v1.nn.static_bidirectional_rnn
    module(root + ".rnn.python")
    module(root + ".rnn.python.ops")
    learn = module(root + ".learn", ModeKeys=types.SimpleNamespace(TRAIN="train", EVAL="eval", INFER="infer"))
    learn.datasets = module(root + ".learn.datasets")
    module(root + ".training", HParams=HParams)
    from tensorflow.python.util import nest as inner

    inner.is_sequence = inner.is_nested
    nest = module(root + ".framework.nest", tf.nest, is_sequence=tf.nest.is_nested)
    module(root + ".framework", slim, nest=nest, arg_scope=slim.arg_scope, add_arg_scope=slim.add_arg_scope)
    module(root + ".framework.python")
    module(root + ".framework.python.ops", slim)
    module(root + ".distributions", v1.distributions)
    module(root + ".data", tf.data.experimental)
    module(root + ".signal", v1.signal)
    module(root + ".lookup", v1.lookup)
    module(root + ".metrics", v1.metrics)
    for part in (".tensorboard", ".tensorboard.plugins", ".tensorboard.plugins.projector"):
        module(root + part)
    from tensorflow.python.ops import data_flow_ops

    module(root + ".staging", StagingArea=data_flow_ops.StagingArea)
    # What has no stand-in comes from the sources of version 1, with the parts where they are now.
    if folder:
        sys.modules[root].__path__ = [folder]
        module(root + ".compiler", jit=None)
        module(root + ".util", loader=types.SimpleNamespace(load_op_library=lambda path: None))
        module(root + ".seq2seq.ops", gen_beam_search_ops=types.SimpleNamespace(gather_tree=None))
        parts = ("learn", "learn.python", "learn.python.learn", "learn.python.learn.preprocessing")
        for part in parts + (
            "framework.python.framework",
            "rnn.python.ops",
            "opt.python",
            "opt.python.training",
        ):
            made = sys.modules.get(f"{root}.{part}") or module(f"{root}.{part}")
            made.__path__ = [os.path.join(folder, *part.split("."))]
        learn.preprocessing = importlib.import_module(root + ".learn.python.learn.preprocessing.text")
        # Decoders ask for a layer of TensorFlow's own; programs have those of Keras.
        base = importlib.import_module("tensorflow.python.layers.base")
        base.Layer = (base.Layer, v1.layers.Layer)
        module(root + ".opt").__path__ = [os.path.join(folder, "opt")]
        scipy = importlib.import_module(root + ".opt.python.training.external_optimizer")
        sys.modules[root].opt.ScipyOptimizerInterface = scipy.ScipyOptimizerInterface
        more = importlib.import_module(root + ".rnn.python.ops.core_rnn_cell")
        for name in ("InputProjectionWrapper", "OutputProjectionWrapper", "EmbeddingWrapper"):
            setattr(cells, name, getattr(more, name))

    def missing(name):
        return importlib.import_module(f"{root}.{name}")

    sys.modules[root].__getattr__ = missing


class Missing(types.ModuleType):
    """A module that was removed: a class for each name that is imported from it."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def estimators():
    """`tf.estimator`, where `tensorflow_estimator` is there, with what its last version looks for."""
    from tensorflow.python.util import tf_export as exports

    exports.ESTIMATOR_API_NAME = "estimator"
    for names in (exports.API_ATTRS, exports.API_ATTRS_V1):
        names["estimator"] = names["tensorflow"]._replace(
            names="_estimator_names", constants="_estimator_constants"
        )
    gone = (
        "distribute.estimator_training",
        "tpu.tpu_embedding",
        "tpu.session_support",
        "tpu.tpu_embedding_gradient",
    )
    for name in gone:
        name = "tensorflow.python." + name
        parent, _, last = name.rpartition(".")
        sys.modules[name] = Missing(name)
        setattr(importlib.import_module(parent), last, sys.modules[name])
    try:
        import tensorflow_estimator.python.estimator.api._v1.estimator as estimator

        tf.estimator = v1.estimator = v1.compat.v1.estimator = estimator
    except ImportError:
        pass


def names_of_version_1(folder):
    """The names of version 1, and some older ones, in `tensorflow` itself."""
    contrib(folder)
    for name in dir(v1):
        if not name.startswith("__") and name != "contrib":
            setattr(tf, name, getattr(v1, name))
    concat = v1.concat

    def concat_of_old(values, axis, name="concat"):
        if isinstance(values, int):
            values, axis = axis, values
        return concat(values, axis, name)

    tf.concat = concat_of_old
    # Queues that several threads fill have another order in each run.
    batch = v1.train.batch

    def batch_in_order(tensors, batch_size, num_threads=1, min_after_dequeue=0, seed=None, **named):
        return batch(tensors, batch_size, num_threads=1, **named)

    for owner in (tf.train, v1.train):
        owner.batch = owner.shuffle_batch = batch_in_order
    old = {"mul": "multiply", "sub": "subtract", "neg": "negative", "pack": "stack", "unpack": "unstack"}
    old.update(select="where", batch_matmul="matmul", initialize_all_variables="global_variables_initializer")
    for name, now in old.items():
        setattr(tf, name, getattr(v1, now))
    for name in ("image", "histogram", "scalar"):
        setattr(tf, name + "_summary", getattr(v1.summary, name))
    tf.merge_summary, tf.merge_all_summaries = v1.summary.merge, v1.summary.merge_all
    v1.train.SummaryWriter = v1.summary.FileWriter
    estimators()
    ops.Tensor = tf.Tensor
    from tensorflow.python.ops import control_flow_ops

    for name in ("while_loop", "cond", "case", "Assert"):
        setattr(control_flow_ops, name, getattr(v1, name))
    for name in ("app", "gfile", "flags", "logging"):
        sys.modules["tensorflow." + name] = getattr(v1, name)
    sys.modules["tensorflow.python.platform.flags"] = v1.flags


def names_of_old_python():
    """What Python, NumPy and SciPy had when these programs were written."""
    builtins.xrange, builtins.unicode, builtins.raw_input = range, str, input
    time.clock = time.perf_counter
    inspect.getargspec = lambda f: inspect.getfullargspec(f)[:4]
    for name in ("Mapping", "MutableMapping", "Sequence", "Iterable", "Callable"):
        setattr(collections, name, getattr(collections.abc, name))
    for name, now in {"int": int, "float": float, "bool": bool, "object": object, "str": str}.items():
        setattr(np, name, now)
    np.product, np.float_, np.unicode_ = np.prod, np.float64, np.str_
    np.lib.pad = np.pad
    np.cast = collections.defaultdict(
        lambda: np.asarray, {t: t for t in (np.float32, np.float64, np.int32, np.int64)}
    )
    array = np.array

    def array_of_old(values, *arguments, **named):
        """Rows of several lengths make an array of objects."""
        try:
            return array(values, *arguments, **named)
        except ValueError:
            return array(values, *arguments, **{**named, "dtype": object})

    np.array = array_of_old
    sys.modules["cPickle"] = __import__("pickle")
    module("cv2")
    module("past")
    module("past.builtins", xrange=range)
    import sklearn.model_selection

    sys.modules["sklearn.cross_validation"] = sklearn.cross_validation = sklearn.model_selection
    import PIL.Image
    import scipy

    def save(path, values):
        values = np.asarray(values, np.float64)
        low, high = values.min(), values.max()
        PIL.Image.fromarray(((values - low) * (255 / max(high - low, 1e-9))).astype(np.uint8)).save(path)

    def read(path, flatten=False, mode=None):
        image = PIL.Image.open(path)
        grey = flatten or mode == "YCbCr"
        image = image.convert("F" if flatten else mode or image.mode)
        return np.asarray(image).astype(np.float64) if grey else np.asarray(image)

    def resize(values, size, interp="bilinear"):
        size = (size, size) if np.isscalar(size) else size
        return np.asarray(
            PIL.Image.fromarray(np.uint8(values)).resize((size[1], size[0]), PIL.Image.BILINEAR)
        )

    import scipy.sparse.linalg

    module("scipy.sparse.linalg.eigen")
    module("scipy.sparse.linalg.eigen.arpack", scipy.sparse.linalg)
    scipy.misc = module("scipy.misc", imread=read, imsave=save, imresize=resize, toimage=PIL.Image.fromarray)


def mnist(folder):
    """`tensorflow.examples.tutorials.mnist`, which reads the four files in a folder."""

    def read(name):
        with gzip.open(os.path.join(folder, name)) as file:
            head = struct.unpack(">BBBB", file.read(4))
            shape = struct.unpack(">" + "I" * head[3], file.read(4 * head[3]))
            return np.frombuffer(file.read(), np.uint8).reshape(shape)

    class Part:
        def __init__(self, images, labels, one_hot, reshape):
            images = images.astype(np.float32) / 255.0
            self.images = images.reshape(len(images), -1) if reshape else images[..., None]
            self.labels = np.eye(10)[labels] if one_hot else labels
            self.num_examples, self.position, self.epochs_completed = len(images), 0, 0

        def next_batch(self, size, shuffle=True):
            self.position = self.position if self.position + size <= self.num_examples else 0
            rows = slice(self.position, self.position + size)
            self.position += size
            return self.images[rows], self.labels[rows]

    def read_data_sets(_folder=None, one_hot=False, reshape=True, validation_size=5000, **_named):
        images, labels = read("train-images-idx3-ubyte.gz"), read("train-labels-idx1-ubyte.gz")
        n = validation_size
        return types.SimpleNamespace(
            train=Part(images[n:], labels[n:], one_hot, reshape),
            validation=Part(images[:n], labels[:n], one_hot, reshape),
            test=Part(read("t10k-images-idx3-ubyte.gz"), read("t10k-labels-idx1-ubyte.gz"), one_hot, reshape),
        )

    made = "tensorflow.examples"
    for part in ("", ".tutorials", ".tutorials.mnist"):
        module(made + part)
    module(made + ".tutorials.mnist.input_data", read_data_sets=read_data_sets)
    tf.contrib.learn.datasets.load_dataset = read_data_sets
