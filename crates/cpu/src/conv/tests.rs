//! Tests of convolutions and their gradients against the definition, by every algorithm and layout.

use super::algorithm::FastAlgorithm;
use super::geometry::Pass;
use super::winograd::Winograd;
use super::*;
use crate::thread_pool::ThreadPool;
use crate::{Activation, Cpu, Epilogue, Isa, Layout, Residual};

/// Small whole numbers: products and sums of them are exact.
fn numbers<T: Real + From<i8>>(len: usize, salt: usize) -> Vec<T> {
    (0..len)
        .map(|i| T::from(((i * 7 + salt * 13 + i / 5 + i / 31) % 9) as i8 - 4))
        .collect()
}

/// Place of a number in images of this size.
pub(crate) fn place(layout: Layout, [h, w, c]: [usize; 3], [n, y, x, k]: [usize; 4]) -> usize {
    match layout {
        Layout::Nhwc => ((n * h + y) * w + x) * c + k,
        Layout::Nchw => ((n * c + k) * h + y) * w + x,
    }
}

/// Calls `f(input place, filter place, output place)` for each product in the convolution.
fn each_product(g: &ConvGeometry, mut f: impl FnMut(usize, usize, usize)) {
    for n in 0..g.batch {
        for oy in 0..g.out_h {
            for ox in 0..g.out_w {
                for (i, j) in (0..g.k_h).flat_map(|i| (0..g.k_w).map(move |j| (i, j))) {
                    let y = (oy * g.stride[0] + i * g.dilation[0]).wrapping_sub(g.pad_top);
                    let x = (ox * g.stride[1] + j * g.dilation[1]).wrapping_sub(g.pad_left);
                    if y >= g.in_h || x >= g.in_w {
                        continue;
                    }
                    for c in 0..g.in_c {
                        for o in 0..g.out_c {
                            f(
                                place(g.layout, [g.in_h, g.in_w, g.in_c], [n, y, x, c]),
                                ((i * g.k_w + j) * g.in_c + c) * g.out_c + o,
                                place(g.layout, [g.out_h, g.out_w, g.out_c], [n, oy, ox, o]),
                            );
                        }
                    }
                }
            }
        }
    }
}

/// Forward, input gradient and filter gradient, on memory that holds garbage before.
fn run<T: Real + From<i8>>(
    isa: Isa,
    threads: usize,
    g: &ConvGeometry,
    all: &[Vec<T>; 3],
) -> [Vec<T>; 3] {
    let pool = ThreadPool::new(threads);
    let cpu = Cpu { pool: &pool, isa };
    let [x, f, dy] = all;
    let [mut y, mut dx, mut df] = [dy, x, f].map(|like| vec![T::from(77); like.len()]);
    let scratch = |len| vec![0xffu8; len];
    conv2d(
        cpu,
        g,
        x,
        Filter::from(&f[..]),
        Epilogue::default(),
        &mut y,
        &mut scratch(conv2d_scratch::<T>(isa, threads, g)),
    );
    let len = conv2d_input_grad_scratch::<T>(isa, threads, g);
    conv2d_input_grad(cpu, g, f, dy, &mut dx, &mut scratch(len));
    let len = conv2d_filter_grad_scratch::<T>(isa, threads, g);
    conv2d_filter_grad(cpu, g, x, dy, &mut df, &mut scratch(len));
    [y, dx, df]
}

fn operands<T: Real + From<i8>>(g: &ConvGeometry) -> [Vec<T>; 3] {
    [
        numbers(g.input_len(), 1),
        numbers(g.filter_len(), 2),
        numbers(g.output_len(), 3),
    ]
}

