"""Convolutions, pooling and resizing of images, with their gradients."""

from model import FLOAT, Refused
from registry import family, op
from rules import EXACT, SUMMED, Rule

IMAGE = FLOAT + ("i32",)


def image(g, kind, least=1):
    """A batch of small images."""

    def fits(w):
        return len(w.dims) == 4 and 0 not in w.dims and min(w.dims[1:3]) >= least and w.dims[3] <= 4

    found = [w for w in g.wires() if w.kind == kind and w.finite and fits(w)]
    if found and g.chance(0.7):
        return g.one(*found)
    return g.fresh(
        kind, (g.integer(1, 2), g.integer(max(2, least), 5), g.integer(max(2, least), 4), g.integer(1, 3))
    )


def windows(g, explicit=True):
    """Strides, dilations and padding: strides and dilations exclude each other, as in TensorFlow."""
    strides = [1, g.one(1, 1, 2), g.one(1, 1, 2), 1]
    settings = {"strides": strides, "padding": g.one("SAME", "VALID")}
    if explicit and g.chance(0.25):
        settings["padding"] = "EXPLICIT"
        settings["explicit_paddings"] = [0, 0] + [g.integer(0, 2) for _ in range(4)] + [0, 0]
    return settings


def spans(g, x, padding):
    """Height and width of a window that fits into the image."""
    most = [min(3, d) for d in x.dims[1:3]]
    return g.integer(1, most[0]), g.integer(1, most[1])


