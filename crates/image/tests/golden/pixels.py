"""Images and what TensorFlow's kernels make of them.

    python crates/image/tests/golden/pixels.py    # writes pixels.jsonl.gz beside this file

in a virtual environment with tensorflow-cpu. One case a line: `op`, its `options`, and the arrays `image` and `result`,
each with `dims`, `bits` (8 for u8, 32 for f32) and `data` (base64, little-endian).
"""

import base64
import gzip
import json
import os
import pathlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
import numpy as np
import tensorflow as tf

FILE = pathlib.Path(__file__).with_suffix(".jsonl.gz")
LINES = []
RAW = tf.raw_ops
RESIZE = {
    "Nearest": RAW.ResizeNearestNeighbor,
    "Bilinear": RAW.ResizeBilinear,
    "Bicubic": RAW.ResizeBicubic,
    "Area": RAW.ResizeArea,
}
SAMPLING = {
    "Corner": {},
    "AlignCorners": {"align_corners": True},
    "HalfPixel": {"half_pixel_centers": True},
}


def array(values):
    """An array as JSON."""
    values = np.asarray(values)
    data = base64.b64encode(values.tobytes()).decode()
    return {"dims": values.shape, "bits": values.dtype.itemsize * 8, "data": data}


def case(op, image, result, **options):
    """Adds a case."""
    LINES.append(json.dumps({"op": op, "options": options, "image": array(image), "result": array(result)}))


def resize():
    """All methods and rules, to larger and smaller sizes."""
    rng = np.random.default_rng(1)
    sizes = [((5, 7, 3), (11, 9)), ((9, 13, 3), (4, 5)), ((6, 5, 1), (6, 8)), ((3, 4, 2), (1, 1)), ((1, 1, 3), (2, 3))]
    for dims, to in sizes:
        for image in (rng.integers(0, 256, dims, np.uint8), rng.normal(0, 99, dims).astype(np.float32)):
            for method, op in RESIZE.items():
                for sampling, attrs in SAMPLING.items():
                    if method == "Area" and sampling == "HalfPixel":
                        continue
                    result = op(images=image[None], size=to, **attrs)[0].numpy().astype(np.float32)
                    case("resize", image, result, method=method, sampling=sampling)


def colors():
    """HSV and adjustments, also of greys and of numbers beyond 1."""
    rng = np.random.default_rng(2)
    image = rng.uniform(0, 1, (9, 7, 3)).astype(np.float32)
    image[0] = image[0, :, :1]
    image[1, :3] = [[0, 0, 0], [1, 1, 1], [0, 1, 0]]
    image[2] *= 300
    case("rgb_to_hsv", image, RAW.RGBToHSV(images=image))
    hsv = RAW.RGBToHSV(images=image).numpy()
    case("hsv_to_rgb", hsv, RAW.HSVToRGB(images=hsv))
    for delta in (-1.3, -0.2, 0.0, 0.07, 0.5, 2.5):
        case("adjust_hue", image, RAW.AdjustHue(images=image, delta=delta), value=float(np.float32(delta)))
    for scale in (0.0, 0.5, 1.0, 1.5, 20.0):
        case("adjust_saturation", image, RAW.AdjustSaturation(images=image, scale=scale), value=float(np.float32(scale)))
    for factor in (0.0, 0.5, 1.5, -2.0):
        result = RAW.AdjustContrastv2(images=image, contrast_factor=factor)
        case("adjust_contrast", image, result, value=float(np.float32(factor)))
    one = image[3:4, 2:3]
    case("adjust_contrast", one, RAW.AdjustContrastv2(images=one, contrast_factor=1.5), value=1.5)


def evaluation():
    """tf_cnn_benchmarks' evaluation image."""
    rng = np.random.default_rng(3)
    for (height, width), (h, w) in (((31, 47), (9, 9)), ((20, 20), (32, 24)), ((5, 40), (8, 8))):
        image = rng.integers(0, 256, (height, width, 3), np.uint8)
        sides = tf.constant([height, width], tf.float32)
        ratio = tf.maximum(h / sides[0], w / sides[1])
        size = tf.cast(sides * ratio * 1.145, tf.int32)
        resized = RAW.ResizeBilinear(images=image[None], size=size)[0]
        top, left = (int(size[0]) - h) // 2, (int(size[1]) - w) // 2
        result = resized[top : top + h, left : left + w] * (1.0 / 127.5) - 1.0
        case("evaluation", image, result)


resize()
colors()
evaluation()
with gzip.GzipFile(FILE, "wb", 9, mtime=0) as packed:
    packed.write("".join(line + "\n" for line in LINES).encode())
print(len(LINES), "cases,", FILE.stat().st_size, "bytes")
