//! Layers and products: gradients compared with finite differences, and rejected arguments.

use thalweg::ops::{DataFormat, LinalgOps, NnOps, Padding};
use thalweg::prelude::*;
use thalweg::session::Parallel;

const FORMATS: [DataFormat; 2] = [DataFormat::Nhwc, DataFormat::Nchw];

/// Numbers between -1 and 1, none near 0, no two of the first hundreds near each other.
fn numbers(n: usize, seed: usize) -> Vec<f64> {
    (0..n)
        .map(|i| {
            let x = ((i + 1) as f64 * 0.618_033_988_75 + seed as f64 * 0.414_213_56).fract() - 0.5;
            2.0 * x + 0.003 * x.signum()
        })
        .collect()
}

fn tensor(dims: &[usize], seed: usize) -> Tensor {
    Tensor::new(dims, &numbers(dims.iter().product(), seed)).unwrap()
}

/// Checks the gradients of `build`'s output for inputs of these dimensions; with `twice`, the second gradients too.
fn check(
    what: &str,
    dims: &[&[usize]],
    twice: bool,
    build: impl for<'g> Fn(&[Output<'g>]) -> Output<'g>,
) {
    let g = Graph::new();
    let xs: Vec<Output<'_>> = dims
        .iter()
        .enumerate()
        .map(|(i, d)| g.placeholder(&format!("x{i}"), DType::F64, Shape::known(d)))
        .collect();
    let values: Vec<Tensor> = dims.iter().enumerate().map(|(i, d)| tensor(d, i)).collect();
    let y = build(&xs);
    assert!(y.shape().is_known(), "{what}: {}", y.shape());
    let weights = g.constant(tensor(&y.shape().to_dims().unwrap(), 7));
    let grads = gradients_with(&[y], &xs, &[Some(weights)], &[]);
    assert_eq!(g.errors(), [], "{what}");
    compare(what, y, weights, &xs, &values, &grads);
    if !twice {
        return;
    }
    for (i, grad) in grads.iter().enumerate() {
        let grad = grad.unwrap();
        let weights = g.constant(tensor(&grad.shape().to_dims().unwrap(), 11));
        let second = gradients_with(&[grad], &xs, &[Some(weights)], &[]);
        assert_eq!(g.errors(), [], "{what}, gradient {i}");
        compare(
            &format!("{what}, gradient {i}"),
            grad,
            weights,
            &xs,
            &values,
            &second,
        );
    }
}

