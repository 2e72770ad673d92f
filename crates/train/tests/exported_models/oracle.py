#!/usr/bin/env python3
"""TensorFlow's side of the test of exported models.

usage: oracle.py OURS THEIRS

OURS holds models that Thalweg wrote, and `wanted.json`: what each computes. They are loaded here.
THEIRS gets models that TensorFlow wrote, and such a file of its own. After a line on standard input,
OURS/extended holds those models again, with a head that doubles the output.
"""

import json
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
OURS, THEIRS = map(pathlib.Path, sys.argv[1:])
X = np.array([[1, 2, 3, 4], [-1, 0, 1, 0.5]], np.float32)
IDS = np.array([2, 0], np.int64)
WANTED = json.loads((OURS / "wanted.json").read_text())


def close(name, found, wanted=None):
    wanted = np.array(WANTED[name] if wanted is None else wanted, np.float32)
    found = np.array(found)
    assert found.shape == wanted.shape, f"{name}: {found.shape} and {wanted.shape}"
    assert np.allclose(found, wanted, rtol=1e-5, atol=1e-6), f"{name}: {found} and {wanted}"
    print("ok", name)


def ours_saved():
    """The loaders of TensorFlow 1 and 2 take the same folder."""
    folder = str(OURS / "saved")
    with tf.Graph().as_default(), v1.Session() as sess:
        meta = v1.saved_model.load(sess, ["serve"], folder)
        signature = meta.signature_def["serving_default"]
        feeds = {signature.inputs["images"].name: X, signature.inputs["ids"].name: IDS}
        close("saved", sess.run(signature.outputs["out"].name, feeds))
        step = v1.train.get_global_step()
        assert sess.run(step) == 7, step
        assert [v.name for v in v1.trainable_variables()] == ["w/part_0:0", "w/part_1:0", "rows:0"]
    serve = tf.saved_model.load(folder).signatures["serving_default"]
    close("saved", serve(**{"images": tf.constant(X), "ids": tf.constant(IDS)})["out"])


def ours_meta(name):
    """A MetaGraph's saver restores our checkpoint, and saves one that it restores again."""
    folder = OURS / name
    with tf.Graph().as_default(), v1.Session() as sess:
        saver = v1.train.import_meta_graph(str(folder / "model.meta"))
        saver.restore(sess, str(folder / "model"))
        graph = tf.compat.v1.get_default_graph()
        out, x, ids = (graph.get_tensor_by_name(n) for n in ("out:0", "x:0", "ids:0"))
        feeds = {x: X, ids: IDS}
        close("saved", sess.run(out, feeds))
        assert v1.get_collection("losses") == [graph.get_tensor_by_name("loss:0")]
        (train,) = v1.get_collection("train_op")
        sess.run(train, feeds)
        trained = sess.run(out, feeds)
        close("trained", trained)
        path = saver.save(sess, str(THEIRS / name / "again"), write_meta_graph=False)
        sess.run(v1.global_variables_initializer())
        saver.restore(sess, path)
        close("trained", sess.run(out, feeds))


def ours_frozen():
    with tf.Graph().as_default() as graph, v1.Session() as sess:
        definition = v1.GraphDef.FromString((OURS / "frozen.pb").read_bytes())
        tf.import_graph_def(definition, name="")
        feeds = {graph.get_tensor_by_name("x:0"): X, graph.get_tensor_by_name("ids:0"): IDS}
        close("saved", sess.run("out:0", feeds))


def theirs_one(told):
    """Variables of each kind, in parts, under other names, and one that the main op sets."""
    with tf.Graph().as_default(), v1.Session() as sess:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        part = v1.fixed_size_partitioner(2)
        initial = v1.random_normal_initializer(seed=3)
        w = v1.get_variable("w", [4, 3], initializer=initial, partitioner=part, use_resource=True)
        v = v1.get_variable("v", [3], initializer=initial, use_resource=False)
        local = v1.get_variable("local", initializer=np.float32(0), collections=["local_variables"])
        y = tf.multiply(tf.tanh(tf.matmul(x, w) + v), local, name="y")
        sess.run(v1.global_variables_initializer())
        with tf.control_dependencies(None):
            main = v1.assign(local, 2.0, name="main_op").op
        sess.run(main)
        saver = v1.train.Saver({"renamed/v": v, "w": w})
        builder = v1.saved_model.Builder(str(THEIRS / "one"))
        signature = v1.saved_model.predict_signature_def({"x": x}, {"y": y})
        builder.add_meta_graph_and_variables(
            sess, ["serve", "mine"], {"predict": signature}, saver=saver, main_op=main
        )
        builder.save()
        told["one"] = sess.run(y, {x: X}).tolist()
        path = v1.train.Saver([v, *w], sharded=True).save(sess, str(THEIRS / "meta" / "model"))
        assert path
        v1.saved_model.simple_save(sess, str(THEIRS / "simple"), {"x": x}, {"y": y})


def theirs_two(told):
    """A module with a function of it, which TensorFlow 2 saves with a graph of objects."""

    class Model(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable(np.arange(12, dtype=np.float32).reshape(4, 3) / 10)
            self.rows = [tf.Variable([1.0, 2.0, 3.0]), tf.Variable([0.5, 0.5, 0.5])]

            # Variables of one name, as layers of one kind have.
            self.scales = [tf.Variable(2.0, name="s"), tf.Variable(0.5, name="s", trainable=False)]

        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32)])
        def __call__(self, x):
            y = tf.nn.relu(x @ self.w + self.rows[0]) * self.rows[1]
            # A function that reads variables inside of a branch.
            scale = lambda: y * self.scales[0] * self.scales[1]
            return {"y": tf.cond(tf.reduce_sum(x) > 0, scale, lambda: y)}

    model = Model()
    tf.saved_model.save(model, str(THEIRS / "two"), signatures=model.__call__)
    told["two"] = model(tf.constant(X))["y"].numpy().tolist()


def extended(name, wanted):
    """A model of TensorFlow's with a head of ours, saved with all weights."""
    folder = str(OURS / "extended" / name)
    serve = tf.saved_model.load(folder).signatures["serving_default"]
    close("extended " + name, serve(x=tf.constant(X))["twice"], 2 * np.array(wanted))


ours_saved()
(THEIRS / "meta").mkdir(parents=True)
for name in ("meta", "sharded"):
    (THEIRS / name).mkdir(exist_ok=True)
    ours_meta(name)
ours_frozen()
TOLD = {}
theirs_one(TOLD)
theirs_two(TOLD)
(THEIRS / "wanted.json").write_text(json.dumps(TOLD))
print("written", flush=True)
if sys.stdin.readline():
    for name in ("one", "two", "simple"):
        extended(name, TOLD["one" if name == "simple" else name])
