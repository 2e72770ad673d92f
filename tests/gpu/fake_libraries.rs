//! GEMMs and convolutions by fakes of cuBLASLt and cuDNN: values, engines that fail or are slow, and fall-backs.

use std::collections::BTreeMap;

use thalweg::prelude::*;
use thalweg_tests::emulated::has_compiler;

use crate::fake_cuda::{CHILD_PROCESS, fakes, result_line, run_test};

/// Runs with fakes of cuBLASLt and cuDNN: products and convolutions with their gradients, on card 0 and on the CPU.
#[test]
fn child_libraries() {
    if std::env::var(CHILD_PROCESS).is_err() {
        return;
    }
    let (mut alike, mut who) = (0, BTreeMap::new());
    for (dtype, precision) in [
        (DType::F32, 1e-3),
        (DType::F64, 1e-3),
        (DType::F16, 2e-2),
        (DType::BF16, 1e-1),
    ] {
        let values = |device: &str| -> (Vec<Tensor>, String) {
            let g = Graph::new();
            let all = g.device(device, || computed(&g, dtype));
            let options = SessionOptions::new()
                .threads(1)
                .for_device(&device.parse().unwrap());
            let session = Session::with_options(&g, options).unwrap();
            let got = session.step(&all, []).unwrap();
            let values = (0..all.len()).map(|i| got.tensor(i).unwrap().clone());
            (values.collect(), session.explain(&all, []).unwrap())
        };
        let ((on_gpu, plan), (on_cpu, _)) = (values("/gpu:0"), values("/cpu:0"));
        for (i, (a, b)) in on_gpu.iter().zip(&on_cpu).enumerate() {
            let (a, b) = (a.as_slice::<f32>().unwrap(), b.as_slice::<f32>().unwrap());
            let near = |(a, b): (&f32, &f32)| (a - b).abs() < precision * (1.0 + b.abs());
            let all = a.len() == b.len() && a.iter().zip(b).all(near);
            assert!(all, "{dtype}, value {i}: {a:?} and {b:?}");
        }
        alike += on_gpu.len();
        let loaded = |library: &str| plan.contains(&format!("device:GPU:0 uses {library} of /"));
        assert!(
            loaded("cuBLASLt") && (plan.contains("status 1001") || loaded("cuDNN")),
            "{plan}"
        );
        for line in plan.lines() {
            if let Some((_, by)) = line.split_once(" is computed by ") {
                *who.entry(format!("{dtype} by {by}")).or_insert(0) += 1;
            }
        }
    }
    println!("\noutcome: {alike} values are alike; {who:?}");
}

/// Products with and without transposes and batches, and convolutions with their gradients.
fn computed(g: &Graph, dtype: DType) -> Vec<Output<'_>> {
    let numbers = |dims: &[i32], seed: i64| {
        let dims = g.constant(Tensor::new(&[dims.len()], dims).unwrap());
        g.op("RandomUniform")
            .input(dims)
            .attr("dtype", DType::F32)
            .attr("seed", seed)
            .attr("seed2", 3)
            .output()
            .cast(dtype)
    };
    let mut all = Vec::new();
    for (i, (transpose_a, transpose_b)) in
        [(false, false), (false, true), (true, false), (true, true)]
            .into_iter()
            .enumerate()
    {
        let a = numbers(if transpose_a { &[5, 7] } else { &[7, 5] }, 1 + i as i64);
        let b = numbers(if transpose_b { &[6, 5] } else { &[5, 6] }, 11 + i as i64);
        let product = g.op("MatMul").input(a).input(b);
        let product = product.attr("transpose_a", transpose_a);
        all.push(product.attr("transpose_b", transpose_b).output());
    }
    for (a, b) in [
        ([3, 2, 4], [3, 4, 5]),
        ([3, 2, 4], [1, 4, 5]),
        ([1, 2, 4], [3, 4, 5]),
    ] {
        let product = g.op("BatchMatMulV2").input(numbers(&a, 21));
        all.push(product.input(numbers(&b, 22)).output());
    }
    for format in [DataFormat::Nhwc, DataFormat::Nchw] {
        for (stride, padding) in [
            (1, Padding::Same),
            // Uneven: no zeros before the columns, and one behind them.
            (2, Padding::Same),
            (2, Padding::Valid),
            (1, Padding::Valid),
        ] {
            let dims = match format {
                DataFormat::Nhwc => [2, 9, 8, 3],
                DataFormat::Nchw => [2, 3, 9, 8],
            };
            let (x, w) = (numbers(&dims, 31), numbers(&[3, 3, 3, 4], 32));
            let y = x.conv2d(w, [stride, stride], padding, format);
            all.push(y);
            all.extend(gradients(&[(y * y).sum()], &[x, w]).into_iter().flatten());
        }
    }
    // Filters of one pixel: GEMMs, where every pixel is met.
    for (format, dims) in [
        (DataFormat::Nhwc, [2, 5, 4, 3]),
        (DataFormat::Nchw, [2, 3, 5, 4]),
    ] {
        for stride in [1, 2] {
            let (x, w) = (numbers(&dims, 41), numbers(&[1, 1, 3, 4], 42));
            let y = x.conv2d(w, [stride, stride], Padding::Same, format);
            all.push(y);
            all.extend(gradients(&[(y * y).sum()], &[x, w]).into_iter().flatten());
        }
    }
    all.into_iter()
        .map(|value| value.cast(DType::F32))
        .collect()
}

