"""Rare ops: rows in place, fingerprints, narrow products, volume patches, scripts."""

import numpy as np

from inputs import generator, rnd
from reference import bf16, f16, f32, f64, i8, i32, i64

NUMBERS = {"f32": f32, "f64": f64, "i32": i32, "i64": i64}


def add(s):
    """Adds the cases of this module."""
    rows(s)
    fingerprints(s)
    products(s)
    patches(s)
    points = np.array([-1, 0, 0x110000, 0x7FFFFFFF, 0xD800, 0x378, 0x10FFFF], i32)
    s.case("UnicodeScript", "edges", audit=False, input=points)
    s.case("UnicodeScript", "every_97th", audit=False, input=np.arange(0, 0x110000, 97, dtype=i32))
    s.case("UnicodeScript", "basic_plane", audit=False, input=np.arange(0, 0x3000, 3, dtype=i32).reshape(64, -1))
    s.case("UnicodeScript", "empty", audit=False, input=np.zeros([0, 2], i32))


def rows(s):
    """Rows in place, and rows side by side."""
    for name, dtype in NUMBERS.items():
        x, v = rnd(dtype, [4, 2, 3]), rnd(dtype, [3, 2, 3])
        for op in ("InplaceUpdate", "InplaceAdd", "InplaceSub"):
            s.case(op, name, audit=False, x=x, i=np.array([2, 0, 3], i32), v=v)
            s.case(op, f"{name}_wrapped", audit=False, x=x, i=np.array([-1, 6, 0], i32), v=v)
            s.case(op, f"{name}_none", audit=False, x=x, i=np.zeros([0], i32), v=np.zeros([0, 2, 3], dtype))
        s.case("InplaceAdd", f"{name}_twice", audit=False, x=x, i=np.array([1, 1, 1], i32), v=v)
        parts = [rnd(dtype, [1, 2, 3]) for _ in range(3)]
        s.case("ParallelConcat", name, audit=False, values=parts, shape=[3, 2, 3])
        s.case("ParallelConcat", f"{name}_one", audit=False, values=[rnd(dtype, [1])], shape=[1])
    words = [np.array([b"a"], object), np.array([b"bc"], object)]
    s.case("ParallelConcat", "string", audit=False, values=words, shape=[2])


def fingerprints(s):
    """Fingerprints of numbers and strings."""
    method = np.array(b"farmhash64", object)
    for name, dtype in {**NUMBERS, "f16": f16, "i8": i8}.items():
        s.case("Fingerprint", name, audit=False, data=rnd(dtype, [3, 2, 2]), method=method)
        s.case("Fingerprint", f"{name}_vector", audit=False, data=rnd(dtype, [5]), method=method)
    words = np.array([b"", b"a", b"a longer string, of more than one word of the hash", b"\xff\0"], object)
    s.case("Fingerprint", "strings", audit=False, data=words, method=method)
    s.case("Fingerprint", "strings_column", audit=False, data=words.reshape(4, 1), method=method)
    s.case("Fingerprint", "strings_rows", audit=False, data=words.reshape(2, 2), method=method)
    s.case("Fingerprint", "empty", audit=False, data=np.zeros([0, 3], f32), method=method)


def products(s):
    """SparseMatMul."""
    for ta in (False, True):
        for tb in (False, True):
            for label, left, right in (("f32", f32, f32), ("bf16", bf16, bf16), ("mixed", bf16, f32)):
                a = rnd(left, [5, 7] if ta else [7, 5]).draw(generator(f"a{label}{ta}{tb}"))
                a[::2] = 0
                b = rnd(right, [4, 5] if tb else [5, 4])
                own = f"{label}{'_ta' * ta}{'_tb' * tb}"
                given = {"transpose_a": ta, "transpose_b": tb, "a_is_sparse": True}
                s.case("SparseMatMul", own, audit=False, tol=(1e-5, 1e-5), a=a, b=b, **given)
    s.case("SparseMatMul", "nothing_inside", audit=False, a=np.zeros([2, 0], f32), b=np.zeros([0, 3], f32))


def patches(s):
    """ExtractVolumePatches."""
    for name, dtype in NUMBERS.items():
        for padding in ("SAME", "VALID"):
            for label, ksizes, strides in (("one", [2, 2, 2], [1, 1, 1]), ("uneven", [3, 1, 2], [2, 1, 3])):
                s.case(
                    "ExtractVolumePatches",
                    f"{name}_{padding.lower()}_{label}",
                    audit=False,
                    input=rnd(dtype, [2, 4, 3, 5, 2]),
                    ksizes=[1, *ksizes, 1],
                    strides=[1, *strides, 1],
                    padding=padding,
                )
