"""Holds TensorFlow's results to the rules: how much of the allowed error they use up themselves.

Each inexact node is run once more in f64 on the very same inputs. A rule is sound if what
TensorFlow gives is well within the error that it allows; otherwise a more careful kernel fails.
"""

from tensorflow.python.eager import context

from model import FLOAT, HALF, TYPES, Composite, Node, State, Variable, np, raw, tf
from rules import amplitude

ACTIVE = False
# By op and type: the largest part of the allowed error, and how many results were looked at.
WORST = {}
WIDE = {TYPES[kind]: tf.float64 for kind in FLOAT}


def widen(tensor):
    """Floats as f64, the rest as it is."""
    return tf.cast(tensor, tf.float64) if tensor.dtype in WIDE else tensor


def prepare(lane, node):
    """Runs the node in f64, before it changes its variables; returns a function that compares with that."""
    if type(node) not in (Node, State, Composite) or "Random" in node.op or "Truncated" in node.op:
        return None
    copies = {}

    def resolve(item):
        if not isinstance(item, Variable):
            return widen(lane.resolve(item))
        value = widen(raw.ReadVariableOp(resource=lane.resolve(item), dtype=TYPES[item.kind]))
        handle = raw.VarHandleOp(dtype=value.dtype, shape=item.dims, shared_name=context.anonymous_name())
        raw.AssignVariableOp(resource=handle, value=value)
        copies[item] = handle
        return handle

    narrow = node.arguments
    try:
        node.arguments = {k: widen_type(v) for k, v in narrow.items()}
        wanted = node.run(resolve)
    except Exception:  # Some kernels are there for f32 alone.
        return None
    finally:
        node.arguments = narrow
    inputs = [lane.values[w].numpy().astype(np.float64) for w in node.inputs if w.kind in FLOAT]

    def compare(tensors):
        pairs = list(zip(tensors, wanted))
        for variable, handle in copies.items():
            got = raw.ReadVariableOp(resource=lane.resolve(variable), dtype=TYPES[variable.kind])
            pairs.append((got, raw.ReadVariableOp(resource=handle, dtype=widen(got).dtype)))
        for got, want in pairs:
            note(node, got, want, inputs)

    return compare


def widen_type(value):
    """A type among the arguments, as the type of the wide run."""
    return WIDE.get(value, value) if isinstance(value, tf.DType) else value


def note(node, got, want, inputs):
    """Keeps how much of the allowed error one result uses."""
    kind = next((k for k in FLOAT if TYPES[k] == got.dtype), None)
    # In f64 no step of a composite is rounded to a half: that would look like an error.
    if isinstance(node, Composite) and kind in HALF:
        return
    if kind is None or kind == "f64" or node.rule.exact(kind) or got.shape != want.shape:
        return
    value, want = got.numpy().astype(np.float64), want.numpy()
    with np.errstate(all="ignore"):
        allowed = amplitude(node.rule, kind, want, inputs)
        part = np.abs(value - want) / allowed
    part = part[np.isfinite(part)]
    merge(WORST, {(node.op, kind): (part.max(initial=0.0), 1)})


def merge(into, errors):
    """Merges one job's findings."""
    for key, (part, count) in errors.items():
        before, counted = into.get(key, (0.0, 0))
        into[key] = (max(before, part), counted + count)


def report(errors):
    """Prints ops and types, those that use up most of their error first."""
    for (op, kind), (part, count) in sorted(errors.items(), key=lambda item: -item[1][0]):
        print(f"{part:10.3g}  {op} {kind} in {count} results")
