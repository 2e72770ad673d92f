"""Reads a test's files with TensorFlow, and prints their content: a JSON object a line.

    reads.py read PREFIX...     all tensors, by tf.train.load_checkpoint
    reads.py restore PREFIX     the variables of `variables`, by TensorFlow 1's Saver
    reads.py latest FOLDER      the result of tf.train.latest_checkpoint
"""

import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf

# What is expected of golden checkpoints has the same form.
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../../tests/golden"))
from checkpoints import expected as shown

v1 = tf.compat.v1


def read(prefixes):
    for prefix in prefixes:
        reader = tf.train.load_checkpoint(prefix)
        for name in sorted(reader.get_variable_to_shape_map()):
            yield shown(prefix, name, reader.get_tensor(name))


def restore(prefix):
    with tf.Graph().as_default(), v1.Session() as session:
        rows = v1.get_variable("rows", shape=[5, 3], partitioner=v1.fixed_size_partitioner(2), use_resource=False)
        whole = v1.get_variable("kernel", shape=[2, 2], use_resource=False)
        v1.train.Saver().restore(session, prefix)
        yield shown(prefix, "rows", session.run(tf.convert_to_tensor(rows)))
        yield shown(prefix, "kernel", session.run(whole))


def main():
    what, arguments = sys.argv[1], sys.argv[2:]
    if what == "read":
        lines = read(arguments)
    elif what == "restore":
        lines = restore(*arguments)
    else:
        lines = [{"latest": tf.train.latest_checkpoint(*arguments)}]
    for line in lines:
        print(json.dumps(line))


if __name__ == "__main__":
    main()
