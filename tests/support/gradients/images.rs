//! Cases of gradients: normalization, depthwise convolutions, patches, second-order pools, resizing.

use thalweg_graph::{Attr, Graph, NodeBuilder, Output, gradients_with};
use thalweg_ops::SourceOps;

use super::case::{GradientCase, case, mixed, positive, single, with};
use super::nn::{FORMATS, image, spatial};

fn text(value: &str) -> Attr {
    Attr::Str(value.to_owned())
}

/// Batch normalization: of `x`, `scale` and `offset`.
fn batch_norm<'g>(
    g: &'g Graph,
    op: &str,
    training: bool,
    format: &str,
    x: &[Output<'g>],
) -> NodeBuilder<'g> {
    let node = g.op(op).inputs(x.iter().copied());
    let node = match training {
        true => node
            .input(g.constant(&[][..] as &[f32]))
            .input(g.constant(&[][..] as &[f32])),
        false => node
            .input(g.constant([0.3f32, -0.2]))
            .input(g.constant([0.8f32, 1.4])),
    };
    let node = node.attr("is_training", training).attr("epsilon", 1e-2f32);
    node.attr("data_format", format)
}

fn normalizations() -> Vec<GradientCase> {
    let mut all = Vec::new();
    for format in FORMATS {
        for training in [true, false] {
            for version in ["", "V2", "V3"] {
                let op = format!("FusedBatchNorm{version}");
                let what = if training { "training" } else { "fixed" };
                let inputs = || {
                    vec![
                        mixed(&image(format, [2, 2, 2, 2]), 1),
                        positive(&[2], 2),
                        mixed(&[2], 3),
                    ]
                };
                let own = op.clone();
                all.push(single(
                    &format!("{op} {format} {what}"),
                    inputs(),
                    move |g, x| vec![batch_norm(g, &own, training, format, x).output()],
                ));
                // The gradient op, as a function of the incoming gradient and the inputs.
                let mut inputs = inputs();
                inputs.push(mixed(&image(format, [2, 2, 2, 2]), 4));
                all.push(single(
                    &format!("{op}Grad {format} {what}"),
                    inputs,
                    move |g, x| {
                        let y = batch_norm(g, &op, training, format, &x[..3]).output();
                        let grads = gradients_with(&[y], &x[..3], &[Some(x[3])], &[]);
                        grads.into_iter().flatten().collect()
                    },
                ));
            }
        }
    }
    for (radius, beta) in [(1i64, 0.5f32), (2, 0.75), (5, 1.3)] {
        all.push(single(
            &format!("LRN, {radius} around, to the power of {beta}"),
            vec![mixed(&[1, 2, 1, 5], 1)],
            move |g, x| {
                let node = g.op("LRN").input(x[0]).attr("depth_radius", radius);
                vec![node.attr("beta", beta).attr("alpha", 0.4f32).output()]
            },
        ));
    }
    all
}

fn depthwise() -> Vec<GradientCase> {
    let mut all = Vec::new();
    for format in FORMATS {
        for (stride, dilation, padding) in [(1, 1, "SAME"), (2, 1, "VALID"), (1, 2, "SAME")] {
            let attrs = [
                ("strides", spatial(format, stride, stride)),
                ("dilations", spatial(format, dilation, dilation)),
                ("padding", text(padding)),
                ("data_format", text(format)),
            ];
            let x = image(format, [2, 4, 5, 2]);
            let sizes: Vec<i32> = x.iter().map(|&d| d as i32).collect();
            let (images, filter) = (mixed(&x, 1), mixed(&[2, 3, 2, 2], 2));
            let (h, w) = if padding == "SAME" { (4, 5) } else { (2, 2) };
            let dy = mixed(&image(format, [2, h, w, 4]), 3);
            let what = format!("{format} {padding}, stride {stride}, dilation {dilation}");
            let op = "DepthwiseConv2dNative";
            let own = attrs.clone();
            all.push(case(
                &format!("{op} {what}"),
                vec![images.clone(), filter.clone()],
                move |g, x| {
                    let node = with(g.op(op), &own).input(x[0]).input(x[1]);
                    vec![node.output()]
                },
            ));
            let own = attrs.clone();
            all.push(case(
                &format!("{op}BackpropInput {what}"),
                vec![filter, dy.clone()],
                move |g, x| {
                    let node = with(g.op("DepthwiseConv2dNativeBackpropInput"), &own);
                    let node = node.input(g.constant(&sizes[..]));
                    vec![node.input(x[0]).input(x[1]).output()]
                },
            ));
            all.push(case(
                &format!("{op}BackpropFilter {what}"),
                vec![images, dy],
                move |g, x| {
                    let node = with(g.op("DepthwiseConv2dNativeBackpropFilter"), &attrs);
                    let node = node.input(x[0]).input(g.constant([2i32, 3, 2, 2]));
                    vec![node.input(x[1]).output()]
                },
            ));
        }
    }
    all
}

