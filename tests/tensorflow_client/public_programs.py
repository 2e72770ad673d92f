#!/usr/bin/env python3
"""Public programs of TensorFlow 1, with their sessions in TensorFlow and on a Thalweg server.

usage: public_programs.py PROGRAMS [--thalweg FILE, empty for TensorFlow alone] [--only PART_OF_A_NAME ...] [--mnist FOLDER] [--out FOLDER]

PROGRAMS holds a folder for each program, by the name OWNER+REPOSITORY, at the commit that `program_list.py` says,
and may hold `tensorflow1`, the sources of TensorFlow 1.15, for what `tf.contrib` had. A program runs in a copy of
its folder: once with sessions of its own process, once with each on a server (`program_shim.py`). All floats
that its sessions fetch are compared. Programs that are not there are left out.
"""

import argparse
import ast
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

from program_list import PROGRAMS

HERE = os.path.dirname(os.path.abspath(__file__))
# What counts as the same number, and in how many first runs.
TOLERANCE, FIRST = 1e-3, 5
# Numbers below this count as zero.
SMALL = 1e-6


def python_3(path):
    """Rewrites a file of Python 2."""
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    try:
        ast.parse(text)
    except SyntaxError:
        from lib2to3 import refactor

        names = refactor.get_fixers_from_package("lib2to3.fixes")
        tool = refactor.RefactoringTool([n for n in names if not n.endswith("fix_import")])
        with open(path, "w") as file:
            file.write(str(tool.refactor_string(text.expandtabs(8) + "\n", path)))


def copy(program, source, folder):
    """The program as it runs: of Python 3, with its patches and its data."""
    shutil.copytree(source, folder)
    for place, _, files in os.walk(folder):
        for name in files:
            if name.endswith(".py"):
                python_3(os.path.join(place, name))
    for name, old, new in program.patches:
        path = os.path.join(folder, name)
        with open(path) as file:
            text = file.read()
        changed = re.sub(old, new, text, flags=re.MULTILINE)
        if changed == text:
            raise ValueError(f"{program.name}: nothing in {name} is like {old!r}")
        with open(path, "w") as file:
            file.write(changed)
    if program.data:
        here = os.getcwd()
        os.chdir(folder)
        try:
            program.data()
        finally:
            os.chdir(here)


