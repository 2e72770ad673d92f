//! Fusion of a Pad with the convolution behind it: the results are those of the single nodes.

use thalweg::ops::NnOps;
use thalweg::prelude::*;

use super::batch_norm_fusion::{assert_fused_matches, feeds, images};
use super::fusion::FORMATS;

#[test]
fn a_pad_fuses_into_the_convolution_behind_it() {
    // Zeros on some sides, and more than the filter is wide.
    let sides = [[0, 1, 2, 1], [4, 0, 0, 5]];
    let convolutions = [("Conv2D", 2), ("DepthwiseConv2dNative", 6)];
    for (format, (sides, (op, channels))) in FORMATS
        .into_iter()
        .flat_map(|f| sides.map(|s| (f, s)))
        .flat_map(|(f, s)| convolutions.map(|c| (f, (s, c))))
    {
        let g = Graph::new();
        let x = g.placeholder("x", DType::F32, Shape::known(&images(format, [2, 6, 5, 3])));
        let f = g.placeholder("f", DType::F32, [3, 3, 3, 2]);
        let bias = g.placeholder("bias", DType::F32, [channels]);
        let zeros = images(format, [0, 1, 2, 3]).map(|axis| match axis {
            1 | 2 => [sides[2 * axis - 2], sides[2 * axis - 1]],
            _ => [0i32, 0],
        });
        let zeros = g.constant(Tensor::new(&[4, 2], zeros.as_flattened()).unwrap());
        let padded = g.op("Pad").input(x).input(zeros).output();
        let strides = images(format, [1, 2, 2, 1]).map(|n| n as i64).to_vec();
        let of = |padding: &str| {
            let node = g
                .op(op)
                .input(padded)
                .input(f)
                .attr("strides", strides.clone());
            let node = node.attr("padding", padding).attr("data_format", format);
            node.output().bias_add(bias, format)
        };
        let (valid, same) = (of("VALID"), of("SAME"));
        let values = feeds(&[x, f, bias]);
        let what = format!("{op}, {format:?}, {sides:?}");
        assert_fused_matches(&what, &[valid], &values, &[("Pad", 0), (op, 0)]);
        assert_fused_matches(&what, &[same], &values, &[("Pad", 1), (op, 0)]);
    }
}
