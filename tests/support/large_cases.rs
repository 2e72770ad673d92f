//! Cases that are larger than those of the table of ops, for kernels whose work is split: what they
//! give is what the CPU gives.

use thalweg_graph::{Attr, DType, Tensor};

use super::golden::{Case, Input, Tolerance};
use super::runtime::{Direct, Runtime};

/// A case that is larger than those of the table: what it gives is what the CPU gives.
pub fn large(op: &str, inputs: Vec<Tensor>, attrs: Vec<(&str, Attr)>) -> Case {
    let mut case = case(op, inputs, attrs);
    case.outputs = Direct::new(1).run(&case).unwrap().outputs;
    if !case.outputs.iter().any(|t| t.dtype().is_float()) {
        case.tolerance = Tolerance { rel: 0.0, abs: 0.0 };
    }
    case
}

/// A case without what it gives.
fn case(op: &str, inputs: Vec<Tensor>, attrs: Vec<(&str, Attr)>) -> Case {
    // Sums are taken in another order; halves may be rounded at every step of one.
    let off = match inputs.iter().map(Tensor::dtype).find(|d| d.size() == 2) {
        Some(DType::F16) => 4e-3,
        Some(DType::BF16) => 3e-2,
        _ => 1e-4,
    };
    Case {
        name: format!("{op} of {:?}", inputs[0].shape().to_string()),
        op: op.to_owned(),
        attrs: attrs.into_iter().map(|(n, a)| (n.to_owned(), a)).collect(),
        inputs: inputs.into_iter().map(Input::Tensor).collect(),
        outputs: Vec::new(),
        second_run: Vec::new(),
        variables_after: Vec::new(),
        tolerance: Tolerance { rel: off, abs: off },
    }
}

pub fn numbers(dims: &[usize]) -> Tensor {
    let n = dims.iter().product();
    let value = |i: usize| ((i * 7919 + 13) % 1009) as f32 / 1009.0 - 0.5;
    Tensor::new(dims, &(0..n).map(value).collect::<Vec<f32>>()).unwrap()
}

/// Numbers of any dtype; integers are between -50 and 50, or where there is no sign between 0 and 50.
pub fn numbers_of(dtype: DType, dims: &[usize]) -> Tensor {
    let to = |x: Tensor| {
        let attrs = vec![("DstT", Attr::Type(dtype))];
        large("Cast", vec![x], attrs).outputs.remove(0)
    };
    match dtype {
        d if DType::FLOATS.contains(&d) => to(numbers(dims)),
        _ => {
            let hundred = vec![numbers(dims), Tensor::scalar(100.0f32)];
            to(large("Mul", hundred, vec![]).outputs.remove(0))
        }
    }
}

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

/// A case of `f32` in another dtype, which the CPU has no kernel for: it gives what `f32` gives of the
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
                // Integers between -5 and 5, where it is to be integers.
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

/// Numbers of several blocks of threads, with a part of a group behind them.
pub fn draws() -> Vec<Case> {
    let mut cases = Vec::new();
    let seeds = || vec![("seed", Attr::Int(87)), ("seed2", Attr::Int(1 << 33 | 5))];
    let shape = Tensor::from([3i32, 667]);
    for op in ["RandomUniform", "RandomStandardNormal", "TruncatedNormal"] {
        for dtype in DType::FLOATS {
            let mut attrs = seeds();
            attrs.push(("dtype", Attr::Type(*dtype)));
            let mut case = large(op, vec![shape.clone()], attrs);
            // Logarithms differ in their last bits, which may round a half to its neighbour.
            let off = match (op, *dtype) {
                ("RandomUniform", _) => 0.0,
                (_, DType::F16) => 1e-3,
                (_, DType::BF16) => 8e-3,
                _ => 5e-6,
            };
            case.tolerance = Tolerance { rel: off, abs: off };
            cases.push(case);
        }
    }
    let (low, high) = (Tensor::scalar(-3i64), Tensor::scalar(1i64 << 40));
    cases.push(large("RandomUniformInt", vec![shape, low, high], seeds()));
    cases
}

