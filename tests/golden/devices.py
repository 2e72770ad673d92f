"""TensorFlow's results for device strings, device scopes, device functions and placements.

    python tests/golden/devices.py

in a virtual environment with tensorflow-cpu writes devices.jsonl.gz beside this file. Each line is a
case; tests/engine/placement.rs reads them.
"""

import gzip
import itertools
import json
import os
import random

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf  # noqa: E402

import placed_graphs  # noqa: E402

tf1 = tf.compat.v1
tf1.disable_eager_execution()
tf1.disable_control_flow_v2()
HERE = os.path.dirname(os.path.abspath(__file__))


def strings():
    """Parsed and printed by Python's DeviceSpec; null for an error."""
    jobs = ["", "/job:ps", "/job:worker_2", "/job:*"]
    replicas = ["", "/replica:0", "/replica:*"]
    tasks = ["", "/task:3", "/task:*", "/task:012"]
    devices = ["", "/device:GPU:1", "/device:gpu:0", "/device:CPU:*", "/cpu:0", "/GPU:2", "/gpu:*", "/gpu", "/device:TPU_X:7"]
    texts = ["".join(p) for p in itertools.product(jobs, replicas, tasks, devices)]
    rng = random.Random(1)
    for _ in range(100):
        parts = [rng.choice(c) for c in (jobs, replicas, tasks, devices)]
        rng.shuffle(parts)
        texts.append("".join(parts))
    texts += [
        "/", "//", "/job", "/job:", "/job:1a", "/job:a-b", "/job:a:b", "/task:x", "/task:", "/replica:-1",
        "/device:GPU", "/device:GPU:x", "/device:GPU:0:1", "/device:", "/Device:GPU:0", "/cpu:0/gpu:0",
        "/gpu:0/device:GPU:1", "/job:a/job:b", "/foo:1", "foo", "job:a", "/JOB:a", "/task:1.5", "/task:99999999999",
        "/job:a b", "/job:ä", " /job:a", "/job:a ", "/cpu:0/", "/xpu:0", "/TASK:0", "/replica:0/replica:1", "/task:0/task:0",
    ]
    for text in dict.fromkeys(texts):
        try:
            printed = tf.DeviceSpec.from_string(text).to_string()
        except Exception:
            printed = None
        yield {"kind": "string", "text": text, "printed": printed}


def merges():
    specs = ["", "/job:a", "/job:b/task:1", "/gpu:0", "/cpu:*", "/task:2/device:GPU:3", "/replica:0/job:a/cpu:0", "/replica:1"]
    for inner, outer in itertools.product(specs, specs):
        merged = tf.DeviceSpec.from_string(outer).make_merged_spec(tf.DeviceSpec.from_string(inner))
        yield {"kind": "merge", "inner": inner, "outer": outer, "merged": merged.to_string()}


# Scopes, from the outermost in: a string, null, or a function by name.
FUNCTIONS = {
    "job_z": lambda op: "/job:z",
    "merge_w": lambda op: tf.DeviceSpec.from_string("/job:w/task:1").make_merged_spec(tf.DeviceSpec.from_string(op.device or "")).to_string(),
    "by_op": lambda op: "/job:ps" if op.type == "VarHandleOp" else "/job:worker",
    "empty": lambda op: "",
    "keep": lambda op: op.device,
}


def scopes():
    choices = ["/gpu:3", "/job:a/cpu:0", "/task:1", None, *("fn:" + f for f in FUNCTIONS)]
    for depth in (1, 2, 3):
        for stack in itertools.product(choices, repeat=depth):
            if depth == 3 and hash_of(stack) % 3:
                continue
            with tf1.Graph().as_default() as g:
                def build(rest):
                    if not rest:
                        return tf1.placeholder(tf.float32, [], name="x").op
                    scope = rest[0]
                    if scope is not None and scope.startswith("fn:"):
                        scope = FUNCTIONS[scope[3:]]
                    with g.device(scope):
                        return build(rest[1:])
                op = build(list(stack))
            yield {"kind": "scope", "stack": list(stack), "device": op.device}


def hash_of(stack):
    return sum(ord(c) for s in stack for c in (s or "none"))


def colocations():
    """Chains of colocate_with inside and outside of device scopes."""
    def case(name, build):
        with tf1.Graph().as_default() as g:
            build(g)
            nodes = []
            for op in g.get_operations():
                groups = placed_graphs.groups(op)
                nodes.append({"name": op.name, "device": op.device, "class": groups})
        return {"kind": "colocate", "name": name, "nodes": nodes}

    def p(name):
        return tf1.placeholder(tf.float32, [], name=name).op

    def plain(g):
        a = p("a")
        with g.colocate_with(a):
            p("b")

    def with_device(g):
        with g.device("/job:ps/task:1"):
            a = p("a")
        with g.device("/gpu:0"), g.colocate_with(a):
            p("b")

    def inner_device(g):
        with g.device("/job:ps"):
            a = p("a")
        with g.colocate_with(a), g.device("/gpu:0"):
            p("b")

    def inner_device_no_outer(g):
        a = p("a")
        with g.colocate_with(a), g.device("/gpu:0"):
            p("b")

    def chain(g):
        a = p("a")
        with g.colocate_with(a):
            b = p("b")
        with g.colocate_with(b):
            p("c")

    def nested(g):
        a, b = p("a"), p("b")
        with g.colocate_with(a), g.colocate_with(b):
            p("c")

    def nested_devices(g):
        with g.device("/cpu:0"):
            a = p("a")
        with g.device("/cpu:1"):
            b = p("b")
        with g.colocate_with(a), g.colocate_with(b):
            p("c")

    for f in (plain, with_device, inner_device, inner_device_no_outer, chain, nested, nested_devices):
        yield case(f.__name__, f)


