"""Complex numbers: arithmetic, functions, parts, reductions, products, and ops that move elements."""

import numpy as np

from inputs import Var, rnd
from kinds import dims_label, ivec
from reference import f32, f64, i32, i64, tf

COMPLEX = {"c64": np.complex64, "c128": np.complex128}
PARTS = {"c64": f32, "c128": f64}


def add(s):
    """Adds the cases of this module."""
    for name, dtype in COMPLEX.items():
        unary(s, name, dtype)
        binary(s, name, dtype)
        parts(s, name, dtype)
        reductions(s, name, dtype)
        products(s, name, dtype)
        segments(s, name, dtype)
        variables(s, name, dtype)
        moves(s, name, dtype)
        decompositions(s, name, dtype)
        tridiagonal(s, name, dtype)
        sparse(s, name, dtype)
    casts(s)


# Products and quotients: exact of real numbers, and rounded in several ways of complex ones.
ROUNDED = "Mul MulNoNan Square Sign Div RealDiv DivNoNan Xdivy".split()
TOLERANCE = {"c64": (1e-5, 1e-6), "c128": (1e-12, 1e-13)}


def plain(s, op, label, **arguments):
    """A case that is not run again in f64."""
    tol = TOLERANCE[label.split("_")[0]] if op in ROUNDED else "default"
    s.case(op, label, tol=tol, audit=False, **arguments)


UNARY = (
    "Neg Square Sqrt Rsqrt Exp Log Log1p Expm1 Tanh Sigmoid Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh "
    "Sign Reciprocal Inv"
).split()


def unary(s, name, dtype):
    """Functions of one number, in all four quadrants."""
    for op in UNARY:
        for dims in ([7], [2, 3], [0, 2]):
            plain(s, op, f"{name}_{dims_label(dims)}", x=rnd(dtype, dims, -2, 2))
    for op in ("Neg", "Square", "Sign", "Exp", "Sin", "Tanh", "Sqrt"):
        plain(s, op, f"{name}_zero_and_axes", x=np.array([0, 1, -1, 1j, -1j, 3, -4j], dtype))
    plain(s, "Conj", f"{name}_2x3", input=rnd(dtype, [2, 3]))
    for op in ("SigmoidGrad", "TanhGrad", "SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad"):
        y, dy = rnd(dtype, [6], 0.5, 2), rnd(dtype, [6])
        plain(s, op, f"{name}_6", y=y, dy=dy)


BINARY = "AddV2 Add Sub Mul RealDiv Div DivNoNan MulNoNan Xlogy Xdivy Xlog1py Pow SquaredDifference Equal NotEqual".split()


def binary(s, name, dtype):
    """Functions of two numbers."""
    for op in BINARY:
        for a, b in (([2, 3], [2, 3]), ([4, 1], [1, 3]), ([3], []), ([0, 3], [1, 3])):
            plain(s, op, f"{name}_{dims_label(a)}_{dims_label(b)}", x=rnd(dtype, a), y=rnd(dtype, b))
    zeros = np.array([0, 1 + 1j, 0], dtype)
    for op in ("DivNoNan", "MulNoNan", "Xlogy", "Xdivy", "Xlog1py"):
        plain(s, op, f"{name}_zeros", x=zeros, y=zeros[::-1].copy())
    plain(s, "Equal", f"{name}_same", x=zeros, y=np.array([0, 1 - 1j, 1j], dtype))
    plain(s, "Pow", f"{name}_of_zero", x=np.array([0, 0, 2j], dtype), y=np.array([2, 0, 0], dtype))
    plain(s, "AddN", f"{name}_three", inputs=[rnd(dtype, [2, 2]) for _ in range(3)])


def parts(s, name, dtype):
    """From parts and to parts."""
    part = PARTS[name]
    tout = tf.as_dtype(dtype)
    for a, b in (([5], [5]), ([2, 1], [1, 3]), ([], [2])):
        label = f"{name}_{dims_label(a)}_{dims_label(b)}"
        plain(s, "Complex", label, real=rnd(part, a), imag=rnd(part, b), Tout=tout)
    for op, key in (("Real", "input"), ("Imag", "input"), ("Angle", "input"), ("ComplexAbs", "x")):
        for dims in ([8], [2, 0], [2, 3]):
            plain(s, op, f"{name}_{dims_label(dims)}", Tout=tf.as_dtype(part), **{key: rnd(dtype, dims)})
        axes = np.array([0, 1, -1, 1j, -1j], dtype)
        plain(s, op, f"{name}_axes", Tout=tf.as_dtype(part), **{key: axes})


