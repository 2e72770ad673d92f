//! Three-dimensional convolutions against their definition.

use super::*;
use crate::window_axis::WindowAxis;
use crate::{Layout, ThreadPool};

/// Calls `f(input element, filter element, output element)` for each product.
fn each_product(g: &Conv3dGeometry, mut f: impl FnMut(usize, usize, usize)) {
    let place = |dims: [usize; 3], channels: usize, n: usize, at: [usize; 3], c: usize| {
        let voxel = (at[0] * dims[1] + at[1]) * dims[2] + at[2];
        let voxels = dims.iter().product::<usize>();
        match g.layout {
            Layout::Nhwc => (n * voxels + voxel) * channels + c,
            Layout::Nchw => (n * channels + c) * voxels + voxel,
        }
    };
    let each = |dims: [usize; 3]| {
        (0..dims.iter().product())
            .map(move |i: usize| [i / dims[2] / dims[1], i / dims[2] % dims[1], i % dims[2]])
    };
    let [inputs, outputs, windows] = [
        g.axes.map(|a| a.input),
        g.axes.map(|a| a.output),
        g.axes.map(|a| a.window),
    ];
    for n in 0..g.batch {
        for o in each(outputs) {
            for (tap, k) in each(windows).enumerate() {
                let at = [0, 1, 2].map(|i| {
                    let axis = g.axes[i];
                    (o[i] * axis.stride + k[i] * axis.dilation).wrapping_sub(axis.pad)
                });
                if (0..3).any(|i| at[i] >= inputs[i]) {
                    continue;
                }
                for (c, out) in (0..g.in_c).flat_map(|c| (0..g.out_c).map(move |o| (c, o))) {
                    f(
                        place(inputs, g.in_c, n, at, c),
                        (tap * g.in_c + c) * g.out_c + out,
                        place(outputs, g.out_c, n, o, out),
                    );
                }
            }
        }
    }
}

/// An axis of `same` padding.
fn axis(input: usize, window: usize, stride: usize, dilation: usize) -> WindowAxis {
    let output = input.div_ceil(stride);
    let seen = (output.max(1) - 1) * stride + (window - 1) * dilation + 1;
    WindowAxis {
        input,
        output,
        window,
        stride,
        dilation,
        pad: seen.saturating_sub(input) / 2,
    }
}

fn numbers(len: usize, seed: usize) -> Vec<f64> {
    (0..len)
        .map(|i| ((i * 7919 + seed * 104_729) % 17) as f64 - 8.0)
        .collect()
}

fn check(g: &Conv3dGeometry, threads: usize) {
    let pool = ThreadPool::new(threads);
    let cpu = Cpu {
        pool: &pool,
        isa: Isa::detect(),
    };
    let room = |pass| vec![0; conv3d_scratch::<f64>(cpu.isa, threads, g, pass)];
    let lens = [g.input_len(), g.filter_len(), g.output_len()];
    let [x, w, dy] = [0, 1, 2].map(|i| numbers(lens[i], i));
    let [mut x_grad, mut w_grad, mut y] = lens.map(|len| vec![0.0; len]);
    each_product(g, |i, k, o| {
        y[o] += x[i] * w[k];
        x_grad[i] += dy[o] * w[k];
        w_grad[k] += dy[o] * x[i];
    });
    // Whole numbers: sums are exact in any order.
    let mut found = vec![9.0; lens[2]];
    conv3d(cpu, g, &x, &w, &mut found, &mut room(Pass::Forward));
    assert_eq!(found, y, "{g:?}");
    let mut found = vec![9.0; lens[0]];
    conv3d_input_grad(cpu, g, &w, &dy, &mut found, &mut room(Pass::ToInput));
    assert_eq!(found, x_grad, "{g:?}");
    let mut found = vec![9.0; lens[1]];
    conv3d_filter_grad(cpu, g, &x, &dy, &mut found, &mut room(Pass::ToFilter));
    assert_eq!(found, w_grad, "{g:?}");
}

#[test]
fn convolutions_of_volumes_are_their_definition() {
    for layout in [Layout::Nhwc, Layout::Nchw] {
        for (batch, axes, in_c, out_c) in [
            (
                2,
                [axis(3, 2, 1, 1), axis(4, 3, 1, 1), axis(5, 3, 1, 1)],
                2,
                3,
            ),
            (
                1,
                [axis(5, 3, 2, 1), axis(4, 2, 3, 1), axis(6, 1, 2, 1)],
                3,
                1,
            ),
            (
                1,
                [axis(4, 2, 1, 2), axis(5, 3, 1, 2), axis(6, 3, 2, 3)],
                1,
                4,
            ),
            (
                3,
                [axis(2, 1, 1, 1), axis(3, 1, 1, 1), axis(2, 1, 1, 1)],
                5,
                2,
            ),
            (
                0,
                [axis(2, 1, 1, 1), axis(3, 2, 1, 1), axis(2, 1, 1, 1)],
                2,
                2,
            ),
            (
                1,
                [axis(2, 5, 1, 1), axis(1, 3, 1, 1), axis(2, 5, 1, 1)],
                2,
                2,
            ),
        ] {
            let g = Conv3dGeometry {
                batch,
                axes,
                in_c,
                out_c,
                layout,
            };
            check(&g, 1);
            check(&g, 3);
        }
    }
}

#[test]
fn patches_that_need_several_blocks_are_summed() {
    let g = Conv3dGeometry {
        batch: 2,
        axes: [axis(6, 3, 1, 1), axis(9, 3, 1, 1), axis(11, 3, 1, 1)],
        in_c: 32,
        out_c: 3,
        layout: Layout::Nhwc,
    };
    assert!(g.rows::<f64>() < g.batch * g.out_voxels(), "one block");
    check(&g, 2);
}
