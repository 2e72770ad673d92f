"""DepthwiseConv2dNative and its two gradients, both layouts."""

import numpy as np

from cases_conv import attributes
from inputs import generator, rnd
from reference import bf16, f16, f32, f64, i32

# label: (input NHWC, filter [h, w, channels, filters of a channel], stride, padding, dilations (h, w))
CONFIGS = {
    "same_s1_3x3": ([2, 5, 6, 3], [3, 3, 3, 1], 1, "SAME", (1, 1)),
    "same_s2_3x3": ([1, 7, 6, 2], [3, 3, 2, 1], 2, "SAME", (1, 1)),
    "valid_s1_3x3": ([1, 5, 6, 2], [3, 3, 2, 1], 1, "VALID", (1, 1)),
    "valid_s2_3x2": ([2, 7, 8, 2], [3, 2, 2, 1], 2, "VALID", (1, 1)),
    "same_s1_3x3_two_each": ([1, 4, 5, 2], [3, 3, 2, 2], 1, "SAME", (1, 1)),
    "valid_s2_2x3_three_each": ([1, 5, 6, 2], [2, 3, 2, 3], 2, "VALID", (1, 1)),
    "same_s1_5x5": ([1, 6, 5, 1], [5, 5, 1, 1], 1, "SAME", (1, 1)),
    "same_s3_2x2_gaps": ([1, 7, 8, 2], [2, 2, 2, 1], 3, "SAME", (1, 1)),
    "same_s1_1x1": ([1, 3, 4, 3], [1, 1, 3, 2], 1, "SAME", (1, 1)),
    "same_larger_than_image": ([1, 2, 3, 2], [5, 5, 2, 1], 1, "SAME", (1, 1)),
    "same_s1_3x3_channels_19": ([1, 3, 3, 19], [3, 3, 19, 1], 1, "SAME", (1, 1)),
    "same_s1_3x3_columns_21": ([1, 3, 21, 1], [3, 3, 1, 1], 1, "SAME", (1, 1)),
    "same_s2_3x3_columns_40": ([1, 3, 40, 1], [3, 3, 1, 1], 2, "SAME", (1, 1)),
    "explicit_s1_3x3": ([1, 5, 4, 2], [3, 3, 2, 1], 1, ((1, 2), (0, 1)), (1, 1)),
    "explicit_s2_3x3": ([1, 6, 5, 2], [3, 3, 2, 2], 2, ((0, 1), (2, 1)), (1, 1)),
    "same_d2_3x3": ([1, 6, 7, 2], [3, 3, 2, 1], 1, "SAME", (2, 2)),
    "valid_d2x1_2x3": ([1, 6, 7, 2], [2, 3, 2, 2], 1, "VALID", (2, 1)),
    "same_s2_d3_3x3": ([1, 9, 8, 1], [3, 3, 1, 1], 2, "SAME", (3, 3)),
    "no_images": ([0, 5, 5, 2], [3, 3, 2, 1], 1, "SAME", (1, 1)),
}
IN_OTHERS = ("same_s1_3x3", "valid_s2_2x3_three_each")


def add(s):
    """Adds the cases of this module."""
    for label, config in CONFIGS.items():
        for name, dtype in (("f32", f32), ("f64", f64), ("f16", f16), ("bf16", bf16)):
            if dtype == f32 or label in IN_OTHERS:
                case(s, f"{name}_{label}", dtype, *config)


def case(s, label, dtype, dims, filter_dims, stride, padding, dilations):
    """One configuration.

    TensorFlow's CPU does not dilate: the filter is spread out by zeros, as `cases_conv.dilated` tells.
    """
    rng = generator(f"depthwise/{label}")
    attrs = attributes((stride, stride), padding, (1, 1))
    image, filt = rnd(dtype, dims).draw(rng), rnd(dtype, filter_dims, digits=2).draw(rng)
    wide = np.zeros([(n - 1) * d + 1 for n, d in zip(filter_dims, dilations)] + filter_dims[2:], dtype)
    wide[:: dilations[0], :: dilations[1]] = filt
    spread = {"ints": [1, *dilations, 1]}

    def run(op, arguments, given, taken=lambda outputs: outputs, **kinds):
        result = s.run(op, label, arguments | attrs)
        if result is None:
            return None
        result.attrs["dilations"] = spread
        for at, value in given.items():
            result.inputs[at] = value
        result.outputs = taken(result.outputs)
        s.record_twice(op, label, result, **kinds)
        return result

    op = "DepthwiseConv2dNative"
    kinds = {"images": (0,), "sizes": (), "out_images": (0,)}
    result = run(op, {"input": image, "filter": wide}, {1: filt}, **kinds)
    if result is None:
        return
    dy = rnd(dtype, result.outputs[0].shape).draw(rng)
    kinds = {"images": (2,), "sizes": (0,), "out_images": (0,)}
    sizes = np.array(dims, i32)
    arguments = {"input_sizes": sizes, "filter": wide, "out_backprop": dy}
    run(f"{op}BackpropInput", arguments, {1: filt}, **kinds)
    kinds = {"images": (0, 2), "sizes": (), "out_images": ()}
    arguments = {"input": image, "filter_sizes": np.array(wide.shape, i32), "out_backprop": dy}

    def taken(outputs):
        # Without images TensorFlow leaves the memory uninitialized.
        own = outputs[0][:: dilations[0], :: dilations[1]]
        return [own if dy.size else np.zeros_like(own)]

    run(f"{op}BackpropFilter", arguments, {1: np.array(filter_dims, i32)}, taken, **kinds)