/// ExtractImagePatches.
fn patches() -> Vec<GradientCase> {
    let ints = |values: [i64; 4]| Attr::Ints(values.to_vec());
    let mut all = Vec::new();
    for (stride, rate, padding) in [(1, 1, "SAME"), (2, 1, "VALID"), (1, 2, "SAME")] {
        let attrs = [
            ("ksizes", ints([1, 2, 3, 1])),
            ("strides", ints([1, stride, stride, 1])),
            ("rates", ints([1, rate, rate, 1])),
            ("padding", text(padding)),
        ];
        let name = format!("ExtractImagePatches {padding}, stride {stride}, rate {rate}");
        all.push(case(&name, vec![mixed(&[2, 4, 5, 2], 1)], move |g, x| {
            let node = with(g.op("ExtractImagePatches"), &attrs);
            vec![node.input(x[0]).output()]
        }));
    }
    all
}

/// ScaleAndTranslate, and a normalization with given means and variances.
fn scaled() -> Vec<GradientCase> {
    let mut all = Vec::new();
    for kernel in ["lanczos3", "triangle", "keyscubic"] {
        let name = format!("ScaleAndTranslate {kernel}");
        all.push(single(&name, vec![mixed(&[2, 4, 3, 2], 1)], move |g, x| {
            let node = g.op("ScaleAndTranslate").input(x[0]);
            let node = node.input(g.constant([5i32, 2]));
            let node = node.input(g.constant([1.5f32, 0.5]));
            let node = node.input(g.constant([-0.75f32, 0.25]));
            vec![node.attr("kernel_type", kernel).output()]
        }));
    }
    for scaled in [true, false] {
        let of_channels = |seed| mixed(&[2], seed);
        let variance = positive(&[2], 3);
        let mut inputs = vec![
            mixed(&[1, 2, 3, 2], 1),
            of_channels(2),
            variance,
            of_channels(4),
        ];
        if scaled {
            inputs.push(of_channels(5));
        }
        let name = format!("BatchNormWithGlobalNormalization {scaled}");
        all.push(case(&name, inputs, move |g, x| {
            let node = g.op("BatchNormWithGlobalNormalization");
            let mut node = node.inputs(x.iter().copied());
            if !scaled {
                node = node.input(g.constant([1.0f64, 1.0]));
            }
            let node = node.attr("variance_epsilon", 0.01f32);
            vec![node.attr("scale_after_normalization", scaled).output()]
        }));
    }
    all
}

/// ExtractVolumePatches.
fn volume_patches() -> Vec<GradientCase> {
    let ints = |values: [i64; 5]| Attr::Ints(values.to_vec());
    let mut all = Vec::new();
    for (strides, padding) in [([1, 1, 1, 1, 1], "SAME"), ([1, 2, 1, 2, 1], "VALID")] {
        let attrs = [
            ("ksizes", ints([1, 2, 3, 1, 1])),
            ("strides", ints(strides)),
            ("padding", text(padding)),
        ];
        let name = format!("ExtractVolumePatches {padding}");
        all.push(case(
            &name,
            vec![mixed(&[1, 3, 4, 3, 2], 1)],
            move |g, x| {
                let node = with(g.op("ExtractVolumePatches"), &attrs);
                vec![node.input(x[0]).output()]
            },
        ));
    }
    all
}

