//! Cases of gradients: ops on sparse tensors.

use thalweg_graph::{Graph, Output};
use thalweg_ops::SourceOps;
use thalweg_tensor::Tensor;

use super::case::{GradientCase, case, mixed, positive};

/// Indices of four entries of a matrix of 3 rows and 4 columns.
fn indices(g: &Graph) -> Output<'_> {
    g.constant([[0i64, 1], [0, 3], [2, 0], [2, 2]])
}

/// Sparse tensors with dense ones, parts, joins and reductions.
pub fn sparse() -> Vec<GradientCase> {
    let mut all = products();
    let values = || vec![mixed(&[4], 1)];
    for axes in [&[0i32][..], &[1], &[-1, 0], &[]] {
        for keep in [false, true] {
            let axes = axes.to_vec();
            let name = format!("SparseReduceSum over {axes:?}, keep {keep}");
            all.push(case(&name, values(), move |g, x| {
                let node = g.op("SparseReduceSum").input(indices(g)).input(x[0]);
                let node = node.input(g.constant([3i64, 4]));
                let node = node.input(g.constant(Tensor::vector(&axes)));
                vec![node.attr("keep_dims", keep).output()]
            }));
        }
    }
    all.push(case("SparseSoftmax", values(), |g, x| {
        let node = g.op("SparseSoftmax").input(indices(g)).input(x[0]);
        vec![node.input(g.constant([3i64, 4])).output()]
    }));
    all.push(case("SparseReorder", values(), |g, x| {
        let mixed = g.constant([[2i64, 0], [0, 3], [2, 2], [0, 1]]);
        let node = g.op("SparseReorder").input(mixed).input(x[0]);
        vec![node.input(g.constant([3i64, 4])).build().output(1)]
    }));
    all.push(case("SparseSlice", values(), |g, x| {
        let node = g.op("SparseSlice").input(indices(g)).input(x[0]);
        let node = node
            .input(g.constant([3i64, 4]))
            .input(g.constant([0i64, 1]));
        vec![node.input(g.constant([2i64, 9])).build().output(1)]
    }));
    let pair = vec![mixed(&[4], 1), mixed(&[2], 2)];
    all.push(case("SparseAdd", pair, |g, x| {
        let node = g.op("SparseAdd").input(indices(g)).input(x[0]);
        let node = node.input(g.constant([3i64, 4]));
        let node = node.input(g.constant([[0i64, 3], [1, 1]])).input(x[1]);
        let node = node.input(g.constant([3i64, 4])).input(g.constant(0.0f64));
        vec![node.build().output(1)]
    }));
    let filled = vec![mixed(&[4], 1), mixed(&[], 2)];
    all.push(case("SparseFillEmptyRows", filled, |g, x| {
        let node = g.op("SparseFillEmptyRows").input(indices(g)).input(x[0]);
        let node = node.input(g.constant([4i64, 4])).input(x[1]).build();
        vec![node.output(1)]
    }));
    let filled = vec![mixed(&[4], 1), mixed(&[], 2)];
    all.push(case("RaggedFillEmptyRows", filled, |g, x| {
        let rows = g.constant([0i64, 0, 2, 2]);
        let node = g.op("RaggedFillEmptyRows").input(rows).input(x[0]);
        let node = node.input(g.constant(4i64)).input(x[1]).build();
        vec![node.output(1)]
    }));
    all
}

/// Products, sums and quotients with dense tensors.
fn products() -> Vec<GradientCase> {
    let mut all = Vec::new();
    for (adjoint_a, adjoint_b) in [(false, false), (true, false), (false, true), (true, true)] {
        let inner = if adjoint_a { 3 } else { 4 };
        let dims = if adjoint_b { [2, inner] } else { [inner, 2] };
        let name = format!("SparseTensorDenseMatMul, adjoint {adjoint_a} {adjoint_b}");
        let inputs = vec![mixed(&[4], 1), mixed(&dims, 2)];
        all.push(case(&name, inputs, move |g, x| {
            let node = g
                .op("SparseTensorDenseMatMul")
                .input(indices(g))
                .input(x[0]);
            let node = node.input(g.constant([3i64, 4])).input(x[1]);
            let node = node.attr("adjoint_a", adjoint_a);
            vec![node.attr("adjoint_b", adjoint_b).output()]
        }));
    }
    let dense = || vec![mixed(&[4], 1), mixed(&[3, 4], 2)];
    all.push(case("SparseTensorDenseAdd", dense(), |g, x| {
        let node = g.op("SparseTensorDenseAdd").input(indices(g)).input(x[0]);
        vec![node.input(g.constant([3i64, 4])).input(x[1]).output()]
    }));
    for op in ["SparseDenseCwiseMul", "SparseDenseCwiseDiv"] {
        for dims in [&[3, 4][..], &[3, 1], &[4], &[]] {
            let inputs = vec![mixed(&[4], 1), positive(dims, 2)];
            all.push(case(&format!("{op}, {dims:?}"), inputs, move |g, x| {
                let node = g.op(op).input(indices(g)).input(x[0]);
                vec![node.input(g.constant([3i64, 4])).input(x[1]).output()]
            }));
        }
    }
    let filled = || vec![mixed(&[2], 1), mixed(&[], 2)];
    all.push(case("SparseToDense", filled(), |g, x| {
        let node = g.op("SparseToDense").input(g.constant([[0i64, 1], [2, 0]]));
        let node = node.input(g.constant([3i64, 2]));
        vec![node.input(x[0]).input(x[1]).output()]
    }));
    all.push(case("SparseToDense, vector", filled(), |g, x| {
        let node = g.op("SparseToDense").input(g.constant([1i32, 3]));
        let node = node.input(g.constant([5i32]));
        vec![node.input(x[0]).input(x[1]).output()]
    }));
    let scalars = vec![mixed(&[], 1), mixed(&[], 2)];
    all.push(case("SparseToDense, one value", scalars, |g, x| {
        let node = g.op("SparseToDense").input(g.constant([1i32, 3]));
        let node = node.input(g.constant([5i32]));
        vec![node.input(x[0]).input(x[1]).output()]
    }));
    all
}
