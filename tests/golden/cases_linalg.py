"""Decompositions and inverses of matrices, systems of linear equations."""

import dataclasses

import numpy as np

from inputs import rnd
from kinds import ANY, dims_label
from reference import f16, i64

BATCHES = ([], [2], [2, 3], [0])
SIZES = (0, 1, 2, 3, 5)
FLOATS = ("f32", "f64")
PAIRS = (
    ([3, 3], [3, 2]), ([1, 1], [1, 1]), ([5, 5], [5, 1]), ([4, 4], [4, 0]), ([0, 0], [0, 2]),
    ([2, 3, 3], [2, 3, 4]), ([2, 2, 3, 3], [2, 2, 3, 1]), ([0, 3, 3], [0, 3, 2]), ([20, 20], [20, 18]),
)
BROADCAST = (([3, 3], [2, 3, 2]), ([2, 1, 3, 3], [4, 3, 2]), ([2, 3, 3], [3, 1]))


def regular(name, dims, seed=0):
    """Square matrices with large diagonals."""
    rng = np.random.default_rng([seed, *dims])
    matrices = np.round(rng.uniform(-1, 1, dims), 2) + np.eye(dims[-1]) * 3
    return matrices.astype(ANY[name])


def positive(name, dims):
    """Positive definite matrices."""
    rng = np.random.default_rng([1, *dims])
    x = np.round(rng.uniform(-1, 1, dims), 1)
    product = x @ np.swapaxes(x, -1, -2) + np.eye(dims[-1])
    return np.round(product, 2).astype(ANY[name])


def tolerance(name):
    """Some roundings of well-conditioned matrices."""
    return (1e-4, 1e-4) if name == "f32" else (1e-10, 1e-10)


def without_vectors(s, op, label, tol, **arguments):
    """Records a case whose vectors are not asked for: they have no elements, where TensorFlow leaves one unwritten."""
    result = s.run(op, label, arguments)
    if result is not None:
        none = np.zeros([0], result.outputs[0].dtype)
        outputs = [result.outputs[0]] + [none for _ in result.outputs[1:]]
        s.record(op, label, dataclasses.replace(result, outputs=outputs), tol)


def add(s):
    """Adds the cases of this module."""
    for name in FLOATS:
        for batch in BATCHES:
            for n in SIZES:
                if n in (0, 3) or len(batch) < 2:
                    add_square(s, name, [*batch, n, n])
        add_square(s, name, [20, 20])
        add_systems(s, name)
        add_eigenvalues(s, name)
        add_singular_values(s, name)
        add_least_squares(s, name)
        add_diagonals(s, name)
    s.case("MatrixInverse", "f16_3x3", input=regular("f32", [3, 3]).astype(f16), tol=(2e-2, 2e-2), audit=False)


def add_square(s, name, dims):
    """Ops from square matrices to matrices and numbers."""
    label, tol = f"{name}_{dims_label(dims)}", tolerance(name)
    s.case("Cholesky", label, input=positive(name, dims), tol=tol)
    factor = np.tril(regular(name, dims, 2))
    s.case("CholeskyGrad", label, l=factor, grad=rnd(ANY[name], dims), tol=tol)
    for adjoint in (False, True):
        s.case("MatrixInverse", f"{label}_{'t' if adjoint else 'n'}", input=regular(name, dims), adjoint=adjoint, tol=tol)
    small = regular(name, dims) / ANY[name](3)
    swapped = small[..., ::-1, :].copy()
    for op in ("MatrixDeterminant", "LogMatrixDeterminant"):
        s.case(op, label, input=small, tol=tol)
        if dims[-1] > 1:
            s.case(op, f"{label}_swapped", input=swapped, tol=tol)
    s.case("Lu", label, input=swapped, tol=tol)
    s.case("Lu", f"{label}_i64", input=small, output_idx_type=i64, tol=tol)


