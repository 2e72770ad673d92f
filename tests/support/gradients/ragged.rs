//! Cases of gradients: lookups and conversions of ragged tensors.

use thalweg_graph::Attr;
use thalweg_ops::SourceOps;
use thalweg_tensor::Tensor;

use super::case::{GradientCase, case, mixed};

/// Ragged tensors with one and two row splits.
pub fn ragged() -> Vec<GradientCase> {
    let mut all = Vec::new();
    for (name, indices, dims) in [
        ("rows", &[2i32, 0, 2][..], &[3][..]),
        ("one row", &[1], &[]),
        ("matrix", &[1, 1, 0, 2], &[2, 2]),
    ] {
        let (indices, dims) = (indices.to_vec(), dims.to_vec());
        let rank = dims.len() as i64 + 1;
        let name = format!("RaggedGather, {name}");
        all.push(case(&name, vec![mixed(&[5, 2], 1)], move |g, x| {
            let indices = Tensor::new(&dims, &indices).unwrap();
            let node = g.op("RaggedGather").input(g.constant([0i64, 2, 2, 3]));
            let node = node.input(g.constant([0i64, 1, 1, 5])).input(x[0]);
            let node = node
                .input(g.constant(indices))
                .attr("PARAMS_RAGGED_RANK", 2);
            let node = node.attr("OUTPUT_RAGGED_RANK", rank).build();
            vec![node.output(rank as u32)]
        }));
    }
    all.push(case(
        "RaggedTensorToSparse",
        vec![mixed(&[4, 2], 1)],
        |g, x| {
            let node = g.op("RaggedTensorToSparse").input(g.constant([0i64, 1, 4]));
            let node = node.input(x[0]).attr("RAGGED_RANK", 1).build();
            vec![node.output(1)]
        },
    ));
    for (name, sizes, default) in [
        ("whole", [-1i64, -1, -1], &[][..]),
        ("cut", [2, 1, 2], &[2]),
        ("wide", [4, 5, -1], &[1]),
    ] {
        let name = format!("RaggedTensorToTensor, {name}");
        let inputs = vec![mixed(&[4, 2], 1), mixed(default, 2)];
        all.push(case(&name, inputs, move |g, x| {
            let node = g.op("RaggedTensorToTensor").input(g.constant(sizes));
            let node = node.input(x[0]).input(x[1]);
            let node = node.input(g.constant([0i64, 1, 1, 4]));
            let types = Attr::Strs(vec![b"ROW_SPLITS".to_vec()]);
            let node = node.attr("num_row_partition_tensors", 1);
            vec![node.attr("row_partition_types", types).output()]
        }));
    }
    all
}
