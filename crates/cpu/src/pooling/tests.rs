//! Tests of pooling and its gradients against the definition.

use super::*;
use crate::Isa;
use crate::thread_pool::ThreadPool;

const LAYOUTS: [Layout; 2] = [Layout::Nhwc, Layout::Nchw];

fn geometries() -> Vec<PoolGeometry> {
    // [lines, columns, channels], window, strides, [top, bottom, left, right]
    let cases = [
        ([1, 1, 1], [1, 1], [1, 1], [0; 4]),
        ([28, 28, 32], [2, 2], [2, 2], [0; 4]),
        ([7, 9, 5], [2, 2], [2, 2], [0; 4]),
        ([7, 9, 17], [2, 2], [2, 2], [0, 1, 0, 1]),
        ([9, 8, 3], [3, 3], [2, 2], [1, 1, 0, 1]),
        ([9, 8, 33], [3, 2], [1, 1], [1, 1, 1, 0]),
        ([8, 11, 2], [2, 3], [3, 5], [0; 4]),
        ([4, 4, 70], [4, 4], [4, 4], [0; 4]),
        ([200, 100, 1], [2, 2], [2, 2], [0; 4]),
        ([41, 30, 33], [3, 3], [2, 1], [1, 1, 0, 1]),
    ];
    let mut all = Vec::new();
    for ([in_h, in_w, channels], [k_h, k_w], stride, pads) in cases {
        for layout in LAYOUTS {
            all.push(PoolGeometry {
                batch: 3,
                in_h,
                in_w,
                channels,
                out_h: (in_h + pads[0] + pads[1] - k_h) / stride[0] + 1,
                out_w: (in_w + pads[2] + pads[3] - k_w) / stride[1] + 1,
                k_h,
                k_w,
                stride,
                pad_top: pads[0],
                pad_left: pads[2],
                layout,
            });
        }
    }
    all
}

/// For each window, its place in the output and those of its pixels, line by line.
fn windows(g: &PoolGeometry) -> Vec<(usize, Vec<usize>)> {
    let place = |h: usize, w: usize, n: usize, y: usize, x: usize, c: usize| match g.layout {
        Layout::Nhwc => ((n * h + y) * w + x) * g.channels + c,
        Layout::Nchw => ((n * g.channels + c) * h + y) * w + x,
    };
    let mut all = Vec::new();
    for n in 0..g.batch {
        for c in 0..g.channels {
            for (oy, ox) in (0..g.out_h).flat_map(|y| (0..g.out_w).map(move |x| (y, x))) {
                let mut pixels = Vec::new();
                for (i, j) in (0..g.k_h).flat_map(|i| (0..g.k_w).map(move |j| (i, j))) {
                    let y = (oy * g.stride[0] + i).wrapping_sub(g.pad_top);
                    let x = (ox * g.stride[1] + j).wrapping_sub(g.pad_left);
                    if y < g.in_h && x < g.in_w {
                        pixels.push(place(g.in_h, g.in_w, n, y, x, c));
                    }
                }
                all.push((place(g.out_h, g.out_w, n, oy, ox, c), pixels));
            }
        }
    }
    all
}

/// Few different numbers, so that windows hold their largest more than once.
fn input(g: &PoolGeometry) -> Vec<f32> {
    (0..g.input_len())
        .map(|i| ((i * 7 + i / 5 + i / 31) % 6) as f32 - 3.0)
        .collect()
}

fn grad(g: &PoolGeometry) -> Vec<f32> {
    (0..g.output_len())
        .map(|i| (i * 5 % 12) as f32 - 4.0)
        .collect()
}

