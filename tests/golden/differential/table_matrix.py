"""Matrices: products, diagonals, bands."""

from model import ANY, FLOAT, INDEX, NUMBER, TYPES
from registry import family, op
from rules import EXACT_SPECIAL, SUMMED

PRODUCT_KINDS = FLOAT + ("i32", "i64")


@op("MatMul", SUMMED, weight=1.5)
def mat_mul(g):
    a = g.wire(g.kind(PRODUCT_KINDS), rank=2)
    flip_a, flip_b = g.chance(0.3), g.chance(0.3)
    inner = a.dims[0] if flip_a else a.dims[1]
    b = (
        g.wire(
            a.kind, rank=2, test=lambda w: len(w.dims) == 2 and w.dims[1 if flip_b else 0] == inner, reuse=0.8
        )
        if g.chance(0.5)
        else None
    )
    outer = g.integer(1, 5)
    b = b or g.wire(a.kind, dims=(outer, inner) if flip_b else (inner, outer))
    g.add("MatMul", a=a, b=b, transpose_a=flip_a, transpose_b=flip_b)


@family("BatchMatMul BatchMatMulV2 BatchMatMulV3", SUMMED)
def batch_mat_mul(g, name):
    kind = g.kind(PRODUCT_KINDS, attr="Ta" if name.endswith("V3") else "T")
    x = g.wire(kind, rank=(2, 4))
    flip_x, flip_y = g.chance(0.3), g.chance(0.3)
    inner = x.dims[-2] if flip_x else x.dims[-1]
    batch = x.dims[:-2] if name == "BatchMatMul" else g.subshape(x.dims[:-2])
    outer = g.integer(1, 4)
    y = g.wire(kind, dims=(*batch, outer, inner) if flip_y else (*batch, inner, outer))
    extra = {"Tout": TYPES[kind]} if name.endswith("V3") else {}
    g.add(name, x=x, y=y, adj_x=flip_x, adj_y=flip_y, **extra)


EQUATIONS = (
    "ij,jk->ik",
    "ij,kj->ik",
    "bij,bjk->bik",
    "i,i->",
    "i,j->ij",
    "ij->ji",
    "ij->i",
    "ij->",
    "ijk,kl->ijl",
    "bij,bj->bi",
    "abc,cd->dab",
    "ii->i",
    "ii->",
    "ij,ij->ij",
    "bhij,bhjk->bhik",
    "...ij,...jk->...ik",
    "...i->...",
    "i...,i...->...",
)


@op("Einsum", SUMMED)
def einsum(g):
    """Each letter has one size; an ellipsis stands for no or one dimension in front of all."""
    equation, kind = g.one(*EQUATIONS), g.kind(("f32", "f64", "bf16", "f16", "i32", "i64"))
    sizes = {}
    more = g.shape((0, 1), most=3, zero=0)
    inputs = []
    for term in equation.split("->")[0].split(","):
        dims = [sizes.setdefault(c, g.integer(1, 4)) for c in term.replace(".", "")]
        if term.startswith("..."):
            dims = [*more, *dims]
        elif term.endswith("..."):
            dims = [*dims, *more]
        inputs.append(g.wire(kind, dims=dims))
    g.add("Einsum", inputs=inputs, equation=equation)


@op("Diag", EXACT_SPECIAL, weight=0.6)
def diag(g):
    x = g.wire(g.kind(NUMBER), rank=(1, 2), test=lambda w: count(w) <= 12, specials=True)
    g.add("Diag", diagonal=x)


def count(w):
    total = 1
    for d in w.dims:
        total *= d
    return total


@op("DiagPart", EXACT_SPECIAL, weight=0.6)
def diag_part(g):
    half = g.shape((1, 2), most=8)
    g.add("DiagPart", input=g.wire(g.kind(NUMBER), dims=half + half, specials=True))


@op("MatrixDiag", EXACT_SPECIAL, weight=0.6)
def matrix_diag(g):
    g.add("MatrixDiag", diagonal=g.wire(g.kind(ANY), rank=(1, 3), specials=True))


@op("MatrixDiagPart", EXACT_SPECIAL, weight=0.6)
def matrix_diag_part(g):
    g.add("MatrixDiagPart", input=g.wire(g.kind(ANY), rank=(2, 4), specials=True))


@op("MatrixBandPart", EXACT_SPECIAL, weight=0.6)
def matrix_band_part(g):
    x = g.wire(g.kind(ANY), rank=(2, 4), specials=True)
    kind = g.one(*INDEX)
    lower, upper = (g.host(g.integer(-1, max(0, d - 1)), kind) for d in x.dims[-2:])
    g.add("MatrixBandPart", input=x, num_lower=lower, num_upper=upper)


@op("MatrixSetDiag", EXACT_SPECIAL, weight=0.6)
def matrix_set_diag(g):
    x = g.wire(g.kind(ANY), rank=(2, 4), specials=True)
    diagonal = g.wire(x.kind, dims=x.dims[:-2] + (min(x.dims[-2:]),), specials=True)
    g.add("MatrixSetDiag", input=x, diagonal=diagonal)


ALIGNMENTS = ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT")


@op("MatrixDiagPartV3", EXACT_SPECIAL, weight=0.5)
def matrix_diag_part_v3(g):
    x = g.wire(g.kind(ANY), rank=(2, 3), specials=True, test=lambda w: 0 not in w.dims)
    low = g.integer(1 - x.dims[-2], x.dims[-1] - 1)
    k = g.one(low, [low, g.integer(low, x.dims[-1] - 1)])
    g.add(
        "MatrixDiagPartV3",
        input=x,
        k=g.host(k),
        padding_value=g.wire(x.kind, rank=0),
        align=g.one(*ALIGNMENTS),
    )


@op("MatrixDiagV3", EXACT_SPECIAL, weight=0.5)
def matrix_diag_v3(g):
    x = g.wire(g.kind(ANY), rank=(1, 2), specials=True, test=lambda w: w.dims and 0 < w.dims[-1] < 5)
    k = g.integer(-2, 2)
    size = x.dims[-1] + abs(k)
    rows, cols = g.one((-1, -1), (size, size))
    g.add(
        "MatrixDiagV3",
        diagonal=x,
        k=g.host(k),
        num_rows=g.host(rows),
        num_cols=g.host(cols),
        padding_value=g.wire(x.kind, rank=0),
        align=g.one(*ALIGNMENTS),
    )


@op("MatrixSetDiagV3", EXACT_SPECIAL, weight=0.5)
def matrix_set_diag_v3(g):
    x = g.wire(g.kind(ANY), rank=(2, 3), specials=True, test=lambda w: 0 not in w.dims)
    rows, cols = x.dims[-2:]
    k = g.integer(1 - rows, cols - 1)
    length = min(rows + min(k, 0), cols - max(k, 0))
    diagonal = g.wire(x.kind, dims=(*x.dims[:-2], length), specials=True)
    g.add("MatrixSetDiagV3", input=x, diagonal=diagonal, k=g.host(k), align=g.one(*ALIGNMENTS))


@op("Cross", SUMMED, weight=0.3)
def cross(g):
    a = g.wire(g.kind(NUMBER), dims=(*g.shape((0, 2), most=8), 3))
    g.add("Cross", a=a, b=g.like(a))
