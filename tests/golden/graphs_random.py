"""Golden graphs: seeded random ops, two runs of each, and the initializers that are made of them."""

import numpy as np

from graphs_parts import KINDS, floats, variable
from graphs_record import golden
from reference import i32, i64, raw, tf, v1

FLOATS = (tf.float32, tf.float64)


def twice(g, tensors, feeds=None):
    """Two steps: the second continues where the first ended."""
    for _ in range(2):
        g.step(*tensors, feeds=feeds)


@golden("random_seeded")
def seeded(g):
    """The random ops that count for themselves, of each type, from seeds of the graph and of the op."""
    tensors = []
    for dtype in FLOATS:
        tensors += [
            v1.random_uniform([7], -1, 3, dtype, seed=1),
            v1.random_normal([2, 5], 1.0, 2.0, dtype, seed=2),
            v1.truncated_normal([9], 0.0, 0.5, dtype, seed=3),
        ]
    for dtype in (tf.int32, tf.int64):
        tensors += [
            v1.random_uniform([11], -5, 1000, dtype, seed=4),
            v1.random_uniform([3], dtype.min, dtype.max, dtype, seed=5),
        ]
    tensors += [
        # Without a seed of its own an op takes the number of its node.
        v1.random_uniform([3]),
        raw.RandomUniform(shape=[3], dtype=tf.float32, seed=0, seed2=9),
        raw.RandomUniform(shape=[3], dtype=tf.float32, seed=2**40 + 1, seed2=-7),
        v1.random_uniform([0, 3], seed=6),
        v1.random_uniform([], seed=6),
        # More than one group of numbers for a thread.
        v1.random_normal([40, 41], seed=8)[-1, -5:],
        v1.truncated_normal([40, 41], seed=8)[-1, -5:],
        v1.random_uniform([40, 41], seed=8, dtype=tf.float64)[-1, -5:],
        v1.random_uniform([3000], 0, 100, tf.int64, seed=8)[-5:],
    ]
    twice(g, tensors)


@golden("random_half", rel=2e-3, absolute=2e-3)
def half(g):
    """In f16, where the last bit depends on how the sines and logarithms are rounded."""
    seed = v1.placeholder(tf.int32, [2], name="seed")
    tensors = [
        v1.random_uniform([7], -1, 3, tf.float16, seed=1),
        v1.random_normal([2, 5], 1.0, 2.0, tf.float16, seed=2),
        v1.truncated_normal([9], 0.0, 0.5, tf.float16, seed=3),
        tf.random.stateless_uniform([5], seed, -1, 1, tf.float16),
        tf.random.stateless_normal([2, 3], seed, 1, 2, tf.float16),
        tf.random.stateless_truncated_normal([5], seed, 0, 1, tf.float16),
    ]
    twice(g, tensors, {seed: np.array([3, 4], i32)})


@golden("random_sized")
def sized(g):
    """Sizes that are fed: how far a run moves an op on depends on how much it drew."""
    size = v1.placeholder(tf.int32, [None], name="size")
    tensors = [
        v1.random_uniform(size, seed=1),
        v1.random_normal(size, seed=2),
        v1.truncated_normal(size, seed=3),
        v1.random_uniform(size, 0, 10, tf.int32, seed=4),
        v1.random_uniform(tf.cast(size, tf.int64), seed=5, dtype=tf.float64),
    ]
    for dims in ([2], [3, 3], [0], [1], [2, 1, 2]):
        g.step(*tensors, feeds={size: np.array(dims, i32)})


@golden("random_choice")
def choice(g):
    """Shuffles, draws from a multinomial, dropout, crops."""
    x = v1.placeholder(tf.float32, [3, 4], name="x")
    image = tf.reshape(tf.range(48), [6, 8])
    tensors = [
        v1.random_shuffle(tf.range(10), seed=1),
        v1.random_shuffle(tf.reshape(tf.range(12.0), [6, 2]), seed=2),
        v1.random_shuffle(tf.constant([b"a", b"b", b"c", b"d"]), seed=3),
        v1.multinomial(x, 8, seed=4),
        v1.multinomial(tf.cast(x, tf.float64) * 3.0, 5, seed=5, output_dtype=tf.int32),
        tf.nn.dropout(x, rate=0.4, seed=6),
        v1.nn.dropout(x, keep_prob=0.7, noise_shape=[3, 1], seed=7),
        v1.random_crop(image, [2, 5], seed=9),
    ]
    twice(g, tensors, {x: floats("logits", [3, 4], -2, 2)})


