#!/usr/bin/env python3
"""Input that graphs bring: readers and queues of TensorFlow 1, and tf.data, in TensorFlow and on a server.

The server may use the files of a folder, in which the files are made. Each program runs in TensorFlow itself and on the
server, and must give the same values.
"""

import pathlib
import sys

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()
v1.logging.set_verbosity("ERROR")
PROGRAMS = {}


def program(build):
    """Registers a program: a function of the folder that returns what to fetch, and how often."""
    PROGRAMS[build.__name__] = build
    return build


def write_files(folder):
    """Files of each kind."""
    random = np.random.default_rng(7)
    for shard in range(2):
        with tf.io.TFRecordWriter(f"{folder}/records-{shard}") as writer:
            for row in range(5):
                number = 5 * shard + row
                feature = {
                    "id": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
                    "x": tf.train.Feature(float_list=tf.train.FloatList(value=random.random(3).tolist())),
                    "words": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"w%d" % i for i in range(row)])),
                    "many": tf.train.Feature(int64_list=tf.train.Int64List(value=range(row))),
                }
                if number % 3:
                    feature["maybe"] = tf.train.Feature(float_list=tf.train.FloatList(value=[number / 2]))
                example = tf.train.Example(features=tf.train.Features(feature=feature))
                writer.write(example.SerializeToString())
    options = tf.io.TFRecordOptions(compression_type="GZIP")
    with tf.io.TFRecordWriter(f"{folder}/packed", options) as writer:
        for number in range(4):
            writer.write(b"record %d" % number)
    pathlib.Path(f"{folder}/table.csv").write_bytes(b'a,b,c\r\n1,2.5,x\n3,,"y, ""z"""\n,4.25,\n')
    # CIFAR-10's form: a label, and 3 x 32 x 32 bytes.
    pathlib.Path(f"{folder}/cifar.bin").write_bytes(random.integers(0, 256, 6 * 3073, np.uint8).tobytes())
    pathlib.Path(f"{folder}/words").write_bytes(b"the\r\nquick\nfox")
    pathlib.Path(f"{folder}/new_words").write_bytes(b"a\nfox\ndog\nthe\n")
    pathlib.Path(f"{folder}/pairs.tsv").write_bytes(b"12\ta\t0.5\n7\tb\t-2\n3\tc\t1e3\nmore\n")
    pathlib.Path(f"{folder}/counts.csv").write_bytes(b"a,10\nb,2\nc,0.5\nd,7\n")
    with tf.Graph().as_default(), v1.Session() as session:
        matrix = v1.get_variable("matrix", initializer=np.arange(12, dtype=np.float32).reshape(3, 4))
        session.run(matrix.initializer)
        v1.train.Saver().save(session, f"{folder}/model", write_meta_graph=False, write_state=False)
    pathlib.Path(f"{folder}/framed").write_bytes(b"HEAD" + bytes(range(30)) + b"F")


def names(folder, *files):
    """A queue of file names, once through."""
    return v1.train.string_input_producer([f"{folder}/{f}" for f in files], num_epochs=1, shuffle=False)


@program
def cifar_reader(folder):
    """The input of TensorFlow's CIFAR-10 tutorial, without its random part."""
    reader = v1.FixedLengthRecordReader(record_bytes=1 + 3 * 32 * 32)
    key, value = reader.read(names(folder, "cifar.bin"))
    record = v1.decode_raw(value, tf.uint8)
    label = tf.cast(tf.strided_slice(record, [0], [1]), tf.int32)
    depth_major = tf.reshape(tf.strided_slice(record, [1], [3073]), [3, 32, 32])
    image = tf.cast(tf.transpose(depth_major, [1, 2, 0]), tf.float32)
    image = tf.image.per_image_standardization(image[4:28, 4:28])
    label.set_shape([1])
    image.set_shape([24, 24, 3])
    images, labels, keys = v1.train.batch([image, label, key], batch_size=2, capacity=8, num_threads=1)
    return [images, tf.reshape(labels, [2]), keys], 3


@program
def record_reader(folder):
    """Records through a reader, parsed one by one, then batched by a queue."""
    reader = v1.TFRecordReader()
    key, value = reader.read(names(folder, "records-0", "records-1"))
    parsed = tf.io.parse_single_example(
        value,
        {
            "id": tf.io.FixedLenFeature([], tf.int64),
            "x": tf.io.FixedLenFeature([3], tf.float32),
            "maybe": tf.io.FixedLenFeature([], tf.float32, default_value=-1.0),
        },
    )
    batch = v1.train.batch([key, parsed["id"], parsed["x"], parsed["maybe"]], batch_size=3, allow_smaller_final_batch=True)
    return batch, 4


