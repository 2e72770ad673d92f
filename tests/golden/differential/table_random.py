"""Random ops: with seeds and a state that goes from step to step, and stateless ones."""

from model import FLOAT, INDEX, TYPES
from registry import family, op
from rules import EXACT, EXACT_SPECIAL, ROUNDED

SEEDED = ("f32", "f64", "f16", "bf16")


def seeds(g):
    """One of the two may be zero; with both zero each run would differ."""
    return g.one(
        {"seed": g.integer(1, 99), "seed2": g.integer(1, 99)},
        {"seed": 0, "seed2": g.integer(1, 2**40)},
        {"seed": g.integer(1, 2**40), "seed2": 0},
    )


def dims(g):
    return g.host(g.shape(), g.one(*INDEX))


def drawn(g, name):
    """Floats from a distribution; uniform ones are the generator's bits, others go through logarithms."""
    g.draw(name, shape=dims(g), dtype=TYPES[g.kind(SEEDED, attr="dtype")], **seeds(g))


family("RandomUniform", EXACT, weight=1.2)(drawn)
family("RandomStandardNormal TruncatedNormal", ROUNDED)(drawn)


@op("RandomUniformInt")
def random_uniform_int(g):
    kind = g.one(*INDEX)
    low = g.host(g.integer(-20, 5), kind)
    g.draw("RandomUniformInt", shape=dims(g), minval=low, maxval=g.host(g.integer(6, 99), kind), **seeds(g))


@op("RandomShuffle", EXACT_SPECIAL, weight=0.7)
def random_shuffle(g):
    x = g.wire(
        g.kind(FLOAT + ("i32", "i64", "bool")), rank=(1, 3), specials=True, test=lambda w: 0 not in w.dims
    )
    g.draw("RandomShuffle", value=x, **seeds(g))


@op("Multinomial", weight=0.7)
def multinomial(g):
    x = g.wire(g.kind(SEEDED), dims=(g.integer(1, 3), g.integer(1, 5)), low=-5, high=5)
    g.draw(
        "Multinomial",
        logits=x,
        num_samples=g.host(g.integer(0, 6)),
        output_dtype=TYPES[g.one(*INDEX)],
        **seeds(g),
    )


def seed(g):
    """The seed of a stateless op: any two numbers, also those that come from a tensor."""
    return g.wire(g.one(*INDEX), dims=(2,), reuse=0.3)


def stateless(g, name):
    g.add(name, shape=dims(g), seed=seed(g), dtype=TYPES[g.kind(SEEDED, attr="dtype")])


family("StatelessRandomUniform", EXACT)(stateless)
family("StatelessRandomNormal StatelessTruncatedNormal", ROUNDED)(stateless)


@op("StatelessRandomUniformInt", weight=0.7)
def stateless_int(g):
    kind = g.one(*INDEX)
    low, high = g.host(g.integer(-20, 5), kind), g.host(g.integer(6, 99), kind)
    g.add("StatelessRandomUniformInt", shape=dims(g), seed=seed(g), minval=low, maxval=high)


@op("StatelessRandomUniformFullInt", weight=0.5)
def stateless_full_int(g):
    kind = g.one("i32", "i64", "u32", "u64")
    g.add("StatelessRandomUniformFullInt", shape=dims(g), seed=seed(g), dtype=TYPES[kind])


@op("StatelessMultinomial", weight=0.6)
def stateless_multinomial(g):
    x = g.wire(g.kind(SEEDED), dims=(g.integer(1, 3), g.integer(1, 5)), low=-5, high=5)
    count = g.host(g.integer(0, 6))
    g.add(
        "StatelessMultinomial", logits=x, num_samples=count, seed=seed(g), output_dtype=TYPES[g.one(*INDEX)]
    )


def keyed(g):
    """A key, a counter and the algorithm, Philox or ThreeFry."""
    key, counter = g.add("StatelessRandomGetKeyCounter", seed=seed(g))
    return {"key": key, "counter": counter, "alg": g.host(1)}


@op("StatelessRandomGetKeyCounter", weight=0.4)
def key_counter(g):
    g.add("StatelessRandomGetKeyCounter", seed=seed(g))


@op("StatelessRandomGetAlg", weight=0.2)
def get_alg(g):
    g.add("StatelessRandomGetAlg")


def stateless_v2(g, name):
    g.add(name, shape=dims(g), dtype=TYPES[g.kind(SEEDED, attr="dtype")], **keyed(g))


KEYS = ["StatelessRandomGetKeyCounter"]
family("StatelessRandomUniformV2", EXACT, needs=KEYS)(stateless_v2)
family("StatelessRandomNormalV2 StatelessTruncatedNormalV2", ROUNDED, needs=KEYS)(stateless_v2)


@op("StatelessRandomUniformIntV2", weight=0.7, needs=KEYS)
def stateless_int_v2(g):
    kind = g.one(*INDEX)
    low, high = g.host(g.integer(-20, 5), kind), g.host(g.integer(6, 99), kind)
    g.add("StatelessRandomUniformIntV2", shape=dims(g), minval=low, maxval=high, **keyed(g))


@op("StatelessRandomUniformFullIntV2", weight=0.4, needs=KEYS)
def stateless_full_int_v2(g):
    kind = g.one("i32", "i64", "u32", "u64")
    g.add("StatelessRandomUniformFullIntV2", shape=dims(g), dtype=TYPES[kind], **keyed(g))


@op("StatelessShuffle", EXACT_SPECIAL, weight=0.4, needs=KEYS)
def stateless_shuffle(g):
    x = g.wire(g.kind(FLOAT + ("i32", "i64")), rank=(1, 3), specials=True, test=lambda w: 0 not in w.dims)
    g.add("StatelessShuffle", value=x, **keyed(g))
