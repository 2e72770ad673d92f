"""TensorFlow's Saver or torch.save, for checkpoint_speed.rs: `peers.py tensorflow|torch SHAPES`.

Reads lines `save PATH` and `restore PATH`, and answers each with the seconds that it took.
"""

import json
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np


def sync(paths):
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)


class TensorFlow:
    def __init__(self, shapes):
        import tensorflow as tf

        v1 = tf.compat.v1
        v1.disable_eager_execution()
        self.graph = tf.Graph()
        with self.graph.as_default():
            for i, shape in enumerate(shapes):
                place = v1.placeholder_with_default(tf.zeros(shape), shape)
                v1.get_variable("v%03d" % i, initializer=place, use_resource=False)
            # As training has them: an initializer that the graph holds would be in the .meta file.
            self.session = v1.Session()
            self.session.run(v1.global_variables_initializer())
            for variable in v1.global_variables():
                value = np.random.default_rng(1).random(variable.shape.as_list(), dtype=np.float32)
                variable.load(value, self.session)
            self.saver = v1.train.Saver()

    def save(self, path):
        self.saver.save(self.session, path, write_meta_graph=False, write_state=False)
        sync([path + ".data-00000-of-00001", path + ".index"])

    def restore(self, path):
        self.saver.restore(self.session, path)


class Torch:
    def __init__(self, shapes):
        import torch

        self.torch = torch
        self.values = {"v%03d" % i: torch.rand(shape) for i, shape in enumerate(shapes)}

    def save(self, path):
        self.torch.save(self.values, path)
        sync([path])

    def restore(self, path):
        return self.torch.load(path, weights_only=True)


def main():
    peer = {"tensorflow": TensorFlow, "torch": Torch}[sys.argv[1]](json.loads(sys.argv[2]))
    print("ready", flush=True)
    for line in sys.stdin:
        what, path = line.split(maxsplit=1)
        start = time.perf_counter()
        getattr(peer, what)(path.strip())
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main()
