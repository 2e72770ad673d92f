//! Large op cases, for kernels whose work is split over blocks. The expected results are the CPU's.

mod nn;

use thalweg_graph::Attr;
use thalweg_tensor::{DType, Tensor};

use crate::golden::{Case, Input, Tolerance};
use crate::runtime::{Direct, Runtime};
use nn::{convolutions, pools, products};

/// A large case; its expected results are the CPU's.
pub fn large(op: &str, inputs: Vec<Tensor>, attrs: Vec<(&str, Attr)>) -> Case {
    let mut case = case(op, inputs, attrs);
    case.outputs = Direct::new(1).run(&case).unwrap().outputs;
    if !case.outputs.iter().any(|t| t.dtype().is_float()) {
        case.tolerance = Tolerance { rel: 0.0, abs: 0.0 };
    }
    case
}

/// A case without expected results.
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

/// Cases of kernels whose blocks compute tiles of the result, with partial tiles.
pub fn in_parts() -> Vec<Case> {
    let all = [
        pools(),
        products(),
        convolutions(),
        draws(),
        positions(),
        slices(),
        sorted_rows(),
        lines(),
        normalized(),
        quotients(),
    ];
    all.concat()
}

/// Updates of rows by more indices than a block sorts, in passes over several digits. Some rows get many updates.
fn sorted_rows() -> Vec<Case> {
    let (updates, rows, width) = (9001, 300, 3);
    let ids: Vec<i32> = (0..updates).map(|i| (i * i % 299) as i32).collect();
    let vectors = Tensor::new(&[updates, 1], &ids).unwrap();
    let ids = Tensor::new(&[updates], &ids).unwrap();
    let data = numbers_of(DType::I32, &[updates, width]);
    let of = numbers_of(DType::I32, &[rows, width]);
    let shape = Tensor::new(&[2], &[rows as i32, width as i32]).unwrap();
    let sums = vec![data.clone(), ids, Tensor::scalar(rows as i32)];
    let scattered = vec![vectors.clone(), data.clone(), shape];
    let mut cases = vec![
        large("UnsortedSegmentSum", sums, vec![]),
        large("ScatterNd", scattered, vec![]),
        large("GatherNd", vec![of.clone(), vectors.clone()], vec![]),
    ];
    for op in [
        "TensorScatterUpdate",
        "TensorScatterAdd",
        "TensorScatterMax",
    ] {
        let inputs = vec![of.clone(), vectors.clone(), data.clone()];
        cases.push(large(op, inputs, vec![]));
    }
    cases
}

/// Inputs of batch normalizations of more rows than a thread takes, with channels that are loaded together and with others: those
/// of `FusedBatchNormV3` and of its gradient.
pub fn batch_norm_inputs() -> Vec<[Vec<Tensor>; 2]> {
    let of = |(dtype, channels): (DType, usize)| {
        let x = || numbers_of(dtype, &[3, 11, 7, channels]);
        let of_channels = || numbers(&[channels]);
        let none = || Tensor::new(&[0], &[0f32; 0]).unwrap();
        let positive = Tensor::new(&[channels], &vec![0.5f32; channels]).unwrap();
        [
            vec![x(), of_channels(), of_channels(), none(), none()],
            vec![x(), x(), of_channels(), of_channels(), positive, none()],
        ]
    };
    let f32s = [(DType::F32, 8), (DType::F32, 6)];
    let halves = [(DType::F16, 16), (DType::BF16, 8)];
    f32s.into_iter().chain(halves).map(of).collect()
}

fn normalized() -> Vec<Case> {
    let all = batch_norm_inputs().into_iter();
    let of = |[forward, gradient]: [Vec<Tensor>; 2]| {
        [
            large("FusedBatchNormV3", forward, vec![]),
            large("FusedBatchNormGradV3", gradient, vec![]),
        ]
    };
    all.flat_map(of).collect()
}

/// Lines that are longer than a block.
fn lines() -> Vec<Case> {
    let mut cases = Vec::new();
    for (dims, axis) in [([3, 1001], 1), ([600, 5], 0)] {
        for (exclusive, reverse) in [(false, false), (true, false), (false, true), (true, true)] {
            let inputs = vec![numbers_of(DType::I32, &dims), Tensor::scalar(axis)];
            let flags = [("exclusive", exclusive), ("reverse", reverse)];
            let flags = flags.map(|(name, set)| (name, Attr::Bool(set)));
            cases.push(large("Cumsum", inputs, flags.into()));
        }
    }
    let top = |x: Tensor| large("TopKV2", vec![x, Tensor::scalar(7i32)], vec![]);
    cases.push(top(numbers(&[3, 1501])));
    cases.push(top(numbers_of(DType::I32, &[2, 900])));
    let targets = Tensor::new(&[3], &[0i32, 700, 1500]).unwrap();
    let inputs = vec![numbers(&[3, 1501]), targets, Tensor::scalar(800i32)];
    cases.push(large("InTopKV2", inputs, vec![]));
    cases
}

/// Numbers of several blocks of threads, with a part of a group behind them.
fn draws() -> Vec<Case> {
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
fn positions() -> Vec<Case> {
    let mut cases = Vec::new();
    let shapes: [(&[usize], i32); 4] = [
        (&[3, 5000], 1),
        (&[700, 33], 0),
        (&[7, 11, 30], 1),
        (&[400, 10], 1),
    ];
    for (dims, axis) in shapes {
        for op in ["ArgMax", "ArgMin"] {
            // 8-bit numbers have many equal elements.
            for dtype in [DType::F32, DType::I8] {
                let inputs = vec![numbers_of(dtype, dims), Tensor::scalar(axis)];
                cases.push(large(op, inputs, vec![]));
            }
        }
    }
    cases
}

/// Slices of more elements than a grid has threads, picked and added up again.
fn slices() -> Vec<Case> {
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
fn quotients() -> Vec<Case> {
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

/// Cases with an invalid element, and valid ones before and after it.
pub fn refused() -> Vec<Case> {
    let scalar = Tensor::scalar(7i64);
    // Several invalid elements, the first of them in the middle of the threads' range.
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
    (exponents[1], exponents[2]) = (-1, -3);
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
        // An invalid index with slices of zero elements.
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
