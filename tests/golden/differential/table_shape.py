"""Ops about shapes, ops that only rename elements, and ops that make tensors from nothing."""

from model import ANY, ARRAYS, EVERY, FLOAT, INDEX, INT, NUMBER, TYPES, np
from registry import family, op
from rules import EXACT_SPECIAL, ROUNDED


def index_type(g):
    return TYPES[g.one(*INDEX)]


@family("Identity StopGradient PreventGradient Snapshot DeepCopy", EXACT_SPECIAL, weight=0.5)
def same(g, name):
    """Snapshot copies for want of a buffer to itself, the others only hand on."""
    key = "x" if name == "DeepCopy" else "input"
    g.add(name, **{key: g.wire(g.kind(EVERY if name in ("Identity", "Snapshot") else ANY), specials=True)})


@op("IdentityN", EXACT_SPECIAL, weight=0.5)
def identity_n(g):
    g.add("IdentityN", input=[g.wire(g.kind(EVERY), specials=True) for _ in range(g.integer(1, 3))])


@op("EnsureShape", EXACT_SPECIAL, weight=0.5)
def ensure_shape(g):
    x = g.wire(g.kind(EVERY), specials=True)
    g.add("EnsureShape", input=x, shape=[None if g.chance(0.3) else d for d in x.dims])


@family("Shape Size", weight=0.6)
def shape_of(g, name):
    g.add(name, input=g.wire(g.kind(EVERY), specials=True), out_type=index_type(g))


@op("Rank", weight=0.5)
def rank(g):
    g.add("Rank", input=g.wire(g.kind(EVERY), specials=True))


@op("ShapeN", weight=0.5)
def shape_n(g):
    kind = g.kind(EVERY)
    g.add(
        "ShapeN", input=[g.wire(kind, specials=True) for _ in range(g.integer(1, 3))], out_type=index_type(g)
    )


@family("ZerosLike OnesLike", EXACT_SPECIAL, weight=0.6)
def filled_like(g, name):
    g.add(name, x=g.wire(g.kind(ANY), specials=True))


def factored(g, size):
    """A random shape with that many elements."""
    dims = []
    while len(dims) < 5 and g.chance(0.75):
        divisors = [d for d in range(1, 7) if size % d == 0] if size else [0, 1, 2, 3]
        dims.append(g.one(*divisors))
        size = size // dims[-1] if dims[-1] else size
    if size != 1 and (size or 0 not in dims):
        dims.append(size)
    g.random.shuffle(dims)
    return dims


@op("Reshape", EXACT_SPECIAL, weight=2)
def reshape(g):
    """To a shape that is given, or that another tensor has; -1 stands for the remaining size."""
    x = g.wire(g.kind(EVERY), specials=True)
    twins = [w for w in g.wires() if w.size == x.size and w.dims != x.dims]
    if twins and g.may("Shape") and g.chance(0.3):
        shape = g.add("Shape", input=g.one(*twins), out_type=index_type(g))[0]
        return g.add("Reshape", tensor=x, shape=shape)
    dims = factored(g, x.size)
    if dims and x.size and g.chance(0.4):
        dims[g.integer(0, len(dims) - 1)] = -1
    return g.add("Reshape", tensor=x, shape=g.host(dims, g.one(*INDEX)))


@op("ExpandDims", EXACT_SPECIAL)
def expand_dims(g):
    x = g.wire(g.kind(EVERY), rank=(0, 4), specials=True)
    g.add("ExpandDims", input=x, axis=g.host(g.axis(len(x.dims) + 1), g.one(*INDEX)))


@op("Squeeze", EXACT_SPECIAL)
def squeeze(g):
    x = g.wire(g.kind(EVERY), rank=(1, 5), test=lambda w: 1 in w.dims, specials=True)
    ones = [i - (len(x.dims) if g.chance(0.3) else 0) for i, d in enumerate(x.dims) if d == 1]
    g.add("Squeeze", input=x, axis=[a for a in ones if g.chance(0.5)])


