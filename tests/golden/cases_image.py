"""Images: files, colours, bicubic and area resizing, boxes.

Pixels of JPEG files depend on the decoder: tests/engine/image_files.rs compares them.
"""

import io

import numpy as np
from PIL import Image

from cases_resize import ALL, CONFIGS, MODES
from inputs import generator, rnd
from kinds import ivec
from reference import f16, f32, f64, i8, i16, i32, i64, u8, u16


def add(s):
    """Adds the cases of this module."""
    colors(s)
    resizing(s)
    crops(s)
    boxes(s)
    suppression(s)
    samples(s)
    glimpses(s)
    files(s)


def exact(s, op, label, **arguments):
    """A case whose result is TensorFlow's to the bit."""
    s.case(op, label, tol=None, audit=False, **arguments)


def picture(label, dims, high=1.0):
    """A random picture, with a grey line."""
    image = generator(label).uniform(0, high, dims).astype(f32).round(3)
    image[..., 0, :, :] = image[..., 0, :, :1]
    return image


def colors(s):
    """HSV and adjustments."""
    image = picture("colors", (2, 4, 5, 3))
    exact(s, "RGBToHSV", "batch", images=image)
    exact(s, "RGBToHSV", "vector", images=np.array([0.2, 0.9, 0.3], f32))
    exact(s, "HSVToRGB", "batch", images=image)
    for op in ("RGBToHSV", "HSVToRGB"):
        s.case(op, "f64_batch", images=image.astype(f64))
        # TensorFlow rounds each step to a half.
        s.case(op, "f16_batch", images=image.astype(f16), tol=(0.02, 0.01), audit=False)
    for value in (0.0, 0.6, 1.7):
        v = np.array(value, f32)
        exact(s, "AdjustContrastv2", f"{value}", images=image, contrast_factor=v)
        exact(s, "AdjustSaturation", f"{value}", images=image, scale=v)
        for sign in (1, -1):
            delta = np.array(sign * value, f32)
            exact(s, "AdjustHue", f"{sign * value}", images=image, delta=delta)
    one = np.array(1.5, f32)
    exact(s, "AdjustContrastv2", "one_channel", images=picture("grey", (7, 3, 1)), contrast_factor=one)
    exact(s, "AdjustContrastv2", "no_images", images=np.zeros([0, 2, 2, 3], f32), contrast_factor=one)
    exact(s, "AdjustHue", "no_pixels", images=np.zeros([2, 0, 3], f32), delta=one)


def resizing(s):
    """ResizeBicubic with its gradient, and ResizeArea."""
    for mode, attrs in MODES.items():
        for label, (dims, size) in CONFIGS.items():
            resize(s, f"f32_{label}_{mode}", f32, dims, size, attrs)
        for name, dtype in ALL.items():
            resize(s, f"{name}_larger_{mode}", dtype, [1, 2, 3, 1], (3, 5), attrs)


def resize(s, label, dtype, dims, size, attrs):
    """Both ops and a gradient."""
    low = 0 if np.dtype(dtype).kind == "u" else -9
    image = rnd(dtype, dims, low, 9).draw(generator(f"image/{label}"))
    # Weights are f32 and so are their products: f64 tells the same.
    exact(s, "ResizeBicubic", label, images=image, size=ivec(*size), **attrs)
    if "half_pixel_centers" not in attrs:
        exact(s, "ResizeArea", label, images=image, size=ivec(*size), **attrs)
    if dtype in (f32, f64):
        grads = rnd(f32, [dims[0], *size, dims[3]])
        s.case("ResizeBicubicGrad", label, audit=False, tol=(1e-5, 1e-5), grads=grads, original_image=image, **attrs)


def crops(s):
    """CropAndResize: windows inside, over the edge, mirrored, and of one pixel."""
    bounds = np.array([[0, 0, 1, 1], [0.1, 0.2, 0.7, 0.9], [-0.5, 0.3, 0.5, 1.4], [0.9, 0.8, 0.1, 0.2]], f32)
    numbers = np.array([0, 1, 0, 1], i32)
    image = rnd(f32, [2, 5, 6, 2], 0, 9).draw(generator("crops"))
    for method in ("bilinear", "nearest"):
        for size in ((3, 4), (8, 7), (1, 1)):
            label = f"{method}_{size[0]}x{size[1]}"
            crop(s, label, image, bounds, numbers, size, method=method, extrapolation_value=-2.5)
    for name, dtype in (("u8", u8), ("u16", u16), ("i8", i8), ("i16", i16), ("i32", i32), ("i64", i64), ("f64", f64)):
        crop(s, name, image.astype(dtype), bounds, numbers, (2, 3))
    crop(s, "no_boxes", image, bounds[:0], numbers[:0], (2, 2))


