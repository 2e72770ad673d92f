#!/usr/bin/env python3
"""TensorFlow's own client against a Thalweg server: programs that know nothing of it but its address.

usage: client.py grpc://HOST:PORT [NAME ...]    runs the cases of these names, all without one

Where a case has an oracle, that is TensorFlow's own server in this process.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()
errors = tf.errors
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def close(a, b, tolerance):
    assert np.allclose(a, b, rtol=tolerance, atol=tolerance), f"{a} and {b}"


def raises(kind, text, run):
    """The error that `run` raises, which is of this kind and says this."""
    try:
        run()
    except kind as e:
        assert text in str(e), f"'{text}' is not in: {e}"
        return e
    raise AssertionError(f"no {kind.__name__}: {text}")


def on_both(target, train):
    """The output of a program here and on a server of TensorFlow's."""
    own = v1.train.Server.create_local_server()
    results = []
    for address in (target, own.target):
        with tf.Graph().as_default():
            results.append(train(address))
    return results


@case
def linear_regression(target):
    def train(address):
        x = v1.placeholder(tf.float32, [None], name="x")
        y = v1.placeholder(tf.float32, [None], name="y")
        w = v1.get_variable("w", [], initializer=v1.constant_initializer(0.5))
        b = v1.get_variable("b", [], initializer=v1.zeros_initializer())
        loss = tf.reduce_mean(tf.square(w * x + b - y))
        step = v1.train.GradientDescentOptimizer(0.3).minimize(loss)
        xs = np.linspace(0, 1, 16, dtype=np.float32)
        feed = {x: xs, y: 3 * xs + 1}
        config = v1.ConfigProto(isolate_session_state=True)
        with v1.Session(address, config=config) as session:
            session.run(v1.global_variables_initializer())
            return [session.run([step, loss], feed)[1] for _ in range(200)] + session.run([w, b])

    here, there = on_both(target, train)
    close(here, there, 1e-5)
    close(here[-2:], [3, 1], 0.02)


@case
def deep_mnist(target):
    """Two convolutions, dropout, Adam: the same losses with the same seeds, for 20 steps."""
    rng = np.random.default_rng(7)
    batches = [
        (
            (rng.random((50, 784)) * (rng.random((50, 784)) > 0.7)).astype(np.float32),
            np.eye(10, dtype=np.float32)[rng.integers(0, 10, 50)],
        )
        for _ in range(4)
    ]

    def train(address):
        v1.set_random_seed(5)
        x = v1.placeholder(tf.float32, [None, 784], name="x")
        labels = v1.placeholder(tf.float32, [None, 10], name="labels")
        keep = v1.placeholder(tf.float32, name="keep")

        def layer(name, shape):
            with v1.variable_scope(name):
                normal = v1.truncated_normal_initializer(stddev=0.1)
                w = v1.get_variable("w", shape, initializer=normal)
                return w, v1.get_variable("b", shape[-1:], initializer=v1.constant_initializer(0.1))

        hidden = tf.reshape(x, [-1, 28, 28, 1])
        for name, shape in (("conv1", [5, 5, 1, 32]), ("conv2", [5, 5, 32, 64])):
            w, b = layer(name, shape)
            hidden = tf.nn.relu(tf.nn.conv2d(hidden, w, [1, 1, 1, 1], "SAME") + b)
            hidden = tf.nn.max_pool2d(hidden, 2, 2, "SAME")
        w, b = layer("fc1", [7 * 7 * 64, 1024])
        hidden = tf.nn.relu(tf.matmul(tf.reshape(hidden, [-1, 7 * 7 * 64]), w) + b)
        hidden = tf.nn.dropout(hidden, rate=1 - keep)
        w, b = layer("fc2", [1024, 10])
        logits = tf.matmul(hidden, w) + b
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        step = v1.train.AdamOptimizer(1e-4).minimize(loss)
        losses = []
        config = v1.ConfigProto(isolate_session_state=True)
        with v1.Session(address, config=config) as session:
            session.run(v1.global_variables_initializer())
            for i in range(20):
                images, classes = batches[i % len(batches)]
                losses.append(session.run([step, loss], {x: images, labels: classes, keep: 0.5})[1])
        return losses

    here, there = on_both(target, train)
    print("  losses here ", " ".join(f"{l:.4f}" for l in here[::4]))
    print("  losses there", " ".join(f"{l:.4f}" for l in there[::4]))
    assert np.max(np.abs(np.subtract(here, there))) < 1e-3, (here, there)


