"""Golden graphs: parsers of sequences, of bytes and of compressed strings."""

import gzip
import zlib

import numpy as np

from graphs_record import golden
from graphs_records import feature
from reference import f32, i32, i64, raw, tf, v1


def sequence(context, lists):
    """A serialized SequenceExample: features of the whole, and lists of features of the steps."""
    steps = lambda values: tf.train.FeatureList(feature=[feature(v) if v else tf.train.Feature() for v in values])
    made = tf.train.SequenceExample(
        context=tf.train.Features(feature={k: feature(v) for k, v in context.items()}),
        feature_lists=tf.train.FeatureLists(feature_list={k: steps(v) for k, v in lists.items()}),
    )
    return made.SerializeToString(deterministic=True)


SEQUENCES = [
    sequence(
        {"id": [1], "tags": [b"x", b"yz"], "score": [0.5, 1.5]},
        {"at": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "words": [[b"a"], [b"b", b"c"], []], "n": [[7], [8], [9]]},
    ),
    sequence({"id": [-2], "score": [-1.0, 2.5]}, {"at": [[0.25, -0.5]], "words": [[b"", b"q", b"r"]]}),
    sequence({"id": [1 << 35], "tags": [b"\xff\x00"]}, {"at": [], "words": [], "n": [[-1]]}),
]
BAD = [
    sequence({}, {"at": [[1.0, 2.0]]}),
    sequence({"id": [1]}, {"words": [[b"a"]]}),
    sequence({"id": [1]}, {"at": [[1.0]]}),
    sequence({"id": [1]}, {"at": [[1.0, 2.0], []]}),
    sequence({"id": [1]}, {"at": [[1, 2]]}),
    sequence({"id": [1.5]}, {"at": [[1.0, 2.0]]}),
    sequence({"id": [1]}, {"at": [[1.0, 2.0]], "words": [[1]]}),
    b"\x0a\x05xx",
]
CONTEXT = {
    "id": tf.io.FixedLenFeature([], tf.int64),
    "score": tf.io.FixedLenFeature([2], tf.float32, default_value=[9.0, 8.0]),
    "tags": tf.io.VarLenFeature(tf.string),
}
LISTS = {
    "at": tf.io.FixedLenSequenceFeature([2], tf.float32),
    "n": tf.io.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
    "words": tf.io.VarLenFeature(tf.string),
}
RAGGED = {
    "words": tf.io.RaggedFeature(tf.string),
    "n": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64),
    "absent": tf.io.RaggedFeature(tf.float32),
}


def flat(*parsed):
    """The parts of all tensors of dictionaries, by key."""
    parts = []
    for values in parsed:
        for key in sorted(values):
            value = values[key]
            if isinstance(value, tf.SparseTensor):
                parts += [value.indices, value.values, value.dense_shape]
            elif isinstance(value, tf.RaggedTensor):
                parts += [*value.nested_row_splits, value.flat_values]
            else:
                parts.append(value)
    return parts


