"""Conv2D and its two gradients, both layouts."""

import numpy as np

from inputs import generator, rnd
from kinds import ANY
from reference import bf16, f16, f32, f64, i32

# label: (input NHWC, filter HWIO, strides (h, w), padding, dilations (h, w)); explicit padding is
# ((top, bottom), (left, right)).
CONFIGS = {
    "valid_s1_1x1": ([1, 4, 5, 3], [1, 1, 3, 2], (1, 1), "VALID", (1, 1)),
    "same_s1_1x1": ([2, 3, 3, 2], [1, 1, 2, 5], (1, 1), "SAME", (1, 1)),
    "same_s2_1x1": ([2, 5, 6, 2], [1, 1, 2, 3], (2, 2), "SAME", (1, 1)),
    "valid_s2_1x1": ([1, 6, 5, 3], [1, 1, 3, 4], (2, 2), "VALID", (1, 1)),
    "valid_s1_3x3": ([1, 5, 6, 2], [3, 3, 2, 3], (1, 1), "VALID", (1, 1)),
    "same_s1_3x3": ([2, 5, 5, 2], [3, 3, 2, 4], (1, 1), "SAME", (1, 1)),
    "same_s2_3x3": ([1, 7, 6, 3], [3, 3, 3, 2], (2, 2), "SAME", (1, 1)),
    "valid_s2_3x3": ([2, 7, 8, 2], [3, 3, 2, 3], (2, 2), "VALID", (1, 1)),
    "same_s3_3x3": ([1, 8, 10, 1], [3, 3, 1, 2], (3, 3), "SAME", (1, 1)),
    "same_s2x1_3x3": ([1, 7, 5, 2], [3, 3, 2, 2], (2, 1), "SAME", (1, 1)),
    "valid_s1x2_3x2": ([1, 6, 7, 2], [3, 2, 2, 3], (1, 2), "VALID", (1, 1)),
    "same_s1_5x5": ([2, 7, 7, 1], [5, 5, 1, 4], (1, 1), "SAME", (1, 1)),
    "same_s2_5x5": ([1, 9, 8, 3], [5, 5, 3, 2], (2, 2), "SAME", (1, 1)),
    "valid_s1_5x5": ([1, 8, 7, 2], [5, 5, 2, 2], (1, 1), "VALID", (1, 1)),
    "same_s1_1x7": ([1, 3, 9, 2], [1, 7, 2, 2], (1, 1), "SAME", (1, 1)),
    "same_s1_7x1": ([1, 9, 3, 2], [7, 1, 2, 2], (1, 1), "SAME", (1, 1)),
    "valid_s2_1x7": ([1, 3, 11, 1], [1, 7, 1, 3], (2, 2), "VALID", (1, 1)),
    "same_s1_2x2": ([1, 4, 5, 2], [2, 2, 2, 3], (1, 1), "SAME", (1, 1)),
    "same_s2_2x2": ([1, 5, 5, 2], [2, 2, 2, 3], (2, 2), "SAME", (1, 1)),
    "same_s1_4x4": ([1, 6, 6, 1], [4, 4, 1, 2], (1, 1), "SAME", (1, 1)),
    "same_filter_larger_than_image": ([1, 2, 3, 2], [5, 5, 2, 2], (1, 1), "SAME", (1, 1)),
    "same_s4_2x2_gaps": ([1, 9, 9, 2], [2, 2, 2, 2], (4, 4), "SAME", (1, 1)),
    "valid_s3_2x2_gaps": ([1, 8, 8, 1], [2, 2, 1, 3], (3, 3), "VALID", (1, 1)),
    "valid_whole_image": ([3, 4, 4, 2], [4, 4, 2, 5], (1, 1), "VALID", (1, 1)),
    "same_one_pixel": ([1, 1, 1, 3], [3, 3, 3, 2], (1, 1), "SAME", (1, 1)),
    "explicit_s1_3x3": ([1, 5, 4, 2], [3, 3, 2, 3], (1, 1), ((1, 2), (0, 1)), (1, 1)),
    "explicit_s2_3x3": ([2, 6, 5, 2], [3, 3, 2, 2], (2, 2), ((0, 1), (2, 1)), (1, 1)),
    "explicit_wide_2x2": ([1, 3, 3, 1], [3, 3, 1, 2], (1, 1), ((2, 2), (2, 0)), (1, 1)),
    "valid_d2_3x3": ([1, 7, 8, 2], [3, 3, 2, 3], (1, 1), "VALID", (2, 2)),
    "same_d2_3x3": ([1, 6, 7, 2], [3, 3, 2, 2], (1, 1), "SAME", (2, 2)),
    "same_d1x3_3x3": ([1, 5, 9, 2], [3, 3, 2, 2], (1, 1), "SAME", (1, 3)),
    "same_d2_5x5": ([1, 9, 9, 1], [5, 5, 1, 2], (1, 1), "SAME", (2, 2)),
    "valid_d3_2x2": ([2, 6, 6, 2], [2, 2, 2, 2], (1, 1), "VALID", (3, 3)),
    "explicit_d2_3x3": ([1, 5, 6, 2], [3, 3, 2, 2], (1, 1), ((2, 1), (1, 3)), (2, 2)),
    "same_s2_d2_3x3": ([1, 9, 8, 2], [3, 3, 2, 2], (2, 2), "SAME", (2, 2)),
    "same_s1_3x3_17_channels": ([1, 3, 4, 17], [3, 3, 17, 5], (1, 1), "SAME", (1, 1)),
    "same_s1_3x3_to_33_channels": ([1, 3, 3, 3], [3, 3, 3, 33], (1, 1), "SAME", (1, 1)),
    "same_s1_5x5_mnist": ([1, 14, 14, 1], [5, 5, 1, 8], (1, 1), "SAME", (1, 1)),
    "same_s1_5x5_8_to_16": ([1, 7, 7, 8], [5, 5, 8, 16], (1, 1), "SAME", (1, 1)),
    "valid_s2_3x3_stem": ([1, 23, 23, 3], [3, 3, 3, 4], (2, 2), "VALID", (1, 1)),
    "same_no_images": ([0, 5, 5, 2], [3, 3, 2, 3], (1, 1), "SAME", (1, 1)),
}
IN_F64 = (
    "same_s1_1x1",
    "same_s1_3x3",
    "same_s2_5x5",
    "valid_s2_3x3",
    "explicit_s2_3x3",
    "same_d2_3x3",
    "same_s1_1x7",
    "valid_s1_5x5",
    "valid_s3_2x2_gaps",
    "same_no_images",
)


