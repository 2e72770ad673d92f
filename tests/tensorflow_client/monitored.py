#!/usr/bin/env python3
"""TensorFlow's monitored sessions on a cluster of two parameter servers and two workers.

usage: monitored.py grpc://WORKER_0 grpc://WORKER_1 [--checkpoints DIR] [--only PART_OF_A_NAME ...] [--half]
       monitored.py own    the same on TensorFlow's own servers, in this process

A case is a program of two workers. Each worker is a thread with a graph and a client session of its own, as
two processes would have. Cases run one after the other. One that is not done in time ends the program, as its
threads cannot be ended. With a folder for checkpoints, each program runs twice: the servers forget everything
in between, and the second run goes on where the first one ended.

The programs know nothing of the servers but their addresses. The oracle for synchronous training is
TensorFlow in this process: both workers take each step together, so the losses are those of one batch.
"""

import argparse
import faulthandler
import itertools
import os
import sys
import threading
import time
import traceback

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()
v1.logging.set_verbosity(v1.logging.ERROR)

WORKERS = 2
STEPS = 8
# How long a case may take, in seconds.
LIMIT = 30
# How long the chief waits for its threads when it stops, in seconds: the one that applies gradients waits for
# gradients that do not come any more.
GRACE = 0
RATE = 0.05
# With tokens at the start a worker would not wait for the first update: it would read variables, and take its
# loss, while some servers have applied the update and others have not.
TOKENS = 0


def batch(task):
    return np.array([[1, 2], [2, -1], [0.5, 0.25]], np.float32) + np.float32(task)


def regression(x):
    """The loss of a linear model, and the number of the step."""
    w = v1.get_variable("w", [2, 1], initializer=v1.constant_initializer(0.5))
    b = v1.get_variable("b", [1], initializer=v1.zeros_initializer())
    # As a schedule of learning rates: a branch on the server, or on the worker.
    step = v1.train.get_or_create_global_step()
    rate = v1.train.piecewise_constant(step, [10**6], [1.0, 0.5])
    wanted = 3.0 * tf.reduce_sum(x, 1, keepdims=True) + 1.0
    return tf.reduce_mean(tf.square(tf.matmul(x, w) + b - wanted)), rate


