"""Checkpoints that TensorFlow writes, for the tests of crates/checkpoint.

    python tests/golden/checkpoints.py

writes tests/golden/checkpoints/: small checkpoints, and expected.jsonl, one line for each tensor, with its
checkpoint, name, dtype, shape and its elements' bytes in hexadecimal digits (of strings: a list of those). Large
indexes are packed by gzip.
"""

import gzip
import json
import os
import shutil
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "checkpoints")

DTYPES = ["float32", "float64", "int32", "uint8", "int16", "int8", "int64", "bool", "bfloat16", "uint16",
          "float16", "uint32", "uint64", "complex64", "complex128"]


def value(dtype, shape, seed=0):
    """Some elements of a dtype, the same each time."""
    count = int(np.prod(shape, dtype=np.int64))
    numbers = (np.arange(count, dtype=np.int64) * 37 + 11 * seed) % 101 - 50
    if dtype == "bool":
        array = numbers > 0
    elif dtype in ("uint8", "uint16", "uint32", "uint64"):
        array = (numbers + 50).astype(dtype)
    elif dtype == "bfloat16":
        array = (numbers / 8).astype(tf.bfloat16.as_numpy_dtype)
    elif dtype.startswith("complex"):
        array = (numbers + 0.5j * numbers).astype(dtype)
    else:
        array = (numbers / 8 if dtype.startswith("float") else numbers).astype(dtype)
    return array.reshape(shape)


def strings(shape, seed=0):
    count = int(np.prod(shape, dtype=np.int64))
    some = [b"", b"a", b"two words", b"\x00\xff\x00", "h\u00e9".encode(), b"long " * 60]
    array = np.empty([count], dtype=object)
    for i in range(count):
        array[i] = some[(i + seed) % len(some)]
    return array.reshape(shape)


def save_raw(prefix, tensors, slices=None):
    """By the op SaveV2 itself."""
    names = list(tensors)
    slices = slices or [""] * len(names)
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=slices,
                      tensors=[tf.constant(tensors[n]) for n in names])


def every_dtype(folder):
    tensors = {}
    for i, dtype in enumerate(DTYPES):
        tensors["scalar/" + dtype] = value(dtype, [], i)
        tensors["vector/" + dtype] = value(dtype, [5], i)
        tensors["matrix/" + dtype] = value(dtype, [3, 4], i)
        tensors["empty/" + dtype] = value(dtype, [0, 3], i)
    tensors["scalar/string"] = np.array(b"text", dtype=object)
    tensors["matrix/string"] = strings([4, 3])
    tensors["empty/string"] = strings([0])
    tensors["high"] = value("float32", [1, 2, 1, 2, 1, 2])
    save_raw(os.path.join(folder, "dtypes"), tensors)


def many(folder):
    """Enough names that the index has several blocks."""
    tensors = {"scope_%04d/a_rather_long_name_of_a_layer/in_a_tower_%d/kernel" % (i, i % 7):
               value("float32", [1 + i % 3], i) for i in range(6000)}
    save_raw(os.path.join(folder, "many"), tensors)


def overlong(folder):
    """A name of more than two blocks."""
    save_raw(os.path.join(folder, "overlong"), {"a": value("int32", [2]), "b" * 600000: value("int32", [3]),
                                                "c": value("int32", [4])})


def partitions(folder):
    with tf.Graph().as_default(), v1.Session() as session:
        rows = v1.get_variable("rows", initializer=tf.constant(value("float32", [7, 3])),
                               partitioner=v1.fixed_size_partitioner(3), use_resource=False)
        columns = v1.get_variable("scope/columns", initializer=tf.constant(value("int64", [2, 9])),
                                  partitioner=v1.fixed_size_partitioner(4, axis=1), use_resource=False)
        step = v1.get_variable("global_step", initializer=np.int64(12), trainable=False)
        session.run(v1.global_variables_initializer())
        del rows, columns, step
        v1.train.Saver().save(session, os.path.join(folder, "partitions"), global_step=12, write_state=False)
    text = strings([4, 2])
    slices = ["4 2 0,1:-", "4 2 1,3:0,1", "4 2 1,3:1,1"]
    names = ["text"] * 3
    tf.raw_ops.SaveV2(prefix=os.path.join(folder, "text_parts"), tensor_names=names, shape_and_slices=slices,
                      tensors=[tf.constant(text[0:1, :]), tf.constant(text[1:, 0:1]), tf.constant(text[1:, 1:])])


def sharded(folder):
    """A sharded Saver on three devices of one process."""
    config = v1.ConfigProto(device_count={"CPU": 3})
    with tf.Graph().as_default():
        for i in range(7):
            with tf.device("/cpu:%d" % (i % 3)):
                v1.get_variable("layer%d/kernel" % i, initializer=tf.constant(value("float32", [2, i + 1], i)),
                                use_resource=False)
        with v1.Session(config=config) as session:
            session.run(v1.global_variables_initializer())
            v1.train.Saver(sharded=True).save(session, os.path.join(folder, "sharded"), global_step=3,
                                               write_state=False)


