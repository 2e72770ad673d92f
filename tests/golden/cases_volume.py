"""Conv3D, MaxPool3D, AvgPool3D and their gradients, both layouts."""

import dataclasses

import numpy as np

from inputs import distinct, generator, rnd
from reference import bf16, f32, f64, i32, i64
from suite import to_nchw

# label: (input NDHWC, filter DHWIO, strides, padding, dilations)
CONVOLUTIONS = {
    "valid_2x2x2": ([2, 3, 4, 5, 2], [2, 2, 2, 2, 3], (1, 1, 1), "VALID", (1, 1, 1)),
    "same_3x3x3": ([1, 4, 3, 5, 2], [3, 3, 3, 2, 2], (1, 1, 1), "SAME", (1, 1, 1)),
    "same_2x3x1_s2x1x3": ([2, 5, 4, 7, 3], [2, 3, 1, 3, 2], (2, 1, 3), "SAME", (1, 1, 1)),
    "valid_3x2x3_s2": ([1, 7, 6, 5, 1], [3, 2, 3, 1, 4], (2, 2, 2), "VALID", (1, 1, 1)),
    "valid_1x1x1": ([2, 2, 3, 2, 5], [1, 1, 1, 5, 4], (1, 1, 1), "VALID", (1, 1, 1)),
    "same_1x1x1_s2": ([1, 3, 4, 5, 2], [1, 1, 1, 2, 3], (2, 2, 2), "SAME", (1, 1, 1)),
    "same_s3_gaps": ([1, 7, 7, 8, 1], [2, 2, 2, 1, 2], (3, 3, 3), "SAME", (1, 1, 1)),
    "valid_whole_volume": ([2, 3, 2, 4, 2], [3, 2, 4, 2, 3], (1, 1, 1), "VALID", (1, 1, 1)),
    "same_filter_larger_than_volume": ([1, 2, 1, 2, 2], [3, 3, 5, 2, 2], (1, 1, 1), "SAME", (1, 1, 1)),
    "valid_d1x2x1": ([1, 3, 6, 4, 2], [2, 2, 2, 2, 2], (1, 1, 1), "VALID", (1, 2, 1)),
    "same_d2x1x3": ([2, 4, 3, 7, 1], [2, 2, 3, 1, 3], (1, 1, 1), "SAME", (2, 1, 3)),
    "same_17_channels": ([1, 2, 3, 3, 17], [2, 2, 3, 17, 9], (1, 1, 1), "SAME", (1, 1, 1)),
    "valid_no_volumes": ([0, 3, 3, 3, 2], [2, 2, 2, 2, 3], (1, 1, 1), "VALID", (1, 1, 1)),
}
# label: (input NDHWC, ksize, strides, padding)
POOLS = {
    "valid_2x2x2_s2": ([2, 4, 2, 6, 3], (2, 2, 2), (2, 2, 2), "VALID"),
    "same_2x3x2_s2": ([1, 3, 5, 4, 2], (2, 3, 2), (2, 2, 2), "SAME"),
    "same_3x3x3_s1": ([2, 3, 4, 2, 1], (3, 3, 3), (1, 1, 1), "SAME"),
    "valid_1x2x3_s1x2x1": ([1, 2, 5, 4, 2], (1, 2, 3), (1, 2, 1), "VALID"),
    "valid_s3_gaps": ([1, 7, 5, 4, 2], (2, 1, 2), (3, 3, 2), "VALID"),
    "same_33_channels": ([1, 2, 3, 3, 33], (2, 2, 2), (1, 2, 2), "SAME"),
    "valid_no_volumes": ([0, 3, 3, 3, 2], (2, 2, 2), (1, 1, 1), "VALID"),
}


def add(s):
    """Adds the cases of this module."""
    for label, config in CONVOLUTIONS.items():
        for name, dtype in (("f32", f32), ("f64", f64)):
            convolution(s, f"{name}_{label}", dtype, *config)
    for label, config in POOLS.items():
        pools(s, f"f32_{label}", f32, *config)
        dims, ksize, strides, padding = config
        attrs = {"ksize": [1, *ksize, 1], "strides": [1, *strides, 1], "padding": padding}
        x = distinct(bf16, dims)
        both(s, "MaxPool3D", f"bf16_{label}", volumes=(0,), input=x, data_format="NDHWC", **attrs)
    ties(s)
    rounded_once(s)
    generic(s)


def both(s, op, label, volumes=(), sizes=(), out=(0,), **arguments):
    """Records a case with channels last, and its twin with channels first.

    TensorFlow's CPU has the first alone: the twin is the same run in another order.
    """
    run = s.run(op, f"ndhwc_{label}", arguments)
    if run is None:
        return None
    # TensorFlow's CPU has no pools of f64 to compare with.
    s.record(op, f"ndhwc_{label}", run, audited=arguments if op.startswith("Conv") else None)
    attrs = dict(run.attrs) | {"data_format": {"s": "NCDHW"}}
    for key in ("strides", "ksize", "dilations"):
        if key in attrs:
            attrs[key] = {"ints": moved(attrs[key]["ints"])}
    inputs = [
        to_nchw(v) if i in volumes else np.array(moved(v), v.dtype) if i in sizes else v
        for i, v in enumerate(run.inputs)
    ]
    outputs = [to_nchw(v) if i in out else v for i, v in enumerate(run.outputs)]
    twin = dataclasses.replace(run, attrs=attrs, inputs=inputs, outputs=outputs)
    s.record(op, f"ncdhw_{label}", twin)
    return run


