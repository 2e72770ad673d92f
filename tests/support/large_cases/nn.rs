//! Large cases of pools, products and convolutions.

use thalweg_graph::Attr;
use thalweg_tensor::{DType, Tensor};

use super::{large, numbers, numbers_of};
use crate::golden::{Case, Input, Tolerance};

/// Windows that overlap, reach beyond the image, or leave pixels out.
pub fn pools() -> Vec<Case> {
    let mut cases = Vec::new();
    for (format, dims) in [("NHWC", [3, 13, 11, 37]), ("NCHW", [3, 37, 13, 11])] {
        for (window, stride, padding) in [
            (3, 2, "SAME"),
            (2, 2, "VALID"),
            (3, 1, "SAME"),
            (2, 3, "VALID"),
        ] {
            let pair = |n: i64| match format {
                "NHWC" => vec![1, n, n, 1],
                _ => vec![1, 1, n, n],
            };
            let attrs = || {
                vec![
                    ("ksize", Attr::Ints(pair(window))),
                    ("strides", Attr::Ints(pair(stride))),
                    ("padding", Attr::Str(padding.to_owned())),
                    ("data_format", Attr::Str(format.to_owned())),
                ]
            };
            let shape = Tensor::from(dims.map(|n| n as i32));
            for dtype in [DType::F32, DType::F16, DType::BF16, DType::I16] {
                let x = numbers_of(dtype, &dims);
                let pooled = large("MaxPool", vec![x.clone()], attrs());
                let y = pooled.outputs[0].clone();
                let grad = numbers_of(dtype, y.dims());
                cases.push(pooled);
                cases.push(large(
                    "MaxPoolGrad",
                    vec![x.clone(), y, grad.clone()],
                    attrs(),
                ));
                if dtype != DType::I16 {
                    cases.push(large("AvgPool", vec![x], attrs()));
                    cases.push(large("AvgPoolGrad", vec![shape.clone(), grad], attrs()));
                }
            }
        }
    }
    cases
}

/// Products of whole tiles and of parts, long ones in segments, with either side transposed, and
/// batches that broadcast.
pub fn products() -> Vec<Case> {
    let mut cases = Vec::new();
    let dtypes = [
        DType::F32,
        DType::F64,
        DType::F16,
        DType::BF16,
        DType::I8,
        DType::U64,
    ];
    let sizes = [
        (64, 64, 16),
        (65, 130, 33),
        (3, 200, 1),
        (50, 70, 900),
        (5, 3, 0),
    ];
    for dtype in dtypes {
        for (m, n, k) in sizes {
            let both = [(false, false), (false, true), (true, false), (true, true)];
            let all = matches!(dtype, DType::F32 | DType::I8);
            for (ta, tb) in both.into_iter().take(if all { 4 } else { 1 }) {
                let a = numbers_of(dtype, &if ta { [k, m] } else { [m, k] });
                let b = numbers_of(dtype, &if tb { [n, k] } else { [k, n] });
                let attrs = vec![
                    ("transpose_a", Attr::Bool(ta)),
                    ("transpose_b", Attr::Bool(tb)),
                ];
                cases.push(large("MatMul", vec![a, b], attrs));
            }
        }
    }
    let batches: [[&[usize]; 2]; 4] = [
        [&[3, 1, 70, 40], &[2, 40, 66]],
        [&[5, 33, 40], &[1, 40, 66]],
        [&[2, 3, 10, 700], &[2, 3, 700, 20]],
        [&[7, 9], &[6, 9, 8]],
    ];
    for [x, y] in batches {
        cases.push(large("BatchMatMulV2", vec![numbers(x), numbers(y)], vec![]));
    }
    let (x, y) = (numbers(&[3, 20, 70]), numbers(&[3, 70, 9]));
    cases.push(large("BatchMatMul", vec![x, y], vec![]));
    let adjoint = vec![("adj_x", Attr::Bool(true)), ("adj_y", Attr::Bool(true))];
    let (x, y) = (numbers(&[3, 20, 70]), numbers(&[3, 90, 20]));
    cases.push(large("BatchMatMulV2", vec![x, y], adjoint));
    cases
}

