"""Ops of pictures: sizes, colours, boxes, files."""

import io

import numpy as np

from case import Const, op, text, values

f32, i32, u8 = np.float32, np.int32, np.uint8


def cases(rng, count):
    """All cases."""
    for _ in range(count):
        yield from sizes(rng)
        yield from colours(rng)
        yield from boxes(rng)
        yield from files(rng)


def picture(rng, channels=3):
    return rng.choice((1, 4)), rng.choice((31, 100, 224)), rng.choice((32, 90, 300)), channels


def sizes(rng):
    """Resizes and their gradients, for pictures of one, three and many channels."""
    for dtype in (f32, u8):
        x = values(rng, picture(rng, rng.choice((1, 3, 30))), dtype, 0, 200)
        size = Const(np.array([rng.choice((20, 128, 299)), rng.choice((33, 128, 400))], i32))
        label = f"{x.dtype}/{text(x.shape)}-{text(size.array)}"
        for name in ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic", "ResizeArea"):
            yield op(name, label, images=x, size=size)
    dy = values(rng, (x.shape[0], *size.array, x.shape[3]))
    small = x.astype(f32)
    yield op("ResizeBilinearGrad", label, grads=dy, original_image=small)
    yield op("ResizeBicubicGrad", label, grads=dy, original_image=small)
    yield op("ResizeNearestNeighborGrad", label, grads=dy, size=Const(np.array(x.shape[1:3], i32)))
    unit, zero = np.array([1.5, 0.7], f32), np.zeros(2, f32)
    yield op("ScaleAndTranslate", label, images=small, size=size, scale=unit, translation=zero)
    turn = np.array([[0.9, -0.1, 3, 0.1, 0.9, -2, 0, 0]], f32)
    for how in ("NEAREST", "BILINEAR"):
        yield op("ImageProjectiveTransformV2", f"{label}/{how}", images=small, transforms=turn, output_shape=size, interpolation=how)


def colours(rng):
    """Conversions between colours, contrast, hue, saturation."""
    x = values(rng, picture(rng), f32, 0, 1)
    factor = np.array(0.3, f32)
    label = text(x.shape)
    yield op("RGBToHSV", label, images=x)
    yield op("HSVToRGB", label, images=x)
    yield op("AdjustHue", label, images=x, delta=factor)
    yield op("AdjustSaturation", label, images=x, scale=factor)
    yield op("AdjustContrastv2", label, images=x, contrast_factor=factor)


def boxes(rng):
    """Crops, suppression of boxes, drawn boxes, glimpses."""
    x = values(rng, picture(rng, rng.choice((3, 16))), f32, 0, 1)
    own = np.random.default_rng(rng.getrandbits(32))
    number = rng.choice((10, 100))
    corners = own.uniform(0, 0.6, (number, 2))
    found = np.concatenate([corners, corners + own.uniform(0.1, 0.4, (number, 2))], 1).astype(f32)
    which = own.integers(0, x.shape[0], number).astype(i32)
    yield op("CropAndResize", f"{text(x.shape)}/{number}", image=x, boxes=found, box_ind=which, crop_size=Const(np.array([14, 14], i32)))
    grads = values(rng, (number, 14, 14, x.shape[3]))
    yield op("CropAndResizeGradImage", f"{text(x.shape)}/{number}", grads=grads, boxes=found, box_ind=which,
             image_size=Const(np.array(x.shape, i32)), T=f32)
    number = rng.choice((200, 3000))
    corners = own.uniform(0, 0.9, (number, 2))
    found = np.concatenate([corners, corners + own.uniform(0.02, 0.1, (number, 2))], 1).astype(f32)
    limit = {"max_output_size": Const(np.array(100, i32)), "iou_threshold": np.array(0.5, f32)}
    yield op("NonMaxSuppressionV3", str(number), boxes=found, scores=own.random(number).astype(f32),
             score_threshold=np.array(0.1, f32), **limit)
    drawn = found[: 8 * x.shape[0]].reshape(x.shape[0], 8, 4)
    yield op("DrawBoundingBoxes", text(x.shape), images=x[..., :3].copy(), boxes=drawn.copy())
    middle = np.zeros((x.shape[0], 2), f32)
    yield op("ExtractGlimpse", text(x.shape), input=x, size=Const(np.array([20, 20], i32)), offsets=middle)


def files(rng):
    """JPEG, PNG."""
    from PIL import Image

    h, w = rng.choice((64, 300)), rng.choice((65, 400))
    pixels = np.clip(np.add.outer(np.arange(h), np.arange(w))[..., None] % 256 + values(rng, (h, w, 3), f32, 0, 30), 0, 255)
    image = Image.fromarray(pixels.astype(u8))
    for form, name in (("JPEG", "DecodeJpeg"), ("PNG", "DecodePng")):
        file = io.BytesIO()
        image.save(file, form)
        yield op(name, f"{h}x{w}", contents=np.array(file.getvalue(), "S"))
    yield op("EncodePng", f"{h}x{w}", image=pixels.astype(u8))
    yield op("EncodeJpeg", f"{h}x{w}", image=pixels.astype(u8))