def produced(g, x, size, settings, dilations=(1, 1)):
    """Height and width of the result of windows of that size."""
    out = []
    pads = settings.get("explicit_paddings", [0] * 8)
    for i in (0, 1):
        d, stride = x.dims[1 + i], settings["strides"][1 + i]
        span = (size[i] - 1) * dilations[i] + 1
        if settings["padding"] == "SAME":
            out.append(-(-d // stride))
        else:
            out.append((d + pads[2 + 2 * i] + pads[3 + 2 * i] - span) // stride + 1)
    if min(out) < 1:
        raise Refused("window")
    return out


def filters(g, x, depthwise=False):
    size = spans(g, x, None)
    return size, (*size, x.dims[3], g.integer(1, 2 if depthwise else 3))


@op("Conv2D", SUMMED, weight=1.5)
def conv_2d(g):
    x = image(g, g.kind(IMAGE))
    settings = windows(g)
    size, dims = filters(g, x)
    if settings["strides"] == [1, 1, 1, 1] and g.chance(0.3):
        settings["dilations"] = [1, g.integer(1, 2), g.integer(1, 2), 1]
    produced(g, x, size, settings, settings.get("dilations", [1, 1, 1, 1])[1:3])
    g.add("Conv2D", input=x, filter=g.wire(x.kind, dims=dims), **settings)


@op("DepthwiseConv2dNative", SUMMED)
def depthwise_conv_2d(g):
    x = image(g, g.kind(FLOAT))
    settings = windows(g)
    settings["strides"][2] = settings["strides"][1]
    size, dims = filters(g, x, depthwise=True)
    produced(g, x, size, settings)
    g.add("DepthwiseConv2dNative", input=x, filter=g.wire(x.kind, dims=dims), **settings)


def backprop_parts(g, kinds, depthwise):
    """An image, the shape of a filter, a gradient of the result, and the settings."""
    x = image(g, g.kind(kinds))
    settings = windows(g)
    if depthwise:
        settings["strides"][2] = settings["strides"][1]
    size, dims = filters(g, x, depthwise)
    height, width = produced(g, x, size, settings)
    channels = dims[2] * dims[3] if depthwise else dims[3]
    grad = g.wire(x.kind, dims=(x.dims[0], height, width, channels))
    return x, dims, grad, settings


@family("Conv2DBackpropInput DepthwiseConv2dNativeBackpropInput", SUMMED, weight=0.8)
def backprop_input(g, name):
    x, dims, grad, settings = backprop_parts(g, FLOAT, name.startswith("Depthwise"))
    kernel = g.wire(x.kind, dims=dims)
    g.add(name, input_sizes=g.host(x.dims, known=True), filter=kernel, out_backprop=grad, **settings)


# TensorFlow adds halves up as halves, one image place after the other.
@family("Conv2DBackpropFilter DepthwiseConv2dNativeBackpropFilter", Rule("summed", 3), weight=0.8)
def backprop_filter(g, name):
    x, dims, grad, settings = backprop_parts(g, FLOAT, name.startswith("Depthwise"))
    g.add(name, input=x, filter_sizes=g.host(dims, known=True), out_backprop=grad, **settings)


def pooling(g, x, explicit=False):
    settings = windows(g, explicit)
    size = spans(g, x, None)
    return settings | {"ksize": [1, *size, 1]}, produced(g, x, size, settings)


@op("MaxPool", EXACT)
def max_pool(g):
    x = image(g, g.kind(FLOAT))
    g.add("MaxPool", input=x, **pooling(g, x)[0])


@op("MaxPoolV2", EXACT, weight=0.5)
def max_pool_v2(g):
    x = image(g, g.kind(FLOAT))
    settings = pooling(g, x)[0]
    ksize, strides = g.host(settings["ksize"]), g.host(settings["strides"])
    g.add("MaxPoolV2", input=x, ksize=ksize, strides=strides, padding=settings["padding"])


@op("AvgPool", SUMMED)
def avg_pool(g):
    x = image(g, g.kind(FLOAT))
    g.add("AvgPool", value=x, **pooling(g, x)[0])


@op("AvgPoolGrad", SUMMED, weight=0.7)
def avg_pool_grad(g):
    x = image(g, g.kind(FLOAT))
    settings, (height, width) = pooling(g, x)
    grad = g.wire(x.kind, dims=(x.dims[0], height, width, x.dims[3]))
    g.add("AvgPoolGrad", orig_input_shape=g.host(x.dims, known=True), grad=grad, **settings)


@family("MaxPoolGrad MaxPoolGradV2", SUMMED, weight=0.6, needs=["MaxPool"])
def max_pool_grad(g, name):
    x = image(g, g.kind(FLOAT))
    settings, _ = pooling(g, x)
    y = g.add("MaxPool", input=x, **settings)[0]
    if name == "MaxPoolGradV2":
        settings |= {key: g.host(settings[key]) for key in ("ksize", "strides")}
    g.add(name, orig_input=x, orig_output=y, grad=g.like(y), **settings)


@op("MaxPoolGradGrad", EXACT, weight=0.4, needs=["MaxPool"])
def max_pool_grad_grad(g):
    """The gradient is a constant: a buffer that TensorFlow may reuse it clears before it reads it."""
    x = image(g, g.kind(FLOAT))
    settings, _ = pooling(g, x)
    y = g.add("MaxPool", input=x, **settings)[0]
    grad = g.source(g.numbers(x.kind, x.dims), x.kind, fed=False)
    g.add("MaxPoolGradGrad", orig_input=x, orig_output=y, grad=grad, **settings)


@op("MaxPoolWithArgmax", EXACT, weight=0.5)
def max_pool_with_argmax(g):
    x = image(g, g.kind(FLOAT))
    settings, _ = pooling(g, x)
    g.add("MaxPoolWithArgmax", input=x, include_batch_in_index=g.chance(0.5), **settings)


def resized(g, x):
    half = g.chance(0.4)
    return {"align_corners": not half and g.chance(0.4), "half_pixel_centers": half}


@op("ResizeBilinear", SUMMED, weight=0.5)
def resize_bilinear(g):
    """Whatever the images' type, the result is f32."""
    x = image(g, g.kind(FLOAT + ("i32", "u8", "i8", "i16", "u16", "i64")))
    size = g.host([g.integer(1, 5), g.integer(1, 5)])
    g.add("ResizeBilinear", images=x, size=size, **resized(g, x))


@op("ResizeBilinearGrad", Rule("summed", single=True), weight=0.4)
def resize_bilinear_grad(g):
    grad = image(g, "f32")
    kind = g.kind(FLOAT)
    x = g.wire(kind, dims=(grad.dims[0], g.integer(1, 5), g.integer(1, 4), grad.dims[3]))
    g.add("ResizeBilinearGrad", grads=grad, original_image=x, **resized(g, x))


@op("ResizeNearestNeighbor", EXACT, weight=0.5)
def resize_nearest(g):
    x = image(g, g.kind(FLOAT + ("i32", "u8", "i8", "i16", "u16", "i64")))
    size = g.host([g.integer(1, 5), g.integer(1, 5)])
    g.add("ResizeNearestNeighbor", images=x, size=size, **resized(g, x))


@op("ResizeNearestNeighborGrad", SUMMED, weight=0.4)
def resize_nearest_grad(g):
    grad = image(g, g.kind(FLOAT + ("i32", "u8", "i8")))
    size = g.host([g.integer(1, 4), g.integer(1, 4)])
    g.add("ResizeNearestNeighborGrad", grads=grad, size=size, **resized(g, grad))
