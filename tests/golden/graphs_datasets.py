"""Golden graphs: tf.data's datasets and iterators."""

import numpy as np

from graphs_parts import floats
from graphs_record import golden
from reference import f32, i32, i64, raw, tf, v1

Dataset = tf.compat.v1.data.Dataset


def plain(dataset):
    """The dataset without TensorFlow's rewrites, which change the order of a shuffle that is repeated."""
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    return dataset.with_options(options)


def passes(g, *datasets, most=40):
    """Takes the elements of each dataset one by one, up to the error at the end."""
    for dataset in datasets:
        iterator = v1.data.make_initializable_iterator(plain(dataset))
        following = tf.nest.flatten(iterator.get_next(), expand_composites=True)
        g.step(run=iterator.initializer)
        for _ in range(count(dataset, most)):
            g.step(*following)
        if count(dataset, most) < most:
            g.step(*following, fails=True)


def count(dataset, most):
    """The number of a dataset's elements, up to a bound. It is counted in a session of its own."""
    return min(COUNTS[dataset], most)


COUNTS = {}


def counted(dataset, number):
    """Notes the number of a dataset's elements."""
    COUNTS[dataset] = number
    return dataset


@golden("dataset_sources")
def sources(g):
    """Tensors, slices, ranges of each dtype; their shapes and ends."""
    pair = {"x": floats("x", [3, 2]), "name": np.array([b"a", b"bc", b""])}
    passes(
        g,
        counted(Dataset.from_tensors(pair), 1),
        counted(Dataset.from_tensor_slices(pair), 3),
        counted(Dataset.from_tensor_slices(np.zeros([0, 4], f32)), 0),
        counted(Dataset.range(4), 4),
        counted(Dataset.range(9, -4, -3), 5),
        counted(Dataset.range(3, 3), 0),
        *(counted(Dataset.range(1, 6, 2, output_type=d), 3) for d in (tf.int32, tf.float64, tf.uint8, tf.float32)),
    )
    fed = v1.placeholder(tf.float32, [None, 2])
    iterator = v1.data.make_initializable_iterator(Dataset.from_tensor_slices(fed))
    following = iterator.get_next()
    g.step(following, fails=True)
    for name, rows in (("two", 2), ("one", 1)):
        g.step(feeds={fed: floats(name, [rows, 2])}, run=iterator.initializer)
        for _ in range(rows):
            g.step(following)
    g.step(following, fails=True)
    g.step(following, fails=True)


@golden("dataset_order")
def order(g):
    """Take, skip, shard, repeat, concatenate, zip, enumerate."""
    r = Dataset.range(7)
    passes(
        g,
        counted(r.take(3), 3),
        counted(r.take(-1), 7),
        counted(r.take(0), 0),
        counted(r.skip(5), 2),
        counted(r.skip(9), 0),
        counted(r.skip(-1), 0),
        counted(r.shard(3, 0), 3),
        counted(r.shard(3, 2), 2),
        counted(r.shard(9, 8), 0),
        counted(r.repeat(2), 14),
        counted(r.repeat(0), 0),
        counted(r.take(2).repeat(), 99),
        counted(r.take(0).repeat(), 0),
        counted(r.take(2).concatenate(r.skip(6)), 3),
        counted(Dataset.zip((r, (r.skip(4), Dataset.from_tensors(b"s").repeat()))), 3),
        counted(r.enumerate(start=5).skip(4), 3),
        counted(r.repeat(3).skip(8).shard(4, 1), 3),
        most=9,
    )


