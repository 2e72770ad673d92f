//! GoogLeNet, Inception v3 and Inception v4: modules of columns.

use thalweg_graph::Output;
use thalweg_ops::Padding::{Same, Valid};

use crate::columns::{ColumnLayer, column};
use crate::net::Net;
use crate::specs::{Norm, Pool, ap, c, c2, mp};

/// GoogLeNet (Szegedy et al., 2014), without auxiliary heads.
pub(crate) fn googlenet<'g>(net: &mut Net<'g>, x: Output<'g>) -> Output<'g> {
    let x = net.conv(x, c(64, 7).stride(2));
    let x = net.pool(x, mp(3, 2, Same));
    let x = net.conv(x, c(64, 1));
    let x = net.conv(x, c(192, 3));
    let mut x = net.pool(x, mp(3, 2, Same));
    for module in [[64, 96, 128, 16, 32, 32], [128, 128, 192, 32, 96, 64]] {
        x = v1(net, x, module);
    }
    x = net.pool(x, mp(3, 2, Same));
    for module in [
        [192, 96, 208, 16, 48, 64],
        [160, 112, 224, 24, 64, 64],
        [128, 128, 256, 24, 64, 64],
        [112, 144, 288, 32, 64, 64],
        [256, 160, 320, 32, 128, 128],
    ] {
        x = v1(net, x, module);
    }
    x = net.pool(x, mp(3, 2, Same));
    for module in [[256, 160, 320, 32, 128, 128], [384, 192, 384, 48, 128, 128]] {
        x = v1(net, x, module);
    }
    let x = net.pool(x, ap(7, 1, Valid));
    net.flat(x)
}

fn v1<'g>(net: &mut Net<'g>, x: Output<'g>, channels: [usize; 6]) -> Output<'g> {
    let [k, l, m, n, p, q] = channels;
    let columns = [
        column([c(k, 1).into()]),
        column([c(l, 1).into(), c(m, 3).into()]),
        column([c(n, 1).into(), c(p, 5).into()]),
        column([mp(3, 1, Same).into(), c(q, 1).into()]),
    ];
    net.module("incept_v1", x, &columns)
}

/// Inception v3 (Szegedy et al., 2015).
pub(crate) fn inception3<'g>(net: &mut Net<'g>, x: Output<'g>) -> Output<'g> {
    net.norm = Some(Norm::USUAL);
    let x = net.conv(x, c(32, 3).stride(2).valid());
    let x = net.conv(x, c(32, 3).valid());
    let x = net.conv(x, c(64, 3));
    let x = net.pool(x, mp(3, 2, Valid));
    let x = net.conv(x, c(80, 1).valid());
    let x = net.conv(x, c(192, 3).valid());
    let mut x = net.pool(x, mp(3, 2, Valid));
    for channels in [32, 64, 64] {
        x = v3_a(net, x, channels);
    }
    x = v3_b(net, x);
    for channels in [128, 160, 160, 192] {
        x = v3_c(net, x, channels);
    }
    if net.options.auxiliary {
        net.auxiliary = Some(v3_auxiliary(net, x));
    }
    let x = v3_d(net, x);
    let x = v3_e(net, x, ap(3, 1, Same));
    let x = v3_e(net, x, mp(3, 1, Same));
    let x = net.pool(x, ap(8, 1, Valid));
    net.flat(x)
}

/// The input of the auxiliary head's classifier.
fn v3_auxiliary<'g>(net: &mut Net<'g>, x: Output<'g>) -> Output<'g> {
    let x = net.pool(x, ap(5, 3, Valid));
    let x = net.conv(x, c(128, 1));
    let x = net.conv(x, c(768, 5).valid().stddev(0.01));
    net.flat(x)
}

fn v3_a<'g>(net: &mut Net<'g>, x: Output<'g>, n: usize) -> Output<'g> {
    let columns = [
        column([c(64, 1).into()]),
        column([c(48, 1).into(), c(64, 5).into()]),
        column([c(64, 1).into(), c(96, 3).into(), c(96, 3).into()]),
        column([ap(3, 1, Same).into(), c(n, 1).into()]),
    ];
    net.module("incept_v3_a", x, &columns)
}

fn v3_b<'g>(net: &mut Net<'g>, x: Output<'g>) -> Output<'g> {
    let halved = c(96, 3).stride(2).valid();
    let columns = [
        column([c(384, 3).stride(2).valid().into()]),
        column([c(64, 1).into(), c(96, 3).into(), halved.into()]),
        column([mp(3, 2, Valid).into()]),
    ];
    net.module("incept_v3_b", x, &columns)
}

fn v3_c<'g>(net: &mut Net<'g>, x: Output<'g>, n: usize) -> Output<'g> {
    let columns = [
        column([c(192, 1).into()]),
        column([c(n, 1).into(), c2(n, 1, 7).into(), c2(192, 7, 1).into()]),
        column([
            c(n, 1).into(),
            c2(n, 7, 1).into(),
            c2(n, 1, 7).into(),
            c2(n, 7, 1).into(),
            c2(192, 1, 7).into(),
        ]),
        column([ap(3, 1, Same).into(), c(192, 1).into()]),
    ];
    net.module("incept_v3_c", x, &columns)
}

