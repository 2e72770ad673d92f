#!/usr/bin/env python3
"""Writes placements.jsonl.gz: graphs, and where TensorFlow's own placer puts their nodes.

Each case is a graph of a few ops with devices and colocation groups, hand-made (placement_cases.py)
or random from its name. The whole graph is placed when a session first runs; the assignments are
read from the output of `log_device_placement`. `--check` compares with the committed file.
"""

import ctypes
import gzip
import json
import os
import pathlib
import random
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf  # noqa: E402

import placement_cases  # noqa: E402
from generate import pack  # noqa: E402

tf1 = tf.compat.v1
FILE = pathlib.Path(__file__).parent / "placements.jsonl.gz"
INT_MAKERS = ("Shape", "Size", "Rank")


def config(count, soft):
    c = tf1.ConfigProto(device_count={"CPU": count}, allow_soft_placement=soft, log_device_placement=True)
    c.graph_options.rewrite_options.disable_meta_optimizer = True
    c.graph_options.optimizer_options.opt_level = tf1.OptimizerOptions.L0
    return c


def node_def(graph_def, spec, dtypes):
    """Adds the node without its device and group; these are set behind Python's back later."""
    node = graph_def.node.add(name=spec["name"], op=spec["op"], input=spec["inputs"])
    values = [i for i in spec["inputs"] if not i.startswith("^")]
    of_input = dtypes[values[0]] if values else tf.float32
    op, attr = spec["op"], node.attr
    dtypes[spec["name"]] = of_input
    if op in ("Placeholder", "VarHandleOp"):
        attr["dtype"].type = tf.float32.as_datatype_enum
        attr["shape"].shape.CopyFrom(tf.TensorShape([2]).as_proto())
        dtypes[spec["name"]] = tf.resource if op == "VarHandleOp" else tf.float32
    if op == "VarHandleOp":
        attr["shared_name"].s = spec["name"].encode()
    elif op == "Const":
        value = 1.0 if spec.get("scalar") else [1.0, 2.0]
        attr["dtype"].type = tf.float32.as_datatype_enum
        attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, tf.float32))
    elif op in ("ReadVariableOp", "AssignVariableOp", "AssignAddVariableOp"):
        attr["dtype"].type = tf.float32.as_datatype_enum
        dtypes[spec["name"]] = tf.float32
    elif op in INT_MAKERS:
        attr["T"].type = of_input.as_datatype_enum
        dtypes[spec["name"]] = tf.int32
    elif op == "ResourceApplyMomentum":
        attr["T"].type = tf.float32.as_datatype_enum
    elif op not in ("Placeholder", "NoOp", "VarIsInitializedOp"):
        attr["T"].type = of_input.as_datatype_enum


def build(nodes):
    graph, graph_def, dtypes = tf1.Graph(), tf1.GraphDef(), {}
    for spec in nodes:
        node_def(graph_def, spec, dtypes)
    with graph.as_default():
        tf1.import_graph_def(graph_def, name="")
    for spec in nodes:
        op = graph.get_operation_by_name(spec["name"])
        if spec["device"]:
            op._set_device_from_string(spec["device"])
        if spec["class"]:
            groups = [b"loc:@" + c.encode() for c in spec["class"]]
            op._set_attr("_class", tf1.AttrValue(list=tf1.AttrValue.ListValue(s=groups)))
    return graph


def printed(run):
    """The output of `run` on C's stdout, and its error."""
    libc, error = ctypes.CDLL(None), None
    sys.stdout.flush()
    with tempfile.TemporaryFile() as file:
        kept = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            run()
        except tf.errors.OpError as e:
            error = e
        finally:
            libc.fflush(None)
            os.dup2(kept, 1)
            os.close(kept)
        file.seek(0)
        return file.read().decode(), error


def kind(error):
    text = error.message
    if "Cannot colocate nodes" in text or "incompatible" in text and "edge connects" in text:
        return "conflict"
    if "was colocated with a group of nodes that required incompatible device" in text:
        return "device"
    if "was explicitly assigned to" in text or "Could not satisfy explicit device" in text:
        return "device"
    raise error


def place(nodes, world, soft):
    nodes = nodes + [{"name": "go", "op": "NoOp", "inputs": [], "device": "", "class": []}]
    graph = build(nodes)
    target, count = world.target, world.count
    with tf1.Session(target, graph=graph, config=config(count, soft)) as session:
        text, error = printed(lambda: session.run(graph.get_operation_by_name("go")))
    if error is not None:
        return nodes, kind(error)
    placed = {}
    for line in text.splitlines():
        name, found, device = line.partition("): /job:")
        if found:
            placed[name.partition(": (")[0]] = "/job:" + device
    return nodes, [placed[n["name"]] for n in nodes]


class World:
    """Devices: of a process of its own, or of a cluster as one task sees it."""

    def __init__(self, name, count, target=""):
        self.name, self.count, self.target = name, count, target
        with tf1.Session(target, config=config(count, False)) as session:
            names = [d.name for d in session.list_devices() if "XLA" not in d.name]
        local = "/job:localhost" if not target else f"/job:{name.partition(':')[2]}"
        # The order in which TensorFlow prefers them: its own process first, then by name.
        self.devices = sorted(names, key=lambda d: (not d.startswith(local.replace(":0", "/")), d))