@golden("dataset_functions")
def functions(g):
    """Maps, filters, scans, nested data sets, with captured values; a function that fails in the middle."""
    r = Dataset.range(6)
    scale = tf.constant(3, tf.int64)
    text = Dataset.from_tensor_slices(np.array([b"1", b"x", b"3"]))
    ragged = Dataset.from_tensor_slices(np.array([3, 0, 2, 1], i64))
    inner = lambda n: Dataset.from_tensors(n).repeat(n)
    passes(
        g,
        counted(r.map(lambda x: x * scale), 6),
        counted(r.map(lambda x: (x, tf.cast(x, tf.float32) / 2), num_parallel_calls=2), 6),
        counted(r.map(lambda x: x + 1).filter(lambda x: tf.equal(x % scale, 0)), 2),
        counted(r.take_while(lambda x: x < scale), 3),
        counted(r.scan(tf.constant(10, tf.int64), lambda s, x: (s + x, (s, x * scale))), 6),
        counted(ragged.flat_map(inner), 6),
        counted(ragged.interleave(inner, cycle_length=2, block_length=1), 6),
        counted(ragged.interleave(inner, cycle_length=3, block_length=2), 6),
        counted(ragged.interleave(inner, cycle_length=9, block_length=1), 6),
        counted(ragged.interleave(inner, cycle_length=2, block_length=2, num_parallel_calls=2), 6),
        counted(r.map(lambda x: tf.cond(x > 3, lambda: x, lambda: -x)), 6),
        most=12,
    )
    iterator = v1.data.make_one_shot_iterator(text.map(lambda x: tf.strings.to_number(x, tf.int32)))
    following = iterator.get_next()
    g.step(following)
    g.step(following, fails=True)
    g.step(following)
    g.step(following, fails=True)


@golden("dataset_batches")
def batches(g):
    """Batches, padded ones, windows, rows of batches."""
    r = Dataset.range(7)
    pair = Dataset.zip((r, r.map(lambda x: tf.strings.as_string(x))))
    ragged = Dataset.from_tensor_slices(np.array([3, 1, 2, 0, 2], i32)).map(lambda n: tf.fill([n], n))
    square = ragged.map(lambda v: (tf.zeros([tf.size(v), 2]) + 1.5, tf.strings.as_string(v)))
    passes(
        g,
        counted(pair.batch(3), 3),
        counted(pair.batch(3, drop_remainder=True), 2),
        counted(pair.batch(9), 1),
        counted(pair.batch(9, drop_remainder=True), 0),
        counted(r.batch(2).batch(3), 2),
        counted(r.batch(3, num_parallel_calls=2, drop_remainder=True), 2),
        counted(ragged.padded_batch(2), 3),
        counted(ragged.padded_batch(2, padded_shapes=[4], padding_values=-1, drop_remainder=True), 2),
        counted(square.padded_batch(3, padded_shapes=([None, 3], [None]), padding_values=(0.25, b"none")), 2),
        counted(r.batch(3).unbatch(), 7),
        counted(r.window(3).flat_map(lambda w: w.batch(3)), 3),
        counted(r.window(3, shift=2, stride=2, drop_remainder=True).flat_map(lambda w: w.batch(3)), 2),
        counted(r.window(2, shift=3).flat_map(lambda w: w.batch(2)), 3),
    )
    iterator = v1.data.make_one_shot_iterator(ragged.batch(2))
    g.step(iterator.get_next(), fails=True)