def crop(s, label, image, boxes_, numbers, size, **attrs):
    """One case."""
    given = {"image": image, "boxes": boxes_, "box_ind": numbers, "crop_size": ivec(*size)}
    exact(s, "CropAndResize", label, **given, **attrs)
    grads = rnd(f32, [len(boxes_), *size, image.shape[3]])
    method = {"method": attrs.get("method", "bilinear")}
    given = {"grads": grads, "boxes": boxes_, "box_ind": numbers}
    if image.dtype in (f32, f64):
        dims = np.array(image.shape, i32)
        wanted = {"image_size": dims, "T": image.dtype.type} | method
        s.case("CropAndResizeGradImage", label, audit=False, tol=(1e-5, 1e-5), **given, **wanted)
    if method["method"] == "bilinear":
        s.case("CropAndResizeGradBoxes", label, audit=False, tol=(1e-4, 1e-4), image=image, **given)


def boxes(s):
    """Borders of boxes: inside, over the edge, outside, inverted."""
    bounds = [[0.1, 0.2, 0.6, 0.7], [-0.4, 0.5, 0.5, 1.3], [1.2, 0, 1.4, 1], [0.6, 0.1, 0.2, 0.9], [0, 0, 1, 1]]
    bounds = np.array([bounds, bounds[::-1]], f32)
    for channels in (1, 3, 4):
        images = picture(f"boxes/{channels}", (2, 7, 9, channels))
        exact(s, "DrawBoundingBoxes", f"{channels}_channels", images=images, boxes=bounds)
        own = np.arange(2 * channels).reshape(2, channels).astype(f32)
        exact(s, "DrawBoundingBoxesV2", f"{channels}_channels", images=images, boxes=bounds, colors=own)
    none = np.zeros([2, 0, 4], f32)
    exact(s, "DrawBoundingBoxes", "no_boxes", images=images, boxes=none)
    fixed = np.zeros([0, 4], f32)
    exact(s, "DrawBoundingBoxesV2", "no_colors", images=images, boxes=bounds, colors=fixed)


def suppression(s):
    """All versions, with equal scores, corners in any order, and few results."""
    rng = generator("suppression")
    corners = rng.uniform(0, 1, (12, 2)).round(2)
    found = np.concatenate([corners, corners + rng.uniform(0.1, 0.6, (12, 2)).round(2)], 1).astype(f32)
    found[3] = found[3, [2, 3, 0, 1]]
    scores = rng.uniform(0, 1, 12).round(1).astype(f32)
    for most in (0, 3, 30):
        n = np.array(most, i32)
        exact(s, "NonMaxSuppression", f"{most}", boxes=found, scores=scores, max_output_size=n)
        for threshold in (0.0, 0.3, 1.0):
            given = {"boxes": found, "scores": scores, "max_output_size": n}
            iou = np.array(threshold, f32)
            label = f"{most}_{threshold}"
            exact(s, "NonMaxSuppressionV2", label, **given, iou_threshold=iou)
            halves = {"boxes": found.astype(f16), "scores": scores.astype(f16), "max_output_size": n}
            exact(s, "NonMaxSuppressionV2", f"f16_{label}", **halves, iou_threshold=iou)
            least = {"iou_threshold": iou, "score_threshold": np.array(0.35, f32)}
            exact(s, "NonMaxSuppressionV3", label, **given, **least)
            for pad in (False, True):
                exact(s, "NonMaxSuppressionV4", f"{label}_{pad}", **given, **least, pad_to_max_output_size=pad)
                for sigma in (0.0, 0.4):
                    soft = np.array(sigma, f32)
                    attrs = {"soft_nms_sigma": soft, "pad_to_max_output_size": pad}
                    exact(s, "NonMaxSuppressionV5", f"{label}_{pad}_{sigma}", **given, **least, **attrs)
    empty = {"boxes": found[:0], "scores": scores[:0], "max_output_size": np.array(3, i32)}
    exact(s, "NonMaxSuppression", "no_boxes", **empty)


def samples(s):
    """Random windows by TensorFlow's numbers, two runs each."""
    objects = np.array([[[0.1, 0.2, 0.5, 0.6], [0.7, 0.7, 0.9, 1.0]]], f32)
    for label, dtype, size in (("photo", i32, (375, 500, 3)), ("long", i64, (40, 1000, 3)), ("bytes", u8, (90, 120, 3))):
        for seed in range(1, 6):
            given = {"image_size": np.array(size, dtype), "seed": seed, "seed2": 7}
            sample(s, "SampleDistortedBoundingBox", f"{label}_{seed}", bounding_boxes=objects, **given)
            whole = {"bounding_boxes": np.zeros([1, 0, 4], f32), "use_image_if_no_bounding_boxes": True}
            ranges = {"aspect_ratio_range": [0.5, 2.0], "area_range": [0.3, 0.9], "max_attempts": 3}
            share = {"min_object_covered": np.array(0.4, f32)}
            sample(s, "SampleDistortedBoundingBoxV2", f"{label}_{seed}_whole", **whole, **ranges, **share, **given)
            seeds = {"image_size": given["image_size"], "seed": np.array([seed, 7], i64 if seed % 2 else i32)}
            own = f"{label}_{seed}"
            exact(s, "StatelessSampleDistortedBoundingBox", own, bounding_boxes=objects, **seeds, **share)
            exact(s, "StatelessSampleDistortedBoundingBox", f"{own}_whole", **whole, **ranges, **seeds, **share)


