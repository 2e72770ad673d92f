"""Dilation2D, FractionalMaxPool, FractionalAvgPool and their gradients."""

import numpy as np

from inputs import distinct, generator, rnd
from reference import f16, f32, f64, i8, i32, i64, u8

# label: (input NHWC, filter HWC, strides (h, w), rates (h, w), padding)
DILATIONS = {
    "same_3x3": ([2, 4, 5, 3], [3, 3, 3], (1, 1), (1, 1), "SAME"),
    "valid_2x3_s2x1": ([1, 6, 5, 2], [2, 3, 2], (2, 1), (1, 1), "VALID"),
    "same_2x2_rates": ([2, 5, 4, 2], [2, 2, 2], (1, 1), (2, 3), "SAME"),
    "valid_3x1_s2_rates": ([1, 7, 6, 1], [3, 1, 1], (2, 2), (2, 1), "VALID"),
    "same_no_tap_inside": ([1, 1, 2, 2], [2, 2, 2], (1, 1), (4, 1), "SAME"),
    "same_no_images": ([0, 3, 3, 2], [2, 2, 2], (1, 1), (1, 1), "SAME"),
}
# label: (input NHWC, ratios of lines and columns)
FRACTIONS = {
    "small": ([1, 7, 5, 1], (1.4, 1.3)),
    "two_images": ([2, 13, 11, 3], (1.44, 1.73)),
    "by_three": ([1, 20, 17, 2], (3.1, 2.9)),
    "divisible": ([1, 8, 6, 2], (2.0, 3.0)),
    "one": ([2, 4, 3, 2], (1.0, 1.0)),
}


def add(s):
    """Adds the cases of this module."""
    for label, config in DILATIONS.items():
        for name, dtype in (("f32", f32), ("f64", f64), ("f16", f16), ("i32", i32), ("u8", u8), ("i8", i8)):
            dilation(s, f"{name}_{label}", dtype, *config)
    for label, config in FRACTIONS.items():
        for name, dtype in (("f32", f32), ("f64", f64), ("i32", i32), ("i64", i64)):
            fraction(s, f"{name}_{label}", dtype, *config)
    infinite = np.full([1, 2, 2, 1], -np.inf, f32)
    attrs = {"strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1], "padding": "SAME"}
    s.case("Dilation2D", "f32_infinite", audit=False, input=infinite, filter=np.zeros([2, 2, 1], f32), **attrs)


def dilation(s, label, dtype, dims, filter_dims, strides, rates, padding):
    """A dilation and its gradients."""
    attrs = {"strides": [1, *strides, 1], "rates": [1, *rates, 1], "padding": padding}
    rng = generator(f"dilation/{label}")
    low = 0 if dtype == u8 else -60
    x = (rnd(dtype, dims, low, 60) if np.issubdtype(dtype, np.integer) else rnd(dtype, dims)).draw(rng)
    w = (rnd(dtype, filter_dims, 0, 90) if np.issubdtype(dtype, np.integer) else rnd(dtype, filter_dims)).draw(rng)
    given = {"input": x, "filter": w}
    run = s.case("Dilation2D", label, audit=False, tol=None, **given, **attrs)
    if run is not None:
        dy = rnd(dtype, run.outputs[0].shape, 0, 3).draw(rng)
        for op in ("Dilation2DBackpropInput", "Dilation2DBackpropFilter"):
            s.case(op, label, audit=False, **given, out_backprop=dy, **attrs)


def fraction(s, label, dtype, dims, ratio):
    """Fractional pools with the borders that TensorFlow draws, in two runs, and their gradients."""
    whole = np.issubdtype(dtype, np.integer)
    x = (rnd(dtype, dims, -99, 99) if whole else distinct(dtype, dims)).draw(generator(f"fraction/{label}"))
    for pseudo, overlapping in ((False, False), (True, False), (False, True), (True, True)):
        name = f"{label}_{int(pseudo)}{int(overlapping)}"
        attrs = {
            "pooling_ratio": [1.0, *ratio, 1.0],
            "pseudo_random": pseudo,
            "overlapping": overlapping,
            # TensorFlow takes seeds with this only.
            "deterministic": True,
            "seed": 87654321,
            "seed2": 12,
        }
        for kind in ("Max", "Avg"):
            op = f"Fractional{kind}Pool"
            run = s.run(op, name, {"value": x} | attrs, runs=2)
            if run is None:
                continue
            s.record(op, name, run)
            y, rows, columns = run.outputs
            dy = rnd(dtype, y.shape).draw(generator(f"fraction/{name}"))
            given = {"out_backprop": dy, "row_pooling_sequence": rows, "col_pooling_sequence": columns}
            first = {"orig_input": x, "orig_output": y} if kind == "Max" else {"orig_input_tensor_shape": np.array(dims, i64)}
            s.case(f"{op}Grad", name, audit=False, **first, **given, overlapping=overlapping)
