"""Convolutions and pooling, with their gradients: images and filters of any shape."""

import numpy as np

from case import Const, op, text, values

f16, f32, f64, i32 = np.float16, np.float32, np.float64, np.int32


def cases(rng, count):
    """All cases."""
    for _ in range(count):
        for _ in range(6):
            yield from images(rng, f32)
        yield from images(rng, f64)
        yield from wide(rng)
        for _ in range(3):
            yield from depthwise(rng)
        yield from volumes(rng)
        for _ in range(3):
            yield from pools(rng)
        yield from morphology(rng)


def padded(size, window, stride, dilation, padding):
    reach = (window - 1) * dilation + 1
    return -(-size // stride) if padding == "SAME" else (size - reach) // stride + 1


def convolved(x, w, stride, dilation, padding):
    """PyTorch's convolution of images in its own order, where it pads alike."""
    if padding == "SAME" and (stride != (1, 1) or w.shape[0] % 2 == 0 or w.shape[1] % 2 == 0):
        return None

    def make(torch):
        pads = tuple((k - 1) * d // 2 if padding == "SAME" else 0 for k, d in zip(w.shape, dilation))
        images = torch.from_numpy(x).permute(0, 3, 1, 2)
        filters = torch.from_numpy(w).permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
        return lambda: torch.nn.functional.conv2d(images, filters, None, stride, pads, dilation)

    return make


def three(rng, x, w, strides, dilations, padding):
    """A convolution and both gradients."""
    out = [padded(x.shape[a], w.shape[a - 1], strides[a], dilations[a], padding) for a in (1, 2)]
    if min(out) < 1:
        return
    label = f"{x.dtype}/{text(x.shape)}*{text(w.shape)}/s{text(strides[1:3])}d{text(dilations[1:3])}{padding}"
    rule = {"strides": strides, "padding": padding, "dilations": dilations}
    dy = values(rng, (x.shape[0], *out, w.shape[3]), x.dtype)
    torch = convolved(x, w, tuple(strides[1:3]), tuple(dilations[1:3]), padding)
    yield op("Conv2D", label, torch, input=x, filter=w, **rule)
    sizes, shapes = Const(np.array(x.shape, i32)), Const(np.array(w.shape, i32))
    yield op("Conv2DBackpropInput", label, input_sizes=sizes, filter=w, out_backprop=dy, **rule)
    yield op("Conv2DBackpropFilter", label, input=x, filter_sizes=shapes, out_backprop=dy, **rule)


def images(rng, dtype):
    """Filters from 1x1 to 11x3, steps, dilations, few and many channels."""
    kh, kw = rng.choice(((1, 1), (3, 3), (3, 3), (5, 5), (7, 7), (1, 7), (3, 1), (2, 2), (11, 3), (4, 4)))
    h, w = rng.choice((7, 13, 28, 56, 90)), rng.choice((7, 14, 28, 50, 101))
    cin, cout = rng.choice((1, 3, 4, 16, 30, 64, 130)), rng.choice((1, 2, 8, 21, 64, 100))
    stride, dilation = rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 1, 2))
    if stride > 1:
        dilation = 1
    n = max(1, min(64, int(3e8 / (h * w * cin * cout * kh * kw))))
    x, filters = values(rng, (n, h, w, cin), dtype), values(rng, (kh, kw, cin, cout), dtype)
    strides = [1, stride, stride, 1]
    yield from three(rng, x, filters, strides, [1, dilation, dilation, 1], rng.choice(("SAME", "VALID")))


def wide(rng):
    """Filters as wide, or as high, as the image: those of texts and of spectra."""
    length, width, number = rng.choice((20, 56, 200)), rng.choice((32, 100, 128, 300)), rng.choice((16, 100, 128))
    height = rng.choice((2, 3, 5))
    x, w = values(rng, (16, length, width, 1)), values(rng, (height, width, 1, number))
    yield from three(rng, x, w, [1, 1, 1, 1], [1, 1, 1, 1], "VALID")
    x, w = values(rng, (16, width, length, 1)), values(rng, (width, height, 1, number))
    yield from three(rng, x, w, [1, 1, 1, 1], [1, 1, 1, 1], "VALID")
    x, w = values(rng, (16, 1, length * 4, 24)), values(rng, (1, height, 24, 32))
    yield from three(rng, x, w, [1, 1, 1, 1], [1, 1, 1, 1], "SAME")