def sample(s, op, label, **arguments):
    """A case of two runs."""
    result = s.run(op, label, arguments, runs=2)
    if result is not None:
        s.record(op, label, result, None)


def glimpses(s):
    """Windows inside, over each edge, on it, around the image, and outside; no noise, whose numbers have no seed."""
    images = rnd(f32, [7, 5, 6, 2], -9, 9).draw(generator("glimpses"))
    zero = {"uniform_noise": False, "noise": "zero"}
    scaled = [[0, 0], [-1, -1], [1, 1], [0.9, -0.7], [-0.3, 0.4], [40, 0], [0, -1e30]]
    pixels = [[2, 2], [-1.5, -0.5], [4, 5], [1, -3], [-2, 1.7], [0, 70], [1e30, 0]]
    for op in ("ExtractGlimpse", "ExtractGlimpseV2"):
        for normalized, offsets in ((True, scaled), (False, pixels)):
            for centered in (True, False):
                for height, width in ((3, 2), (2, 9), (5, 6), (0, 2)):
                    label = f"{'scaled' if normalized else 'pixels'}_{centered}_{height}x{width}"
                    rule = {"normalized": normalized, "centered": centered}
                    given = {"input": images, "size": ivec(height, width), "offsets": np.array(offsets, f32)}
                    exact(s, op, label, **given, **rule, **zero)
        inside = {"input": images[:2], "size": ivec(2, 3), "offsets": np.array([[0, 0], [0.2, -0.1]], f32)}
        exact(s, op, "inside_uniform", **inside)
        exact(s, op, "inside_gaussian", **inside, uniform_noise=False, noise="gaussian")
        exact(s, op, "inside_no_name", **inside, uniform_noise=False, noise="")
        exact(s, op, "no_images", input=images[:0], size=ivec(2, 2), offsets=np.zeros([0, 2], f32))


def saved(image, form, **options):
    """The file that Pillow writes."""
    file = io.BytesIO()
    image.save(file, form, **options)
    return np.array(file.getvalue(), object)


def files(s):
    """PNG, BMP and GIF files; the sizes of JPEG files."""
    pixels = generator("files").integers(0, 256, (4, 3, 4), np.uint8)
    color = Image.fromarray(pixels[..., :3])
    png, clear = saved(color, "PNG"), saved(Image.fromarray(pixels), "PNG")
    grey, bmp, gif = saved(color.convert("L"), "PNG"), saved(color, "BMP"), saved(color, "GIF")
    moving = saved(color, "GIF", save_all=True, append_images=[color.rotate(180)], duration=10)
    for name, file in (("rgb", png), ("rgba", clear), ("grey", grey)):
        for channels in (0, 1, 3, 4):
            for dtype in (u8, u16):
                label = f"{name}_{channels}_{np.dtype(dtype).name}"
                s.case("DecodePng", label, contents=file, channels=channels, dtype=dtype)
            for dtype in (u8, u16, f32):
                label = f"{name}_{channels}_{np.dtype(dtype).name}"
                s.case("DecodeImage", label, audit=False, contents=file, channels=channels, dtype=dtype)
    s.case("DecodePng", "of_gif", contents=gif)
    s.case("DecodeJpeg", "of_png", contents=png, channels=3)
    s.case("DecodeJpeg", "of_gif", contents=gif)
    s.case("DecodeBmp", "rgb", contents=bmp)
    s.case("DecodeBmp", "rgb_4", contents=bmp, channels=4)
    s.case("DecodeImage", "bmp_float", audit=False, contents=bmp, dtype=f32)
    s.case("DecodeImage", "bmp_u16", contents=bmp, dtype=u16)
    s.case("DecodeGif", "one", contents=gif)
    s.case("DecodeGif", "two", contents=moving)
    for expand in (True, False):
        s.case("DecodeImage", f"gif_{expand}", contents=moving, expand_animations=expand)
        s.case("DecodeImage", f"gif_float_{expand}", audit=False, contents=moving, expand_animations=expand, dtype=f32)
    for name, image in (("rgb", color), ("grey", color.convert("L"))):
        jpeg = saved(image.resize((20, 9)), "JPEG", quality=50)
        for dtype in (i32, i64):
            s.case("ExtractJpegShape", f"{name}_{np.dtype(dtype).name}", contents=jpeg, output_type=dtype)
