//! Memory limits of devices: the memory that counts, and the node that the error names.

use thalweg::prelude::*;
use thalweg::session::CpuOptions;
use thalweg::session::Parallel;
use thalweg::tensor::BUFFER_OVERHEAD;
use thalweg_tests::cpus::cpus;

/// Options with `count` devices; the last one is limited to `bytes` bytes.
fn with_memory_limit(count: usize, bytes: usize) -> SessionOptions {
    let limited = CpuOptions::new().memory_limit(bytes);
    match count {
        1 => cpus(1).each_cpu(limited),
        _ => cpus(count - 1).cpu(limited),
    }
}

fn zeros(n: usize) -> Tensor {
    Tensor::zeros(DType::F32, &[n]).unwrap()
}

#[test]
fn idle_plans_release_memory_for_others() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1]);
    let y = x.tanh().square().sum();
    let session = Session::with_options(&g, with_memory_limit(1, 3 << 20)).unwrap();
    for n in [500_000, 500_001] {
        (0..3).for_each(|_| drop(session.step(y, [x.feed(zeros(n))]).unwrap()));
    }
}

#[test]
fn a_sent_value_counts_against_the_receiving_device() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1]);
    let n = g.placeholder("n", DType::I32, [-1]);
    // A fed shape is known only in the step.
    let y = g.device("/cpu:0", || x.reshape(n).tanh());
    let z = g.device("/cpu:1", || y.sum());
    let session = Session::with_options(&g, with_memory_limit(2, 1 << 16)).unwrap();
    let feeds = [x.feed(zeros(1 << 18)), n.feed(Tensor::from([-1i32]))];
    match session.step(z, feeds) {
        Err(SessionError::Memory { device, limit, .. }) => {
            assert_eq!((device.index, limit), (Some(1), Some(1 << 16)));
        }
        other => panic!("{:?}", other.map(|_| ())),
    }
}

#[test]
fn inputs_of_nodes_with_late_shapes_count() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1]);
    let n = g.placeholder("n", DType::I32, [-1]);
    let y = x.tanh().reshape(n).sum();
    let session = Session::with_options(&g, with_memory_limit(1, 2_100_000)).unwrap();
    let feeds = [x.feed(zeros(500_000)), n.feed(Tensor::from([-1i32]))];
    let in_use_after = || {
        let result = session.step(y, &feeds);
        assert!(matches!(result, Err(SessionError::Memory { .. })));
        session.devices()[0].memory().used()
    };
    // The plan's constants stay; the steps' memory does not.
    let first = in_use_after();
    assert!(first < 64 + BUFFER_OVERHEAD, "{first} bytes");
    assert_eq!(in_use_after(), first);
}

#[test]
fn an_empty_value_of_partly_known_shape_crosses_devices() {
    let g = Graph::new();
    let handle = g.device("/cpu:0", || {
        let node = g.op("VarHandleOp").attr("dtype", DType::F32);
        node.attr("shape", Shape::from([0i64, -1])).output()
    });
    let x = g.placeholder("x", DType::F32, [0i64, -1]);
    let set = g.op("AssignVariableOp").input(handle).input(x).build();
    let read = g
        .op("ReadVariableOp")
        .input(handle)
        .attr("dtype", DType::F32)
        .output();
    let y = g.device("/cpu:1", || read.square());
    for parallel in [Parallel::Always, Parallel::Never] {
        let options = SessionOptions::new().cpus(2).parallel(parallel);
        let session = Session::with_options(&g, options).unwrap();
        let empty = Tensor::zeros(DType::F32, &[0, 5]).unwrap();
        session.run(set, [x.feed(empty)]).unwrap();
        assert_eq!(
            session.step(y, []).unwrap().tensor(0).unwrap().dims(),
            [0, 5]
        );
    }
}

#[test]
fn a_variable_larger_than_memory_is_an_error_on_any_device() {
    for device in ["/cpu:0", "/cpu:1"] {
        let g = Graph::new();
        let handle = g.device("/cpu:0", || {
            let node = g.op("VarHandleOp").attr("dtype", DType::F64);
            node.attr("shape", Shape::from([1i64 << 62])).output()
        });
        let read = g
            .op("ReadVariableOp")
            .input(handle)
            .attr("dtype", DType::F64)
            .output();
        let y = g.device(device, || read.square());
        let session = Session::with_options(&g, SessionOptions::new().cpus(2)).unwrap();
        assert!(session.step(y, []).is_err());
    }
}

