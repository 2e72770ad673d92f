"""QuantizeAndDequantize, all versions; QuantizeV2, Dequantize, casts of quantized numbers."""

import dataclasses

import numpy as np

from inputs import generator, rnd
from reference import f32, f64, i32, tf

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
    steps(s)
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


QUANTIZED = {"qi8": tf.qint8, "qu8": tf.quint8, "qi16": tf.qint16, "qu16": tf.quint16, "qi32": tf.qint32}
# label: (lower and upper limit, attributes)
INTO_STEPS = {
    "": (-1.0, 1.5, {}),
    "first": (-1.0, 1.5, {"mode": "MIN_FIRST"}),
    "scaled": (-1.0, 1.5, {"mode": "SCALED"}),
    "scaled_even": (-0.5, 0.25, {"mode": "SCALED", "round_mode": "HALF_TO_EVEN"}),
    "scaled_narrow": (-1.0, 1.0, {"mode": "SCALED", "narrow_range": True}),
    "positive": (0.25, 1.5, {}),
    "no_range": (0.0, 0.0, {}),
    "fine": (0.0, 0.001, {"ensure_minimum_range": 0.0001}),
}


def steps(s):
    """QuantizeV2 and Dequantize; casts and bitcasts of quantized numbers."""
    for name, dtype in QUANTIZED.items():
        for label, (low, high, attrs) in INTO_STEPS.items():
            x = np.array([[-2.0, -1.0, -0.5, -0.3, -0.001], [0.0, 0.001, 0.25, 0.7, 2.0]], f32)
            own = f"{name}_{label}" if label else name
            # A step of 32 bits is finer than a number.
            tol = (1e-6, 300) if name == "qi32" else None
            s.case("QuantizeV2", own, audit=False, tol=tol, input=x, min_range=f32(low), max_range=f32(high), T=dtype, **attrs)
            if "ensure_minimum_range" in attrs or "round_mode" in attrs:
                continue
            numbers = rnd(np.dtype(dtype.as_numpy_dtype)[0], [3, 4], *bounds(dtype)).draw(generator(own))
            numbers[0, 0], numbers[0, 1] = bounds(dtype)
            if name == "qi32":
                # TensorFlow takes the last step of 32 bits for the first one.
                numbers[0, 1] //= 2
            given = {"input": quantized(numbers, dtype), "min_range": f32(low), "max_range": f32(high)}
            s.case("Dequantize", own, audit=False, tol=(1e-5, 1e-6), **given, **attrs)
        for axis in (0, 1):
            n = (2, 3)[axis]
            low, high = -np.linspace(0.5, 1.5, n).astype(f32), np.linspace(1.0, 0.25, n).astype(f32)
            for mode in ("MIN_COMBINED", "SCALED"):
                own = f"{name}_axis_{axis}_{mode.lower()}"
                attrs = {"axis": axis, "mode": mode}
                tol = (1e-6, 300) if name == "qi32" else None
                x = rnd(f32, [2, 3, 2])
                s.case("QuantizeV2", own, audit=False, tol=tol, input=x, min_range=low, max_range=high, T=dtype, **attrs)
                numbers = rnd(np.dtype(dtype.as_numpy_dtype)[0], [2, 3, 2], *bounds(dtype)).draw(generator(own))
                given = {"input": quantized(numbers, dtype), "min_range": low, "max_range": high}
                s.case("Dequantize", own, audit=False, tol=(1e-5, 1e-6), **given, **attrs)
        numbers = np.array([-3, 0, 7, 100], np.int32)
        for other in (tf.float32, tf.int64, tf.uint8):
            short = other.name.replace("float", "f").replace("uint", "u").replace("int", "i")
            plain = numbers.astype(other.as_numpy_dtype)
            s.case("Cast", f"{short}_to_{name}", audit=False, x=np.abs(plain), DstT=dtype)
            own = quantized(np.abs(numbers).astype(np.dtype(dtype.as_numpy_dtype)[0]), dtype)
            s.case("Cast", f"{name}_to_{short}", audit=False, x=own, DstT=other)
        own = quantized(np.abs(numbers).astype(np.dtype(dtype.as_numpy_dtype)[0]), dtype)
        s.case("Bitcast", f"{name}_to_u8", audit=False, input=own, type=tf.uint8)
        s.case("Reshape", name, audit=False, tensor=own, shape=np.array([2, 2], i32))
        s.case("Identity", name, audit=False, input=own)
    numbers = quantized(np.array([0, 1, 128, 255], np.uint8), tf.quint8)
    given = {"input": numbers, "min_range": f32(-1), "max_range": f32(1)}
    s.case("Dequantize", "qu8_to_bf16", audit=False, **given, dtype=tf.bfloat16)


def bounds(dtype):
    """The first and the last step."""
    info = np.iinfo(np.dtype(dtype.as_numpy_dtype)[0])
    return info.min, info.max


def quantized(numbers, dtype):
    """Integers as quantized numbers."""
    return numbers.astype(np.dtype(dtype.as_numpy_dtype)[0]).view(dtype.as_numpy_dtype)
