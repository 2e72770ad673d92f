//! DenseNet (Huang et al., 2016) for images of 32 x 32 pixels, without bottlenecks or compression.

use thalweg_graph::Output;
use thalweg_ops::NnOps;
use thalweg_ops::Padding::Valid;

use crate::net::Net;
use crate::specs::{Norm, ap, c};

/// Three blocks of this many layers, each of which adds `growth` channels to all earlier ones.
pub(crate) fn densenet<'g>(
    net: &mut Net<'g>,
    x: Output<'g>,
    layers: usize,
    growth: usize,
) -> Output<'g> {
    let mut x = net.conv(x, c(16, 3).linear());
    for block in 0..3 {
        if block > 0 {
            x = halved(net, x, 2 * growth);
        }
        for _ in 0..layers {
            let active = net.normalized(x, Norm::RESIDUAL).relu();
            let stddev = spread(growth);
            let more = net.conv(active, c(growth, 3).linear().stddev(stddev));
            x = net.joined(&[x, more]);
        }
    }
    let x = net.normalized(x, Norm::RESIDUAL).relu();
    net.mean(x)
}

/// A transition: halves height and width, to this many channels: tf_cnn_benchmarks takes twice the
/// growth, where the paper keeps all of them.
fn halved<'g>(net: &mut Net<'g>, x: Output<'g>, channels: usize) -> Output<'g> {
    let x = net.normalized(x, Norm::RESIDUAL).relu();
    let x = net.conv(x, c(channels, 1).stddev(spread(channels)));
    net.pool(x, ap(2, 2, Valid))
}

/// The initial standard deviation of the weights of a convolution to this many channels.
fn spread(channels: usize) -> f64 {
    (2.0 / 9.0 / channels as f64).sqrt()
}