#[test]
fn strings_count_against_their_device() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::String, []);
    let join = |x| g.op("StringJoin").inputs(vec![x, x]).output();
    let y = (0..8).fold(x, |x, _| join(x));
    let z = g.op("StringLength").input(y).output();
    let session = Session::with_options(&g, with_memory_limit(1, 1 << 16)).unwrap();
    let run = |bytes: usize| {
        let text = Tensor::strings(&[], &[vec![b'x'; bytes]]).unwrap();
        session.run::<i32>(z, [x.feed(text)])
    };
    assert_eq!(run(64).unwrap(), 64 << 8);
    let used = session.devices()[0].memory().used();
    for _ in 0..2 {
        let error = run(1024).unwrap_err();
        assert!(matches!(error, SessionError::Memory { .. }), "{error}");
        // The memory of a step's values is freed with them.
        assert_eq!(session.devices()[0].memory().used(), used);
    }
    assert_eq!(run(64).unwrap(), 64 << 8);
}

#[test]
fn tensor_lists_count_against_their_device() {
    for dtype in [DType::String, DType::F64] {
        let g = Graph::new();
        let x = g.placeholder("x", dtype, [-1]);
        let shape = g.constant(-1i32);
        let list = g.op("TensorListFromTensor").input(x).input(shape).output();
        let stack = g.op("TensorListStack").input(list).input(shape);
        let y = stack.attr("element_dtype", dtype).output();
        let session = Session::with_options(&g, with_memory_limit(1, 1 << 18)).unwrap();
        let run = |n: usize| session.step(y, [x.feed(Tensor::zeros(dtype, &[n]).unwrap())]);
        assert!(run(100).is_ok());
        let error = run(10_000).map(drop).unwrap_err();
        assert!(matches!(error, SessionError::Memory { .. }), "{error}");
    }
}

#[test]
fn weight_decay_needs_no_memory_beyond_the_gradient() {
    const SIDE: usize = 512;
    let bytes = 4 * SIDE * SIDE;
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [SIDE as i64, 1]);
    let w = g.variable("w", g.fill([SIDE as i64; 2], 0.5f32));
    // As large as the variable, and temporary: unlike the variable's, its memory is free afterwards.
    let gradient = x.matmul(x.transpose(g.constant([1i32, 0])));
    let decayed = w.value() * 1e-4 + gradient;
    let train = GradientDescent::new(0.1).apply_gradients(&g, &[(decayed, w)], None);
    // The variable and its update, the gradient, and the packed panels of a product.
    let session =
        Session::with_options(&g, with_memory_limit(1, 3 * bytes + bytes * 6 / 10)).unwrap();
    session.run(w.initializer(), []).unwrap();
    let ones = || Tensor::new(&[SIDE, 1], &[1.0f32; SIDE]).unwrap();
    for _ in 0..3 {
        session.run(train, [x.feed(ones())]).unwrap();
    }
    let found = session.run::<Tensor>(w, []).unwrap();
    let expected = (0..3).fold(0.5f32, |w, _| w - 0.1 * (w * 1e-4 + 1.0));
    assert!((found.as_slice::<f32>().unwrap()[7] - expected).abs() < 1e-6);
}

#[test]
fn the_tables_of_a_fourier_transform_count_against_the_limit() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::C64, [1 << 14]);
    let spectrum = g.op("FFT").input(x).output();
    // 128 KiB each for the numbers and their spectrum; the tables take more.
    let run = |bytes: usize| {
        let session = Session::with_options(&g, with_memory_limit(1, bytes)).unwrap();
        let numbers = Tensor::zeros(DType::C64, &[1 << 14]).unwrap();
        session.step(spectrum, [x.feed(numbers)]).map(drop)
    };
    let refused = run(600 << 10);
    assert!(
        matches!(refused, Err(SessionError::Memory { .. })),
        "{refused:?}"
    );
    run(8 << 20).unwrap();
}
