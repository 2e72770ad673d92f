"""Ops that join, cut, pad and reorder."""

from model import ANY, EVERY, FLOAT, INDEX, NUMBER
from registry import family, op
from rules import EXACT_SPECIAL, SUMMED


@op("Transpose", EXACT_SPECIAL, weight=1.5)
def transpose(g):
    x = g.wire(g.kind(EVERY), specials=True)
    order = list(range(len(x.dims)))
    g.random.shuffle(order)
    g.add("Transpose", x=x, perm=g.host(order, g.one(*INDEX)))


def joinable(g, axis_kept=False):
    """Tensors of one type whose shapes differ along one axis at most, and that axis."""
    x = g.wire(g.kind(EVERY), rank=(1, 4), specials=True)
    axis = g.integer(0, len(x.dims) - 1)

    def fits(w):
        return len(w.dims) == len(x.dims) and all(
            a == b or i == axis for i, (a, b) in enumerate(zip(w.dims, x.dims))
        )

    parts = [x]
    for _ in range(g.integer(1, 3)):
        dims = list(x.dims)
        dims[axis] = g.integer(0, 4)
        alike = [w for w in g.wires() if w.kind == x.kind and fits(w)]
        parts.append(g.one(*alike) if alike and g.chance(0.7) else g.fresh(x.kind, dims))
    g.random.shuffle(parts)
    return parts, axis


@op("ConcatV2", EXACT_SPECIAL, weight=1.5)
def concat_v2(g):
    values, axis = joinable(g)
    axis -= len(values[0].dims) if g.chance(0.3) else 0
    g.add("ConcatV2", values=values, axis=g.host(axis, g.one(*INDEX)))


@op("Concat", EXACT_SPECIAL, weight=0.5)
def concat(g):
    values, axis = joinable(g)
    g.add("Concat", concat_dim=g.host(axis), values=values)


@op("Pack", EXACT_SPECIAL)
def pack(g):
    x = g.wire(g.kind(EVERY), rank=(0, 4), specials=True)
    values = [x] + [g.like(x, specials=True) for _ in range(g.integer(0, 3))]
    g.add("Pack", values=values, axis=g.axis(len(x.dims) + 1))


@op("Unpack", EXACT_SPECIAL)
def unpack(g):
    x = g.wire(g.kind(EVERY), rank=(1, 5), specials=True)
    axis = g.axis(len(x.dims))
    g.add("Unpack", value=x, num=x.dims[axis], axis=axis)


@op("Split", EXACT_SPECIAL)
def split(g):
    x = g.wire(g.kind(EVERY), rank=(1, 5), specials=True)
    axis = g.axis(len(x.dims))
    parts = g.one(*[n for n in range(1, 6) if x.dims[axis] % n == 0])
    g.add("Split", axis=g.host(axis), value=x, num_split=parts)


@op("SplitV", EXACT_SPECIAL)
def split_v(g):
    x = g.wire(g.kind(EVERY), rank=(1, 5), specials=True)
    axis = g.axis(len(x.dims))
    cuts = sorted(g.integer(0, x.dims[axis]) for _ in range(g.integer(0, 3)))
    sizes = [b - a for a, b in zip([0] + cuts, cuts + [x.dims[axis]])]
    if len(sizes) > 1 and g.chance(0.3):
        sizes[g.integer(0, len(sizes) - 1)] = -1
    # A constant axis: where it is fed TensorFlow's shape inference takes the sizes for another axis's.
    arguments = {"size_splits": g.host(sizes, g.one(*INDEX)), "axis": g.source(axis, "i32", fed=False)}
    g.add("SplitV", value=x, num_split=len(sizes), **arguments)


@op("Slice", EXACT_SPECIAL, weight=1.2)
def slice_(g):
    x = g.wire(g.kind(EVERY), specials=True)
    begin = [g.integer(0, d) for d in x.dims]
    size = [-1 if g.chance(0.3) else g.integer(0, d - b) for b, d in zip(begin, x.dims)]
    kind = g.one(*INDEX)
    g.add("Slice", input=x, begin=g.host(begin, kind), size=g.host(size, kind))