fn on_all_machines(mut body: impl FnMut(Cpu<'_>, &PoolGeometry)) {
    for isa in Isa::available() {
        for threads in [1, 3] {
            let pool = ThreadPool::new(threads);
            geometries()
                .iter()
                .for_each(|g| body(Cpu { pool: &pool, isa }, g));
        }
    }
}

#[test]
fn the_largest_element_of_each_window_is_found() {
    on_all_machines(|cpu, g| {
        let x = input(g);
        let [mut wanted, mut got] = [0.0, 9.0].map(|x| vec![x; g.output_len()]);
        for (out, pixels) in windows(g) {
            wanted[out] = pixels
                .iter()
                .map(|&p| x[p])
                .fold(f32::NEG_INFINITY, f32::max);
        }
        max_pool(cpu, g, &x, &mut got);
        assert_eq!(got, wanted, "{cpu:?} {g:?}");
        let ints: Vec<i32> = x.iter().map(|&x| x as i32).collect();
        let mut got = vec![9; g.output_len()];
        max_pool(cpu, g, &ints, &mut got);
        assert_eq!(
            got,
            wanted.iter().map(|&x| x as i32).collect::<Vec<_>>(),
            "{cpu:?} {g:?}"
        );
    });
}

#[test]
fn the_gradient_goes_to_the_first_of_the_largest() {
    on_all_machines(|cpu, g| {
        let (x, dy) = (input(g), grad(g));
        let [mut wanted, mut got] = [0.0, 9.0].map(|x| vec![x; g.input_len()]);
        for (out, pixels) in windows(g) {
            let mut best = pixels[0];
            for p in pixels {
                if x[p] > x[best] {
                    best = p;
                }
            }
            wanted[best] += dy[out];
        }
        max_pool_grad(cpu, g, &x, &dy, &mut got);
        assert_eq!(got, wanted, "{cpu:?} {g:?}");
    });
}

#[test]
fn the_gradient_by_numbers_is_that_of_the_images() {
    on_all_machines(|cpu, g| {
        let (mut x, dy) = (input(g), grad(g));
        for nan in [false, true] {
            if nan {
                x.iter_mut().step_by(7).for_each(|x| *x = f32::NAN);
            }
            let [mut y, mut wanted_y] = [7.0, 9.0].map(|x| vec![x; g.output_len()]);
            let [mut dx, mut wanted_dx] = [7.0, 9.0].map(|x| vec![x; g.input_len()]);
            let mut which = vec![99; g.output_len()];
            max_pool(cpu, g, &x, &mut wanted_y);
            max_pool_grad(cpu, g, &x, &dy, &mut wanted_dx);
            max_pool_store_argmax(cpu, g, &x, &mut y, &mut which);
            max_pool_grad_stored_argmax(cpu, g, &dy, &which, &mut dx);
            let bits = |x: &[f32]| x.iter().map(|x| (x + 0.0).to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&y), bits(&wanted_y), "{cpu:?} {g:?}");
            assert_eq!(bits(&dx), bits(&wanted_dx), "{cpu:?} {g:?}");
        }
    });
}

#[test]
fn means_and_their_gradients_leave_padding_out() {
    on_all_machines(|cpu, g| {
        let (x, dy) = (input(g), grad(g));
        let [mut y, mut got_y] = [0.0, 9.0].map(|x| vec![x; g.output_len()]);
        let [mut dx, mut got_dx] = [0.0, 9.0].map(|x| vec![x; g.input_len()]);
        for (out, pixels) in windows(g) {
            let count = pixels.len() as f32;
            y[out] = pixels.iter().map(|&p| x[p]).sum::<f32>() / count;
            for p in pixels {
                dx[p] += dy[out] / count;
            }
        }
        avg_pool(cpu, g, &x, &mut got_y);
        assert_eq!(got_y, y, "{cpu:?} {g:?}");
        avg_pool_grad(cpu, g, &dy, &mut got_dx);
        let close = |a: &f32, b: &f32| (a - b).abs() < 1e-5;
        assert!(
            got_dx.iter().zip(&dx).all(|(a, b)| close(a, b)),
            "{cpu:?} {g:?}"
        );
    });
}

#[test]
fn nan_is_the_largest_and_the_first_of_it_gets_the_gradient() {
    on_all_machines(|cpu, g| {
        if g.k_h * g.k_w < 2 || g.pad_top + g.pad_left > 0 {
            return;
        }
        let (mut x, dy) = (input(g), vec![1.0; g.output_len()]);
        let (out, pixels) = windows(g).swap_remove(0);
        let last = pixels[pixels.len() - 1];
        (x[pixels[1]], x[last]) = (f32::NAN, f32::NAN);
        let mut y = vec![0.0; g.output_len()];
        max_pool(cpu, g, &x, &mut y);
        assert!(y[out].is_nan(), "{cpu:?} {g:?}");
        let mut dx = vec![0.0; g.input_len()];
        max_pool_grad(cpu, g, &x, &dy, &mut dx);
        assert!(dx[pixels[1]] >= 1.0, "{cpu:?} {g:?}");
        assert_eq!(
            dx.iter().sum::<f32>(),
            dy.iter().sum::<f32>(),
            "{cpu:?} {g:?}"
        );
    });
}

#[test]
fn nothing_gives_nothing() {
    let pool = ThreadPool::new(1);
    let cpu = Cpu {
        pool: &pool,
        isa: Isa::detect(),
    };
    for layout in LAYOUTS {
        let g = PoolGeometry {
            batch: 0,
            layout,
            ..geometries()[0]
        };
        max_pool::<f32>(cpu, &g, &[], &mut []);
        max_pool_grad::<f32>(cpu, &g, &[], &[], &mut []);
        let g = PoolGeometry {
            channels: 0,
            layout,
            ..geometries()[0]
        };
        avg_pool::<f64>(cpu, &g, &[], &mut []);
        avg_pool_grad::<f64>(cpu, &g, &[], &mut []);
        // Images of one line have no window of two.
        let g = PoolGeometry {
            in_h: 1,
            out_h: 0,
            k_h: 2,
            layout,
            ..geometries()[2]
        };
        let image = vec![1.0f32; g.input_len()];
        max_pool(cpu, &g, &image, &mut []);
        let mut grad = vec![7.0; image.len()];
        max_pool_grad(cpu, &g, &image, &[], &mut grad);
        assert!(grad.iter().all(|&x| x == 0.0));
    }
}
