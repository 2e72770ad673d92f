//! The GPU's kernels, emulated on the CPU in three orders of threads, in place and not, watched, compared with
//! TensorFlow's results.

use std::collections::BTreeSet;

use thalweg_graph::{Attr, Graph};
use thalweg_ops::NewGraph;
use thalweg_tensor::{DType, Tensor};
use thalweg_tests::emulated::{Checks, Emulated, has_compiler};
use thalweg_tests::golden::{Case, cases};
use thalweg_tests::large_cases::{in_parts, large, numbers, numbers_of, refused};
use thalweg_tests::runtime::{Direct, Runtime, build, run_cases};

/// The cases of ops that have a GPU kernel for the case's dtypes.
fn gpu_cases() -> Vec<Case> {
    let prefix = std::env::var("GOLDEN").unwrap_or_default();
    let has_kernel = |case: &Case| {
        let g = Graph::new();
        let id = build(&g, case).id();
        let data = g.snapshot();
        data.get(id)
            .is_some_and(|node| Emulated::kernel(node).is_some())
    };
    cases(&prefix).into_iter().filter(has_kernel).collect()
}

#[test]
fn emulated_kernels_match_tensorflow() {
    if !has_compiler() {
        return;
    }
    let (emulated, cases) = (Emulated::new(Checks::Watched), gpu_cases());
    let ops: BTreeSet<&str> = cases.iter().map(|c| &*c.op).collect();
    println!("{} cases of {} ops", cases.len(), ops.len());
    emulated.compile_all(&cases);
    run_cases(&emulated, &cases);
}

#[test]
fn kernels_match_the_cpu_on_large_cases() {
    if !has_compiler() {
        return;
    }
    let mut cases = Vec::new();
    // One block and less, whole packs and tails, more elements than a grid has threads.
    for n in [1, 3, 4, 255, 1023, 1024, 1025, 70_001] {
        cases.push(large("Tanh", vec![numbers(&[n])], vec![]));
        cases.push(large("AddV2", vec![numbers(&[n]), numbers(&[1])], vec![]));
        cases.push(large(
            "Transpose",
            vec![numbers(&[n, 3]), Tensor::from([1i32, 0])],
            vec![],
        ));
    }
    // Squares of transpositions, whole and in part, beside other axes.
    for dtype in [DType::U8, DType::F16, DType::F32, DType::I64] {
        for (dims, perm) in [
            (&[3, 70, 45][..], &[0, 2, 1][..]),
            (&[2, 33, 5, 40], &[3, 0, 2, 1]),
            (&[64, 96], &[1, 0]),
        ] {
            let perm = Tensor::new(&[perm.len()], perm).unwrap();
            cases.push(large(
                "Transpose",
                vec![numbers_of(dtype, dims), perm],
                vec![],
            ));
        }
    }
    // Segments of blocks, segments of threads, and both kinds of axes in turn.
    let reductions: [(&[usize], &[i32]); 8] = [
        (&[20_000], &[0]),
        (&[3, 9001], &[1]),
        (&[9001, 3], &[0]),
        (&[5, 700, 6], &[1]),
        (&[7, 5, 300, 40], &[0, 2]),
        (&[40, 300, 5, 7], &[1, 3]),
        (&[2, 3, 2, 3, 2, 3], &[0, 2, 4]),
        (&[600, 257], &[0]),
    ];
    for (dims, axes) in reductions {
        for op in ["Sum", "Max", "Mean"] {
            let axes = Tensor::new(&[axes.len()], axes).unwrap();
            cases.push(large(op, vec![numbers(dims), axes], vec![]));
        }
    }
    for dims in [[3, 1000], [70, 33], [1, 5000]] {
        cases.push(large("Softmax", vec![numbers(&dims)], vec![]));
        cases.push(large("LogSoftmax", vec![numbers(&dims)], vec![]));
    }
    for (format, channels) in [("NHWC", 6), ("NCHW", 50)] {
        let attrs = || vec![("data_format", Attr::Str(format.to_owned()))];
        let x = || numbers(&[70, 50, 20, 6]);
        cases.push(large("BiasAdd", vec![x(), numbers(&[channels])], attrs()));
        cases.push(large("BiasAddGrad", vec![x()], attrs()));
    }
    cases.extend(in_parts());
    let bounds = [3i64, -20_000, -7].map(Tensor::scalar);
    cases.push(large("Range", bounds.to_vec(), vec![]));
    cases.push(large("L2Loss", vec![numbers(&[100_003])], vec![]));
    run_cases(&Emulated::new(Checks::Watched), &cases);
}

#[test]
fn an_invalid_element_is_reported_as_on_the_cpu() {
    if !has_compiler() {
        return;
    }
    let (cpu, emulated) = (Direct::new(1), Emulated::new(Checks::None));
    // Input and element; the rest of the message may have more detail on a CPU.
    let place = |runtime: &dyn Runtime, case: &Case| {
        let error = runtime.run(case).err().expect(&case.name);
        let (place, reason) = error.split_once(": ").expect(&error);
        assert!(!reason.is_empty());
        place.to_owned()
    };
    for case in refused() {
        let found = place(&emulated, &case);
        assert!(found.contains("element "), "{}: {found}", case.name);
        assert_eq!(found, place(&cpu, &case), "{}", case.name);
    }
}
