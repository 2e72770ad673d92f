"""Fourier transforms."""

import numpy as np

from cases_complex import COMPLEX, PARTS
from inputs import rnd
from kinds import dims_label, ivec
from reference import tf

DIMS = {1: ([1], [8], [7], [2, 12], [3, 2, 5], [0, 4], [97]), 2: ([4, 4], [3, 5], [2, 6, 3], [40, 9]), 3: ([2, 3, 4], [2, 3, 2, 5])}
NAMES = {1: "", 2: "2D", 3: "3D"}
# For real transforms: dimensions, and lengths that are shorter or the same.
CUT = {
    1: (([8], [8]), ([9], [9]), ([2, 8], [5]), ([3], [1]), ([2, 6], [4])),
    2: (([4, 6], [4, 6]), ([2, 5, 7], [3, 7]), ([5, 6], [4, 5])),
    3: (([2, 3, 4], [2, 3, 4]), ([2, 3, 4, 5], [2, 4, 3])),
}


def add(s):
    """Adds the cases of this module."""
    for name, dtype in COMPLEX.items():
        for rank, suffix in NAMES.items():
            for dims in DIMS[rank]:
                tol = TOLERANCE[name]
                for op in ("FFT", "IFFT"):
                    s.case(f"{op}{suffix}", f"{name}_{dims_label(dims)}", tol=tol, audit=False, input=rnd(dtype, dims))
            for dims, lengths in CUT[rank]:
                real(s, name, f"{suffix}", dims, lengths)


TOLERANCE = {"c64": (1e-5, 2e-5), "c128": (1e-12, 1e-12)}


def real(s, name, suffix, dims, lengths):
    """A transform of real numbers, and one back to them."""
    part, dtype = PARTS[name], COMPLEX[name]
    label = f"{name}_{dims_label(dims)}_of_{dims_label(lengths)}"
    kinds = {"Treal": tf.as_dtype(part), "Tcomplex": tf.as_dtype(dtype)}
    tol = TOLERANCE[name]
    size = ivec(*lengths)
    s.case(f"RFFT{suffix}", label, tol=tol, audit=False, input=rnd(part, dims), fft_length=size, Tcomplex=kinds["Tcomplex"])
    half = dims[:-1] + [dims[-1] // 2 + 1]
    s.case(f"IRFFT{suffix}", label, tol=tol, audit=False, input=rnd(dtype, half), fft_length=size, Treal=kinds["Treal"])