def saver(folder):
    """TensorFlow 1's Saver, with a state file of five."""
    run = os.path.join(folder, "run")
    os.makedirs(run)
    with tf.Graph().as_default(), v1.Session() as session:
        weights = v1.get_variable("dense/kernel", initializer=tf.constant(value("float32", [4, 2])))
        v1.get_variable("dense/bias", initializer=tf.constant(value("float32", [2])))
        step = v1.get_variable("global_step", initializer=np.int64(0), trainable=False)
        optimizer = v1.train.AdamOptimizer(0.1)
        train = optimizer.minimize(tf.reduce_sum(weights * weights), global_step=step)
        session.run(v1.global_variables_initializer())
        keep = v1.train.Saver(max_to_keep=3, save_relative_paths=True)
        for _ in range(4):
            session.run(train)
            keep.save(session, os.path.join(run, "model.ckpt"), global_step=step)


def first_format(folder):
    """TensorFlow's first format, one file of tensors, and two with slices of one."""
    # TensorFlow has no others in this format.
    dtypes = [d for d in DTYPES if d not in ("bfloat16", "uint32", "uint64")]
    tensors = {"matrix/" + d: value(d, [3, 4], i) for i, d in enumerate(dtypes)}
    tensors |= {"scalar": value("float32", []), "none": value("int32", [0, 2]), "matrix/string": strings([4, 3])}
    with tf.Graph().as_default(), v1.Session() as session:

        def save(name, names, slices, data):
            arguments = {"tensor_names": names, "shapes_and_slices": slices}
            session.run(tf.raw_ops.SaveSlices(filename=os.path.join(folder, name), data=[tf.constant(d) for d in data], **arguments))

        save("first", list(tensors), [""] * len(tensors), list(tensors.values()))
        tensors["rows"] = value("float32", [4, 3])
        for shard in range(2):
            rows = tensors["rows"][2 * shard : 2 * shard + 2]
            slices = [f"4 3 {2 * shard},2:0,1", f"4 3 {2 * shard},2:1,2"]
            save(f"first-parts-0000{shard}-of-00002", ["rows"] * 2, slices, [rows[:, :1], rows[:, 1:]])
    lines = [expected("first-parts-?????-of-00002" if name == "rows" else "first", name, t) for name, t in tensors.items()]
    with open(os.path.join(folder, "first.jsonl"), "w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


class Dense(tf.Module):
    def __init__(self, inputs, outputs, name):
        super().__init__(name=name)
        with self.name_scope:
            self.kernel = tf.Variable(value("float32", [inputs, outputs]), name="kernel")
            self.bias = tf.Variable(value("float32", [outputs], 3), name="bias")


class Model(tf.Module):
    def __init__(self):
        super().__init__(name="model")
        self.layers = [Dense(3, 2, "first"), Dense(2, 1, "second")]
        self.twins = [tf.Variable(1.0, name="twin"), tf.Variable(2.0, name="twin")]


def objects(folder):
    """TensorFlow 2's object-based checkpoints."""
    step = tf.Variable(np.int64(5), name="step")
    checkpoint = tf.train.Checkpoint(model=Model(), step=step)
    manager = tf.train.CheckpointManager(checkpoint, os.path.join(folder, "objects"), max_to_keep=2)
    for _ in range(3):
        manager.save()


def expected(prefix, name, tensor):
    tensor = np.asarray(tensor)
    if tensor.dtype.kind in "OS":
        kind = "string"
        elements = [e.encode() if isinstance(e, str) else e for e in tensor.reshape(-1)]
        data = [e.hex() for e in elements]
    else:
        kind = str(tensor.dtype)
        data = np.ascontiguousarray(tensor).tobytes().hex()
    return {"checkpoint": prefix, "name": name, "dtype": kind, "shape": list(tensor.shape), "data": data}


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER)
    for make in (every_dtype, many, overlong, partitions, sharded, saver, objects, first_format):
        make(FOLDER)
    for root, _, files in os.walk(FOLDER):
        for name in files:
            # The graphs beside the checkpoints are large, and nothing here reads them.
            if name.endswith(".meta"):
                os.remove(os.path.join(root, name))
    lines = []
    for root, _, files in sorted(os.walk(FOLDER)):
        for name in sorted(files):
            if not name.endswith(".index"):
                continue
            prefix = os.path.join(root, name[:-len(".index")])
            reader = tf.train.load_checkpoint(prefix)
            shown = os.path.relpath(prefix, FOLDER)
            for key in sorted(reader.get_variable_to_shape_map()):
                if shown == "many" and int(key[6:10]) % 50:
                    continue
                if len(key) > 1000:
                    continue
                if shown == "text_parts":
                    # TensorFlow saves slices of strings, and does not put them together.
                    lines.append(expected(shown, key, strings([4, 2])))
                    continue
                lines.append(expected(shown, key, reader.get_tensor(key)))
    with open(os.path.join(FOLDER, "expected.jsonl"), "w") as file:
        for line in lines:
            file.write(json.dumps(line) + "\n")
    for name in ("many.index", "overlong.index"):
        path = os.path.join(FOLDER, name)
        with open(path, "rb") as file, open(path + ".gz", "wb") as packed:
            with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as to:
                to.write(file.read())
        os.remove(path)
    print(len(lines), "tensors by TensorFlow", tf.__version__, file=sys.stderr)


if __name__ == "__main__":
    main()
