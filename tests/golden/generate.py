#!/usr/bin/env python3
"""Writes the golden files from TensorFlow, or checks the committed ones against it (`--check`)."""

import argparse
import collections
import gzip
import io
import json
import math
import pathlib
import sys

import cases_array
import cases_audio
import cases_collect
import cases_complex
import cases_conv
import cases_einsum
import cases_functions
import cases_depthwise
import cases_fft
import cases_image
import cases_linalg
import cases_logic
import cases_make
import cases_math
import cases_move
import cases_nn
import cases_norm
import cases_pool
import cases_quantize
import cases_ragged
import cases_random
import cases_rare
import cases_regions
import cases_rearrange
import cases_reduce
import cases_resize
import cases_rnn
import cases_scaled
import cases_sparse
import cases_state
import cases_strings
import cases_updates
import cases_volume
from optimizers import optimizer_lines
from suite import Suite
from traces import trace_lines

HERE = pathlib.Path(__file__).parent
MODULES = (
    cases_array,
    cases_audio,
    cases_move,
    cases_make,
    cases_math,
    cases_logic,
    cases_functions,
    cases_rearrange,
    cases_collect,
    cases_einsum,
    cases_complex,
    cases_fft,
    cases_reduce,
    cases_nn,
    cases_norm,
    cases_conv,
    cases_depthwise,
    cases_pool,
    cases_volume,
    cases_regions,
    cases_quantize,
    cases_resize,
    cases_image,
    cases_linalg,
    cases_sparse,
    cases_state,
    cases_updates,
    cases_strings,
    cases_ragged,
    cases_random,
    cases_rare,
    cases_rnn,
    cases_scaled,
)


def op_lines(only):
    """All op cases as JSON lines; a case that TensorFlow refuses ends the program."""
    suite = Suite()
    for module in MODULES:
        if not only or module.__name__ == only:
            module.add(suite)
    for failure in suite.failures:
        print("failed", failure, file=sys.stderr)
    if suite.failures or suite.audits:
        sys.exit(f"{len(suite.failures)} failed, {len(suite.audits)} beyond half their tolerance")
    return suite.lines


def gzipped(data):
    """Gzip without a time stamp, so that the same data give the same bytes."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=9, mtime=0, filename="") as file:
        file.write(data)
    return buffer.getvalue()


def pack(lines):
    """Lines, gzipped."""
    return gzipped("".join(line + "\n" for line in lines).encode())


def same(a, b):
    """Equal, but for floats that are within 1e-6 of each other, relative or absolute."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) or isinstance(b, float):
        numbers = all(isinstance(v, (int, float)) for v in (a, b))
        return numbers and math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-6)
    return a == b


def check(path, lines):
    """Prints each case that differs from the committed file; returns how many do."""
    old = {c["name"]: c for c in map(json.loads, gzip.open(path, "rt"))}
    new = {c["name"]: c for c in map(json.loads, lines)}
    differing = [
        name
        for name in old.keys() | new.keys()
        if name not in old or name not in new or not same(old[name], new[name])
    ]
    for name in sorted(differing):
        print("differs", name)
    print(f"{path.name}: {len(new)} cases, {len(differing)} differ")
    return len(differing)


def replace(path, lines):
    """Writes these cases in place of those of their names, and keeps all others; new ones follow them."""
    new = {json.loads(line)["name"]: line for line in lines}
    old = gzip.open(path, "rt").read().splitlines()
    kept = [new.pop(json.loads(line)["name"], line) for line in old]
    all_lines = kept + list(new.values())
    path.write_bytes(pack(all_lines))
    print(f"{path.name}: {len(all_lines)} cases, {len(new)} new")


def report(path, lines, data):
    """Prints the number of cases per op."""
    counts = collections.Counter(json.loads(line)["name"].split("/")[0] for line in lines)
    print(" ".join(f"{op}:{n}" for op, n in sorted(counts.items())))
    print(f"{path.name}: {len(lines)} cases, {len(counts)} kinds, {len(data)} bytes")


def main():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--print", metavar="TEXT", help="print the cases whose line has TEXT")
    parser.add_argument("--dry", metavar="MODULE", help="run one case module, write nothing")
    parser.add_argument("--only", metavar="MODULE", help="write one case module, keep the other cases")
    options = parser.parse_args()
    if options.only:
        return replace(HERE / "ops.jsonl.gz", op_lines(options.only))
    files = {HERE / "ops.jsonl.gz": op_lines(options.dry)}
    if not options.dry:
        files[HERE / "training.jsonl.gz"] = trace_lines() + optimizer_lines()
    differing = 0
    for path, lines in files.items():
        if options.check:
            differing += check(path, lines)
            continue
        if options.print:
            print(*(line for line in lines if options.print in line), sep="\n")
        data = pack(lines)
        if not options.dry:
            path.write_bytes(data)
        report(path, lines, data)
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
