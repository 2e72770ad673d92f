"""Golden graphs: queues of each kind over several steps, accumulators, staging areas."""

import numpy as np

from graphs_parts import floats, variable
from graphs_record import golden
from reference import f32, i32, i64, raw, tf, v1


@golden("queue_fifo")
def fifo(g):
    """Two components, one and many at a time; the remaining elements after a close; then errors."""
    queue = v1.FIFOQueue(5, [tf.float32, tf.int32], [[], [2]], names=None, shared_name="pairs", name="queue")
    x, y = v1.placeholder(tf.float32, [], name="x"), v1.placeholder(tf.int32, [2], name="y")
    xs, ys = v1.placeholder(tf.float32, [None], name="xs"), v1.placeholder(tf.int32, [None, 2], name="ys")
    count = v1.placeholder(tf.int32, [], name="count")
    enqueue, enqueue_many = queue.enqueue([x, y]), queue.enqueue_many([xs, ys])
    dequeue, several, up_to = queue.dequeue(), queue.dequeue_many(count), queue.dequeue_up_to(count)
    size, closed, close = queue.size(), queue.is_closed(), queue.close()
    many = {xs: floats("queued", [4]), ys: np.arange(8, dtype=i32).reshape(4, 2)}
    one = {x: f32(0.5), y: np.array([7, 8], i32)}
    g.step(size, closed)
    g.step(feeds=one, run=enqueue)
    g.step(feeds=many, run=enqueue_many)
    g.step(size)
    g.step(*dequeue)
    g.step(*several, feeds={count: 3})
    # An enqueue that waits for space continues when the same step makes some.
    g.step(feeds=many, run=enqueue_many)
    g.step(*dequeue, feeds=one | {count: 2}, run=enqueue)
    g.step(*several, feeds={count: 0})
    g.step(*several, feeds=many | {count: 4}, run=enqueue_many)
    g.step(size)
    g.step(run=close)
    g.step(size, closed)
    g.step(feeds=one, run=enqueue, fails=True)
    g.step(feeds=many, run=enqueue_many, fails=True)
    # A failing dequeue puts its elements back.
    g.step(*several, feeds={count: 9}, fails=True)
    g.step(size)
    g.step(*several, feeds={count: 2})
    g.step(*up_to, feeds={count: 9})
    g.step(*up_to, feeds={count: 1}, fails=True)
    g.step(*dequeue, fails=True)
    g.step(*several, feeds={count: 1}, fails=True)
    g.step(*several, feeds={count: 0})
    g.step(run=close, fails=True)
    g.step(feeds={x: f32(1), y: np.array([1, 2], i32)}, run=enqueue, fails=True)


@golden("queue_cancel")
def cancel(g):
    """A close that cancels waiting enqueues; several queues; shapes that do not fit."""
    queue = v1.FIFOQueue(1, tf.float32, name="small")
    x = v1.placeholder(tf.float32, name="x")
    enqueue, dequeue = queue.enqueue(x), queue.dequeue()
    many = queue.enqueue_many(x)
    cancelling = queue.close(cancel_pending_enqueues=True)
    size = queue.size()
    strict = v1.FIFOQueue(3, tf.float32, [[2]], name="strict")
    strict_enqueue, strict_many = strict.enqueue(x), strict.enqueue_many(x)
    g.step(feeds={x: floats("of any shape", [2, 3])}, run=enqueue)
    g.step(dequeue)
    g.step(feeds={x: floats("of another shape", [4])}, run=enqueue)
    # Nothing gets in, whichever of the two comes first; the error's text depends on it.
    g.step(feeds={x: floats("too many", [2])}, run=[many, cancelling], fails=True)
    g.step(size)
    g.step(dequeue)
    g.step(dequeue, fails=True)
    g.step(run=cancelling)
    g.step(feeds={x: floats("strict", [2])}, run=strict_enqueue)
    g.step(feeds={x: floats("strict", [3])}, run=strict_enqueue, fails=True)
    g.step(feeds={x: floats("strict", [2, 3])}, run=strict_many, fails=True)
    g.step(strict.size())