@case
def loops_and_functions(target):
    """Control flow of both kinds, and functions that Python writes."""

    def build(address):
        n = v1.placeholder(tf.int32, [])
        total = tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + tf.cast(i * i, tf.float32)), (0, 0.0))[1]
        chosen = v1.cond(n > 5, lambda: total * 2.0, lambda: total - 1.0)

        @tf.function
        def squared(x):
            return x * x + 1.0

        with v1.Session(address) as session:
            return [session.run([total, chosen, squared(chosen)], {n: k}) for k in (3, 9)]

    for v2 in (True, False):
        (v1.enable_control_flow_v2 if v2 else v1.disable_control_flow_v2)()
        here, there = on_both(target, build)
        close(here, there, 1e-6)
    v1.enable_control_flow_v2()


@case
def a_graph_that_grows(target):
    with v1.Session(target) as session:
        a = tf.constant([1.0, 2.0], name="a")
        close(session.run(a), [1, 2], 0)
        for i in range(5):
            a = tf.add(a, 1.0, name=f"more_{i}")
            close(session.run(a), [2.0 + i, 3.0 + i], 0)
        assert session.run(tf.strings.join(["a", "b"])) == b"ab"


@case
def variables_are_shared(target):
    """Two clients, one variable; then one that has its own."""
    with tf.Graph().as_default():
        v = v1.get_variable("shared_by_clients", [2], initializer=v1.zeros_initializer())
        add = v.assign_add([1.0, 2.0])
        with v1.Session(target) as one, v1.Session(target) as two:
            one.run(v.initializer)
            one.run(add)
            two.run(add)
            close(one.run(v), [2, 4], 0)
        with v1.Session(target) as later:
            close(later.run(v), [2, 4], 0)
        alone = v1.ConfigProto(isolate_session_state=True)
        with v1.Session(target, config=alone) as session:
            raises(errors.FailedPreconditionError, "shared_by_clients", lambda: session.run(v))
        session = v1.Session(target)
        session.run(v)
        v1.Session.reset(target)
        raises(errors.AbortedError, "is not found", lambda: session.run(v))
        with v1.Session(target) as session:
            raises(errors.FailedPreconditionError, "shared_by_clients", lambda: session.run(v))


@case
def errors_are_those_of_tensorflow(target):
    with tf.Graph().as_default(), v1.Session(target) as session:
        x = v1.placeholder(tf.float32, [2, 3], name="x")
        y = v1.placeholder(tf.float32, name="y")
        product = tf.matmul(x, y, name="product")
        text = "You must feed a value for placeholder tensor 'x' with dtype float and shape [2,3]"
        e = raises(errors.InvalidArgumentError, text, lambda: session.run(product, {y: np.ones((3, 1))}))
        assert e.op is x.op, e.op
        e = raises(
            errors.InvalidArgumentError,
            "",
            lambda: session.run(product, {x: np.ones((2, 3)), y: np.ones((2, 3))}),
        )
        assert e.op is product.op, e.op
        with tf.device("/job:nowhere/task:7"):
            lost = tf.add(y, 1.0, name="lost")
        for _ in range(2):
            raises(errors.InvalidArgumentError, "lost", lambda: session.run(lost, {y: 1.0}))
    with tf.Graph().as_default(), v1.Session(target) as session:
        wrong = v1.Assert(tf.constant(False), ["told"], name="told")
        raises(errors.InvalidArgumentError, "told", lambda: session.run(wrong))
    with tf.Graph().as_default(), v1.Session(target) as session:
        queue = v1.FIFOQueue(3, [tf.float32], shapes=[()])
        element = queue.dequeue()
        session.run(queue.enqueue(2.0))
        close(session.run(element), 2, 0)
        session.run(queue.close())
        raises(errors.OutOfRangeError, "", lambda: session.run(element))


