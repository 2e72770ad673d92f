"""Image files, and the pixels that TensorFlow decodes from them.

    python crates/image/tests/golden/decode.py    # writes decode.jsonl.gz beside this file

in a virtual environment with tensorflow-cpu and pillow. One case a line: `file` (base64), `channels` and `frames` as
asked, `window` (y, x, height, width) where only a part is decoded, and TensorFlow's `dims` and `pixels` (base64; 16
bits in little-endian order where `bits` is 16), or `error`.
"""

import base64
import gzip
import io
import json
import os
import pathlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf
from PIL import Image

FILE = pathlib.Path(__file__).with_suffix(".jsonl.gz")
LINES = []


def picture(height, width, channels, seed, noise=9):
    """Waves and noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    planes = []
    for _ in range(channels):
        waves = [np.sin(fx * x + fy * y + p) for fx, fy, p in rng.uniform(0, [0.4, 0.4, 6.3], (6, 3))]
        planes.append(128 + 30 * sum(waves))
    image = np.stack(planes, -1) + rng.normal(0, noise, (height, width, channels))
    return image.clip(0, 255).astype(np.uint8)


def saved(image, form, mode=None, **options):
    """The file that Pillow writes."""
    image = image if isinstance(image, Image.Image) else Image.fromarray(image.squeeze(), mode)
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def case(name, file, channels=0, bits=8, window=None, frames=False, dct="INTEGER_ACCURATE"):
    """Decodes a file and records the result."""
    line = {"name": name, "file": base64.b64encode(file).decode(), "channels": channels, "bits": bits}
    line |= {"window": window, "frames": frames}
    try:
        if window:
            pixels = tf.raw_ops.DecodeAndCropJpeg(contents=file, crop_window=window, channels=channels, dct_method=dct)
        elif file[:2] == b"\xff\xd8":
            pixels = tf.raw_ops.DecodeJpeg(contents=file, channels=channels, dct_method=dct)
        elif file[:4] == b"\x89PNG":
            pixels = tf.raw_ops.DecodePng(contents=file, channels=channels, dtype=tf.uint16 if bits == 16 else tf.uint8)
        elif file[:2] == b"BM":
            pixels = tf.raw_ops.DecodeBmp(contents=file, channels=channels)
        elif frames:
            pixels = tf.raw_ops.DecodeGif(contents=file)
        else:
            pixels = tf.raw_ops.DecodeImage(contents=file, channels=channels, expand_animations=False)
        pixels = pixels.numpy()
        line |= {"dims": pixels.shape, "pixels": base64.b64encode(pixels.tobytes()).decode()}
    except tf.errors.InvalidArgumentError as error:
        line["error"] = error.message
        print(name, error.message[:150])
    LINES.append(json.dumps(line))


def without_segment(file, marker):
    """A JPEG file without the segment of a marker."""
    at = file.index(bytes([0xFF, marker]))
    return file[:at] + file[at + 2 + int.from_bytes(file[at + 2 : at + 4], "big") :]


def jpeg():
    """JPEG: sampling, passes, colour spaces, damage."""
    photo = picture(29, 37, 3, 1)
    for label, sampling in (("444", 0), ("422", 1), ("420", 2)):
        for quality in (30, 90):
            file = saved(photo, "JPEG", quality=quality, subsampling=sampling)
            case(f"jpeg_{label}_q{quality}", file)
            case(f"jpeg_{label}_q{quality}_grey", file, 1)
        file = saved(photo, "JPEG", quality=85, subsampling=sampling, progressive=True)
        case(f"jpeg_{label}_progressive", file, 3)
    case("jpeg_restarts", saved(photo, "JPEG", quality=85, restart_marker_blocks=2))
    case("jpeg_odd_1x1", saved(picture(1, 1, 3, 2), "JPEG"))
    case("jpeg_odd_5x3", saved(picture(5, 3, 3, 3), "JPEG"))
    case("jpeg_rgb", saved(photo, "JPEG", quality=90, keep_rgb=True))
    case("jpeg_rgb_grey", saved(photo, "JPEG", quality=90, keep_rgb=True), 1)
    grey = saved(picture(17, 21, 1, 4), "JPEG", quality=90)
    case("jpeg_grey", grey)
    case("jpeg_grey_rgb", grey, 3)
    inks = saved(Image.fromarray(picture(17, 21, 4, 5), "CMYK"), "JPEG", quality=90)
    case("jpeg_cmyk", inks)
    at = inks.index(b"Adobe") + 11
    case("jpeg_ycck", inks[:at] + b"\x02" + inks[at + 1 :], 3)
    case("jpeg_cmyk_plain", without_segment(inks, 0xEE), 3)
    case("jpeg_cmyk_grey", inks, 1)
    whole = saved(photo, "JPEG", quality=90)
    case("jpeg_four_channels", whole, 4)
    case("jpeg_truncated", whole[: len(whole) * 3 // 4])
    case("jpeg_without_end", whole[:-2])
    case("jpeg_bytes_behind", whole + b"abc")
    for label, sampling in (("444", 0), ("422", 1), ("420", 2)):
        file = saved(picture(50, 70, 3, 6), "JPEG", quality=90, subsampling=sampling)
        for window in ([0, 0, 50, 70], [7, 9, 20, 30], [16, 32, 16, 16], [30, 40, 20, 30], [49, 69, 1, 1]):
            case(f"jpeg_{label}_window_{'_'.join(map(str, window))}", file, 3, window=window)


def png():
    """PNG: depths, palettes, transparency, and all numbers of channels."""
    files = {
        "bits": saved(Image.fromarray(picture(9, 11, 1, 1)[..., 0]).convert("1"), "PNG"),
        "grey": saved(picture(9, 11, 1, 2), "PNG"),
        "grey_alpha": saved(picture(9, 11, 2, 3), "PNG", "LA"),
        "rgb": saved(picture(9, 11, 3, 4), "PNG"),
        "rgba": saved(picture(9, 11, 4, 5), "PNG"),
        "palette": saved(Image.fromarray(picture(9, 11, 3, 6)).quantize(16), "PNG"),
        "palette_2_bits": saved(Image.fromarray(picture(9, 11, 3, 6)).quantize(4), "PNG", bits=2),
        "palette_clear": saved(Image.fromarray(picture(9, 11, 3, 6)).quantize(16), "PNG", transparency=3),
        "grey_16": tf.io.encode_png(np.random.default_rng(7).integers(0, 65536, (7, 5, 1), np.uint16)).numpy(),
        "rgb_16": tf.io.encode_png(np.random.default_rng(8).integers(0, 65536, (7, 5, 3), np.uint16)).numpy(),
        "rgba_16": tf.io.encode_png(np.random.default_rng(9).integers(0, 65536, (7, 5, 4), np.uint16)).numpy(),
    }
    clear = picture(9, 11, 3, 10)
    files["rgb_clear"] = saved(clear, "PNG", transparency=tuple(map(int, clear[2, 3])))
    files["grey_clear"] = saved(clear[..., 0], "PNG", transparency=int(clear[4, 4, 0]))
    for label, file in files.items():
        for channels in (0, 1, 3, 4):
            case(f"png_{label}_{channels}", file, channels)
            case(f"png_{label}_{channels}_u16", file, channels, 16)
    case("png_truncated", files["rgb"][:-60])
    case("png_five_channels", files["rgb"], 5)


def bmp_and_gif():
    """BMP of all depths; GIF with frames that are parts of the canvas."""
    grey = saved(picture(7, 5, 1, 1), "BMP")
    rgb = saved(picture(7, 5, 3, 2), "BMP")
    case("bmp_grey", grey)
    case("bmp_rgb", rgb)
    case("bmp_rgb_3", rgb, 3)
    case("bmp_rgb_4", rgb, 4)
    case("bmp_rgba", saved(picture(7, 5, 4, 3), "BMP"))
    case("bmp_top_down", rgb[:22] + (-7).to_bytes(4, "little", signed=True) + rgb[26:])
    case("bmp_truncated", rgb[:-20])
    frames = [Image.fromarray(picture(12, 14, 3, seed, 0)).quantize(32) for seed in (4, 5)]
    case("gif_one", saved(frames[0], "GIF"))
    case("gif_one_frames", saved(frames[0], "GIF"), frames=True)
    animation = saved(frames[0], "GIF", save_all=True, append_images=frames[1:], duration=10)
    case("gif_first", animation)
    case("gif_frames", animation, frames=True)
    canvas = np.asarray(frames[0].convert("RGB")).copy()
    steps = [Image.fromarray(canvas)]
    for i in range(3):
        canvas[2 + i : 5 + i, 3 : 7 + i] = [200, 10 * i, 90]
        steps.append(Image.fromarray(canvas.copy()))
    parts = saved(steps[0], "GIF", save_all=True, append_images=steps[1:], duration=10, optimize=True)
    case("gif_parts", parts, frames=True)
    clear = [s.convert("RGBA") for s in steps]
    for image in clear:
        image.putpixel((1, 1), (0, 0, 0, 0))
    file = saved(clear[0], "GIF", save_all=True, append_images=clear[1:], duration=10, disposal=2)
    case("gif_clear", file, frames=True)
    case("gif_grey", animation, 1)
    case("gif_truncated", animation[:-100], frames=True)


jpeg()
png()
bmp_and_gif()
with gzip.GzipFile(FILE, "wb", 9, mtime=0) as packed:
    packed.write("".join(line + "\n" for line in LINES).encode())
print(len(LINES), "cases,", FILE.stat().st_size, "bytes")
