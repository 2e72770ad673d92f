"""Ops that look for elements: unique ones, the largest, those that are set."""

from model import ANY, EVERY, HALF, INDEX, NUMBER, TYPES, Refused, np
from registry import family, op


def index_type(g):
    return TYPES[g.one(*INDEX)]


@op("Where", weight=0.8)
def where(g):
    g.add("Where", condition=g.wire(g.kind([k for k in ANY if k != "f16"]), rank=(1, 5)))


def told_apart(x):
    """A wire without zeros of halves: TensorFlow takes those of different sign for different elements."""
    if x.kind in HALF and np.any(x.value == 0):
        raise Refused("zero", "halves of different sign")
    return x


@family("Unique UniqueWithCounts", weight=0.7)
def unique(g, name):
    g.add(name, x=told_apart(g.wire(g.kind(EVERY), rank=1)), out_idx=index_type(g))


@op("UniqueV2", weight=0.5)
def unique_v2(g):
    x = g.wire(g.kind(EVERY), rank=(1, 3), test=lambda w: 0 not in w.dims)
    axis = [g.axis(len(x.dims), negative=False)]
    g.add(
        "UniqueV2",
        x=told_apart(x),
        axis=g.host(axis if len(x.dims) > 1 or g.chance(0.5) else [], g.one(*INDEX)),
        out_idx=index_type(g),
    )


@op("ListDiff", weight=0.6)
def list_diff(g):
    x = told_apart(g.wire(g.kind(EVERY), rank=1))
    g.add("ListDiff", x=x, y=g.wire(x.kind, rank=1), out_idx=index_type(g))


@op("TopKV2", weight=0.9)
def top_k_v2(g):
    x = g.wire(g.kind(NUMBER), rank=(1, 4), test=lambda w: len(w.dims) > 0 and 0 not in w.dims)
    k = g.host(g.integer(0, x.dims[-1]))
    g.add("TopKV2", input=x, k=k, sorted=True)


@op("NthElement", weight=0.4)
def nth_element(g):
    x = g.wire(g.kind(NUMBER), rank=(1, 4), test=lambda w: len(w.dims) > 0 and 0 not in w.dims)
    g.add("NthElement", input=x, n=g.host(g.integer(0, x.dims[-1] - 1)), reverse=g.chance(0.5))


@family("InTopK InTopKV2", weight=0.5)
def in_top_k(g, name):
    """Targets outside of the classes are in no top."""
    x = g.wire("f32", rank=2, test=lambda w: len(w.dims) == 2 and 0 not in w.dims)
    targets = g.wire(g.one(*INDEX), dims=x.dims[:1], low=0, high=x.dims[1] - 1 + g.integer(0, 1))
    k = g.integer(1, x.dims[1])
    g.add(name, predictions=x, targets=targets, k=k if name == "InTopK" else g.host(k, targets.kind))


@family("LowerBound UpperBound", weight=0.5)
def bounds(g, name):
    kind = g.kind(NUMBER)
    rows = g.integer(1, 3)
    table = g.numbers(kind, (rows, g.integer(0, 5)))
    table.sort(axis=1)
    values = g.wire(kind, dims=(rows, g.integer(0, 4)))
    g.add(name, sorted_inputs=g.source(table, kind), values=values, out_type=index_type(g))


@op("Bucketize", weight=0.4)
def bucketize(g):
    x = g.wire(g.kind(("i32", "i64", "f32", "f64")))
    edges = sorted(g.uniform(-3, 3) for _ in range(g.integer(0, 4)))
    g.add("Bucketize", input=x, boundaries=edges)


@op("HistogramFixedWidth", weight=0.3)
def histogram(g):
    x = g.wire(g.kind(("i32", "i64", "f32", "f64")))
    span = g.host([-2, 6], x.kind)
    g.add(
        "HistogramFixedWidth", values=x, value_range=span, nbins=g.host(g.integer(1, 6)), dtype=index_type(g)
    )
