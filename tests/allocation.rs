//! Allocations of steps, counted by this program's allocator: a warmed-up step through a callable allocates nothing on
//! any thread; the memory of a loop over lists is linear in its iterations. The tests run one at a time, so that no
//! other test allocates meanwhile.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use thalweg::layers::{lstm_cell, rnn};
use thalweg::prelude::*;
use thalweg::session::Parallel;
use thalweg_examples::model;

/// The system's allocator, counting.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Held by the running test.
static RUNNING: Mutex<()> = Mutex::new(());

fn count(bytes: usize) {
    ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    BYTES.fetch_add(bytes, Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(ptr, layout, size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The fewest allocations of three rounds of calls in a row. Threads that the system starts late,
/// and the one that runs this test, allocate for themselves now and then, so that some rounds see
/// that; a step that allocates shows in every round.
fn allocations(step: &mut Callable<'_>, feeds: &[Tensor], calls: usize) -> usize {
    let mut round = || {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        for _ in 0..calls {
            step.call(feeds).unwrap();
        }
        ALLOCATIONS.load(Ordering::Relaxed) - before
    };
    let mut fewest = usize::MAX;
    for _ in 0..100 {
        fewest = fewest.min((0..3).map(|_| round()).sum());
        if fewest == 0 {
            break;
        }
    }
    fewest
}

/// Options with `threads` threads that all take part.
fn options(threads: usize) -> SessionOptions {
    SessionOptions::new()
        .threads(threads)
        .parallel(Parallel::Always)
}

fn linear_regression(threads: usize) -> usize {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, []);
    let y = g.placeholder("y", DType::F32, []);
    let (w, b) = (g.variable("weight", 0.0f32), g.variable("bias", 0.0f32));
    let loss = (y - (x * w + b)).square();
    let train = GradientDescent::new(0.001).minimize(loss);
    let session = Session::with_options(&g, options(threads)).unwrap();
    session.run(g.initializers(), []).unwrap();
    let mut step = session.callable((train, loss), [x, y]).unwrap();
    allocations(
        &mut step,
        &[Tensor::from(1.0f32), Tensor::from(3.0f32)],
        100,
    )
}

fn deep_mnist(threads: usize, format: DataFormat) -> usize {
    const BATCH: usize = 3;
    let g = Graph::new();
    g.set_seed(1);
    let net = model::deep_mnist(&g, format, 1e-4);
    let session = Session::with_options(&g, options(threads)).unwrap();
    session.run(g.initializers(), []).unwrap();
    let pixels: Vec<f32> = (0..BATCH * 784).map(|i| (i % 255) as f32 / 255.0).collect();
    let mut labels = vec![0.0f32; BATCH * 10];
    (0..BATCH).for_each(|i| labels[i * 10 + i] = 1.0);
    let feeds = [
        Tensor::new(&[BATCH, 784], &pixels).unwrap(),
        Tensor::new(&[BATCH, 10], &labels).unwrap(),
        Tensor::from(0.5f32),
    ];
    let inputs = [net.images, net.labels, net.keep_prob];
    let mut step = session.callable((net.train, net.loss), inputs).unwrap();
    allocations(&mut step, &feeds, 3)
}

/// A model whose halves are on two devices.
fn two_devices(threads: usize) -> usize {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [8, 8]);
    let halves: Vec<_> = (0..2)
        .map(|i| {
            g.device(format!("/cpu:{i}"), || {
                let w = g.variable("w", Tensor::new(&[8, 8], &[0.1f32; 64]).unwrap());
                (w, x.matmul(w).tanh().matmul(w))
            })
        })
        .collect();
    let loss = (halves[0].1 - halves[1].1).square().sum();
    let train = GradientDescent::new(0.01).minimize(loss);
    let options = options(threads).cpus(2);
    let session = Session::with_options(&g, options).unwrap();
    session.run(g.initializers(), []).unwrap();
    let mut step = session.callable((train, loss), [x]).unwrap();
    allocations(
        &mut step,
        &[Tensor::new(&[8, 8], &[0.5f32; 64]).unwrap()],
        50,
    )
}

/// Bytes allocated by a training step over a sequence of length `time`.
fn bytes_of_sequence(time: usize) -> usize {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [2, -1, 3]);
    let made = rnn(lstm_cell(4)).over(x);
    let loss = made.outputs.square().sum() + made.state[0].sum();
    let kernel = g.output(g.variables()[0].handle);
    let grads = gradients(&[loss], &[x, kernel]);
    let grads: Vec<Output<'_>> = grads.into_iter().flatten().collect();
    let session = Session::with_options(&g, SessionOptions::new().threads(1)).unwrap();
    session.run(g.initializers(), []).unwrap();
    let given = Tensor::zeros(DType::F32, &[2, time, 3]).unwrap();
    let round = || {
        let before = BYTES.load(Ordering::Relaxed);
        session.step(&grads, [x.feed(&given)]).unwrap();
        BYTES.load(Ordering::Relaxed) - before
    };
    (0..4).map(|_| round()).min().unwrap()
}

#[test]
fn memory_of_a_recurrent_layer_and_its_gradient_is_linear_in_time() {
    let _alone = RUNNING.lock().unwrap();
    // From 257 to 4096 elements, the tree of a list has the same height.
    let [short, longer, longest] = [500, 1000, 2000].map(bytes_of_sequence);
    let ratio = (longest - longer) as f64 / (longer - short) as f64;
    assert!(
        (1.8..2.2).contains(&ratio),
        "{short}, {longer}, {longest} bytes"
    );
}

#[test]
fn a_warm_step_of_a_callable_allocates_nothing() {
    let _alone = RUNNING.lock().unwrap();
    // The counter counts at all.
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    drop(std::hint::black_box(vec![0u8; 100]));
    assert!(ALLOCATIONS.load(Ordering::Relaxed) > before);

    for threads in [1, 2] {
        assert_eq!(
            linear_regression(threads),
            0,
            "linear regression, {threads} threads"
        );
    }
    for threads in [2, 4] {
        assert_eq!(two_devices(threads), 0, "two devices, {threads} threads");
    }
    for threads in [1, 2] {
        for format in [DataFormat::Nhwc, DataFormat::Nchw] {
            let count = deep_mnist(threads, format);
            assert_eq!(count, 0, "deep MNIST {format:?}, {threads} threads");
        }
    }
}
