#!/usr/bin/env python3
"""TensorFlow's monitored sessions on a Thalweg cluster of two parameter servers and two workers.

usage: monitored.py grpc://WORKER_0 grpc://WORKER_1 [--checkpoints DIR] [PART_OF_A_NAME ...]

A case is a program of two workers, each of which is a thread with a graph and a client session of its own,
as two processes would have. All cases, or those whose names have one of these parts, run one after the
other. One that is not done in time ends the program: its threads cannot be ended.
"""

import argparse
import faulthandler
import itertools
import os
import sys
import threading
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()
v1.logging.set_verbosity(v1.logging.ERROR)

WORKERS = 2
STEPS = 12
# How long a case may take, in seconds.
LIMIT = 30


def model(task, ps_tasks, sync):
    """A linear regression, with variables on the servers: its loss, its train step, what is fed, its hook."""
    setter = v1.train.replica_device_setter(
        ps_tasks=ps_tasks, worker_device=f"/job:worker/task:{task}"
    )
    with v1.device(setter):
        x = v1.placeholder(tf.float32, [None, 2], name="x")
        w = v1.get_variable("w", [2, 1], initializer=v1.constant_initializer(0.5))
        b = v1.get_variable("b", [1], initializer=v1.zeros_initializer())
        global_step = v1.train.get_or_create_global_step()
        wanted = 3.0 * tf.reduce_sum(x, 1, keepdims=True) + 1.0
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + b - wanted))
        optimizer = v1.train.AdamOptimizer(0.05)
        if sync:
            optimizer = v1.train.SyncReplicasOptimizer(
                optimizer, replicas_to_aggregate=WORKERS, total_num_replicas=WORKERS
            )
        train = optimizer.minimize(loss, global_step=global_step)
    feed = {x: np.array([[1, 2], [2, -1], [0.5, 0.25]], np.float32) + np.float32(task)}
    return loss, train, global_step, feed, optimizer if sync else None


def config_of(task):
    """Of a worker that speaks to the servers and to itself alone, as TensorFlow's guide has it."""
    return v1.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{task}"])


def monitored(task, target, ps_tasks, sync, checkpoints, ready):
    """A worker of a MonitoredTrainingSession."""
    loss, train, global_step, feed, synchronous = model(task, ps_tasks, sync)
    if task > 0:
        # One that finds variables without values looks again after 30 seconds, whatever it is told.
        ready.wait(LIMIT)
    hooks = [v1.train.StopAtStepHook(last_step=STEPS)]
    if synchronous:
        hooks.append(synchronous.make_session_run_hook(task == 0, num_tokens=WORKERS))
    losses = []
    with v1.train.MonitoredTrainingSession(
        master=target,
        is_chief=task == 0,
        checkpoint_dir=checkpoints,
        hooks=hooks,
        config=config_of(task),
        stop_grace_period_secs=5,
    ) as session:
        ready.set()
        while not session.should_stop():
            at, value, _ = session.run([global_step, loss, train], feed)
            losses.append(float(value))
    return losses


def supervised(task, target, ps_tasks, sync, checkpoints, _ready):
    """A worker of a Supervisor."""
    loss, train, global_step, feed, synchronous = model(task, ps_tasks, sync)
    chief = task == 0
    more = {}
    if synchronous:
        tokens = synchronous.get_init_tokens_op(num_tokens=WORKERS)
        runner = synchronous.get_chief_queue_runner()
        more["local_init_op"] = (
            synchronous.chief_init_op if chief else synchronous.local_step_init_op
        )
        more["ready_for_local_init_op"] = synchronous.ready_for_local_init_op
    if checkpoints is None:
        more["saver"] = None
    supervisor = v1.train.Supervisor(
        is_chief=chief,
        logdir=checkpoints,
        summary_op=None,
        init_op=v1.global_variables_initializer(),
        global_step=global_step,
        recovery_wait_secs=1,
        **more,
    )
    losses = []
    session = supervisor.prepare_or_wait_for_session(target, config=config_of(task))
    try:
        if synchronous and chief:
            session.run(tokens)
            supervisor.start_queue_runners(session, [runner])
        while not supervisor.should_stop():
            at, value, _ = session.run([global_step, loss, train], feed)
            losses.append(float(value))
            if at >= STEPS:
                break
    finally:
        supervisor.stop(close_summary_writer=False, ignore_live_threads=True)
        session.close()
    return losses


def run(program, targets, ps_tasks, sync, checkpoints):
    """Runs both workers of a program; raises what one of them did."""
    results = [None] * WORKERS
    ready = threading.Event()

    def worker(task):
        try:
            with tf.Graph().as_default():
                results[task] = program(task, targets[task], ps_tasks, sync, checkpoints, ready)
        except BaseException as e:
            results[task] = e
            ready.set()

    threads = [threading.Thread(target=worker, args=(t,), daemon=True) for t in range(WORKERS)]
    until = time.monotonic() + LIMIT
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if time.monotonic() > until:
            raise TimeoutError(f"not done after {LIMIT} s: {results}")
        failed = [r for r in results if isinstance(r, BaseException)]
        if failed:
            # The other worker may wait for the one that failed.
            for thread in threads:
                thread.join(3)
            raise failed[0]
        time.sleep(0.01)
    failed = [r for r in results if isinstance(r, BaseException)]
    if failed:
        raise failed[0]
    # A worker that comes late may find all the work done.
    losses = [worker for worker in results if worker]
    assert losses and all(np.isfinite(worker).all() for worker in losses), losses
    assert all(worker[-1] < worker[0] for worker in losses if len(worker) > 4), losses


PROGRAMS = {"MonitoredTrainingSession": monitored, "Supervisor": supervised}


def cases():
    """The matrix: the name of each case, and what it is."""
    kinds = itertools.product(PROGRAMS, (False, True), (1, 2), ("ref", "resource"), ("v1", "v2"))
    for program, sync, ps_tasks, variables, flow in kinds:
        mode = "sync" if sync else "async"
        name = f"{program}-{mode}-{ps_tasks}ps-{variables}-cf_{flow}"
        yield name, program, sync, ps_tasks, variables, flow


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("targets", nargs=WORKERS)
    parser.add_argument("--checkpoints")
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    options = parser.parse_args()
    failed = 0
    for name, program, sync, ps_tasks, variables, flow in cases():
        if options.only and not any(part in name for part in options.only):
            continue
        (v1.enable_control_flow_v2 if flow == "v2" else v1.disable_control_flow_v2)()
        (v1.enable_resource_variables if variables == "resource" else v1.disable_resource_variables)()
        folder = options.checkpoints and os.path.join(options.checkpoints, name)
        began = time.monotonic()
        try:
            run(PROGRAMS[program], options.targets, ps_tasks, sync, folder)
            print(f"ok {name} {time.monotonic() - began:.1f} s", flush=True)
        except TimeoutError as e:
            print(f"FAILED {name}: {e}", flush=True)
            faulthandler.dump_traceback()
            os._exit(1)
        except Exception as e:  # the next case may say more
            failed += 1
            print(f"FAILED {name}: {type(e).__name__}: {str(e)[:2000]}", flush=True)
            if options.trace:
                import traceback

                traceback.print_exception(e)
        for target in options.targets:
            v1.Session.reset(target)
    sys.stdout.flush()
    # Threads of a case that failed may still wait.
    os._exit(1 if failed else 0)


if __name__ == "__main__":
    main()