@golden("queue_shuffle")
def shuffle(g):
    """A seeded RandomShuffleQueue: its order, and the elements that it keeps back until it is closed."""
    queue = v1.RandomShuffleQueue(20, 3, [tf.int64], [[]], seed=7, name="shuffled")
    xs = v1.placeholder(tf.int64, [None], name="xs")
    count = v1.placeholder(tf.int32, [], name="count")
    enqueue, dequeue, several = queue.enqueue_many([xs]), queue.dequeue(), queue.dequeue_many(count)
    up_to, size, close = queue.dequeue_up_to(count), queue.size(), queue.close()
    g.step(feeds={xs: np.arange(12, dtype=i64)}, run=enqueue)
    for _ in range(3):
        g.step(dequeue)
    g.step(several, feeds={count: 4})
    g.step(size)
    g.step(feeds={xs: np.arange(12, 20, dtype=i64)}, run=enqueue)
    g.step(several, feeds={count: 8})
    g.step(run=close)
    g.step(several, feeds={count: 2})
    g.step(several, feeds={count: 9}, fails=True)
    g.step(size)
    g.step(up_to, feeds={count: 9})
    g.step(dequeue, fails=True)


@golden("queue_padding")
def padding(g):
    """A PaddingFIFOQueue fills rows up to the longest of a batch; elements are numbers and strings."""
    queue = v1.PaddingFIFOQueue(10, [tf.int32, tf.string], [[None], [None, 2]], name="padded")
    x, text = v1.placeholder(tf.int32, [None], name="x"), v1.placeholder(tf.string, [None, 2], name="text")
    count = v1.placeholder(tf.int32, [], name="count")
    enqueue, dequeue = queue.enqueue([x, text]), queue.dequeue()
    several, up_to = queue.dequeue_many(count), queue.dequeue_up_to(count)
    for length in (2, 4, 0, 3):
        words = [[f"{length}.{i}".encode(), b"\x00end\x00"] for i in range(length)]
        words = np.array(words, object).reshape(-1, 2)
        g.step(feeds={x: np.arange(length, dtype=i32) + 10 * length, text: words}, run=enqueue)
    g.step(*dequeue)
    g.step(*several, feeds={count: 2})
    g.step(run=queue.close())
    g.step(*several, feeds={count: 2}, fails=True)
    g.step(*up_to, feeds={count: 5})


@golden("queue_ref")
def of_old(g):
    """The ops before resources: queues whose handle is a reference to strings."""
    shape = [tf.TensorShape([])]
    types = [tf.string]
    queue = raw.FIFOQueue(component_types=types, shapes=shape, capacity=4, name="words")
    words = v1.placeholder(tf.string, [None], name="words_in")
    word = v1.placeholder(tf.string, [], name="word")
    count = v1.placeholder(tf.int32, [], name="count")
    enqueue = raw.QueueEnqueue(handle=queue, components=[word], timeout_ms=-1)
    many = raw.QueueEnqueueMany(handle=queue, components=[words])
    (dequeue,) = raw.QueueDequeue(handle=queue, component_types=types)
    (several,) = raw.QueueDequeueMany(handle=queue, n=count, component_types=types)
    (up_to,) = raw.QueueDequeueUpTo(handle=queue, n=count, component_types=types)
    size, close = raw.QueueSize(handle=queue), raw.QueueClose(handle=queue)
    whole = [tf.int32]
    numbers = raw.RandomShuffleQueue(
        component_types=whole, shapes=shape, min_after_dequeue=0, seed=3, seed2=4
    )
    fill = raw.QueueEnqueueMany(handle=numbers, components=[tf.range(6)])
    (drawn,) = raw.QueueDequeueMany(handle=numbers, n=6, component_types=whole)
    g.step(feeds={words: np.array([b"a", b"", b"c\x00"], object)}, run=many)
    g.step(feeds={word: b"last"}, run=enqueue)
    g.step(size)
    g.step(dequeue)
    g.step(several, feeds={count: 2})
    g.step(run=close)
    g.step(up_to, feeds={count: 5})
    g.step(dequeue, fails=True)
    g.step(run=fill)
    g.step(drawn)