/// A geometry from `[h, w, c]`, `[k_h, k_w, out_c]`, strides, dilations and `[top, bottom, left, right]`.
fn geometry(
    batch: usize,
    [in_h, in_w, in_c]: [usize; 3],
    [k_h, k_w, out_c]: [usize; 3],
    stride: [usize; 2],
    dilation: [usize; 2],
    pads: [usize; 4],
) -> ConvGeometry {
    let out = |len: usize, k: usize, s: usize, d: usize| (len - (k - 1) * d - 1) / s + 1;
    ConvGeometry {
        batch,
        in_h,
        in_w,
        in_c,
        out_h: out(in_h + pads[0] + pads[1], k_h, stride[0], dilation[0]),
        out_w: out(in_w + pads[2] + pads[3], k_w, stride[1], dilation[1]),
        out_c,
        k_h,
        k_w,
        stride,
        dilation,
        pad_top: pads[0],
        pad_left: pads[2],
        layout: Layout::Nhwc,
    }
}

fn geometries() -> impl Iterator<Item = ConvGeometry> {
    let one = [1, 1];
    [
        geometry(1, [1, 1, 1], [1, 1, 1], one, one, [0; 4]),
        geometry(3, [9, 8, 1], [5, 5, 32], one, one, [2; 4]),
        geometry(2, [14, 14, 32], [5, 5, 64], one, one, [2; 4]),
        geometry(2, [7, 9, 5], [3, 2, 7], one, one, [1, 0, 0, 1]),
        geometry(2, [12, 17, 3], [3, 3, 19], [2, 2], one, [0, 1, 0, 1]),
        geometry(1, [11, 13, 4], [3, 3, 6], [2, 3], one, [1, 1, 2, 2]),
        geometry(2, [13, 12, 6], [3, 3, 16], one, [2, 3], [2, 2, 3, 3]),
        geometry(1, [15, 15, 3], [3, 4, 5], [2, 3], [3, 2], [3, 4, 2, 5]),
        geometry(1, [16, 18, 3], [2, 3, 5], [4, 4], [2, 2], [1, 2, 0, 3]),
        geometry(2, [10, 10, 33], [1, 1, 40], one, one, [0; 4]),
        geometry(2, [10, 11, 8], [1, 1, 9], [3, 2], one, [0; 4]),
        geometry(1, [6, 3, 2], [7, 7, 3], one, one, [3; 4]),
        geometry(1, [4, 4, 2], [2, 2, 2], one, one, [5, 6, 7, 8]),
        geometry(1, [5, 40, 70], [3, 3, 67], one, one, [1; 4]),
        geometry(20, [6, 5, 2], [3, 3, 3], one, one, [1; 4]),
        geometry(1, [9, 9, 64], [3, 3, 160], one, one, [1; 4]),
        // Filters of one pixel whose gradient is a product, with pixels left out and without.
        geometry(2, [7, 7, 330], [1, 1, 310], one, one, [0; 4]),
        geometry(3, [4, 9, 317], [1, 1, 320], [1, 2], one, [0; 4]),
        geometry(2, [8, 6, 5], [1, 1, 40], [3, 2], one, [0; 4]),
        // Filters that are swept: padded and not, with strides, dilations, and pixels that no tap sees.
        geometry(2, [3, 4, 210], [3, 3, 209], one, one, [1; 4]),
        geometry(3, [4, 5, 260], [3, 2, 253], [2, 3], one, [0, 1, 1, 0]),
        geometry(1, [6, 5, 170], [3, 4, 195], one, [2, 1], [0; 4]),
        geometry(1, [6, 9, 310], [2, 2, 323], [3, 4], one, [0; 4]),
        geometry(1, [4, 3, 90], [7, 7, 91], one, one, [3; 4]),
        // Filters as wide as the image, of which several images are taken at a time.
        geometry(5, [30, 64, 1], [3, 64, 16], one, one, [0; 4]),
        geometry(3, [9, 40, 2], [2, 40, 5], [2, 1], [3, 1], [1, 1, 3, 3]),
    ]
    .into_iter()
    .flat_map(|g| [Layout::Nhwc, Layout::Nchw].map(|layout| ConvGeometry { layout, ..g }))
}

