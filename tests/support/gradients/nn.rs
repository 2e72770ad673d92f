//! Cases of gradients: convolutions, pools, biases and losses.

use thalweg_graph::Attr;
use thalweg_ops::SourceOps;
use thalweg_tensor::{DType, Tensor};

use super::case::{GradientCase, case, mixed, node, with};

/// The formats of images.
pub const FORMATS: [&str; 2] = ["NHWC", "NCHW"];

/// Image dimensions `[n, h, w, c]` in the order of a format.
pub fn image(format: &str, [n, h, w, c]: [usize; 4]) -> Vec<usize> {
    match format {
        "NHWC" => vec![n, h, w, c],
        _ => vec![n, c, h, w],
    }
}

/// An attribute with these for lines and columns.
pub fn spatial(format: &str, a: i64, b: i64) -> Attr {
    Attr::Ints(match format {
        "NHWC" => vec![1, a, b, 1],
        _ => vec![1, 1, a, b],
    })
}

/// Convolutions with strides, dilations and paddings.
fn convolutions() -> Vec<GradientCase> {
    let mut all = Vec::new();
    for format in FORMATS {
        for (stride, dilation, padding) in [
            (1, 1, "SAME"),
            (2, 1, "VALID"),
            (1, 2, "SAME"),
            (2, 1, "EXPLICIT"),
        ] {
            let mut attrs = vec![
                ("strides", spatial(format, stride, stride)),
                ("dilations", spatial(format, dilation, dilation)),
                ("padding", Attr::Str(padding.to_owned())),
                ("data_format", Attr::Str(format.to_owned())),
            ];
            if padding == "EXPLICIT" {
                let pads = match format {
                    "NHWC" => vec![0, 0, 1, 0, 0, 2, 0, 0],
                    _ => vec![0, 0, 0, 0, 1, 0, 0, 2],
                };
                attrs.push(("explicit_paddings", Attr::Ints(pads)));
            }
            let x = image(format, [2, 4, 5, 2]);
            let (images, filter) = (mixed(&x, 1), mixed(&[2, 3, 2, 2], 2));
            let what = format!("{format} {padding}, stride {stride}, dilation {dilation}");
            all.push(node(
                &format!("Conv2D {what}"),
                "Conv2D",
                vec![images.clone(), filter.clone()],
                &attrs,
            ));
            let (out_h, out_w) = match (padding, stride) {
                ("SAME", _) => (4, 5),
                ("VALID", _) => (2, 2),
                _ => (2, 3),
            };
            let dy = mixed(&image(format, [2, out_h, out_w, 2]), 3);
            let (sizes, own) = (
                x.iter().map(|&d| d as i32).collect::<Vec<_>>(),
                attrs.clone(),
            );
            all.push(case(
                &format!("Conv2DBackpropInput {what}"),
                vec![filter, dy.clone()],
                move |g, i| {
                    let node =
                        with(g.op("Conv2DBackpropInput"), &own).input(g.constant(&sizes[..]));
                    vec![node.input(i[0]).input(i[1]).output()]
                },
            ));
            all.push(case(
                &format!("Conv2DBackpropFilter {what}"),
                vec![images, dy],
                move |g, i| {
                    let node = with(g.op("Conv2DBackpropFilter"), &attrs).input(i[0]);
                    vec![node.input(g.constant([2i32, 3, 2, 2])).input(i[1]).output()]
                },
            ));
        }
    }
    all
}