@golden("accumulators")
def accumulators(g):
    """Gradients are averaged, those of an old step left out, and a take begins the next step."""
    step = v1.placeholder(tf.int64, [], name="step")
    x = v1.placeholder(tf.float32, [2], name="x")
    required = v1.placeholder(tf.int32, [], name="required")
    mean = v1.ConditionalAccumulator(tf.float32, [2], shared_name="mean", name="mean")
    total = v1.ConditionalAccumulator(tf.float32, [2], reduction_type="SUM", name="total")
    applied = [a.apply_grad(x, step) for a in (mean, total)]
    counts = [a.num_accumulated() for a in (mean, total)]
    taken = [a.take_grad(required) for a in (mean, total)]
    moved = [a.set_global_step(step) for a in (mean, total)]
    weight = variable("weight", [2], "resource")
    train = v1.train.GradientDescentOptimizer(0.5).apply_gradients([(taken[0], weight)])
    g.init_variables()

    def apply(name, at):
        g.step(feeds={x: floats(name, [2]), step: i64(at)}, run=applied)

    apply("first", 0)
    apply("second", 0)
    g.step(*counts)
    g.step(*taken, feeds={required: 2})
    g.step(*counts)
    # After a take the accumulator is at step 1: a gradient of step 0 is dropped.
    apply("late", 0)
    g.step(*counts)
    apply("third", 1)
    apply("fourth", 5)
    apply("fifth", 1)
    g.step(*counts)
    # More than are required are averaged too.
    g.step(*taken, feeds={required: 1})
    g.step(feeds={step: i64(9)}, run=moved)
    apply("stale", 8)
    g.step(*counts)
    apply("sixth", 9)
    g.step(feeds={required: 1}, run=train)
    g.step(weight)
    g.step(feeds={step: i64(3)}, run=moved)
    g.step(*counts)


@golden("accumulators_ref")
def accumulators_of_old(g):
    """The same by the ops before resources, and a gradient of another shape."""
    step = v1.placeholder(tf.int64, [], name="step")
    x = v1.placeholder(tf.float32, name="x")
    handle = raw.ConditionalAccumulator(dtype=tf.float32, shape=[2], shared_name="old")
    applied = raw.AccumulatorApplyGradient(handle=handle, local_step=step, gradient=x)
    count = raw.AccumulatorNumAccumulated(handle=handle)
    taken = raw.AccumulatorTakeGradient(handle=handle, num_required=1, dtype=tf.float32)
    moved = raw.AccumulatorSetGlobalStep(handle=handle, new_global_step=step)
    for name, at in (("first", 0), ("second", 0), ("third", 7)):
        g.step(feeds={x: floats(name, [2]), step: at}, run=applied)
    g.step(count)
    g.step(taken)
    g.step(feeds={step: 4}, run=moved)
    g.step(feeds={x: floats("stale", [2]), step: 3}, run=applied)
    g.step(count)
    g.step(feeds={x: floats("wide", [3]), step: 4}, run=applied, fails=True)
    g.step(feeds={x: floats("sixth", [2]), step: 4}, run=applied)
    g.step(taken)


@golden("accumulators_sync")
def sync_replicas(g):
    """SyncReplicasOptimizer: a step hands its gradient in and waits for a token from the chief."""
    x = v1.placeholder(tf.float32, [2], name="x")
    weight = variable("weight", [2], "ref")
    count = v1.train.get_or_create_global_step()
    loss = tf.reduce_sum(tf.square(weight - x))
    inner = v1.train.GradientDescentOptimizer(0.1)
    optimizer = v1.train.SyncReplicasOptimizer(inner, replicas_to_aggregate=1, total_num_replicas=1)
    worker = optimizer.minimize(loss, global_step=count)
    chief = optimizer.get_chief_queue_runner().enqueue_ops
    optimizer.ready_for_local_init_op.mark_used()
    g.init_variables()
    g.init(v1.local_variables_initializer(), optimizer.chief_init_op)
    for i in range(3):
        g.step(loss, feeds={x: floats(f"replica {i}", [2])}, run=[worker, *chief])
        g.step(weight, count)