@case
def windows_over_images_are_unimplemented(target):
    with tf.Graph().as_default(), v1.Session(target) as session:
        images = v1.placeholder_with_default(np.zeros([2, 2, 2, 1], np.float32), [None, 2, 2, 1])
        for pool in (v1.nn.avg_pool, v1.nn.max_pool):
            pooled = pool(images, [1, 1, 1, 1], [2, 1, 1, 1], "VALID")
            raises(errors.UnimplementedError, "", lambda: session.run(pooled))


@case
def unneeded_nodes_stop_no_step(target):
    """A step is cut to its needs first: ops that the server lacks, and shapes that do not fit, fail the steps that use them."""
    with tf.Graph().as_default(), v1.Session(target) as session:
        x = v1.placeholder_with_default(3.0, [], name="x")
        y = x * 2
        lacking = v1.py_func(lambda a: a, [y], tf.float32)
        v1.summary.image("wrong", tf.zeros([1, 2, 2, 64]))
        below = tf.identity(lacking, name="below") + 1
        close(session.run(y), 6, 0)
        raises(errors.NotFoundError, "PyFunc", lambda: session.run(below))
        # A later extension builds on nodes that were put off, and on others.
        both = tf.stack([lacking, y], name="both")
        more = y + 1
        close(session.run(more), 7, 0)
        raises(errors.NotFoundError, "PyFunc", lambda: session.run(both))
        close(session.run(more, {x: 1.0}), 3, 0)
        counted = session.make_callable(more)
        close(counted(), 7, 0)
        raises(errors.NotFoundError, "PyFunc", lambda: session.make_callable(both)())
        text = v1.summary.text("notes", tf.constant(["a", "b"]))
        assert b"notes" in session.run(text)


@case
def reference_variables(target):
    """A fetched reference has the value after the step."""
    with tf.Graph().as_default(), v1.Session(target) as session:
        step = v1.get_variable("ref_step", initializer=0, use_resource=False)
        train = v1.assign_add(step, 1).op
        session.run(step.initializer)
        assert [int(session.run([train, step])[1]) for _ in range(3)] == [1, 2, 3]
        assert [int(session.run([train, step + 0])[1]) for _ in range(2)] == [3, 4]


@case
def deadlines_and_closing(target):
    import threading
    import time

    with tf.Graph().as_default():
        empty = v1.FIFOQueue(3, [tf.float32], shapes=[()], name="empty").dequeue()
        session = v1.Session(target)
        options = v1.RunOptions(timeout_in_ms=200)
        began = time.monotonic()
        raises(errors.DeadlineExceededError, "", lambda: session.run(empty, options=options))
        assert time.monotonic() - began < 10
        failed = []

        def wait():
            try:
                session.run(empty)
            except (errors.CancelledError, errors.OpError) as e:
                failed.append(e)

        waiting = threading.Thread(target=wait)
        waiting.start()
        time.sleep(0.3)
        session.close()
        waiting.join(10)
        assert not waiting.is_alive() and isinstance(failed[0], errors.CancelledError), failed


@case
def callables_and_traces(target):
    from tensorflow.python.client import timeline

    with tf.Graph().as_default(), v1.Session(target) as session:
        x = v1.placeholder(tf.float32, [None])
        y = tf.reduce_sum(tf.square(x, name="squares"))
        step = session.make_callable(y, feed_list=[x])
        close(step([1.0, 2.0]), 5, 0)
        options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
        metadata = v1.RunMetadata()
        session.run(y, {x: [3.0]}, options=options, run_metadata=metadata)
        names = [n.node_name for d in metadata.step_stats.dev_stats for n in d.node_stats]
        assert "squares" in names, names
        assert "squares" in timeline.Timeline(metadata.step_stats).generate_chrome_trace_format()
        given = v1.RunMetadata
        from tensorflow.core.protobuf import config_pb2

        made = config_pb2.CallableOptions(feed=[x.name], fetch=[y.name])
        made = session._make_callable_from_options(made)
        close(made(np.array([1.0, 3.0], np.float32))[0], 10, 0)
        del given


