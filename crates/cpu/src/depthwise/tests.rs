//! Tests of depthwise convolutions against a plain loop over outputs and taps.

use super::{
    depthwise, depthwise_filter_grad, depthwise_filter_grad_scratch, depthwise_input_grad,
    depthwise_scratch,
};
use crate::conv::tests::place;
use crate::conv::{ConvGeometry, Real};
use crate::{Activation, Cpu, Epilogue, Isa, Layout, ThreadPool};

/// Small integers, whose sums are exact.
fn numbers<T: From<i8>>(len: usize, salt: usize) -> Vec<T> {
    (0..len)
        .map(|i| T::from(((i * 7 + salt) % 11) as i8 - 5))
        .collect()
}

/// Calls `f` with the places of each product: in the images, the filter and the output.
fn each_product(g: &ConvGeometry, mut f: impl FnMut(usize, usize, usize)) {
    let each = g.out_c / g.in_c;
    for (n, oy) in (0..g.batch).flat_map(|n| (0..g.out_h).map(move |y| (n, y))) {
        for (ox, c) in (0..g.out_w).flat_map(|x| (0..g.out_c).map(move |c| (x, c))) {
            for (i, j) in (0..g.k_h).flat_map(|i| (0..g.k_w).map(move |j| (i, j))) {
                let y = (oy * g.stride[0] + i * g.dilation[0]).checked_sub(g.pad_top);
                let x = (ox * g.stride[1] + j * g.dilation[1]).checked_sub(g.pad_left);
                let inside = |at: &usize, end| *at < end;
                let (Some(y), Some(x)) = (
                    y.filter(|y| inside(y, g.in_h)),
                    x.filter(|x| inside(x, g.in_w)),
                ) else {
                    continue;
                };
                f(
                    place(g.layout, [g.in_h, g.in_w, g.in_c], [n, y, x, c / each]),
                    (i * g.k_w + j) * g.out_c + c,
                    place(g.layout, [g.out_h, g.out_w, g.out_c], [n, oy, ox, c]),
                );
            }
        }
    }
}

fn geometries() -> impl Iterator<Item = ConvGeometry> {
    // Channels in four vectors, two, one and a part of one, on every instruction set.
    let channels = [(123, 1), (3, 1), (5, 4), (33, 2)];
    // Taps, strides, dilations and padding, also beyond the image.
    let windows = [
        ([3, 3], [1, 1], [1, 1], [1, 1]),
        ([3, 2], [2, 3], [1, 1], [0, 1]),
        ([2, 3], [1, 2], [2, 3], [2, 4]),
        ([5, 5], [1, 1], [1, 1], [4, 4]),
        ([1, 1], [2, 1], [1, 1], [0, 0]),
    ];
    // Narrow images, which some taps never see.
    let widths = [20, 2, 1];
    let layouts = [Layout::Nhwc, Layout::Nchw];
    let images = layouts
        .into_iter()
        .flat_map(move |l| widths.map(|w| (l, w)));
    images.flat_map(move |(layout, in_w)| {
        windows
            .into_iter()
            .flat_map(move |([k_h, k_w], stride, dilation, [pad_top, pad_left])| {
                channels.into_iter().map(move |(in_c, each)| {
                    let in_h = 7;
                    let out = |size: usize, taps: usize, axis: usize, pad: usize| {
                        (size + 2 * pad - (taps - 1) * dilation[axis] - 1) / stride[axis] + 1
                    };
                    ConvGeometry {
                        batch: 2,
                        in_h,
                        in_w,
                        in_c,
                        out_h: out(in_h, k_h, 0, pad_top),
                        out_w: out(in_w, k_w, 1, pad_left),
                        out_c: in_c * each,
                        k_h,
                        k_w,
                        stride,
                        dilation,
                        pad_top,
                        pad_left,
                        layout,
                    }
                })
            })
    })
}

/// The convolution, the gradient of its images and that of its filter.
fn results<T: Real>(cpu: Cpu<'_>, g: &ConvGeometry, [x, filter, dy]: [&[T]; 3]) -> [Vec<T>; 3] {
    let len = depthwise_scratch::<T>(cpu.pool.threads(), g);
    let (mut scratch, nan) = (vec![255; len], T::from_f64(f64::NAN));
    let [mut y, mut dx, mut df] = [dy.len(), x.len(), filter.len()].map(|len| vec![nan; len]);
    depthwise(cpu, g, [x, filter], Epilogue::NONE, &mut y, &mut scratch);
    depthwise_input_grad(cpu, g, [filter, dy], &mut dx, &mut scratch);
    let mut scratch = vec![255; depthwise_filter_grad_scratch::<T>(g)];
    depthwise_filter_grad(cpu, g, x, dy, &mut df, &mut scratch);
    [y, dx, df]
}

fn check<T: Real + From<i8> + std::fmt::Debug>() {
    for g in geometries() {
        let x: Vec<T> = numbers(g.input_len(), 1);
        let filter: Vec<T> = numbers(g.k_h * g.k_w * g.out_c, 2);
        let dy: Vec<T> = numbers(g.output_len(), 3);
        let mut wanted = [dy.len(), x.len(), filter.len()].map(|len| vec![T::ZERO; len]);
        each_product(&g, |at_x, tap, at_y| {
            wanted[0][at_y] += x[at_x] * filter[tap];
            wanted[1][at_x] += dy[at_y] * filter[tap];
            wanted[2][tap] += x[at_x] * dy[at_y];
        });
        for (isa, threads) in Isa::available().flat_map(|isa| [(isa, 1), (isa, 3)]) {
            let pool = ThreadPool::new(threads);
            let got = results(Cpu { pool: &pool, isa }, &g, [&x, &filter, &dy]);
            assert!(got == wanted, "{isa:?}, {threads} threads, {g:?}");
        }
    }
}

#[test]
fn depthwise_convolutions_of_f32_and_their_gradients_match_the_definition() {
    check::<f32>();
}

#[test]
fn depthwise_convolutions_of_f64_and_their_gradients_match_the_definition() {
    check::<f64>();
}

#[test]
fn the_epilogue_follows_the_sums_of_every_channel() {
    let pool = ThreadPool::new(2);
    for (isa, g) in Isa::available().flat_map(|isa| geometries().map(move |g| (isa, g))) {
        let cpu = Cpu { pool: &pool, isa };
        let x: Vec<f32> = numbers(g.input_len(), 1);
        let filter: Vec<f32> = numbers(g.k_h * g.k_w * g.out_c, 2);
        let [scale, bias]: [Vec<f32>; 2] = [4, 5].map(|salt| numbers(g.out_c, salt));
        let mut scratch = vec![0; depthwise_scratch::<f32>(2, &g)];
        let mut run = |epilogue| {
            let mut y = vec![0.0f32; g.output_len()];
            depthwise(cpu, &g, [&x, &filter], epilogue, &mut y, &mut scratch);
            y
        };
        let plain = run(Epilogue::NONE);
        for &activation in Activation::ALL {
            let got = run(Epilogue {
                scale: Some(&scale),
                bias: Some(&bias),
                activation,
                ..Epilogue::NONE
            });
            for (at, (&y, &plain)) in got.iter().zip(&plain).enumerate() {
                let channel = match g.layout {
                    Layout::Nhwc => at % g.out_c,
                    Layout::Nchw => at / (g.out_h * g.out_w) % g.out_c,
                };
                let x = plain * scale[channel] + bias[channel];
                let same = activation.gives(x, y);
                assert!(same, "{y} of {x}, {isa:?}, {activation:?}, {g:?}");
            }
        }
    }
}