@golden("staging")
def staging(g):
    """A StagingArea: first in, first out; by size; looked at without taking."""
    handle = {"dtypes": [tf.float32, tf.string], "capacity": 3, "shared_name": "stage"}
    x, word = v1.placeholder(tf.float32, [None], name="x"), v1.placeholder(tf.string, [], name="word")
    index = v1.placeholder(tf.int32, [], name="index")
    stage = raw.Stage(values=[x, word], capacity=3, shared_name="stage")
    unstage = raw.Unstage(**handle)
    peek = raw.StagePeek(index=index, **handle)
    size, clear = raw.StageSize(**handle), raw.StageClear(**handle)
    for i in range(3):
        g.step(feeds={x: floats(f"staged {i}", [i + 1]), word: f"word {i}".encode()}, run=stage)
    g.step(size)
    g.step(*peek, feeds={index: 0})
    g.step(*peek, feeds={index: 2})
    g.step(*unstage)
    # As in input pipelines: earlier elements come out while the next go in.
    g.step(*unstage, feeds={x: floats("staged with", [2]), word: b"with"}, run=stage)
    g.step(size)
    g.step(run=clear)
    g.step(size)


@golden("queue_priority")
def priority(g):
    """A PriorityQueue: the smallest number first, one and many at a time, in the order of arrival among equals."""
    queue = v1.PriorityQueue(9, [tf.string, tf.float32], [[], [2]], shared_name="urgent", name="queue")
    at, text = v1.placeholder(tf.int64, [None], name="at"), v1.placeholder(tf.string, [None], name="text")
    pairs, count = v1.placeholder(tf.float32, [None, 2], name="pairs"), v1.placeholder(tf.int32, [], name="count")
    many, one = queue.enqueue_many([at, text, pairs]), queue.enqueue([at[0], text[0], pairs[0]])
    several, up_to, dequeue = queue.dequeue_many(count), queue.dequeue_up_to(count), queue.dequeue()

    def feeds(numbers):
        words = np.array([f"word {n}".encode() for n in numbers], object)
        return {at: numbers, text: words, pairs: floats(f"of {numbers}", [len(numbers), 2])}

    g.step(feeds=feeds([5, -3, 9, 0]), run=many)
    g.step(*dequeue)
    g.step(feeds=feeds([-(2**62), 7, 2]), run=many)
    g.step(*several, feeds={count: 3})
    g.step(feeds=feeds([1]), run=one)
    g.step(queue.size())
    g.step(run=queue.close())
    g.step(*several, feeds={count: 9}, fails=True)
    g.step(*several, feeds={count: 1})
    # TensorFlow fails to give fewer than are asked for.
    g.step(*up_to, feeds={count: 3})
    g.step(*dequeue, fails=True)


@golden("queue_priority_ref")
def priority_of_old(g):
    """The same by the op before resources."""
    queue = raw.PriorityQueue(component_types=[tf.int32], shapes=[[]], name="old")
    types = [tf.int64, tf.int32]
    fill = raw.QueueEnqueueMany(handle=queue, components=[tf.constant([3, 1, 2], tf.int64), tf.constant([30, 10, 20])])
    taken = raw.QueueDequeueMany(handle=queue, n=2, component_types=types)
    g.step(run=fill)
    g.step(*taken)
    g.step(raw.QueueSize(handle=queue))