@golden("dataset_shuffles")
def shuffles(g):
    """Seeded orders: buffers of each size, several passes, one order for all passes, one shuffle of all passes."""
    r = Dataset.range(9)
    passes(
        g,
        *(counted(r.shuffle(b, seed=s), 9) for b, s in ((1, 1), (3, 7), (9, 7), (20, 11))),
        counted(r.shuffle(4, seed=3).repeat(3), 27),
        counted(r.shuffle(4, seed=3, reshuffle_each_iteration=False).repeat(2), 18),
        counted(r.repeat(2).shuffle(5, seed=2).batch(4), 5),
        counted(r.shuffle(4, seed=5).shard(2, 1).shuffle(3, seed=6), 4),
        most=30,
    )
    # Each start of an iterator draws another order.
    iterator = v1.data.make_initializable_iterator(plain(r.shuffle(9, seed=4)))
    following = iterator.get_next()
    for _ in range(2):
        g.step(run=iterator.initializer)
        for _ in range(4):
            g.step(following)
    types, shapes = [tf.int64], [[]]
    source = raw.RangeDataset(start=i64(0), stop=i64(5), step=i64(1), output_types=types, output_shapes=shapes)
    kept = {"output_types": types, "output_shapes": shapes}
    both = [
        raw.ShuffleAndRepeatDataset(input_dataset=source, buffer_size=i64(b), seed=i64(3), seed2=i64(4), count=i64(n), **kept)
        for b, n in ((3, 2), (8, 3))
    ]
    for dataset, number in zip(both, (10, 15)):
        handle = raw.IteratorV2(shared_name="", container="", **kept)
        g.step(run=raw.MakeIterator(dataset=dataset, iterator=handle))
        following = raw.IteratorGetNext(iterator=handle, **kept)[0]
        for _ in range(number):
            g.step(following)
        g.step(following, fails=True)


@golden("dataset_by_index")
def by_index(g):
    """Shuffles of all elements, with one order and with another in each pass; elements by their index."""
    kept = {"output_types": [tf.int64], "output_shapes": [[]]}
    squares = Dataset.from_tensor_slices(np.arange(10, dtype=np.int64) ** 2)
    for dataset, seeds, again in ((squares, (3, 5), False), (Dataset.range(10), (7, 2), True)):
        shuffled = raw.GlobalShuffleDataset(
            input_dataset=dataset._variant_tensor,
            seed=i64(seeds[0]),
            seed2=i64(seeds[1]),
            seed_generator=raw.DummySeedGenerator(),
            reshuffle_each_iteration=again,
            **kept,
        )
        twice = raw.RepeatDataset(input_dataset=shuffled, count=i64(2), **kept)
        handle = raw.IteratorV2(shared_name="", container="", **kept)
        g.step(run=raw.MakeIterator(dataset=twice, iterator=handle))
        following = raw.IteratorGetNext(iterator=handle, **kept)[0]
        for _ in range(20):
            g.step(following)
    at = v1.placeholder(tf.int64, [])
    pairs = Dataset.zip((squares, Dataset.range(20).batch(2).skip(1)))
    kinds = {"output_types": [tf.int64, tf.int64], "output_shapes": [[], [None]]}
    element = raw.GetElementAtIndex(dataset=pairs._variant_tensor, index=at, **kinds)
    for index in (0, 8, 3):
        g.step(*element, feeds={at: np.int64(index)})
    for index in (-1, 9):
        g.step(*element, feeds={at: np.int64(index)}, fails=True)


@golden("dataset_iterators")
def iterators(g):
    """Handles as strings, one structure for several datasets, optional elements, folds, numbers of elements."""
    small, large = Dataset.range(3), Dataset.range(10, 14)
    shared = v1.data.Iterator.from_structure(tf.int64, [])
    first, second = (shared.make_initializer(d) for d in (small, large))
    following = shared.get_next()
    for start in (first, second):
        g.step(run=start)
        g.step(following)
        g.step(following)
    optional = tf.data.experimental.get_next_as_optional(v1.data.make_one_shot_iterator(small.take(1)))
    present = optional.has_value()
    g.step(present)
    g.step(present)
    g.step(small.reduce(tf.constant(5, tf.int64), lambda s, x: s + 2 * x))
    g.step(tf.data.experimental.get_single_element(small.skip(2)))
    g.step(tf.data.experimental.get_single_element(small), fails=True)
    for d in (small, small.repeat(), small.filter(lambda x: x > 1), small.batch(2), small.concatenate(large).take(6)):
        g.step(tf.data.experimental.cardinality(d))
    cached = v1.data.make_initializable_iterator(small.shuffle(3, seed=1).cache().repeat(2).prefetch(2))
    g.step(run=cached.initializer)
    cached_next = cached.get_next()
    for _ in range(6):
        g.step(cached_next)
    said = small.apply(tf.data.experimental.assert_cardinality(3))
    asserted = v1.data.make_one_shot_iterator(said).get_next()
    for fails in (False, False, False, True):
        g.step(asserted, fails=fails)


