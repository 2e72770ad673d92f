//! ResNet v1, v1.5 and v2 (He et al., 2015 and 2016).

use thalweg_graph::Output;
use thalweg_layers::VariableScopes;
use thalweg_ops::Padding::{Same, Valid};
use thalweg_ops::{ArrayOps, DataFormat, NnOps, SourceOps};

use crate::net::Net;
use crate::specs::{Border, Norm, ap, c, mp};

/// The version of a block: the places of its normalization and of its stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// Normalization after each convolution; the stride is in the first.
    V1,
    /// As V1, with the stride in the 3x3 convolution (v1.5).
    V1Half,
    /// Normalization before each convolution.
    V2,
}

/// ResNet for large images, with this many blocks in each of its stages.
pub(crate) fn imagenet<'g>(
    net: &mut Net<'g>,
    x: Output<'g>,
    blocks: [usize; 4],
    version: Version,
) -> Output<'g> {
    net.norm = Some(Norm::RESIDUAL);
    let x = net.conv(x, c(64, 7).stride(2).border(Border::Resnet));
    let mut x = net.pool(x, mp(3, 2, Same));
    for (stage, blocks) in blocks.into_iter().enumerate() {
        let inner = 64 << stage;
        for block in 0..blocks {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            x = match version {
                Version::V2 => bottleneck_v2(net, x, inner, stride),
                _ => bottleneck(net, x, inner, stride, version),
            };
        }
    }
    finished(net, x, version)
}

/// The mean over the pixels; normalized first, if blocks do not end with normalization.
fn finished<'g>(net: &mut Net<'g>, x: Output<'g>, version: Version) -> Output<'g> {
    let x = match version {
        Version::V2 => net.normalized(x, Norm::USUAL).relu(),
        _ => x,
    };
    net.mean(x)
}

/// Three convolutions to `4 * inner` channels beside a shortcut.
fn bottleneck<'g>(
    net: &mut Net<'g>,
    x: Output<'g>,
    inner: usize,
    stride: usize,
    version: Version,
) -> Output<'g> {
    let (kind, first, second) = match version {
        Version::V1Half => ("resnet_v1.5", 1, stride),
        _ => ("resnet_v1", stride, 1),
    };
    let (name, graph) = (net.name(kind), net.graph);
    graph.variable_scope(&*name, || {
        let outer = 4 * inner;
        let projection = c(outer, 1).stride(stride).linear();
        let shortcut = match net.channels(x) == outer {
            true => strided(net, x, stride),
            false => net.conv(x, projection),
        };
        let y = net.conv(x, c(inner, 1).stride(first));
        let y = net.conv(y, c(inner, 3).stride(second).border(Border::Resnet));
        let y = net.conv(y, c(outer, 1).linear());
        (shortcut + y).relu()
    })
}

/// As [`bottleneck`], with normalization before the convolutions.
fn bottleneck_v2<'g>(net: &mut Net<'g>, x: Output<'g>, inner: usize, stride: usize) -> Output<'g> {
    let active = net.normalized(x, Norm::USUAL).relu();
    let (name, graph) = (net.name("resnet_v2"), net.graph);
    graph.variable_scope(&*name, || {
        let outer = 4 * inner;
        let bare = c(outer, 1).linear().bare().without_bias();
        let shortcut = match net.channels(x) == outer {
            true => strided(net, x, stride),
            false => net.conv(active, bare.stride(stride)),
        };
        let y = net.conv(active, c(inner, 1).stride(stride));
        let y = net.conv(y, c(inner, 3).border(Border::Resnet));
        shortcut + net.conv(y, bare)
    })
}

/// The pixels that a convolution of this stride would see.
fn strided<'g>(net: &mut Net<'g>, x: Output<'g>, stride: usize) -> Output<'g> {
    match stride {
        1 => x,
        _ => net.pool(x, ap(1, stride, Valid)),
    }
}

/// ResNet for images of 32 x 32 pixels, with this many blocks in each of its three stages.
pub(crate) fn cifar<'g>(
    net: &mut Net<'g>,
    x: Output<'g>,
    blocks: usize,
    version: Version,
) -> Output<'g> {
    net.norm = Some(Norm::RESIDUAL);
    let mut x = match version {
        Version::V2 => net.conv(x, c(16, 3)),
        _ => net.conv(x, c(16, 3).linear()),
    };
    for stage in 0..3 {
        for block in 0..blocks {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            x = pair(net, x, 16 << stage, stride, version);
        }
    }
    finished(net, x, version)
}

/// Two convolutions beside a shortcut.
fn pair<'g>(
    net: &mut Net<'g>,
    x: Output<'g>,
    channels: usize,
    stride: usize,
    version: Version,
) -> Output<'g> {
    let shortcut = widened(net, x, channels, stride);
    let active = match version {
        Version::V2 => net.normalized(x, Norm::USUAL).relu(),
        _ => x,
    };
    let y = net.conv(active, c(channels, 3).stride(stride));
    match version {
        Version::V2 => shortcut + net.conv(y, c(channels, 3).linear().bare().without_bias()),
        _ => (shortcut + net.conv(y, c(channels, 3).linear())).relu(),
    }
}

/// Pads the channels with zeros on both sides, to this many.
fn widened<'g>(net: &mut Net<'g>, x: Output<'g>, channels: usize, stride: usize) -> Output<'g> {
    let has = net.channels(x);
    if has == channels {
        return x;
    }
    let x = net.pool(x, ap(1, stride, Valid));
    let side = (channels.saturating_sub(has) / 2) as i32;
    let (none, sides) = ([0, 0], [side, side]);
    let around = match net.options.format {
        DataFormat::Nhwc => [none, none, none, sides],
        DataFormat::Nchw => [none, sides, none, none],
    };
    x.pad(net.graph.constant(around))
}
