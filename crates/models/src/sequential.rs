//! Sequential networks: trivial, LeNet, deep MNIST, AlexNet, OverFeat, VGG.

use thalweg_graph::Output;
use thalweg_ops::Padding::{Same, Valid};

use crate::net::Net;
use crate::specs::{c, mp};

/// Two layers on all pixels, to measure the cost of a step beside the network.
pub(crate) fn trivial<'g>(net: &mut Net<'g>, x: Output<'g>) -> Output<'g> {
    let x = net.flat(x);
    let x = net.dense(x, 1);
    net.dense(x, 4096)
}

/// LeNet-5 (LeCun et al., 1998), with the layers of TensorFlow's tutorial.
pub(crate) fn lenet<'g>(net: &mut Net<'g>, x: Output<'g>) -> Output<'g> {
    let x = net.conv(x, c(32, 5));
    let x = net.pool(x, mp(2, 2, Valid));
    let x = net.conv(x, c(64, 5));
    let x = net.pool(x, mp(2, 2, Valid));
    let x = net.flat(x);
    net.dense(x, 512)
}

/// The network of TensorFlow's tutorial "Deep MNIST for Experts".
pub(crate) fn deep_mnist<'g>(net: &mut Net<'g>, x: Output<'g>) -> Output<'g> {
    let x = net.conv(x, c(32, 5).stddev(0.1).bias(0.1));
    let x = net.pool(x, mp(2, 2, Same));
    let x = net.conv(x, c(64, 5).stddev(0.1).bias(0.1));
    let x = net.pool(x, mp(2, 2, Same));
    let x = net.flat(x);
    let x = net.dense_with_stddev(x, 1024, 0.1, 0.1);
    net.dropout(x, 0.5)
}

/// AlexNet (Krizhevsky, 2014: one weird trick).
pub(crate) fn alexnet<'g>(net: &mut Net<'g>, x: Output<'g>) -> Output<'g> {
    let x = net.conv(x, c(64, 11).stride(4).valid());
    let x = net.pool(x, mp(3, 2, Valid));
    let x = net.conv(x, c(192, 5));
    let mut x = net.pool(x, mp(3, 2, Valid));
    for channels in [384, 384, 256] {
        x = net.conv(x, c(channels, 3));
    }
    let x = net.pool(x, mp(3, 2, Valid));
    let x = net.flat(x);
    head(net, x, 4096)
}

/// OverFeat (Sermanet et al., 2013), the fast one.
pub(crate) fn overfeat<'g>(net: &mut Net<'g>, x: Output<'g>) -> Output<'g> {
    let x = net.conv(x, c(96, 11).stride(4).valid());
    let x = net.pool(x, mp(2, 2, Valid));
    let x = net.conv(x, c(256, 5).valid());
    let mut x = net.pool(x, mp(2, 2, Valid));
    for channels in [512, 1024, 1024] {
        x = net.conv(x, c(channels, 3));
    }
    let x = net.pool(x, mp(2, 2, Valid));
    let x = net.flat(x);
    head(net, x, 3072)
}

/// VGG (Simonyan and Zisserman, 2014) with this many convolutions in each of its five blocks.
pub(crate) fn vgg<'g>(net: &mut Net<'g>, x: Output<'g>, blocks: [usize; 5]) -> Output<'g> {
    let mut x = x;
    for (channels, convs) in [64, 128, 256, 512, 512].into_iter().zip(blocks) {
        for _ in 0..convs {
            x = net.conv(x, c(channels, 3));
        }
        x = net.pool(x, mp(2, 2, Valid));
    }
    let x = net.flat(x);
    head(net, x, 4096)
}

/// Two dense layers with dropout of half: `units`, and 4096.
fn head<'g>(net: &mut Net<'g>, x: Output<'g>, units: usize) -> Output<'g> {
    let x = net.dense(x, units);
    let x = net.dropout(x, 0.5);
    let x = net.dense(x, 4096);
    net.dropout(x, 0.5)
}

/// AlexNet for images of 32 x 32 pixels, that of TensorFlow's tutorial.
pub(crate) fn alexnet_cifar<'g>(net: &mut Net<'g>, x: Output<'g>) -> Output<'g> {
    let x = net.conv(x, c(64, 5).stddev(0.05));
    let x = net.pool(x, mp(3, 2, Same));
    let x = responses(net, x);
    let x = net.conv(x, c(64, 5).stddev(0.05).bias(0.1));
    let x = responses(net, x);
    let x = net.pool(x, mp(3, 2, Same));
    let x = net.flat(x);
    let x = net.dense_with_stddev(x, 384, 0.04, 0.1);
    net.dense_with_stddev(x, 192, 0.04, 0.1)
}

/// Local response normalization.
fn responses<'g>(net: &mut Net<'g>, x: Output<'g>) -> Output<'g> {
    let name = net.name("lrn");
    net.graph.name_scope(&name, || {
        let lrn = net.graph.op("LRN").input(x);
        let lrn = lrn.attr("depth_radius", 4).attr("bias", 1.0f32);
        let lrn = lrn.attr("alpha", 0.001f32 / 9.0).attr("beta", 0.75f32);
        lrn.output()
    })
}