@case
def partial_runs(target):
    with tf.Graph().as_default(), v1.Session(target) as session:
        a, b, c = (v1.placeholder(tf.float32, []) for _ in range(3))
        first = a + b
        drawn = tf.random.stateless_uniform([], [1, 2]) + first
        second = first * c + 0.0 * drawn
        setup = lambda: session.partial_run_setup([first, second], [a, b, c])
        for _ in range(2):
            handle = setup()
            early = lambda: session.partial_run(handle, second)
            raises(errors.InvalidArgumentError, "can't be computed", early)
            result = session.partial_run(handle, first, {a: 1, b: 2})
            close(result, 3, 0)
            again = lambda: session.partial_run(handle, first)
            raises(errors.InvalidArgumentError, "has already been fetched", again)
            close(session.partial_run(handle, second, {c: result}), 9, 0)
            late = lambda: session.partial_run(handle, second)
            raises(errors.InvalidArgumentError, "Must run PartialRunSetup", late)
        # One that is not finished does not keep the session from closing.
        session.partial_run(setup(), first, {a: 1, b: 2})


@case
def session_tensors(target):
    """A session keeps values between its steps, by handles; on a cluster a handle names the task."""
    with v1.Graph().as_default(), v1.Session(target) as session:
        x = v1.placeholder(tf.float32, [2])
        first = session.run(v1.get_session_handle(x + 1), {x: [1, 2]})
        np.testing.assert_array_equal(first.eval(), [2, 3])
        handle, kept = v1.get_session_tensor(first.handle, tf.float32)
        doubled = v1.get_session_handle(kept * 2)
        second = session.run(doubled, {handle: first.handle})
        assert first.handle != second.handle
        np.testing.assert_array_equal(session.run(kept, {handle: second.handle}), [4, 6])
        words = session.run(v1.get_session_handle(tf.constant(["a", ""])))
        assert words.eval().tolist() == [b"a", b""]
        raises(errors.InvalidArgumentError, "is of string", lambda: session.run(kept, {handle: words.handle}))
        for device in (d.name for d in session.list_devices()):
            with v1.device(device):
                placed = v1.get_session_handle(x * 3)
            there = session.run(placed, {x: [1, 2]})
            assert there.handle.endswith(device), there.handle
            np.testing.assert_array_equal(there.eval(), [3, 6])
        first.delete()
        raises(errors.InvalidArgumentError, "no value", lambda: session.run(kept, {handle: first.handle}))
        with v1.Session(target) as other:
            raises(errors.InvalidArgumentError, "no value", lambda: other.run(kept, {handle: second.handle}))


@case
def devices(target):
    with v1.Session(target) as session:
        listed = session.list_devices()
        assert listed and listed[0].device_type == "CPU", listed
        with tf.device(listed[0].name):
            close(session.run(tf.constant(2.0) * 3.0), 6, 0)


@case
def large_values(target):
    """Messages of many megabytes, compressed and not."""
    for algorithm in ("", "gzip"):
        config = v1.ConfigProto()
        config.rpc_options.compression_algorithm = algorithm
        with tf.Graph().as_default(), v1.Session(target, config=config) as session:
            x = v1.placeholder(tf.float32, [None])
            values = np.arange(6_000_000, dtype=np.float32)
            close(session.run(x + 1.0, {x: values}), values + 1, 0)


def a_parameter_server(target):
    """Variables on a server, the rest on a worker: a cluster of /job:ps and /job:worker."""
    setter = v1.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:0")
    with tf.Graph().as_default(), v1.device(setter):
        x = v1.placeholder(tf.float32, [None, 2])
        w = v1.get_variable("cluster_w", [2, 1], initializer=v1.constant_initializer(0.5))
        step = v1.train.get_or_create_global_step()
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - 3.0 * tf.reduce_sum(x, 1, keepdims=True)))
        train = v1.train.AdamOptimizer(0.1).minimize(loss, global_step=step)
        init = v1.global_variables_initializer()
        assert w.device == "/job:ps/task:0", w.device
        feed = {x: [[1.0, 2.0], [2.0, -1.0], [0.5, 0.25]]}
        with v1.Session(target) as session:
            session.run(init)
            losses = [session.run([loss, train], feed)[0] for _ in range(150)]
            assert losses[-1] < losses[0] * 1e-2, losses[::10]
            close(session.run(step), 150, 0)
        # Variables seen by another session; a loop, on another task than its user.
        with v1.Session(target) as session:
            close(session.run(w), np.full((2, 1), 3.0), 0.5)
        with v1.device("/job:ps/task:0"):
            looped = tf.while_loop(lambda i: i < 10, lambda i: i + 3, [tf.constant(0)])[0]
        with v1.device("/job:worker/task:0"):
            after = looped + 1
        with v1.Session(target) as session:
            close(session.run(after), 13, 0)
            names = sorted(d.name for d in session.list_devices())
            assert names == [f"/job:{j}/replica:0/task:0/device:CPU:0" for j in ("ps", "worker")], names
        v1.Session.reset(target)
        with v1.Session(target) as session:
            raises(errors.FailedPreconditionError, "cluster_w", lambda: session.run(w))
    with tf.Graph().as_default(), v1.Session(target) as session:
        with v1.device("/job:ps/task:7"):
            nowhere = tf.constant(1.0) + v1.placeholder_with_default(1.0, [])
        raises(errors.InvalidArgumentError, "/job:ps/task:7", lambda: session.run(nowhere))


