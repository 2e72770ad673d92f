"""A SavedModel and a MetaGraphDef: graphs with signatures, collections, savers and values of variables."""

import contextlib
import pathlib
import tempfile

# Before all else of TensorFlow, as it sets it up.
from reference import f32, tf, v1  # isort: skip

import numpy as np
from tensorflow.core.framework.variable_pb2 import VariableDef
from tensorflow.core.protobuf.control_flow_pb2 import CondContextDef, WhileContextDef
from tensorflow.core.protobuf.meta_graph_pb2 import AssetFileDef
from tensorflow.core.protobuf.queue_runner_pb2 import QueueRunnerDef
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from encode import DTYPE_NAMES
from generate import gzipped
from graphs_files import described, load_meta, load_saved, plain
from graphs_parts import Layers, counted_names, floats, sparse_loss, variable, whole
from graphs_record import Golden, ops_of, run
from harness import session

TOLERANCE = {"rel": 1e-5, "abs": 1e-6}
# The messages that are entries of collections, and the field that names one.
CONTEXTS = {"cond_context": CondContextDef, "while_context": WhileContextDef}


def signatures(meta):
    """Signatures by name: method, and tensors by name with data types and dimensions."""

    def tensors(infos):
        return {
            key: {
                "tensor": info.name,
                "dtype": DTYPE_NAMES[tf.as_dtype(info.dtype)] if info.dtype else None,
                "dims": None if info.tensor_shape.unknown_rank else [d.size for d in info.tensor_shape.dim],
            }
            for key, info in sorted(infos.items())
        }

    return {
        key: {"method": s.method_name, "inputs": tensors(s.inputs), "outputs": tensors(s.outputs)}
        for key, s in sorted(meta.signature_def.items())
    }


def collections(meta):
    """Collections by name: which kind of list, and its entries, messages by their names."""
    found = {}
    for key, collection in sorted(meta.collection_def.items()):
        kind = collection.WhichOneof("kind")
        entries = list(getattr(collection, kind).value)
        if kind == "bytes_list":
            entries = [named(key, data) for data in entries]
        if kind == "any_list":
            # Assets, by the names of their files.
            entries = [AssetFileDef.FromString(entry.value).filename for entry in entries]
        found[key] = {"kind": kind, "entries": entries}
    return found


def named(key, data):
    """Name of an entry of bytes; an entry that is no message is text."""
    if key.endswith("variables") or key == "global_step":
        return VariableDef.FromString(data).variable_name
    if key == "queue_runners":
        return QueueRunnerDef.FromString(data).queue_name
    if key in CONTEXTS:
        return CONTEXTS[key].FromString(data).context_name
    return data.decode()


def settle(meta):
    """Gives maps inside the entries of collections the order that `plain` gives all others."""
    for key, message in CONTEXTS.items():
        entries = meta.collection_def[key].bytes_list.value
        entries[:] = [plain(message.FromString(data)) for data in entries]
    return meta


def saver(meta):
    """A SaverDef's nodes that save and restore."""
    definition = meta.saver_def
    return {
        "filename": definition.filename_tensor_name,
        "save": definition.save_tensor_name,
        "restore": definition.restore_op_name,
        "max_to_keep": definition.max_to_keep,
        "sharded": definition.sharded,
    }


def told(meta):
    """The JSON description of a MetaGraphDef."""
    return {"signatures": signatures(meta), "collections": collections(meta), "saver": saver(meta)}


def saved_model():
    """A trained layer, a variable of each kind and of several types, one that only the init op sets."""
    with tf.Graph().as_default() as graph, session(graph) as sess, tempfile.TemporaryDirectory() as parent:
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        hidden = Layers("resource", 0.5).dense("hidden", x, 4, tf.tanh)
        old = variable("old", [4, 2], "ref", v1.truncated_normal_initializer(seed=3))
        count = v1.get_variable("count", initializer=np.int64(12), trainable=False)
        v1.get_variable("word", initializer=b"saved", trainable=False)
        logits = tf.matmul(hidden, old, name="logits")
        factor = v1.get_variable("factor", initializer=f32(0), collections=[v1.GraphKeys.LOCAL_VARIABLES])
        scaled = tf.multiply(tf.nn.softmax(logits), factor, name="scaled")
        best = tf.argmax(logits, 1, name="best")
        sess.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
        sess.run(v1.assign_add(count, 30))
        values = [v.value().name for v in (*v1.global_variables(), factor)]
        serving = v1.saved_model.predict_signature_def({"x": x}, {"scaled": scaled, "best": best})
        info = v1.saved_model.build_tensor_info
        features = v1.saved_model.build_signature_def(
            {"inputs": info(x)}, {"outputs": info(hidden)}, "tensorflow/serving/regress"
        )
        folder = pathlib.Path(parent) / "saved_model"
        builder = v1.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(
            sess,
            ["serve"],
            {"serving_default": serving, "features": features},
            main_op=v1.assign(factor, 10.0).op,
            strip_default_attrs=True,
        )
        builder.save()
        recorded = Golden(graph)
        feeds = {x: floats("to be served", [2, 3])}
        recorded.step(scaled, best, hidden, feeds=feeds)
        recorded.step(*values)
        steps = run(load_saved(folder, ["serve"]), [], recorded.steps)
        message = SavedModel.FromString((folder / "saved_model.pb").read_bytes())
        (meta,) = message.meta_graphs
        files = {f"saved_model/{p.relative_to(folder)}": p.read_bytes() for p in folder.glob("variables/*")}
    files["saved_model/saved_model.pb"] = plain(message)
    source = {"saved_model": "saved_model", "tags": ["serve"]} | told(meta)
    return files | described("saved_model", source, ops_of(meta.graph_def), recorded, steps, TOLERANCE)


