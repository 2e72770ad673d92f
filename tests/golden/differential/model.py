"""Model of a random graph: wires, variables and nodes."""

import inspect
import sys
from pathlib import Path

# The package shares the set-up of TensorFlow and the names of types with the golden cases.
assert "tensorflow" not in sys.modules, "import model first: it switches oneDNN off"
sys.path.append(str(Path(__file__).resolve().parent.parent))

from encode import DTYPE_NAMES  # noqa: E402
from reference import np, raw, tf, v1  # noqa: E402

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)

TYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}
ARRAYS = {name: dtype.as_numpy_dtype for name, dtype in TYPES.items()}
NAMES = {**DTYPE_NAMES, tf.resource: "resource", tf.variant: "variant"}

HALF = ("f16", "bf16")
SINGLE = ("f32", "f64")
FLOAT = SINGLE + HALF
SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INT = SIGNED + UNSIGNED
INDEX = ("i32", "i64")
NUMBER = FLOAT + INT
ANY = NUMBER + ("bool",)
EVERY = ANY + ("string",)


class Refused(Exception):
    """A node that cannot join the graph; `reason` is a short word for the statistics."""

    def __init__(self, reason, detail="", op=None):
        super().__init__(f"{reason}: {detail}")
        self.reason, self.op = reason, op


class Wire:
    """One output of a node, with the values that it has in the lanes at the first step.

    `exact` says that all lanes agree to the last bit: a right implementation has no other value.
    """

    def __init__(self, node, index):
        self.node, self.index = node, index
        self.kind = self.dims = self.value = self.slack = None
        self.exact = self.finite = True
        self.uses, self.junk, self.varies = 0, False, False
        self.steps = {}

    @property
    def size(self):
        return int(np.prod(self.dims))


class Variable:
    """A variable of the graph: a resource, or a reference as TensorFlow 1 had them."""

    def __init__(self, name, initial, kind, reference):
        self.name, self.initial, self.kind, self.reference = name, initial, kind, reference
        self.dims = initial.shape


def as_array(value):
    """A result as an array; of a scalar string NumPy would make one of its own kind, and cut it."""
    return np.array(value, object) if isinstance(value, (bytes, str)) else np.asarray(value)


def flat(result):
    """The tensors that a call into TensorFlow returned, in order."""
    if result is None or isinstance(result, tf.Operation):
        return []
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        return [t for part in result for t in flat(part)]
    return [result]


def members(value, kind):
    """The wires, or the variables, in an argument."""
    if isinstance(value, kind):
        return [value]
    if isinstance(value, (list, tuple)):
        return [v for v in value if isinstance(v, kind)]
    return []


class Node:
    """One op, called through tf.raw_ops with keywords that may be wires and variables."""

    def __init__(self, name, op, arguments, rule):
        self.name, self.op, self.arguments, self.rule = name, op, arguments, rule
        self.outputs, self.controls, self.reads = [], [], False
        self.junk = ()  # Outputs that TensorFlow's kernel leaves as memory was.
        self.inputs = [w for v in arguments.values() for w in members(v, Wire)]
        self.variables = [w for v in arguments.values() for w in members(v, Variable)]

    def resolved(self, resolve):
        """The arguments with `resolve(x)` for every wire and variable x."""

        def each(value):
            if isinstance(value, (Wire, Variable)):
                return resolve(value)
            if isinstance(value, list):
                return [each(v) for v in value]
            return value

        return {key: each(value) for key, value in self.arguments.items()}

    def run(self, resolve, name=None):
        """Calls the op, in eager mode or in the graph of the context; returns its tensors."""
        return flat(getattr(raw, self.op)(name=name, **self.resolved(resolve)))

    def text(self):
        """The node on one line, for people."""

        def one(value):
            if isinstance(value, Wire):
                return value.node.name + (f":{value.index}" if value.index else "")
            if isinstance(value, Variable):
                return value.name
            if isinstance(value, list):
                return "[" + ", ".join(map(one, value)) + "]"
            return getattr(value, "name", None) or repr(value)

        inner = ", ".join(f"{k}={one(v)}" for k, v in self.arguments.items())
        after = " after " + ", ".join(c.name for c in self.controls) if self.controls else ""
        shapes = " ".join(f"{w.kind}{list(w.dims)}" for w in self.outputs if w.dims is not None)
        return f"{self.name} = {self.op}({inner}){after} -> {shapes}"


