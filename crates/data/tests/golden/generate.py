"""Writes the golden files of thalweg-data. Needs tensorflow-cpu. `lmdb_files.py` writes those of LMDB.

    python crates/data/tests/golden/generate.py
"""

import os
import struct

import numpy as np
import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))


def feature(values):
    if isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def features(**values):
    return tf.train.Features(feature={k: feature(v) for k, v in values.items()})


def examples():
    """An Example, a SequenceExample, and an Example whose lists are not packed."""
    example = tf.train.Example(
        features=features(
            image=[b"\xff\xd8\x00", b""],
            label=[0, 1, -1, 2**63 - 1, -(2**63), 300],
            box=[0.5, -1.5, 3.0e38],
        )
    )
    example.features.feature["unset"].Clear()
    steps = [feature([1, 2]), tf.train.Feature(), feature([3])]
    sequence = tf.train.SequenceExample(
        context=features(length=[3]),
        feature_lists=tf.train.FeatureLists(
            feature_list={"words": tf.train.FeatureList(feature=steps)}
        ),
    )
    # Messages of proto2 writers, as protobuf's parsers accept them: one field for each value.
    floats = b"".join(b"\x0d" + struct.pack("<f", v) for v in [1.0, 2.0])
    ints = b"\x08\x05\x08\xac\x02"
    unpacked = b"".join(
        b"\x0a" + bytes([len(e)]) + e
        for e in [
            b"\x0a\x01f\x12" + bytes([len(floats) + 2, 0x12, len(floats)]) + floats,
            b"\x0a\x01i\x12" + bytes([len(ints) + 2, 0x1A, len(ints)]) + ints,
        ]
    )
    unpacked = b"\x0a" + bytes([len(unpacked)]) + unpacked
    parsed = tf.train.Example.FromString(unpacked).features.feature
    assert list(parsed["f"].float_list.value) == [1.0, 2.0]
    assert list(parsed["i"].int64_list.value) == [5, 300]
    return [example.SerializeToString(deterministic=True), sequence.SerializeToString(), unpacked]


def write_records(name, records, compression):
    with tf.io.TFRecordWriter(os.path.join(HERE, name), compression) as writer:
        for record in records:
            writer.write(record)


def interleave(cycle, block, lengths):
    """The order of tf.data's interleave of pipelines of these lengths."""
    inner = lambda n: tf.data.Dataset.range(10 * n, 11 * n)
    outer = tf.data.Dataset.from_tensor_slices(tf.constant(lengths, tf.int64))
    return [int(n) for n in outer.interleave(inner, cycle, block)]


def write_interleaves():
    cases = [(c, b, n) for c in (1, 2, 3, 5) for b in (1, 2, 3) for n in ([3, 1, 0, 4, 2], [2, 5, 1])]
    lines = ["/// Written by `generate.py`: cycle, block, lengths, order."]
    lines.append("type Case = (usize, u64, &'static [u64], &'static [u64]);")
    lines.append("#[rustfmt::skip]")
    lines.append("const INTERLEAVES: &[Case] = &[")
    lines += [f"    ({c}, {b}, &{n}, &{interleave(c, b, n)})," for c, b, n in cases]
    with open(os.path.join(HERE, "interleaves.rs"), "w") as file:
        file.write("\n".join(lines + ["];", ""]))


if __name__ == "__main__":
    write_interleaves()
    array = np.arange(6, dtype=np.float32).reshape(3, 2) * 1.5
    np.save(os.path.join(HERE, "array.npy"), array)
    np.savez_compressed(os.path.join(HERE, "arrays.npz"), x=array, y=np.array([7, 8, 9]))
    write_records("examples.tfrecord", examples(), "")
    write_records("gzip.tfrecord", [b"abc", b"", b"x" * 1000], "GZIP")
    write_records("zlib.tfrecord", [b"abc", b"", b"x" * 1000], "ZLIB")
