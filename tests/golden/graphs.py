#!/usr/bin/env python3
"""Writes the golden graphs from TensorFlow, compares the committed ones with it, or runs them.

Each graph is made in a process of its own: the names of functions and queues count from its start.
"""

import argparse
import functools
import json
import multiprocessing
import pathlib
import re
import sys
import tempfile

import graphs_arrays  # noqa: F401
import graphs_control  # noqa: F401
import graphs_datasets  # noqa: F401
import graphs_embeddings  # noqa: F401
import graphs_experiments  # noqa: F401
import graphs_files
import graphs_functions  # noqa: F401
import graphs_images  # noqa: F401
import graphs_loops  # noqa: F401
import graphs_lstm  # noqa: F401
import graphs_misc  # noqa: F401
import graphs_old  # noqa: F401
import graphs_optimizers  # noqa: F401
import graphs_pruning  # noqa: F401
import graphs_queues  # noqa: F401
import graphs_random  # noqa: F401
import graphs_rare  # noqa: F401
import graphs_record
import graphs_records  # noqa: F401
import graphs_saved
import graphs_samplers  # noqa: F401
import graphs_sequences  # noqa: F401
import graphs_sparse  # noqa: F401
import graphs_tables  # noqa: F401
import graphs_training  # noqa: F401
import graphs_variants  # noqa: F401
from graphs_compare import distance
from reference import v1

FOLDER = pathlib.Path(__file__).parent / "graphs"


def names(pattern):
    """The graphs whose names have the pattern."""
    return [n for n in sorted(graphs_record.ALL.keys() | graphs_saved.MAKERS) if re.search(pattern, n)]


def make(name):
    """The files of a graph, by their names."""
    return graphs_saved.MAKERS[name]() if name in graphs_saved.MAKERS else graphs_files.make(name)


def put(files, folder):
    """Writes files by name."""
    for file, data in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(data)


def write(name):
    """Makes a graph and writes its files."""
    files = make(name)
    put(files, FOLDER)
    return f"{sum(map(len, files.values()))} bytes", []


def committed(file):
    """A file's bytes, if it is there."""
    path = FOLDER / file
    return path.read_bytes() if path.is_file() else None


def check(name):
    """Makes a graph: its files are the committed ones, but for results within the tolerance."""
    files = make(name)
    different = {f for f, data in files.items() if committed(f) != data}
    if different and different <= {f"{name}.npz"}:
        with tempfile.TemporaryDirectory() as folder:
            put(files, pathlib.Path(folder))
            (about, new), (_, old) = (graphs_files.read(name, pathlib.Path(f)) for f in (folder, FOLDER))
        worst, step = distance(new, old, about["tolerance"])
        if worst <= 1:
            return f"results within {worst:.3f} of the tolerance", []
        different = {f"{name}.npz, step {step}"}
    return f"{len(files)} files", [f"differs: {f}" for f in sorted(different)]


def verify(name):
    """Runs a graph from the committed files alone: its results are the recorded ones."""
    about, recorded, steps = graphs_files.run_files(name, FOLDER)
    worst, step = distance(steps, recorded, about["tolerance"])
    failures = [f"step {step}: {worst:.3g} times the tolerance"] if not worst <= 1 else []
    return f"{len(steps)} steps, within {worst:.3f} of the tolerance", failures


def report(task, name):
    """The result of `task` for a graph, and its failures; an exception is one."""
    v1.logging.set_verbosity(v1.logging.ERROR)
    try:
        return name, *task(name)
    except Exception as error:  # noqa: BLE001
        return name, "", [repr(error)]


def stale():
    """Files that no graph has."""
    owners = set(graphs_record.ALL) | graphs_saved.MAKERS.keys()
    return [f for f in sorted(FOLDER.iterdir()) if f.name.split(".")[0] not in owners]


def ops():
    """All types of nodes in the committed graphs."""
    return sorted({op for file in FOLDER.glob("*.json") for op in json.loads(file.read_text())["ops"]})


def main():
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, task, text in (
        ("--check", check, "make the graphs, compare, write nothing"),
        ("--verify", verify, "run the committed files"),
    ):
        parser.add_argument(name, dest="task", action="store_const", const=task, help=text)
    parser.add_argument("--ops", action="store_true", help="list the ops of the committed graphs, do no more")
    parser.add_argument("--only", metavar="PATTERN", default="", help="graphs whose names have it")
    parser.set_defaults(task=write)
    options = parser.parse_args()
    if options.ops:
        print(*ops(), sep="\n")
        return
    failed = 0
    task = functools.partial(report, options.task)
    with multiprocessing.get_context("fork").Pool(maxtasksperchild=1) as pool:
        for name, summary, failures in pool.imap(task, names(options.only), chunksize=1):
            print(name, summary, *failures)
            failed += bool(failures)
    for file in stale():
        print(file.name, "no graph has this file")
        failed += 1
    print(f"{sum(f.stat().st_size for f in FOLDER.rglob('*') if f.is_file())} bytes, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
