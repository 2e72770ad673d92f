//! Tests beside the table of cases: large inputs, several numbers of threads, shapes that are unknown at build time.

use proptest::prelude::*;
use thalweg_device::{Argument, Cpu, KernelError, evaluate};
use thalweg_graph::Graph;
use thalweg_tensor::{DType, Element, Shape, Tensor};

use super::ReduceOps;
use crate::{NewGraph, SourceOps};

fn run(threads: usize, op: &str, x: &Tensor, axes: &Tensor) -> Result<Tensor, KernelError> {
    let g = Graph::new();
    let of = |t: &Tensor| g.placeholder("x", t.dtype(), Shape::unknown());
    let id = g.op(op).input(of(x)).input(of(axes)).build().id();
    assert!(g.errors().is_empty());
    let cpu = Cpu::new(threads);

    let arguments = [Argument::Value(x), Argument::Value(axes)];
    let op = crate::kernels()[op];
    let outputs = evaluate(&cpu, op, g.snapshot().node(id), &arguments, None)?;
    Ok(outputs.into_iter().next().expect("one output"))
}

/// Numbers between -1 and 1 with inexact sums.
fn noise(dims: &[usize]) -> Tensor {
    let n = dims.iter().product();
    let mut state = 1u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state as f32 / u32::MAX as f32 * 2.0 - 1.0
    };
    Tensor::new(dims, &(0..n).map(next).collect::<Vec<f32>>()).unwrap()
}

/// Calls `visit(output, element)` for each element, one after another.
fn naive(dims: &[usize], axes: &[i32], mut visit: impl FnMut(usize, usize)) {
    for i in 0..dims.iter().product() {
        let (mut rest, mut at, mut step) = (i, 0, 1);
        for d in (0..dims.len()).rev() {
            if !axes.contains(&(d as i32)) {
                at += rest % dims[d] * step;
                step *= dims[d];
            }
            rest /= dims[d];
        }
        visit(at, i);
    }
}

/// Shapes that cover every path through the loops: segments, tiles, narrow and wide rows, steps.
const LARGE: &[(&[usize], &[i32])] = &[
    (&[300_001], &[0]),
    (&[3, 70_001], &[1]),
    (&[70_001, 3], &[0]),
    (&[5_003, 65], &[0]),
    (&[70, 2_500], &[0]),
    (&[9, 10, 1_100], &[1]),
    (&[40, 7, 50, 11], &[0, 2]),
    (&[40, 7, 51, 9], &[1, 3]),
    (&[30_000, 7], &[1]),
];

#[test]
fn large_sums_have_the_same_bits_on_any_number_of_threads_and_are_precise() {
    for (dims, axes) in LARGE {
        let (x, axes_tensor) = (noise(dims), Tensor::from(*axes));
        let sum = |threads| run(threads, "Sum", &x, &axes_tensor).unwrap();
        let one = sum(1);
        for threads in [2, 3] {
            assert_eq!(one.bytes(), sum(threads).bytes(), "{dims:?} over {axes:?}");
        }
        let (x, one) = (x.as_slice::<f32>().unwrap(), one.as_slice::<f32>().unwrap());
        let mut exact = vec![0.0f64; one.len()];
        naive(dims, axes, |out, i| exact[out] += f64::from(x[i]));
        let mut most = 0.0f64;
        for (found, exact) in one.iter().zip(&exact) {
            most = most.max((f64::from(*found) - exact).abs());
        }
        // Sequential addition would have ten times this error for the longest of these.
        assert!(most < 1e-4, "{dims:?} over {axes:?} is off by {most}");
    }
}

#[test]
fn extremes_of_large_tensors_are_found_wherever_they_stand() {
    for (dims, axes) in LARGE {
        let x = noise(dims);
        let max = run(2, "Max", &x, &Tensor::from(*axes)).unwrap();
        let x = x.as_slice::<f32>().unwrap();
        let mut expected = vec![f32::NEG_INFINITY; max.len()];
        naive(dims, axes, |out, i| expected[out] = expected[out].max(x[i]));
        assert_eq!(max.as_slice::<f32>().unwrap(), expected, "{dims:?}");
        if let [axis] = axes {
            let at = run(2, "ArgMax", &noise(dims), &Tensor::scalar(*axis)).unwrap();
            let step: usize = dims[*axis as usize + 1..].iter().product();
            let mut first = vec![-1; at.len()];
            naive(dims, axes, |out, i| {
                if x[i] == expected[out] && first[out] < 0 {
                    first[out] = (i / step % dims[*axis as usize]) as i64;
                }
            });
            assert_eq!(at.as_slice::<i64>().unwrap(), first, "{dims:?}");
        }
    }
}

