"""Results of TensorFlow's ImageSummary: tags, sizes and pixels.

    python tests/golden/image_summaries.py            # writes image_summaries.jsonl.gz beside this file
    python tests/golden/image_summaries.py --check    # compares with it, writes nothing

in a virtual environment with tensorflow-cpu. crates/summary/tests/images.rs reads the file. The bytes of a PNG
depend on the compressor, so the cases hold pixels and are no part of ops.jsonl.gz.
"""

import pathlib
import sys

import numpy as np

from encode import dumps, tensor
from generate import check, pack
from harness import session
from inputs import generator
from reference import f16, f32, f64, raw, tf, v1

FILE = pathlib.Path(__file__).resolve().parent / "image_summaries.jsonl.gz"
RED = [255, 0, 0, 255]
NAN, INF = np.nan, np.inf


def drawn(name, dtype, dims, low, high):
    """Numbers between `low` and `high`."""
    return generator(name).uniform(low, high, dims).astype(dtype)


def cases():
    """The name of each case, its images, the number shown, and the colour of non-finite values."""
    dtypes = {"f16": f16, "f32": f32, "f64": f64}
    for channels in (1, 3, 4):
        dims = [2, 5, 4, channels]
        yield f"u8_{channels}", drawn(f"u8_{channels}", np.uint8, dims, 0, 256), 3, RED
        for short, dtype in dtypes.items():
            for label, low, high in (("above_zero", 0, 7), ("around_zero", -3, 2), ("below_zero", -2, -1)):
                name = f"{short}_{channels}_{label}"
                yield name, drawn(name, dtype, dims, low, high), 3, RED
    for short, dtype in dtypes.items():
        broken = drawn(f"{short}_not_finite", dtype, [1, 3, 3, 3], -1, 4)
        broken[0, 0, 1, 2], broken[0, 1, 1, 0], broken[0, 2, 2, 1] = NAN, INF, -INF
        yield f"{short}_not_finite", broken, 1, RED
        yield f"{short}_all_nan", np.full([1, 2, 2, 1], NAN, dtype), 1, [7]
        yield f"{short}_zero", np.zeros([1, 2, 2, 1], dtype), 1, RED
        yield f"{short}_tiny", np.array([0, 1e-7, 5e-7, 9e-7], dtype).reshape(1, 2, 2, 1), 1, RED
    digits = drawn("digits", f32, [4, 28, 28, 1], 0, 1)
    for most in (1, 2, 9):
        yield f"first_{most}", digits, most, [1, 2, 3, 4, 5]
    yield "no_images", np.zeros([0, 3, 3, 1], f32), 3, RED


def line(name, images, most, bad_color):
    with tf.Graph().as_default() as graph:
        color = tf.make_tensor_proto(np.array(bad_color, np.uint8))
        summary = raw.ImageSummary(tag="a/b", tensor=tf.constant(images), max_images=most, bad_color=color)
        with session(graph) as sess:
            found = v1.Summary.FromString(sess.run(summary)).value
            pixels = [sess.run(tf.io.decode_png(value.image.encoded_image_string)) for value in found]
    return {
        "name": name,
        "images": tensor(images),
        "most": most,
        "bad_color": bad_color,
        "shown": [
            {
                "tag": value.tag,
                "size": [value.image.height, value.image.width, value.image.colorspace],
                "pixels": tensor(shown),
            }
            for value, shown in zip(found, pixels)
        ],
    }


if __name__ == "__main__":
    found = [dumps(line(*case)) for case in cases()]
    if "--check" in sys.argv:
        sys.exit(1 if check(FILE, found) else 0)
    data = pack(found)
    FILE.write_bytes(data)
    print(f"{len(found)} cases, {len(data)} bytes")