/// The largest difference, as a part of the largest number.
fn error<T: Copy + Into<f64>, U: Copy + Into<f64>>(got: &[T], exact: &[U]) -> f64 {
    let largest = exact.iter().map(|&x| x.into().abs()).fold(0.0, f64::max);
    let off = got
        .iter()
        .zip(exact)
        .map(|(&a, &b)| (a.into() - b.into()).abs());
    // Not `max`, which forgets NaN.
    off.fold(0.0, |most, x| if x <= most { most } else { x }) / largest
}

/// Maximum of [`error`] of a convolution by points: it grows with their number.
fn bound(g: &ConvGeometry) -> f64 {
    match [g.k_h, g.k_w] {
        [5, 5] => 5e-5,
        [7, _] | [_, 7] => 2e-5,
        _ => 1e-5,
    }
}

fn check<T>()
where
    T: Real + From<i8> + Into<f64> + PartialEq + std::fmt::Debug + std::ops::Mul<Output = T>,
{
    for g in geometries() {
        let all = operands::<T>(&g);
        let [x, f, dy] = &all;
        let [mut y, mut dx, mut df] = [dy, x, f].map(|like| vec![T::from(0); like.len()]);
        each_product(&g, |i, k, o| {
            y[o] += x[i] * f[k];
            dx[i] += dy[o] * f[k];
            df[k] += x[i] * dy[o];
        });
        for isa in Isa::available() {
            let passes = [Pass::Forward, Pass::ToInput, Pass::ToFilter];
            for ((pass, got), expected) in passes
                .into_iter()
                .zip(run(isa, 2, &g, &all))
                .zip([&y, &dx, &df])
            {
                if Winograd::of::<T>(isa, &g, pass).is_none() {
                    assert_eq!(&got, expected, "{pass:?}, {isa:?}, {g:?}");
                    continue;
                }
                let error = error(&got, expected);
                assert!(error < bound(&g), "{pass:?}, {isa:?}, {g:?}: {error}");
            }
        }
    }
}

#[test]
fn convolutions_of_f32_and_their_gradients_match_the_definition() {
    check::<f32>();
}

#[test]
fn convolutions_of_f64_and_their_gradients_match_the_definition() {
    check::<f64>();
}

/// Operands whose sums round.
fn rough(g: &ConvGeometry) -> [Vec<f32>; 3] {
    operands::<f64>(g).map(|v| {
        v.into_iter()
            .enumerate()
            .map(|(i, x)| ((x + i as f64).sin() * 1.7) as f32)
            .collect()
    })
}

/// Filters of three, five and seven lines or columns: tiles that end outside the image, blocks of channels, channels that
/// fill no vector, several images in a task, and pads of all sorts.
fn tiled() -> impl Iterator<Item = ConvGeometry> {
    let one = [1, 1];
    [
        geometry(2, [14, 14, 32], [5, 5, 64], one, one, [2; 4]),
        geometry(9, [7, 7, 33], [5, 5, 17], one, one, [2, 2, 1, 3]),
        geometry(1, [40, 9, 16], [3, 3, 16], one, one, [1; 4]),
        geometry(3, [11, 14, 19], [3, 3, 45], one, one, [0, 1, 2, 0]),
        geometry(17, [7, 7, 140], [3, 3, 131], one, one, [1; 4]),
        geometry(2, [5, 6, 270], [3, 3, 150], one, one, [0; 4]),
        geometry(1, [15, 13, 24], [3, 3, 40], one, one, [4, 3, 5, 2]),
        geometry(5, [8, 9, 130], [1, 3, 100], one, one, [0, 0, 1, 1]),
        geometry(5, [9, 8, 40], [3, 1, 150], one, one, [1, 1, 0, 0]),
        geometry(20, [14, 14, 64], [3, 3, 96], one, one, [1; 4]),
        geometry(5, [2, 3, 20], [3, 3, 33], one, one, [1; 4]),
        geometry(1, [1, 1, 16], [5, 5, 18], one, one, [2; 4]),
        geometry(1, [4, 5, 16], [3, 3, 16], one, one, [9, 7, 8, 6]),
        geometry(1, [2, 1300, 64], [3, 3, 64], one, one, [1; 4]),
        geometry(3, [17, 17, 50], [1, 7, 40], one, one, [0, 0, 3, 3]),
        geometry(3, [17, 16, 40], [7, 1, 50], one, one, [3, 3, 0, 0]),
    ]
    .into_iter()
    .flat_map(|g| [Layout::Nhwc, Layout::Nchw].map(|layout| ConvGeometry { layout, ..g }))
}

