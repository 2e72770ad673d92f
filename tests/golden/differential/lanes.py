"""Evaluates nodes eagerly, several times side by side with nudged results.

Lane 0 is TensorFlow's own result. In the other lanes each inexact result is moved by as much as a
right implementation may differ, so the lanes' disagreement measures the propagation of errors. A node
whose discrete result differs between lanes, or whose error explodes, does not join the graph.
"""

from tensorflow.python.eager import context

import audit
from model import FLOAT, HALF, NAMES, TYPES, Gradient, Refused, Wire, as_array, np, raw, tf
from rules import amplitude
from stir import Stirring

LANES = 4
MOST_ELEMENTS = 200
LARGEST = {"f32": 1e4, "f64": 1e4, "f16": 500.0, "bf16": 1e3}
# Results this small are flushed to zero by some processors' settings and not by others'.
TINIEST = {"f32": 1e-30, "f64": 1e-290, "f16": 1e-4, "bf16": 1e-30}
# Of the largest element, how much the lanes may disagree before the graph says nothing any more.
WORST = {"f32": 1e-3, "f64": 1e-6, "f16": 0.06, "bf16": 0.15}
PATTERN = np.random.default_rng(7).uniform(0.5, 1.0, 8191)
PATTERN *= np.random.default_rng(8).choice([-1.0, 1.0], 8191)


def nudges(lane, number, shape):
    """Factors in [-1, 1] for the errors of a node's result: all up in lane 1, random in others."""
    count = int(np.prod(shape))
    if lane == 1:
        return np.ones(shape)
    start = (number * 977 + lane * 3571) % (len(PATTERN) - MOST_ELEMENTS)
    return PATTERN[start : start + count].reshape(shape)


class Lane:
    """The values of all wires and variables in one lane."""

    def __init__(self, index, taped=False):
        self.index, self.values, self.handles = index, {}, {}
        self.tape = tf.GradientTape(persistent=True) if taped else None
        self.watched = set()

    def forget(self):
        """Lets a new step begin: a tape records one."""
        if self.tape is not None:
            self.tape = tf.GradientTape(persistent=True)

    def resolve(self, item):
        """The tensor of a wire, or the handle of a variable."""
        if isinstance(item, Wire):
            return self.values[item]
        if item not in self.handles:
            handle = raw.VarHandleOp(
                dtype=TYPES[item.kind], shape=item.dims, shared_name=context.anonymous_name()
            )
            raw.AssignVariableOp(resource=handle, value=tf.constant(item.initial, TYPES[item.kind]))
            self.handles[item] = handle
        return self.handles[item]

    def run(self, node):
        """The node's results in this lane, without nudges."""
        if isinstance(node, Gradient):
            node.tape = self.tape
            return node.run(self.resolve)
        Stirring.lane, Stirring.count = self.index, 0
        if self.tape is None:
            return node.run(self.resolve)
        with self.tape:
            return node.run(self.resolve)

    def nudge(self, node, number, tensor):
        """The tensor, moved by the error that the node's rule allows."""
        kind = NAMES.get(tensor.dtype)
        if node.rule is None or node.rule.exact(kind):
            return tensor
        value = tensor.numpy().astype(np.float64)
        inputs = [self.values[w].numpy().astype(np.float64) for w in node.inputs if w.kind in FLOAT]
        moved = amplitude(node.rule, kind, value, inputs) * nudges(self.index, number, value.shape)
        if self.tape is None:
            return tensor + tf.constant(moved, tensor.dtype)
        with self.tape:
            return tensor + tf.constant(moved, tensor.dtype)

    def nudge_variable(self, node, number, variable):
        """The same for a variable that the node has updated."""
        handle = self.handles[variable]
        moved = self.nudge(node, number, raw.ReadVariableOp(resource=handle, dtype=TYPES[variable.kind]))
        raw.AssignVariableOp(resource=handle, value=moved)


