//! Transfers of memory that the hot kernels need: `docs/results/gpu_transfers.md`.

use std::fmt::Write;

use thalweg_graph::Attr;
use thalweg_tensor::{DType, Tensor};
use thalweg_tests::emulated::{Checks, Emulated, has_compiler};
use thalweg_tests::golden::{Case, Input};
use thalweg_tests::large_cases::{large, numbers_of};
use thalweg_tests::root;

const HEAD: &str = "# Transfers of memory of the GPU's kernels

The kernels run on the emulated card, which counts what the accesses of each warp of 32 threads need: sectors of 32 bytes of global memory, and passes over the 32 banks of shared memory.
`times the least` is that number over the number for the same bytes, one after the other. 1.0 is a kernel whose threads read and write neighbours.
Caches are not part of it: a sector that two requests need counts twice.

Written by `UPDATE_DOCS=1 cargo test -p thalweg-tests --test gpu transfers::`; a test holds it.

| op | dtype | shapes | sectors | times the least | passes | times the least |
| --- | --- | --- | ---: | ---: | ---: | ---: |
";

fn attrs(pairs: &[(&'static str, &str)]) -> Vec<(&'static str, Attr)> {
    let all = pairs.iter();
    all.map(|(name, value)| (*name, Attr::Str((*value).to_owned())))
        .collect()
}

/// Kernels of training steps of convolutional networks, on shapes of more than one block.
fn hot_cases(dtype: DType) -> Vec<Case> {
    let x = |dims: &[usize]| numbers_of(dtype, dims);
    let images = || x(&[4, 14, 14, 64]);
    let channels = || numbers_of(DType::F32, &[64]);
    let axes = |axes: &[i32]| Tensor::new(&[axes.len()], axes).unwrap();
    let ones = Attr::Ints(vec![1, 1, 1, 1]);
    let windows = || {
        let mut all = attrs(&[("padding", "SAME")]);
        all.push(("ksize", Attr::Ints(vec![1, 3, 3, 1])));
        all.push(("strides", Attr::Ints(vec![1, 2, 2, 1])));
        all
    };
    let filters = || {
        let mut all = attrs(&[("padding", "SAME")]);
        all.push(("strides", ones.clone()));
        all
    };
    let none = || numbers_of(DType::F32, &[0]);
    let norm = large(
        "FusedBatchNormV3",
        vec![images(), channels(), channels(), none(), none()],
        vec![("is_training", Attr::Bool(true))],
    );
    let [.., mean, variance, reserve] = &norm.outputs[..] else {
        panic!("six outputs")
    };
    let norm_gradient = large(
        "FusedBatchNormGradV3",
        vec![
            images(),
            images(),
            channels(),
            mean.clone(),
            variance.clone(),
            reserve.clone(),
        ],
        vec![("is_training", Attr::Bool(true))],
    );
    vec![
        large("Relu", vec![images()], vec![]),
        large("ReluGrad", vec![images(), images()], vec![]),
        large("AddV2", vec![images(), images()], vec![]),
        large("BiasAdd", vec![images(), x(&[64])], vec![]),
        large("BiasAddGrad", vec![images()], vec![]),
        large("Transpose", vec![images(), axes(&[0, 3, 1, 2])], vec![]),
        large("Sum", vec![images(), axes(&[0, 1, 2])], vec![]),
        large("Sum", vec![images(), axes(&[3])], vec![]),
        large("Mean", vec![images(), axes(&[1, 2])], vec![]),
        large("Softmax", vec![x(&[64, 1000])], vec![]),
        norm,
        norm_gradient,
        large("MaxPool", vec![images()], windows()),
        large("AvgPool", vec![images()], windows()),
        large("MatMul", vec![x(&[100, 200]), x(&[200, 150])], vec![]),
        large("Conv2D", vec![images(), x(&[3, 3, 64, 32])], filters()),
        large(
            "DepthwiseConv2dNative",
            vec![images(), x(&[3, 3, 64, 1])],
            filters(),
        ),
    ]
}

fn row(emulated: &Emulated, case: &Case, dtype: DType) -> String {
    let found = emulated.transfers(case);
    let found = found.unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let shapes = case.inputs.iter().filter_map(|input| match input {
        Input::Tensor(t) => Some(format!("{:?}", t.dims())),
        Input::Variable(..) => None,
    });
    let shapes: Vec<String> = shapes.collect();
    let mut line = format!("| {} | {dtype} | {} |", case.op, shapes.join(" "));
    for count in [found.global, found.shared] {
        match count.least {
            0 => line += " | |",
            least => {
                let times = count.transfers as f64 / least as f64;
                write!(line, " {} | {times:.2} |", count.transfers).unwrap();
            }
        }
    }
    line + "\n"
}

#[test]
fn the_table_of_transfers_matches_the_kernels() {
    if !has_compiler() {
        return;
    }
    let emulated = Emulated::new(Checks::Watched);
    let mut text = HEAD.to_owned();
    for dtype in [DType::F16, DType::F32] {
        for case in hot_cases(dtype) {
            text += &row(&emulated, &case, dtype);
        }
    }
    let file = root().join("docs/results/gpu_transfers.md");
    if std::env::var("UPDATE_DOCS").is_ok_and(|v| v == "1") {
        std::fs::write(&file, &text).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        is_close(&found, &text),
        "{} is not what the kernels do: UPDATE_DOCS=1 writes it\n{text}",
        file.display()
    );
}

/// `true` for texts that differ in numbers alone, by up to 5%: a compiler may join or split accesses.
fn is_close(a: &str, b: &str) -> bool {
    let close = |(a, b): (&str, &str)| match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= 0.05 * b,
        _ => a == b,
    };
    let (a, b): (Vec<&str>, Vec<&str>) = (a.split(' ').collect(), b.split(' ').collect());
    a.len() == b.len() && a.into_iter().zip(b).all(close)
}