# Convolutions whose filter has the channels of one of several groups.
IN_GROUPS = {
    "groups_2_same_3x3": ([2, 5, 4, 4], [3, 3, 2, 6], (1, 1), "SAME", (1, 1)),
    "groups_3_valid_s2_3x2": ([1, 7, 6, 6], [3, 2, 2, 3], (2, 2), "VALID", (1, 1)),
    "groups_of_one_channel": ([1, 4, 5, 5], [2, 2, 1, 10], (1, 1), "SAME", (1, 1)),
    "groups_4_explicit_s2": ([2, 6, 5, 8], [3, 3, 2, 4], (2, 2), ((0, 1), (2, 1)), (1, 1)),
    "groups_2_1x1": ([1, 3, 3, 34], [1, 1, 17, 6], (1, 1), "VALID", (1, 1)),
    "groups_2_no_images": ([0, 5, 5, 4], [3, 3, 2, 2], (1, 1), "SAME", (1, 1)),
}

# Filters that are larger than their image by less than two strides, without padding: the output has no pixels. The last
# list is the output's shape.
TOO_LARGE = {
    "columns": ([1, 2, 2, 2], [1, 3, 2, 3], (1, 1), [1, 2, 0, 3]),
    "columns_s2": ([2, 3, 1, 2], [2, 4, 2, 1], (2, 2), [2, 1, 0, 1]),
    "lines": ([1, 2, 4, 1], [3, 2, 1, 2], (1, 1), [1, 0, 3, 2]),
}

