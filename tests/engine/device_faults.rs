//! Faults in the middle of a step over several devices, with values in flight: the right error, no leaked memory, and a
//! session that remains usable.

use std::time::Duration;

use thalweg::prelude::*;
use thalweg::session::{Cancel, CpuOptions};
use thalweg_tests::cpus::cpus;

/// Enough elements for a kernel to use several threads.
const LARGE: i64 = 1 << 20;

/// Bytes and buffers in use, by device.
fn in_use(session: &Session<'_>) -> Vec<(usize, usize)> {
    let memory = |d: &thalweg::device::Device| (d.memory().used(), d.memory().buffers());
    session.devices().iter().map(memory).collect()
}

/// A step over three devices with a large value in flight and, on the last one, a kernel that fails
/// where it is fed a class out of range.
struct Failing<'g> {
    x: Output<'g>,
    class: Output<'g>,
    values: Vec<Output<'g>>,
}

fn failing(g: &Graph) -> Failing<'_> {
    let x = g.placeholder("x", DType::F32, [LARGE]);
    let class = g.placeholder("class", DType::I32, [1]);
    let a = g.device("/cpu:0", || x.square().tanh());
    let b = g.device("/cpu:1", || (a + x).tanh());
    let (c, loss) = g.device("/cpu:2", || {
        let c = (a * b).sum();
        let logits = c.reshape([1, 1]) * g.constant([[1.0f32, 2.0]]);
        (c, logits.sparse_softmax_cross_entropy(class).mean())
    });
    let d = g.device("/cpu:0", || (b * 2.0).sum() + loss);
    Failing {
        x,
        class,
        values: vec![c, d],
    }
}

#[test]
fn a_failing_kernel_ends_the_step_on_all_devices_and_leaks_nothing() {
    let g = Graph::new();
    let Failing { x, class, values } = failing(&g);
    let session = Session::with_options(&g, cpus(3)).unwrap();
    let input = Tensor::new(&[LARGE as usize], &vec![0.5f32; LARGE as usize]).unwrap();
    let run = |label: i32| session.step(&values, [x.feed(&input), class.feed([label])]);
    let expected = run(1).unwrap();
    run(1).unwrap();
    let rest = in_use(&session);
    for _ in 0..20 {
        match run(7) {
            Err(SessionError::Kernel { op, .. }) => {
                assert_eq!(op, "SparseSoftmaxCrossEntropyWithLogits");
            }
            Err(e) => panic!("{e}"),
            Ok(_) => panic!("a class out of range was taken"),
        }
        assert_eq!(in_use(&session), rest);
        let got = run(1).unwrap();
        for i in 0..2 {
            assert_eq!(got.tensor(i).unwrap(), expected.tensor(i).unwrap());
        }
    }
}

#[test]
fn a_cancelled_step_ends_with_an_error_and_the_next_one_runs() {
    let g = Graph::new();
    let Failing { x, class, values } = failing(&g);
    let session = Session::with_options(&g, cpus(3)).unwrap();
    let input = Tensor::new(&[LARGE as usize], &vec![0.5f32; LARGE as usize]).unwrap();
    let feeds = [x.feed(&input), class.feed([1i32])];
    session.step(&values, &feeds).unwrap();
    session.step(&values, &feeds).unwrap();
    let rest = in_use(&session);

    let cancel = Cancel::new();
    let options = RunOptions::new().cancelled_by(&cancel);
    session.step_with(&values, &feeds, &options).unwrap();
    // While steps run, in any phase of a step.
    std::thread::scope(|scope| {
        let steps = scope.spawn(|| {
            loop {
                if let Err(e) = session.step_with(&values, &feeds, &options) {
                    return e;
                }
            }
        });
        std::thread::sleep(Duration::from_millis(20));
        cancel.cancel();
        let e = steps.join().unwrap();
        assert!(matches!(e, SessionError::Cancelled { .. }), "{e}");
    });
    assert_eq!(in_use(&session), rest);
    session.step(&values, &feeds).unwrap();
}

#[test]
fn a_device_over_its_memory_limit_is_named_and_the_session_remains_usable() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [-1]);
    let y = g.device("/cpu:0", || x.tanh());
    let z = g.device("/cpu:1", || y.square().tanh().sum());
    let options = cpus(1).cpu(CpuOptions::new().memory_limit(1 << 20));
    let session = Session::with_options(&g, options).unwrap();
    let input = |n: usize| Tensor::new(&[n], &vec![0.5f32; n]).unwrap();
    let rest = in_use(&session);
    let e = session.step(z, [x.feed(input(1 << 20))]).unwrap_err();
    let text = e.to_string();
    let SessionError::Memory { device, limit, .. } = e else {
        panic!("{text}");
    };
    assert_eq!(
        device.to_string(),
        "/job:localhost/replica:0/task:0/device:CPU:1"
    );
    assert_eq!(limit, Some(1 << 20));
    assert_eq!(in_use(&session), rest);
    let got = session.step(z, [x.feed(input(100))]).unwrap();
    assert!(got.scalar::<f32>(0).unwrap() > 0.0);
}

#[test]
fn a_variable_counts_against_its_own_device() {
    let g = Graph::new();
    let large = Tensor::new(&[1000], &[1.0f32; 1000]).unwrap();
    g.device("/cpu:1", || g.variable("v", large));
    let options = cpus(1).cpu(CpuOptions::new().memory_limit(1 << 16));
    let session = Session::with_options(&g, options).unwrap();
    session.run(g.initializers(), []).unwrap();
    let used = in_use(&session);
    assert_eq!(used[0].0, 0);
    assert!((4000..8000).contains(&used[1].0), "{used:?}");
}

#[test]
fn concurrent_steps_do_not_mix_their_values() {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [1 << 16]);
    let a = g.device("/cpu:0", || x.square());
    let b = g.device("/cpu:1", || a.sqrt() + x);
    let c = g.device("/cpu:0", || (b * a).sum());
    let session = Session::with_options(&g, cpus(2)).unwrap();
    let run = |value: f32| {
        let input = Tensor::new(&[1 << 16], &vec![value; 1 << 16]).unwrap();
        session.run::<f32>(c, [x.feed(input)]).unwrap()
    };
    let expected: Vec<f32> = (0..4).map(|i| run(i as f32)).collect();
    std::thread::scope(|scope| {
        for (i, &expected) in expected.iter().enumerate() {
            let run = &run;
            scope.spawn(move || (0..30).for_each(|_| assert_eq!(run(i as f32), expected)));
        }
    });
}

#[test]
fn a_step_over_devices_obeys_its_timeout() {
    let g = Graph::new();
    let Failing { x, class, values } = failing(&g);
    let session = Session::with_options(&g, cpus(3)).unwrap();
    let input = Tensor::new(&[LARGE as usize], &vec![0.5f32; LARGE as usize]).unwrap();
    let feeds = [x.feed(&input), class.feed([1i32])];
    let e = session.step_with(&values, &feeds, &RunOptions::new().timeout(Duration::ZERO));
    assert!(matches!(e, Err(SessionError::Timeout { .. })));
    session.step(&values, &feeds).unwrap();
}