def pieces_over_tasks(target):
    """A partial run whose parts run on two tasks, and the trace of one."""
    with tf.Graph().as_default():
        a, b, c = (v1.placeholder(tf.float32, []) for _ in range(3))
        with v1.device("/job:ps/task:0"):
            first = a + b
        with v1.device("/job:worker/task:0"):
            doubled = first * 2.0
        with v1.device("/job:ps/task:0"):
            second = doubled * c
        with v1.Session(target) as session:
            for _ in range(2):
                handle = session.partial_run_setup([first, second], [a, b, c])
                early = lambda: session.partial_run(handle, second)
                raises(errors.InvalidArgumentError, "can't be computed", early)
                result = session.partial_run(handle, first, {a: 1, b: 2})
                close(result, 3, 0)
                close(session.partial_run(handle, second, {c: result}), 18, 0)
            metadata = v1.RunMetadata()
            options = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE)
            session.run(second, {a: 1, b: 2, c: 3}, options=options, run_metadata=metadata)
            devices = {d.device: d.node_stats for d in metadata.step_stats.dev_stats}
            tasks = {f"/job:{j}/replica:0/task:0/device:CPU:0" for j in ("ps", "worker")}
            assert set(devices) == tasks, devices
            # One that is not finished does not keep the session from closing.
            handle = session.partial_run_setup([first, second], [a, b, c])
            session.partial_run(handle, first, {a: 1, b: 2})
        # Values of more digits than bf16 has.
        config = v1.ConfigProto()
        config.graph_options.enable_bfloat16_sendrecv = True
        with v1.Session(target, config=config) as session:
            fine = 1 + 2.0**-20
            close(session.run(second, {a: fine, b: 0, c: 1}), 2, 0)
            # Feeds and fetches of partial runs pass unchanged.
            handle = session.partial_run_setup([first, doubled], [a, b])
            close(session.partial_run(handle, first, {a: fine, b: 0}), fine, 0)
            close(session.partial_run(handle, doubled), 2 * fine, 0)
        with v1.Session(target) as session:
            close(session.run(second, {a: fine, b: 0, c: 1}), 2 * fine, 0)