/// Rows that a block shares, with equal elements in several threads' parts, and columns.
pub fn positions() -> Vec<Case> {
    let mut cases = Vec::new();
    let shapes: [(&[usize], i32); 4] = [
        (&[3, 5000], 1),
        (&[700, 33], 0),
        (&[7, 11, 30], 1),
        (&[400, 10], 1),
    ];
    for (dims, axis) in shapes {
        for op in ["ArgMax", "ArgMin"] {
            // Of 8 bits there are many alike.
            for dtype in [DType::F32, DType::I8] {
                let inputs = vec![numbers_of(dtype, dims), Tensor::scalar(axis)];
                cases.push(large(op, inputs, vec![]));
            }
        }
    }
    cases
}

/// Slices of more elements than a grid has threads, picked and added up again.
pub fn slices() -> Vec<Case> {
    let indices: Vec<i32> = (0..90).map(|i| (i * 37 + 5) % 50).collect();
    let indices = Tensor::new(&[90], &indices).unwrap();
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::BF16, DType::U16] {
        let (params, data) = (
            numbers_of(dtype, &[3, 50, 21]),
            numbers_of(dtype, &[90, 33]),
        );
        let gather = vec![params, indices.clone(), Tensor::scalar(1i32)];
        cases.push(large("GatherV2", gather, vec![]));
        let sum = vec![data, indices.clone(), Tensor::scalar(60i32)];
        cases.push(large("UnsortedSegmentSum", sum, vec![]));
    }
    cases
}

/// Quotients of all signs, the extremes of their dtype among them, and powers.
pub fn quotients() -> Vec<Case> {
    let x = Tensor::from([7i32, -7, 7, -7, i32::MIN, i32::MIN, i32::MAX, 0, 6, -6]);
    let y = Tensor::from([2i32, 2, -2, -2, -1, i32::MAX, i32::MIN, -3, 3, 3]);
    let (a, b) = (Tensor::from([3u8, 255, 200]), Tensor::from([7u8, 3, 255]));
    let mut cases = Vec::new();
    for op in ["Div", "FloorDiv", "FloorMod"] {
        cases.push(large(op, vec![x.clone(), y.clone()], vec![]));
        cases.push(large(op, vec![a.clone(), b.clone()], vec![]));
    }
    let exponents = Tensor::from([0i32, 1, 2, 3, 31, 5, 2, 0, 40, i32::MAX]);
    cases.push(large("Pow", vec![x, exponents], vec![]));
    cases.push(large("Pow", vec![a, b], vec![]));
    cases
}

/// Cases with an element that cannot be taken, and others before and behind it that can.
pub fn refused() -> Vec<Case> {
    let scalar = Tensor::scalar(7i64);
    // Several that are wrong, the first of them in the middle of what the threads look at.
    let (mut indices, mut ids) = (vec![3i32; 5000], vec![3i64; 5000]);
    indices[2500..2600].fill(-1);
    indices[4000] = 4;
    ids[..100].fill(-1);
    ids[1700] = 4;
    ids[1600] = i64::MAX;
    let (indices, ids) = (Tensor::new(&[5000], &indices), Tensor::new(&[5000], &ids));
    let (indices, ids) = (indices.unwrap(), ids.unwrap());
    let sevens = Tensor::new(&[3000], &[7i32; 3000]).unwrap();
    let (mut zeros, mut exponents) = (vec![1i32; 3000], vec![0i32; 3000]);
    (zeros[1100], zeros[2900]) = (0, 0);
    (exponents[2], exponents[1]) = (-1, -3);
    let [zeros, exponents] = [zeros, exponents].map(|v| Tensor::new(&[3000], &v).unwrap());
    let division = |op| case(op, vec![sevens.clone(), zeros.clone()], vec![]);
    vec![
        division("Div"),
        division("FloorDiv"),
        division("FloorMod"),
        case("Pow", vec![sevens.clone(), exponents], vec![]),
        case(
            "GatherV2",
            vec![numbers(&[4, 2]), indices.clone(), Tensor::scalar(0i32)],
            vec![],
        ),
        // Nothing is gathered, and still an index is wrong.
        case(
            "GatherV2",
            vec![numbers(&[4, 0]), indices, Tensor::scalar(0i32)],
            vec![],
        ),
        case(
            "UnsortedSegmentSum",
            vec![numbers(&[5000]), ids, Tensor::scalar(4i32)],
            vec![],
        ),
        case(
            "RandomUniformInt",
            vec![Tensor::from([5i32]), scalar.clone(), scalar],
            vec![("seed", Attr::Int(1))],
        ),
    ]
}