@golden("dataset_anonymous")
def anonymous(g):
    """Iterators without a name: inside one step, and named by a string from step to step; a zip of caches."""
    for make in (raw.AnonymousIterator, raw.AnonymousIteratorV2, raw.AnonymousIteratorV3):
        made = make(**KIND)
        handle = getattr(made, "handle", made)
        started = raw.MakeIterator(dataset=numbers(3), iterator=handle)
        with tf.control_dependencies([started]):
            first = raw.IteratorGetNext(iterator=handle, **KIND)[0]
        with tf.control_dependencies([first]):
            second = raw.IteratorGetNext(iterator=handle, **KIND)[0]
        g.step(first)
        g.step(first + 10 * second)
        if hasattr(made, "deleter"):
            with tf.control_dependencies([second]):
                g.step(second, run=raw.DeleteIterator(handle=handle, deleter=made.deleter))
    caches = [Dataset.range(40).shuffle(40, seed=seed).cache() for seed in (1, 2, 3)]
    zipped = Dataset.zip(tuple(caches)).repeat(2).batch(80)
    g.step(tf.stack(v1.data.make_one_shot_iterator(zipped).get_next()))
    copied = Dataset.range(3).apply(tf.data.experimental.copy_to_device("/cpu:0")).repeat(2)
    element = v1.data.make_one_shot_iterator(copied).get_next()
    for _ in range(6):
        g.step(element)
    g.step(element, fails=True)
    g.step(raw.DeviceIndex(device_names=["GPU", "CPU", "TPU"]))
    g.step(raw.DeviceIndex(device_names=["GPU"]))


def function(body):
    """A function of one i64 in the graph's library."""
    made = tf.function(body).get_concrete_function(tf.TensorSpec([], tf.int64))
    made.add_to_graph(v1.get_default_graph())
    return made


KIND = {"output_types": [tf.int64], "output_shapes": [[]]}


def numbers(stop):
    """The dataset of the numbers from 0, as a variant."""
    return raw.RangeDataset(start=i64(0), stop=i64(stop), step=i64(1), **KIND)


def steps(g, dataset, number, get_next=None, shape=()):
    """Takes all elements of a variant."""
    kind = {"output_types": [tf.int64], "output_shapes": [list(shape)]}
    iterator = raw.Iterator(shared_name="", container="", **kind)
    g.step(run=raw.MakeIterator(dataset=dataset, iterator=iterator))
    following = (get_next or raw.IteratorGetNext)(iterator=iterator, **kind)[0]
    for _ in range(number):
        g.step(following)
    g.step(following, fails=True)