#[test]
fn nan_is_kept_by_max_and_min_wherever_it_stands() {
    for n in [3, 40, 3000] {
        for at in [0, 1, n / 2, n - 1] {
            for (dims, axis) in [([n, 1], 0), ([n, 2], 0)] {
                let mut x = vec![1.0f32; n * dims[1]];
                x[at * dims[1]] = f32::NAN;
                let x = Tensor::new(&dims, &x).unwrap();
                for op in ["Max", "Min"] {
                    let y = run(1, op, &x, &Tensor::from([axis])).unwrap();
                    let y = y.as_slice::<f32>().unwrap();
                    assert!(y[0].is_nan() && y[1..].iter().all(|y| *y == 1.0));
                }
            }
        }
    }
}

#[test]
fn means_of_integers_do_not_wrap_on_the_way() {
    fn mean<T: Element>(x: &[T]) -> T {
        let mean = run(1, "Mean", &Tensor::from(x), &Tensor::from([0])).unwrap();
        mean.to_scalar().unwrap()
    }
    assert_eq!(mean(&[i32::MAX, i32::MAX, 1]), 1_431_655_765);
    assert_eq!(mean(&[100i8; 300]), 100);
    assert_eq!(mean(&[200u8, 201]), 200);
    assert_eq!(mean(&[0i32; 0]), 0);
}

#[test]
fn axes_that_are_not_there_or_listed_twice_are_refused() {
    let x = noise(&[2, 3]);
    let error = |axes: &[i32]| run(1, "Sum", &x, &Tensor::from(axes)).unwrap_err();
    assert!(error(&[2]).to_string().contains("axis 2"));
    assert!(error(&[i32::MIN]).to_string().contains("axis -2147483648"));
    assert!(error(&[1, -1]).to_string().contains("listed twice"));
    let error = run(1, "ArgMin", &x, &Tensor::scalar(-3)).unwrap_err();
    assert!(error.to_string().contains("axis -3"));
    let error = run(1, "ArgMax", &noise(&[0, 3]), &Tensor::scalar(0)).unwrap_err();
    assert!(error.to_string().contains("no element"));
}

#[test]
fn as_much_of_the_shape_is_told_as_is_known() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1, 4, 5]);
    assert_eq!(x.reduce_sum(&[0], false).shape(), Shape::from([4, 5]));
    assert_eq!(x.reduce_sum(&[-1], true).shape(), Shape::from([-1, 4, 1]));
    assert_eq!(x.mean().shape(), Shape::scalar());
    assert_eq!(x.arg_max(1).shape(), Shape::from([-1, 5]));
    let axes = g.placeholder("axes", DType::I32, [2]);
    let late = g.op("Max").input(x).input(axes).output();
    assert_eq!(late.shape(), Shape::of_rank(1));
    assert!(g.errors().is_empty());
    let axes = g.placeholder("axes", DType::I32, [4]);
    g.op("Max").input(x).input(axes).output();
    assert_eq!(g.errors().len(), 1);
}

#[test]
fn an_index_dtype_that_is_too_small_is_refused() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::U8, [40_000]);
    let arg_max = g.op("ArgMax").input(x).input(g.constant(0));
    arg_max.attr("output_type", DType::I16).output();
    assert!(g.errors()[0].to_string().contains("output_type"));
}

proptest! {
    #[test]
    fn any_axes_of_any_shape_agree_with_one_element_after_another(
        dims in proptest::collection::vec(0usize..6, 0..6),
        mask in 0u32..64,
    ) {
        let axes: Vec<i32> = (0..dims.len() as i32).filter(|i| mask >> i & 1 == 1).collect();
        let n = dims.iter().product::<usize>();
        let x: Vec<i64> = (0..n as i64).map(|i| i * 7919 % 101 - 50).collect();
        let tensor = Tensor::new(&dims, &x).unwrap();
        let sum = run(1, "Sum", &tensor, &Tensor::from(&axes[..])).unwrap();
        let mut expected = vec![0; sum.len()];
        naive(&dims, &axes, |out, i| expected[out] += x[i]);
        prop_assert_eq!(sum.as_slice::<i64>().unwrap(), &expected[..]);
    }
}