class Server:
    """A Thalweg server, which ends with the block."""

    def __init__(self, binary, folder, log):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.address = "127.0.0.1:%d" % s.getsockname()[1]
        command = [binary, "server", "--listen", self.address, "--threads", "2", "--files", folder]
        self.process = subprocess.Popen(command + ["--memory", "6GiB"], cwd=folder, stdout=log, stderr=log)

    def __enter__(self):
        host, port = self.address.split(":")
        for _ in range(100):
            try:
                socket.create_connection((host, int(port)), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        return "grpc://" + self.address

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait()


def run(program, source, mode, options):
    """The recorded runs of a program, and its error: in TensorFlow, there with other kernels, or on Thalweg."""
    folder = os.path.join(options.work, program.name.replace(" ", "_"))
    shutil.rmtree(folder, ignore_errors=True)
    copy(program, source, folder)
    record = os.path.join(options.work, f"{program.name}.{mode}.json".replace(" ", "_"))
    if os.path.exists(record):
        os.remove(record)
    contrib = os.path.join(options.programs, "tensorflow1/tensorflow/contrib")
    settings = {"target": None, "steps": program.steps, "record": record, "mnist": options.mnist}
    settings["contrib"] = contrib if os.path.isdir(contrib) else None
    log_path = record[: -len("json")] + "log"
    script = os.path.join(folder, program.script) if program.script.endswith(".py") else program.script
    environment = dict(os.environ, PYTHONHASHSEED="0", PYTHONWARNINGS="ignore", OMP_NUM_THREADS="2")
    environment["TF_ENABLE_ONEDNN_OPTS"] = "0" if mode == "control" else "1"
    environment["PYTHONPATH"] = os.pathsep.join([folder] + sys.path[1:])
    with open(log_path, "w") as log:

        def child(address):
            settings["target"] = address
            with open(record + ".settings", "w") as file:
                json.dump(settings, file)
            command = [sys.executable, os.path.join(HERE, "program_shim.py"), record + ".settings", script]
            where = os.path.join(folder, program.folder)
            try:
                subprocess.run(
                    command + list(program.arguments), cwd=where, env=environment, stdout=log, stderr=log,
                    stdin=subprocess.DEVNULL, timeout=program.limit, check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                return {"runs": [], "error": f"not done in {program.limit} s"}
            if not os.path.exists(record):
                return {"runs": [], "error": "the program ended itself"}
            with open(record) as file:
                return json.load(file)

        if mode != "thalweg":
            return child(None)
        with open(log_path + ".server", "w") as server_log, Server(
            options.thalweg, folder, server_log
        ) as address:
            return child(address)


def difference(a, b):
    both = max(abs(a), abs(b))
    if a == b or both < SMALL or (a != a and b != b):
        return 0.0
    return abs(a - b) / both if a == a and b == b else float("inf")


def compare(peer, here):
    """The largest relative difference, in the first runs and in all, and the first run that differs."""
    worst = {"first": 0.0, "all": 0.0, "from": None, "name": ""}
    for n, (p, h) in enumerate(zip(peer, here)):
        for (name, a), b in zip(p["values"].items(), h["values"].values()):
            d = difference(a, b)
            if n < FIRST:
                worst["first"] = max(worst["first"], d)
            if d > TOLERANCE and worst["from"] is None:
                worst["from"], worst["name"] = n + 1, name
            worst["all"] = max(worst["all"], d)
    return worst


def loss(program, runs):
    """The values of the loss: of the fetch that the program names, or of the one that runs fetch most."""
    counts = {}
    for r in runs:
        for name in r["values"]:
            counts[name] = counts.get(name, 0) + 1
    names = [n for n in counts if re.search(program.loss, n)] or list(counts)
    name = max(names, key=counts.get)
    chosen = [r for r in runs if name in r["values"]]
    times = [r["seconds"] * 1e3 for r in chosen]
    return [r["values"][name] for r in chosen], statistics.median(times[2:] or times)


def row(program, peer, here, control):
    """A row of the table; `control` gives the runs of TensorFlow without oneDNN, which rounds in other places."""
    cells = [program.name, f"`{program.repository}`", program.kind]
    if peer["error"] and not peer["runs"]:
        return cells + ["", "", "", "", "", "TensorFlow: " + peer["error"].split("\n")[0][:150]]
    a, ms_a = loss(program, peer["runs"])
    cells += [str(len(peer["runs"])), f"{a[0]:.6g}, {a[-1]:.6g}"]
    if here["error"] and not here["runs"]:
        return cells + ["", "", f"{ms_a:.1f}", "fails: " + " ".join(here["error"].split())[:300]]
    b, ms_b = loss(program, here["runs"])
    worst = compare(peer["runs"], here["runs"])
    if len(here["runs"]) != len(peer["runs"]):
        verdict = f"ends after {len(here['runs'])} runs: " + " ".join((here["error"] or "").split())[:200]
    elif worst["from"] is None:
        verdict = "same"
    else:
        verdict = f"differs from run {worst['from']}, {worst['name']}"
        if worst["first"] <= TOLERANCE:
            verdict = f"same until run {worst['from'] - 1}"
        other = compare(peer["runs"], control()["runs"])
        since = f" from run {other['from']}" if other["from"] else ""
        verdict += f"; TensorFlow without oneDNN differs by {other['all']:.1e}{since}"
    return cells + [f"{b[0]:.6g}, {b[-1]:.6g}", f"{worst['all']:.1e}", f"{ms_a:.1f} / {ms_b:.1f}", verdict]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("programs", type=os.path.abspath)
    parser.add_argument(
        "--thalweg", default="target/debug/thalweg", type=lambda path: path and os.path.abspath(path)
    )
    parser.add_argument("--mnist", default=".", type=os.path.abspath)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--out", dest="work", default=os.path.join(tempfile.gettempdir(), "public_programs"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    os.makedirs(options.work, exist_ok=True)
    os.environ["MNIST"] = options.mnist
    head = ["program", "repository", "kind", "runs", "TensorFlow, first and last", "Thalweg, first and last"]
    head += ["largest difference", "ms, TensorFlow / Thalweg", "verdict"]
    print("| " + " | ".join(head) + " |\n" + "| --- " * len(head) + "|", flush=True)
    good = total = 0
    for program in PROGRAMS:
        source = os.path.join(options.programs, program.repository.replace("/", "+"))
        wanted = not options.only or any(part in program.name for part in options.only)
        if not wanted or not os.path.isdir(source):
            continue
        try:
            peer = run(program, source, "tensorflow", options)
            here = run(program, source, "thalweg", options) if peer["runs"] and options.thalweg else peer
            cells = row(program, peer, here, lambda: run(program, source, "control", options))
        except ValueError as e:
            cells = [program.name, str(e)]
        total += 1
        good += cells[-1].startswith("same")
        print("| " + " | ".join(cells) + " |", flush=True)
    print(f"\n{good} of {total} programs have TensorFlow's numbers.")


if __name__ == "__main__":
    main()
