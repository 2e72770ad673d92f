"""Gathers, scatters, partitions and segments."""

from model import EVERY, FLOAT, INDEX, INT, NUMBER, np
from registry import family, op
from rules import EXACT, EXACT_SPECIAL, SUMMED


def indices(g, dims, bound, kind=None):
    """A wire of indices below `bound`; no elements where there is nothing to point to."""
    kind = kind or g.one(*INDEX)
    if bound == 0:
        return g.source(np.zeros((0, *dims[1:]), "int64"), kind)
    return g.wire(kind, dims=dims, low=0, high=bound - 1)


@op("GatherV2", EXACT_SPECIAL, weight=1.5)
def gather_v2(g):
    x = g.wire(g.kind(EVERY), rank=(1, 4), specials=True, test=lambda w: 0 not in w.dims)
    batch = g.integer(0, 1) if len(x.dims) > 1 and g.chance(0.3) else 0
    axis = g.integer(batch, len(x.dims) - 1)
    dims = x.dims[:batch] + g.shape((0, 2), most=8)
    where = indices(g, dims, x.dims[axis])
    axis -= len(x.dims) if g.chance(0.3) else 0
    g.add("GatherV2", params=x, indices=where, axis=g.host(axis, g.one(*INDEX)), batch_dims=batch)


@op("Gather", EXACT_SPECIAL)
def gather(g):
    x = g.wire(g.kind(EVERY), rank=(1, 4), specials=True, test=lambda w: w.dims[:1] != (0,))
    g.add("Gather", params=x, indices=indices(g, g.shape((0, 2), most=8), x.dims[0]))


def tuples(g, dims, unique=False, depth=None):
    """Index tuples into a shape, as a source, and the shape of each result."""
    depth = g.integer(1, len(dims)) if depth is None else depth
    outer = g.shape((1, 2), most=6)
    count = int(np.prod(outer))
    bounds = [max(1, d) for d in dims[:depth]]
    total = int(np.prod(bounds))
    if unique:
        outer = (min(count, total),)
        chosen = g.random.sample(range(total), outer[0])
    else:
        chosen = [g.integer(0, total - 1) for _ in range(count)]
    values = np.stack(np.unravel_index(np.array(chosen, "int64"), bounds), -1).reshape(*outer, depth)
    return g.source(values, g.one(*INDEX)), outer, tuple(dims[depth:])


@op("GatherNd", EXACT_SPECIAL)
def gather_nd(g):
    x = g.wire(g.kind(EVERY), rank=(1, 4), specials=True, test=lambda w: 0 not in w.dims)
    g.add("GatherNd", params=x, indices=tuples(g, x.dims)[0])


@op("ScatterNd", SUMMED)
def scatter_nd(g):
    kind = g.kind(NUMBER + ("bool",))
    dims = g.shape((1, 3), zero=0)
    where, outer, inner = tuples(g, dims, unique=kind == "bool")
    updates = g.wire(kind, dims=outer + inner)
    g.add("ScatterNd", indices=where, updates=updates, shape=g.host(dims, where.kind))


@op("TensorScatterUpdate", EXACT_SPECIAL)
def tensor_scatter_update(g):
    """Each place at most once: which of two updates stays is left open."""
    x = g.wire(g.kind(EVERY), rank=(1, 4), specials=True, test=lambda w: 0 not in w.dims)
    where, outer, inner = tuples(g, x.dims, unique=True)
    g.add("TensorScatterUpdate", tensor=x, indices=where, updates=g.wire(x.kind, dims=outer + inner))


@family("TensorScatterAdd TensorScatterSub", SUMMED, weight=0.7)
def tensor_scatter_sum(g, name):
    x = g.wire(g.kind(NUMBER), rank=(1, 4), test=lambda w: 0 not in w.dims)
    where, outer, inner = tuples(g, x.dims)
    g.add(name, tensor=x, indices=where, updates=g.wire(x.kind, dims=outer + inner))


@family("TensorScatterMin TensorScatterMax", EXACT, weight=0.5)
def tensor_scatter_extreme(g, name):
    tensor_scatter_sum(g, name=name)


@op("DynamicPartition", EXACT_SPECIAL, weight=0.8)
def dynamic_partition(g):
    x = g.wire(g.kind(EVERY), rank=(1, 4), specials=True)
    parts = g.integer(1, 4)
    where = g.wire("i32", dims=x.dims[: g.integer(1, min(2, len(x.dims)))], low=0, high=parts - 1)
    g.add("DynamicPartition", data=x, partitions=where, num_partitions=parts)


