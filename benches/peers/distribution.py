#!/usr/bin/env python3
"""Training by servers, workers and ranks on one machine, as a share of one process's speed: programs in alternation.

`distribution.py --programs target/release --rounds 3` needs two cores, and `cargo build --release -p thalweg-cli -p
cnn_benchmarks` with `cargo build --release -p thalweg-examples --bins`. Prints medians in images/s and the range of the
shares.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import time


def output(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stderr or done.stdout}")
    return done.stdout + done.stderr


def total_rate(command):
    """Images/s of all workers together, which each worker of cnn_benchmarks prints."""
    found = re.findall(r'"total_images_per_sec":\s*([0-9.]+)', output(command))
    return statistics.mean(float(rate) for rate in found)


def wall_rate(commands, images):
    """Images/s of programs that run side by side, by the wall time that more steps take."""

    def seconds(steps):
        began = time.perf_counter()
        running = [subprocess.Popen([str(part) for part in [*command, "--steps", steps]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for command in commands]
        for process in running:
            if process.wait() != 0:
                sys.exit(f"{commands}: exit status {process.returncode}")
        return time.perf_counter() - began

    few, many = 100, 400
    return images * (many - few) / (seconds(many) - seconds(few))


def cases(folder):
    def cnn(model, data, batch, batches, threads, *more):
        return [
            "cnn_benchmarks", "--device=cpu", f"--model={model}", f"--data_name={data}", f"--batch_size={batch}",
            f"--num_batches={batches}", "--num_warmup_batches=3", f"--num_intra_threads={threads}", "--json", *more,
        ]

    def alone(command):
        return [folder / command[0], *command[1:]]

    def local(servers, workers, command):
        return [folder / "thalweg", "launch", "local", "--free-ports", "--ps", servers, "--workers", workers, "--", *command]

    def ranks(command):
        return [folder / "thalweg", "launch", "hvd", "-np", 2, "--", *command]

    servers = "--variable_update=parameter_server"
    resnet50 = lambda *more: cnn("resnet50", "imagenet", 8, 15, 2, *more)
    resnet20 = lambda threads, *more: cnn("resnet20", "cifar10", 64, 60, threads, *more)
    mnist = [folder / "hvd_mnist", "--test-images", 100]
    yield "ResNet-50, batch 8", {
        "one process": lambda: total_rate(alone(resnet50())),
        "one server, one worker, in step": lambda: total_rate(local(1, 1, resnet50(servers))),
        "out of step": lambda: total_rate(local(1, 1, resnet50(servers, "--nocross_replica_sync"))),
    }
    yield "ResNet-20, batch 64", {
        "one process": lambda: total_rate(alone(resnet20(2))),
        "two servers, two workers, in step": lambda: total_rate(local(2, 2, resnet20(1, servers))),
        "out of step": lambda: total_rate(local(2, 2, resnet20(1, servers, "--nocross_replica_sync"))),
        "two ranks": lambda: total_rate(ranks(resnet20(1, "--variable_update=horovod"))),
    }
    yield "deep MNIST, batch 100", {
        "one process": lambda: wall_rate([mnist], 100),
        "two ranks": lambda: wall_rate([ranks(["hvd_mnist", "--test-images", 100])], 100),
        "two processes that exchange nothing": lambda: wall_rate([["taskset", "-c", core, *mnist] for core in (0, 1)], 200),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="a part of the name of the work")
    args = parser.parse_args()
    print("| work | images/s | of one process | range |\n| --- | ---: | ---: | --- |", flush=True)
    for name, programs in cases(args.programs.absolute()):
        if args.only not in name:
            continue
        rounds = [{what: run() for what, run in programs.items()} for _ in range(args.rounds)]
        for what in programs:
            shares = sorted(r[what] / r["one process"] for r in rounds)
            rate = statistics.median(r[what] for r in rounds)
            print(f"| {name}: {what} | {rate:.4g} | {statistics.median(shares):.2f} | {shares[0]:.2f} to {shares[-1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