@program
def packed_reader(folder):
    """Records of a compressed file, several at a time."""
    reader = v1.TFRecordReader(options=tf.io.TFRecordOptions(compression_type="GZIP"))
    keys, values = reader.read_up_to(names(folder, "packed", "packed"), 3)
    return [keys, values], 4


@program
def csv_reader(folder):
    """Lines with a header, as columns with default values."""
    reader = v1.TextLineReader(skip_header_lines=1)
    key, line = reader.read(names(folder, "table.csv"))
    return [key, line, *tf.io.decode_csv(line, [[-1], [0.5], [b"none"]])], 3


@program
def fixed_reader(folder):
    """Records between a header and a footer, with gaps; whole files; names."""
    reader = v1.FixedLengthRecordReader(record_bytes=4, header_bytes=4, footer_bytes=1, hop_bytes=7)
    fixed = reader.read(names(folder, "framed", "framed"))
    whole = v1.WholeFileReader().read(names(folder, *["framed"] * 9))
    own = v1.IdentityReader().read(names(folder, *"abcdefghi"))
    return [*fixed, *whole, own[0], own[1]], 8


@program
def record_dataset(folder):
    """tf.data over records: shuffled, parsed as batches of sparse, dense and ragged features."""
    files = tf.data.Dataset.from_tensor_slices([f"{folder}/records-0", f"{folder}/records-1"])
    records = files.interleave(tf.data.TFRecordDataset, cycle_length=2, block_length=2)
    features = {
        "id": tf.io.FixedLenFeature([], tf.int64),
        "x": tf.io.FixedLenFeature([3], tf.float32),
        "many": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True, default_value=-7),
        "words": tf.io.VarLenFeature(tf.string),
        "maybe": tf.io.RaggedFeature(tf.float32),
    }
    batches = records.shuffle(4, seed=3).batch(4).map(lambda batch: tf.io.parse_example(batch, features))
    parsed = v1.data.make_one_shot_iterator(batches.prefetch(1)).get_next()
    words, maybe = parsed["words"], parsed["maybe"]
    sparse = [words.indices, words.values, words.dense_shape]
    return [parsed["id"], parsed["x"], parsed["many"], *sparse, maybe.values, maybe.row_splits], 3


@program
def file_datasets(folder):
    """Lines, records of one length, names that match a pattern, whole files."""
    lines = tf.data.TextLineDataset(f"{folder}/table.csv").skip(1)
    fixed = tf.data.FixedLengthRecordDataset(f"{folder}/framed", 6, header_bytes=4, footer_bytes=1)
    packed = tf.data.TFRecordDataset(f"{folder}/packed", compression_type="GZIP")
    found = tf.data.Dataset.list_files(f"{folder}/rec*-[01]", shuffle=False)
    both = tf.data.Dataset.zip((lines, fixed, packed, found.repeat()))
    return list(v1.data.make_one_shot_iterator(both).get_next()), 3


@program
def csv_datasets(folder):
    """Records of a CSV file with a header, by selected columns, by all but some, and as batches of named columns."""
    table = f"{folder}/table.csv"
    kinds = [[-1], [0.5], [""]]
    all_of = tf.data.experimental.CsvDataset(table, kinds, header=True)
    some = tf.data.experimental.CsvDataset(table, kinds[::2], header=True, select_cols=[0, 2])
    but = v1.data.experimental.CsvDataset(table, kinds[1:], header=True, select_cols=[1, 2])
    excluded = tf.data.experimental.CsvDataset(table, kinds[1:2], header=True, exclude_cols=[0, 2])
    batches = v1.data.experimental.make_csv_dataset(
        [table, table], 2, column_defaults=kinds, num_epochs=1, shuffle=False, label_name="b"
    )
    both = tf.data.Dataset.zip((all_of, some, but, excluded, batches))
    return tf.nest.flatten(v1.data.make_one_shot_iterator(both).get_next()), 3


@program
def whole_files(folder):
    """Names that match patterns, and the contents of a file."""
    found = v1.matching_files([f"{folder}/rec*", f"{folder}/table.c?v", f"{folder}/none*"])
    return [found, tf.io.read_file(f"{folder}/table.csv")], 2