class Worker:
    """One of the workers of a program: its graph, and its faults."""

    def __init__(self, case, task, target, checkpoints, last_step, meeting):
        self.case, self.task, self.target = case, task, target
        self.last_step = last_step
        self.checkpoints, self.meeting = checkpoints, meeting
        self.losses, self.error = [], None

    @property
    def is_chief(self):
        return self.task == 0

    @property
    def config(self):
        """Of a worker that speaks to the servers and to itself alone, as TensorFlow's guide has it."""
        return v1.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{self.task}"])

    def build(self):
        setter = v1.train.replica_device_setter(
            ps_tasks=self.case.ps, worker_device=f"/job:worker/task:{self.task}"
        )
        with v1.device(setter):
            x = v1.placeholder(tf.float32, [None, 2], name="x")
            self.loss, rate = regression(x)
            self.global_step = v1.train.get_global_step()
            self.synchronous = None
            optimizer = v1.train.AdamOptimizer(RATE * rate)
            if self.case.sync:
                optimizer = self.synchronous = v1.train.SyncReplicasOptimizer(
                    optimizer, replicas_to_aggregate=WORKERS, total_num_replicas=WORKERS
                )
            self.train = optimizer.minimize(self.loss, global_step=self.global_step)
        self.feed = {x: batch(self.task)}

    def step(self, session):
        """A step: together with the other worker's where training is synchronous."""
        if self.case.sync:
            self.meeting.together.wait()
        self.losses.append(float(session.run([self.loss, self.train], self.feed)[0]))

    def run(self):
        try:
            with tf.Graph().as_default():
                self.build()
                getattr(self, self.case.program)()
        except BaseException as e:
            self.error = e
            self.meeting.chief_is_ready.set()
            self.meeting.together.abort()

    def MonitoredTrainingSession(self):
        hooks = [v1.train.StopAtStepHook(last_step=self.last_step)]
        if self.synchronous:
            hook = self.synchronous.make_session_run_hook(self.is_chief, num_tokens=TOKENS)
            hooks.append(hook)
        if not self.is_chief:
            # One that finds variables without values would look again after 30 seconds.
            self.meeting.chief_is_ready.wait()
        with v1.train.MonitoredTrainingSession(
            master=self.target,
            is_chief=self.is_chief,
            checkpoint_dir=self.checkpoints,
            hooks=hooks,
            config=self.config,
            stop_grace_period_secs=GRACE,
        ) as session:
            self.meeting.chief_is_ready.set()
            while not session.should_stop():
                self.step(session)

    def Supervisor(self):
        more = {}
        if self.synchronous:
            tokens = self.synchronous.get_init_tokens_op(num_tokens=TOKENS)
            runner = self.synchronous.get_chief_queue_runner()
            more["ready_for_local_init_op"] = self.synchronous.ready_for_local_init_op
            more["local_init_op"] = self.synchronous.local_step_init_op
            if self.is_chief:
                more["local_init_op"] = self.synchronous.chief_init_op
        if self.checkpoints is None:
            more["saver"] = None
        supervisor = v1.train.Supervisor(
            is_chief=self.is_chief,
            logdir=self.checkpoints,
            summary_op=None,
            init_op=v1.global_variables_initializer(),
            global_step=self.global_step,
            recovery_wait_secs=1,
            stop_grace_secs=GRACE,
            # It saves when it is told to, and not from a thread of its own.
            save_model_secs=0,
            save_summaries_secs=0,
            **more,
        )
        session = supervisor.prepare_or_wait_for_session(self.target, config=self.config)
        if self.synchronous and self.is_chief:
            session.run(tokens)
            supervisor.start_queue_runners(session, [runner])
        while not supervisor.should_stop():
            self.step(session)
            if session.run(self.global_step) >= self.last_step:
                break
        if self.checkpoints is not None and self.is_chief:
            supervisor.saver.save(session, supervisor.save_path, supervisor.global_step)
        supervisor.stop(close_summary_writer=False, ignore_live_threads=True)
        session.close()


class Meeting:
    """Where the workers of a program wait for each other."""

    def __init__(self):
        self.chief_is_ready = threading.Event()
        self.together = threading.Barrier(WORKERS, timeout=LIMIT)


class Case:
    def __init__(self, program, mode, ps, variables, flow):
        self.program, self.ps, self.variables, self.flow = program, ps, variables, flow
        self.sync = mode == "sync"
        self.name = f"{program}-{mode}-{ps}ps-{variables}-cf_{flow}"

    def choose(self):
        """Chooses the kinds of variables and of control flow, which are those of a whole process."""
        resources = self.variables == "resource"
        (v1.enable_resource_variables if resources else v1.disable_resource_variables)()
        (v1.enable_control_flow_v2 if self.flow == "v2" else v1.disable_control_flow_v2)()

    def run(self, targets, checkpoints):
        """Runs the program; with a folder for checkpoints, until it has its steps, and again for as many more."""
        self.choose()
        runs = 1 if checkpoints is None else 2
        losses = [[] for _ in targets]
        for last_step in range(STEPS, (runs + 1) * STEPS, STEPS):
            for own, more in zip(losses, self.run_to(last_step, targets, checkpoints)):
                own += more
            forget(targets)
        self.check(losses, runs * STEPS)

    def run_to(self, last_step, targets, checkpoints):
        """By worker: its losses until the global step is this."""
        meeting = Meeting()
        workers = [
            Worker(self, i, target, checkpoints, last_step, meeting)
            for i, target in enumerate(targets)
        ]
        threads = [threading.Thread(target=worker.run, daemon=True) for worker in workers]
        for thread in threads:
            thread.start()
        until = time.monotonic() + LIMIT
        for thread in threads:
            thread.join(max(0, until - time.monotonic()))
        errors = [w.error for w in workers if w.error is not None]
        # The other worker's output follows from this.
        first = [e for e in errors if not isinstance(e, threading.BrokenBarrierError)]
        if errors:
            raise (first or errors)[0]
        if any(thread.is_alive() for thread in threads):
            raise TimeoutError(f"it is not done after {LIMIT} s")
        if self.sync:
            return [worker.losses for worker in workers]
        for worker in workers:
            assert worker.losses == sorted(worker.losses, reverse=True), worker.losses
        return [worker.losses for worker in workers]

    def check(self, losses, steps):
        assert all(np.isfinite(own).all() for own in losses), losses
        if not self.sync:
            # A worker that comes late may find the work done.
            assert sum(map(len, losses)) >= steps, losses
            return
        for own, wanted in zip(losses, oracle(steps)):
            assert len(own) == steps, (own, wanted)
            assert np.allclose(own, wanted, rtol=1e-4), (own, wanted)