@golden("random_stateless")
def stateless(g):
    """Stateless random ops: the first versions, and those that take a key and a counter."""
    seed = v1.placeholder(tf.int32, [2], name="seed")
    tensors = []
    for dtype in FLOATS:
        tensors += [
            tf.random.stateless_uniform([5], seed, -1, 1, dtype),
            tf.random.stateless_normal([2, 3], seed, 1, 2, dtype),
            tf.random.stateless_truncated_normal([5], seed, 0, 1, dtype),
            raw.StatelessRandomUniform(shape=[5], seed=seed, dtype=dtype),
            raw.StatelessRandomNormal(shape=[5], seed=seed, dtype=dtype),
            raw.StatelessTruncatedNormal(shape=[5], seed=seed, dtype=dtype),
        ]
    for dtype in (tf.int32, tf.int64, tf.uint32, tf.uint64):
        tensors.append(tf.random.stateless_uniform([6], seed, None, None, dtype))
    for dtype in (tf.int32, tf.int64):
        low, high = tf.constant(-3, dtype), tf.constant(500, dtype)
        tensors.append(tf.random.stateless_uniform([6], seed, -3, 500, dtype))
        tensors.append(raw.StatelessRandomUniformInt(shape=[6], seed=seed, minval=low, maxval=high))
    key, counter = raw.StatelessRandomGetKeyCounter(seed=seed)
    tensors += [
        key,
        counter,
        raw.StatelessRandomGetAlg(),
        raw.StatelessRandomUniformV2(shape=[5], key=key, counter=counter, alg=1),
        tf.random.stateless_categorical(tf.math.log([[0.2, 0.3, 0.5]]), 7, seed),
        tf.random.stateless_uniform([40, 41], seed)[-1, -5:],
        tf.random.stateless_normal([40, 41], seed)[-1, -5:],
        tf.random.stateless_truncated_normal([40, 41], seed)[-1, -5:],
    ]
    wide = v1.placeholder(tf.int64, [2], name="wide")
    tensors.append(tf.random.stateless_uniform([4], wide))
    for pair, long in (([0, 0], [0, 0]), ([1, 2], [2**40, -1]), ([-7, 2**31 - 1], [-(2**63), 2**63 - 1])):
        g.step(*tensors, feeds={seed: np.array(pair, i32), wide: np.array(long, i64)})
    twice(g, tensors[:3], {seed: np.array([5, 5], i32)})


def initializers(g, kind):
    """Initial values of variables."""
    init = v1.initializers
    made = {
        "uniform": init.random_uniform(-0.1, 0.1, seed=1),
        "normal": init.random_normal(0.0, 0.3, seed=2),
        "truncated": init.truncated_normal(0.5, 0.3, seed=3),
        "glorot_uniform": init.glorot_uniform(seed=4),
        "glorot_normal": init.glorot_normal(seed=5),
        "he_normal": init.he_normal(seed=6),
        "he_uniform": init.he_uniform(seed=7),
        "lecun_normal": init.lecun_normal(seed=8),
        "scaling": init.variance_scaling(2.0, "fan_avg", "uniform", seed=9),
        "uniform_unit_scaling": init.uniform_unit_scaling(1.5, seed=10),
        "constant": init.constant(2.5),
        "listed": init.constant(np.arange(18).reshape(3, 6)),
        "identity": init.identity(3.0),
    }
    variables = [variable(n, [3, 3, 2, 4] if "he_" in n else [3, 6], kind, i) for n, i in made.items()]
    # One that starts as another does.
    start = variables[0].initialized_value() if kind == "ref" else variables[0].initial_value
    variables.append(v1.Variable(start * 2.0, name="doubled"))
    variables.append(v1.Variable(v1.random_normal([3], seed=11), name="drawn"))
    everything = v1.global_variables_initializer()
    g.init(everything)
    g.step(*variables)
    g.step(run=everything)
    # It has drawn twice.
    g.step(variables[-1])


for _kind in KINDS:
    golden(f"initializers_{_kind}", kind=_kind)(initializers)