def add_systems(s, name):
    """Solutions of systems of linear equations."""
    tol = tolerance(name)
    for singular in (np.zeros([2, 2]), np.ones([3, 3])):
        matrix = singular.astype(ANY[name])
        s.case("MatrixDeterminant", f"{name}_singular_{len(matrix)}", input=matrix, tol=tol)
        s.case("LogMatrixDeterminant", f"{name}_singular_{len(matrix)}", input=matrix, tol=tol)
    infinite = ([[np.inf, 0], [0, 1]], [[np.inf, 1], [1, 1]], [[-np.inf]], [[1, np.inf], [0, 1]], [[np.inf, 0], [0, 0]], [[np.nan, 0], [0, 1]])
    for number, matrix in enumerate(infinite):
        for op in ("MatrixDeterminant", "LogMatrixDeterminant"):
            s.case(op, f"{name}_infinite_{number}", input=np.array(matrix, ANY[name]), tol=tol, audit=False)
    zero_pivot = np.array([[1, 0], [1, 0]], ANY[name])
    s.case("MatrixTriangularSolve", f"{name}_zero_pivot", matrix=zero_pivot, rhs=np.ones([2, 1], ANY[name]), tol=tol)
    for a, b in PAIRS + BROADCAST:
        for adjoint in (False, True):
            label = f"{name}_{dims_label(a)}_{dims_label(b)}_{'t' if adjoint else 'n'}"
            arguments = {"matrix": regular(name, a), "rhs": rnd(ANY[name], b), "adjoint": adjoint, "tol": tol}
            if (a, b) in PAIRS:
                s.case("MatrixSolve", label, **arguments)
            for lower in (False, True):
                s.case("MatrixTriangularSolve", f"{label}_{'lower' if lower else 'upper'}", lower=lower, **arguments)


def add_eigenvalues(s, name):
    """Eigenvalues; the signs of vectors follow from the order of rotations."""
    tol = tolerance(name)
    for dims in ([1, 1], [2, 2], [3, 3], [5, 5], [2, 3, 3], [2, 2, 4, 4], [0, 3, 3], [0, 0], [2, 0, 0], [9, 9]):
        label = f"{name}_{dims_label(dims)}"
        matrix = regular(name, dims, 5)
        s.case("SelfAdjointEigV2", f"{label}_vectors", input=matrix, tol=tol, audit=False)
        without_vectors(s, "SelfAdjointEigV2", f"{label}_values", tol, input=matrix, compute_v=False)
    for label, matrix in (("identity", np.eye(3)), ("rank_one", np.ones([3, 3])), ("zeros", np.zeros([2, 2]))):
        matrix = matrix.astype(ANY[name])
        without_vectors(s, "SelfAdjointEigV2", f"{name}_{label}", tol, input=matrix, compute_v=False)


def add_singular_values(s, name):
    """Singular values, alone and with vectors."""
    tol = tolerance(name)
    shapes = ([1, 1], [2, 2], [3, 3], [4, 2], [2, 4], [5, 1], [1, 5], [2, 3, 2], [2, 2, 2, 3], [7, 9])
    empty = ([0, 3], [3, 0], [0, 2, 2], [2, 0, 3])
    for dims in shapes + empty:
        label = f"{name}_{dims_label(dims)}"
        x = np.round(np.random.default_rng([7, *dims]).uniform(-2, 2, dims), 2).astype(ANY[name])
        without_vectors(s, "Svd", f"{label}_values", tol, input=x, compute_uv=False)
        s.case("Svd", f"{label}_thin", input=x, tol=tol, audit=False)
        # The vectors beside those with a singular value are only fixed, but for the sign, where there is one.
        if abs(dims[-1] - dims[-2]) < 2 or 0 in dims:
            s.case("Svd", f"{label}_full", input=x, full_matrices=True, tol=tol, audit=False)
    for label, matrix in (("zeros", np.zeros([3, 2])), ("identity", np.eye(3)), ("rank_one", np.ones([3, 3]))):
        without_vectors(s, "Svd", f"{name}_{label}", tol, input=matrix.astype(ANY[name]), compute_uv=False)