fn v3_d<'g>(net: &mut Net<'g>, x: Output<'g>) -> Output<'g> {
    let halved = |channels| c(channels, 3).stride(2).valid();
    let columns = [
        column([c(192, 1).into(), halved(320).into()]),
        column([
            c(192, 1).into(),
            c2(192, 1, 7).into(),
            c2(192, 7, 1).into(),
            halved(192).into(),
        ]),
        column([mp(3, 2, Valid).into()]),
    ];
    net.module("incept_v3_d", x, &columns)
}

fn v3_e<'g>(net: &mut Net<'g>, x: Output<'g>, pool: Pool) -> Output<'g> {
    let (wide, high) = (c2(384, 1, 3), c2(384, 3, 1));
    let columns = [
        column([c(320, 1).into()]),
        column([c(384, 1).into(), wide.into()]),
        column([ColumnLayer::Share, high.into()]),
        column([c(448, 1).into(), c(384, 3).into(), wide.into()]),
        column([ColumnLayer::Share, ColumnLayer::Share, high.into()]),
        column([pool.into(), c(192, 1).into()]),
    ];
    net.module("incept_v3_e", x, &columns)
}

/// Inception v4 (Szegedy et al., 2016).
pub(crate) fn inception4<'g>(net: &mut Net<'g>, x: Output<'g>) -> Output<'g> {
    net.norm = Some(Norm::USUAL);
    let x = net.conv(x, c(32, 3).stride(2).valid());
    let x = net.conv(x, c(32, 3).valid());
    let x = net.conv(x, c(64, 3));
    let mut x = v4_stem(net, x);
    for _ in 0..4 {
        x = v4_a(net, x);
    }
    x = v4_reduction_a(net, x, [192, 224, 256, 384]);
    for _ in 0..7 {
        x = v4_b(net, x);
    }
    x = v4_reduction_b(net, x);
    for _ in 0..3 {
        x = v4_c(net, x);
    }
    let x = net.mean(x);
    net.dropout(x, 0.8)
}

/// The three modules after the first convolutions.
fn v4_stem<'g>(net: &mut Net<'g>, x: Output<'g>) -> Output<'g> {
    let halved = |channels| c(channels, 3).stride(2).valid();
    let first = [
        column([mp(3, 2, Valid).into()]),
        column([halved(96).into()]),
    ];
    let second = [
        column([c(64, 1).into(), c(96, 3).valid().into()]),
        column([
            c(64, 1).into(),
            c2(64, 7, 1).into(),
            c2(64, 1, 7).into(),
            c(96, 3).valid().into(),
        ]),
    ];
    let third = [
        column([halved(192).into()]),
        column([mp(3, 2, Valid).into()]),
    ];
    let x = net.module("incept_v4_sa", x, &first);
    let x = net.module("incept_v4_sb", x, &second);
    net.module("incept_v4_sc", x, &third)
}

fn v4_a<'g>(net: &mut Net<'g>, x: Output<'g>) -> Output<'g> {
    let columns = [
        column([ap(3, 1, Same).into(), c(96, 1).into()]),
        column([c(96, 1).into()]),
        column([c(64, 1).into(), c(96, 3).into()]),
        column([c(64, 1).into(), c(96, 3).into(), c(96, 3).into()]),
    ];
    net.module("incept_v4_a", x, &columns)
}

fn v4_reduction_a<'g>(net: &mut Net<'g>, x: Output<'g>, channels: [usize; 4]) -> Output<'g> {
    let [k, l, m, n] = channels;
    let halved = |channels| c(channels, 3).stride(2).valid();
    let columns = [
        column([mp(3, 2, Valid).into()]),
        column([halved(n).into()]),
        column([c(k, 1).into(), c(l, 3).into(), halved(m).into()]),
    ];
    net.module("incept_v4_ra", x, &columns)
}

fn v4_b<'g>(net: &mut Net<'g>, x: Output<'g>) -> Output<'g> {
    let columns = [
        column([ap(3, 1, Same).into(), c(128, 1).into()]),
        column([c(384, 1).into()]),
        column([c(192, 1).into(), c2(224, 1, 7).into(), c2(256, 7, 1).into()]),
        column([
            c(192, 1).into(),
            c2(192, 1, 7).into(),
            c2(224, 7, 1).into(),
            c2(224, 1, 7).into(),
            c2(256, 7, 1).into(),
        ]),
    ];
    net.module("incept_v4_b", x, &columns)
}

fn v4_reduction_b<'g>(net: &mut Net<'g>, x: Output<'g>) -> Output<'g> {
    let halved = |channels| c(channels, 3).stride(2).valid();
    let columns = [
        column([mp(3, 2, Valid).into()]),
        column([c(192, 1).into(), halved(192).into()]),
        column([
            c(256, 1).into(),
            c2(256, 1, 7).into(),
            c2(320, 7, 1).into(),
            halved(320).into(),
        ]),
    ];
    net.module("incept_v4_rb", x, &columns)
}

fn v4_c<'g>(net: &mut Net<'g>, x: Output<'g>) -> Output<'g> {
    let (wide, high) = (c2(256, 1, 3), c2(256, 3, 1));
    let columns = [
        column([ap(3, 1, Same).into(), c(256, 1).into()]),
        column([c(256, 1).into()]),
        column([c(384, 1).into(), wide.into()]),
        column([ColumnLayer::Share, high.into()]),
        column([
            c(384, 1).into(),
            c2(448, 1, 3).into(),
            c2(512, 3, 1).into(),
            high.into(),
        ]),
        column([
            ColumnLayer::Share,
            ColumnLayer::Share,
            ColumnLayer::Share,
            wide.into(),
        ]),
    ];
    net.module("incept_v4_c", x, &columns)
}