def variables_of_another_task(target):
    """Uses of a server's variable on a worker: variables and control flow of both kinds."""

    def reference(v):
        return v if v1.resource_variables_enabled() else v._ref()

    def used(v, on):
        return tf.identity(reference(v)) * 2.0 + tf.add(reference(v), 1.0), 7.0

    def updated(v, on):
        with tf.control_dependencies([v1.assign_add(v, 1.0)]):
            return tf.identity(reference(v)) + 0.0, 3.0

    def what_an_update_gives(v, on):
        return v1.assign_add(v, 1.0) + 1.0, 4.0

    def in_a_branch(v, on):
        return v1.cond(on, lambda: v * 2.0, lambda: v - 1.0), 4.0

    def given_by_a_branch(v, on):
        return v1.cond(on, lambda: tf.identity(reference(v)), lambda: reference(v) - 1.0), 2.0

    def in_the_other_branch(v, on):
        return v1.cond(~on, lambda: tf.identity(reference(v)), lambda: reference(v) - 1.0), 1.0

    def in_a_loop(v, on):
        loop = v1.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s + v), (0, 0.0))
        return loop[1], 6.0

    def beside(v):
        """A variable of the worker, and a loop that reads both."""
        with v1.device("/job:worker/task:0"):
            w = v1.get_variable("three", initializer=np.array([1, 2, 3], np.float32))

        def body(i, s):
            return i + 1, s + tf.convert_to_tensor(v) + tf.gather(w, i)

        return w, v1.while_loop(lambda i, s: i < 3, body, (0, 0.0))[1]

    def with_another_variable_in_a_loop(v, on):
        return beside(v)[1], 12.0

    def gradients_of_a_loop_with_another_variable(v, on):
        # The nodes of a gradient stand with those of the loop: a device that one of them is given binds all.
        with v1.device(None):
            w, result = beside(v)
            by_v, by_w = tf.gradients(result, [v, w])
        return by_v + tf.reduce_sum(tf.convert_to_tensor(by_w)), 6.0

    def with_another_variable_in_a_branch(v, on):
        w = v1.get_variable("factor", initializer=np.float32(5))
        return v1.cond(on, lambda: v * w, lambda: v - w), 10.0

    def updated_in_a_loop_beside_another_variable(v, on):
        w = v1.get_variable("one", initializer=np.float32(1))
        if not v1.resource_variables_enabled():
            return w, 1.0

        def body(i, s):
            with tf.control_dependencies([v1.assign_add(v, w)]):
                return i + 1, s + v.read_value()

        return v1.while_loop(lambda i, s: i < 3, body, (0, 0.0), parallel_iterations=1)[1], 12.0

    def mapped_with_another_variable(v, on):
        # Lists and optionals stay within a task: the loop stands with them.
        w = v1.get_variable("added", initializer=np.float32(1))
        return tf.reduce_sum(tf.map_fn(lambda x: x * v + w, tf.range(3.0))), 9.0

    def gradients_of_a_branch_with_another_variable(v, on):
        with v1.device(None):
            w = v1.get_variable("scaled", initializer=np.float32(5))
            result = v1.cond(on, lambda: v * w, lambda: v - w)
            return tf.add_n([tf.convert_to_tensor(g) for g in tf.gradients(result, [v, w])]), 7.0

    programs = (
        used,
        updated,
        what_an_update_gives,
        in_a_branch,
        given_by_a_branch,
        in_the_other_branch,
        in_a_loop,
    )
    # With a variable of the worker beside that of the server.
    of_two_tasks = (
        with_another_variable_in_a_loop,
        gradients_of_a_loop_with_another_variable,
        with_another_variable_in_a_branch,
        updated_in_a_loop_beside_another_variable,
        mapped_with_another_variable,
        gradients_of_a_branch_with_another_variable,
    )
    for resources in (False, True):
        for v2 in (False, True):
            (v1.enable_resource_variables if resources else v1.disable_resource_variables)()
            (v1.enable_control_flow_v2 if v2 else v1.disable_control_flow_v2)()
            for program in programs + of_two_tasks:
                with tf.Graph().as_default(), v1.Session(target) as session:
                    with v1.device("/job:ps/task:0"):
                        v = v1.get_variable("v", [], initializer=v1.constant_initializer(2.0))
                    with v1.device("/job:worker/task:0"):
                        on = v1.placeholder_with_default(True, [])
                        made, expected = program(v, on)
                    session.run(v1.global_variables_initializer())
                    found = session.run(made)
                    assert found == expected, (program.__name__, resources, v2, found)
    v1.enable_resource_variables()
    v1.enable_control_flow_v2()


# Only where they are asked for by name: they need more than one task.
OF_CLUSTERS = {
    "a_parameter_server": a_parameter_server,
    "pieces_over_tasks": pieces_over_tasks,
    "variables_of_another_task": variables_of_another_task,
}


def main():
    target, names = sys.argv[1], sys.argv[2:]
    by_name = {**CASES, **OF_CLUSTERS}
    failed = 0
    for name in names or CASES:
        try:
            with tf.Graph().as_default():
                by_name[name](target)
            print(f"ok {name}", flush=True)
        except Exception as e:  # the next case may say more
            failed += 1
            print(f"FAILED {name}: {type(e).__name__}: {str(e)[:2000]}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
