"""Ops over rows: reductions, sums along an axis, softmax, sorting, segments, sets of values."""

import numpy as np

from case import Const, below, op, shape, text, values

f16, f32, f64, i32, i64, u8 = np.float16, np.float32, np.float64, np.int32, np.int64, np.uint8
REDUCTIONS = {"Sum": (f16, f32, f64, i32, i64), "Mean": (f32, f64), "Max": (f32, f64, i32), "Min": (f32, i64), "Prod": (f32, f64),
              "All": (bool,), "Any": (bool,), "EuclideanNorm": (f32,)}


def cases(rng, count):
    """All cases."""
    for _ in range(count):
        yield from reductions(rng)
        yield from along(rng)
        yield from classes(rng)
        yield from sorting(rng)
        yield from segments(rng)
        yield from sets(rng)


def ints(*numbers):
    return Const(np.array(numbers, i32))


def reductions(rng):
    """Sums, means, extremes over any set of axes."""
    for name, dtypes in REDUCTIONS.items():
        for dtype in dtypes:
            x = values(rng, shape(rng, rng.randint(1, 4)), dtype)
            axes = [a for a in range(x.ndim) if rng.random() < 0.5] or [rng.randrange(x.ndim)]

            def reduced(torch, x=x, axes=tuple(axes), name=name):
                given = torch.from_numpy(x)
                do = {"Sum": torch.sum, "Mean": torch.mean, "Max": torch.amax, "Min": torch.amin}[name]
                return lambda: do(given, axes)

            torch = reduced if name in ("Sum", "Mean", "Max", "Min") and dtype in (f32, f64) else None
            label = f"{x.dtype}/{text(x.shape)}/{text(axes)}"
            yield op(name, label, torch, input=x, axis=ints(*axes), keep_dims=rng.random() < 0.5)
    for dtype in (f32, f64, i32, u8):
        x = values(rng, shape(rng, rng.randint(1, 4)), dtype, 0, 99)
        axis = rng.randrange(x.ndim)
        label = f"{x.dtype}/{text(x.shape)}/{axis}"

        def most(torch, x=x, axis=axis):
            given = torch.from_numpy(x)
            return lambda: torch.argmax(given, axis)

        yield op("ArgMax", label, most, input=x, dimension=Const(np.array(axis, i32)))
        yield op("ArgMin", label, input=x, dimension=Const(np.array(axis, i32)))
    x = values(rng, shape(rng))
    yield op("L2Loss", text(x.shape), t=x)


def along(rng):
    """Running sums and products."""
    for name in ("Cumsum", "Cumprod", "CumulativeLogsumexp"):
        for dtype in (f32, f64) if name != "Cumsum" else (f32, f64, i32):
            x = values(rng, shape(rng, rng.randint(1, 3)), dtype)
            axis = rng.randrange(x.ndim)

            def summed(torch, x=x, axis=axis):
                given = torch.from_numpy(x)
                return lambda: torch.cumsum(given, axis)

            flags = {"exclusive": rng.random() < 0.3, "reverse": rng.random() < 0.3}
            label = f"{x.dtype}/{text(x.shape)}/{axis}/{'e' * flags['exclusive']}{'r' * flags['reverse']}"
            yield op(name, label, summed if name == "Cumsum" else None, x=x, axis=Const(np.array(axis, i32)), **flags)


def classes(rng):
    """Softmax, cross-entropy, biases, batch norm, top classes."""
    for dtype in (f32, f64):
        x = values(rng, shape(rng, 2), dtype, -4, 4)
        label = f"{x.dtype}/{text(x.shape)}"

        def soft(torch, x=x):
            given = torch.from_numpy(x)
            return lambda: torch.softmax(given, 1)

        yield op("Softmax", label, soft, logits=x)
        yield op("LogSoftmax", label, logits=x)
        dense = np.abs(x) / np.abs(x).sum(1, keepdims=True)
        yield op("SoftmaxCrossEntropyWithLogits", label, features=x, labels=dense.astype(dtype))
        ids = below(rng, (x.shape[0],), x.shape[1], i64)
        yield op("SparseSoftmaxCrossEntropyWithLogits", label, features=x, labels=ids)
        wide = values(rng, shape(rng, rng.randint(2, 4)), dtype)
        label = f"{x.dtype}/{text(wide.shape)}"
        yield op("BiasAdd", label, value=wide, bias=values(rng, wide.shape[-1:], dtype))
        yield op("BiasAddGrad", label, out_backprop=wide)
    x = values(rng, (rng.randint(2, 300), rng.choice((10, 1000, 20000))))
    ids = below(rng, (x.shape[0],), x.shape[1])
    for k in (1, 5):
        yield op("InTopKV2", f"{text(x.shape)}/{k}", predictions=x, targets=ids, k=Const(np.array(k, i32)))
    images = values(rng, (rng.choice((1, 8, 32)), rng.choice((7, 28)), rng.choice((7, 30)), rng.choice((3, 32, 100))))
    c = images.shape[3]
    ones, zeros = np.ones(c, f32), np.zeros(c, f32)
    for trains in (True, False):
        mean, variance = (np.zeros(0, f32),) * 2 if trains else (zeros, ones)
        yield op("FusedBatchNormV3", f"{text(images.shape)}/{trains}", x=images, scale=ones, offset=zeros, mean=mean, variance=variance,
                 is_training=trains)
    yield op("FusedBatchNormGradV3", text(images.shape), y_backprop=images, x=images, scale=ones, reserve_space_1=zeros,
             reserve_space_2=ones, reserve_space_3=zeros)
    yield op("LRN", text(images.shape), input=images, depth_radius=2)
    yield op("LRNGrad", text(images.shape), input_grads=images, input_image=images, output_image=images, depth_radius=2)