IN_HALVES = ("same_s1_1x1", "same_s2_3x3", "valid_s1_5x5", "explicit_s2_3x3", "same_no_images")


def add(s):
    """Adds the cases of this module."""
    for label, config in CONFIGS.items():
        forward(s, f"f32_{label}", f32, *config)
        if label in IN_F64:
            forward(s, f"f64_{label}", f64, *config)
        if label in IN_HALVES:
            # TensorFlow's own sums are in half precision: results computed in f32 replace them.
            forward(s, f"f16_{label}", f16, *config)
            forward(s, f"bf16_{label}", bf16, *config)
            whole(s, f"i32_{label}", *config)
    for label, config in IN_GROUPS.items():
        for name, dtype in (("f32", f32), ("f64", f64), ("f16", f16), ("bf16", bf16)):
            forward(s, f"{name}_{label}", dtype, *config)
        whole(s, f"i32_{label}", *config)
    for label, (dims, filter_dims, strides, out_dims) in TOO_LARGE.items():
        for name, dtype in (("f32", f32), ("f64", f64), ("f16", f16)):
            given = (f"{name}_too_large_{label}", dims, filter_dims, attributes(strides, "VALID", (1, 1)))
            plain(s, *given, *drawn(label, dtype, dims, filter_dims, out_dims))
    for name in ("f32", "f64", "f16", "i8", "i32", "u16"):
        patches(s, name)


def whole(s, label, dims, filter_dims, strides, padding, dilations):
    """One configuration of integers, without gradients."""
    s.case_twice(
        "Conv2D",
        label,
        images=(0,),
        input=rnd(i32, dims, -99, 99),
        filter=rnd(i32, filter_dims, -99, 99),
        **attributes(strides, padding, dilations),
    )


def patches(s, name):
    """The windows of images."""
    for label, dims, size, strides, rates, padding in (
        ("same", [2, 5, 4, 3], (3, 2), (1, 1), (1, 1), "SAME"),
        ("valid", [1, 6, 7, 2], (2, 3), (2, 1), (1, 2), "VALID"),
        ("gaps", [1, 7, 7, 1], (2, 2), (3, 3), (1, 1), "VALID"),
        ("same_rates", [1, 5, 6, 1], (3, 3), (1, 2), (2, 2), "SAME"),
        ("no_images", [0, 4, 4, 2], (2, 2), (1, 1), (1, 1), "SAME"),
    ):
        images = rnd(ANY[name], dims, 0, 9)
        windows = {"ksizes": [1, *size, 1], "strides": [1, *strides, 1], "rates": [1, *rates, 1]}
        s.case("ExtractImagePatches", f"{name}_{label}", images=images, padding=padding, **windows)


def attributes(strides, padding, dilations):
    """The attributes in NHWC order."""
    attrs = {"strides": [1, *strides, 1], "dilations": [1, *dilations, 1], "data_format": "NHWC"}
    if isinstance(padding, str):
        return attrs | {"padding": padding}
    (top, bottom), (left, right) = padding
    return attrs | {"padding": "EXPLICIT", "explicit_paddings": [0, 0, top, bottom, left, right, 0, 0]}


def forward(s, label, dtype, dims, filter_dims, strides, padding, dilations):
    """One configuration as Conv2D; its output's shape is then the gradients' input."""
    attrs = attributes(strides, padding, dilations)
    run = s.case_twice(
        "Conv2D", label, images=(0,), input=rnd(dtype, dims), filter=rnd(dtype, filter_dims), **attrs
    )
    if run is None:
        return
    values = drawn(label, dtype, dims, filter_dims, run.outputs[0].shape)
    if dims[3] != filter_dims[2]:
        grouped(s, label, dims, filter_dims, attrs, *values)
    elif dilations == (1, 1):
        plain(s, label, dims, filter_dims, attrs, *values)
    else:
        dilated(s, label, dims, strides, padding, dilations, *values)