def evaluate(lanes, node, number):
    """Runs a node in all lanes, keeps its values there and returns the arrays of each output.

    Nodes that depend on nothing inexact are the same everywhere and run once.
    """
    rounds = node.rule is not None and (node.rule.noise != "exact" or node.rule.composed)
    taped = lanes[0].tape is not None
    shared = not rounds and not node.variables and not taped and all(w.exact for w in node.inputs)
    results = []
    for lane in lanes[:1] if shared else lanes:
        compare = audit.prepare(lane, node) if audit.ACTIVE and rounds and lane.index == 0 else None
        tensors = lane.run(node)
        if compare:
            compare(tensors)
        if lane.index and rounds:
            if any(int(np.prod(t.shape)) > MOST_ELEMENTS for t in tensors):
                raise Refused("large")
            tensors = [lane.nudge(node, number, t) for t in tensors]
            for variable in node.variables if not node.reads else ():
                lane.nudge_variable(node, number, variable)
        results.append(tensors)
    if not node.outputs:
        node.outputs = [Wire(node, i) for i in range(len(results[0]))]
    if any(len(tensors) != len(node.outputs) for tensors in results):
        raise Refused("unstable", "the number of outputs differs")
    arrays = []
    for i, wire in enumerate(node.outputs):
        wire.junk = i in node.junk
        for lane in lanes:
            lane.values[wire] = results[0 if shared else lane.index][i]
            if wire in lane.watched:
                with lane.tape:
                    lane.tape.watch(lane.values[wire])
        arrays.append([as_array(tensors[i].numpy()) for tensors in results])
    return arrays


def settle(node, wire, kind, arrays):
    """Checks the lanes' values of a wire and sets its facts; later steps only widen them."""
    first = arrays[0]
    if wire.value is None:
        wire.kind, wire.dims, wire.value = kind, first.shape, first
    if first.size > MOST_ELEMENTS:
        raise Refused("large", f"{first.shape}")
    if kind not in FLOAT:
        if any(a.shape != first.shape or not np.array_equal(a, first) for a in arrays[1:]):
            raise Refused("unstable", "a discrete result depends on rounding")
        return
    wide = [a.astype(np.float64) for a in arrays]
    finite = np.isfinite(wide[0])
    wire.finite = wire.finite and bool(finite.all())
    if not wire.finite and not (node.rule is None or node.rule.specials):
        raise Refused("not finite")
    size = np.abs(wide[0][finite])
    if size.max(initial=0.0) > LARGEST[kind]:
        raise Refused("magnitude")
    if np.any((size < TINIEST[kind]) & (size > 0)):
        raise Refused("tiny")
    deviation = np.zeros(first.shape)
    for other in wide[1:]:
        if other.shape != first.shape or not np.array_equal(other[~finite], wide[0][~finite], equal_nan=True):
            raise Refused("unstable", "shape or special values")
        deviation[finite] = np.maximum(deviation[finite], np.abs(other[finite] - wide[0][finite]))
    if not np.all(np.isfinite(deviation)):
        raise Refused("unstable", "special values")
    worst = deviation.max(initial=0.0)
    # The result of cancelling numbers near one counts as a number near one.
    inputs = max(
        (np.abs(w.value).max(initial=0) for w in node.inputs if w.kind in FLOAT and w.finite), default=0
    )
    if worst > WORST[kind] * max(size.max(initial=0.0), min(1.0, inputs)):
        raise Refused("ill-conditioned")
    wire.exact = wire.exact and worst == 0.0
    wire.slack = wider(wire.slack, tolerance(np.abs(wide[0]), deviation, finite, kind))


def tolerance(size, deviation, finite, kind):
    """(rel, abs) that cover the deviation with some room: the pair that allows less in all.

    The lanes are a few draws of many, so eight times their spread; a half's steps are so coarse that
    two times it is room enough.
    """
    size, bound = size[finite], (2 if kind in HALF else 8) * deviation[finite]
    if not bound.any():
        return (0.0, 0.0)
    absolute = bound.max()
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(bound == 0, 0.0, bound / size).max()
    if relative * size.sum() < absolute * size.size:
        return (float(relative), 0.0)
    return (0.0, float(absolute))


def wider(a, b):
    """A tolerance that covers both."""
    return b if a is None else (max(a[0], b[0]), max(a[1], b[1]))