FIGURE_4 = [("weights_1", [784, 100]), ("biases_1", [100]), ("weights_2", [100, 10]), ("biases_2", [10])]
DEEP_MNIST = [("w1", [5, 5, 1, 32]), ("b1", [32]), ("w2", [5, 5, 32, 64]), ("b2", [64]), ("w3", [3136, 1024]), ("b3", [1024]), ("w4", [1024, 10]), ("b4", [10])]
TIES = [("t%d" % i, [10]) for i in range(7)]


def resnet50():
    """The variables of ResNet-50 v1 in the order of building: convolutions with batch norm."""
    yield "conv1", [7, 7, 3, 64]
    for n in ("gamma", "beta", "mean", "variance"):
        yield "conv1_" + n, [64]
    inputs = 64
    for stage, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)], 2):
        for block in range(blocks):
            convs = [(1, inputs, width), (3, width, width), (1, width, 4 * width)]
            if block == 0:
                convs.insert(0, (1, inputs, 4 * width))
            for i, (k, a, b) in enumerate(convs):
                name = "conv%d_%d_%d" % (stage, block, i)
                yield name, [k, k, a, b]
                for n in ("gamma", "beta", "mean", "variance"):
                    yield name + "_" + n, [b]
            inputs = 4 * width
    yield "fc", [2048, 1001]
    yield "fc_bias", [1001]


def setters():
    """replica_device_setter over lists of variables, as reference variables, whose bytes
    TensorFlow's load function sees."""
    models = {"figure_4": FIGURE_4, "deep_mnist": DEEP_MNIST, "ties": TIES, "resnet50": list(resnet50())}
    for name, variables in models.items():
        for tasks in (1, 2, 3, 4, 8):
            for strategy in ("round_robin", "greedy"):
                for pinned in (None, 2):
                    chosen = None
                    if strategy == "greedy":
                        chosen = tf1.train.experimental.GreedyLoadBalancingStrategy(tasks, tf1.train.experimental.byte_size_load_fn) if hasattr(tf1.train, "experimental") and hasattr(tf1.train.experimental, "GreedyLoadBalancingStrategy") else Greedy(tasks)
                    with tf1.Graph().as_default() as g, g.device(tf1.train.replica_device_setter(ps_tasks=tasks, ps_strategy=chosen)):
                        devices = []
                        for i, (variable, shape) in enumerate(variables):
                            scope = "/task:0" if pinned == i else ""
                            with g.device(scope):
                                op = tf.raw_ops.VariableV2(shape=shape, dtype=tf.float32, name=variable).op
                            devices.append(op.device)
                        worker = tf1.placeholder(tf.float32, []).op.device
                    yield {"kind": "setter", "model": name, "variables": [[v, s] for v, s in variables], "tasks": tasks, "strategy": strategy, "pinned": pinned, "devices": devices, "worker": worker}


class Greedy:
    """The strategy as tf.contrib.training had it, for a TensorFlow that no longer has contrib."""

    def __init__(self, tasks):
        self.loads = [0.0] * tasks

    def __call__(self, op):
        shape = op.outputs[0].get_shape()
        load = shape.num_elements() * op.outputs[0].dtype.size
        task = self.loads.index(min(self.loads))
        self.loads[task] += load
        return task


def options():
    """The arguments of replica_device_setter, on a variable and on another op in inner scopes."""
    inner = ["", "/job:ps", "/job:other", "/task:7", "/job:ps/task:1", "/gpu:1", "/cpu:0"]
    arguments = [
        {},
        {"ps_device": "/job:ps/cpu:0"},
        {"ps_device": "/job:other"},
        {"ps_device": "/cpu:0"},
        {"ps_device": ""},
        {"worker_device": "/job:worker/task:3/gpu:0"},
        {"worker_device": ""},
        {"merge_devices": False},
        {"ps_ops": ["Placeholder"]},
        {"ps_tasks": 0},
    ]
    for given, scope in itertools.product(arguments, inner):
        merged = {"ps_tasks": 3, **given}
        with tf1.Graph().as_default() as g, g.device("/replica:5"), g.device(tf1.train.replica_device_setter(**merged)), g.device(scope):
            a = tf.raw_ops.VariableV2(shape=[], dtype=tf.float32, name="a").op.device
            b = tf1.placeholder(tf.float32, [], name="b").op.device
            c = tf.raw_ops.VariableV2(shape=[], dtype=tf.float32, name="c").op.device
        yield {"kind": "options", "arguments": merged, "scope": scope, "devices": [a, b, c]}


def main():
    lines = []
    for make in (strings, merges, scopes, colocations, setters, options):
        lines += [json.dumps(case, sort_keys=True) for case in make()]
    lines += [json.dumps(case, sort_keys=True) for case in placed_graphs.cases()]
    path = os.path.join(HERE, "devices.jsonl.gz")
    with open(path, "wb") as raw, gzip.GzipFile(fileobj=raw, mode="wb", mtime=0, filename="") as f:
        f.write(("\n".join(lines) + "\n").encode())
    print(len(lines), "cases")


if __name__ == "__main__":
    main()