class Source(Node):
    """A constant, or a placeholder that is fed; `shape` is the placeholder's declared shape."""

    def __init__(self, name, array, kind, fed, shape):
        super().__init__(name, "Placeholder" if fed else "Const", {}, None)
        self.array, self.kind, self.fed, self.shape = array, kind, fed, shape

    def run(self, resolve, name=None):
        if name is None:
            return [tf.constant(self.array, TYPES[self.kind])]
        if self.fed:
            return [v1.placeholder(TYPES[self.kind], self.shape, name)]
        return [tf.constant(self.array, TYPES[self.kind], name=name)]

    def text(self):
        shape = f" declared {self.shape}" if self.fed else ""
        return f"{self.name} = {self.op}{shape} {self.kind}{list(self.array.shape)} {self.array.tolist()}"


class State(Node):
    """An op that updates variables. In eager mode the twin for resources stands in for a reference's."""

    def __init__(self, name, op, twin, arguments, rule):
        super().__init__(name, op, arguments, rule)
        self.twin = twin

    def run(self, resolve, name=None):
        """Calls the op; its result, if any, is the given reference."""
        arguments = self.resolved(resolve)
        if name is None:
            twin = getattr(raw, self.twin)
            wanted = inspect.signature(twin).parameters
            if "resource" in wanted and "ref" in arguments:
                arguments["resource"] = arguments.pop("ref")
            twin(**arguments)
        else:
            getattr(raw, self.op)(name=name, **arguments)
        return []


class Read(Node):
    """The value of a variable. A reference is copied, for later updates would show through."""

    def __init__(self, name, variable, rule):
        super().__init__(name, "ReadVariableOp", {"resource": variable}, rule)
        self.reads = True

    def run(self, resolve, name=None):
        (variable,) = self.variables
        handle = resolve(variable)
        if variable.reference and name is not None:
            zero = tf.constant(0, TYPES[variable.kind], name=f"{name}/zero")
            return [raw.AddV2(x=handle, y=zero, name=name)]
        return [raw.ReadVariableOp(resource=handle, dtype=TYPES[variable.kind], name=name)]


class Stateful(Node):
    """A random op with a seed, which gives other numbers at each step of a session.

    In eager mode a session of its own runs the op alone, as often as the graph has run before;
    `clock.step` says how often that is.
    """

    def __init__(self, name, op, arguments, rule, clock):
        super().__init__(name, op, arguments, rule)
        self.clock, self.history, self.known = clock, [], {}

    def run(self, resolve, name=None):
        if name is not None:
            return super().run(resolve, name)
        step = self.clock.step
        if step not in self.known:
            self.history.append({w: resolve(w).numpy() for w in self.inputs})
            self.known[step] = self.session(step)
        return [tf.constant(value) for value in self.known[step]]

    def session(self, step):
        """The op's results at that step of a session."""
        with tf.Graph().as_default() as graph:
            places = {w: v1.placeholder(TYPES[w.kind], w.dims) for w in self.inputs}
            tensors = super().run(places.__getitem__, self.name)
            with v1.Session(graph=graph) as sess:
                for before in self.history[: step + 1]:
                    results = sess.run(tensors, {places[w]: value for w, value in before.items()})
        return results


class Composite(Node):
    """Results of a Python function of wires and variables: several ops, or ops with functions.

    The function is called in eager mode and in a graph.
    """

    def __init__(self, name, label, function, parts, rule):
        super().__init__(name, label, {f"x{i}": part for i, part in enumerate(parts)}, rule)
        self.function = function

    def run(self, resolve, name=None):
        tensors = list(self.resolved(resolve).values())
        if name is None:
            return flat(self.function(*tensors))
        with tf.name_scope(name):
            return flat(self.function(*map(known, tensors, self.arguments.values())))


def known(tensor, item):
    """The tensor with its whole shape, which loops want to know, where a placeholder keeps some back."""
    if isinstance(item, Variable) or tensor.shape.is_fully_defined():
        return tensor
    tensor = tf.identity(tensor)
    tensor.set_shape(item.dims)
    return tensor


class Gradient(Node):
    """tf.gradients of `ys` with respect to `xs`; in eager mode a tape has recorded the way there.

    Unreachable inputs get zeros: a tape sees only the branches that were taken, a graph all.
    """

    def __init__(self, name, ys, xs, rule):
        super().__init__(name, "tf.gradients", {"ys": ys, "xs": xs}, rule)
        self.tape = None

    def run(self, resolve, name=None):
        arguments = self.resolved(resolve)
        ys, xs = arguments["ys"], arguments["xs"]
        if name is not None:
            grads = tf.gradients(ys, xs, unconnected_gradients="zero", name=name)
        else:
            grads = self.tape.gradient(ys, xs)
            if all(g is None for g in grads):
                raise LookupError("no gradient connects them")
            grads = [tf.zeros_like(x) if g is None else g for x, g in zip(xs, grads)]
        return [tf.convert_to_tensor(g) for g in grads]
