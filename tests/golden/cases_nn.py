"""Activations, biases, softmax and its losses."""

import numpy as np

from inputs import rnd
from reference import bf16, f16, f32, f64, i32, i64

FLOAT = {"f32": f32, "f64": f64, "f16": f16, "bf16": bf16}
ACTIVATIONS = {"Relu": (-3, 3), "Relu6": (-3, 9), "Elu": (-4, 3), "LeakyRelu": (-3, 3)}
SHAPES = {"scalar": [], "empty": [0, 3], "odd_257": [257], "rank_4": [2, 3, 3, 2]}


def add(s):
    """Adds the cases of this module."""
    activations(s)
    biases(s)
    softmax(s)
    losses(s)
    fake_quant(s)
    temporal(s)


def activations(s):
    """Relu, Relu6, Elu, LeakyRelu and their gradients."""
    for op, (lo, hi) in ACTIVATIONS.items():
        # EluGrad takes the activations, the others the features.
        given = "outputs" if op == "Elu" else "features"
        extra = {"alpha": 0.2} if op == "LeakyRelu" else {}
        floor = -0.98 if op == "Elu" else lo
        for name, dtype in FLOAT.items():
            s.case(op, f"{name}_4x5", features=rnd(dtype, [4, 5], lo, hi), **extra)
            s.case(
                f"{op}Grad",
                f"{name}_4x5",
                gradients=rnd(dtype, [4, 5]),
                **{given: rnd(dtype, [4, 5], floor, hi)},
                **extra,
            )
        for label, dims in SHAPES.items():
            s.case(op, f"f32_{label}", features=rnd(f32, dims, lo, hi), **extra)
            s.case(
                f"{op}Grad",
                f"f32_{label}",
                gradients=rnd(f32, dims),
                **{given: rnd(f32, dims, floor, hi)},
                **extra,
            )
        for name in ("f32", "f64"):
            kinks = np.array([0, -0.0, 6, -1e-3, 1e-3, 6.001, np.inf, -np.inf], FLOAT[name])
            s.case(op, f"{name}_kinks", features=kinks, **extra)
            kinks = np.array([0, -0.0, 6, -1e-3, 1e-3, 6.001], FLOAT[name])
            s.case(
                f"{op}Grad",
                f"{name}_kinks",
                gradients=np.array([1, 2, 3, 4, 5, 6], FLOAT[name]),
                **{given: kinks},
                **extra,
            )
    for name in ("f32", "f64"):
        for alpha in (0.0, 0.01, 1.0, 1.5):
            label = f"{name}_alpha_{alpha}".replace(".", "_")
            s.case("LeakyRelu", label, features=rnd(FLOAT[name], [7]), alpha=alpha)
            s.case(
                "LeakyReluGrad",
                label,
                gradients=rnd(FLOAT[name], [7]),
                features=rnd(FLOAT[name], [7]),
                alpha=alpha,
            )
    for name, dtype in (("i32", i32), ("i64", i64)):
        for op in ("Relu", "Relu6"):
            s.case(op, f"{name}_7", features=rnd(dtype, [7], -9, 9))


def biases(s):
    """BiasAdd and BiasAddGrad in both layouts."""
    for label, dims in (
        ("2x3", [2, 3]),
        ("1x1", [1, 1]),
        ("2x4x3", [2, 4, 3]),
        ("2x3x4x5", [2, 3, 4, 5]),
        ("2x5x5x1", [2, 5, 5, 1]),
        ("2x2x3x2x3", [2, 2, 3, 2, 3]),
        ("0x3x3x2", [0, 3, 3, 2]),
        ("2x0x3x2", [2, 0, 3, 2]),
    ):
        for name in ("f32", "f64"):
            s.case_twice(
                "BiasAdd",
                f"{name}_{label}",
                images=(0,),
                value=rnd(FLOAT[name], dims),
                bias=rnd(FLOAT[name], dims[-1:]),
            )
            s.case("BiasAddV1", f"{name}_{label}", value=rnd(FLOAT[name], dims), bias=rnd(FLOAT[name], dims[-1:]))
            s.case_twice(
                "BiasAddGrad",
                f"{name}_{label}",
                images=(0,),
                out_images=(),
                out_backprop=rnd(FLOAT[name], dims),
            )
    for name, dtype in (("f16", f16), ("bf16", bf16), ("i32", i32), ("i64", i64)):
        s.case_twice(
            "BiasAdd",
            f"{name}_2x3x3x4",
            images=(0,),
            value=rnd(dtype, [2, 3, 3, 4], -9, 9),
            bias=rnd(dtype, [4], -9, 9),
        )
        s.case_twice(
            "BiasAddGrad",
            f"{name}_2x3x3x4",
            images=(0,),
            out_images=(),
            out_backprop=rnd(dtype, [2, 3, 3, 4], -9, 9),
        )