def moved(values):
    """One value for each dimension, with that of the channels second."""
    return [values[0], values[4], *values[1:4]]


def first_version(s, op, label, run, given):
    """The run as that of the first version, which TensorFlow refuses to build: the tensor stands for its sizes."""
    attrs = {k: v for k, v in run.attrs.items() if k not in ("Tshape", "data_format")}
    s.record(op, label, dataclasses.replace(run, attrs=attrs, inputs=given))


def spread(filters, dilations):
    """The filter with zeros between its taps."""
    dims = [(n - 1) * d + 1 for n, d in zip(filters.shape, dilations)]
    wide = np.zeros([*dims, *filters.shape[3:]], filters.dtype)
    wide[:: dilations[0], :: dilations[1], :: dilations[2]] = filters
    return wide


def convolution(s, label, dtype, dims, filter_dims, strides, padding, dilations):
    """A convolution and its gradients. TensorFlow's CPU has no dilations: filters with zeros stand for them."""
    rng = generator(f"volumes/{label}")
    x, w = rnd(dtype, dims).draw(rng), rnd(dtype, filter_dims).draw(rng)
    attrs = {"strides": [1, *strides, 1], "padding": padding, "data_format": "NDHWC"}
    if dilations != (1, 1, 1):
        dilated(s, label, x, w, attrs, dilations)
        return
    run = both(s, "Conv3D", label, volumes=(0,), input=x, filter=w, **attrs)
    if run is None:
        return
    dy = rnd(dtype, run.outputs[0].shape).draw(rng)
    for name, index in (("", i32), ("_i64", i64)):
        given = {"input_sizes": np.array(dims, index), "filter": w, "out_backprop": dy}
        to_x = both(s, "Conv3DBackpropInputV2", label + name, volumes=(2,), sizes=(0,), **given, **attrs)
    given = {"input": x, "filter_sizes": np.array(filter_dims, i32), "out_backprop": dy}
    to_w = both(s, "Conv3DBackpropFilterV2", label, volumes=(0, 2), out=(), **given, **attrs)
    if to_x is not None and to_w is not None:
        first_version(s, "Conv3DBackpropInput", label, to_x, [x, w, dy])
        first_version(s, "Conv3DBackpropFilter", label, to_w, [x, w, dy])


def dilated(s, label, x, w, attrs, dilations):
    """A convolution with taps apart, computed by a filter with zeros between its taps."""
    wide = spread(w, dilations)
    run = s.run("Conv3D", f"ndhwc_{label}", {"input": x, "filter": wide} | attrs)
    dy = rnd(x.dtype, run.outputs[0].shape).draw(generator(f"dilated/{label}"))
    sizes = {"input_sizes": np.array(x.shape, i32), "filter": wide, "out_backprop": dy}
    to_x = s.run("Conv3DBackpropInputV2", label, sizes | attrs)
    sizes = {"input": x, "filter_sizes": np.array(wide.shape, i32), "out_backprop": dy}
    to_w = s.run("Conv3DBackpropFilterV2", label, sizes | attrs)
    taps = to_w.outputs[0][:: dilations[0], :: dilations[1], :: dilations[2]]
    for op, run, inputs, outputs in (
        ("Conv3D", run, [x, w], run.outputs),
        ("Conv3DBackpropInputV2", to_x, [np.array(x.shape, i32), w, dy], to_x.outputs),
        ("Conv3DBackpropFilterV2", to_w, [x, np.array(w.shape, i32), dy], [np.ascontiguousarray(taps)]),
    ):
        own = dict(run.attrs) | {"dilations": {"ints": [1, *dilations, 1]}}
        s.record(op, f"ndhwc_{label}", dataclasses.replace(run, attrs=own, inputs=inputs, outputs=outputs))


def pools(s, label, dtype, dims, ksize, strides, padding):
    """All ops on one configuration; no ties."""
    attrs = {"ksize": [1, *ksize, 1], "strides": [1, *strides, 1], "padding": padding, "data_format": "NDHWC"}
    x = distinct(dtype, dims).draw(generator(f"volume_pools/{label}"))
    rng = generator(f"volume_gradients/{label}")
    run = both(s, "MaxPool3D", label, volumes=(0,), input=x, **attrs)
    if run is not None:
        y = run.outputs[0]
        given = {"orig_input": x, "orig_output": y}
        dy, ddx = rnd(dtype, y.shape).draw(rng), rnd(dtype, dims).draw(rng)
        both(s, "MaxPool3DGrad", label, volumes=(0, 1, 2), **given, grad=dy, **attrs)
        # TensorFlow refuses to take no volumes here.
        if dims[0] > 0:
            both(s, "MaxPool3DGradGrad", label, volumes=(0, 1, 2), **given, grad=ddx, **attrs)
    run = both(s, "AvgPool3D", label, volumes=(0,), input=x, **attrs)
    if run is not None:
        dy = rnd(dtype, run.outputs[0].shape).draw(rng)
        given = {"orig_input_shape": np.array(dims, i32), "grad": dy}
        both(s, "AvgPool3DGrad", label, volumes=(1,), sizes=(0,), **given, **attrs)