def depthwise(rng):
    """Depthwise convolutions with multipliers, and their gradients."""
    k, h, w = rng.choice((2, 3, 3, 5)), rng.choice((7, 14, 28, 60)), rng.choice((7, 14, 29, 60))
    channels, multiplier, stride = rng.choice((1, 3, 8, 33, 64, 200)), rng.choice((1, 1, 2, 3, 4, 8)), rng.choice((1, 2))
    n = max(1, min(32, int(4e7 / (h * w * channels * multiplier * k * k))))
    x, filters = values(rng, (n, h, w, channels)), values(rng, (k, k, channels, multiplier))
    padding = rng.choice(("SAME", "VALID"))
    out = [padded(d, k, stride, 1, padding) for d in (h, w)]
    dy = values(rng, (n, *out, channels * multiplier))
    rule = {"strides": [1, stride, stride, 1], "padding": padding}
    label = f"{text(x.shape)}*{text(filters.shape)}/s{stride}{padding}"
    yield op("DepthwiseConv2dNative", label, input=x, filter=filters, **rule)
    sizes, shapes = Const(np.array(x.shape, i32)), Const(np.array(filters.shape, i32))
    yield op("DepthwiseConv2dNativeBackpropInput", label, input_sizes=sizes, filter=filters, out_backprop=dy, **rule)
    yield op("DepthwiseConv2dNativeBackpropFilter", label, input=x, filter_sizes=shapes, out_backprop=dy, **rule)


def volumes(rng):
    """Convolutions and pooling in three dimensions."""
    d, h, w = (rng.choice((4, 9, 16)) for _ in range(3))
    cin, cout, k = rng.choice((1, 3, 16)), rng.choice((4, 16)), rng.choice((1, 2, 3))
    x, filters = values(rng, (2, d, h, w, cin)), values(rng, (k, k, k, cin, cout))
    stride = rng.choice((1, 2))
    rule = {"strides": [1, stride, stride, stride, 1], "padding": "SAME"}
    dy = values(rng, (2, *(-(-s // stride) for s in (d, h, w)), cout))
    label = f"{text(x.shape)}*{text(filters.shape)}/s{stride}"
    yield op("Conv3D", label, input=x, filter=filters, **rule)
    sizes, shapes = Const(np.array(x.shape, i32)), Const(np.array(filters.shape, i32))
    yield op("Conv3DBackpropInputV2", label, input_sizes=sizes, filter=filters, out_backprop=dy, **rule)
    yield op("Conv3DBackpropFilterV2", label, input=x, filter_sizes=shapes, out_backprop=dy, **rule)
    window = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 2, 2, 1], "padding": "SAME"}
    yield op("MaxPool3D", label, input=x, **window)
    yield op("AvgPool3D", label, input=x, **window)


def pools(rng):
    """Pooling and its gradients."""
    k, stride = rng.choice(((2, 2), (3, 2), (3, 1), (5, 3), (2, 1))), None
    k, stride = k
    n, h, w, c = rng.choice((1, 4, 16)), rng.choice((14, 28, 57)), rng.choice((14, 28, 61)), rng.choice((1, 3, 16, 64, 100))
    padding = rng.choice(("SAME", "VALID"))
    for dtype in (f32, f64):
        x = values(rng, (n, h, w, c), dtype)
        rule = {"ksize": [1, k, k, 1], "strides": [1, stride, stride, 1], "padding": padding}
        label = f"{x.dtype}/{text(x.shape)}/k{k}s{stride}{padding}"
        out = [padded(d, k, stride, 1, padding) for d in (h, w)]
        dy = values(rng, (n, *out, c), dtype)

        def pooled(torch, x=x, k=k, stride=stride):
            images = torch.from_numpy(x).permute(0, 3, 1, 2)
            return lambda: torch.nn.functional.max_pool2d(images, k, stride)

        yield op("MaxPool", label, pooled if padding == "VALID" else None, input=x, **rule)
        yield op("AvgPool", label, value=x, **rule)
        yield op("AvgPoolGrad", label, orig_input_shape=Const(np.array(x.shape, i32)), grad=dy, **rule)
        y = values(rng, (n, *out, c), dtype)
        yield op("MaxPoolGrad", label, orig_input=x, orig_output=y, grad=dy, **rule)
    yield op("MaxPoolWithArgmax", label, input=x.astype(f32), **rule)


def morphology(rng):
    """Dilation2D."""
    x, w = values(rng, (2, 30, 40, rng.choice((1, 3, 16)))), None
    w = values(rng, (3, 3, x.shape[3]))
    rule = {"strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1], "padding": "SAME"}
    yield op("Dilation2D", text(x.shape), input=x, filter=w, **rule)