def drawn(label, dtype, dims, filter_dims, out_dims):
    """A filter, images, and the output's gradient."""
    rng = generator(f"Conv2D gradients/{label}")
    out = rnd(dtype, out_dims).draw(rng)
    return rnd(dtype, filter_dims).draw(rng), rnd(dtype, dims).draw(rng), out


def plain(s, label, dims, filter_dims, attrs, filt, image, out):
    """Both gradients, as TensorFlow computes them."""
    s.case_twice(
        "Conv2DBackpropInput",
        label,
        images=(2,),
        sizes=(0,),
        input_sizes=np.array(dims, i32),
        filter=filt,
        out_backprop=out,
        **attrs,
    )
    arguments = {"input": image, "filter_sizes": np.array(filter_dims, i32), "out_backprop": out, **attrs}
    run = s.run("Conv2DBackpropFilter", label, arguments)
    if run is not None and not out.size:
        # TensorFlow leaves the memory uninitialized.
        run.outputs = [np.zeros(filter_dims, filt.dtype)]
    if run is not None:
        s.record_twice("Conv2DBackpropFilter", label, run, (0, 2), (), (), arguments if out.size else None)


def grouped(s, label, dims, filter_dims, attrs, filt, image, out):
    """The gradients of a convolution in groups.

    TensorFlow's CPU has none of them: each group is computed as a convolution of its own, and the results are put side
    by side.
    """
    groups = dims[3] // filter_dims[2]
    parts = [np.split(x, groups, axis=3) for x in (filt, image, out)]
    sizes = [np.array([*dims[:3], filter_dims[2]], i32), np.array([*filter_dims[:3], filter_dims[3] // groups], i32)]

    def joined(op, arguments):
        runs = [s.run(op, f"{label}/{i}", arguments(*part) | attrs) for i, part in enumerate(zip(*parts))]
        if None in runs:
            return None
        runs[0].outputs = [np.concatenate([run.outputs[0] for run in runs], axis=3)]
        return runs[0]

    run = joined(
        "Conv2DBackpropInput", lambda f, _, o: {"input_sizes": sizes[0], "filter": f, "out_backprop": o}
    )
    if run is not None:
        run.inputs = [np.array(dims, i32), filt, out]
        s.record_twice("Conv2DBackpropInput", label, run, (2,), (0,), (0,))
    run = joined(
        "Conv2DBackpropFilter", lambda _, x, o: {"input": x, "filter_sizes": sizes[1], "out_backprop": o}
    )
    if run is not None:
        run.inputs = [image, np.array(filter_dims, i32), out]
        s.record_twice("Conv2DBackpropFilter", label, run, (0, 2), (), ())


def dilated(s, label, dims, strides, padding, dilations, filt, image, out):
    """The gradients of a dilated convolution.

    TensorFlow's CPU has them for a dilation of one only. Dilating is the same as spreading the
    filter out with zeros between its elements, so they are computed with the spread filter, and the
    elements that are zero by construction are taken out of the filter's gradient again.
    """
    wide = np.zeros(
        [(n - 1) * d + 1 for n, d in zip(filt.shape, dilations)] + list(filt.shape[2:]), filt.dtype
    )
    wide[:: dilations[0], :: dilations[1]] = filt
    attrs = attributes(strides, padding, (1, 1))
    spread = {"ints": [1, *dilations, 1]}

    run = s.run(
        "Conv2DBackpropInput",
        label,
        {"input_sizes": np.array(dims, i32), "filter": wide, "out_backprop": out, **attrs},
    )
    if run is not None:
        run.attrs["dilations"] = spread
        run.inputs[1] = filt
        s.record_twice("Conv2DBackpropInput", label, run, (2,), (0,), (0,))

    run = s.run(
        "Conv2DBackpropFilter",
        label,
        {"input": image, "filter_sizes": np.array(wide.shape, i32), "out_backprop": out, **attrs},
    )
    if run is not None:
        run.attrs["dilations"] = spread
        run.inputs[1] = np.array(filt.shape, i32)
        run.outputs = [run.outputs[0][:: dilations[0], :: dilations[1]]]
        s.record_twice("Conv2DBackpropFilter", label, run, (0, 2), (), ())