fn pools() -> Vec<GradientCase> {
    let mut all = Vec::new();
    for format in FORMATS {
        for (op, padding) in [
            ("MaxPool", "SAME"),
            ("MaxPool", "VALID"),
            ("AvgPool", "SAME"),
            ("AvgPool", "VALID"),
        ] {
            let attrs = [
                ("ksize", spatial(format, 2, 3)),
                ("strides", spatial(format, 2, 1)),
                ("padding", Attr::Str(padding.to_owned())),
                ("data_format", Attr::Str(format.to_owned())),
            ];
            let x = image(format, [1, 5, 4, 2]);
            all.push(node(
                &format!("{op} {format} {padding}"),
                op,
                vec![mixed(&x, 4)],
                &attrs,
            ));
            if op == "AvgPool" {
                let (h, w) = if padding == "SAME" { (3, 4) } else { (2, 2) };
                let sizes: Vec<i32> = x.iter().map(|&d| d as i32).collect();
                let dy = mixed(&image(format, [1, h, w, 2]), 5);
                all.push(case(
                    &format!("AvgPoolGrad {format} {padding}"),
                    vec![dy],
                    move |g, i| {
                        let node = with(g.op("AvgPoolGrad"), &attrs).input(g.constant(&sizes[..]));
                        vec![node.input(i[0]).output()]
                    },
                ));
            }
        }
    }
    all
}

/// Layers, biases and losses.
pub fn layers() -> Vec<GradientCase> {
    let mut all = convolutions();
    all.extend(pools());
    for format in FORMATS {
        let attrs = [("data_format", Attr::Str(format.to_owned()))];
        let x = mixed(&image(format, [2, 2, 2, 3]), 1);
        all.push(node(
            &format!("BiasAdd {format}"),
            "BiasAdd",
            vec![x.clone(), mixed(&[3], 2)],
            &attrs,
        ));
        all.push(node(
            &format!("BiasAddGrad {format}"),
            "BiasAddGrad",
            vec![x],
            &attrs,
        ));
    }
    let (x, bias) = (mixed(&[2, 2, 3], 1), mixed(&[3], 2));
    all.push(node("BiasAddV1", "BiasAddV1", vec![x, bias], &[]));
    for op in ["Softmax", "LogSoftmax"] {
        all.push(node(op, op, vec![mixed(&[2, 4], 1)], &[]));
        all.push(node(
            &format!("{op}, three dimensions"),
            op,
            vec![mixed(&[2, 2, 3], 1)],
            &[],
        ));
    }
    all.push(case(
        "SoftmaxCrossEntropyWithLogits",
        vec![mixed(&[2, 3], 1), mixed(&[2, 3], 2)],
        |g, x| {
            // Its gradient takes labels that add up to 1.
            let labels = g.op("Softmax").input(x[1]).output();
            let node = g.op("SoftmaxCrossEntropyWithLogits").input(x[0]);
            vec![node.input(labels).output()]
        },
    ));
    all.push(case(
        "SparseSoftmaxCrossEntropyWithLogits",
        vec![mixed(&[3, 4], 1)],
        |g, x| {
            let labels = g.constant([0i64, 3, 1]);
            let node = g
                .op("SparseSoftmaxCrossEntropyWithLogits")
                .input(x[0])
                .input(labels);
            vec![node.output()]
        },
    ));
    for merge in [true, false] {
        all.push(case(
            &format!("CTCLoss, repetitions merged: {merge}"),
            vec![mixed(&[5, 2, 4], 1)],
            move |g, x| {
                // The second sequence is shorter, and repeats a label.
                let node = g.op("CTCLoss").input(x[0]);
                let node = node.input(g.constant([[0i64, 0], [0, 1], [1, 0], [1, 1]]));
                let node = node.input(g.constant([2, 0, 1, 1]));
                let node = node.input(g.constant([5, 4]));
                vec![node.attr("ctc_merge_repeated", merge).build().output(0)]
            },
        ));
    }
    let keep: Tensor = Tensor::from([1.0f64, 0.0, 1.0]);
    all.push(case(
        "a mask, as dropout has it",
        vec![mixed(&[3], 1)],
        move |g, x| {
            let mask = g.constant(&keep);
            debug_assert_eq!(mask.dtype(), DType::F64);
            vec![x[0] * mask * 2.0]
        },
    ));
    all
}