def reductions(s, name, dtype):
    """Sums, products, means, norms and scans."""
    for op in ("Sum", "Mean", "Prod", "EuclideanNorm"):
        for dims, axes in (([3, 4], [0]), ([3, 4], [1]), ([2, 3, 2], [0, 2]), ([40, 3], [0]), ([2, 3], [])):
            label = f"{name}_{dims_label(dims)}_over_{'_'.join(map(str, axes)) or 'none'}"
            box = np.array(axes, i32)
            plain(s, op, label, input=rnd(dtype, dims, -1, 1), axis=box, keep_dims=False)
    for op in ("Cumsum", "Cumprod"):
        for exclusive, reverse in ((False, False), (True, False), (False, True), (True, True)):
            label = f"{name}_{'exclusive' if exclusive else 'plain'}_{'reverse' if reverse else 'forward'}"
            x = rnd(dtype, [3, 4], -1, 1)
            plain(s, op, label, x=x, axis=np.array(1, i32), exclusive=exclusive, reverse=reverse)


def products(s, name, dtype):
    """Products of matrices."""
    for ta in (False, True):
        for tb in (False, True):
            a, b = ([4, 2] if ta else [2, 4]), ([3, 4] if tb else [4, 3])
            label = f"{name}_{'t' if ta else 'n'}{'t' if tb else 'n'}"
            plain(s, "MatMul", label, a=rnd(dtype, a), b=rnd(dtype, b), transpose_a=ta, transpose_b=tb)
            for op in ("BatchMatMul", "BatchMatMulV2"):
                x, y = rnd(dtype, [2] + a), rnd(dtype, [2] + b)
                plain(s, op, label, x=x, y=y, adj_x=ta, adj_y=tb)
    plain(s, "BatchMatMulV2", f"{name}_broadcast", x=rnd(dtype, [2, 1, 3, 2]), y=rnd(dtype, [1, 2, 2, 1]))
    for equation, a, b in (("ij,jk->ik", [2, 3], [3, 2]), ("bij,bj->bi", [2, 2, 3], [2, 3]), ("ij,kl->il", [2, 3], [2, 2])):
        label = f"{name}_{equation.replace(',', '_').replace('->', '_')}"
        plain(s, "Einsum", label, inputs=[rnd(dtype, a), rnd(dtype, b)], equation=equation)
    for op in ("BiasAdd",):
        plain(s, op, f"{name}_2x3", value=rnd(dtype, [2, 3]), bias=rnd(dtype, [3]))
    plain(s, "BiasAddGrad", f"{name}_4x3", out_backprop=rnd(dtype, [4, 3]))


def segments(s, name, dtype):
    """Sums of segments, and scattered sums."""
    data = rnd(dtype, [5, 2], -1, 1)
    ids = ivec(0, 0, 1, 3, 3)
    for op in ("SegmentSum", "SegmentMean", "SegmentProd"):
        plain(s, op, f"{name}_5x2", data=data, segment_ids=ids)
    for op in ("UnsortedSegmentSum", "UnsortedSegmentProd"):
        mixed = ivec(2, 0, -1, 2, 0)
        plain(s, op, f"{name}_5x2", data=data, segment_ids=mixed, num_segments=np.array(4, i32))
    at = np.array([[1], [3], [1]], i32)
    plain(s, "ScatterNd", f"{name}_4x2", indices=at, updates=rnd(dtype, [3, 2]), shape=ivec(4, 2))
    for op in ("TensorScatterAdd", "TensorScatterSub", "TensorScatterUpdate"):
        places = at[:2] if op == "TensorScatterUpdate" else at
        tensor, updates = rnd(dtype, [4, 2]), rnd(dtype, [len(places), 2])
        plain(s, op, f"{name}_4x2", tensor=tensor, indices=places, updates=updates)


def variables(s, name, dtype):
    """Updates of variables."""
    for op in ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"):
        plain(s, op, f"{name}_2x2", resource=Var(rnd(dtype, [2, 2])), value=rnd(dtype, [2, 2]))
    for op in ("Add", "Sub", "Mul", "Div", "Update"):
        plain(
            s,
            f"ResourceScatter{op}",
            f"{name}_3x2",
            resource=Var(rnd(dtype, [3, 2], 0.5, 2)),
            indices=ivec(2, 0),
            updates=rnd(dtype, [2, 2], 0.5, 2),
        )