fn compare(
    what: &str,
    y: Output<'_>,
    weights: Output<'_>,
    xs: &[Output<'_>],
    values: &[Tensor],
    grads: &[Option<Output<'_>>],
) {
    let session = Session::new(y.graph()).unwrap();
    let loss = |values: &[Tensor]| -> f64 {
        let feeds: Vec<_> = xs
            .iter()
            .zip(values)
            .map(|(x, v)| x.feed(v.clone()))
            .collect();
        let got = session.step(vec![y, weights], feeds).unwrap();
        let (y, w) = (got.slice::<f64>(0).unwrap(), got.slice::<f64>(1).unwrap());
        y.iter().zip(w).map(|(y, w)| y * w).sum()
    };
    for (i, grad) in grads.iter().enumerate() {
        let exact = match grad {
            Some(grad) => {
                let feeds: Vec<_> = xs
                    .iter()
                    .zip(values)
                    .map(|(x, v)| x.feed(v.clone()))
                    .collect();
                let got = session.step(vec![*grad], feeds).unwrap();
                assert_eq!(got.tensor(0).unwrap().dims(), values[i].dims(), "{what}");
                got.slice::<f64>(0).unwrap().to_vec()
            }
            None => vec![0.0; values[i].len()],
        };
        for (at, exact) in exact.iter().enumerate() {
            let shifted = |by: f64| {
                let mut values = values.to_vec();
                values[i].as_mut_slice::<f64>().unwrap()[at] += by;
                loss(&values)
            };
            let step = 1e-5;
            let found = (shifted(step) - shifted(-step)) / (2.0 * step);
            assert!(
                (found - exact).abs() <= 1e-6 * (1.0 + exact.abs()),
                "{what}: element {at} of the gradient of input {i} is {exact}, by differences {found}"
            );
        }
    }
}

/// Subnormal numbers are slow, and lead to more of them.
#[test]
fn subnormal_probabilities_flush_to_zero() {
    let g = Graph::new();
    let logits = g.constant(Tensor::new(&[1, 3], &[0.0f32, -80.0, -100.0]).unwrap());
    let label = g.constant(Tensor::new(&[1, 3], &[0.0f32, 1.0, 0.0]).unwrap());
    let loss = logits.softmax_cross_entropy(label);
    let grad = gradients(&[loss], &[logits])[0].unwrap();
    let session = Session::new(&g).unwrap();
    let got = session.step([logits.softmax(), grad], []).unwrap();
    for i in 0..2 {
        let got = got.slice::<f32>(i).unwrap();
        assert_eq!((got[0], got[2]), (1.0, 0.0), "{got:?}");
        assert!(got[1].is_normal(), "{got:?}");
    }
}

#[test]
fn first_and_second_gradients_of_matmul_match_differences() {
    for (ta, tb) in [(false, false), (false, true), (true, false), (true, true)] {
        let a: [usize; 2] = if ta { [3, 2] } else { [2, 3] };
        let b: [usize; 2] = if tb { [4, 3] } else { [3, 4] };
        check(&format!("MatMul {ta} {tb}"), &[&a, &b], true, |x| {
            x[0].matmul_t(x[1], ta, tb)
        });
        let (a, b) = ([2, a[0], a[1]], [2, b[0], b[1]]);
        check(&format!("BatchMatMulV2 {ta} {tb}"), &[&a, &b], true, |x| {
            x[0].batch_matmul_t(x[1], ta, tb)
        });
    }
}

#[test]
fn gradients_of_broadcast_batches_are_summed() {
    let cases: [[&[usize]; 2]; 4] = [
        [&[2, 2, 3], &[3, 2]],
        [&[2, 1, 2, 3], &[3, 3, 1]],
        [&[1, 3], &[2, 2, 3, 2]],
        [&[1, 1, 3], &[2, 3, 1]],
    ];
    for dims in cases {
        check(&format!("BatchMatMulV2 {dims:?}"), &dims, false, |x| {
            x[0].batch_matmul(x[1])
        });
    }
}

#[test]
fn first_and_second_gradients_of_convolutions_match_differences() {
    let explicit = Padding::Explicit([[1, 2], [0, 1]]);
    for format in FORMATS {
        for (strides, dilations, padding) in [
            ([1, 1], [1, 1], Padding::Same),
            ([2, 1], [1, 1], Padding::Valid),
            ([1, 2], [2, 1], Padding::Same),
            ([2, 2], [1, 1], explicit),
        ] {
            let x: &[usize] = match format {
                DataFormat::Nhwc => &[2, 5, 4, 2],
                DataFormat::Nchw => &[2, 2, 5, 4],
            };
            let what = format!("Conv2D {format:?} {strides:?} {dilations:?} {padding:?}");
            check(&what, &[x, &[3, 2, 2, 3]], true, |x| {
                x[0].conv2d_dilated(x[1], strides, dilations, padding, format)
            });
        }
    }
}

#[test]
fn gradients_of_pooling_match_differences() {
    for format in FORMATS {
        for (ksize, strides, padding) in [
            ([2, 2], [2, 2], Padding::Same),
            ([3, 2], [1, 2], Padding::Valid),
            ([3, 3], [2, 1], Padding::Same),
        ] {
            let what = format!("{format:?} {ksize:?} {strides:?} {padding:?}");
            check(&format!("MaxPool {what}"), &[&[2, 5, 4, 3]], false, |x| {
                x[0].max_pool(ksize, strides, padding, format)
            });
            // Linear: the gradient does not depend on the input, so it has none itself.
            check(&format!("AvgPool {what}"), &[&[2, 5, 4, 3]], false, |x| {
                x[0].avg_pool(ksize, strides, padding, format)
            });
        }
    }
}

#[test]
fn gradients_of_biases_and_activations_match_differences() {
    for format in FORMATS {
        check(
            &format!("BiasAdd {format:?}"),
            &[&[2, 3, 4, 3], &[3]],
            false,
            |x| x[0].bias_add(x[1], format),
        );
    }
    let eights = Tensor::new(&[3, 5], &[8.0; 15]).unwrap();
    check("Relu", &[&[3, 5]], false, |x| x[0].relu());
    check("Relu6", &[&[3, 5]], false, |x| {
        (x[0] * x[0].graph().constant(eights.clone())).relu6()
    });
    check("LeakyRelu", &[&[3, 5]], false, |x| x[0].leaky_relu(0.3));
    check("Elu", &[&[3, 5]], false, |x| x[0].elu());
}

#[test]
fn first_and_second_gradients_of_softmax_losses_match_differences() {
    check("Softmax", &[&[3, 4]], true, |x| x[0].softmax());
    check("LogSoftmax", &[&[2, 3, 4]], true, |x| x[0].log_softmax());
    // The gradient to the logits takes labels that sum to one.
    for (logits, labels) in [
        ([3, 4], [3, 4]),
        ([3, 4], [1, 4]),
        ([1, 4], [3, 4]),
        ([3, 1], [3, 4]),
    ] {
        let what = format!("softmax_cross_entropy of {logits:?} with {labels:?}");
        check(&what, &[&logits, &labels], true, |x| {
            x[0].softmax_cross_entropy(x[1].softmax())
        });
    }
    check("sparse_softmax_cross_entropy", &[&[3, 4]], true, |x| {
        let labels = x[0].graph().constant([2i32, 0, 3]);
        x[0].sparse_softmax_cross_entropy(labels)
    });
}

#[test]
fn second_gradients_of_activations_and_biases_match_differences() {
    check("Elu", &[&[3, 5]], true, |x| x[0].elu());
    for format in FORMATS {
        check(
            &format!("BiasAddGrad {format:?}"),
            &[&[2, 3, 4, 3]],
            true,
            |x| {
                let sum = x[0].graph().op("BiasAddGrad").input(x[0].elu());
                sum.attr("data_format", format).output()
            },
        );
    }
}

#[test]
fn a_training_step_gives_the_same_bits_on_any_number_of_threads() {
    let step = |threads: usize, format: DataFormat| -> Vec<Vec<f32>> {
        let g = Graph::new();
        let given = |dims: &[usize], seed| {
            let values: Vec<f32> = numbers(dims.iter().product(), seed)
                .iter()
                .map(|&x| x as f32)
                .collect();
            g.constant(Tensor::new(dims, &values).unwrap())
        };
        let dims = match format {
            DataFormat::Nhwc => [8, 28, 28, 3],
            DataFormat::Nchw => [8, 3, 28, 28],
        };
        // Inputs are fed, so that nothing is folded while the plan is made.
        let x = g.placeholder("x", DType::F32, Shape::known(&dims));
        let (w, b) = (given(&[5, 5, 3, 16], 1), given(&[16], 2));
        let y = x
            .conv2d(w, [1, 1], Padding::Same, format)
            .bias_add(b, format)
            .relu();
        let y = y.max_pool([2, 2], [2, 2], Padding::Same, format);
        let grads = gradients(&[y], &[w, b, x]);
        let options = SessionOptions::new()
            .threads(threads)
            .parallel(Parallel::Always);
        let session = Session::with_options(&g, options).unwrap();
        let image: Vec<f32> = numbers(dims.iter().product(), 3)
            .iter()
            .map(|&x| x as f32)
            .collect();
        let fetches: Vec<Output<'_>> = grads.into_iter().flatten().chain([y]).collect();
        let got = session
            .step(fetches, [x.feed(Tensor::new(&dims, &image).unwrap())])
            .unwrap();
        (0..4)
            .map(|i| got.slice::<f32>(i).unwrap().to_vec())
            .collect()
    };
    for format in FORMATS {
        let one = step(1, format);
        assert!(one.iter().flatten().any(|&x| x != 0.0));
        for threads in [2, 3] {
            assert_eq!(one, step(threads, format), "{threads} threads, {format:?}");
        }
    }
}

/// The graph's error for `build`'s output of images.
fn build_error(dims: [i64; 4], build: impl Fn(Output<'_>) -> Output<'_>) -> String {
    let g = Graph::new();
    build(g.placeholder("x", DType::F32, dims));
    let errors = g.errors();
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors[0].reason.to_string()
}

#[test]
fn an_invalid_convolution_is_an_error() {
    let conv = |filter: [i64; 4], strides, dilations, padding| {
        build_error([1, 5, 5, 2], |x| {
            let w = x.graph().placeholder("w", DType::F32, filter);
            x.conv2d_dilated(w, strides, dilations, padding, DataFormat::Nhwc)
        })
    };
    let (one, same, valid) = ([1, 1], Padding::Same, Padding::Valid);
    let error = conv([3, 3, 4, 1], one, one, same);
    assert!(
        error.contains("have 2 channels, the filter is for 4"),
        "{error}"
    );
    let error = conv([6, 3, 2, 1], one, one, valid);
    assert!(
        error.contains("spans 6 lines does not fit into 5"),
        "{error}"
    );
    let error = conv([3, 3, 2, 1], one, [1, 3], valid);
    assert!(
        error.contains("spans 7 columns does not fit into 5"),
        "{error}"
    );
    let error = conv([0, 3, 2, 1], one, one, same);
    assert!(error.contains("the window has no lines"), "{error}");
    let error = conv([3, 3, 2, 1], [0, 1], one, same);
    assert!(
        error.contains("strides") && error.contains("is 0 for lines"),
        "{error}"
    );
    let error = conv([3, 3, 2, 1], one, [1, 0], same);
    assert!(
        error.contains("dilations") && error.contains("0 for columns"),
        "{error}"
    );
    let error = conv(
        [3, 3, 2, 1],
        one,
        one,
        Padding::Explicit([[usize::MAX, 0]; 2]),
    );
    assert!(error.contains("explicit_paddings"), "{error}");
}

#[test]
fn each_window_attribute_is_checked() {
    let pool = |ksize: &[i64], strides: &[i64], explicit: &[i64]| {
        build_error([1, 4, 4, 1], |x| {
            let padding = if explicit.is_empty() {
                "VALID"
            } else {
                "EXPLICIT"
            };
            let node = x.graph().op("MaxPool").input(x).attr("padding", padding);
            let node = node.attr("explicit_paddings", explicit);
            node.attr("ksize", ksize).attr("strides", strides).output()
        })
    };
    let two = [1, 2, 2, 1];
    let error = pool(&[2, 2], &two, &[]);
    assert!(
        error.contains("ksize: has 2 values, but must have 4"),
        "{error}"
    );
    let error = pool(&[2, 2, 2, 1], &two, &[]);
    assert!(error.contains("is 2 for images"), "{error}");
    for (ksize, strides) in [
        ([1, 2, 2, 2], two),
        ([1, 1, 1, 2], [1, 1, 1, 1]),
        ([1, 1, 1, 1], [1, 1, 1, 2]),
        ([1, 1, 1, 2], [1, 2, 1, 2]),
    ] {
        let error = pool(&ksize, &strides, &[]);
        assert!(error.contains("windows over channels"), "{error}");
    }
    let error = pool(&[1, 1, 1, 2], &[1, 1, 1, 2], &[]);
    assert!(
        error.contains("has 1 channel, which is not a multiple of the window's 2"),
        "{error}"
    );
    let error = pool(&two, &[1, -1, 1, 1], &[]);
    assert!(error.contains("strides: is -1 for lines"), "{error}");
    let error = pool(&two, &[1, 1, i64::MAX, 1], &[]);
    assert!(error.contains("strides"), "{error}");
    let error = pool(&two, &two, &[1, 1]);
    assert!(error.contains("has 2 values, but must have 8"), "{error}");
    let error = pool(&two, &two, &[0, 0, 2, 0, 0, 0, 0, 0]);
    assert!(error.contains("must be below the window's 2"), "{error}");
    let error = pool(&[1, 5, 2, 1], &two, &[]);
    assert!(
        error.contains("spans 5 lines does not fit into 4"),
        "{error}"
    );
}

#[test]
fn matmul_rejects_different_inner_dimensions() {
    let g = Graph::new();
    let a = g.placeholder("a", DType::F32, [2, 3]);
    a.matmul(g.placeholder("b", DType::F32, [4, 2]));
    let c = g.placeholder("c", DType::F32, [5, 2, 3]);
    c.batch_matmul(g.placeholder("d", DType::F32, [4, 3, 2]));
    a.matmul(c);
    let errors: Vec<String> = g.errors().iter().map(|e| e.reason.to_string()).collect();
    assert!(
        errors[0].contains("an inner dimension of 3, those of input 1 of 4"),
        "{errors:?}"
    );
    assert!(errors[1].contains("cannot be broadcast"), "{errors:?}");
    assert!(errors[2].contains("must have 2 dimensions"), "{errors:?}");
}

#[test]
fn a_label_out_of_range_is_named_and_the_session_remains_usable() {
    let g = Graph::new();
    let logits = g.placeholder("logits", DType::F32, [-1, 3]);
    let labels = g.placeholder("labels", DType::I64, [-1]);
    let loss = logits.sparse_softmax_cross_entropy(labels);
    let session = Session::new(&g).unwrap();
    let rows = [[0.0f32; 3]; 2];
    for wrong in [3i64, -1, i64::MIN] {
        let feeds = [logits.feed(rows), labels.feed([1i64, wrong])];
        let error = session.step(loss, feeds).unwrap_err().to_string();
        let expected = format!("element 1: label {wrong} is not one of the 3 classes");
        assert!(error.contains(&expected), "{error}");
    }
    let got = session
        .step(loss, [logits.feed(rows), labels.feed([1i64, 2])])
        .unwrap();
    let ln3 = 3.0f32.ln();
    for loss in got.slice::<f32>(0).unwrap() {
        assert!((loss - ln3).abs() < 1e-6);
    }
}

#[test]
fn unknown_shapes_are_checked_in_the_step() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F64, Shape::unknown());
    let w = g.placeholder("w", DType::F64, Shape::unknown());
    let y = x.conv2d(w, [1, 1], Padding::Valid, DataFormat::Nchw);
    let session = Session::new(&g).unwrap();
    let got = session.step(
        y,
        [
            x.feed(tensor(&[1, 2, 4, 4], 1)),
            w.feed(tensor(&[3, 3, 2, 5], 2)),
        ],
    );
    assert_eq!(got.unwrap().tensor(0).unwrap().dims(), [1, 5, 2, 2]);
    let got = session.step(
        y,
        [
            x.feed(tensor(&[1, 2, 2, 4], 1)),
            w.feed(tensor(&[3, 3, 2, 5], 2)),
        ],
    );
    let error = got.unwrap_err().to_string();
    assert!(error.contains("does not fit into 2"), "{error}");
}
