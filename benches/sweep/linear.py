"""Matrix products, decompositions, Fourier transforms, sparse matrices."""

import numpy as np

from case import Case, Const, op, raw, text, values

f16, f32, f64, i32, i64 = np.float16, np.float32, np.float64, np.int32, np.int64


def cases(rng, count):
    """All cases."""
    for _ in range(count):
        yield from products(rng)
        yield from decompositions(rng)
        yield from transforms(rng)
        yield from sparse(rng)


def side(rng):
    """A side of a matrix: often short, seldom round."""
    return rng.choice((1, 2, 3, 7, 10, 17, 32, 64, 100, 129, 256, 500, 784, 1000))


def products(rng):
    """MatMul, BatchMatMulV2, Einsum."""
    for dtype in (f32, f32, f64, i32, f16):
        m, k, n = side(rng), side(rng), side(rng)
        left, right = rng.random() < 0.5, rng.random() < 0.5
        a = values(rng, (k, m) if left else (m, k), dtype, -3, 3)
        b = values(rng, (n, k) if right else (k, n), dtype, -3, 3)

        def product(torch, a=a, b=b, left=left, right=right):
            x, y = torch.from_numpy(a), torch.from_numpy(b)
            return lambda: (x.T if left else x) @ (y.T if right else y)

        label = f"{a.dtype}/{m}x{k}x{n}/{'t' * left}{'T' * right}"
        yield op("MatMul", label, product if dtype != f16 else None, a=a, b=b, transpose_a=left, transpose_b=right)
    for dtype in (f32, f64):
        batch = rng.choice(((8,), (300,), (12, 8), (2, 3000)))
        m, k, n = (rng.choice((1, 3, 8, 20, 49, 64)) for _ in range(3))
        a, b = values(rng, (*batch, m, k), dtype), values(rng, (*batch, k, n), dtype)

        def batched(torch, a=a, b=b):
            x, y = torch.from_numpy(a), torch.from_numpy(b)
            return lambda: x @ y

        label = f"{a.dtype}/{text(batch)}/{m}x{k}x{n}"
        yield op("BatchMatMulV2", label, batched, x=a, y=b)
        whole = values(rng, (k, n), dtype)
        yield op("BatchMatMulV2", "one/" + label, x=a, y=whole)
    for equation, left, right in (
        ("bqhd,bkhd->bhqk", (4, 40, 4, 16), (4, 50, 4, 16)),
        ("bij,jk->bik", (6, 30, 64), (64, 40)),
        ("ij,ik->jk", (1000, 20), (1000, 30)),
        ("bij,bij->b", (30, 40, 50), (30, 40, 50)),
        ("abc,cd->abd", (7, 60, 33), (33, 5)),
    ):
        a, b = values(rng, left), values(rng, right)

        def summed(torch, a=a, b=b, equation=equation):
            x, y = torch.from_numpy(a), torch.from_numpy(b)
            return lambda: torch.einsum(equation, x, y)

        yield op("Einsum", equation, summed, inputs=[a, b], equation=equation)


def positive(x):
    """Symmetric positive definite matrices."""
    return (x @ np.swapaxes(x, -1, -2) + 2 * x.shape[-1] * np.eye(x.shape[-1])).astype(x.dtype)


def decompositions(rng):
    """Solvers and decompositions, of one matrix and of many."""
    for dtype in (f32, f64):
        for batch, n in (((), rng.randint(80, 200)), ((rng.randint(50, 400),), rng.randint(3, 16))):
            x = values(rng, (*batch, n, n), dtype)
            label = f"{x.dtype}/{text(x.shape)}"
            regular = positive(x)
            yield op("Cholesky", label, input=regular)
            yield op("MatrixInverse", label, input=regular)
            yield op("MatrixDeterminant", label, input=x)
            right = values(rng, (*batch, n, 5), dtype)
            yield op("MatrixSolve", label, matrix=regular, rhs=right)
            yield op("MatrixTriangularSolve", label, matrix=regular, rhs=right)
            yield op("Qr", label, input=x)
            yield op("Svd", label, input=x)
            yield op("SelfAdjointEigV2", label, input=regular)


def transforms(rng):
    """Fourier transforms."""
    for n in (1024, 1000, 997, 2 ** rng.randint(5, 12)):
        rows = max(1, 60000 // n)
        x = values(rng, (rows, n))
        yield op("RFFT", f"{rows}x{n}", input=x, fft_length=Const(np.array([n], i32)))

        def forth(inputs, x=x):
            given = inputs.input(x)
            return raw.FFT(input=raw.Complex(real=given, imag=given))

        yield Case(f"FFT/{rows}x{n}", forth)
    x = values(rng, (rng.randint(1, 9), 96, 60))
    yield op("RFFT2D", text(x.shape), input=x, fft_length=Const(np.array([96, 60], i32)))


def sparse(rng):
    """Sparse matrices as triples."""
    own = np.random.default_rng(rng.getrandbits(32))
    lines, columns, number = rng.randint(100, 3000), rng.randint(100, 3000), rng.randint(2000, 40000)
    flat = np.sort(own.choice(lines * columns, number, replace=False))
    indices = np.stack([flat // columns, flat % columns], 1).astype(i64)
    x = values(rng, (number,))
    dims = np.array([lines, columns], i64)
    label = f"{lines}x{columns}/{number}"
    for width in (1, 40):
        dense = values(rng, (columns, width))
        yield op("SparseTensorDenseMatMul", f"{label}/{width}", a_indices=indices, a_values=x, a_shape=dims, b=dense)
    triple = {"input_indices": indices, "input_values": x, "input_shape": dims}
    mixed = own.permutation(number)
    yield op("SparseReorder", label, input_indices=indices[mixed].copy(), input_values=x[mixed].copy(), input_shape=dims)
    yield op("SparseReduceSum", label, **triple, reduction_axes=Const(np.array([1], i32)))
    yield op("SparseSoftmax", label, sp_indices=indices, sp_values=x, sp_shape=dims)
    zero = np.array(0, f32)
    yield op("SparseToDense", label, sparse_indices=indices, output_shape=dims, sparse_values=x, default_value=zero)
    yield op("SparseAdd", label, a_indices=indices, a_values=x, a_shape=dims, b_indices=indices, b_values=x, b_shape=dims, thresh=zero)
    yield op("SparseFillEmptyRows", label, indices=indices, values=x, dense_shape=dims, default_value=zero)
    yield op("SparseConcat", label, indices=[indices] * 3, values=[x] * 3, shapes=[dims] * 3, concat_dim=0)
    yield op("SparseReshape", label, input_indices=indices, input_shape=dims, new_shape=np.array([columns, lines], i64))
    yield op("SparseSlice", label, indices=indices, values=x, shape=dims, start=np.array([0, 0], i64), size=dims // 2)
