"""Turns a built graph into a GraphDef and lets TensorFlow run that."""

import dataclasses

from canonical import canonical
from harness import session
from model import TYPES, Composite, Gradient, Refused, Source, Wire, as_array, np, raw, tf, v1
from tensorflow.python.ops import control_flow_util

FETCHED = set(TYPES)


class Unsound(Exception):
    """TensorFlow contradicts itself about a graph, so the graph can be no reference."""


@dataclasses.dataclass
class Emitted:
    """A graph in TensorFlow, and the names for running it."""

    graph: object
    graph_def: object
    feeds: dict
    fetches: list
    targets: list
    init: list


class Emitter:
    """Writes nodes into a tf.Graph."""

    def __init__(self):
        self.tensors, self.operations = {}, {}
        self.handles, self.last, self.init = {}, {}, []

    def resolve(self, item):
        """The tensor of a wire, or the handle of a variable."""
        if isinstance(item, Wire):
            return self.tensors[item]
        if item not in self.handles:
            self.declare(item)
        return self.handles[item]

    def declare(self, variable):
        """The variable's own node, and the assignment that a session runs first."""
        dtype, name = TYPES[variable.kind], variable.name
        with tf.control_dependencies(None):
            value = tf.constant(variable.initial, dtype, name=f"{name}/initial")
            if variable.reference:
                handle = raw.VariableV2(dtype=dtype, shape=variable.dims, name=name)
                first = raw.Assign(ref=handle, value=value, name=f"{name}/assign")
            else:
                handle = raw.VarHandleOp(dtype=dtype, shape=variable.dims, shared_name=name, name=name)
                first = raw.AssignVariableOp(resource=handle, value=value, name=f"{name}/assign")
        self.handles[variable] = handle
        self.init.append(getattr(first, "op", first).name)

    def write(self, node):
        """Adds one node; those on the same variable follow each other in the order of the list."""
        for variable in node.variables:
            self.resolve(variable)
        before = [self.operations[c] for c in node.controls]
        before += [self.last[v] for v in node.variables if v in self.last]
        graph = v1.get_default_graph()
        if before and node.variables and isinstance(node, Composite):
            # Through a node of its own: of two edges from an input TensorFlow keeps the data's, for which
            # the ops of an If or a While that do not use it do not wait.
            with tf.control_dependencies(before):
                before = [raw.NoOp(name=f"{node.name}_waits")]
        with tf.control_dependencies(before) if before else graph.name_scope(None):
            try:
                tensors = node.run(self.resolve, node.name)
            except (LookupError, TypeError, ValueError) as error:
                reason = "gradient" if isinstance(node, Gradient) else "shape inference"
                raise Refused(reason, f"{node.text()} in a graph: {error}", node.op) from error
        self.operations[node] = tensors[0].op if tensors else graph.get_operation_by_name(node.name)
        for wire, tensor in zip(node.outputs, tensors, strict=True):
            self.tensors[wire] = tensor
        for variable in node.variables:
            self.last[variable] = self.operations[node]


def emit(g):
    """The GraphDef of a built graph, which fetches all results or only those that nothing uses."""
    with tf.Graph().as_default() as graph:
        # Gradients of the older control flow need the older TensorArray too.
        control_flow_util.ENABLE_CONTROL_FLOW_V2 = g.flow == 2
        emitter = Emitter()
        for node in g.nodes:
            emitter.write(node)
        feeds = {
            emitter.tensors[n.outputs[0]].name: n.array for n in g.nodes if isinstance(n, Source) and n.fed
        }
        results = [w for w in g.wires() if not isinstance(w.node, Source) and w.kind in FETCHED]
        if g.chance(0.3):
            results = [w for w in results if not w.uses] or results
        targets = [emitter.operations[n].name for n in g.nodes if not n.outputs]
        g.fetched = results
        names = [emitter.tensors[w].name for w in results]
        return Emitted(graph, canonical(graph.as_graph_def()), feeds, names, targets, emitter.init)


def run(emitted, graph, steps):
    """The fetched arrays of each step, in a session of its own."""
    fetches = {"fetches": emitted.fetches, "targets": emitted.targets}
    with session(graph) as sess:
        if emitted.init:
            sess.run(emitted.init)
        results = [sess.run(fetches, emitted.feeds)["fetches"] for _ in range(steps)]
    return [[as_array(value) for value in step] for step in results]


def imported(emitted):
    """A tf.Graph from the serialized GraphDef."""
    definition = v1.GraphDef.FromString(emitted.graph_def.SerializeToString())
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
    return graph


def same(a, b):
    """Equal to the last bit, but for the bits of NaN."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return a.tobytes() == b.tobytes() if a.dtype.kind != "O" else np.array_equal(a, b)


def reference(g, emitted):
    """TensorFlow's results of each step: the same in three sessions, and the lanes'."""
    first = run(emitted, emitted.graph, g.steps)
    graph = imported(emitted)
    for again in (run(emitted, graph, g.steps), run(emitted, graph, g.steps)):
        for step, (one, other) in enumerate(zip(first, again)):
            for name, a, b in zip(emitted.fetches, one, other):
                if not same(a, b):
                    raise Unsound(f"{name} differs between sessions at step {step}: {a} {b}")
    for step, results in enumerate(first):
        for wire, name, got in zip(g.fetched, emitted.fetches, results):
            want = wire.steps.get(step, wire.value)
            if not near(got, want, wire.slack):
                raise Unsound(
                    f"{name} at step {step} is {got} in a session, {want} eagerly, not {wire.slack}"
                )
    return first


def near(got, want, slack):
    """True if a session's result is within the tolerance of the eager one."""
    if got.shape != want.shape:
        return False
    if slack in (None, (0.0, 0.0)):
        return np.array_equal(got, want, equal_nan=got.dtype.kind != "O")
    got, want = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite], equal_nan=True):
        return False
    got, want = got[finite], want[finite]
    return bool(np.all(np.abs(got - want) <= slack[1] + slack[0] * np.abs(want)))
