#!/usr/bin/env python3
"""Writes random op graphs and what TensorFlow computes for them, as one file for a Rust program."""

import argparse
import collections
import gzip
import sys
import time
import traceback

from model import NAMES, Refused, tf  # First: it finds the golden cases' modules.

from tensorflow.python.eager import context

import audit
import graphs
from batch import line
from emit import Unsound, emit, reference
from registry import ENTRIES

ALWAYS = {"Const", "Placeholder", "NoOp", "Identity"}


def whole(seed, allowed, focus):
    """A seed's builder, its GraphDef with names, and the results of each step."""
    for extras in ({"gradients", "functions"}, {"functions"}, set()):
        with context.eager_mode():
            g = graphs.make_graph(seed, allowed, focus, extras)
        try:
            emitted = emit(g)
        except Refused as refusal:
            graphs.refuse("tf.gradients", refusal)
            continue
        if allowed is None or {name for name, _ in op_types(emitted.graph_def)} <= allowed:
            break
    return g, emitted, reference(g, emitted)


def op_types(graph_def):
    """(op, type) for all nodes of a GraphDef and of its functions."""
    nodes = list(graph_def.node) + [n for f in graph_def.library.function for n in f.node_def]
    found = set()
    for node in nodes:
        kinds = [node.attr[a].type for a in ("T", "dtype", "SrcT", "Tparams", "type") if node.attr[a].type]
        found.add((node.op, NAMES.get(tf.as_dtype(kinds[0]), "") if kinds else ""))
    return found


def show(g, emitted, results):
    """Prints a graph for people."""
    for node in g.nodes:
        print(node.text())
    print(f"{len(emitted.graph_def.node)} nodes in the GraphDef, {g.steps} steps")
    for i, (wire, name) in enumerate(zip(g.fetched, emitted.fetches)):
        print(name, "rel, abs", wire.slack or "exact", *(step[i].tolist() for step in results), sep="  ")


def seeds(text):
    """0..5000, or a single number."""
    first, _, end = text.partition("..")
    return range(int(first), int(end) if end else int(first) + 1)


def print_coverage(seen, made):
    """Per op: the graphs that have it by type, and how often it was refused and why."""
    for name in sorted(set(seen) | set(ENTRIES) | {"tf.gradients"}):
        kinds = seen.get(name, {})
        joined = graphs.TRIED[name] - sum(graphs.REFUSED[name].values())
        graphs_with = kinds["graphs"] if kinds else f"({joined})"
        types = " ".join(f"{k}:{n}" for k, n in sorted(kinds.items()) if k not in ("graphs", ""))
        tried, refused = graphs.TRIED[name], graphs.REFUSED[name]
        words = ", ".join(f"{n} {reason}" for reason, n in refused.most_common())
        print(f"{name:32} {graphs_with:>6}  {types}" + (f"  (refused {words} of {tried})" if words else ""))
    print(f"{made} graphs, {len(seen)} op types")


def main():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0..100", type=seeds, help="FIRST..END")
    parser.add_argument("--seed", type=int, help="one seed")
    parser.add_argument("--out", help="the batch, .jsonl.gz")
    parser.add_argument("--ops", help="only these op types: A,B,C")
    parser.add_argument("--one-op", help="graphs that are mostly about this op")
    parser.add_argument("--coverage", action="store_true", help="print the ops of the graphs")
    parser.add_argument("--show", action="store_true", help="print the graphs")
    parser.add_argument("--errors", action="store_true", help="print examples of what TensorFlow refused")
    parser.add_argument("--audit", action="store_true", help="print how much of its error each op uses up")
    parser.add_argument("--list", action="store_true", help="print the table's entries")
    options = parser.parse_args()
    if options.list:
        print(*sorted(ENTRIES), sep="\n")
        return
    audit.ACTIVE = options.audit
    allowed = set(options.ops.split(",")) | ALWAYS if options.ops else None
    numbers = [options.seed] if options.seed is not None else options.seeds
    seen = collections.defaultdict(collections.Counter)
    failed, start = [], time.time()
    out = gzip.open(options.out, "wt", compresslevel=4) if options.out else None
    for seed in numbers:
        try:
            g, emitted, results = whole(seed, allowed, options.one_op)
        except Exception as error:
            failed.append(seed)
            print(f"seed {seed}: {error}", file=sys.stderr)
            if not isinstance(error, Unsound):
                traceback.print_exc()
            continue
        if options.show:
            show(g, emitted, results)
        if out:
            out.write(line(seed, g, emitted, results) + "\n")
        types = op_types(emitted.graph_def)
        for name in {n for n, _ in types}:
            seen[name]["graphs"] += 1
        for name, kind in types:
            seen[name][kind] += 1
    if out:
        out.close()
    if options.coverage:
        print_coverage(seen, len(numbers) - len(failed))
    if options.audit:
        audit.report()
    if options.errors:
        for (name, reason), text in sorted(graphs.EXAMPLES.items()):
            if reason in ("TensorFlow", "no kernel"):
                print(name, text[:600])
    took = time.time() - start
    print(f"{len(numbers)} seeds, {len(failed)} failed, {len(numbers) / took:.1f} a second", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
