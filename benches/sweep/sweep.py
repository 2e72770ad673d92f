#!/usr/bin/env python3
"""Times ops of random shapes on Thalweg, TensorFlow and PyTorch, in alternation, and writes the ratios.

python benches/sweep/sweep.py --thalweg target/release/thalweg [--seed 1] [--count 4] [--only REGEX] [--out sweep.jsonl]
python benches/sweep/sweep.py --report sweep.jsonl [--markdown docs/results/sweep.md]

Needs tensorflow-cpu; PyTorch is compared where it is installed and has the op. A case is one op or one expression of
`tf.compat.v1`; its inputs are constants in TensorFlow, whose rewriting of graphs is off, and placeholders in Thalweg.
"""

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
import zlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

import numpy as np
import tensorflow as tf2

import arrays
import convolution
import elementwise
import linear
import loops
import pictures
import report
import rows
import texts
import training

tf = tf2.compat.v1
FAMILIES = (elementwise, arrays, linear, convolution, rows, pictures, texts, training, loops)
SECONDS = 0.15
MOST_STEPS = 3000


class Constants:
    """Inputs of a graph that TensorFlow runs."""

    def __init__(self):
        self.inits = []

    def input(self, array):
        return tf.constant(array)

    def variable(self, array):
        """The handle of a resource variable."""
        handle = tf.raw_ops.VarHandleOp(dtype=array.dtype, shape=array.shape, shared_name=f"v{len(self.inits)}")
        self.inits.append(tf.raw_ops.AssignVariableOp(resource=handle, value=tf.constant(array)))
        return handle


class Placeholders(Constants):
    """Inputs of a graph that Thalweg runs, and the flags that feed them."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder
        self.flags = []

    def input(self, array):
        array = np.asarray(array)
        if array.dtype.kind not in "biufS" or array.dtype.name == "bfloat16":
            return tf.constant(array)
        name = f"in{len(self.flags)}"
        path = os.path.join(self.folder, name + ".npy")
        np.save(path, array)
        self.flags += ["--feed", f"{name}={path}"]
        return tf.placeholder(tf.as_dtype(array.dtype) if array.dtype.kind != "S" else tf.string, array.shape, name)


def outputs(made):
    """The tensors of what a raw op returns."""
    if isinstance(made, (tf2.Tensor, tf.Operation)):
        return [made]
    if isinstance(made, dict):
        made = made.values()
    return [t for part in made for t in outputs(part)]


def build(case, inputs):
    """What a case computes, tensors and ops, in the default graph; and the op that initializes its variables."""
    return outputs(case.build(inputs)), tf.group(*inputs.inits, name="init")


class TensorFlow:
    """A session of TensorFlow with two threads."""

    def __init__(self, case, threads):
        self.graph = tf.Graph()
        with self.graph.as_default():
            parts, init = build(case, Constants())
            target = tf.group(*(t if isinstance(t, tf.Operation) else t.op for t in parts))
        options = tf.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
        options.graph_options.rewrite_options.disable_meta_optimizer = True
        options.graph_options.optimizer_options.opt_level = -1
        self.session = tf.Session(graph=self.graph, config=options)
        self.session.run(init)
        self.step = self.session.make_callable(target)

    def seconds(self):
        return measured(self.step)

    def close(self):
        self.session.close()


def measured(step):
    """The median of the seconds of a step."""
    start = time.perf_counter()
    step()
    step()
    first = (time.perf_counter() - start) / 2
    count = int(min(MOST_STEPS, max(5, SECONDS / max(first, 1e-6))))
    times = []
    for _ in range(count):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


class Thalweg:
    """`thalweg run --benchmark` of the same graph."""

    def __init__(self, case, options):
        self.folder = tempfile.TemporaryDirectory()
        inputs = Placeholders(self.folder.name)
        with tf.Graph().as_default() as graph:
            parts, _ = build(case, inputs)
            path = os.path.join(self.folder.name, "graph.pb")
            with open(path, "wb") as file:
                file.write(graph.as_graph_def().SerializeToString())
        # A value that nothing uses is not computed: tensors are fetched, and dropped.
        asked = [("--target" if isinstance(t, tf.Operation) else "--fetch", t.name) for t in parts]
        self.command = [options.thalweg, "run", path, "--init", "init", "--json", "--threads", str(options.threads)]
        self.command += [word for pair in dict.fromkeys(asked) for word in pair] + inputs.flags

    def seconds(self, expected):
        count = int(min(MOST_STEPS, max(5, SECONDS / max(expected, 1e-6))))
        command = [*self.command, "--benchmark", str(count)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if ran.returncode:
            raise RuntimeError(ran.stderr.strip().splitlines()[-1][:300] if ran.stderr.strip() else "no output")
        return json.loads(ran.stdout)["latency_ms"]["median"] / 1e3

    def close(self):
        self.folder.cleanup()


def torch_seconds(case, threads):
    """Seconds of PyTorch, where it has the case."""
    if case.torch is None:
        return None
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(threads)
    with torch.no_grad():
        return measured(case.torch(torch))


def run(case, options):
    """The record of a case: medians of seconds, and ratios."""
    peer, own = TensorFlow(case, options.threads), Thalweg(case, options)
    record = {"name": case.name, "family": case.family}
    try:
        peers, owns = [], []
        for _ in range(options.rounds):
            peers.append(peer.seconds())
            owns.append(own.seconds(min(peers)))
        if min(owns) > 1.2 * min(peers):  # once more: other programs may have run
            peers.append(peer.seconds())
            owns.append(own.seconds(min(peers)))
        record["thalweg"], record["tensorflow"] = min(owns), min(peers)
        record["torch"] = torch_seconds(case, options.threads)
    finally:
        peer.close()
        own.close()
    return record


def cases(options):
    """The cases of all families, each family by seeds of its own."""
    for family in FAMILIES:
        name = family.__name__
        rng = random.Random(zlib.crc32(f"{name} {options.seed}".encode()))
        for case in family.cases(rng, options.count):
            case.family = name
            if re.search(options.only, f"{name}/{case.name}"):
                yield case


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--thalweg", default="target/release/thalweg")
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--count", type=int, default=2, help="random shapes of each op and dtype")
    flags.add_argument("--threads", type=int, default=2)
    flags.add_argument("--rounds", type=int, default=2)
    flags.add_argument("--only", default="", metavar="REGEX")
    flags.add_argument("--list", action="store_true")
    flags.add_argument("--out", default="sweep.jsonl")
    flags.add_argument("--report", metavar="FILE.jsonl")
    flags.add_argument("--markdown", metavar="FILE.md")
    options = flags.parse_args()
    if options.report:
        return report.write(options.report, options.markdown)
    with open(options.out, "a") as out:
        for case in cases(options):
            if options.list:
                print(f"{case.family}/{case.name}")
                continue
            try:
                record = run(case, options)
            except Exception as error:  # A refusal by either side is a record too.
                record = {"name": case.name, "family": case.family, "error": f"{type(error).__name__}: {error}"[:400]}
            out.write(json.dumps(record) + "\n")
            out.flush()
            print(report.line(record), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    main()
