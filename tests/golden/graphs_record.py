"""Records a golden graph: its graph and steps, run while it is built and again from the bytes alone."""

import dataclasses
import functools

import numpy as np

from harness import session
from reference import tf, v1

# A queue that waits for ever ends the step, and the script, after this time.
STEP_LIMIT_MS = 60_000
ALL = {}


@dataclasses.dataclass
class Step:
    """One call of Session.run by names, with its outcome: results in the order of the fetches or an error."""

    feeds: dict
    fetches: list
    targets: list
    fails: bool = False
    results: list = dataclasses.field(default_factory=list)
    error: dict | None = None


class Golden:
    """Recorder of the steps of a graph's function."""

    def __init__(self, graph):
        self.graph, self.inits, self.steps = graph, [], []

    def init(self, *ops):
        """Operations that are run before the steps, each in a step of its own."""
        self.inits += [op.name for op in ops]

    def init_variables(self):
        """All variables at once, as every training program does it."""
        self.init(v1.global_variables_initializer())

    def step(self, *fetches, feeds=None, run=(), fails=False):
        """A step that feeds arrays to tensors, runs operations, and fetches tensors, or fails."""
        feeds = {k.name: fed(k, v) for k, v in (feeds or {}).items()}
        run = run if isinstance(run, (list, tuple)) else [run]
        self.steps.append(Step(feeds, [tensor_name(f) for f in fetches], [op_name(t) for t in run], fails))


def tensor_name(value):
    """The name of a tensor; a variable's is that of its read op."""
    if isinstance(value, str):
        return value
    if isinstance(value, (v1.Variable, tf.Variable)):
        return value.value().name
    return value.name


def op_name(value):
    """The name of an operation; a tensor stands for the one that makes it."""
    return value.op.name if tf.is_tensor(value) or isinstance(value, v1.Variable) else value.name


def fed(tensor, value):
    """A feed of a tensor, in the tensor's type."""
    return array_of(value).astype(tensor.dtype.as_numpy_dtype)


def array_of(value):
    """A value as an array; text is bytes in an object array, as sessions return it."""
    if isinstance(value, bytes):
        # NumPy's own bytes lose zeros at their end.
        return np.array(value, object)
    value = np.asarray(value)
    return value.astype(object) if value.dtype.kind in "SU" else value


@dataclasses.dataclass
class Definition:
    """How a graph is built, and how far results may be from the recorded ones."""

    builder: callable
    flow: str
    ref: bool
    tolerance: dict


def golden(name, rel=1e-5, absolute=1e-6, flow="v1", **arguments):
    """Registers a function of a Golden as the builder of the graph `name`.

    `flow` is the version of its control flow; with the argument `kind` "ref", all variables are references.
    """

    def keep(build):
        assert name not in ALL, name
        ref = arguments.get("kind") == "ref"
        tolerance = {"rel": rel, "abs": absolute}
        ALL[name] = Definition(functools.partial(build, **arguments), flow, ref, tolerance)
        return build

    return keep


def build(name):
    """The GraphDef and the steps, without results."""
    definition = ALL[name]
    (v1.enable_control_flow_v2 if definition.flow == "v2" else v1.disable_control_flow_v2)()
    (v1.disable_resource_variables if definition.ref else v1.enable_resource_variables)()
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(20151109)
        recorded = Golden(graph)
        definition.builder(recorded)
    return graph.as_graph_def(), recorded, definition.tolerance


def run(load, inits, steps):
    """Runs the steps in a session whose graph `load` brings in; returns each step with its outcome."""
    with tf.Graph().as_default() as graph, session(graph) as sess:
        load(sess)
        for name in inits:
            sess.run(graph.get_operation_by_name(name), options=limit())
        return [run_step(sess, graph, step) for step in steps]


def load_graph(data):
    """An importer of a GraphDef from its bytes."""
    graph_def = v1.GraphDef.FromString(data)
    return lambda sess: tf.import_graph_def(graph_def, name="")


def limit():
    """Options of every step."""
    return v1.RunOptions(timeout_in_ms=STEP_LIMIT_MS)


def run_step(sess, graph, step):
    """The step with its results or the error."""
    targets = [graph.get_operation_by_name(t) for t in step.targets]
    try:
        results, _ = sess.run([step.fetches, targets], step.feeds, options=limit())
    except tf.errors.OpError as error:
        if not step.fails:
            raise
        return dataclasses.replace(step, error=described(error))
    assert not step.fails, f"{step.fetches} {step.targets} did not fail"
    return dataclasses.replace(step, results=[array_of(r) for r in results])


def described(error):
    """An error's code, OUT_OF_RANGE and the like, and the runtime's message, without nodes and traces."""
    codes = {getattr(tf.errors, n): n for n in dir(tf.errors) if n.isupper()}
    bare = error.__context__ if isinstance(error.__context__, tf.errors.OpError) else error
    return {"code": codes[error.error_code], "message": bare.message.split("\n\t [[")[0]}


def ops_of(graph_def):
    """The types of all nodes, in functions too; a function that is called by name is no type."""
    functions = {f.signature.name for f in graph_def.library.function}
    bodies = [graph_def.node, *(f.node_def for f in graph_def.library.function)]
    return sorted({n.op for nodes in bodies for n in nodes} - functions)