def moves(s, name, dtype):
    """Ops that copy elements."""
    x = rnd(dtype, [2, 3])
    label = f"{name}_2x3"
    plain(s, "Transpose", label, x=x, perm=ivec(1, 0))
    plain(s, "ConjugateTranspose", label, x=x, perm=ivec(1, 0))
    plain(s, "Reshape", label, tensor=x, shape=ivec(3, 2))
    plain(s, "ConcatV2", label, values=[rnd(dtype, [2, 1]), rnd(dtype, [2, 2])], axis=np.array(1, i32))
    plain(s, "Pack", label, values=[rnd(dtype, [2]), rnd(dtype, [2])], axis=0)
    plain(s, "Split", label, axis=np.array(1, i32), value=rnd(dtype, [2, 4]), num_split=2)
    plain(s, "GatherV2", label, params=x, indices=ivec(1, 0, 1), axis=np.array(0, i32))
    plain(s, "GatherNd", label, params=x, indices=np.array([[1, 2], [0, 0]], i32))
    plain(s, "Pad", label, input=x, paddings=ivec(1, 0, 0, 2).reshape(2, 2))
    plain(s, "MirrorPad", label, input=x, paddings=ivec(1, 0, 0, 2).reshape(2, 2), mode="REFLECT")
    plain(s, "Tile", label, input=x, multiples=ivec(2, 1))
    plain(s, "Slice", label, input=x, begin=ivec(0, 1), size=ivec(2, 2))
    plain(s, "StridedSlice", label, input=x, begin=ivec(0, 2), end=ivec(2, 0), strides=ivec(1, -1))
    plain(s, "Fill", name, dims=ivec(2, 2), value=np.array(1 - 2j, dtype))
    plain(s, "ZerosLike", label, x=x)
    plain(s, "OnesLike", label, x=x)
    plain(s, "BroadcastTo", label, input=rnd(dtype, [1, 3]), shape=ivec(2, 3))
    plain(s, "ReverseV2", label, tensor=x, axis=ivec(1))
    plain(s, "Roll", label, input=x, shift=np.array(1, i32), axis=np.array(1, i32))
    plain(s, "SelectV2", label, condition=np.array([True, False, True]), t=x, e=rnd(dtype, [2, 3]))
    plain(s, "Select", label, condition=np.array([True, False]), x=x, y=rnd(dtype, [2, 3]))
    plain(s, "MatrixDiag", label, diagonal=x)
    plain(s, "MatrixDiagPart", label, input=rnd(dtype, [2, 3, 3]))
    plain(s, "MatrixBandPart", label, input=rnd(dtype, [3, 3]), num_lower=np.array(1, i64), num_upper=np.array(0, i64))
    plain(s, "OneHot", name, indices=ivec(1, 0), depth=np.array(3, i32), on_value=np.array(2j, dtype), off_value=np.array(1, dtype))
    plain(s, "Where", name, condition=np.array([[0, 1j], [1, 0]], dtype))
    plain(s, "DynamicStitch", name, indices=[ivec(2, 0), ivec(1)], data=[rnd(dtype, [2]), rnd(dtype, [1])])
    plain(s, "DynamicPartition", name, data=rnd(dtype, [3]), partitions=ivec(1, 0, 1), num_partitions=2)
    plain(s, "Diag", name, diagonal=rnd(dtype, [2]))
    plain(s, "AsString", name, input=np.array([1 - 2j, 0.5], dtype))
    plain(s, "AsString", f"{name}_precise", input=np.array([1 - 2j, 0.5], dtype), precision=2, scientific=True)


CASTS = {"c64": np.complex64, "c128": np.complex128, "f32": f32, "f64": f64, "i32": i32, "i64": i64, "bool": np.bool_}


def casts(s):
    """Conversions from and to complex numbers."""
    for source, dtype in CASTS.items():
        for target, to in CASTS.items():
            if source in COMPLEX or target in COMPLEX:
                x = rnd(dtype, [5], 0 if source == "bool" else -3, 3)
                plain(s, "Cast", f"{source}_to_{target}", x=x, DstT=tf.as_dtype(to))


def hermitian(dtype, n, batch=()):
    """Positive definite Hermitian matrices, from a seed of their own."""
    rng = np.random.default_rng(n)
    parts = [np.round(rng.uniform(-1, 1, (*batch, n, n)), 2) for _ in range(2)]
    a = parts[0] + 1j * parts[1]
    return (a @ np.conj(np.swapaxes(a, -1, -2)) + 2 * np.eye(n)).astype(dtype)