@op("BroadcastTo", EXACT_SPECIAL)
def broadcast_to(g):
    x = g.wire(g.kind(ANY), rank=(0, 4), specials=True)
    dims = [g.integer(1, 4) if d == 1 else d for d in x.dims]
    dims = [g.integer(0, 3) for _ in range(g.integer(0, 2))] + dims
    g.add("BroadcastTo", input=x, shape=g.host(dims[-5:] if len(x.dims) < 5 else dims, g.one(*INDEX)))


@op("Fill", EXACT_SPECIAL)
def fill(g):
    kind = g.one(*INDEX)
    dims = g.host(g.shape(), kind)
    g.add("Fill", dims=dims, value=g.wire(g.kind(EVERY), rank=0, specials=True))


@op("Range", EXACT_SPECIAL, weight=0.7)
def range_(g):
    kind = g.kind(("i32", "i64", "f32", "f64"), attr="Tidx")
    start = g.wire(kind, rank=0, low=-20, high=20)
    # Whole and half steps: where a range of floats ends does not hang on rounding.
    delta = g.one(1, 2, 3, -1, -2) if kind in INT else g.one(0.5, 1.0, -1.5)
    count = g.integer(0, 9)
    limit = start.value + ARRAYS[kind](delta * count - (0.25 * np.sign(delta) if kind in FLOAT else 0))
    if kind in FLOAT and not start.exact or count == 0:
        start, limit = g.fresh(kind, (), -3, 3), None
        limit = start.value + ARRAYS[kind](delta * 3.5 if kind in FLOAT else delta * 3)
    g.add("Range", start=start, limit=g.host(limit, kind), delta=g.host(delta, kind))


@op("LinSpace", ROUNDED, weight=0.6)
def lin_space(g):
    kind = g.kind(FLOAT)
    start, stop = g.wire(kind, rank=0), g.wire(kind, rank=0)
    g.add("LinSpace", start=start, stop=stop, num=g.host(g.integer(1, 8), g.one(*INDEX)))


@op("OneHot", EXACT_SPECIAL)
def one_hot(g):
    """Indices outside of [0, depth) give rows of off_value."""
    index = g.wire(g.kind(("i32", "i64", "u8"), attr="TI"), rank=(0, 3))
    depth = g.integer(0, 5)
    on, off = (g.wire(k, rank=0, specials=True) for k in [g.kind(ANY)] * 2)
    g.add(
        "OneHot",
        indices=index,
        depth=g.host(depth),
        on_value=on,
        off_value=off,
        axis=g.integer(-1, len(index.dims)),
    )


@op("BroadcastGradientArgs", weight=0.5)
def broadcast_gradient_args(g):
    dims, kind = g.shape((0, 4)), g.one(*INDEX)
    g.add("BroadcastGradientArgs", s0=g.host(dims, kind), s1=g.host(g.subshape(dims), kind))


@op("BroadcastArgs", weight=0.5)
def broadcast_args(g):
    dims, kind = g.shape((0, 4)), g.one(*INDEX)
    g.add("BroadcastArgs", s0=g.host(g.subshape(dims), kind), s1=g.host(dims, kind))


@op("InvertPermutation", weight=0.6)
def invert_permutation(g):
    order = list(range(g.integer(0, 6)))
    g.random.shuffle(order)
    g.add("InvertPermutation", x=g.source(order, g.one(*INDEX)))


@op("ConcatOffset", weight=0.5)
def concat_offset(g):
    dims = g.shape((1, 4), zero=0)
    axis = g.integer(0, len(dims) - 1)
    shapes = []
    for _ in range(g.integer(2, 3)):
        other = list(dims)
        other[axis] = g.integer(0, 3)
        shapes.append(g.host(other))
    g.add("ConcatOffset", concat_dim=g.host(axis), shape=shapes)


@op("Empty", weight=0.2)
def empty(g):
    """Initialised, because other memory is undefined."""
    g.add("Empty", shape=g.host(g.shape()), dtype=TYPES[g.kind(NUMBER, attr="dtype")], init=True)


@op("PlaceholderWithDefault", EXACT_SPECIAL, weight=0.4)
def placeholder_with_default(g):
    """Not fed: it passes on its input."""
    x = g.wire(g.kind(ANY), specials=True)
    g.add("PlaceholderWithDefault", input=x, shape=[None if g.chance(0.4) else d for d in x.dims])