def add_least_squares(s, name):
    """Least squares: more and fewer equations than unknowns."""
    tol = (1e-3, 1e-3) if name == "f32" else (1e-9, 1e-9)
    for a, b in (([4, 2], [4, 3]), ([2, 4], [2, 3]), ([3, 3], [3, 1]), ([2, 5, 3], [2, 5, 2]), ([3, 0], [3, 2])):
        for factor in (0.0, 0.5):
            for fast in (True, False):
                if fast or not factor:
                    label = f"{name}_{dims_label(a)}_{dims_label(b)}_{factor}_{'fast' if fast else 'slow'}"
                    regularizer = np.float64(factor)
                    matrix = rnd(ANY[name], a)
                    s.case("MatrixSolveLs", label, matrix=matrix, rhs=rnd(ANY[name], b), l2_regularizer=regularizer, fast=fast, tol=tol)
    ones = np.ones([2, 2], ANY[name])
    rhs = np.ones([2, 1], ANY[name])
    s.case("MatrixSolveLs", f"{name}_rank_one", matrix=ones, rhs=rhs, l2_regularizer=np.float64(0), fast=False, tol=tol)


def add_diagonals(s, name):
    """Systems and products of matrices that are given by their diagonals."""
    tol = tolerance(name)
    for a, b in (([2, 3], [3, 2]), ([1, 4], [4, 1]), ([3, 3], [3, 2]), ([2, 2, 4], [2, 4, 2]), ([2, 4], [3, 4, 2]), ([2, 1, 2, 3], [4, 3, 1])):
        for adjoint in (False, True):
            for lower in (False, True):
                label = f"{name}_{dims_label(a)}_{dims_label(b)}_{'t' if adjoint else 'n'}_{'lower' if lower else 'upper'}"
                matrix = rnd(ANY[name], a, 1, 3, 2)
                s.case("BandedTriangularSolve", label, matrix=matrix, rhs=rnd(ANY[name], b), adjoint=adjoint, lower=lower, tol=tol)
    for batch in ([], [2], [0]):
        for n, columns in ((1, 2), (2, 1), (3, 2), (6, 3), (4, 0), (0, 2)):
            label = f"{name}_{dims_label([*batch, n, columns])}"
            rhs = rnd(ANY[name], [*batch, n, columns])
            main = np.random.default_rng([n, columns, *batch]).uniform(-1, 1, [*batch, 3, n])
            strong = np.round(main + np.array([[0.0], [4.0], [0.0]]), 2).astype(ANY[name])
            weak = np.round(main * np.array([[1.0], [0.2], [1.5]]), 2).astype(ANY[name])
            s.case("TridiagonalSolve", f"{label}_thomas", diagonals=strong, rhs=rhs, partial_pivoting=False, tol=tol)
            s.case("TridiagonalSolve", f"{label}_perturbed", diagonals=strong, rhs=rhs, perturb_singular=True, tol=tol)
            if n != 3:
                s.case("TridiagonalSolve", f"{label}_pivoting", diagonals=weak, rhs=rhs, tol=(tol[0] * 10, tol[1] * 10))
            diagonals = {k: rnd(ANY[name], [*batch, 1, n]) for k in ("superdiag", "maindiag", "subdiag")}
            s.case("TridiagonalMatMul", label, rhs=rhs, tol=tol, **diagonals)
    for label, diagonals in (("singular", [[0, 0], [0, 1], [0, 0]]), ("rank_one", [[1, 0], [1, 1], [0, 1]]), ("zero", [[0], [0], [0]])):
        diagonals = np.array(diagonals, ANY[name])
        rhs = np.ones([diagonals.shape[1], 1], ANY[name])
        for partial_pivoting in (True, False):
            kind = "pivoting" if partial_pivoting else "thomas"
            s.case("TridiagonalSolve", f"{name}_{label}_{kind}", diagonals=diagonals, rhs=rhs, partial_pivoting=partial_pivoting, tol=tol)