/// First and second gradients of pools, as functions of the incoming gradients.
fn pools() -> Vec<GradientCase> {
    let mut all = Vec::new();
    for format in FORMATS {
        let x = image(format, [1, 5, 4, 2]);
        let (pooled, images) = (mixed(&image(format, [1, 3, 4, 2]), 5), mixed(&x, 4));
        let attrs = [
            ("ksize", spatial(format, 2, 3)),
            ("strides", spatial(format, 2, 1)),
            ("padding", text("SAME")),
            ("data_format", text(format)),
        ];
        for (op, second, dy) in [
            ("MaxPoolGrad", false, &pooled),
            ("MaxPoolGradGrad", false, &images),
            ("MaxPoolGradV2", true, &pooled),
            ("MaxPoolGradGradV2", true, &images),
        ] {
            let (attrs, images) = (attrs.clone(), images.clone());
            all.push(case(
                &format!("{op} {format}"),
                vec![dy.clone()],
                move |g, x| {
                    let from = g.constant(&images);
                    let pool = with(g.op("MaxPool"), &attrs).input(from).output();
                    let own = if second { &attrs[2..] } else { &attrs[..] };
                    let node = with(g.op(op), own).input(from).input(pool).input(x[0]);
                    vec![sized(g, node, second, format).output()]
                },
            ));
        }
        let own = attrs[2..].to_vec();
        all.push(case(
            &format!("MaxPoolV2 {format}"),
            vec![images],
            move |g, x| {
                let node = with(g.op("MaxPoolV2"), &own).input(x[0]);
                vec![sized(g, node, true, format).output()]
            },
        ));
    }
    for whole in [false, true] {
        let name = format!("MaxPoolWithArgmax, places of all images {whole}");
        all.push(case(&name, vec![mixed(&[2, 5, 4, 2], 6)], move |g, x| {
            let node = g.op("MaxPoolWithArgmax").input(x[0]);
            let node = node.attr("ksize", spatial("NHWC", 2, 3));
            let node = node.attr("strides", spatial("NHWC", 2, 1));
            let node = node
                .attr("padding", "SAME")
                .attr("include_batch_in_index", whole);
            vec![node.output()]
        }));
    }
    all
}

/// Sets windows as attributes or as inputs, according to the op.
fn sized<'g>(g: &'g Graph, node: NodeBuilder<'g>, second: bool, format: &str) -> NodeBuilder<'g> {
    if !second {
        return node;
    }
    let ints = |a: Attr| match a {
        Attr::Ints(values) => values.iter().map(|&v| v as i32).collect::<Vec<_>>(),
        _ => Vec::new(),
    };
    let (window, strides) = (ints(spatial(format, 2, 3)), ints(spatial(format, 2, 1)));
    node.input(g.constant(&window[..]))
        .input(g.constant(&strides[..]))
}

fn sizes() -> Vec<GradientCase> {
    let mut all = Vec::new();
    for mode in ["", "align_corners", "half_pixel_centers"] {
        for size in [[5i32, 3], [2, 4]] {
            for op in ["ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic"] {
                let name = format!("{op} to {size:?} {mode}");
                all.push(single(&name, vec![mixed(&[2, 3, 4, 2], 1)], move |g, x| {
                    vec![resized(g, op, mode, x[0]).input(g.constant(size)).output()]
                }));
            }
            let dy = mixed(&[2, size[0] as usize, size[1] as usize, 2], 2);
            let like = mixed(&[2, 3, 4, 2], 1);
            all.push(single(
                &format!("ResizeBilinearGrad of {size:?} {mode}"),
                vec![dy.clone(), like],
                move |g, x| {
                    vec![
                        resized(g, "ResizeBilinearGrad", mode, x[0])
                            .input(x[1])
                            .output(),
                    ]
                },
            ));
            all.push(single(
                &format!("ResizeNearestNeighborGrad of {size:?} {mode}"),
                vec![dy],
                move |g, x| {
                    let node = resized(g, "ResizeNearestNeighborGrad", mode, x[0]);
                    vec![node.input(g.constant([3i32, 4])).output()]
                },
            ));
        }
    }
    for method in ["bilinear", "nearest"] {
        let name = format!("CropAndResize {method}, to the image");
        all.push(single(&name, vec![mixed(&[2, 3, 4, 2], 1)], move |g, x| {
            let boxes = g.constant([[0.1f32, 0.2, 0.7, 0.9], [-0.5, 0.3, 0.5, 1.4]]);
            let node = g.op("CropAndResize").input(x[0]).input(boxes);
            let node = node.input(g.constant([1i32, 0]));
            let node = node.input(g.constant([3i32, 2])).attr("method", method);
            vec![node.output()]
        }));
    }
    all
}

fn resized<'g>(g: &'g Graph, op: &str, mode: &'static str, x: Output<'g>) -> NodeBuilder<'g> {
    let node = g.op(op).input(x);
    match mode {
        "" => node,
        mode => node.attr(mode, true),
    }
}

/// Layers of image models.
pub fn images() -> Vec<GradientCase> {
    [
        normalizations(),
        depthwise(),
        pools(),
        sizes(),
        patches(),
        volume_patches(),
        scaled(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