def decompositions(s, name, dtype):
    """Decompositions of matrices, and systems of linear equations."""
    tol = {"c64": (1e-4, 1e-4), "c128": (1e-10, 1e-10)}[name]

    def case(op, label, **arguments):
        s.case(op, f"{name}_{label}", tol=tol, audit=False, **arguments)

    for batch, label in (((), "3"), ((2,), "2x3")):
        square = rnd(dtype, [*batch, 3, 3])
        case("Cholesky", label, input=hermitian(dtype, 3, batch))
        case("MatrixDeterminant", label, input=square)
        case("LogMatrixDeterminant", label, input=square)
        case("Lu", label, input=square)
        case("MatrixSquareRoot", label, input=hermitian(dtype, 3, batch))
        case("MatrixLogarithm", label, input=hermitian(dtype, 3, batch))
        for adjoint in (False, True):
            kind = f"{label}_{'adjoint' if adjoint else 'plain'}"
            rhs = rnd(dtype, [*batch, 3, 2])
            case("MatrixInverse", kind, input=hermitian(dtype, 3, batch), adjoint=adjoint)
            case("MatrixSolve", kind, matrix=hermitian(dtype, 3, batch), rhs=rhs, adjoint=adjoint)
            for lower in (False, True):
                a = hermitian(dtype, 3, batch)
                case("MatrixTriangularSolve", f"{kind}_{lower}", matrix=a, rhs=rhs, adjoint=adjoint, lower=lower)
    for dims in ([3, 3], [4, 2], [2, 4], [2, 3, 2]):
        for full in (False, True):
            if not full or dims[-2] <= dims[-1]:
                case("Qr", f"{dims_label(dims)}_{'full' if full else 'thin'}", input=rnd(dtype, dims), full_matrices=full)


def tridiagonal(s, name, dtype):
    """Systems and products of matrices that are given by their diagonals."""
    tol = {"c64": (1e-4, 1e-4), "c128": (1e-10, 1e-10)}[name]
    for batch, n, columns in (([], 1, 2), ([2], 5, 2), ([], 6, 3)):
        label = f"{name}_{dims_label([*batch, n, columns])}"
        rng = np.random.default_rng([n, columns])
        parts = [np.round(rng.uniform(-1, 1, [*batch, 3, n]), 2) for _ in range(2)]
        rhs, diagonals = rnd(dtype, [*batch, n, columns]), (parts[0] + 1j * parts[1]).astype(dtype)
        strong = diagonals + np.array([[0], [9], [0]], dtype)
        for kind, how in (("thomas", {"partial_pivoting": False}), ("pivoting", {}), ("perturbed", {"perturb_singular": True})):
            s.case("TridiagonalSolve", f"{label}_{kind}", diagonals=strong, rhs=rhs, tol=tol, audit=False, **how)
        weak = diagonals * np.array([[1], [0.1], [1.5]], dtype)
        s.case("TridiagonalSolve", f"{label}_weak", diagonals=weak, rhs=rhs, tol=(tol[0] * 10, tol[1] * 10), audit=False)
        rows = {k: rnd(dtype, [*batch, 1, n]) for k in ("superdiag", "maindiag", "subdiag")}
        s.case("TridiagonalMatMul", label, rhs=rhs, tol=tol, audit=False, **rows)


def roots(s):
    """Square roots of real matrices."""
    for name, dtype in (("f32", f32), ("f64", f64)):
        a = np.array([[4, 1, 0], [1, 3, 1], [2, 0, 5]], dtype)
        tol = {"f32": (1e-4, 1e-5), "f64": (1e-10, 1e-11)}[name]
        s.case("MatrixSquareRoot", f"{name}_2x3", tol=tol, audit=False, input=np.stack([a, a.T]))


def sparse(s, name, dtype):
    """Sparse tensors."""
    at = np.array([[0, 1], [1, 0], [1, 2]], i64)
    shape = np.array([2, 3], i64)
    values = rnd(dtype, [3])
    for a in (False, True):
        for b in (False, True):
            inner, columns = (2 if a else 3), 2
            dense = rnd(dtype, [columns, inner] if b else [inner, columns])
            label = f"{name}_{'adjoint' if a else 'plain'}_{'adjoint' if b else 'plain'}"
            kinds = {"adjoint_a": a, "adjoint_b": b}
            plain(s, "SparseTensorDenseMatMul", label, a_indices=at, a_values=values, a_shape=shape, b=dense, **kinds)
    entries = {"a_indices": at, "a_values": values, "a_shape": shape}
    other = {"b_indices": at[:2], "b_values": rnd(dtype, [2]), "b_shape": shape}
    plain(s, "SparseAdd", name, **entries, **other, thresh=np.array(0.5, PARTS[name]))
    plain(s, "SparseTensorDenseAdd", name, **entries, b=rnd(dtype, [2, 3]))
    for op in ("SparseReduceSum", "SparseReduceSumSparse"):
        plain(s, op, name, input_indices=at, input_values=values, input_shape=shape, reduction_axes=ivec(1))
