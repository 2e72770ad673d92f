"""Golden graphs: summaries, strings, checks that fail, a Saver that is never run, and many ops on arrays."""

import numpy as np

from graphs_parts import KINDS, Layers, floats, variable
from graphs_record import golden
from reference import f32, i32, raw, tf, v1


@golden("summaries")
def summaries(g):
    """Serialized summaries: scalars, histograms, and several merged."""
    x = v1.placeholder(tf.float32, [None], name="x")
    weight = variable("weight", [3], "ref")
    v1.summary.scalar("loss", tf.reduce_sum(x))
    v1.summary.scalar("double", tf.reduce_mean(tf.cast(x, tf.float64)))
    v1.summary.histogram("weight", weight)
    histogram = v1.summary.histogram("values", x)
    counts = raw.HistogramSummary(tag="counts", values=tf.cast(x * 10.0, tf.int64))
    several = raw.ScalarSummary(tags=["a", "b"], values=tf.stack([x[0], x[1]]))
    merged = v1.summary.merge_all()
    everything = v1.summary.merge([merged, counts, several])
    g.init_variables()
    for values in ([1, 2, 3.5], [-1e-3, 0, 0, 7e8], floats("histogram", [40])):
        g.step(merged, histogram, feeds={x: np.array(values, f32)})
        g.step(everything, feeds={x: np.array(values, f32)})
    g.step(histogram, feeds={x: np.array([1, np.nan], f32)}, fails=True)
    g.step(merged, feeds={x: np.array([np.inf, 1], f32)}, fails=True)
    g.step(raw.MergeSummary(inputs=[several, several]), feeds={x: np.array([1, 2], f32)}, fails=True)


@golden("strings")
def strings(g):
    """Strings joined, printed from numbers, hashed, reduced, compared, gathered, taken apart."""
    text = v1.placeholder(tf.string, [2, 3], name="text")
    x = v1.placeholder(tf.float32, [4], name="x")
    n = v1.placeholder(tf.int32, [3], name="n")
    tensors = [
        tf.strings.join([text, tf.constant("end")], separator="-"),
        v1.reduce_join(text, 1, separator=","),
        v1.reduce_join(text, [0, 1]),
        v1.reduce_join(text, 0, keep_dims=True, separator=" "),
        tf.strings.as_string(x),
        tf.strings.as_string(x, precision=3),
        tf.strings.as_string(x, precision=2, scientific=True),
        tf.strings.as_string(x, shortest=True),
        tf.strings.as_string(x, precision=1, width=8, fill="0"),
        tf.strings.as_string(n),
        tf.strings.as_string(n, width=5, fill=" "),
        tf.strings.as_string(tf.cast(n, tf.int64)),
        tf.strings.as_string(n > 0),
        tf.strings.as_string(tf.cast(x, tf.float64), precision=12),
        tf.strings.to_hash_bucket_fast(text, 1000),
        tf.strings.to_hash_bucket_fast(text, 2**40 + 15),
        v1.string_to_hash_bucket(text, 77),
        tf.equal(text, "abc"),
        tf.strings.length(text),
        v1.string_to_number(["1.5", "-2e3", "  7 "]),
        v1.string_to_number(["12", "-9"], tf.int64),
        tf.transpose(text),
        tf.reshape(text, [3, 2])[1:],
        tf.concat([text, text], 0),
        tf.gather(text, [1, 0]),
        tf.where(tf.equal(text, "abc"), text, tf.fill([2, 3], "no")),
    ]
    words = [[b"abc", b"", b"a longer one, of more than sixteen bytes"], [b"\xc3\xa9\x00", b"one", b"abc"]]
    long = [[b"x" * 33, b"y" * 64, b"z" * 65], [b"w" * 130, b"12345678", b"123456789abcdefg"]]
    feeds = {x: np.array([1.5, -0.1, 1e10, np.nan], f32), n: np.array([0, -12, 2**31 - 1], i32)}
    part = tf.strings.substr(text, 1, 2)
    for fed in (words, long):
        g.step(*tensors, feeds=feeds | {text: np.array(fed, object)})
        # It may not begin behind the end.
        g.step(part, feeds={text: np.array(fed, object)}, fails=fed is words)


@golden("checks")
def checks(g):
    """Assert, CheckNumerics, Print: they pass on their input, or end the step."""
    x = v1.placeholder(tf.float32, [None], name="x")
    n = v1.placeholder(tf.int32, [], name="n")
    count = variable("count", [], "resource", v1.zeros_initializer())
    asserted = v1.Assert(n > 0, ["n is", n, "x is", x], summarize=2)
    with tf.control_dependencies([asserted]):
        kept = tf.identity(x)
        counted = count.assign_add(1.0)
    checked = tf.debugging.check_numerics(x, "bad x")
    printed = v1.Print(x, [n, x], "printed: ", summarize=3)
    equal = v1.assert_equal(tf.size(x), n, message="sizes differ")
    positive = v1.assert_positive(x)
    with tf.control_dependencies([equal, positive, tf.print("told", x, n)]):
        safe = x * 2.0
    g.init_variables()
    good = {x: np.array([1, 2, 3], f32), n: i32(3)}
    g.step(kept, checked, printed, safe, feeds=good)
    g.step(feeds=good, run=counted)
    g.step(kept, feeds=good | {n: i32(0)}, fails=True)
    g.step(feeds=good | {n: i32(-5)}, run=counted, fails=True)
    g.step(count)
    g.step(checked, feeds=good | {x: np.array([1, np.nan], f32)}, fails=True)
    g.step(checked, feeds=good | {x: np.array([np.inf, 1], f32)}, fails=True)
    g.step(checked, feeds=good | {x: np.array([-np.inf, np.nan], f32)}, fails=True)
    g.step(safe, feeds=good | {n: i32(2)}, fails=True)
    g.step(safe, feeds={x: np.array([1, -1], f32), n: i32(2)}, fails=True)
    g.step(tf.constant([1, 2]) // n, feeds={n: i32(0)}, fails=True)
    g.step(tf.gather(x, n), feeds=good, fails=True)
    g.step(tf.reshape(x, [2, 2]), feeds=good, fails=True)


def saver(g, kind):
    """The part of a graph that saves and restores stands in nearly every file; here it is never run."""
    x = v1.placeholder(tf.float32, [None, 4], name="x")
    y = Layers(kind).dense("layer", x, 2, tf.nn.relu)
    extra = variable("counter", [], kind, v1.zeros_initializer(), tf.int64, trainable=False)
    v1.train.Saver(max_to_keep=2)
    v1.train.Saver([extra], sharded=True, name="sharded")
    g.init_variables()
    g.step(y, extra, feeds={x: floats("saved", [3, 4])})


for _kind in KINDS:
    golden(f"saver_{_kind}", kind=_kind)(saver)
