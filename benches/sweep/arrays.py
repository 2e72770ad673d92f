"""Ops that move elements: transposes, slices, pads, gathers and scatters."""

import numpy as np

from case import Const, Var, below, op, shape, text, values

f16, f32, f64, i32, i64, u8 = np.float16, np.float32, np.float64, np.int32, np.int64, np.uint8
DTYPES = (f32, f64, i32, u8, f16)


def ints(*numbers):
    return Const(np.array(numbers, i32))


def scalar(number, dtype=i32):
    return Const(np.array(number, dtype))


def cases(rng, count):
    """All cases."""
    for _ in range(count):
        for dtype in DTYPES:
            yield from moved(rng, dtype)
            yield from parts(rng, dtype)
            yield from indexed(rng, dtype)
        yield from blocks(rng)
        yield from matrices(rng)
        yield from made(rng)


def moved(rng, dtype):
    """Transpose, Tile, Pad, Reverse, Roll, BroadcastTo, Pack."""
    name = np.dtype(dtype).name
    x = values(rng, shape(rng, rng.randint(2, 5)), dtype, 0, 9)
    rank, label = x.ndim, f"{name}/{text(x.shape)}"
    perm = list(range(rank))
    rng.shuffle(perm)

    def transposed(torch, x=x, perm=tuple(perm)):
        given = torch.from_numpy(x)
        return lambda: given.permute(perm).contiguous()

    yield op("Transpose", f"{label}/{text(perm)}", transposed, x=x, perm=ints(*perm))
    small = values(rng, shape(rng, rank, 2000), dtype, 0, 9)
    times = [rng.choice((1, 2, 5)) for _ in range(rank)]
    yield op("Tile", f"{name}/{text(small.shape)}/{text(times)}", input=small, multiples=ints(*times))
    pads = [[rng.choice((0, 1, 3)), rng.choice((0, 2))] for _ in range(rank)]
    pads_text = ",".join(map(str, sum(pads, [])))
    yield op("PadV2", f"{label}/{pads_text}", input=x, paddings=Const(np.array(pads, i32)), constant_values=np.array(1, dtype))
    if min(x.shape) > 3:
        yield op("MirrorPad", f"{label}/{pads_text}", input=x, paddings=Const(np.array(pads, i32)), mode="REFLECT")
    axis = rng.randrange(rank)
    yield op("ReverseV2", f"{label}/{axis}", tensor=x, axis=ints(axis))
    yield op("Roll", f"{label}/{axis}", input=x, shift=ints(x.shape[axis] // 3), axis=ints(axis))
    narrow = x[tuple(slice(0, 1) if i == axis else slice(None) for i in range(rank))].copy()
    yield op("BroadcastTo", f"{label}/{axis}", input=narrow, shape=ints(*x.shape))
    yield op("Pack", f"{label}/{axis}", values=[small] * 6, axis=axis)


def parts(rng, dtype):
    """Slice, StridedSlice and its gradient, Split, Concat, Unpack."""
    name = np.dtype(dtype).name
    x = values(rng, shape(rng, rng.randint(1, 4)), dtype, 0, 9)
    rank, label = x.ndim, f"{np.dtype(dtype).name}/{text(x.shape)}"
    begin = [rng.randrange(max(1, d // 3)) for d in x.shape]
    size = [max(1, (d - b) * 2 // 3) for d, b in zip(x.shape, begin)]
    yield op("Slice", f"{label}/{text(begin)}/{text(size)}", input=x, begin=ints(*begin), size=ints(*size))
    steps = [rng.choice((1, 1, 2, 3)) for _ in x.shape]
    end = list(x.shape)
    span = {"begin": ints(*begin), "end": ints(*end), "strides": ints(*steps)}
    yield op("StridedSlice", f"{label}/{text(begin)}/{text(steps)}", input=x, **span)
    grads = x[tuple(slice(b, e, s) for b, e, s in zip(begin, end, steps))].copy()
    yield op("StridedSliceGrad", f"{label}/{text(begin)}/{text(steps)}", shape=ints(*x.shape), dy=grads, **span)
    axis = rng.randrange(rank)
    others = [values(rng, x.shape, dtype, 0, 9) for _ in range(rng.choice((2, 3, 8)))]

    def joined(torch, others=others, axis=axis):
        tensors = [torch.from_numpy(o) for o in others]
        return lambda: torch.cat(tensors, axis)

    yield op("ConcatV2", f"{label}/{len(others)}/{axis}", joined, values=others, axis=scalar(axis))
    for pieces in (2, 3, 7):
        if x.shape[axis] % pieces == 0:
            yield op("Split", f"{label}/{pieces}/{axis}", axis=scalar(axis), value=x, num_split=pieces)
            break
    if 1 < x.shape[axis] < 200:
        yield op("Unpack", f"{name}/{label}/{axis}", value=x, num=x.shape[axis], axis=axis)


def indexed(rng, dtype):
    """Gathers and scatters of rows, elements and slices."""
    name = np.dtype(dtype).name
    x = values(rng, shape(rng, rng.randint(1, 3)), dtype, 0, 9)
    axis = rng.randrange(x.ndim)
    index = np.dtype(rng.choice((i32, i64)))
    number = max(1, int(2 ** rng.uniform(10, 17)) // max(1, x.size // x.shape[axis]))
    ids = below(rng, (number,), x.shape[axis], index)
    label = f"{name}/{text(x.shape)}/{number}/{axis}"

    def gathered(torch, x=x, ids=ids, axis=axis):
        given, picked = torch.from_numpy(x), torch.from_numpy(ids)
        return lambda: torch.index_select(given, axis, picked)

    yield op("GatherV2", label, gathered, params=x, indices=ids, axis=scalar(axis))
    number = int(2 ** rng.uniform(8, 15))
    rows = below(rng, (number,), x.shape[0])
    updates = values(rng, (number, *x.shape[1:]), dtype, 0, 9)
    if updates.size > 1 << 22:
        return
    label = f"{name}/{text(x.shape)}/{number}"
    yield op("ScatterNd", label, indices=rows[:, None].copy(), updates=updates, shape=ints(*x.shape))
    yield op("TensorScatterUpdate", label, tensor=x, indices=rows[:, None].copy(), updates=updates)
    deep = np.stack([below(rng, (number,), d) for d in x.shape], 1)
    yield op("GatherNd", f"{label}/{x.ndim}", params=x, indices=deep)
    if dtype in (f32, f64, i32):
        yield op("TensorScatterAdd", label, tensor=x, indices=rows[:, None].copy(), updates=updates)
        for name in ("ResourceScatterAdd", "ResourceScatterUpdate"):
            yield op(name, label, resource=Var(x), indices=rows, updates=updates)
        yield op("ResourceScatterNdAdd", label, ref=Var(x), indices=rows[:, None].copy(), updates=updates)
        yield op("ResourceGather", label, resource=Var(x), indices=rows, dtype=dtype)


def blocks(rng):
    """Blocks of images as batch or depth, patches, reversed sequences."""
    for dtype in (f32, u8):
        block = rng.choice((2, 3))
        n, h, w, c = rng.choice((1, 4, 9)), block * rng.randint(5, 20), block * rng.randint(5, 20), rng.choice((1, 3, 8, 33))
        x = values(rng, (n, h, w, c), dtype, 0, 9)
        label = f"{x.dtype}/{text(x.shape)}/{block}"
        yield op("SpaceToDepth", label, input=x, block_size=block)
        deep = values(rng, (n, h, w, c * block * block), dtype, 0, 9)
        yield op("DepthToSpace", label, input=deep, block_size=block)
        sides, none = ints(block, block), Const(np.zeros((2, 2), i32))
        yield op("SpaceToBatchND", label, input=x, block_shape=sides, paddings=none)
        many = values(rng, (n * block * block, h, w, c), dtype, 0, 9)
        yield op("BatchToSpaceND", label, input=many, block_shape=sides, crops=none)
        yield op("ExtractImagePatches", label, images=x, ksizes=[1, 3, 3, 1], strides=[1, 2, 2, 1], rates=[1, 1, 1, 1], padding="VALID")
    x = values(rng, (rng.randint(2, 40), rng.randint(10, 200), rng.randint(1, 70)))
    lengths = below(rng, (x.shape[0],), x.shape[1], i64)
    yield op("ReverseSequence", text(x.shape), input=x, seq_lengths=lengths, seq_dim=1, batch_dim=0)


def matrices(rng):
    """Bands and diagonals."""
    for dtype in (f32, f64):
        batch, m, n = rng.choice((1, 7, 300)), rng.randint(5, 200), rng.randint(5, 200)
        x = values(rng, (batch, m, n), dtype)
        label = f"{x.dtype}/{text(x.shape)}"
        yield op("MatrixBandPart", label, input=x, num_lower=scalar(rng.choice((-1, 0, 3)), i64), num_upper=scalar(2, i64))
        yield op("MatrixDiagPart", label, input=x)
        diagonal = values(rng, (batch, min(m, n)), dtype)
        yield op("MatrixSetDiag", label, input=x, diagonal=diagonal)
        yield op("MatrixDiag", f"{x.dtype}/{text(diagonal.shape)}", diagonal=diagonal)


def made(rng):
    """Ranges, fills, one-hot rows, masks, partitions."""
    number = int(2 ** rng.uniform(14, 19))
    limit = np.array(number, i32)
    yield op("Range", f"i32/{number}", start=np.array(0, i32), limit=limit, delta=np.array(1, i32))
    yield op("LinSpace", str(number), start=np.array(0, f32), stop=np.array(1, f32), num=limit)
    yield op("Fill", str(number), dims=np.array([number], i32), value=np.array(3, f32))
    depth, width = rng.choice((3, 10, 1000)), int(2 ** rng.uniform(6, 12))
    ids = below(rng, (width,), depth)
    on, off = np.array(1, f32), np.array(0, f32)
    for axis in (-1, 0):
        yield op("OneHot", f"{width}x{depth}/{axis}", indices=ids, depth=scalar(depth), on_value=on, off_value=off, axis=axis)
    mask = values(rng, shape(rng, rng.randint(1, 3)), bool)
    yield op("Where", f"bool/{text(mask.shape)}", condition=mask)
    x = values(rng, (int(2 ** rng.uniform(10, 16)), rng.choice((1, 3, 20))))
    split = below(rng, (x.shape[0],), 4)
    yield op("DynamicPartition", text(x.shape), data=x, partitions=split, num_partitions=4)
    order = np.random.default_rng(rng.getrandbits(32)).permutation(x.shape[0]).astype(i32)
    half = x.shape[0] // 2
    yield op("DynamicStitch", text(x.shape), indices=[order[:half], order[half:]], data=[x[:half], x[half:]])
    yield op("InvertPermutation", str(x.shape[0]), x=order)