/// Winograd's way, whether it pays or not, on memory that holds garbage before.
fn at_points(isa: Isa, threads: usize, g: &ConvGeometry, all: &[Vec<f32>; 3]) -> [Vec<f32>; 3] {
    let pool = ThreadPool::new(threads);
    let cpu = Cpu { pool: &pool, isa };
    let [x, f, dy] = all;
    let passes = [Pass::Forward, Pass::ToInput, Pass::ToFilter];
    let operands: [[&[f32]; 2]; 3] = [[x, f], [f, dy], [x, dy]];
    std::array::from_fn(|i| {
        let Some(fast) = Winograd::possible(isa, g, passes[i]) else {
            panic!("{g:?} has no transforms")
        };
        let mut to = vec![77.0; [dy, x, f][i].len()];
        let mut scratch = vec![0xff; fast.scratch(threads)];
        let nothing = Epilogue::default();
        fast.run(cpu, operands[i], None, nothing, &mut to, &mut scratch);
        to
    })
}

#[test]
fn products_at_points_are_as_near_to_the_definition_as_is_said() {
    for g in tiled() {
        let all = rough(&g);
        let wide = all
            .clone()
            .map(|v| v.into_iter().map(f64::from).collect::<Vec<_>>());
        let exact = run(Isa::detect(), 2, &g, &wide);
        for isa in Isa::available() {
            for (got, exact) in at_points(isa, 2, &g, &all).iter().zip(&exact) {
                let error = error(got, exact);
                assert!(error < bound(&g), "{isa:?} {g:?}: {error}");
            }
        }
    }
}

#[test]
fn gradients_of_many_tiles_are_added_up() {
    let isa = Isa::detect();
    let adds = |g: &ConvGeometry| match Winograd::possible(isa, g, Pass::ToFilter) {
        Some(Winograd::Grads(grads)) => grads.additions() > 0,
        _ => false,
    };
    assert!(tiled().any(|g| adds(&g)), "no geometry of the tests above");
}

#[test]
fn filters_that_fit_no_cache_are_multiplied_by_taps() {
    let one = [1, 1];
    let wide = geometry(8, [1, 1 << 20, 64], [1, 3, 64], one, one, [0, 0, 1, 1]);
    let deep = geometry(64, [14, 14, 2048], [3, 3, 2048], one, one, [1; 4]);
    for (g, pass) in [
        (wide, Pass::Forward),
        (wide, Pass::ToFilter),
        (deep, Pass::Forward),
    ] {
        assert!(
            Winograd::of::<f32>(Isa::detect(), &g, pass).is_none(),
            "{g:?}"
        );
    }
}

#[test]
fn gradients_through_filters_as_wide_as_images_are_added_by_patches() {
    let g = geometry(16, [56, 128, 1], [3, 128, 16], [1, 1], [1, 1], [0; 4]);
    let deep = geometry(16, [56, 56, 64], [3, 3, 64], [2, 2], [1, 1], [1; 4]);
    for (g, patches) in [(g, true), (deep, false)] {
        let found = FastAlgorithm::of::<f32>(Isa::detect(), &g, Pass::ToInput);
        assert_eq!(matches!(found, Some(FastAlgorithm::Patches(_))), patches);
    }
}