def sorting(rng):
    """TopK and what finds places in sorted rows."""
    for dtype in (f32, i32, f64):
        x = values(rng, (rng.choice((1, 20, 500)), rng.choice((100, 1000, 30000))), dtype, -1000, 1000)
        if x.size > 1 << 21:
            x = x[: (1 << 21) // x.shape[1]]
        k = rng.choice((1, 5, 50, x.shape[1]))

        def top(torch, x=x, k=k):
            given = torch.from_numpy(x)
            return lambda: torch.topk(given, k)

        yield op("TopKV2", f"{x.dtype}/{text(x.shape)}/{k}", top, input=x, k=Const(np.array(k, i32)))
        yield op("NthElement", f"{x.dtype}/{text(x.shape)}", input=x, n=Const(np.array(min(3, x.shape[1] - 1), i32)))
        ordered = np.sort(x, 1)
        few = x[:, : max(1, x.shape[1] // 3)].copy()
        for name in ("LowerBound", "UpperBound"):
            yield op(name, f"{x.dtype}/{text(x.shape)}", sorted_inputs=ordered, values=few)


def segments(rng):
    """Sums of rows by sorted and unsorted numbers, of some rows, and their gradients."""
    for dtype in (f32, f64, i32):
        rows, width = rng.choice((100, 3000, 100000)), rng.choice((1, 2, 16, 100, 1000))
        if rows * width > 1 << 22:
            width = max(1, (1 << 22) // rows)
        x = values(rng, (rows, width), dtype)
        number = rng.choice((1, 10, rows // 3 + 1))
        ids = np.sort(below(rng, (rows,), number))
        label = f"{x.dtype}/{text(x.shape)}/{number}"
        for name in ("SegmentSum", "SegmentMean", "SegmentMax"):
            yield op(name, label, data=x, segment_ids=ids)
        mixed = below(rng, (rows,), number)
        for name in ("UnsortedSegmentSum", "UnsortedSegmentMax"):
            yield op(name, label, data=x, segment_ids=mixed, num_segments=Const(np.array(number, i32)))
    picked = below(rng, (rows,), rows)
    x = values(rng, (rows, width))
    for name in ("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"):
        yield op(name, label, data=x, indices=picked, segment_ids=ids)
    grads = values(rng, (number, width))
    yield op("SparseSegmentMeanGrad", label, grad=grads, indices=picked, segment_ids=np.sort(below(rng, (rows,), number)),
             output_dim0=Const(np.array(rows, i32)))


def sets(rng):
    """Distinct values, counts, histograms, differences."""
    for dtype in (i32, i64, f32):
        number, kinds = int(2 ** rng.uniform(10, 18)), rng.choice((5, 1000, 1000000))
        x = values(rng, (number,), dtype, 0, kinds)
        label = f"{x.dtype}/{number}/{kinds}"
        yield op("Unique", label, x=x)
        yield op("UniqueWithCounts", label, x=x)
        yield op("ListDiff", label, x=x, y=x[::3].copy())
    x = below(rng, (number,), 1000)
    yield op("Bincount", str(number), arr=x, size=Const(np.array(1000, i32)), weights=np.zeros(0, f32))
    yield op("DenseBincount", str(number), input=x, size=Const(np.array(1000, i32)), weights=np.zeros(0, f32))
    y = values(rng, (number,))
    yield op("HistogramFixedWidth", str(number), values=y, value_range=np.array([-1, 1], f32), nbins=Const(np.array(100, i32)))
    pairs = np.sort(below(rng, (300, 40), 200), 1)
    yield op("DenseToDenseSetOperation", "300x40", set1=pairs, set2=pairs[::-1].copy(), set_operation="intersection")