@golden("records_sequences")
def sequences(g):
    """Features of sequences and of their steps, dense, sparse and ragged, of batches and single sequences."""
    serialized = v1.placeholder(tf.string, [None], name="serialized")
    one = v1.placeholder(tf.string, [], name="one")
    batch = flat(*tf.io.parse_sequence_example(serialized, CONTEXT, LISTS))
    ragged = flat(*tf.io.parse_sequence_example(serialized, {"tags": tf.io.RaggedFeature(tf.string)}, RAGGED))
    single = flat(*tf.io.parse_single_sequence_example(one, CONTEXT, LISTS))
    lone = flat(*tf.io.parse_single_sequence_example(one, {"tags": tf.io.RaggedFeature(tf.string)}, RAGGED))
    kinds = {
        "debug_name": np.array([], object),
        "context_dense_defaults": [np.array([], i64), np.array([9, 8], f32)],
        "feature_list_dense_missing_assumed_empty": ["n"],
        "context_sparse_keys": ["tags"],
        "context_dense_keys": ["id", "score"],
        "feature_list_sparse_keys": ["words"],
        "feature_list_dense_keys": ["at", "n"],
        "Ncontext_sparse": 1,
        "Ncontext_dense": 2,
        "Nfeature_list_sparse": 1,
        "Nfeature_list_dense": 2,
        "context_sparse_types": [tf.string],
        "feature_list_dense_types": [tf.float32, tf.int64],
        "context_dense_shapes": [[], [2]],
        "feature_list_sparse_types": [tf.string],
        "feature_list_dense_shapes": [[2], []],
    }
    old = tf.nest.flatten(raw.ParseSequenceExample(serialized=serialized, **kinds))
    lone_kinds = ("context_sparse_types", "feature_list_dense_types", "feature_list_sparse_types")
    shapes = ("context_dense_shapes", "feature_list_dense_shapes", "context_dense_defaults")
    old_one = raw.ParseSingleSequenceExample(
        serialized=one,
        debug_name="",
        **{key: kinds[key] for key in (*lone_kinds, *shapes, "feature_list_dense_missing_assumed_empty")},
        **{key: kinds[key] for key in kinds if key.endswith("_keys")},
    )
    old_one = tf.nest.flatten(old_one)
    for fetches in (batch, ragged, old):
        for part in (SEQUENCES, SEQUENCES[1:], SEQUENCES[2:], []):
            # TensorFlow cannot tell the size of dense features from no example.
            if part or fetches is ragged:
                g.step(*fetches, feeds={serialized: np.array(part, object)})
    for text in SEQUENCES:
        for fetches in (single, lone, old_one):
            g.step(*fetches, feeds={one: np.array(text, object)})
    for text in BAD:
        g.step(*batch, feeds={serialized: np.array([SEQUENCES[0], text], object)}, fails=True)
        g.step(*single, feeds={one: np.array(text, object)}, fails=True)
    # The other messages have a part that differs from run to run.
    for text in (*BAD[:3], BAD[-1]):
        g.step(*old_one, feeds={one: np.array(text, object)}, fails=True)


@golden("records_bytes")
def in_bytes(g):
    """Padded bytes as numbers of each dtype and order; strings that gzip and zlib have compressed."""
    strings = v1.placeholder(tf.string, None, name="strings")
    text = [b"", b"a", b"abcdefgh", b"abcdefghijklmnopqrstuvw", bytes(range(16))]
    for dtype in (tf.uint8, tf.int16, tf.uint16, tf.int32, tf.int64, tf.float32, tf.float64, tf.bfloat16):
        for little in (True, False):
            numbers = raw.DecodePaddedRaw(input_bytes=strings, fixed_length=i32(16), out_type=dtype, little_endian=little)
            numbers = tf.bitcast(numbers, {1: tf.uint8, 2: tf.uint16, 4: tf.int32, 8: tf.int64}[dtype.size])
            # TensorFlow reverses bytes behind the end of a string that is shorter.
            part = text if little else text[3:]
            g.step(numbers, feeds={strings: np.array(part, object)})
    length = v1.placeholder(tf.int32, [], name="length")
    numbers = raw.DecodePaddedRaw(input_bytes=strings, fixed_length=length, out_type=tf.int32)
    g.step(numbers, feeds={strings: np.array(text[:4], object).reshape(2, 2), length: 4})
    g.step(numbers, feeds={strings: np.array(text[2], object), length: 12})
    for wrong in (0, -4, 6):
        g.step(numbers, feeds={strings: np.array(text, object), length: wrong}, fails=True)
    long = b"0123456789" * 20_000
    for kind, pack in (("", bytes), ("GZIP", lambda b: gzip.compress(b, mtime=0)), ("ZLIB", zlib.compress)):
        unpacked = raw.DecodeCompressed(bytes=strings, compression_type=kind)
        g.step(unpacked, feeds={strings: np.array([pack(b) for b in text[:4]], object).reshape(2, 2)})
        if kind:
            g.step(raw.StringLength(input=unpacked), feeds={strings: np.array(pack(long), object)})
