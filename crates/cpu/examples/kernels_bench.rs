//! Times the convolutions, pools and GEMMs of a training step of deep MNIST (batch 50), by layout.
//!
//! usage: kernels_bench [threads] [rounds]

use std::time::Instant;

use thalweg_cpu::conv::*;
use thalweg_cpu::gemm::{Gemm, gemm, gemm_scratch};
use thalweg_cpu::pooling::{PoolGeometry, max_pool, max_pool_grad};
use thalweg_cpu::thread_pool::ThreadPool;
use thalweg_cpu::{Activation, Cpu, Epilogue, Isa, Layout};

const BATCH: usize = 50;

/// The least time of each named part over all rounds, in milliseconds.
struct Times(Vec<(String, f64)>);

impl Times {
    fn time(&mut self, name: &str, body: impl FnOnce()) {
        let start = Instant::now();
        body();
        let ms = start.elapsed().as_secs_f64() * 1e3;
        match self.0.iter_mut().find(|(n, _)| n == name) {
            Some((_, best)) => *best = best.min(ms),
            None => self.0.push((name.to_owned(), ms)),
        }
    }
}

fn same(side: usize, in_c: usize, out_c: usize, layout: Layout) -> ConvGeometry {
    ConvGeometry {
        batch: BATCH,
        in_h: side,
        in_w: side,
        in_c,
        out_h: side,
        out_w: side,
        out_c,
        k_h: 5,
        k_w: 5,
        stride: [1, 1],
        dilation: [1, 1],
        pad_top: 2,
        pad_left: 2,
        layout,
    }
}

fn halves(g: &ConvGeometry) -> PoolGeometry {
    PoolGeometry {
        batch: BATCH,
        in_h: g.out_h,
        in_w: g.out_w,
        channels: g.out_c,
        out_h: g.out_h / 2,
        out_w: g.out_w / 2,
        k_h: 2,
        k_w: 2,
        stride: [2, 2],
        pad_top: 0,
        pad_left: 0,
        layout: g.layout,
    }
}

fn numbers(len: usize) -> Vec<f32> {
    (0..len)
        .map(|i| (i * 7919 % 1013) as f32 / 1013.0 - 0.5)
        .collect()
}

/// The operands of one convolution and of its gradients.
struct Conv {
    g: ConvGeometry,
    x: Vec<f32>,
    f: Vec<f32>,
    b: Vec<f32>,
    y: Vec<f32>,
    dx: Vec<f32>,
    dy: Vec<f32>,
    df: Vec<f32>,
}

impl Conv {
    fn new(g: ConvGeometry) -> Conv {
        let (x, y, f) = (
            numbers(g.input_len()),
            numbers(g.output_len()),
            numbers(g.filter_len()),
        );
        Conv {
            dx: x.clone(),
            dy: y.clone(),
            df: f.clone(),
            b: numbers(g.out_c),
            g,
            x,
            f,
            y,
        }
    }
}

fn main() {
    let mut args = std::env::args().skip(1).filter_map(|a| a.parse().ok());
    let threads = args.next().unwrap_or(2);
    let rounds = args.next().unwrap_or(20);
    let pool = ThreadPool::new(threads);
    let cpu = Cpu {
        pool: &pool,
        isa: Isa::detect(),
    };
    let mut scratch = vec![0u8; 16 << 20];
    let mut pooled = vec![0.0; BATCH * 14 * 14 * 32];
    let shape = |m, n, k, transpose_a, transpose_b| Gemm {
        m,
        n,
        k,
        transpose_a,
        transpose_b,
    };
    let gemms = [
        ("fc1", shape(BATCH, 1024, 3136, false, false)),
        ("fc1 input grad", shape(BATCH, 3136, 1024, false, true)),
        ("fc1 weight grad", shape(3136, 1024, BATCH, true, false)),
        ("fc2", shape(BATCH, 10, 1024, false, false)),
        ("fc2 input grad", shape(BATCH, 1024, 10, false, true)),
        ("fc2 weight grad", shape(1024, 10, BATCH, true, false)),
        ("fc1 of one image", shape(1, 1024, 3136, false, false)),
        ("fc1 of 4 images", shape(4, 1024, 3136, false, false)),
        ("AlexNet's fc6 of one", shape(1, 4096, 9216, false, false)),
        ("AlexNet's fc7 of 128", shape(128, 4096, 4096, false, false)),
    ];
    let mut operands =
        gemms.map(|(_, p)| [numbers(p.m * p.k), numbers(p.k * p.n), numbers(p.m * p.n)]);
    for layout in [Layout::Nhwc, Layout::Nchw] {
        let mut times = Times(Vec::new());
        let mut convs = [
            Conv::new(same(28, 1, 32, layout)),
            Conv::new(same(14, 32, 64, layout)),
        ];
        for _ in 0..rounds {
            for (i, c) in convs.iter_mut().enumerate() {
                let e = Epilogue {
                    bias: Some(&c.b),
                    activation: Activation::Relu,
                    ..Epilogue::NONE
                };
                let s = &mut scratch[..conv2d_scratch::<f32>(cpu.isa, threads, &c.g)];
                times.time(&format!("conv{}", i + 1), || {
                    conv2d(cpu, &c.g, &c.x, c.f[..].into(), e, &mut c.y, s)
                });
                let s = &mut scratch[..conv2d_filter_grad_scratch::<f32>(cpu.isa, threads, &c.g)];
                times.time(&format!("conv{} filter grad", i + 1), || {
                    conv2d_filter_grad(cpu, &c.g, &c.x, &c.y, &mut c.df, s);
                });
                let s = &mut scratch[..conv2d_input_grad_scratch::<f32>(cpu.isa, threads, &c.g)];
                if i > 0 {
                    times.time(&format!("conv{} input grad", i + 1), || {
                        conv2d_input_grad(cpu, &c.g, &c.f, &c.y, &mut c.dx, s);
                    });
                }
            }
            for (i, c) in convs.iter_mut().enumerate() {
                let g = halves(&c.g);
                let pooled = &mut pooled[..g.output_len()];
                times.time(&format!("pool{}", i + 1), || {
                    max_pool(cpu, &g, &c.y, pooled)
                });
                times.time(&format!("pool{} grad", i + 1), || {
                    max_pool_grad(cpu, &g, &c.y, pooled, &mut c.dy);
                });
            }
            for ((name, p), [a, b, c]) in gemms.iter().zip(&mut operands) {
                let s = &mut scratch[..gemm_scratch::<f32>(cpu.isa, threads, p)];
                times.time(name, || {
                    gemm(cpu, p, [a, b], None, Epilogue::default(), c, s)
                });
            }
        }
        let total: f64 = times.0.iter().map(|(_, ms)| ms).sum();
        println!("{layout:?}, {threads} threads");
        for (name, ms) in &times.0 {
            println!("  {name:24}{ms:8.3} ms");
        }
        println!(
            "  {:24}{total:8.3} ms, {:.0} images/s",
            "all",
            BATCH as f64 / total * 1e3
        );
    }
}