@golden("barriers")
def barriers(g):
    """Elements get their components one after the other; complete ones are taken; closes of both kinds."""
    types, shapes = [tf.float32, tf.string], [[2], []]
    keys, count = v1.placeholder(tf.string, [None], name="keys"), v1.placeholder(tf.int32, [], name="count")
    pairs, words = v1.placeholder(tf.float32, [None, 2], name="pairs"), v1.placeholder(tf.string, [None], name="words")
    for name, cancel in (("plain", False), ("cancelled", True)):
        barrier = raw.Barrier(component_types=types, shapes=shapes, name=name)
        first = raw.BarrierInsertMany(handle=barrier, keys=keys, values=pairs, component_index=0)
        second = raw.BarrierInsertMany(handle=barrier, keys=keys, values=words, component_index=1)
        third = raw.BarrierInsertMany(handle=barrier, keys=keys, values=words, component_index=2)
        take = raw.BarrierTakeMany(handle=barrier, num_elements=count, component_types=types)
        few = raw.BarrierTakeMany(handle=barrier, num_elements=count, component_types=types, allow_small_batch=True)
        close = raw.BarrierClose(handle=barrier, cancel_pending_enqueues=cancel)
        sizes = raw.BarrierReadySize(handle=barrier), raw.BarrierIncompleteSize(handle=barrier)

        def pair(names, barrier_name=name):
            return {keys: np.array(names, object), pairs: floats(f"{barrier_name} {names}", [len(names), 2])}

        def word(names):
            return {keys: np.array(names, object), words: np.array([n + b"!" for n in names], object)}

        g.step(feeds=pair([b"a"]), run=first)
        g.step(feeds=pair([b"b"]), run=first)
        g.step(feeds=word([b"b"]), run=second)
        g.step(*sizes)
        g.step(feeds=word([b"c"]), run=second)
        g.step(feeds=word([b"c"]), run=second, fails=True)
        g.step(feeds=word([b"c"]), run=third, fails=True)
        g.step(feeds=pair([b"c"]), run=first)
        g.step(feeds=word([b"a"]), run=second)
        # In the order of the first insertion.
        g.step(take.indices, take.keys, *take.values, feeds={count: 2})
        g.step(feeds=pair([b"d"]), run=first)
        g.step(*sizes)
        g.step(run=close)
        g.step(feeds=pair([b"new"]), run=first, fails=True)
        g.step(*sizes)
        g.step(take.keys, feeds={count: 3}, fails=True)
        g.step(feeds=word([b"d"]), run=second, fails=cancel)
        g.step(few.keys, *few.values, feeds={count: 9})
        g.step(few.keys, feeds={count: 1}, fails=True)
        g.step(run=close, fails=True)


@golden("staging_maps")
def staging_maps(g):
    """Staging maps: entries by key, whole and in parts; the smallest key of an ordered one first."""
    key, index = v1.placeholder(tf.int64, [], name="key"), v1.placeholder(tf.int32, [None], name="index")
    x, word = v1.placeholder(tf.float32, [None], name="x"), v1.placeholder(tf.string, [], name="word")
    types = [tf.float32, tf.string]
    for ordered in ("", "Ordered"):
        shared = {"shared_name": f"{ordered}map", "capacity": 3}

        def op(name, prefix=ordered, attrs=shared, **arguments):
            return getattr(raw, f"{prefix}Map{name}")(**{"dtypes": types} | attrs | arguments)

        stage = op("Stage", key=key, indices=[0, 1], values=[x, word])
        part = op("Stage", key=key, indices=[0], values=[x])
        rest = op("Stage", key=key, indices=[1], values=[word])
        peek, take = op("Peek", key=key, indices=[0, 1]), op("Unstage", key=key, indices=[0, 1])
        (second,) = op("Unstage", key=key, indices=[1], dtypes=[tf.string])
        (chosen,) = op("Peek", key=key, indices=index, dtypes=[tf.float32])
        first = op("UnstageNoKey", indices=[0, 1])
        sizes = op("Size"), op("IncompleteSize")

        def entry(number, name=ordered):
            return {key: number, x: floats(f"{name} {number}", [number + 1]), word: f"word {number}".encode()}

        g.step(feeds=entry(5), run=stage)
        g.step(feeds={k: v for k, v in entry(2).items() if k is not word}, run=part)
        g.step(*sizes)
        g.step(feeds={k: v for k, v in entry(2).items() if k is not word}, run=part, fails=True)
        g.step(feeds={k: v for k, v in entry(2).items() if k is not x}, run=rest)
        g.step(*sizes)
        g.step(*peek, feeds={key: 5})
        g.step(chosen, feeds={key: 5, index: [1, 0]}, fails=True)
        g.step(chosen, feeds={key: 5, index: []}, fails=True)
        g.step(chosen, feeds={key: 5, index: [7]}, fails=True)
        g.step(second, feeds={key: 5})
        g.step(*peek, feeds={key: 5}, fails=True)
        g.step(chosen, feeds={key: 5, index: [0]})
        g.step(*take, feeds={key: 2})
        g.step(run=op("Clear"))
        g.step(*sizes)
        g.step(feeds=entry(7), run=stage)
        if ordered:
            g.step(feeds=entry(3), run=stage)
            g.step(first.key, *first.values)
        g.step(first.key, *first.values)
        g.step(*sizes)
