"""Golden graphs: groups of elements, elements that are chosen or drawn, and TensorFlow's names of experiments."""

import numpy as np

from graphs_datasets import KIND, Dataset, counted, function, numbers, passes, steps
from graphs_record import golden
from reference import f32, i32, i64, raw, tf, v1


@golden("dataset_groups")
def groups(g):
    """Groups by window and by reducer, unique elements, elements without errors, selected and drawn ones."""
    r = Dataset.range(10)
    window = lambda size: r.apply(
        tf.data.experimental.group_by_window(
            key_func=lambda x: x % 3, reduce_func=lambda key, d: d.batch(4).map(lambda b: b + key * 100), window_size=size
        )
    )
    by_key = tf.data.experimental.group_by_window(
        key_func=lambda x: x % 2, reduce_func=lambda key, d: d.take(2), window_size_func=lambda key: key + 2
    )
    reducer = tf.data.experimental.Reducer(
        init_func=lambda key: (key * 1000, np.int64(0)),
        reduce_func=lambda state, x: (state[0] + x, state[1] + 1),
        finalize_func=lambda total, n: (total, n),
    )
    reduced = r.apply(tf.data.experimental.group_by_reducer(lambda x: x % 4, reducer))
    words = Dataset.from_tensor_slices(np.array([b"a", b"b", b"a", b"", b"b", b"c"], object))
    whole = Dataset.from_tensor_slices(np.array([1, 2, 1, 5, 2], i32))
    failing = Dataset.from_tensor_slices(np.array([1, 0, 2, 0, 4], f32)).map(
        lambda x: tf.debugging.check_numerics(1.0 / x, "wrong")
    )
    choices = Dataset.from_tensor_slices(np.array([0, 1, 1, 0, 2, 1, 0, 0], i64))
    parts = [Dataset.range(i * 100, i * 100 + 2) for i in range(3)]
    chosen = lambda stops: v1.data.Dataset.choose_from_datasets(parts, choices, stop_on_empty_dataset=stops)
    passes(
        g,
        counted(window(3), 4),
        counted(window(100), 3),
        counted(r.apply(by_key), 9),
        counted(reduced, 4),
        counted(words.unique(), 4),
        counted(whole.unique(), 3),
        counted(failing.ignore_errors(), 3),
        counted(chosen(False), 5),
        counted(chosen(True), 5),
        counted(v1.data.Dataset.random(seed=5).take(6), 6),
    )


@golden("dataset_experiments")
def experiments(g):
    """The names that TensorFlow gave its experiments, and the ops that its Python no longer makes."""
    pairs = raw.BatchDatasetV2(
        input_dataset=numbers(7), batch_size=i64(4), drop_remainder=np.bool_(False), output_types=[tf.int64], output_shapes=[[None]]
    )
    batched = {"output_types": [tf.int64], "output_shapes": [[None]]}
    one = {"input_dataset": numbers(4), **KIND}
    window = {"input_dataset": numbers(8), "window_size": i64(3), "window_shift": i64(2), "window_stride": i64(2), **batched}
    steps(g, raw.SlidingWindowDataset(**window), 2, shape=[None])
    steps(g, raw.ExperimentalSlidingWindowDataset(**window), 2, shape=[None])
    steps(g, raw.SlidingWindowDataset(**window, drop_remainder=False), 4, shape=[None])
    sampled = raw.SamplingDataset(input_dataset=numbers(30), rate=f32(0.3), seed=i64(3), seed2=i64(8), **KIND)
    steps(g, sampled, COUNT)
    random = raw.RandomDataset(seed=i64(3), seed2=i64(8), **KIND)
    steps(g, raw.TakeDataset(input_dataset=random, count=i64(3), **KIND), 3)
    steps(g, raw.ExperimentalMaxIntraOpParallelismDataset(max_intra_op_parallelism=i64(1), **one), 4)
    steps(g, raw.MaxIntraOpParallelismDataset(max_intra_op_parallelism=i64(1), **one), 4)
    steps(g, raw.ExperimentalPrivateThreadPoolDataset(num_threads=i64(1), **one), 4)
    steps(g, raw.PrivateThreadPoolDataset(num_threads=i64(1), **one), 4)
    steps(g, raw.ExperimentalNonSerializableDataset(**one), 4)
    steps(g, raw.NonSerializableDataset(**one), 4)
    steps(g, raw.ExperimentalLatencyStatsDataset(tag="tag", **one), 4)
    steps(g, raw.LatencyStatsDataset(tag="tag", **one), 4)
    steps(g, raw.ExperimentalBytesProducedStatsDataset(tag="tag", **one), 4)
    steps(g, raw.BytesProducedStatsDataset(tag="tag", **one), 4)
    steps(g, raw.ExperimentalSleepDataset(sleep_microseconds=i64(10), **one), 4)
    steps(g, raw.SleepDataset(sleep_microseconds=i64(10), **one), 4)
    steps(g, raw.ExperimentalUniqueDataset(**one), 4)
    steps(g, raw.ExperimentalIgnoreErrorsDataset(**one), 4)
    steps(g, raw.ExperimentalUnbatchDataset(input_dataset=pairs, **KIND), 7)
    nothing = np.array([], object)
    steps(g, raw.AssertNextDataset(transformations=nothing, **one), 4)
    steps(g, raw.ExperimentalAssertNextDataset(transformations=nothing, **one), 4)
    double = function(lambda x: x * 2)
    below = function(lambda number: number < 2)
    steps(g, raw.ExperimentalTakeWhileDataset(other_arguments=[], predicate=below, **one), 2)
    mapped = raw.ExperimentalMapAndBatchDataset(
        input_dataset=numbers(5),
        other_arguments=[],
        batch_size=i64(2),
        num_parallel_calls=i64(1),
        drop_remainder=np.bool_(True),
        f=double,
        **batched,
    )
    steps(g, mapped, 2, shape=[None])
    twice = function(lambda x: Dataset.from_tensors(x).repeat(2)._variant_tensor)
    turns = raw.ExperimentalParallelInterleaveDataset(
        other_arguments=[],
        cycle_length=i64(1),
        block_length=i64(1),
        sloppy=np.bool_(False),
        buffer_output_elements=i64(1),
        prefetch_input_elements=i64(0),
        f=twice,
        **one,
    )
    steps(g, turns, 8)
    selected = raw.ExperimentalDirectedInterleaveDataset(
        selector_input_dataset=numbers(2), data_input_datasets=[numbers(3), numbers(4)], **KIND
    )
    steps(g, selected, 2)
    g.step(raw.ExperimentalDatasetCardinality(input_dataset=numbers(5)))


COUNT = 10