def table_model():
    """A SavedModel of TensorFlow 1 with tables: from an asset, from constants, and one that its checkpoint fills."""
    with (
        tf.Graph().as_default() as graph,
        session(graph) as sess,
        tempfile.TemporaryDirectory() as parent,
        contextlib.chdir(parent),
        counted_names(),
    ):
        # The path is in the graph, so it is one without the folder's name.
        vocabulary = pathlib.Path("words.txt")
        vocabulary.write_text("the\nquick\nfox\n")
        words = v1.placeholder(tf.string, [None], name="words")
        by_file = tf.lookup.StaticVocabularyTable(
            tf.lookup.TextFileInitializer(
                str(vocabulary),
                tf.string,
                tf.lookup.TextFileIndex.WHOLE_LINE,
                tf.int64,
                tf.lookup.TextFileIndex.LINE_NUMBER,
            ),
            num_oov_buckets=2,
        )
        weights = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(tf.range(5, dtype=tf.int64), tf.range(5.0) / 4), -1.0
        )
        counts = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, 0, name="counts")
        scale = v1.get_variable("scale", initializer=f32(2))
        ids = tf.identity(by_file.lookup(words), name="ids")
        weighted = tf.multiply(weights.lookup(ids), scale, name="weighted")
        counted = tf.identity(counts.lookup(words), name="counted")
        sess.run([v1.global_variables_initializer(), v1.tables_initializer()])
        sess.run(counts.insert(tf.constant(["fox", "dog"]), tf.constant([7, 3], tf.int64)))
        serving = v1.saved_model.predict_signature_def(
            {"words": words}, {"ids": ids, "weighted": weighted, "counted": counted}
        )
        folder = pathlib.Path(parent) / "saved_model_tables"
        builder = v1.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(
            sess,
            ["serve"],
            {"serving_default": serving},
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
            main_op=v1.tables_initializer(),
            strip_default_attrs=True,
        )
        builder.save()
        recorded = Golden(graph)
        feeds = {words: np.array([b"fox", b"dog", b"the", b""], object)}
        recorded.step(ids, weighted, counted, feeds=feeds)
        steps = run(load_saved(folder, ["serve"]), [], recorded.steps)
        message = SavedModel.FromString((folder / "saved_model.pb").read_bytes())
        (meta,) = message.meta_graphs
        kept = [p for p in folder.rglob("*") if p.is_file() and p.name != "saved_model.pb"]
        files = {f"saved_model_tables/{p.relative_to(folder)}": p.read_bytes() for p in kept}
    files["saved_model_tables/saved_model.pb"] = plain(message)
    source = {"saved_model": "saved_model_tables", "tags": ["serve"]} | told(meta)
    return files | described("saved_model_tables", source, ops_of(meta.graph_def), recorded, steps, TOLERANCE)


def meta_graph():
    """A graph as export_meta_graph writes it beside a checkpoint, with collections of each kind."""
    with tf.Graph().as_default() as graph:
        v1.disable_control_flow_v2()
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        labels = v1.placeholder(tf.int32, [None], name="labels")
        hidden = Layers("ref", 0.5).dense("hidden", x, 4, tf.tanh)
        _, hidden = tf.while_loop(lambda i, _: i < 3, lambda i, h: (i + 1, tf.sin(h)), (0, hidden))
        hidden = tf.cond(tf.size(x) > 6, lambda: hidden * 2.0, lambda: hidden, name="choice")
        loss = sparse_loss(Layers("resource", 0.5).dense("out", hidden, 2), labels)
        count = v1.train.get_or_create_global_step()
        optimizer = v1.train.GradientDescentOptimizer(v1.train.exponential_decay(0.1, count, 2, 0.5))
        step = optimizer.minimize(loss, count, name="step")
        averages = v1.train.ExponentialMovingAverage(0.9)
        with tf.control_dependencies([step]):
            average = averages.apply([graph.get_tensor_by_name("hidden/biases:0")])
        queue = v1.FIFOQueue(2, tf.float32, name="queue")
        v1.train.add_queue_runner(v1.train.QueueRunner(queue, [queue.enqueue(1.0)]))
        v1.summary.scalar("loss", loss)
        v1.losses.add_loss(loss)
        for key, entries in (("sizes", [3, 4]), ("rates", [0.5]), ("words", ["one", "two"])):
            for entry in entries:
                v1.add_to_collection(key, entry)
        recorded = Golden(graph)
        recorded.init_variables()
        for i in range(3):
            feeds = {x: floats(f"meta {i}", [2 + i % 2, 3]), labels: whole(f"meta {i}", [2 + i % 2], 2)}
            recorded.step(loss, feeds=feeds, run=[step, average])
        recorded.step(count, *v1.trainable_variables())
        # Nodes built from here on would not be in the file.
        maker = v1.train.Saver(max_to_keep=3, sharded=True)
        meta = settle(v1.train.export_meta_graph(saver_def=maker.as_saver_def()))
    data = plain(meta)
    steps = run(load_meta(data), recorded.inits, recorded.steps)
    source = {"meta_graph": "meta_graph.meta.gz"} | told(meta)
    files = described("meta_graph", source, ops_of(meta.graph_def), recorded, steps, TOLERANCE)
    return {"meta_graph.meta.gz": gzipped(data)} | files


MAKERS = {"saved_model": saved_model, "saved_model_tables": table_model, "meta_graph": meta_graph}