def softmax(s):
    """Softmax and LogSoftmax over the last axis."""
    for op in ("Softmax", "LogSoftmax"):
        for name, dtype in FLOAT.items():
            s.case(op, f"{name}_3x5", logits=rnd(dtype, [3, 5], -4, 4))
        for label, dims in (
            ("vector", [7]),
            ("1x1", [1, 1]),
            ("2x3x4", [2, 3, 4]),
            ("2x2x2x3", [2, 2, 2, 3]),
            ("5x10", [5, 10]),
            ("2x257", [2, 257]),
            ("0x3", [0, 3]),
        ):
            for name in ("f32", "f64"):
                s.case(op, f"{name}_{label}", logits=rnd(FLOAT[name], dims, -4, 4))
        for name in ("f32", "f64"):
            s.case(
                op,
                f"{name}_large_logits",
                logits=np.array([[1000, 1001, 999], [-1000, -1000, -1000], [0, 500, -500]], FLOAT[name]),
            )
            s.case(op, f"{name}_minus_infinity", logits=np.array([[0, -np.inf, 1]], FLOAT[name]))


def one_hot(rows, classes, dtype):
    """Labels, one class a row, in turn."""
    return np.eye(classes, dtype=dtype)[np.arange(rows) * 7 % classes]


def losses(s):
    """The cross entropies, each with its two outputs, and L2Loss."""
    op = "SoftmaxCrossEntropyWithLogits"
    for name, dtype in FLOAT.items():
        s.case(op, f"{name}_4x5_one_hot", features=rnd(dtype, [4, 5], -4, 4), labels=one_hot(4, 5, dtype))
    for name in ("f32", "f64"):
        dtype = FLOAT[name]
        soft = np.array([[0.2, 0.3, 0.5], [1, 0, 0], [0.25, 0.25, 0.5]], dtype)
        s.case(op, f"{name}_3x3_soft_labels", features=rnd(dtype, [3, 3]), labels=soft)
        s.case(op, f"{name}_labels_not_summing_to_one", features=rnd(dtype, [3, 3]), labels=soft * dtype(2))
        s.case(op, f"{name}_50x10", features=rnd(dtype, [50, 10], -4, 4), labels=one_hot(50, 10, dtype))
        s.case(op, f"{name}_1x1", features=rnd(dtype, [1, 1]), labels=np.ones([1, 1], dtype))
        s.case(op, f"{name}_2x3_labels_broadcast", features=rnd(dtype, [2, 3]), labels=soft[:1])
        s.case(
            op,
            f"{name}_large_logits",
            features=np.array([[1000, -1000, 0], [0, 800, 799]], dtype),
            labels=np.array([[1, 0, 0], [0, 0, 1]], dtype),
        )
        s.case(op, f"{name}_no_rows", features=rnd(dtype, [0, 4]), labels=rnd(dtype, [0, 4]))
    op = "SparseSoftmaxCrossEntropyWithLogits"
    for name, dtype in FLOAT.items():
        for kind, index in (("i32", i32), ("i64", i64)):
            s.case(
                op,
                f"{name}_4x5_{kind}",
                features=rnd(dtype, [4, 5], -4, 4),
                labels=np.array([0, 4, 2, 2], index),
            )
    for name in ("f32", "f64"):
        dtype = FLOAT[name]
        s.case(op, f"{name}_50x10", features=rnd(dtype, [50, 10], -4, 4), labels=rnd(i64, [50], 0, 9))
        s.case(op, f"{name}_1x1", features=rnd(dtype, [1, 1]), labels=np.array([0], i32))
        s.case(
            op,
            f"{name}_large_logits",
            features=np.array([[1000, -1000, 0], [0, 800, 799]], dtype),
            labels=np.array([0, 2], i32),
        )
        s.case(op, f"{name}_no_rows", features=rnd(dtype, [0, 4]), labels=np.zeros([0], i64))
    for name, dtype in FLOAT.items():
        s.case("L2Loss", f"{name}_3x4", t=rnd(dtype, [3, 4]))
    for label, dims in (("scalar", []), ("empty", [0]), ("rank_4", [2, 3, 2, 2]), ("long", [1025])):
        s.case("L2Loss", f"f32_{label}", t=rnd(f32, dims))
        s.case("L2Loss", f"f64_{label}", t=rnd(f64, dims))


