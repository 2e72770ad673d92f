"""Makes the random graph of a seed."""

import collections

import table_binary
import table_conv
import table_flow
import table_flow_state
import table_list
import table_lookup
import table_matrix
import table_move
import table_nn
import table_random
import table_reduce
import table_search
import table_shape
import table_state
import table_train
import table_text
import table_unary
from builder import Builder
from model import FLOAT, Gradient, Refused
from registry import ENTRIES
from rules import Rule

TABLES = (
    table_unary,
    table_binary,
    table_reduce,
    table_shape,
    table_move,
    table_lookup,
    table_search,
    table_matrix,
    table_nn,
    table_conv,
    table_state,
    table_train,
    table_random,
    table_text,
    table_flow,
    table_flow_state,
    table_list,
)
# Per op, how often it was tried, and why it did not join.
TRIED, REFUSED = collections.Counter(), collections.defaultdict(collections.Counter)
EXAMPLES = {}
# Their gradient is MaxPoolGradGrad of a temporary, which TensorFlow's kernel clears before it reads it.
# The gradient of a call that keeps a state is SymbolicGradient, which runs the call's updates again.
UNDERIVED = {"MaxPoolGrad", "MaxPoolGradV2", "call_on_variable"}
GRADIENT = Rule("summed", 4)


def attempt(g, entry):
    """Adds the entry's op to the graph, unless a check or TensorFlow refuses it there."""
    g.current = entry.name
    TRIED[entry.name] += 1
    before = len(g.nodes), len(g.variables)
    try:
        entry.make(g)
    except Refused as refusal:
        g.shorten(*before)
        refuse(entry.name, refusal)


def refuse(name, refusal):
    """Counts a refusal, and keeps one of each kind to show."""
    REFUSED[name][refusal.reason] += 1
    EXAMPLES[name, refusal.reason] = str(refusal)


def make_graph(
    seed, allowed=None, focus=None, extras=("gradients", "functions", "unknown shapes"), avoided=()
):
    """A Builder with 3 to 30 nodes; `focus` names an op that it is mostly about.

    The `extras` are optional parts of a graph: gradients and Python functions for control flow bring
    unrequested ops along, and with shapes that are not known TensorFlow infers wrong ones.
    Entries of the `avoided` names are left out.
    """
    g = Builder(seed, allowed, "unknown shapes" in extras)
    if focus and not any(e.makes(focus, g.flow) for e in ENTRIES.values()):
        g.flow = 3 - g.flow
    functions = "functions" in extras
    table = [e for e in ENTRIES.values() if e.fits(allowed, g.flow) and (functions or not e.composed)]
    table = [e for e in table if e.name not in avoided]
    focused = [e for e in table if focus and e.makes(focus, g.flow)]
    weights = [e.weight for e in table]
    wanted = g.integer(3, 30)
    for _ in range(4 * wanted):
        if len(g.nodes) >= wanted:
            break
        if focused and g.chance(0.4):
            attempt(g, g.one(*focused))
        else:
            attempt(g, g.random.choices(table, weights)[0])
    if "gradients" in extras and g.chance(0.35):
        add_gradients(g, table, weights)
    add_controls(g)
    g.steps = add_steps(g)
    return g


def add_gradients(g, table, weights):
    """Adds tf.gradients of some results with respect to some that they come from, and uses of those."""
    ends = [w for w in g.wires() if w.kind in FLOAT and w.node.inputs and w.finite]
    if not ends:
        return
    ys = g.random.sample(ends, min(len(ends), g.integer(1, 2)))
    behind = [w for w in ancestors(ys) if w.kind in FLOAT]
    if not behind or any(w.node.op in UNDERIVED for w in ys + behind):
        return
    xs = g.random.sample(behind, min(len(behind), g.integer(1, 3)))
    TRIED["tf.gradients"] += 1
    try:
        g.differentiate(ys, xs, GRADIENT)
    except Refused as refusal:
        refuse("tf.gradients", refusal)
        return
    for _ in range(g.integer(0, 4)):
        attempt(g, g.random.choices(table, weights)[0])


def ancestors(wires):
    """All wires that these are made from, in the order of the graph."""
    seen, waiting = set(), [w for y in wires for w in y.node.inputs]
    while waiting:
        wire = waiting.pop()
        if wire not in seen:
            seen.add(wire)
            waiting += wire.node.inputs
    return sorted(seen, key=lambda w: (int(w.node.name.rsplit("_", 1)[1]), w.index))


def add_controls(g):
    """Lets some nodes wait for earlier ones that they do not need.

    Not gradients: of a loop's TensorFlow makes some in the loop's frame, where others cannot wait.
    """
    for i, node in enumerate(g.nodes):
        if i and node.inputs and not isinstance(node, Gradient) and g.chance(0.08):
            node.controls.append(g.nodes[g.integer(0, i - 1)])


def add_steps(g):
    """How often the graph runs: more than once where a step leaves something to the next one."""
    if not g.stateful:
        return 1
    for step in range(1, g.integer(2, 3)):
        try:
            g.advance()
        except Refused:
            return step
    return step + 1
