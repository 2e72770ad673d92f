"""Images at another scale and place, fused convolutions, boxes of several classes."""

import numpy as np

from inputs import generator, rnd
from reference import bf16, f16, f32, f64, i32, i64, u8

KERNELS = ("lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic")


def add(s):
    """Adds the cases of this module."""
    for kernel in KERNELS:
        for label, size, scale, move in (
            ("larger", [7, 9], [1.75, 1.5], [0, 0.5]),
            ("smaller", [2, 3], [0.4, 0.5], [0.25, -0.5]),
            ("outside", [4, 4], [1.0, 2.0], [-3.0, 5.0]),
        ):
            for antialias in (True, False):
                own = f"{kernel}_{label}{'_sharp' * (not antialias)}"
                given = {"scale": np.array(scale, f32), "translation": np.array(move, f32)}
                attrs = {"kernel_type": kernel, "antialias": antialias}
                s.case(
                    "ScaleAndTranslate",
                    own,
                    tol=(1e-5, 1e-5),
                    audit=False,
                    images=rnd(f32, [2, 4, 6, 2]),
                    size=np.array(size, i32),
                    **given,
                    **attrs,
                )
                s.case(
                    "ScaleAndTranslateGrad",
                    own,
                    tol=(1e-5, 1e-5),
                    audit=False,
                    grads=rnd(f32, [2, *size, 2]),
                    original_image=rnd(f32, [2, 4, 6, 2]),
                    **given,
                    **attrs,
                )
    given = {"size": np.array([3, 3], i32), "scale": np.array([1.5, 1.5], f32), "translation": np.zeros([2], f32)}
    for name, dtype in (("u8", u8), ("f16", f16), ("f64", f64), ("i32", i32)):
        images = rnd(dtype, [1, 2, 2, 3], 0, 200)
        s.case("ScaleAndTranslate", name, tol=(1e-4, 1e-3), audit=False, images=images, **given)
    convolutions(s)
    suppressions(s)
    projections(s)


def convolutions(s):
    """FusedPadConv2D, FusedResizeAndPadConv2D."""
    pads = np.array([[0, 0], [1, 2], [2, 1], [0, 0]], i32)
    for name, dtype in (("f32", f32), ("f64", f64)):
        for mode in ("REFLECT", "SYMMETRIC"):
            for padding in ("SAME", "VALID"):
                given = {"paddings": pads, "filter": rnd(dtype, [3, 2, 2, 4])}
                attrs = {"mode": mode, "padding": padding, "strides": [1, 2, 1, 1]}
                own = f"{name}_{mode.lower()}_{padding.lower()}"
                # TensorFlow gives the first image of a batch what its MirrorPad and Conv2D give, and not the others.
                images = rnd(dtype, [1, 4, 5, 2])
                s.case("FusedPadConv2D", own, tol=(1e-5, 1e-5), audit=False, input=images, **given, **attrs)
                for corners in (False, True):
                    s.case(
                        "FusedResizeAndPadConv2D",
                        own + "_corners" * corners,
                        tol=(1e-5, 1e-5),
                        audit=False,
                        input=images,
                        size=np.array([6, 7], i32),
                        resize_align_corners=corners,
                        **given,
                        **attrs,
                    )


def suppressions(s):
    """NonMaxSuppressionWithOverlaps, CombinedNonMaxSuppression."""
    rng = generator("suppressions")
    overlaps = np.round(rng.uniform(0, 1, [9, 9]), 2).astype(f32)
    scores = (rng.permutation(9) / 10).astype(f32)
    for most, overlap, least in ((9, 0.5, -1.0), (3, 0.5, 0.2), (9, 0.1, 0.0), (0, 0.5, 0.0)):
        s.case(
            "NonMaxSuppressionWithOverlaps",
            f"{most}_{overlap}_{least}",
            audit=False,
            overlaps=overlaps,
            scores=scores,
            max_output_size=i32(most),
            overlap_threshold=f32(overlap),
            score_threshold=f32(least),
        )
    for per_box in (1, 3):
        corners = np.sort(rng.uniform(-0.2, 1.2, [2, 6, per_box, 2, 2]), 3).reshape(2, 6, per_box, 4)
        boxes = np.round(corners, 3).astype(f32)
        scores = (rng.permutation(36).reshape(2, 6, 3) / 40).astype(f32)
        for label, most, total, attrs in (
            ("", 6, 10, {}),
            ("few", 2, 4, {}),
            ("padded", 2, 20, {"pad_per_class": True}),
            ("unclipped", 3, 20, {"clip_boxes": False}),
        ):
            s.case(
                "CombinedNonMaxSuppression",
                f"{per_box}{'_' * bool(label)}{label}",
                audit=False,
                boxes=boxes,
                scores=scores,
                max_output_size_per_class=i32(most),
                max_total_size=i32(total),
                iou_threshold=f32(0.3),
                score_threshold=f32(0.1),
                **attrs,
            )


def projections(s):
    """ImageProjectiveTransformV2, ImageProjectiveTransformV3: moves, turns, perspective, pixels far outside."""
    transforms = (
        ("moved", [1, 0, 1.25, 0, 1, -0.75, 0, 0]),
        ("turned", [0.8, -0.6, 1.5, 0.6, 0.8, -0.5, 0, 0]),
        ("tilted", [1.2, 0.1, -0.5, 0.2, 0.9, 0.25, 0.05, -0.1]),
        ("far", [4, 0, -9.5, 0, 5, -12.25, 0, 0]),
        ("endless", [1, 0, 0, 0, 1, 0, -0.5, 0]),
    )
    for interpolation in ("NEAREST", "BILINEAR"):
        for mode in ("CONSTANT", "REFLECT", "WRAP", "NEAREST"):
            rule = {"interpolation": interpolation, "fill_mode": mode}
            for label, transform in transforms:
                given = {"images": rnd(f32, [2, 4, 5, 2]), "transforms": np.array([transform], f32)}
                projection(s, f"{label}_{interpolation}_{mode}", output_shape=np.array([6, 4], i32), **given, **rule)
            # One transform for each image, of one line.
            both = np.array([transforms[0][1], transforms[2][1]], f32)
            given = {"images": rnd(f32, [2, 1, 3, 1]), "transforms": both}
            projection(s, f"each_{interpolation}_{mode}", output_shape=np.array([2, 5], i32), **given, **rule)
        for name, dtype in (("u8", u8), ("i32", i32), ("i64", i64), ("f16", f16), ("bf16", bf16), ("f64", f64)):
            turned = np.array([transforms[1][1]], f32)
            given = {"images": rnd(dtype, [1, 3, 3, 2], 0, 200), "transforms": turned}
            projection(s, f"{name}_{interpolation}", output_shape=np.array([3, 3], i32), interpolation=interpolation, **given)


def projection(s, own, **given):
    """A case of both versions."""
    s.case("ImageProjectiveTransformV2", own, tol=(1e-5, 1e-4), audit=False, **given)
    s.case("ImageProjectiveTransformV3", own, tol=(1e-5, 1e-4), audit=False, fill_value=f32(3), **given)