def fake_quant(s):
    """FakeQuant by attributes, scalars and channels, and their gradients. They exist for f32 alone: there is no audit."""
    ranges = {"around": (-1.5, 2.25), "above": (0.5, 3.0), "below": (-4.0, -1.0), "wide": (-100.0, 90.0)}
    for label, (low, high) in ranges.items():
        for bits, narrow in ((8, False), (4, True), (2, False), (16, True)):
            attrs = {"num_bits": bits, "narrow_range": narrow}
            name = f"{label}_{bits}_{'narrow' if narrow else 'full'}"
            x = rnd(f32, [3, 7], low - 1, high + 1, 2)
            limits = {"min": low, "max": high}
            s.case("FakeQuantWithMinMaxArgs", name, audit=False, inputs=x, **limits, **attrs)
            s.case("FakeQuantWithMinMaxArgsGradient", name, audit=False, gradients=rnd(f32, [3, 7]), inputs=x, **limits, **attrs)
            limits = {"min": np.array(low, f32), "max": np.array(high, f32)}
            s.case("FakeQuantWithMinMaxVars", name, audit=False, inputs=x, **limits, **attrs)
            s.case("FakeQuantWithMinMaxVarsGradient", name, audit=False, gradients=rnd(f32, [3, 7]), inputs=x, **limits, **attrs)
    zero = np.array(0.0, f32)
    s.case("FakeQuantWithMinMaxVars", "zero_range", audit=False, inputs=rnd(f32, [5]), min=zero, max=zero)
    s.case(
        "FakeQuantWithMinMaxVarsGradient", "zero_range", audit=False, gradients=rnd(f32, [5]), inputs=rnd(f32, [5]), min=zero, max=zero
    )
    lows, highs = np.array([-1, 0, -3, 0.25], f32), np.array([1, 2, -1, 0.75], f32)
    for dims in ([4], [3, 4], [2, 3, 4], [0, 4]):
        label = "x".join(map(str, dims))
        x = rnd(f32, dims, -4, 3, 2)
        s.case("FakeQuantWithMinMaxVarsPerChannel", label, audit=False, inputs=x, min=lows, max=highs)
        s.case(
            "FakeQuantWithMinMaxVarsPerChannelGradient",
            label,
            audit=False,
            gradients=rnd(f32, dims),
            inputs=x,
            min=lows,
            max=highs,
        )


def temporal(s):
    """Losses and decoders of connectionist temporal classification."""
    lengths = np.array([6, 4, 5], i32)
    indices = np.array([[0, 0], [0, 1], [0, 2], [1, 0], [2, 0], [2, 1]], i64)
    values = np.array([1, 1, 0, 2, 3, 0], i32)
    for name in ("f32", "f64"):
        scores = rnd(FLOAT[name], [6, 3, 5], -3, 3)
        for merge in (False, True):
            s.case(
                "CTCGreedyDecoder", f"{name}_{merge}".lower(), inputs=scores, sequence_length=lengths, merge_repeated=merge
            )
            for width, paths in ((1, 1), (4, 2), (100, 3)):
                s.case(
                    "CTCBeamSearchDecoder",
                    f"{name}_{merge}_{width}_{paths}".lower(),
                    inputs=scores,
                    sequence_length=lengths,
                    beam_width=width,
                    top_paths=paths,
                    merge_repeated=merge,
                )
            for collapse in (False, True):
                s.case(
                    "CTCLoss",
                    f"{name}_{merge}_{collapse}".lower(),
                    inputs=scores,
                    labels_indices=indices,
                    labels_values=values,
                    sequence_length=lengths,
                    ctc_merge_repeated=merge,
                    preprocess_collapse_repeated=collapse,
                )
    s.case("CTCGreedyDecoder", "blank_first", inputs=rnd(f32, [6, 3, 5]), sequence_length=lengths, blank_index=0)
    s.case("CTCGreedyDecoder", "no_times", inputs=rnd(f32, [2, 1, 3]), sequence_length=np.array([0], i32))
    s.case(
        "CTCLoss",
        "too_long",
        inputs=rnd(f32, [2, 2, 4]),
        labels_indices=np.array([[0, 0], [0, 1], [1, 0]], i64),
        labels_values=np.array([1, 1, 2], i32),
        sequence_length=np.array([2, 2], i32),
        ignore_longer_outputs_than_inputs=True,
    )