def strided(g, dims):
    """Bounds, strides and masks for tensors of that shape, with all that NumPy's slices can say."""
    begin, end, strides, masks, done, ellipsis = [], [], [], dict.fromkeys(MASKS, 0), 0, False
    while done < len(dims) and g.chance(0.9) and len(begin) < 6:
        bit, d = 1 << len(begin), dims[done]
        form = g.weighted({"range": 6, "shrink": 1.5, "new": 0.8, "ellipsis": 0.0 if ellipsis else 0.5})
        step, low, high = g.one(1, 1, 1, 2, -1, -2), g.integer(-d - 1, d + 1), g.integer(-d - 1, d + 1)
        if form == "shrink" and d:
            masks["shrink_axis_mask"] |= bit
            low, step = g.integer(-d, d - 1), 1
            high = low + 1
            done += 1
        elif form == "new":
            masks["new_axis_mask"] |= bit
        elif form == "ellipsis":
            masks["ellipsis_mask"] |= bit
            ellipsis = True
            done += g.integer(0, len(dims) - done)
        else:
            masks["begin_mask"] |= bit * g.chance(0.3)
            masks["end_mask"] |= bit * g.chance(0.3)
            done += 1
        begin, end, strides = begin + [low], end + [high], strides + [step]
    return begin, end, strides, masks


MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


def strided_arguments(g, dims):
    begin, end, strides, masks = strided(g, dims)
    kind = g.one(*INDEX)
    return {"begin": g.host(begin, kind), "end": g.host(end, kind), "strides": g.host(strides, kind)} | masks


@op("StridedSlice", EXACT_SPECIAL, weight=2)
def strided_slice(g):
    x = g.wire(g.kind(EVERY), rank=(0, 4), specials=True)
    g.add("StridedSlice", input=x, **strided_arguments(g, x.dims))


@op("StridedSliceGrad", EXACT_SPECIAL, weight=0.6, needs=["StridedSlice"])
def strided_slice_grad(g):
    """The gradient has the shape of the slice, which the slice itself tells."""
    x = g.wire(g.kind(ANY, "StridedSliceGrad"), rank=(0, 4))
    arguments = strided_arguments(g, x.dims)
    cut = g.add("StridedSlice", input=x, **arguments)[0]
    shape = g.host(x.dims, arguments["begin"].kind)
    g.add("StridedSliceGrad", shape=shape, dy=g.like(cut), **arguments)


def paddings(g, dims, most=2):
    return [[g.integer(0, most if d else 0), g.integer(0, most if d else 0)] for d in dims]


def padding_host(g, dims, pairs):
    import numpy as np

    return g.host(np.array(pairs, "int64").reshape(len(dims), 2), g.one(*INDEX))


@op("Pad", EXACT_SPECIAL)
def pad(g):
    x = g.wire(g.kind(EVERY[:-1]), rank=(0, 4), specials=True)
    g.add("Pad", input=x, paddings=padding_host(g, x.dims, paddings(g, x.dims)))


@op("PadV2", EXACT_SPECIAL)
def pad_v2(g):
    x = g.wire(g.kind(EVERY), rank=(0, 4), specials=True)
    value = g.wire(x.kind, rank=0)
    g.add("PadV2", input=x, paddings=padding_host(g, x.dims, paddings(g, x.dims)), constant_values=value)


@op("MirrorPad", EXACT_SPECIAL, weight=0.7)
def mirror_pad(g):
    x = g.wire(g.kind(EVERY), rank=(1, 4), specials=True, test=lambda w: 0 not in w.dims)
    mode = g.one("REFLECT", "SYMMETRIC")
    most = [max(0, d - (mode == "REFLECT")) for d in x.dims]
    pairs = [[g.integer(0, min(m, 2)), g.integer(0, min(m, 2))] for m in most]
    g.add("MirrorPad", input=x, paddings=padding_host(g, x.dims, pairs), mode=mode)


@op("MirrorPadGrad", SUMMED, weight=0.4)
def mirror_pad_grad(g):
    kind, mode = g.kind(FLOAT), g.one("REFLECT", "SYMMETRIC")
    dims = g.shape((1, 3), zero=0)
    pairs = [[g.integer(0, min(d - (mode == "REFLECT"), 2)) for _ in range(2)] for d in dims]
    x = g.wire(kind, dims=[a + d + b for d, (a, b) in zip(dims, pairs)])
    g.add("MirrorPadGrad", input=x, paddings=padding_host(g, dims, pairs), mode=mode)


@op("Tile", EXACT_SPECIAL)
def tile(g):
    x = g.wire(g.kind([k for k in EVERY if k != "u16"]), rank=(0, 4), specials=True)
    multiples = [g.one(1, 1, 2, 3, 0 if g.chance(0.1) else 1) for _ in x.dims]
    g.add("Tile", input=x, multiples=g.host(multiples, g.one(*INDEX)))