#[test]
fn libraries_compute_products_and_convolutions_with_their_gradients() {
    if !has_compiler() {
        return;
    }
    let folder = fakes("libraries", &["cuda", "nvrtc", "cublasLt", "cudnn"]);
    let output = run_test("fake_libraries::child_libraries", &folder, &[]);
    // Engines that may use tensor cores compute no f32. One fails when it runs, and another is the fastest.
    let expected = "172 values are alike; {\"bf16 by a library\": 12, \"bf16 by a library, engine 8\": 31, \
                    \"f16 by a library\": 12, \"f16 by a library, engine 8\": 31, \
                    \"f32 by a library\": 12, \"f32 by a library, engine 7 (Winograd)\": 31, \
                    \"f64 by a library\": 12, \"f64 by a library, engine 8\": 31}";
    assert_eq!(result_line(&output), expected);
    // Choices are kept: another process begins with them, and chooses the same.
    let choices = || {
        std::fs::read_dir(folder.join("cache/choices"))
            .unwrap()
            .count()
    };
    let first = choices();
    assert!(first > 0);
    let again = || {
        let others = [("FAKE_CUDNN_OTHERS_ARE_FAST", "1")];
        result_line(&run_test(
            "fake_libraries::child_libraries",
            &folder,
            &others,
        ))
    };
    assert_eq!(again(), expected);
    assert_eq!(choices(), first);
    // Without them it chooses what is the fastest now.
    std::fs::remove_dir_all(folder.join("cache/choices")).unwrap();
    assert_ne!(again(), expected);
    let sources = std::fs::read_dir(&folder)
        .unwrap()
        .filter_map(|e| std::fs::read_to_string(e.unwrap().path().join("source.cpp")).ok());
    // The kernels that stand in for the libraries were not even compiled.
    let all: Vec<String> = sources.collect();
    assert!(!all.is_empty());
    assert!(
        !all.iter()
            .any(|s| s.contains("KERNEL(MatMul") || s.contains("KERNEL(Conv2D"))
    );
}

#[test]
fn kernels_multiply_where_cublaslt_finds_nothing_or_returns_an_unknown_code() {
    if !has_compiler() {
        return;
    }
    let folder = fakes("no_algorithm", &["cuda", "nvrtc", "cublasLt", "cudnn"]);
    for (variable, reason) in [
        (
            "FAKE_CUBLASLT_FINDS_NOTHING",
            "cuBLASLt knows no algorithm for it",
        ),
        ("FAKE_CUBLASLT_IS_NEWER", "cuBLASLt: cuBLAS's status 4711"),
    ] {
        let text = result_line(&run_test(
            "fake_libraries::child_libraries",
            &folder,
            &[(variable, "1")],
        ));
        assert!(text.starts_with("172 values are alike"), "{text}");
        assert!(
            text.contains(&format!("f32 by a kernel of our own: {reason}")),
            "{text}"
        );
    }
}

#[test]
fn after_a_library_failure_kernels_compute_with_a_reason_in_the_plan() {
    if !has_compiler() {
        return;
    }
    let folder = fakes("failing", &["cuda", "nvrtc", "cublasLt", "cudnn"]);
    let output = run_test(
        "fake_libraries::child_libraries",
        &folder,
        &[("FAKE_CUDNN_FAILS", "1")],
    );
    let text = result_line(&output);
    assert!(text.starts_with("172 values are alike"), "{text}");
    assert!(!text.contains("engine"), "{text}");
    let why = "f32 by a kernel of our own: ";
    assert!(text.contains(why), "{text}");
    assert!(
        text.contains("status 1001, the library is not ready: the fake was told to fail"),
        "{text}"
    );
}

#[test]
fn a_driver_opens_each_library_once() {
    if !has_compiler() {
        return;
    }
    let all = ["cuda", "nvrtc", "cublasLt", "cudnn"];
    let folder = fakes("opens", &["cuda", "nvrtc", "cublasLt", "cudnn", "opens"]);
    let (log, preloaded) = (folder.join("opens.log"), folder.join("libopens.so"));
    let variables = [
        ("FAKE_OPENS_LOG", log.to_str().unwrap()),
        ("LD_PRELOAD", preloaded.to_str().unwrap()),
    ];
    let output = run_test("fake_libraries::child_libraries", &folder, &variables);
    result_line(&output);
    let opens = std::fs::read_to_string(&log).unwrap();
    // Four sessions of a card: each has a driver of its own.
    for library in all {
        let file = folder.join(format!("lib{library}.so"));
        let is_it = |path: &&str| *path == file.to_str().unwrap();
        assert_eq!(opens.lines().filter(is_it).count(), 4, "{library}: {opens}");
    }
}