/// Convolutions and both of their gradients, of many images and channels.
pub fn convolutions() -> Vec<Case> {
    struct Shape {
        image: [usize; 4],
        filter: [usize; 4],
        stride: i64,
        dilation: i64,
        padding: &'static str,
    }
    let shape = |image, filter, stride, dilation, padding| Shape {
        image,
        filter,
        stride,
        dilation,
        padding,
    };
    let shapes = [
        shape([2, 9, 10, 20], [3, 3, 20, 70], 1, 1, "SAME"),
        shape([2, 15, 13, 3], [5, 5, 3, 33], 2, 1, "SAME"),
        shape([2, 9, 11, 65], [1, 1, 65, 64], 1, 1, "VALID"),
        shape([2, 17, 18, 5], [3, 2, 5, 7], 1, 2, "VALID"),
        shape([3, 20, 20, 1], [5, 5, 1, 32], 1, 1, "SAME"),
        shape([1, 19, 19, 3], [7, 7, 3, 10], 4, 1, "VALID"),
        shape([0, 5, 6, 3], [3, 3, 3, 4], 1, 1, "SAME"),
        shape([2, 5, 6, 3], [3, 3, 3, 0], 1, 1, "SAME"),
        shape([2, 5, 6, 0], [3, 3, 0, 4], 1, 1, "SAME"),
    ];
    let mut cases = Vec::new();
    for s in &shapes {
        for format in ["NHWC", "NCHW"] {
            let [n, h, w, c] = s.image;
            let (image, pair): (_, fn(i64) -> Vec<i64>) = match format {
                "NHWC" => ([n, h, w, c], |n| vec![1, n, n, 1]),
                _ => ([n, c, h, w], |n| vec![1, 1, n, n]),
            };
            let attrs = || {
                vec![
                    ("strides", Attr::Ints(pair(s.stride))),
                    ("dilations", Attr::Ints(pair(s.dilation))),
                    ("padding", Attr::Str(s.padding.to_owned())),
                    ("data_format", Attr::Str(format.to_owned())),
                ]
            };
            let sizes = |dims: [usize; 4]| Tensor::from(dims.map(|n| n as i32));
            let (x, filter) = (numbers(&image), numbers(&s.filter));
            let forward = large("Conv2D", vec![x.clone(), filter.clone()], attrs());
            let grad = numbers(forward.outputs[0].dims());
            let input = vec![sizes(image), filter, grad.clone()];
            let all = [
                forward,
                large("Conv2DBackpropInput", input, attrs()),
                large(
                    "Conv2DBackpropFilter",
                    vec![x, sizes(s.filter), grad],
                    attrs(),
                ),
            ];
            for case in all {
                let dtypes = match case.op.as_str() {
                    _ if s.stride == 1 => &[][..],
                    "Conv2DBackpropFilter" => &[DType::F16, DType::BF16],
                    _ => &[DType::F16, DType::BF16, DType::I32],
                };
                cases.extend(dtypes.iter().map(|&dtype| rounded(&case, dtype)));
                cases.push(case);
            }
        }
    }
    cases
}

/// A case of `f32` in another dtype, which the CPU has no kernel for: the expected results are those of `f32` on the
/// same numbers.
fn rounded(case: &Case, dtype: DType) -> Case {
    let cast = |x: &Tensor, to: DType| {
        let attrs = vec![("DstT", Attr::Type(to))];
        large("Cast", vec![x.clone()], attrs).outputs.remove(0)
    };
    let (mut inputs, mut exact) = (Vec::new(), Vec::new());
    for input in &case.inputs {
        match input {
            Input::Tensor(x) if x.dtype() == DType::F32 => {
                // Integers between -5 and 5 for integer dtypes.
                let factor = if dtype == DType::I32 { 10.0f32 } else { 1.0 };
                let x = large("Mul", vec![x.clone(), Tensor::scalar(factor)], vec![]);
                let x = cast(&x.outputs[0], dtype);
                exact.push(cast(&x, DType::F32));
                inputs.push(Input::Tensor(x));
            }
            Input::Tensor(x) => {
                exact.push(x.clone());
                inputs.push(input.clone());
            }
            Input::Variable(..) => panic!("{} has a variable", case.name),
        }
    }
    let attrs = case.attrs.iter().map(|(n, a)| (&n[..], a.clone()));
    let exact = large(&case.op, exact, attrs.collect());
    let off = match dtype {
        DType::F16 => 2e-3,
        DType::BF16 => 1e-2,
        _ => 0.0,
    };
    Case {
        name: format!("{} as {dtype}", case.name),
        inputs,
        outputs: exact.outputs.iter().map(|y| cast(y, dtype)).collect(),
        tolerance: Tolerance { rel: off, abs: off },
        ..case.clone()
    }
}