def worlds():
    cluster = {job: [f"localhost:{port}" for port in ports] for job, ports in
               (("ps", (34801, 34802)), ("worker", (34811, 34812)))}
    servers = {(job, i): tf1.train.Server(cluster, job, i, config=tf1.ConfigProto(device_count={"CPU": 2}))
               for job in cluster for i in range(2)}
    made = {name: World(name, count) for name, count in (("one", 1), ("four", 4), ("twelve", 12))}
    for (job, i) in (("worker", 0), ("ps", 1)):
        world = World("cluster", 2, servers[job, i].target)
        own = f"/job:{job}/replica:0/task:{i}/"
        world.devices.sort(key=lambda d: (not d.startswith(own), d))
        made[f"cluster from {job} {i}"] = world
    made["servers"] = servers  # They live as long as the table does.
    return made


def random_nodes(rng, devices):
    """A graph of every kind of op, with more or fewer devices and groups from graph to graph."""
    asking, grouping = rng.choice((0.1, 0.3, 0.7)), rng.choice((0.0, 0.1, 0.3))
    names = [f"n{i}" for i in range(rng.randrange(6, 30))]
    nodes, floats, values, handles = [], [], [], []
    for name in names:
        ops = ["Placeholder", "Const", "VarHandleOp", "NoOp"]
        if values:
            ops += ["Identity", "Neg", "Shape", "Size", "Rank"] * 2
        if floats:
            ops += ["Add"] * 4
        if handles:
            ops += ["ReadVariableOp"] * 4 + ["VarIsInitializedOp"]
        if handles and floats:
            ops += ["AssignVariableOp", "AssignAddVariableOp"] * 2
        op = rng.choice(ops)
        inputs = {
            "Add": lambda: [rng.choice(floats), rng.choice(floats)],
            "ReadVariableOp": lambda: [rng.choice(handles)],
            "VarIsInitializedOp": lambda: [rng.choice(handles)],
            "AssignVariableOp": lambda: [rng.choice(handles), rng.choice(floats)],
            "AssignAddVariableOp": lambda: [rng.choice(handles), rng.choice(floats)],
        }.get(op, lambda: [rng.choice(values)] if op in INT_MAKERS + ("Identity", "Neg") else [])()
        # TensorFlow takes any edge of a metadata op for its input, so it gets no control edge.
        if nodes and op not in INT_MAKERS and rng.random() < 0.15:
            inputs.append("^" + rng.choice(nodes)["name"])
        nodes.append({
            "name": name,
            "op": op,
            "inputs": inputs,
            "device": rng.choice(devices) if rng.random() < asking else "",
            "class": rng.sample(names + ["ghost"], rng.choice((1, 1, 2))) if rng.random() < grouping else [],
        })
        if op == "VarHandleOp":
            handles.append(name)
        elif op in ("Placeholder", "Const", "ReadVariableOp", "Add"):
            floats.append(name)
            values.append(name)
        elif op in ("Identity", "Neg") + INT_MAKERS:
            values.append(name)
    return nodes


LOCAL = ["/device:CPU:0", "/device:CPU:1", "/device:CPU:1", "/device:CPU:2", "/device:CPU:*", "/device:GPU:0",
         "/job:localhost", "/job:localhost/replica:0/task:0/device:CPU:3", "/task:0"]
CLUSTER = ["/job:ps", "/job:ps", "/job:ps/task:1", "/job:worker/task:1", "/job:worker", "/device:CPU:1", "/task:1",
           "/job:ps/replica:0/task:0/device:CPU:1", "/job:worker/task:0/device:GPU:0", "/device:GPU:1"]


def cases(made):
    for case in placement_cases.CASES:
        yield case
    for seed in range(600):
        rng = random.Random(f"placement {seed}")
        world = rng.choice(("four", "four", "cluster from worker 0", "cluster from ps 1"))
        devices = LOCAL if world == "four" else CLUSTER
        if rng.random() < 0.5:
            devices = [d for d in devices if "GPU" not in d][: rng.choice((2, 3, 9))]
        yield {
            "name": f"random {seed}",
            "world": world,
            "soft": rng.random() < 0.5,
            "nodes": random_nodes(rng, devices),
        }


def lines():
    made = worlds()
    for case in cases(made):
        world = made[case["world"]]
        nodes, result = place(case["nodes"], world, case["soft"])
        outcome = {"error": result} if isinstance(result, str) else {"placed": result}
        yield json.dumps({"name": case["name"], "devices": world.devices, "soft": case["soft"], "nodes": nodes} | outcome)


if __name__ == "__main__":
    found = list(lines())
    if "--check" in sys.argv:
        committed = gzip.decompress(FILE.read_bytes()).decode().splitlines()
        different = [json.loads(a)["name"] for a, b in zip(found, committed) if a != b]
        if different or len(found) != len(committed):
            sys.exit(f"{len(found)} cases, {len(committed)} committed, different: {different}")
    else:
        FILE.write_bytes(pack(found))
    errors = sum("error" in json.loads(line) for line in found)
    print(f"{len(found)} cases, {errors} of them errors")
