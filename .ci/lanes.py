"""Runs the test programs of the workspace, which are built already, two at a time: some wait most of their time, and some
compute on one core. The longest start first. A program's output is printed when it ends; prints the time of the slowest."""

import json
import os
import subprocess
import sys
import threading
import time

# Programs that take longest; each other program takes a few seconds.
LONGEST = ["gpu", "engine", "outages", "thalweg_dist", "thalweg_cpu", "simulation", "cluster", "cnn_benchmarks"]
BUILD = ["cargo", "test", "--workspace", "--features", "thalweg-examples/cluster", "--no-run", "--message-format=json"]


def programs():
    """Name, folder and path of each test program."""
    messages = subprocess.run(BUILD, check=True, stdout=subprocess.PIPE, text=True).stdout
    for message in map(json.loads, filter(None, messages.splitlines())):
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            yield message["target"]["name"], os.path.dirname(message["manifest_path"]), message["executable"]


def main():
    rank = lambda p: LONGEST.index(p[0]) if p[0] in LONGEST else len(LONGEST)
    waiting = sorted(programs(), key=rank)
    library = subprocess.run(["rustc", "--print", "target-libdir"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    lock = threading.Lock()
    times, failed = [], []

    def lane():
        while True:
            with lock:
                if not waiting:
                    return
                name, folder, path = waiting.pop(0)
            environment = dict(os.environ, CARGO_MANIFEST_DIR=folder)
            folders = [os.path.dirname(path), library, os.environ.get("LD_LIBRARY_PATH", "")]
            environment["LD_LIBRARY_PATH"] = ":".join(filter(None, folders))
            start = time.monotonic()
            done = subprocess.run([path], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            took = time.monotonic() - start
            with lock:
                print(f"     Running {os.path.relpath(path)} ({took:.1f} s)", flush=True)
                sys.stdout.buffer.write(done.stdout)
                sys.stdout.flush()
                times.append((took, name))
                if done.returncode != 0:
                    failed.append(f"{name} in {os.path.relpath(folder)}: exit status {done.returncode}")

    lanes = [threading.Thread(target=lane) for _ in range(2)]
    for thread in lanes:
        thread.start()
    for thread in lanes:
        thread.join()
    for took, name in sorted(times, reverse=True)[:12]:
        print(f"{took:7.1f} s {name}")
    if failed:
        sys.exit("failed: " + "; ".join(failed))


main()
