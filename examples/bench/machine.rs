//! Peak rates of the machine: multiplications and additions in registers, and a triad over memory (McCalpin's STREAM).

use std::hint::black_box;
use std::time::Instant;

use thalweg::cpu::isa::Vectorize;
use thalweg::cpu::{Isa, ThreadPool};

/// Independent sums: enough to hide the latency of one, few enough for the registers.
const SUMS: usize = 12;
/// Numbers in the widest register.
const LANES: usize = 16;
/// Steps of a round.
const STEPS: usize = 100_000;
/// Floats of each of the triad's three arrays: together far more than the caches hold.
const FLOATS: usize = 16 << 20;

/// Peak rates of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Operations a second of one thread, and of the requested number of threads.
    pub flops: [f64; 2],
    /// Bytes a second of memory, with that number of threads.
    pub bytes: f64,
}

/// Fused multiplications and additions of one thread.
struct Registers;

impl Vectorize for Registers {
    type Out = [f32; SUMS * LANES];

    #[inline(always)]
    fn run(self) -> Self::Out {
        let (x, y) = (black_box(0.999f32), black_box(0.001f32));
        let mut sums = black_box([0.5f32; SUMS * LANES]);
        for _ in 0..STEPS {
            for sum in &mut sums {
                *sum = sum.mul_add(x, y);
            }
        }
        sums
    }
}

fn seconds(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64()
}

impl Machine {
    /// Measures the peak rates, each the best of `rounds`.
    pub fn measure(isa: Isa, threads: usize, rounds: usize) -> Machine {
        let pool = ThreadPool::new(threads);
        let on = |threads: usize| {
            let work = || {
                pool.parallel_for(threads, &|_| {
                    black_box(isa.run(Registers));
                })
            };
            let flops = (2 * threads * STEPS * SUMS * LANES) as f64;
            (0..rounds)
                .map(|_| flops / seconds(work))
                .fold(0.0, f64::max)
        };
        let flops = [on(1), on(threads)];
        let (mut a, b, c) = (
            vec![0.0f32; FLOATS],
            vec![1.0f32; FLOATS],
            vec![2.0f32; FLOATS],
        );
        let part = FLOATS / threads.max(1);
        let triad = |a: &mut Vec<f32>| {
            std::thread::scope(|scope| {
                for ((a, b), c) in a.chunks_mut(part).zip(b.chunks(part)).zip(c.chunks(part)) {
                    scope.spawn(move || {
                        for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
                            *a = b + 3.0 * c;
                        }
                    });
                }
            });
        };
        let moved = (3 * FLOATS * size_of::<f32>()) as f64;
        let bytes = (0..rounds).map(|_| {
            let took = seconds(|| triad(&mut a));
            black_box(&a);
            moved / took
        });
        Machine {
            flops,
            bytes: bytes.fold(0.0, f64::max),
        }
    }
}
