"""QuantizeAndDequantize, all versions."""

import dataclasses

import numpy as np

from inputs import generator, rnd
from reference import f32, f64, i32

# label: (attributes, lower and upper limit)
ONE_RANGE = {
    "default": ({}, (0, 0)),
    "given": ({"range_given": True}, (-1.5, 1.0)),
    "given_unsigned": ({"range_given": True, "signed_input": False}, (0.0, 1.75)),
    "unsigned": ({"signed_input": False}, (0, 0)),
    "four_bits": ({"num_bits": 4}, (0, 0)),
    "one_bit": ({"num_bits": 1}, (0, 0)),
    "forty_bits": ({"num_bits": 40, "range_given": True}, (-2.0, 2.0)),
    "zero_range": ({"range_given": True}, (0.0, 0.0)),
    "positive_range": ({"range_given": True}, (0.5, 1.5)),
    "negative_range": ({"range_given": True}, (-1.5, -0.25)),
}
# The same for the versions that have these attributes.
NEW_ATTRIBUTES = {
    "narrow": ({"narrow_range": True}, (0, 0)),
    "half_up": ({"round_mode": "HALF_UP"}, (0, 0)),
    "narrow_given": ({"narrow_range": True, "range_given": True, "num_bits": 5}, (-1.0, 1.0)),
    "half_up_given": ({"round_mode": "HALF_UP", "range_given": True, "num_bits": 3}, (-1.0, 1.75)),
}


def add(s):
    """Adds the cases of this module."""
    for name, dtype in (("f32", f32), ("f64", f64)):
        x = rnd(dtype, [3, 4, 5]).draw(generator("quantized"))
        x[0, 0] = [0.5, -0.5, 0.25, -1.25, 1.5]
        for label, (attrs, limits) in ONE_RANGE.items():
            own = f"{name}_{label}"
            low, high = (np.array(limit, dtype) for limit in limits)
            run = versions(s, own, x, low, high, attrs)
            first = {k: v for k, v in run.attrs.items() if k not in ("narrow_range", "axis", "round_mode")}
            first |= {"input_min": {"f": limits[0]}, "input_max": {"f": limits[1]}}
            # TensorFlow refuses to build the first version: the second one's run stands for it.
            s.record("QuantizeAndDequantize", own, dataclasses.replace(run, attrs=first, inputs=[x]))
        for label, (attrs, limits) in NEW_ATTRIBUTES.items():
            low, high = (np.array(limit, dtype) for limit in limits)
            versions(s, f"{name}_{label}", x, low, high, attrs)
        for axis, n in ((0, 3), (1, 4), (2, 5)):
            low, high = -np.linspace(0.5, 1.5, n).astype(dtype), np.linspace(1.0, 0.25, n).astype(dtype)
            for given in (False, True):
                own = f"{name}_axis_{axis}{'_given' * given}"
                versions(s, own, x, low, high, {"axis": axis, "range_given": given})
        versions(s, f"{name}_empty", np.zeros([0, 2], dtype), np.array(0, dtype), np.array(0, dtype), {})


def versions(s, label, x, low, high, attrs):
    """One configuration in the versions that take it; returns the run of the second."""
    given = {"input": x, "input_min": low, "input_max": high}
    run = None
    # TensorFlow takes limits for each channel in the third version only.
    if low.ndim == 0 or not attrs["range_given"]:
        run = s.case("QuantizeAndDequantizeV2", label, audit=False, **given, **attrs)
        s.case("QuantizeAndDequantizeV4", label, audit=False, **given, **attrs)
    if "round_mode" not in attrs:
        own = {k: v for k, v in attrs.items() if k != "num_bits"}
        own.setdefault("range_given", False)
        bits = np.array(attrs.get("num_bits", 8), i32)
        s.case("QuantizeAndDequantizeV3", label, audit=False, **given, num_bits=bits, **own)
    axis = {"axis": attrs["axis"]} if "axis" in attrs else {}
    dy = rnd(x.dtype, x.shape)
    s.case("QuantizeAndDequantizeV4Grad", label, audit=False, gradients=dy, **given, **axis)
    return run
