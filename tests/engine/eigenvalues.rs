//! Eigenvalues of general matrices, which come in no order, and roots that are not real.

use thalweg::prelude::*;
use thalweg::tensor::num_complex::Complex;

#[test]
fn eigenvectors_of_real_and_complex_matrices_are_scaled_by_their_eigenvalues() {
    let turn = Tensor::new(&[2, 2], &[0.0f64, -1.0, 1.0, 0.0]).unwrap();
    let i = Complex::<f64>::i();
    let complex = Tensor::new(&[2, 2], &[i, i + 2.0, Complex::from(1.0), -i]).unwrap();
    for matrix in [turn, complex] {
        let g = Graph::new();
        let a = g.constant(matrix);
        let node = g.op("Eig").input(a).attr("Tout", DType::C128).build();
        let (e, v) = (node.output(0), node.output(1));
        let a = g.op("Cast").input(a).attr("DstT", DType::C128).output();
        let product = g.op("MatMul").input(a).input(v).output();
        let session = Session::new(&g).unwrap();
        let found: Vec<Tensor> = session.run(&[product, v * e][..], []).unwrap();
        let [product, scaled] = [0, 1].map(|i| found[i].to_vec::<Complex<f64>>().unwrap());
        let beside: f64 = product
            .iter()
            .zip(&scaled)
            .map(|(x, y)| (x - y).norm())
            .sum();
        assert!(beside < 1e-12, "{product:?} is not {scaled:?}");
    }
}

#[test]
fn a_matrix_with_a_nan_has_no_eigenvalues() {
    let g = Graph::new();
    let a = g.constant([[f32::NAN, 1.0], [0.0, 1.0]]);
    let e = g
        .op("Eig")
        .input(a)
        .attr("Tout", DType::C64)
        .build()
        .output(0);
    let found: Result<Tensor, _> = Session::new(&g).unwrap().run(e, []);
    let error = found.unwrap_err().to_string();
    assert!(error.contains("NaNs and infinities"), "{error}");
}

#[test]
fn the_root_of_a_real_matrix_that_is_not_real_is_nan() {
    let g = Graph::new();
    let a = g.constant([[[-1.0f64, 0.0], [0.0, 4.0]], [[1.0, 0.0], [0.0, 4.0]]]);
    let root = g.op("MatrixSquareRoot").input(a).output();
    let found: Tensor = Session::new(&g).unwrap().run(root, []).unwrap();
    let found = found.to_vec::<f64>().unwrap();
    assert!(found[..4].iter().all(|x| x.is_nan()), "{found:?}");
    assert_eq!(found[4..], [1.0, 0.0, 0.0, 2.0]);
}