@family("DynamicStitch ParallelDynamicStitch", EXACT_SPECIAL, weight=0.7)
def dynamic_stitch(g, name):
    """The indices are a permutation, for rows that none names hold anything."""
    kind, inner = g.kind(EVERY), g.shape((0, 2), most=6)
    order = list(range(g.integer(1, 7)))
    g.random.shuffle(order)
    if name == "DynamicStitch" and g.chance(0.4):
        order += [g.one(*order)]
    cut = g.integer(0, len(order))
    lists = [order[:cut], order[cut:]]
    data = [g.wire(kind, dims=(len(part), *inner), specials=True) for part in lists]
    g.add(name, indices=[g.source(part, "i32") for part in lists], data=data)


def segments(g, count, sorted_ids=True):
    """Segment numbers for that many rows: some segments are empty."""
    ids = [g.integer(0, 4) for _ in range(count)]
    return sorted(ids) if sorted_ids else ids


def segment(g, name):
    """Rows by sorted segment numbers."""
    float_only = name in ("SegmentMean",)
    x = g.wire(g.kind(FLOAT if float_only else NUMBER), rank=(1, 3), test=lambda w: w.dims[0] > 0)
    g.add(name, data=x, segment_ids=g.source(segments(g, x.dims[0]), g.one(*INDEX)))


family("SegmentSum SegmentMean SegmentProd", SUMMED, weight=0.6)(segment)
family("SegmentMax SegmentMin", EXACT, weight=0.6)(segment)


def unsorted(g, name):
    """Rows by any numbers; negative ones are left out. Empty segments get the identity element."""
    kinds = INT if name in ("UnsortedSegmentMax", "UnsortedSegmentMin") else NUMBER
    kinds = kinds + FLOAT if name in ("UnsortedSegmentMax", "UnsortedSegmentMin") else kinds
    x = g.wire(g.kind(kinds), rank=(1, 3))
    dims = x.dims[: g.integer(1, len(x.dims))]
    count = g.integer(1, 5)
    covers = name.endswith(("Max", "Min")) and x.kind in FLOAT
    size = int(np.prod(dims))
    if covers:
        # The identity of a maximum is the lowest float, which is too large for later ops.
        count = min(count, size)
        ids = [i % count for i in range(size)] if count else []
        g.random.shuffle(ids)
    else:
        ids = [g.integer(-1, count - 1) for _ in range(size)]
    where = g.source(np.reshape(np.array(ids, "int64"), dims), g.one(*INDEX))
    g.add(name, data=x, segment_ids=where, num_segments=g.host(count, g.one(*INDEX)))


family("UnsortedSegmentSum UnsortedSegmentProd", SUMMED, weight=0.6)(unsorted)
family("UnsortedSegmentMax UnsortedSegmentMin", EXACT, weight=0.6)(unsorted)


@family("SparseSegmentSum SparseSegmentMean SparseSegmentSqrtN", SUMMED, weight=0.4)
def sparse_segment(g, name):
    x = g.wire(g.kind(FLOAT), rank=(1, 3), test=lambda w: w.dims[0] > 0)
    count = g.integer(0, 6)
    where = indices(g, (count,), x.dims[0])
    g.add(name, data=x, indices=where, segment_ids=g.source(segments(g, count), g.one(*INDEX)))


@op("Bincount", SUMMED, weight=0.4)
def bincount(g):
    kind = g.kind(("i32", "i64", "f32", "f64"))
    values = g.wire("i32", low=0, high=6)
    weights = g.wire(kind, dims=g.one(values.dims, (0,)))
    g.add("Bincount", arr=values, size=g.host(g.integer(1, 8)), weights=weights)


@op("DenseBincount", SUMMED, weight=0.4)
def dense_bincount(g):
    kind = g.kind(("i32", "i64", "f32", "f64"))
    index = g.one(*INDEX)
    values = g.wire(index, rank=(1, 2), low=0, high=6)
    weighted, binary = g.chance(0.5), g.chance(0.3)
    weights = g.wire(kind, dims=values.dims if weighted and not binary else (0,))
    g.add(
        "DenseBincount",
        input=values,
        size=g.host(g.integer(1, 8), index),
        weights=weights,
        binary_output=binary,
    )
