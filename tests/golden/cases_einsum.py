"""Einsum, cross products, QR decompositions, products of matrices that say all dtypes."""

import numpy as np

from inputs import rnd
from kinds import ANY
from reference import f16, f32, i32

EQUATIONS = {
    "ij,jk->ik": ([2, 3], [3, 4]),
    "ij,kj->ki": ([2, 3], [4, 3]),
    "bij,bjk->bik": ([2, 2, 3], [2, 3, 4]),
    "bsd,dhk->bshk": ([2, 3, 4], [4, 2, 3]),
    "bshk,bthk->bhst": ([2, 3, 2, 4], [2, 5, 2, 4]),
    "ij,ij->": ([2, 3], [2, 3]),
    "i,j->ij": ([3], [4]),
    "i,i->i": ([3], [3]),
    "ab,c->ca": ([2, 3], [4]),
    ",i->i": ([], [3]),
    "ij,k->ik": ([2, 3], [2]),
    "ij->ji": ([2, 3],),
    "ijk->j": ([2, 3, 4],),
    "ii->i": ([3, 3],),
    "ii->": ([3, 3],),
    "iji->j": ([2, 3, 2],),
    "iij,jk->ik": ([2, 2, 3], [3, 2]),
    "ij,jk->iki": ([2, 3], [3, 2]),
    "i->ii": ([3],),
    "->": ([],),
    "...ij,...jk->...ik": ([2, 1, 2, 3], [4, 3, 2]),
    "...ij,jk->...ik": ([2, 2, 3], [3, 2]),
    "i...j,j...->...i": ([2, 3, 2], [2, 1]),
    "...,...->...": ([2, 3], [3]),
    "...i->...": ([2, 2, 3],),
    "ab...->...ba": ([2, 3, 2],),
    "ij,jk->ki": ([0, 3], [3, 2]),
    "xj,jY->xY": ([2, 0], [0, 3]),
}


def add(s):
    """Adds the cases of this module."""
    for equation, shapes in EQUATIONS.items():
        label = equation.replace("->", "_to_").replace(",", "_and_").replace("...", "~") or "none"
        s.case("Einsum", f"f32_{label}", inputs=[rnd(f32, d) for d in shapes], equation=equation)
    for name in ("f64", "f16", "bf16", "i32", "i64"):
        for equation in ("ij,jk->ki", "bij->bj"):
            shapes = EQUATIONS.get(equation, ([2, 3, 2],))
            if equation == "ij,jk->ki":
                shapes = ([4, 3], [3, 2])
            inputs = [rnd(ANY[name], d, -3, 3, 2) for d in shapes]
            s.case("Einsum", f"{name}_{len(shapes)}", inputs=inputs, equation=equation)
    s.case("Einsum", "f32_large", inputs=[rnd(f32, [7, 33], digits=1), rnd(f32, [33, 9], digits=1)], equation="ij,jk->ki")
    for name in ("f32", "f64", "f16", "i32", "i64", "i8", "u8"):
        lo = 0 if name[0] == "u" else -5
        a, b = rnd(ANY[name], [2, 3], lo, 5), rnd(ANY[name], [2, 3], lo, 5)
        s.case("Cross", f"{name}_2x3", a=a, b=b)
    s.case("Cross", "f32_3", a=rnd(f32, [3]), b=rnd(f32, [3]))
    s.case("Cross", "f32_0x3", a=rnd(f32, [0, 3]), b=rnd(f32, [0, 3]))
    for name in ("f32", "f64", "bf16", "i32"):
        x, y = rnd(ANY[name], [2, 2, 3], -3, 3, 2), rnd(ANY[name], [4, 3], -3, 3, 2)
        s.case("BatchMatMulV3", f"{name}", audit=False, x=x, y=y, Tout=ANY[name], adj_y=True)
    for a, b, out in (("i8", "i8", "i32"), ("i8", "u8", "i32"), ("u8", "i8", "i32"), ("bf16", "i8", "bf16"), ("u8", "bf16", "bf16")):
        x, y = (rnd(ANY[name], dims, 0 if name == "u8" else -9, 9) for name, dims in ((a, [2, 2, 3]), (b, [3, 4])))
        s.case("BatchMatMulV3", f"{a}_{b}_{out}", audit=False, x=x, y=y, Tout=ANY[out])
    add_qr(s)


# A matrix with zeros below the diagonal is unchanged; a column of zeros too.
SPECIAL = {
    "identity": np.eye(3),
    "negative_diagonal": np.diag([-1.0, 2.0, -3.0]),
    "upper": np.triu(np.arange(-4.0, 5.0).reshape(3, 3)),
    "zeros": np.zeros([3, 2]),
    "zero_column": np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0]]),
    "zero_first": np.array([[0.0, 1.0], [2.0, 3.0]]),
    "large": np.array([[1e15, 2e15], [3e15, -1e15]]),
    "small": np.array([[1e-15, 2e-15], [3e-15, -1e-15]]),
}


def add_qr(s):
    """Adds QR decompositions: only signs can differ, and those are of Householder's reflections."""
    shapes = ([1, 1], [3, 3], [4, 2], [2, 4], [5, 1], [1, 5], [2, 3, 2], [2, 2, 2, 3], [17, 9], [9, 17])
    empty = ([0, 3], [3, 0], [0, 2, 2], [2, 0, 3])
    for name in ("f32", "f64"):
        for full in (False, True):
            kind = f"{name}_full" if full else name
            for dims in shapes + empty:
                label = "x".join(map(str, dims))
                s.case("Qr", f"{kind}_{label}", input=rnd(ANY[name], dims), full_matrices=full)
            for label, matrix in SPECIAL.items():
                s.case("Qr", f"{kind}_{label}", input=matrix.astype(ANY[name]), full_matrices=full)
    # TensorFlow's own sums are in half precision.
    s.case("Qr", "f16_4x2", input=rnd(f16, [4, 2]), tol=(1e-2, 1e-2), audit=False)
    s.case("Qr", "f32_60x50", input=rnd(f32, [60, 50], digits=1))
