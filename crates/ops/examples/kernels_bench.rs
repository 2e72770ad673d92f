//! Times the kernels of a training step of deep MNIST.

use std::time::Instant;
use thalweg_device::pool::ThreadPool;
use thalweg_ops::cpu::gemm::{Product, gemm, gemm_scratch};
use thalweg_ops::cpu::{Cpu, Isa};

fn main() {
    for threads in [1, 2] {
        let pool = ThreadPool::new(threads);
        let cpu = Cpu {
            pool: &pool,
            isa: Isa::detect(),
        };
        for (m, n, k, ta, tb) in [
            (1024, 1024, 1024, false, false),
            (50, 1024, 3136, false, false),
            (50, 3136, 1024, false, true),
            (3136, 1024, 50, true, false),
            (50, 10, 1024, false, false),
        ] {
            let p = Product {
                m,
                n,
                k,
                transpose_a: ta,
                transpose_b: tb,
            };
            let a = vec![1.0f32; m * k];
            let b = vec![1.0f32; k * n];
            let mut c = vec![0.0f32; m * n];
            let mut s = vec![0u8; gemm_scratch::<f32>(cpu.isa, threads, &p)];
            let mut best = f64::MAX;
            for _ in 0..20 {
                let t = Instant::now();
                gemm(cpu, &p, &a, &b, &mut c, &mut s);
                best = best.min(t.elapsed().as_secs_f64());
            }
            println!(
                "{threads} {m}x{n}x{k} {:.3} ms {:.1} GF/s scratch {}",
                best * 1e3,
                2e-9 * (m * n * k) as f64 / best,
                s.len()
            );
        }
    }
}
