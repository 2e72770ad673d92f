"""Models of Keras: written for Thalweg, and read again after Thalweg has trained and written them.

Usage: keras_models.py THEIRS OURS. Writes the models under THEIRS, prints "written", and waits for a line. Then it compares what
stands under OURS with its own training of the same models.
"""

import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import tensorflow as tf
from tensorflow import keras

STEPS, RATE = 3, 0.1
THEIRS, OURS = sys.argv[1:]
keras.utils.set_random_seed(7)
layers = keras.layers


def sequential():
    return keras.Sequential(
        [keras.Input((4,)), layers.Dense(8, "relu", name="hidden"), layers.Dense(3, name="scores")]
    )


def functional():
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    joined = layers.Concatenate()([layers.Dense(5, "tanh", name="left")(a), layers.Dense(5, name="right")(b)])
    return keras.Model([a, b], layers.Dense(2, name="scores")(joined))


def batch_norm():
    return keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(4, 3, padding="same", name="conv"),
            layers.BatchNormalization(name="norm"),
            layers.ReLU(),
            layers.MaxPool2D(),
            layers.Flatten(),
            layers.Dense(3, name="scores"),
        ]
    )


def lstm():
    return keras.Sequential([keras.Input((5, 3)), layers.LSTM(6, name="memory"), layers.Dense(2, name="scores")])


def nested():
    inner = keras.Sequential([keras.Input((4,)), layers.Dense(6, "gelu", name="deep")], name="inner")
    x = keras.Input((4,))
    return keras.Model(x, layers.Dense(2, name="scores")(layers.LayerNormalization()(inner(x))))


class Signatures(tf.Module):
    """A module with two functions over one table."""

    def __init__(self):
        super().__init__()
        self.w = tf.Variable(np.float32(np.arange(12).reshape(4, 3) / 10), name="w")
        self.b = tf.Variable(np.zeros(3, np.float32), name="b")
        self.count = tf.Variable(np.int64(3), trainable=False, name="count")

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def scores(self, x):
        return {"scores": x @ self.w + self.b}

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def probabilities(self, x):
        return {"probabilities": tf.nn.softmax(self.scores(x)["scores"])}


MODELS = {"sequential": sequential, "functional": functional, "batch_norm": batch_norm, "lstm": lstm, "nested": nested}


def inputs_of(model):
    """An array for each input, by the names of the serving signature."""
    draw = np.random.RandomState(3)
    shapes = [tuple(i.shape)[1:] for i in model.inputs]
    return [draw.uniform(-1, 1, (2,) + shape).astype(np.float32) for shape in shapes]


def train(call, variables, inputs):
    for _ in range(STEPS):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(call(inputs)))
        for v, d in zip(variables, tape.gradient(loss, variables)):
            v.assign_sub(RATE * d)


def described(run, inputs, variables, trainable):
    return {
        "inputs": [[list(i.shape), i.ravel().tolist()] for i in inputs],
        "output": np.ravel(run(inputs)).tolist(),
        "variables": [int(np.prod(v.shape)) for v in variables],
        "trainable": [int(np.prod(v.shape)) for v in trainable],
    }


def signature_of(folder, name="serving_default"):
    return tf.saved_model.load(folder).signatures[name]


def by_name(signature, names, inputs):
    found = signature(**{n: tf.constant(i) for n, i in zip(names, inputs)})
    return np.ravel(next(iter(found.values())))


known, described_all = {}, {}
for name, build in MODELS.items():
    for way in ("export", "save"):
        model = build()
        folder = f"{THEIRS}/{name}_{way}"
        model.export(folder, verbose=False) if way == "export" else tf.saved_model.save(model, folder)
        inputs = inputs_of(model)
        call = lambda i, model=model: model(i if len(i) > 1 else i[0], training=False)
        told = described(call, inputs, model.weights, model.trainable_weights)
        names = sorted(signature_of(folder).structured_input_signature[1])
        told["names"] = names
        described_all[f"{name}_{way}"] = told
        known[f"{name}_{way}"] = (call, model.trainable_weights, inputs, names)

module = Signatures()
folder = f"{THEIRS}/signatures_save"
tf.saved_model.save(module, folder, {"scores": module.scores, "probabilities": module.probabilities})
inputs = [np.random.RandomState(3).uniform(-1, 1, (2, 4)).astype(np.float32)]
call = lambda i: module.probabilities(i[0])["probabilities"]
told = described(call, inputs, [module.w, module.b], module.trainable_variables)
told["names"], told["signature"] = ["x"], "probabilities"
described_all["signatures_save"] = told
known["signatures_save"] = (call, module.trainable_variables, inputs, ["x"])

with open(f"{THEIRS}/models.json", "w") as out:
    json.dump(described_all, out)
print("written", flush=True)
sys.stdin.readline()


def close(what, found, wanted):
    off = np.max(np.abs(np.ravel(found) - np.ravel(wanted)))
    print(f"{what}: {off:.1e}", flush=True)
    assert off <= 1e-5, (what, found, wanted)


def frozen(folder, inputs, count):
    """The result of a frozen graph, whose placeholders are input0, input1 and so on."""
    with open(f"{folder}/frozen.pb", "rb") as file:
        def_ = tf.compat.v1.GraphDef.FromString(file.read())
    assert all("VarHandle" not in n.op for n in def_.node)
    with open(f"{folder}/frozen.json") as file:
        told = json.load(file)
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        tf.import_graph_def(def_, name="")
        return session.run(told["output"], dict(zip(told["inputs"], inputs)))


for name, (call, variables, inputs, names) in known.items():
    before = np.ravel(call(inputs))
    close(f"{name}, frozen", frozen(f"{OURS}/{name}", inputs, len(inputs)), before)
    train(call, variables, inputs)
    after = np.ravel(call(inputs))
    assert np.max(np.abs(after - before)) > 1e-4, name
    found = by_name(signature_of(f"{OURS}/{name}/tuned"), names, inputs)
    close(f"{name}, tuned", found, after)
    weights = tf.train.load_checkpoint(f"{OURS}/{name}/tuned/variables/variables")
    for v in variables:
        path = getattr(v, "path", v.name.split(":")[0])
        # Keras's export has two variables of each name; the one that the model uses has a number.
        own = [k for k in weights.get_variable_to_shape_map() if k in (path, f"{path}_1")]
        off = [np.max(np.abs(weights.get_tensor(k) - v.numpy())) for k in own]
        assert own and min(off) <= 1e-5, (name, path, off)