@program
def vocabulary_files(folder):
    """Lookup tables that text files fill, of TensorFlow 1's feature columns and by columns of a file."""

    def from_columns(key, value, default):
        initializer = tf.lookup.TextFileInitializer(f"{folder}/pairs.tsv", *key, *value, vocab_size=3)
        return tf.lookup.StaticHashTable(initializer, default)

    words = tf.constant(["fox", "the", "dog", "quick"])
    ids = tf.lookup.StaticVocabularyTable(
        tf.lookup.TextFileInitializer(f"{folder}/words", tf.string, -2, tf.int64, -1), num_oov_buckets=3
    )
    back = tf.lookup.StaticHashTable(
        tf.lookup.TextFileInitializer(f"{folder}/words", tf.int64, -1, tf.string, -2), "unknown"
    )
    weights = from_columns((tf.int64, 0), (tf.float32, 2), -1.0)
    names = from_columns((tf.string, 1), (tf.int64, 0), -1)
    column = tf.feature_column.categorical_column_with_vocabulary_file("word", f"{folder}/words", num_oov_buckets=1)
    one_hot = v1.feature_column.input_layer({"word": words}, [tf.feature_column.indicator_column(column)])
    found = ids.lookup(words)
    numbers = tf.constant([12, 7, -1], tf.int64)
    fetched = [found, back.lookup(found), weights.lookup(numbers), names.lookup(tf.constant(["b", "x"])), one_hot]
    return [*fetched, ids.size(), weights.size()], 2


@program
def sampler_file(folder):
    """Candidate classes by the counts in a file."""
    labels = tf.constant([[1], [3]], tf.int64)
    drawn = tf.random.fixed_unigram_candidate_sampler(
        labels, 1, 3, True, 4, vocab_file=f"{folder}/counts.csv", distortion=0.75, seed=3
    )
    return list(drawn), 3


@program
def warm_start(folder):
    """A matrix of a checkpoint for another vocabulary, as warm starts load it."""
    remapping, present = tf.raw_ops.GenerateVocabRemapping(
        new_vocab_file=f"{folder}/new_words", old_vocab_file=f"{folder}/words", new_vocab_offset=1, num_new_vocab=3
    )
    old = tf.raw_ops.LoadAndRemapMatrix
    shared = {"ckpt_path": f"{folder}/model", "old_tensor_name": "matrix", "row_remapping": remapping, "num_rows": 3}
    initial = v1.random_uniform([6], seed=4)
    whole = old(col_remapping=tf.zeros([0], tf.int64), initializing_values=initial[:4], num_cols=4, **shared)
    columns = old(
        col_remapping=tf.constant([3, -1, 0], tf.int64),
        initializing_values=initial[:5],
        num_cols=3,
        max_rows_in_memory=1,
        **shared,
    )
    return [remapping, present, whole, columns], 1


def run(build, folder, target):
    """The values of all fetches, and the error at the end."""
    graph = tf.Graph()
    # Queues and readers of one name are one object on a server, for all sessions.
    with graph.as_default(), graph.container(build.__name__.replace("_", "-")):
        fetches, times = build(folder)
        init = [v1.local_variables_initializer(), v1.tables_initializer()]
        results = []
        with v1.Session(target) as session:
            session.run(init)
            coordinator = v1.train.Coordinator()
            threads = v1.train.start_queue_runners(session, coordinator)
            try:
                for _ in range(times):
                    results.append(session.run(fetches))
            except tf.errors.OutOfRangeError:
                # The error that has ended a queue's thread says more.
                coordinator.request_stop()
                coordinator.join(threads, stop_grace_period_secs=30)
                raise
            try:
                session.run(fetches)
                end = "more" if build.__name__ != "whole_files" else "as before"
            except tf.errors.OutOfRangeError:
                end = "OutOfRange"
            coordinator.request_stop()
            coordinator.join(threads, stop_grace_period_secs=30, ignore_live_threads=False)
    return results, end


def main(target, folder):
    """Compares all programs; exits with an error if one differs."""
    write_files(folder)
    failed = 0
    for name, build in PROGRAMS.items():
        expected, end = run(build, folder, "")
        try:
            found, found_end = run(build, folder, target)
        except tf.errors.OpError as error:
            print(f"{name}: {type(error).__name__}: {error.message}")
            failed += 1
            continue
        same = end == found_end
        for step, (left, right) in enumerate(zip(expected, found)):
            for i, (a, b) in enumerate(zip(left, right)):
                if np.shape(a) != np.shape(b) or not np.all(np.equal(a, b)):
                    print(f"{name}: step {step}, fetch {i}: {b!r} in place of {a!r}")
                    same = False
        print(f"{name}: {'equal' if same else 'different'}, ends with {found_end} ({end})")
        failed += not same
    sys.exit(failed > 0)


main(*sys.argv[1:])
