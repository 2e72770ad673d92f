"""Graphs, and where TensorFlow's placer puts their nodes: read from the graph of each partition that
a step ran, with all rewriting of graphs turned off."""

import random

import tensorflow as tf

tf1 = tf.compat.v1
CPUS = 4


def config(soft):
    c = tf1.ConfigProto(device_count={"CPU": CPUS}, allow_soft_placement=soft)
    c.graph_options.rewrite_options.disable_meta_optimizer = True
    c.graph_options.optimizer_options.opt_level = -1
    c.graph_options.place_pruned_graph = False
    return c


def groups(op):
    """The colocation groups of an op."""
    try:
        return [c.decode() for c in op.get_attr("_class")]
    except ValueError:
        return []


def describe(g):
    nodes = []
    for op in g.get_operations():
        nodes.append({
            "name": op.name,
            "op": op.type,
            "inputs": [i.name for i in op.inputs],
            "controls": [c.name for c in op.control_inputs],
            "device": op.device,
            "class": groups(op),
        })
    return nodes


def run(name, build, soft):
    """The nodes of a graph and their devices, or that it is refused."""
    with tf1.Graph().as_default() as g:
        fetch = build(g)
        feed = {}
        if isinstance(fetch, tuple):
            fetch, feed = fetch
        nodes = describe(g)
        placed, refused = {}, False
        metadata = tf1.RunMetadata()
        options = tf1.RunOptions(output_partition_graphs=True)
        try:
            with tf1.Session(config=config(soft), graph=g) as session:
                session.run(fetch, feed, options=options, run_metadata=metadata)
            names = {n["name"] for n in nodes}
            for part in metadata.partition_graphs:
                for node in part.node:
                    if node.name in names:
                        placed[node.name] = node.device
        except (tf.errors.InvalidArgumentError, tf.errors.NotFoundError) as e:
            text = str(e)
            if "uninitialized" in text or "Could not find variable" in text:
                raise
            refused = True
    return {"kind": "place", "name": name, "soft": soft, "nodes": nodes, "placed": placed, "refused": refused}


def r(g, device, f, *args, **kwargs):
    with g.device(device):
        return f(*args, **kwargs)


def random_graph(seed):
    """Ops over random devices, groups and heuristics."""
    def build(g):
        rng = random.Random(seed)
        devices = ["", "", "/cpu:0", "/cpu:1", "/cpu:2", "/device:CPU:*", "/job:localhost", "/job:localhost/task:0/cpu:3"]
        values = [r(g, rng.choice(devices), tf1.random_uniform, [3]) for _ in range(3)]
        ops = []
        for _ in range(rng.randrange(4, 25)):
            x, y = rng.choice(values), rng.choice(values)
            made = {
                0: lambda: tf1.add(x, y),
                1: lambda: tf1.multiply(x, y),
                2: lambda: tf1.cast(tf1.size(x), tf.float32) * y,
                3: lambda: tf1.tanh(x),
                4: lambda: tf1.random_uniform([3]),
                5: lambda: x * tf1.constant([1.0, 2.0, 3.0]),
            }
            kind = rng.randrange(6)
            if ops and rng.random() < 0.2:
                with g.colocate_with(rng.choice(ops)):
                    v = made[kind]()
            else:
                v = r(g, rng.choice(devices), made[kind])
            ops.append(v.op)
            values.append(v)
        return values
    return build


def variables(g):
    """Resource variables, each with its uses, on devices of their own."""
    fetches = []
    for device in ("/cpu:1", "/cpu:2", ""):
        with g.device(device):
            handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[2], shared_name="v" + device[-1:])
        init = tf.raw_ops.AssignVariableOp(resource=handle, value=tf1.constant([1.0, 2.0]))
        with tf1.control_dependencies([init]):
            value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
            add = tf.raw_ops.AssignAddVariableOp(resource=handle, value=value * 2.0)
        fetches += [value, add]
    return fetches


def conflict_of_resource(g):
    with g.device("/cpu:1"):
        handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[2], shared_name="v")
    with g.device("/cpu:2"):
        return tf.raw_ops.AssignVariableOp(resource=handle, value=tf1.constant([1.0, 2.0]))


def conflict_of_group(g):
    a = r(g, "/cpu:1", tf1.random_uniform, [3])
    with g.colocate_with(a.op):
        b = tf1.tanh(a)
    b.op._set_device("/cpu:2")
    return b


def no_gpu(g):
    x = tf1.random_uniform([3])
    return r(g, "/gpu:0", tf1.tanh, x)


def no_such_number(g):
    return r(g, "/cpu:%d" % CPUS, tf1.tanh, tf1.random_uniform([3]))


def no_such_job(g):
    return r(g, "/job:moon", tf1.tanh, tf1.random_uniform([3]))


def no_such_task(g):
    return r(g, "/job:localhost/task:5", tf1.tanh, tf1.random_uniform([3]))


def generators(g):
    """Values from nothing follow their consumers where these are together."""
    a, b, c = tf1.random_uniform([3]), tf1.constant([1.0, 2.0, 3.0]), tf1.constant([2.0])
    x = r(g, "/cpu:2", tf1.add, a, b)
    y = r(g, "/cpu:3", tf1.add, x, c)
    z = r(g, "/cpu:1", tf1.multiply, x, c)
    return [x, y, z]


def metadata(g):
    # A shape that is known only when the step runs, or it would be folded.
    shape = tf1.placeholder(tf.int32, None)
    x = r(g, "/cpu:3", tf1.random_uniform, shape)
    y = tf1.tanh(r(g, "/cpu:2", tf1.tanh, x))
    z = r(g, "/cpu:1", tf1.tanh, x)
    asked = r(g, "/cpu:0", tf1.shape, x)
    return [tf1.shape(x), tf1.size(z), tf1.rank(y), tf1.tanh(tf1.cast(tf1.shape(z), tf.float32)), asked], {shape: [3]}


def transitive(g):
    a = r(g, "/cpu:2", tf1.random_uniform, [3])
    with g.colocate_with(a.op):
        b = tf1.tanh(a)
    with g.colocate_with(b.op):
        c = tf1.tanh(b)
    with g.colocate_with(c.op):
        d = tf1.random_uniform([3])
    return [a, b, c, d]


def group_without_a_node(g):
    a = r(g, "/cpu:1", tf1.random_uniform, [3])
    b = tf1.tanh(a)
    for op in (a.op, b.op):
        op._set_attr("_class", tf1.AttrValue(list=tf1.AttrValue.ListValue(s=[b"loc:@nobody"])))
    return b


def cases():
    named = [variables, conflict_of_resource, conflict_of_group, no_gpu, no_such_number, no_such_job, no_such_task, generators, metadata, transitive, group_without_a_node]
    for build in named:
        for soft in (False, True):
            yield run(build.__name__, build, soft)
    for seed in range(150):
        yield run("random_%d" % seed, random_graph(seed), seed % 3 == 0)
