"""Images of another size, and sizes and axes in another data format."""

import numpy as np

from inputs import generator, rnd
from kinds import ivec
from reference import bf16, f16, f32, f64, i8, i16, i32, i64, u8, u16

ALL = {
    "f16": f16,
    "bf16": bf16,
    "f64": f64,
    "i8": i8,
    "i16": i16,
    "i32": i32,
    "i64": i64,
    "u8": u8,
    "u16": u16,
}
MODES = {
    "corner": {},
    "aligned": {"align_corners": True},
    "centers": {"half_pixel_centers": True},
}
# label: image and size
CONFIGS = {
    "larger": ([2, 3, 4, 2], (7, 9)),
    "smaller": ([1, 7, 9, 3], (3, 4)),
    "same": ([1, 3, 2, 2], (3, 2)),
    "to_one": ([1, 3, 5, 1], (1, 1)),
    "from_one": ([1, 1, 1, 2], (3, 2)),
    "lines_only": ([1, 5, 4, 1], (8, 4)),
    "no_images": ([0, 3, 4, 2], (2, 2)),
}
GRADS = ("f16", "bf16", "f64")
NEAREST_GRADS = ("f16", "bf16", "f64", "i8", "u8", "i32")


def add(s):
    """Adds the cases of this module."""
    for mode, attrs in MODES.items():
        for label, (dims, size) in CONFIGS.items():
            resize(s, f"f32_{label}_{mode}", f32, dims, size, attrs)
        for name, dtype in ALL.items():
            resize(s, f"{name}_larger_{mode}", dtype, [1, 2, 3, 1], (3, 5), attrs, name)
    formats(s)


def resize(s, label, dtype, dims, size, attrs, name="f32"):
    """Both ops and their gradients."""
    low = 0 if np.dtype(dtype).kind == "u" else -9
    image = rnd(dtype, dims, low, 9).draw(generator(f"resize/{label}"))
    # Weights are f32 and so are their products: f64 tells the same.
    s.case("ResizeBilinear", label, images=image, size=ivec(*size), **attrs)
    s.case("ResizeNearestNeighbor", label, images=image, size=ivec(*size), **attrs)
    out = [dims[0], *size, dims[3]]
    if name in GRADS or name == "f32":
        s.case(
            "ResizeBilinearGrad",
            label,
            audit=False,
            tol=(1e-5, 1e-5) if name == "f64" else "default",
            grads=rnd(f32, out),
            original_image=image,
            **attrs,
        )
    if name in NEAREST_GRADS or name == "f32":
        grads = rnd(dtype, out, low, 9, 1)
        s.case("ResizeNearestNeighborGrad", label, grads=grads, size=ivec(*dims[1:3]), **attrs)


def formats(s):
    """DataFormatVecPermute and DataFormatDimMap."""
    pairs = [("NHWC", "NCHW"), ("NCHW", "NHWC"), ("HWNC", "NHWC"), ("NHWC", "WHCN"), ("NDHWC", "NCDHW")]
    for source, target in pairs:
        attrs = {"src_format": source, "dst_format": target}
        for name, dtype in (("i32", i32), ("i64", i64)):
            for n in (len(source), len(source) - 2):
                for dims in ([n], [n, 2]):
                    label = f"{name}_{source}_{target}_{'x'.join(map(str, dims))}"
                    s.case("DataFormatVecPermute", label, x=rnd(dtype, dims, 0, 99), **attrs)
            axes = np.arange(-len(source), len(source)).astype(dtype)
            s.case("DataFormatDimMap", f"{name}_{source}_{target}", x=axes, **attrs)
    s.case("DataFormatDimMap", "i32_scalar", x=np.array(-1, i32))
    s.case("DataFormatDimMap", "i32_2x2", x=np.array([[0, 1], [2, 3]], i32))
    s.case("DataFormatDimMap", "i32_empty", x=np.zeros([0, 3], i32))