#[test]
fn a_folded_convolution_gives_the_same_numbers() {
    let one = [1, 1];
    for g in [
        geometry(5, [30, 64, 1], [3, 64, 16], one, one, [0; 4]),
        geometry(2, [17, 10, 3], [4, 10, 5], [2, 1], [2, 1], [1, 2, 0, 0]),
        geometry(3, [9, 1, 7], [3, 1, 4], [1, 3], [1, 2], [1, 1, 0, 0]),
        geometry(2, [20, 12, 2], [1, 12, 9], [3, 1], one, [0; 4]),
    ] {
        let folded = g.folded();
        assert_ne!(folded, g);
        let all = operands::<f64>(&g);
        let [as_is, as_folded] = [g, folded].map(|g| run(Isa::detect(), 2, &g, &all));
        assert!(as_is == as_folded, "{g:?}");
        // Products at points round numbers of `f32`.
        let all = operands::<f32>(&g);
        let [as_is, as_folded] = [g, folded].map(|g| run(Isa::detect(), 2, &g, &all).concat());
        let mut pairs = as_is.iter().zip(&as_folded);
        assert!(pairs.all(|(a, b)| (a - b).abs() <= 2e-4), "{g:?}");
    }
    // A part of the width, zeros beside the image, and taps that are apart stay.
    for g in [
        geometry(1, [9, 8, 2], [3, 5, 2], [1, 4], one, [0; 4]),
        geometry(1, [9, 8, 2], [3, 8, 2], [1, 9], one, [0, 0, 1, 0]),
        geometry(1, [9, 8, 2], [3, 4, 2], one, [1, 2], [0; 4]),
    ] {
        assert_eq!(g.folded(), g);
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let bits = |r: [Vec<f32>; 3]| r.map(|v| v.into_iter().map(f32::to_bits).collect::<Vec<_>>());
    for isa in Isa::available() {
        let check = |run: fn(Isa, usize, &ConvGeometry, &_) -> _, g: &ConvGeometry| {
            let all = rough(g);
            let one = bits(run(isa, 1, g, &all));
            assert_eq!(bits(run(isa, 2, g, &all)), one, "{isa:?} {g:?}");
            assert_eq!(bits(run(isa, 3, g, &all)), one, "{isa:?} {g:?}");
        };
        geometries().for_each(|g| check(run::<f32>, &g));
        tiled().for_each(|g| check(at_points, &g));
    }
}

#[test]
fn the_epilogue_scales_adds_a_bias_and_a_residual_and_then_activates() {
    let pool = ThreadPool::new(2);
    for isa in Isa::available() {
        let cpu = Cpu { pool: &pool, isa };
        for g in geometries().chain(tiled()) {
            let [x, f, _] = operands::<f32>(&g);
            let bias: Vec<f32> = (0..g.out_c).map(|c| c as f32 - 3.0).collect();
            let scale: Vec<f32> = (0..g.out_c).map(|c| 1.5 - c as f32).collect();
            let mut scratch = vec![0u8; conv2d_scratch::<f32>(isa, 2, &g)];
            let [mut plain, mut done] = [0.0, 9.0].map(|x| vec![x; g.output_len()]);
            conv2d(
                cpu,
                &g,
                &x,
                Filter::from(&f[..]),
                Epilogue::default(),
                &mut plain,
                &mut scratch,
            );
            let values: Vec<f32> = (0..plain.len()).map(|i| (i % 11) as f32 - 5.0).collect();
            // Short activations and long ones have code of their own.
            let two = [Activation::Relu, Activation::Swish];
            let scaled = two.map(|a| (Some(&scale[..]), None, a));
            let summed = two.map(|a| (Some(&scale[..]), Some(&values), a));
            let all = Activation::ALL.iter().map(|&a| (None, None, a));
            for (scale, residual, activation) in all.chain(scaled).chain(summed) {
                let epilogue = Epilogue {
                    scale,
                    bias: Some(&bias),
                    residual: residual.map(|values| Residual::new(values, &done)),
                    activation,
                };
                let filter = Filter::from(&f[..]);
                conv2d(cpu, &g, &x, filter, epilogue, &mut done, &mut scratch);
                for (i, (p, &d)) in plain.iter().zip(&done).enumerate() {
                    let c = match g.layout {
                        Layout::Nhwc => i % g.out_c,
                        Layout::Nchw => i / (g.out_h * g.out_w) % g.out_c,
                    };
                    let sum = scale.map_or(*p, |scale| p * scale[c]) + bias[c];
                    let sum = residual.map_or(sum, |values| sum + values[i]);
                    let kind = (activation, scale, residual.is_some());
                    assert!(activation.gives(sum, d), "{sum} {d} {isa:?} {kind:?} {g:?}");
                }
            }
        }
    }
}

#[test]
fn a_filter_that_is_kept_gives_the_same_bits() {
    let one = [1, 1];
    let pays = geometry(2, [14, 14, 32], [5, 5, 64], one, one, [2; 4]);
    let large = geometry(1, [9, 9, 160], [3, 3, 200], one, one, [1; 4]);
    let (mut by_points, mut by_taps) = (0, 0);
    for isa in Isa::available() {
        for g in geometries().chain([pays, large]).chain(tiled()) {
            let Some(packing) = conv2d_packing::<f32>(isa, &g) else {
                let other = FastAlgorithm::of::<f32>(isa, &g, Pass::Forward).is_some();
                assert!(
                    other || cache_blocked::is_cache_blocked::<f32>(g.filter_len()),
                    "{g:?}"
                );
                continue;
            };
            match Winograd::of::<f32>(isa, &g, Pass::Forward) {
                Some(_) => by_points += 1,
                None => by_taps += 1,
            }
            let [x, f, _] = rough(&g);
            let taps = &f[..];
            for threads in [1, 2, 3] {
                let pool = ThreadPool::new(threads);
                let cpu = Cpu { pool: &pool, isa };
                let scratch = || vec![0xffu8; conv2d_scratch::<f32>(isa, threads, &g)];
                let mut made = vec![77.0; packing.len()];
                conv2d_pack(cpu, &g, taps, &mut made, &mut scratch());
                let [plain, kept] = [None, Some(&made[..])].map(|packed| {
                    let filter = Filter { taps, packed };
                    let mut y = vec![77.0f32; g.output_len()];
                    let nothing = Epilogue::default();
                    conv2d(cpu, &g, &x, filter, nothing, &mut y, &mut scratch());
                    y.into_iter().map(f32::to_bits).collect::<Vec<_>>()
                });
                assert_eq!(plain, kept, "{isa:?} {g:?}");
            }
        }
    }
    assert!(by_points > 0 && by_taps > 0);
}

#[test]
fn no_input_channels_give_the_epilogue_of_zero() {
    let pool = ThreadPool::new(1);
    let cpu = Cpu {
        pool: &pool,
        isa: Isa::detect(),
    };
    let g = geometry(1, [3, 3, 0], [2, 2, 2], [1, 1], [1, 1], [0; 4]);
    let mut y = [7.0f32; 8];
    conv2d(
        cpu,
        &g,
        &[],
        Filter::from(&[][..]),
        Epilogue {
            scale: Some(&[3.0, 3.0]),
            bias: Some(&[1.0, -1.0]),
            activation: Activation::Relu,
            ..Epilogue::NONE
        },
        &mut y,
        &mut [],
    );
    assert_eq!(y, [1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
}

#[test]
fn an_empty_batch_has_gradients_of_zero() {
    let pool = ThreadPool::new(1);
    let cpu = Cpu {
        pool: &pool,
        isa: Isa::detect(),
    };
    let g = geometry(0, [3, 3, 1], [2, 2, 1], [1, 1], [1, 1], [0; 4]);
    let mut df = [7.0f32; 4];
    conv2d_filter_grad(cpu, &g, &[], &[], &mut df, &mut []);
    assert_eq!(df, [0.0; 4]);
    conv2d_input_grad(cpu, &g, &df, &[], &mut [], &mut []);
    let filter = Filter::from(&df[..]);
    conv2d(cpu, &g, &[], filter, Epilogue::default(), &mut [], &mut []);
}

#[test]
fn a_convolution_is_not_empty_where_the_product_of_its_sizes_overflows() {
    let g = geometry(256, [64, 64, 64], [1, 1, 64], [1, 1], [1, 1], [0; 4]);
    assert!(!g.is_empty());
    assert!(geometry(0, [3, 3, 1], [2, 2, 1], [1, 1], [1, 1], [0; 4]).is_empty());
}
