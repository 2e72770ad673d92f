//! Cases of gradients: decompositions and inverses of matrices, systems of linear equations.

use thalweg_graph::{Attr, Output};
use thalweg_ops::{ArrayOps, LinalgOps, SourceOps};
use thalweg_tensor::Tensor;

use super::case::{GradientCase, case, mixed, node, positive, with};

/// Well-conditioned square matrices: random ones with larger diagonals.
fn regular(batch: &[usize], n: usize, seed: u64) -> Tensor {
    let random = mixed(&[batch, &[n, n]].concat(), seed);
    let mut x: Vec<f64> = random.as_slice::<f64>().unwrap().to_vec();
    for matrix in x.chunks_exact_mut(n * n) {
        for (i, pivot) in matrix.iter_mut().step_by(n + 1).enumerate() {
            *pivot += 3.0 + i as f64;
        }
    }
    Tensor::new(random.dims(), &x).unwrap()
}

/// `x x'`, positive definite where `x` is regular.
fn square(x: Output<'_>) -> Output<'_> {
    x.batch_matmul_t(x, false, true)
}

/// Decompositions, inverses and solutions.
pub fn decompositions() -> Vec<GradientCase> {
    let mut all = Vec::new();
    for op in ["Cholesky", "BatchCholesky"] {
        for batch in [&[][..], &[2]] {
            let name = format!("{op} {batch:?}");
            all.push(case(&name, vec![regular(batch, 3, 1)], move |g, x| {
                vec![g.op(op).input(square(x[0])).output()]
            }));
        }
    }
    for op in [
        "MatrixDeterminant",
        "BatchMatrixDeterminant",
        "LogMatrixDeterminant",
    ] {
        for batch in [&[][..], &[2, 1]] {
            let name = format!("{op} {batch:?}");
            let inputs = vec![regular(batch, 3, 2)];
            all.push(case(&name, inputs, move |g, x| {
                let outputs = g.op(op).input(x[0]).build().outputs();
                outputs.into_iter().rev().take(1).collect()
            }));
        }
    }
    all.extend(systems());
    all.extend(least_squares());
    all.extend(diagonals());
    all.extend(spectra());
    all
}

fn systems() -> Vec<GradientCase> {
    let mut all = Vec::new();
    for adjoint in [false, true] {
        let adjoint_attr = ("adjoint", Attr::Bool(adjoint));
        for op in ["MatrixInverse", "BatchMatrixInverse"] {
            let name = format!("{op}, adjoint {adjoint}");
            let inputs = vec![regular(&[2], 3, 3)];
            all.push(node(&name, op, inputs, &[adjoint_attr.clone()]));
        }
        for op in ["MatrixSolve", "BatchMatrixSolve"] {
            let name = format!("{op}, adjoint {adjoint}");
            let inputs = vec![regular(&[2], 3, 4), mixed(&[2, 3, 2], 5)];
            all.push(node(&name, op, inputs, &[adjoint_attr.clone()]));
        }
        for lower in [false, true] {
            let attrs = [adjoint_attr.clone(), ("lower", Attr::Bool(lower))];
            for (op, a, b) in [
                ("MatrixTriangularSolve", &[][..], &[][..]),
                ("MatrixTriangularSolve", &[2, 1], &[3]),
                ("MatrixTriangularSolve", &[], &[2]),
                ("BatchMatrixTriangularSolve", &[2], &[2]),
            ] {
                let name = format!("{op} {a:?} {b:?}, lower {lower}, adjoint {adjoint}");
                let rhs = mixed(&[b, &[3, 2]].concat(), 7);
                all.push(node(&name, op, vec![regular(a, 3, 6), rhs], &attrs));
            }
        }
    }
    all
}

/// `x` with the dimensions that it is fed with, for gradients that need to know them.
fn known<'g>(x: Output<'g>, dims: &[usize]) -> Output<'g> {
    let dims: Vec<i32> = dims.iter().map(|&d| d as i32).collect();
    x.reshape(dims)
}

fn least_squares() -> Vec<GradientCase> {
    let mut all = Vec::new();
    for (m, n) in [(4, 2), (2, 4), (3, 3)] {
        let dims = vec![2, m, n];
        for op in ["MatrixSolveLs", "BatchMatrixSolveLs"] {
            let name = format!("{op} {m} x {n}");
            let (dims, inputs) = (dims.clone(), vec![mixed(&dims, 11), mixed(&[2, m, 2], 12)]);
            all.push(case(&name, inputs, move |g, x| {
                let node = g.op(op).input(known(x[0], &dims)).input(x[1]);
                vec![node.input(g.constant(0.5f64)).output()]
            }));
        }
        let name = format!("Qr {m} x {n}");
        let input = if m == n {
            regular(&[2], n, 13)
        } else {
            mixed(&dims, 13)
        };
        all.push(case(&name, vec![input], move |_, x| {
            known(x[0], &dims).qr().to_vec()
        }));
    }
    all
}

