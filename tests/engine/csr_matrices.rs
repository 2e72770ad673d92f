//! Sparse matrices in compressed rows: the ops that TensorFlow has on GPUs alone, and inputs that do not fit.

use thalweg::prelude::*;

/// Runs a fetch of one tensor.
fn run(g: &Graph, of: Output<'_>) -> Result<Tensor, String> {
    let session = Session::new(g).map_err(|e| e.to_string())?;
    let fetched = session.step(g.output(of.id()), []);
    let fetched = fetched.map_err(|e| e.to_string())?;
    Ok(fetched.tensor(0).unwrap().clone())
}

/// The sparse matrix of entries.
fn matrix<'g>(g: &'g Graph, at: &[[i64; 2]], values: &[f32], shape: [i64; 2]) -> Output<'g> {
    let places: Vec<i64> = at.iter().flatten().copied().collect();
    let places = Tensor::new(&[at.len(), 2], &places).unwrap();
    let node = g.op("SparseTensorToCSRSparseMatrix");
    let node = node.input(g.constant(places));
    let node = node.input(g.constant(Tensor::vector(values)));
    node.input(g.constant(shape)).output()
}

fn first(g: &Graph) -> Output<'_> {
    matrix(g, &[[0, 0], [0, 2], [1, 1]], &[1.0, 2.0, 3.0], [2, 3])
}

fn second(g: &Graph) -> Output<'_> {
    matrix(g, &[[0, 1], [0, 2], [1, 0]], &[4.0, 5.0, 6.0], [2, 3])
}

fn dense(of: Output<'_>) -> Output<'_> {
    let node = of.graph().op("CSRSparseMatrixToDense").input(of);
    node.attr("type", DType::F32).output()
}

#[test]
fn multiples_of_sparse_matrices_are_added() {
    let g = Graph::new();
    let sum = g.op("SparseMatrixAdd").input(first(&g)).input(second(&g));
    let sum = sum.input(g.constant(2.0f32)).input(g.constant(-1.0f32));
    let expected = Tensor::from([[2.0f32, -4.0, -1.0], [-6.0, 6.0, 0.0]]);
    assert_eq!(run(&g, dense(sum.output())).unwrap(), expected);
}

#[test]
fn sparse_matrices_have_zeros_and_sums_as_other_variants_do() {
    let g = Graph::new();
    let sum = g.op("AddN").inputs([first(&g), second(&g), first(&g)]);
    let expected = Tensor::from([[2.0f32, 4.0, 9.0], [6.0, 6.0, 0.0]]);
    assert_eq!(run(&g, dense(sum.output())).unwrap(), expected);
    let zeros = g.op("ZerosLike").input(first(&g)).output();
    let none = Tensor::zeros(DType::F32, &[2, 3]).unwrap();
    assert_eq!(run(&g, dense(zeros)).unwrap(), none);
    let entries = g.op("SparseMatrixNNZ").input(zeros).output();
    assert_eq!(run(&g, entries).unwrap(), Tensor::scalar(0i32));
    let other = matrix(&g, &[[0, 0]], &[1.0], [1, 1]);
    let sum = g.op("AddN").inputs([first(&g), other]).output();
    let error = run(&g, dense(sum)).unwrap_err();
    assert!(error.contains("must have one shape"), "{error}");
}

#[test]
fn a_sparse_matrix_is_multiplied_by_a_number_and_by_no_vector() {
    let g = Graph::new();
    let times = |b: Output<'_>| {
        let b = g.output(b.id());
        g.op("SparseMatrixMul").input(first(&g)).input(b).output()
    };
    let expected = Tensor::from([[2.0f32, 0.0, 4.0], [0.0, 6.0, 0.0]]);
    assert_eq!(run(&g, dense(times(g.constant(2.0f32)))).unwrap(), expected);
    let error = run(&g, dense(times(g.constant([2.0f32, 3.0])))).unwrap_err();
    assert!(error.contains("b must be a scalar"), "{error}");
}

#[test]
fn softmax_of_the_entries_of_a_row_sums_to_one_and_has_its_gradient() {
    let g = Graph::new();
    let softmax = g.op("SparseMatrixSoftmax").input(first(&g));
    let softmax = softmax.attr("type", DType::F32).output();
    let large = 1.0f32 / (1.0 + (-1.0f32).exp());
    let found = run(&g, dense(softmax)).unwrap();
    let found = found.as_slice::<f32>().unwrap().to_vec();
    let expected = [1.0 - large, 0.0, large, 0.0, 1.0, 0.0];
    let near = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6);
    assert!(near(&found, &expected), "{found:?}");
    let grad = g.op("SparseMatrixSoftmaxGrad").input(softmax);
    let grad = grad.input(second(&g)).attr("type", DType::F32).output();
    // Of the first row, the gradient has an entry at the second place of the softmax alone.
    let both = (1.0 - large) * large * 5.0;
    let found = run(&g, dense(grad)).unwrap();
    let found = found.as_slice::<f32>().unwrap().to_vec();
    assert!(
        near(&found, &[-both, 0.0, both, 0.0, 0.0, 0.0]),
        "{found:?}"
    );
}

#[test]
fn a_matrix_without_entries_is_zero() {
    let g = Graph::new();
    let zeros = g.op("SparseMatrixZeros").input(g.constant([2i64, 3]));
    let zeros = zeros.attr("type", DType::F32).output();
    assert_eq!(
        run(&g, dense(zeros)).unwrap(),
        Tensor::from([[0.0f32; 3]; 2])
    );
}

#[test]
fn entries_in_any_order_are_those_of_their_places() {
    let g = Graph::new();
    let made = matrix(&g, &[[1, 1], [0, 2], [0, 0]], &[3.0, 2.0, 1.0], [2, 3]);
    let expected = run(&g, dense(first(&g))).unwrap();
    assert_eq!(run(&g, dense(made)).unwrap(), expected);
}

#[test]
fn places_outside_of_a_matrix_and_sizes_without_bound_are_errors() {
    let g = Graph::new();
    for (at, shape, why) in [
        ([0, 3], [2, 3], "does not index into"),
        ([-1, 0], [2, 3], "does not index into"),
        ([0, 0], [1 << 40, 3], "csr row index size"),
        ([0, 0], [3, 1 << 40], "csr row index size"),
        ([0, 0], [i64::MAX, 2], "overflow"),
        ([0, 0], [-1, 2], "must be >= 0"),
    ] {
        let made = matrix(&g, &[at], &[1.0], shape);
        let count = g.op("SparseMatrixNNZ").input(made).output();
        let error = run(&g, count).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_permutation_takes_an_index_within_it_and_an_even_number_of_rounds() {
    for (index, last, rounds, why) in [
        (5i32, 4i32, 4i64, "max_index must be >= index"),
        (-1, 4, 4, "index must be >= 0"),
        (0, -1, 4, "max_index must be >= 0"),
        (0, 4, 3, "even number"),
        (0, 4, 1 << 40, "even number"),
    ] {
        let g = Graph::new();
        let node = g.op("RandomIndexShuffle").input(g.constant(index));
        let node = node.input(g.constant([1i32, 2, 3])).input(g.constant(last));
        let error = run(&g, node.attr("rounds", rounds).output()).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}
