"""Makes the graphs of some seeds from start to end: the work of a process of the generator."""

import collections
import dataclasses
import pathlib
import traceback

from model import NAMES, Refused, tf  # First: it sets TensorFlow up.

from tensorflow.python.eager import context

import audit
import graphs
from batch import line
from emit import Unsound, emit, reference

HERE = str(pathlib.Path(__file__).parent)
ALWAYS = {"Const", "Placeholder", "NoOp"}
TYPE_ATTRS = ("T", "dtype", "SrcT", "element_dtype", "Tparams", "Ta", "Tidx", "TI")


@dataclasses.dataclass
class Job:
    """Seeds, and the requested outputs."""

    seeds: range
    allowed: frozenset | None = None
    focus: str | None = None
    lines: bool = False
    shows: bool = False
    audits: bool = False


@dataclasses.dataclass
class Outcome:
    """The lines of a job's graphs, and its statistics."""

    lines: list
    texts: list
    # For each graph the set of (op, type).
    ops: list
    failures: list
    tried: collections.Counter
    refused: dict
    examples: dict
    errors: dict


def whole(seed, allowed, focus):
    """A seed's builder, its GraphDef with names, and the results of each step.

    Where TensorFlow runs ops that it does not build into a graph, or the extras bring ops along that are
    not allowed, the seed makes its graph again with fewer extras, or without an op.
    """
    avoided = set()
    extras = {"unknown shapes", "gradients", "functions"}
    while True:
        with context.eager_mode():
            g = graphs.make_graph(seed, allowed, focus, extras, avoided)
        try:
            emitted = emit(g)
        except Refused as refusal:
            graphs.refuse("made again", refusal)
            dropped = "gradients" if refusal.reason == "gradient" else "unknown shapes"
            if dropped not in extras:
                if refusal.op in avoided:
                    raise
                avoided.add(refusal.op)
            extras.discard(dropped)
            continue
        foreign = {name for name, _ in op_types(emitted.graph_def)} - (allowed or set())
        if allowed is None or not foreign or "functions" not in extras:
            return g, emitted, reference(g, emitted)
        graphs.refuse("made again", Refused(", ".join(sorted(foreign))))
        extras.discard("gradients" if "gradients" in extras else "functions")


def op_types(graph_def):
    """(op, type) for all nodes of a GraphDef and of its functions."""
    nodes = list(graph_def.node) + [n for f in graph_def.library.function for n in f.node_def]
    found = set()
    for node in nodes:
        # Looking an attribute up that is not there would add it.
        kinds = [node.attr[a].type for a in TYPE_ATTRS if a in node.attr and node.attr[a].type]
        found.add((node.op, NAMES.get(tf.as_dtype(kinds[0]), "") if kinds else ""))
    return found


def shown(g, emitted, results):
    """A graph and its results as text."""
    text = [node.text() for node in g.nodes]
    text.append(f"{len(emitted.graph_def.node)} nodes in the GraphDef, {g.steps} steps")
    for i, (wire, name) in enumerate(zip(g.fetched, emitted.fetches)):
        slack = "exact" if wire.slack in (None, (0.0, 0.0)) else "rel {:.2g} abs {:.2g}".format(*wire.slack)
        text.append("  ".join([name, slack, *(str(step[i].tolist()) for step in results)]))
    return "\n".join(text)


def run(job):
    """The outcome of a job; a graph that fails is reported, never left out in silence."""
    audit.ACTIVE = job.audits
    for counts in (graphs.TRIED, graphs.REFUSED, graphs.EXAMPLES, audit.WORST):
        counts.clear()
    outcome = Outcome([], [], [], [], graphs.TRIED, graphs.REFUSED, graphs.EXAMPLES, audit.WORST)
    for seed in job.seeds:
        try:
            g, emitted, results = whole(seed, job.allowed, job.focus)
        except Unsound as error:
            outcome.failures.append((seed, str(error)))
            continue
        except Exception as error:
            places = traceback.extract_tb(error.__traceback__)
            own = [f"{pathlib.Path(p.filename).name}:{p.lineno}" for p in places if HERE in p.filename]
            outcome.failures.append((seed, f"{' '.join(own)} {type(error).__name__}: {str(error)[:1000]}"))
            continue
        outcome.ops.append(op_types(emitted.graph_def))
        if job.lines:
            outcome.lines.append(line(seed, g, emitted, results))
        if job.shows:
            outcome.texts.append(shown(g, emitted, results))
    return outcome