@op("ReverseV2", EXACT_SPECIAL)
def reverse_v2(g):
    x = g.wire(g.kind(EVERY), specials=True)
    axes = [a - len(x.dims) * g.chance(0.3) for a in range(len(x.dims)) if g.chance(0.5)]
    g.add("ReverseV2", tensor=x, axis=g.host(axes, g.one(*INDEX)))


@op("Reverse", EXACT_SPECIAL, weight=0.3)
def reverse(g):
    x = g.wire(g.kind(EVERY), rank=(1, 4), specials=True, test=lambda w: 0 not in w.dims)
    g.add("Reverse", tensor=x, dims=g.source([g.chance(0.5) for _ in x.dims], "bool"))


@op("ReverseSequence", EXACT_SPECIAL, weight=0.7)
def reverse_sequence(g):
    x = g.wire(g.kind(EVERY), rank=(2, 4), specials=True)
    batch, seq = g.random.sample(range(len(x.dims)), 2)
    lengths = g.wire(g.one(*INDEX), dims=(x.dims[batch],), low=0, high=x.dims[seq])
    g.add("ReverseSequence", input=x, seq_lengths=lengths, seq_dim=seq, batch_dim=batch)


@op("Roll", EXACT_SPECIAL, weight=0.7)
def roll(g):
    x = g.wire(g.kind(EVERY), rank=(1, 4), specials=True)
    axes = [g.axis(len(x.dims), negative=False) for _ in range(g.integer(1, 2))]
    shifts = [g.integer(-7, 7) for _ in axes]
    if len(axes) == 1 and g.chance(0.5):
        axes, shifts = axes[0], shifts[0]
    g.add("Roll", input=x, shift=g.host(shifts, g.one(*INDEX)), axis=g.host(axes, g.one(*INDEX)))


@op("SpaceToDepth", EXACT_SPECIAL, weight=0.5)
def space_to_depth(g):
    n, h, w, c = g.integer(1, 2), g.integer(1, 2), g.integer(1, 3), g.integer(1, 3)
    x = g.wire(g.kind(ANY), dims=(n, 2 * h, 2 * w, c), specials=True)
    g.add("SpaceToDepth", input=x, block_size=2)


@op("DepthToSpace", EXACT_SPECIAL, weight=0.5)
def depth_to_space(g):
    x = g.wire(
        g.kind(ANY),
        dims=(g.integer(1, 2), g.integer(1, 3), g.integer(1, 2), 4 * g.integer(1, 2)),
        specials=True,
    )
    g.add("DepthToSpace", input=x, block_size=2)


def blocks(g):
    return [g.integer(1, 3) for _ in range(g.integer(1, 2))]


@op("SpaceToBatchND", EXACT_SPECIAL, weight=0.6)
def space_to_batch(g):
    x = g.wire(g.kind(ANY), rank=(2, 4), specials=True)
    block = blocks(g)[: len(x.dims) - 1]
    pairs = []
    for size, d in zip(block, x.dims[1:]):
        before = g.integer(0, 2)
        pairs.append([before, -(d + before) % size])
    g.add(
        "SpaceToBatchND",
        input=x,
        block_shape=g.host(block, known=True),
        paddings=padding_host(g, block, pairs),
    )


@op("BatchToSpaceND", EXACT_SPECIAL, weight=0.6)
def batch_to_space(g):
    block, kind = blocks(g), g.kind(ANY)
    count = 1
    for size in block:
        count *= size
    inner = [g.integer(1, 3) for _ in block]
    x = g.wire(kind, dims=(count * g.integer(1, 2), *inner, *g.shape((0, 1))), specials=True)
    crops = [[g.integer(0, min(1, d * s - 1)), 0] for d, s in zip(inner, block)]
    g.add(
        "BatchToSpaceND", input=x, block_shape=g.host(block, known=True), crops=padding_host(g, block, crops)
    )


@family("ExtractImagePatches", EXACT_SPECIAL, weight=0.3)
def extract_image_patches(g, name):
    x = g.wire(g.kind(NUMBER), rank=4, test=lambda w: 0 not in w.dims)
    ksizes, strides = [1, g.integer(1, 2), g.integer(1, 2), 1], [1, g.integer(1, 2), g.integer(1, 2), 1]
    g.add(name, images=x, ksizes=ksizes, strides=strides, rates=[1, 1, 1, 1], padding="SAME")
