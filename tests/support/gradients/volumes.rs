//! Cases of gradients: convolutions and pools of volumes.

use thalweg_graph::Attr;
use thalweg_ops::SourceOps;

use super::case::{GradientCase, case, mixed, node, with};

/// The formats of volumes.
const FORMATS: [&str; 2] = ["NDHWC", "NCDHW"];

/// Volume dimensions `[n, d, h, w, c]` in the order of a format.
fn volume(format: &str, [n, d, h, w, c]: [usize; 5]) -> Vec<usize> {
    match format {
        "NDHWC" => vec![n, d, h, w, c],
        _ => vec![n, c, d, h, w],
    }
}

/// An attribute with these for depth, lines and columns.
fn spatial(format: &str, [d, h, w]: [i64; 3]) -> Attr {
    Attr::Ints(match format {
        "NDHWC" => vec![1, d, h, w, 1],
        _ => vec![1, 1, d, h, w],
    })
}

fn text(value: &str) -> Attr {
    Attr::Str(value.to_owned())
}

fn convolutions() -> Vec<GradientCase> {
    let mut all = Vec::new();
    for format in FORMATS {
        for (strides, dilations, padding, out) in [
            ([1, 1, 1], [1, 1, 1], "SAME", [3, 3, 4]),
            ([1, 2, 1], [1, 1, 1], "VALID", [2, 1, 3]),
            ([1, 1, 2], [1, 2, 1], "SAME", [3, 3, 2]),
        ] {
            let attrs = vec![
                ("strides", spatial(format, strides)),
                ("dilations", spatial(format, dilations)),
                ("padding", text(padding)),
                ("data_format", text(format)),
            ];
            let x = volume(format, [1, 3, 3, 4, 2]);
            let (volumes, filter) = (mixed(&x, 1), mixed(&[2, 2, 2, 2, 1], 2));
            let dy = mixed(&volume(format, [1, out[0], out[1], out[2], 1]), 3);
            let what = format!("{format} {padding}, strides {strides:?}, dilations {dilations:?}");
            let inputs = vec![volumes.clone(), filter.clone()];
            all.push(node(&format!("Conv3D {what}"), "Conv3D", inputs, &attrs));
            let (sizes, own) = (
                x.iter().map(|&d| d as i32).collect::<Vec<_>>(),
                attrs.clone(),
            );
            all.push(case(
                &format!("Conv3DBackpropInputV2 {what}"),
                vec![filter, dy.clone()],
                move |g, x| {
                    let node = with(g.op("Conv3DBackpropInputV2"), &own);
                    let node = node.input(g.constant(&sizes[..]));
                    vec![node.input(x[0]).input(x[1]).output()]
                },
            ));
            all.push(case(
                &format!("Conv3DBackpropFilterV2 {what}"),
                vec![volumes, dy],
                move |g, x| {
                    let node = with(g.op("Conv3DBackpropFilterV2"), &attrs).input(x[0]);
                    let node = node.input(g.constant([2i32, 2, 2, 2, 1]));
                    vec![node.input(x[1]).output()]
                },
            ));
        }
    }
    all
}

fn pools() -> Vec<GradientCase> {
    let mut all = Vec::new();
    for format in FORMATS {
        for (padding, out) in [("SAME", [2, 3, 4]), ("VALID", [1, 2, 2])] {
            let attrs = [
                ("ksize", spatial(format, [2, 2, 3])),
                ("strides", spatial(format, [2, 1, 1])),
                ("padding", text(padding)),
                ("data_format", text(format)),
            ];
            let x = volume(format, [1, 3, 3, 4, 2]);
            let volumes = mixed(&x, 4);
            let dy = mixed(&volume(format, [1, out[0], out[1], out[2], 2]), 5);
            for op in ["MaxPool3D", "AvgPool3D"] {
                let name = format!("{op} {format} {padding}");
                all.push(node(&name, op, vec![volumes.clone()], &attrs));
            }
            for (op, dy) in [("MaxPool3DGrad", &dy), ("MaxPool3DGradGrad", &volumes)] {
                let (attrs, volumes) = (attrs.clone(), volumes.clone());
                let name = format!("{op} {format} {padding}");
                all.push(case(&name, vec![dy.clone()], move |g, x| {
                    let from = g.constant(&volumes);
                    let pool = with(g.op("MaxPool3D"), &attrs).input(from).output();
                    let node = with(g.op(op), &attrs).input(from).input(pool);
                    vec![node.input(x[0]).output()]
                }));
            }
            let sizes: Vec<i32> = x.iter().map(|&d| d as i32).collect();
            let name = format!("AvgPool3DGrad {format} {padding}");
            all.push(case(&name, vec![dy], move |g, x| {
                let node = with(g.op("AvgPool3DGrad"), &attrs);
                vec![node.input(g.constant(&sizes[..])).input(x[0]).output()]
            }));
        }
    }
    all
}

/// Convolutions and pools of volumes.
pub fn volumes() -> Vec<GradientCase> {
    let mut all = convolutions();
    all.extend(pools());
    all
}