def forget(targets):
    """Lets the servers forget variables, queues and accumulators."""
    for target in targets:
        v1.Session.reset(target)


def oracle(steps):
    """By worker: the loss before each step of one session here that has the batches of both."""
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [None, 2], name="x")
        loss = regression(x)[0]
        step = v1.train.AdamOptimizer(RATE).minimize(loss)
        batches = [batch(task) for task in range(WORKERS)]
        losses = []
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for _ in range(steps):
                losses.append([session.run(loss, {x: b}) for b in batches])
                session.run(step, {x: np.concatenate(batches)})
        return np.transpose(losses)


def cases(half):
    """The matrix; or the half of it in which any four of the five kinds come in every combination."""
    programs = ("MonitoredTrainingSession", "Supervisor")
    kinds = (programs, ("async", "sync"), (1, 2), ("ref", "resource"), ("v1", "v2"))
    places = itertools.product(range(2), repeat=len(kinds))
    chosen = [p for p in places if not half or sum(p) % 2 == 0]
    return [Case(*(kind[i] for kind, i in zip(kinds, p))) for p in chosen]


def own_servers():
    """The workers of a cluster of TensorFlow's servers, in this process."""
    import socket

    sockets = [socket.socket() for _ in range(2 + WORKERS)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    addresses = ["127.0.0.1:%d" % s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    cluster = tf.train.ClusterSpec({"ps": addresses[:2], "worker": addresses[2:]})
    tasks = [("ps", 0), ("ps", 1)] + [("worker", i) for i in range(WORKERS)]
    return [v1.train.Server(cluster, job_name=j, task_index=i).target for j, i in tasks][2:]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("targets", nargs="+")
    parser.add_argument("--checkpoints")
    parser.add_argument("--only", nargs="*", default=[""])
    parser.add_argument("--half", action="store_true")
    options = parser.parse_args()
    targets = own_servers() if options.targets == ["own"] else options.targets
    failed = 0
    for case in cases(options.half):
        if not any(part in case.name for part in options.only):
            continue
        folder = options.checkpoints and os.path.join(options.checkpoints, case.name)
        began = time.monotonic()
        try:
            case.run(targets, folder)
            print(f"ok {case.name} {time.monotonic() - began:.1f} s", flush=True)
        except TimeoutError as e:
            print(f"FAILED {case.name}: {e}", flush=True)
            faulthandler.dump_traceback()
            os._exit(1)
        except Exception as e:  # the next case may say more
            failed += 1
            print(f"FAILED {case.name}: {type(e).__name__}: {str(e)[:2000]}", flush=True)
            traceback.print_exception(e)
            forget(targets)
    # Threads of a case that failed may still wait.
    os._exit(1 if failed else 0)


if __name__ == "__main__":
    main()
