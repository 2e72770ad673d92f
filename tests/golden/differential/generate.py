#!/usr/bin/env python3
"""Writes random op graphs and TensorFlow's results for them, as one file for a Rust program."""

import argparse
import collections
import gzip
import multiprocessing
import sys
import time

from work import ALWAYS, Job, run

import audit
from registry import ENTRIES

CHUNK = 50


def seeds(text):
    """0..5000, or a single number."""
    first, _, end = text.partition("..")
    return range(int(first), int(end) if end else int(first) + 1)


def outcomes(jobs, processes):
    """The jobs' outcomes in order, from this process or from several."""
    if processes == 1:
        yield from map(run, jobs)
        return
    # Processes end now and then: TensorFlow forgets no function and no handle's name.
    with multiprocessing.get_context("spawn").Pool(processes, maxtasksperchild=10) as pool:
        yield from pool.imap(run, jobs)


class Batch:
    """A compressed text file without a time stamp: the same graphs give the same bytes."""

    def __init__(self, path):
        self.file = open(path, "wb")
        self.packed = gzip.GzipFile("", "wb", 4, self.file, mtime=0)

    def write(self, lines):
        for text in lines:
            self.packed.write(text.encode() + b"\n")

    def close(self):
        self.packed.close()
        self.file.close()


class Statistics:
    """Statistics of all graphs."""

    def __init__(self):
        self.made = self.failed = 0
        self.seen = collections.defaultdict(collections.Counter)
        self.tried, self.refused = collections.Counter(), collections.defaultdict(collections.Counter)
        self.examples = {}

    def add(self, outcome):
        self.made += len(outcome.ops)
        self.failed += len(outcome.failures)
        for types in outcome.ops:
            for name in {n for n, _ in types}:
                self.seen[name]["graphs"] += 1
            for name, kind in types:
                self.seen[name][kind] += 1
        self.tried.update(outcome.tried)
        for name, counts in outcome.refused.items():
            self.refused[name].update(counts)
        self.examples.update(outcome.examples)

    def print_coverage(self):
        """Per op: the graphs that have it, by type; in brackets how often a pattern of ops was made."""
        for name in sorted(set(self.seen) | set(ENTRIES) | {"tf.gradients"}):
            kinds = self.seen.get(name, {})
            joined = self.tried[name] - sum(self.refused[name].values())
            with_it = kinds["graphs"] if kinds else f"({joined})"
            types = " ".join(f"{k}:{n}" for k, n in sorted(kinds.items()) if k not in ("graphs", ""))
            words = ", ".join(f"{n} {reason}" for reason, n in self.refused[name].most_common())
            words = f"  (refused {words} of {self.tried[name]})" if words else ""
            print(f"{name:34} {with_it:>6}  {types}{words}")
        for words, count in self.refused["made again"].most_common():
            print(f"made again with less, for {words}: {count}")
        print(f"{self.made} graphs, {len(self.seen)} op types, {len(ENTRIES)} entries in the table")

    def print_refusals(self):
        """An example of each op that TensorFlow would not take: the table is wrong there."""
        for (name, reason), text in sorted(self.examples.items()):
            if reason in ("TensorFlow", "no kernel", "gradient", "shape inference"):
                print(name, text[:600])


def arguments():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0..100", type=seeds, help="FIRST..END")
    parser.add_argument("--seed", type=int, help="one seed")
    parser.add_argument("--out", help="the batch, .jsonl.gz")
    parser.add_argument("--ops", help="only these op types: A,B,C, or @FILE with one a line")
    parser.add_argument("--one-op", help="graphs that are mostly about this op")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--coverage", action="store_true", help="print the ops of the graphs")
    parser.add_argument("--show", action="store_true", help="print the graphs")
    parser.add_argument("--errors", action="store_true", help="print examples of errors from TensorFlow")
    parser.add_argument("--audit", action="store_true", help="print how much of its error each op uses up")
    parser.add_argument("--list", action="store_true", help="print the table's entries")
    return parser.parse_args()


def allowed_ops(text):
    """The op types of the --ops option, or None for all."""
    if not text:
        return None
    if text.startswith("@"):
        with open(text[1:]) as file:
            return frozenset(file.read().split()) | ALWAYS
    return frozenset(text.split(",")) | ALWAYS


def main():
    """Writes and prints the requested graphs; the exit status tells if all graphs were sound."""
    options = arguments()
    if options.list:
        print(*sorted(ENTRIES), sep="\n")
        return
    if options.one_op and not any(e.makes(options.one_op, f) for e in ENTRIES.values() for f in (1, 2)):
        sys.exit(f"{options.one_op}: no entry of the table makes it; --list has them all")
    numbers = options.seeds if options.seed is None else range(options.seed, options.seed + 1)
    jobs = [
        Job(
            numbers[i : i + CHUNK],
            allowed_ops(options.ops),
            options.one_op,
            bool(options.out),
            options.show,
            options.audit,
        )
        for i in range(0, len(numbers), CHUNK)
    ]
    statistics, errors, start = Statistics(), {}, time.time()
    out = Batch(options.out) if options.out else None
    for outcome in outcomes(jobs, options.jobs):
        statistics.add(outcome)
        audit.merge(errors, outcome.errors)
        for seed, text in outcome.failures:
            print(f"seed {seed}: {text}", file=sys.stderr)
        print(*outcome.texts, sep="\n\n", end="\n" if outcome.texts else "")
        if out:
            out.write(outcome.lines)
    if out:
        out.close()
    if options.coverage:
        statistics.print_coverage()
    if options.audit:
        audit.report(errors)
    if options.errors:
        statistics.print_refusals()
    rate = len(numbers) / (time.time() - start)
    print(f"{len(numbers)} seeds, {statistics.failed} failed, {rate:.1f} a second", file=sys.stderr)
    sys.exit(1 if statistics.failed else 0)


if __name__ == "__main__":
    main()
