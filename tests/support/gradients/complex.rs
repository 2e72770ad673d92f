//! Cases of gradients: complex numbers, and Fourier transforms. Inputs and outputs are real and imaginary parts.

use thalweg_graph::{Attr, Graph, Output};
use thalweg_ops::SourceOps;
use thalweg_tensor::{DType, Tensor};

use super::case::{GradientCase, case, ints, mixed, positive, with};

/// Complex numbers of their parts.
fn complex<'g>(re: Output<'g>, im: Output<'g>) -> Output<'g> {
    let node = re.graph().op("Complex").input(re).input(im);
    node.attr("Tout", DType::C128).output()
}

/// The real and the imaginary parts of an output; the output itself if it is real.
fn parts(z: Output<'_>) -> Vec<Output<'_>> {
    if !z.dtype().is_complex() {
        return vec![z];
    }
    let part = |op: &str| {
        let node = z.graph().op(op).input(z);
        node.attr("Tout", DType::F64).output()
    };
    vec![part("Real"), part("Imag")]
}

/// A case of a node whose inputs are complex: each of two tensors of `inputs`.
fn node(
    name: &str,
    op: &'static str,
    inputs: Vec<Tensor>,
    attrs: &[(&'static str, Attr)],
) -> GradientCase {
    let attrs = attrs.to_vec();
    case(name, inputs, move |g, x| {
        let z = x.chunks(2).map(|pair| complex(pair[0], pair[1]));
        parts(with(g.op(op), &attrs).inputs(z).output())
    })
}

/// Functions, products, reductions and transforms of complex numbers.
pub fn complex_numbers() -> Vec<GradientCase> {
    let all = [
        functions(),
        of_two(),
        products(),
        decompositions(),
        transforms(),
        real_transforms(),
    ];
    all.into_iter().flatten().collect()
}

fn functions() -> Vec<GradientCase> {
    let inputs = || vec![positive(&[2, 3], 1), positive(&[2, 3], 2)];
    let simple = [
        "Neg",
        "Square",
        "Sqrt",
        "Rsqrt",
        "Exp",
        "Log",
        "Log1p",
        "Expm1",
        "Tanh",
        "Sigmoid",
        "Sin",
        "Cos",
        "Tan",
        "Asin",
        "Acos",
        "Atan",
        "Sinh",
        "Cosh",
        "Asinh",
        "Acosh",
        "Atanh",
        "Reciprocal",
        "Inv",
        "Conj",
    ];
    let mut all: Vec<GradientCase> = simple
        .iter()
        .map(|op| node(&format!("{op}, complex"), op, inputs(), &[]))
        .collect();
    for op in ["Real", "Imag", "Angle", "ComplexAbs"] {
        let attrs = [("Tout", Attr::Type(DType::F64))];
        all.push(node(op, op, inputs(), &attrs));
    }
    all
}

fn of_two() -> Vec<GradientCase> {
    let inputs = |a: &[usize], b: &[usize]| {
        vec![
            positive(a, 3),
            positive(a, 4),
            positive(b, 5),
            positive(b, 6),
        ]
    };
    let mut all = Vec::new();
    for op in ["AddV2", "Sub", "Mul", "RealDiv", "Div", "DivNoNan", "Pow"] {
        all.push(node(
            &format!("{op}, complex"),
            op,
            inputs(&[2, 3], &[3]),
            &[],
        ));
    }
    for op in [
        "SqrtGrad",
        "RsqrtGrad",
        "TanhGrad",
        "SigmoidGrad",
        "ReciprocalGrad",
        "InvGrad",
    ] {
        all.push(node(&format!("{op}, complex"), op, inputs(&[4], &[4]), &[]));
    }
    all
}

fn products() -> Vec<GradientCase> {
    let inputs =
        |a: &[usize], b: &[usize]| vec![mixed(a, 7), mixed(a, 8), mixed(b, 9), mixed(b, 10)];
    let mut all = Vec::new();
    for (ta, tb) in [(false, false), (true, false), (false, true), (true, true)] {
        let a: [usize; 2] = if ta { [3, 2] } else { [2, 3] };
        let b: [usize; 2] = if tb { [4, 3] } else { [3, 4] };
        let attrs = [
            ("transpose_a", Attr::Bool(ta)),
            ("transpose_b", Attr::Bool(tb)),
        ];
        all.push(node(
            &format!("MatMul, complex {ta} {tb}"),
            "MatMul",
            inputs(&a, &b),
            &attrs,
        ));
        let (x, y) = ([&[2], &a[..]].concat(), [&[2], &b[..]].concat());
        let attrs = [("adj_x", Attr::Bool(ta)), ("adj_y", Attr::Bool(tb))];
        let name = format!("BatchMatMulV2, complex {ta} {tb}");
        all.push(node(&name, "BatchMatMulV2", inputs(&x, &y), &attrs));
    }
    let attrs = [("equation", Attr::Str("ij,jk->ki".to_owned()))];
    all.push(node(
        "Einsum, complex",
        "Einsum",
        inputs(&[2, 3], &[3, 2]),
        &attrs,
    ));
    for op in ["Sum", "Mean", "Prod", "Cumsum", "Cumprod"] {
        let inputs = vec![positive(&[2, 3], 11), positive(&[2, 3], 12)];
        all.push(case(&format!("{op}, complex"), inputs, move |g, x| {
            let axis = match op.starts_with("Cum") {
                true => g.constant(1),
                false => ints(g, &[1]),
            };
            parts(g.op(op).input(complex(x[0], x[1])).input(axis).output())
        }));
    }
    for (a, b) in [(false, false), (true, false), (false, true), (true, true)] {
        let dims: [usize; 2] = match (a, b) {
            (false, false) => [3, 2],
            (true, false) => [2, 2],
            (false, true) => [2, 3],
            (true, true) => [2, 2],
        };
        let inputs = vec![
            mixed(&[3], 25),
            mixed(&[3], 26),
            mixed(&dims, 27),
            mixed(&dims, 28),
        ];
        let name = format!("SparseTensorDenseMatMul, complex {a} {b}");
        all.push(case(&name, inputs, move |g, x| {
            let at = Tensor::new(&[3, 2], &[0i64, 1, 1, 0, 1, 2]).unwrap();
            let node = g.op("SparseTensorDenseMatMul").input(g.constant(at));
            let node = node.input(complex(x[0], x[1])).input(g.constant([2i64, 3]));
            let node = node.input(complex(x[2], x[3]));
            parts(node.attr("adjoint_a", a).attr("adjoint_b", b).output())
        }));
    }
    for op in ["Transpose", "ConjugateTranspose"] {
        let inputs = vec![mixed(&[2, 3], 13), mixed(&[2, 3], 14)];
        all.push(case(&format!("{op}, complex"), inputs, move |g, x| {
            let node = g.op(op).input(complex(x[0], x[1])).input(ints(g, &[1, 0]));
            parts(node.output())
        }));
    }
    all
}

/// Matrices that are positive definite, and others that have an inverse.
fn decompositions() -> Vec<GradientCase> {
    let mut all = Vec::new();
    let inputs = || vec![mixed(&[3, 3], 21), mixed(&[3, 3], 22)];
    for op in [
        "Cholesky",
        "MatrixDeterminant",
        "MatrixInverse",
        "LogMatrixDeterminant",
    ] {
        all.push(case(&format!("{op}, complex"), inputs(), move |g, x| {
            let z = complex(x[0], x[1]);
            let square = g.op("BatchMatMulV2").inputs([z, z]).attr("adj_y", true);
            let node = g.op(op).input(square.output() + 1.0).build();
            parts(node.outputs()[node.outputs().len() - 1])
        }));
    }
    for op in ["MatrixSolve", "MatrixTriangularSolve"] {
        for adjoint in [false, true] {
            let mut inputs = inputs();
            inputs.extend([mixed(&[3, 2], 23), mixed(&[3, 2], 24)]);
            let attrs = [("adjoint", Attr::Bool(adjoint))];
            all.push(node(
                &format!("{op}, complex {adjoint}"),
                op,
                inputs,
                &attrs,
            ));
        }
    }
    all
}

fn transforms() -> Vec<GradientCase> {
    let mut all = Vec::new();
    for op in ["FFT", "IFFT", "FFT2D", "IFFT2D", "FFT3D", "IFFT3D"] {
        let dims = [2, 2, 3];
        all.push(node(op, op, vec![mixed(&dims, 15), mixed(&dims, 16)], &[]));
    }
    all
}

/// Builds a node with lengths.
fn of_lengths<'g>(g: &'g Graph, op: &str, x: Output<'g>, lengths: &[i32]) -> Vec<Output<'g>> {
    let node = g.op(op).input(x).input(ints(g, lengths));
    let node = node.attr("Treal", DType::F64).attr("Tcomplex", DType::C128);
    parts(node.output())
}

fn real_transforms() -> Vec<GradientCase> {
    let mut all = Vec::new();
    for (suffix, lengths) in [
        ("", vec![6]),
        ("", vec![5]),
        ("", vec![4]),
        ("2D", vec![3, 6]),
        ("2D", vec![2, 5]),
        ("3D", vec![2, 3, 4]),
    ] {
        let (forward, inverse) = (format!("RFFT{suffix}"), format!("IRFFT{suffix}"));
        let own = lengths.clone();
        let name = format!("{forward} {lengths:?}");
        all.push(case(&name, vec![mixed(&[2, 3, 6], 17)], move |g, x| {
            of_lengths(g, &forward, x[0], &own)
        }));
        let name = format!("{inverse} {lengths:?}");
        let inputs = vec![mixed(&[2, 3, 4], 18), mixed(&[2, 3, 4], 19)];
        all.push(case(&name, inputs, move |g, x| {
            of_lengths(g, &inverse, complex(x[0], x[1]), &lengths)
        }));
    }
    all
}