@golden("dataset_versions")
def versions(g):
    """The ops of older and newer versions of TensorFlow, which its Python does not make here."""
    double = function(lambda x: x * 2)
    twice = function(lambda x: Dataset.from_tensors(x).repeat(2)._variant_tensor)
    mapped = {"input_dataset": numbers(5), "other_arguments": [], "f": double, **KIND}
    steps(g, raw.ParallelMapDataset(num_parallel_calls=i32(2), **mapped), 5)
    both = raw.MapAndBatchDataset(
        **{**mapped, "output_shapes": [[None]]},
        batch_size=i64(2),
        num_parallel_calls=i64(2),
        drop_remainder=np.bool_(False),
    )
    steps(g, both, 3, shape=[None])
    turns = {**mapped, "f": twice, "cycle_length": i64(2), "block_length": i64(1)}
    steps(g, raw.ParallelInterleaveDatasetV2(num_parallel_calls=i64(2), **turns), 10)
    steps(g, raw.ParallelInterleaveDatasetV3(num_parallel_calls=i64(2), **turns), 10)
    ahead = {"buffer_output_elements": i64(2), "prefetch_input_elements": i64(2)}
    ordered = {**turns, "cycle_length": i64(1), "sloppy": np.bool_(False)}
    steps(g, raw.ParallelInterleaveDataset(**ordered, **ahead), 10)
    ordered = {**turns, "cycle_length": i64(2), "block_length": i64(3), "deterministic": "true"}
    steps(g, raw.LegacyParallelInterleaveDatasetV2(**ordered, **ahead), 10)

    seeded = {"buffer_size": i64(3), "seed": i64(7), "seed2": i64(9), **KIND}
    steps(g, raw.ShuffleDatasetV3(input_dataset=numbers(6), seed_generator=raw.DummySeedGenerator(), **seeded), 6)
    generator = raw.AnonymousSeedGenerator(seed=i64(3), seed2=i64(5), reshuffle=np.bool_(True))[0]
    steps(g, raw.ShuffleDatasetV2(input_dataset=numbers(6), buffer_size=i64(4), seed_generator=generator, **KIND), 6)
    repeated = raw.ShuffleAndRepeatDatasetV2(
        input_dataset=numbers(4), count=i64(2), seed_generator=raw.DummySeedGenerator(), **seeded
    )
    steps(g, repeated, 8)

    cached = raw.CacheDatasetV2(input_dataset=numbers(2), filename="", cache=raw.DummyMemoryCache(), **KIND)
    again = raw.RepeatDataset(input_dataset=cached, count=i64(2), **KIND)
    chain = raw.ModelDataset(input_dataset=again, **KIND)
    chain = raw.OptimizeDataset(input_dataset=chain, optimizations=np.array([], object), **KIND)
    chain = raw.FinalizeDataset(input_dataset=chain, **KIND)
    steps(g, chain, 4, get_next=raw.IteratorGetNextSync)


@golden("dataset_handles")
def handles(g):
    """Iterators that strings name, and the position of one that another one takes over."""
    kind = KIND
    iterator = raw.IteratorV2(shared_name="numbers", container="", **kind)
    g.step(run=raw.MakeIterator(dataset=numbers(9), iterator=iterator))
    text = raw.IteratorToStringHandle(resource_handle=iterator)
    for from_string in (raw.IteratorFromStringHandle, raw.IteratorFromStringHandleV2):
        same = from_string(string_handle=text, **kind)
        g.step(raw.IteratorGetNext(iterator=same, **kind)[0])
    g.step(raw.IteratorGetNext(iterator=iterator, **kind)[0])
    other = raw.IteratorV2(shared_name="more", container="", **kind)
    g.step(run=raw.MakeIterator(dataset=numbers(9), iterator=other))
    position = raw.SerializeIterator(resource_handle=iterator)
    g.step(run=raw.DeserializeIterator(resource_handle=other, serialized=position))
    g.step(raw.IteratorGetNext(iterator=other, **kind)[0])
    g.step(run=raw.MakeIterator(dataset=numbers(2), iterator=raw.IteratorFromStringHandle(string_handle="none")), fails=True)


@golden("dataset_sparse_batches")
def sparse_batches(g):
    """Batches of elements of different shapes as sparse tensors, of given sizes and of the largest ones."""
    lengths = Dataset.range(7).map(lambda i: tf.fill([i % 4, 2], tf.cast(i, tf.float32)))
    sparse = tf.data.experimental.dense_to_sparse_batch
    passes(
        g,
        counted(lengths.apply(sparse(3, [4, 2])), 3),
        counted(lengths.apply(sparse(2, [None, 3])), 4),
        counted(Dataset.range(3).map(tf.as_string).apply(sparse(2, [])), 2),
    )
    iterator = v1.data.make_initializable_iterator(plain(lengths.apply(sparse(7, [4]))))
    g.step(run=iterator.initializer)
    g.step(iterator.get_next().values, fails=True)
