"""Makes the random graph of a seed."""

import collections

import table_binary
import table_conv
import table_lookup
import table_matrix
import table_move
import table_nn
import table_reduce
import table_search
import table_shape
import table_state
import table_train
import table_unary
from builder import Builder
from model import Refused
from registry import ENTRIES

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
)
# Per op, how often it was tried, and why it did not join.
TRIED, REFUSED = collections.Counter(), collections.defaultdict(collections.Counter)
EXAMPLES = {}


def entries(allowed):
    """The entries of the table that need no other ops than the allowed ones."""
    return [e for e in ENTRIES.values() if allowed is None or e.needs <= allowed]


def attempt(g, entry):
    """Adds the entry's op to the graph, unless a check or TensorFlow refuses it there."""
    g.current = entry.name
    TRIED[entry.name] += 1
    try:
        entry.make(g)
        return True
    except Refused as refusal:
        REFUSED[entry.name][refusal.reason] += 1
        EXAMPLES[entry.name, refusal.reason] = str(refusal)
        return False


def make_graph(seed, allowed=None, focus=None):
    """A Builder with 3 to 30 nodes; `focus` names an op that it is mostly about."""
    g = Builder(seed, allowed)
    table = entries(allowed)
    weights = [e.weight for e in table]
    wanted = g.integer(3, 30)
    for _ in range(4 * wanted):
        if len(g.nodes) >= wanted:
            break
        if focus and g.chance(0.4):
            attempt(g, ENTRIES[focus])
        else:
            attempt(g, g.random.choices(table, weights)[0])
    add_controls(g)
    g.steps = add_steps(g)
    return g


def add_controls(g):
    """Lets some nodes wait for earlier ones that they do not need."""
    for i, node in enumerate(g.nodes):
        if i and node.inputs and g.chance(0.08):
            node.controls.append(g.nodes[g.integer(0, i - 1)])


def add_steps(g):
    """How often the graph runs: more than once where a step leaves something to the next one."""
    if not g.stateful:
        return 1
    for g.step in range(1, g.integer(2, 3)):
        try:
            for lane in g.lanes:
                lane.forget()
            g.replay()
        except Refused:
            return g.step
    return g.step + 1