/// Matrices that are given by their diagonals.
fn diagonals() -> Vec<GradientCase> {
    let mut all = Vec::new();
    for (adjoint, lower) in [(false, false), (false, true), (true, false), (true, true)] {
        for (a, b) in [
            (&[3, 4][..], &[4, 2][..]),
            (&[1, 4], &[4, 2]),
            (&[2, 1, 2, 3], &[3, 3, 1]),
        ] {
            let name =
                format!("BandedTriangularSolve {a:?} {b:?}, lower {lower}, adjoint {adjoint}");
            let attrs = [
                ("adjoint", Attr::Bool(adjoint)),
                ("lower", Attr::Bool(lower)),
            ];
            all.push(node(
                &name,
                "BandedTriangularSolve",
                vec![positive(a, 14), mixed(b, 15)],
                &attrs,
            ));
        }
    }
    for pivoting in [false, true] {
        let name = format!("TridiagonalSolve, pivoting {pivoting}");
        let attrs = [("partial_pivoting", Attr::Bool(pivoting))];
        let inputs = vec![positive(&[2, 3, 4], 16), mixed(&[2, 4, 2], 17)];
        all.push(case(&name, inputs, move |g, x| {
            // A strong main diagonal, which makes the systems well-conditioned.
            let strong = g.constant([[0.0f64], [4.0], [0.0]]);
            let node = with(g.op("TridiagonalSolve"), &attrs).input(x[0] + strong);
            vec![node.input(x[1]).output()]
        }));
    }
    let mut inputs: Vec<Tensor> = (0..3).map(|i| mixed(&[2, 1, 4], 18 + i)).collect();
    inputs.push(mixed(&[2, 4, 3], 21));
    all.push(node("TridiagonalMatMul", "TridiagonalMatMul", inputs, &[]));
    all
}

/// Eigenvalues, singular values, and squares of the elements of vectors, whose signs are free.
fn spectra() -> Vec<GradientCase> {
    let mut all = Vec::new();
    for op in ["SelfAdjointEigV2", "BatchSelfAdjointEigV2"] {
        for (vectors, batch) in [(false, &[][..]), (true, &[]), (true, &[2])] {
            let name = format!("{op} {batch:?}, vectors {vectors}");
            let attrs = [("compute_v", Attr::Bool(vectors))];
            all.push(case(&name, vec![regular(batch, 3, 8)], move |g, x| {
                let node = with(g.op(op), &attrs).input(x[0]).build();
                match vectors {
                    true => vec![node.output(0), node.output(1) * node.output(1)],
                    false => vec![node.output(0)],
                }
            }));
        }
    }
    for (m, n, vectors, full) in [
        (3, 3, false, false),
        (4, 2, false, false),
        (3, 3, true, false),
        (4, 2, true, false),
        (2, 4, true, false),
        (3, 3, true, true),
        (3, 2, true, true),
        (2, 3, true, true),
    ] {
        let name = format!("Svd {m} x {n}, vectors {vectors}, full {full}");
        // A singular value near zero is near a kink.
        let x = match m == n {
            true => regular(&[2], n, 9),
            false => mixed(&[2, m, n], 9),
        };
        all.push(svd("Svd", &name, x, vectors, full));
    }
    let x = mixed(&[3, 2], 10);
    all.push(svd("BatchSvd", "BatchSvd", x, true, false));
    all
}

fn svd(op: &'static str, name: &str, x: Tensor, vectors: bool, full: bool) -> GradientCase {
    let dims = x.dims().to_vec();
    let attrs = [
        ("compute_uv", Attr::Bool(vectors)),
        ("full_matrices", Attr::Bool(full)),
    ];
    case(name, vec![x], move |g, x| {
        let x = if full { known(x[0], &dims) } else { x[0] };
        let node = with(g.op(op), &attrs).input(x).build();
        match vectors {
            true => {
                let squares = [1, 2].map(|i| node.output(i) * node.output(i));
                vec![node.output(0), squares[0], squares[1]]
            }
            false => vec![node.output(0)],
        }
    })
}
