//! MobileNet v2 (Sandler et al., 2018).

use thalweg_graph::Output;
use thalweg_layers::{Initializer, VariableScope, VariableScopes};
use thalweg_ops::Padding::Same;
use thalweg_ops::{DataFormat, NnOps, ReduceOps};

use crate::net::Net;
use crate::slim::Slim;
use crate::specs::Norm;

const NORM: Norm = Norm {
    decay: 0.997,
    epsilon: 1e-3,
    scale: true,
};

/// Expansion, channels and stride of each block.
const BLOCKS: [(usize, usize, usize); 17] = [
    (1, 16, 1),
    (6, 24, 2),
    (6, 24, 1),
    (6, 32, 2),
    (6, 32, 1),
    (6, 32, 1),
    (6, 64, 2),
    (6, 64, 1),
    (6, 64, 1),
    (6, 64, 1),
    (6, 96, 1),
    (6, 96, 1),
    (6, 96, 1),
    (6, 160, 2),
    (6, 160, 1),
    (6, 160, 1),
    (6, 320, 1),
];

/// Its logits of 1001 classes: tf_cnn_benchmarks puts its own classifier on these.
pub(crate) fn mobilenet<'g>(net: &mut Net<'g>, x: Output<'g>) -> Output<'g> {
    net.graph.variable_scope("MobilenetV2", || {
        let mut x = conv(net, x, "Conv", 32, 3, 2).relu6();
        for (at, block) in BLOCKS.into_iter().enumerate() {
            let name = match at {
                0 => "expanded_conv".to_owned(),
                at => format!("expanded_conv_{at}"),
            };
            x = net
                .graph
                .variable_scope(VariableScope::new(&name), || inverted(net, x, block));
        }
        let x = conv(net, x, "Conv_1", 1280, 1, 1).relu6();
        net.graph.variable_scope("Logits", || logits(net, x))
    })
}

/// The name and options of a convolution of this size.
fn slim(name: &str, window: usize, stride: usize) -> Slim<'_> {
    Slim {
        name,
        window,
        stride,
        padding: Same,
        initializer: Initializer::truncated_normal(0.0, 0.09),
        relu: false,
    }
}

/// A convolution with batch normalization.
fn conv<'g>(
    net: &Net<'g>,
    x: Output<'g>,
    name: &str,
    channels: usize,
    window: usize,
    stride: usize,
) -> Output<'g> {
    let y = net.slim_conv(x, channels, slim(name, window, stride));
    net.slim_norm(y, &format!("{name}/BatchNorm"), NORM)
}

/// An inverted residual: expands the channels, convolves each by itself, and reduces them again.
fn inverted<'g>(
    net: &Net<'g>,
    x: Output<'g>,
    (expansion, channels, stride): (usize, usize, usize),
) -> Output<'g> {
    let has = net.channels(x);
    let inside = match expansion {
        1 => x,
        _ => conv(net, x, "expand", expansion * has, 1, 1).relu6(),
    };
    let inside = net.slim_depthwise(inside, slim("depthwise", 3, stride));
    let inside = net.slim_norm(inside, "depthwise/BatchNorm", NORM).relu6();
    let y = conv(net, inside, "project", channels, 1, 1);
    match stride == 1 && has == channels {
        true => x + y,
        false => y,
    }
}

/// The mean over the pixels, and a layer of 1001 units.
fn logits<'g>(net: &mut Net<'g>, x: Output<'g>) -> Output<'g> {
    let axes = match net.options.format {
        DataFormat::Nhwc => [1, 2],
        DataFormat::Nchw => [2, 3],
    };
    let x = x.reduce_mean(&axes, true);
    let x = net.dropout(x, 0.8);
    net.graph.variable_scope("Conv2d_1c_1x1", || {
        let dims = [1, 1, net.channels(x), 1001];
        let initial = Initializer::truncated_normal(0.0, 0.09);
        let weights = net.weight("weights", &dims, initial);
        let biases = net.weight("biases", &[1001], Initializer::Zeros);
        let format = net.options.format;
        let y = x.conv2d(weights, [1, 1], Same, format);
        let y = y.bias_add(biases, format);
        net.flat(y)
    })
}