def rounded_once(s):
    """Means of elements whose sums are exact: a second rounding is an error of more than this tolerance."""
    for label, dims, ksize, strides in (
        ("s1", [1, 3, 6, 2, 1], (3, 3, 3), (1, 1, 1)),
        ("s2x1x3", [1, 5, 7, 6, 2], (3, 2, 3), (2, 1, 3)),
    ):
        for padding in ("SAME", "VALID"):
            if padding == "VALID" and label == "s1":
                continue
            attrs = {"ksize": [1, *ksize, 1], "strides": [1, *strides, 1], "padding": padding, "data_format": "NDHWC"}
            x = (np.arange(np.prod(dims)).reshape(dims) + 1 / 1024).astype(f32)
            name = f"f32_rounded_once_{label}_{padding.lower()}"
            run = s.case("AvgPool3D", name, tol=(7e-8, 0.0), audit=False, input=x, **attrs)
            if run is not None:
                y = run.outputs[0]
                given = {"orig_input_shape": np.array(dims, i32), "grad": (y * 0 + 1).astype(f32)}
                s.case("AvgPool3DGrad", name, tol=(2e-7, 0.0), audit=False, **given, **attrs)


def ties(s):
    """Windows with several largest elements, of which all get the gradient, and of which the first is taken again."""
    attrs = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 1, 2, 1, 1], "padding": "SAME", "data_format": "NDHWC"}
    x = rnd(f32, [2, 3, 4, 4, 2], -2, 2, 0).draw(generator("volume_ties"))
    near = x.copy()
    near[0, 0] += 4e-6
    near[0, 1] += 4e-5
    for label, x in (("ties", x), ("near_ties", near)):
        run = both(s, "MaxPool3D", f"f32_{label}", volumes=(0,), input=x, **attrs)
        y = run.outputs[0]
        given = {"orig_input": x, "orig_output": y}
        both(s, "MaxPool3DGrad", f"f32_{label}", volumes=(0, 1, 2), **given, grad=rnd(f32, y.shape), **attrs)
        both(s, "MaxPool3DGradGrad", f"f32_{label}", volumes=(0, 1, 2), **given, grad=rnd(f32, x.shape), **attrs)


# label: (dimensions of the input with channels last, of the filter, strides, batch dimensions, further attributes)
GENERIC = {
    "images": ([2, 5, 4, 3], [3, 2, 3, 2], [1, 1, 1, 1], 1, {}),
    "images_s2_d1": ([1, 7, 6, 2], [3, 3, 2, 3], [1, 2, 2, 1], 1, {"dilations": [1, 1, 1, 1]}),
    "images_d2": ([1, 7, 6, 2], [3, 2, 2, 3], [1, 1, 1, 1], 1, {"dilations": [1, 2, 3, 1]}),
    "images_two_batch_dims": ([2, 3, 4, 4, 2], [2, 2, 2, 3], [1, 1, 1, 1], 2, {}),
    "volumes": ([2, 3, 4, 5, 2], [2, 2, 3, 2, 3], [1, 1, 2, 1, 1], 1, {}),
    "volumes_three_batch_dims": ([2, 1, 2, 3, 3, 4, 2], [2, 2, 2, 2, 1], [1, 1, 1, 1, 1], 3, {}),
    "no_images": ([0, 4, 4, 2], [2, 2, 2, 3], [1, 1, 1, 1], 1, {}),
}


def generic(s):
    """Conv, of images and volumes, and its twin with channels before them."""
    for label, (dims, filter_dims, strides, batch, more) in GENERIC.items():
        for name, dtype in (("f32", f32), ("f64", f64)):
            for padding in ("SAME", "VALID"):
                own = f"{name}_{label}_{padding.lower()}"
                attrs = {"strides": strides, "padding": padding, "batch_dims": batch} | more
                given = {"input": rnd(dtype, dims), "filter": rnd(dtype, filter_dims)}
                run = s.case("Conv", own, **given, **attrs)
                if run is not None:
                    channels_first(s, own, run, batch)


def channels_first(s, label, run, batch):
    """The same run with the channels behind the batch."""
    x, w = run.inputs
    first = {"data_format": {"s": "CHANNELS_FIRST"}}
    for key in ("strides", "dilations"):
        values = run.attrs[key]["ints"]
        if values:
            first[key] = {"ints": [values[0], values[-1], *values[1:-1]]}
    twin = dataclasses.replace(
        run,
        attrs=dict(run.attrs) | first,
        inputs=[np.ascontiguousarray(np.moveaxis(x, -1, batch)), w],
        outputs=[np.ascontiguousarray(np.moveaxis(run.outputs[0], -1, batch))],
    )
    s.record("Conv", f"{label}_channels_first", twin)
