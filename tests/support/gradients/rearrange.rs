//! Cases of gradients: reversals, mirror padding, space-to-batch blocks, diagonals, GatherNd and scatters.

use thalweg_graph::{Attr, Graph, Output};
use thalweg_ops::SourceOps;
use thalweg_tensor::Tensor;

use super::case::{GradientCase, case, mixed, node};

/// A case of one node: the differentiated inputs come first, then constants.
fn then(
    name: &str,
    op: &'static str,
    inputs: Vec<Tensor>,
    constants: Vec<Tensor>,
    attrs: &[(&'static str, Attr)],
) -> GradientCase {
    let attrs = attrs.to_vec();
    case(name, inputs, move |g, x| {
        let given = constants.iter().map(|c| g.constant(c));
        let node = g.op(op).inputs(x.iter().copied()).inputs(given);
        let node = super::case::with(node, &attrs).build();
        node.outputs()
    })
}

fn ints(values: &[i32]) -> Tensor {
    Tensor::vector(values)
}

fn pairs(values: &[[i32; 2]]) -> Tensor {
    Tensor::new(&[values.len(), 2], values.as_flattened()).unwrap()
}

/// Reversals, mirrors, blocks, diagonals, scatters.
pub fn rearranged() -> Vec<GradientCase> {
    let x = || vec![mixed(&[2, 3], 1)];
    let mut all = vec![
        then("ReverseV2", "ReverseV2", x(), vec![ints(&[1])], &[]),
        then(
            "Roll",
            "Roll",
            x(),
            vec![ints(&[1, -1]), ints(&[0, 1])],
            &[],
        ),
        then(
            "ReverseSequence",
            "ReverseSequence",
            x(),
            vec![ints(&[3, 2])],
            &[("seq_dim", Attr::Int(1))],
        ),
        node("Snapshot", "Snapshot", x(), &[]),
        node("DebugGradientIdentity", "DebugGradientIdentity", x(), &[]),
        node("GuaranteeConst", "GuaranteeConst", x(), &[]),
        node(
            "EnsureShape",
            "EnsureShape",
            x(),
            &[("shape", Attr::Shape([-1, 3].into()))],
        ),
        node(
            "IdentityN",
            "IdentityN",
            vec![mixed(&[2], 1), mixed(&[3], 2)],
            &[],
        ),
        then(
            "Gather",
            "Gather",
            vec![mixed(&[3, 2], 1)],
            vec![ints(&[2, 0, 2])],
            &[],
        ),
        then(
            "SplitV",
            "SplitV",
            vec![mixed(&[2, 5], 1)],
            vec![ints(&[1, 3, 1]), Tensor::from(1i32)],
            &[("num_split", Attr::Int(3))],
        ),
        case(
            "Concat",
            vec![mixed(&[2, 1], 1), mixed(&[2, 3], 2)],
            |g, x| {
                let node = g.op("Concat").input(g.constant(1i32));
                vec![node.inputs(x.iter().copied()).output()]
            },
        ),
    ];
    for mode in ["REFLECT", "SYMMETRIC"] {
        let paddings = || vec![pairs(&[[1, 0], [2, 1]])];
        let attrs = [("mode", Attr::from(mode))];
        let name = format!("MirrorPad, {mode}");
        all.push(then(&name, "MirrorPad", x(), paddings(), &attrs));
        let name = format!("MirrorPadGrad, {mode}");
        all.push(then(
            &name,
            "MirrorPadGrad",
            vec![mixed(&[3, 6], 2)],
            paddings(),
            &attrs,
        ));
    }
    all.extend(blocks());
    all.extend(diagonals());
    all.extend(scatters());
    all
}

fn blocks() -> Vec<GradientCase> {
    let image = || vec![mixed(&[1, 4, 2, 4], 1)];
    let side = [("block_size", Attr::Int(2))];
    let sides = || ints(&[2, 1]);
    let around = || pairs(&[[1, 1], [0, 0]]);
    vec![
        node("SpaceToDepth", "SpaceToDepth", image(), &side),
        node("DepthToSpace", "DepthToSpace", image(), &side),
        then(
            "SpaceToBatchND",
            "SpaceToBatchND",
            image(),
            vec![sides(), around()],
            &[],
        ),
        then(
            "BatchToSpaceND",
            "BatchToSpaceND",
            vec![mixed(&[2, 3, 2], 1)],
            vec![sides(), around()],
            &[],
        ),
        then(
            "SpaceToBatch",
            "SpaceToBatch",
            image(),
            vec![around()],
            &side,
        ),
        then(
            "BatchToSpace",
            "BatchToSpace",
            vec![mixed(&[4, 2, 2, 1], 1)],
            vec![around()],
            &side,
        ),
    ]
}

fn diagonals() -> Vec<GradientCase> {
    let matrix = || mixed(&[2, 3, 4], 1);
    let number = |v: i32| Tensor::from(v);
    let zero = || Tensor::from(0.0f64);
    let k = || ints(&[-1, 1]);
    let mut all = vec![
        node("MatrixDiag", "MatrixDiag", vec![mixed(&[2, 3], 1)], &[]),
        node("MatrixDiagPart", "MatrixDiagPart", vec![matrix()], &[]),
        node(
            "MatrixSetDiag",
            "MatrixSetDiag",
            vec![matrix(), mixed(&[2, 3], 2)],
            &[],
        ),
        then(
            "MatrixBandPart",
            "MatrixBandPart",
            vec![matrix()],
            vec![number(1), number(0)],
            &[],
        ),
        node(
            "BatchMatrixDiag",
            "BatchMatrixDiag",
            vec![mixed(&[2, 3], 1)],
            &[],
        ),
        node(
            "BatchMatrixDiagPart",
            "BatchMatrixDiagPart",
            vec![matrix()],
            &[],
        ),
        node(
            "BatchMatrixSetDiag",
            "BatchMatrixSetDiag",
            vec![matrix(), mixed(&[2, 3], 2)],
            &[],
        ),
        then(
            "BatchMatrixBandPart",
            "BatchMatrixBandPart",
            vec![matrix()],
            vec![Tensor::from(1i64), Tensor::from(0i64)],
            &[],
        ),
        node("Diag", "Diag", vec![mixed(&[2, 2], 1)], &[]),
        node("DiagPart", "DiagPart", vec![mixed(&[2, 2, 2, 2], 1)], &[]),
    ];
    for op in ["MatrixDiagV2", "MatrixDiagV3"] {
        let constants = vec![k(), number(3), number(4), zero()];
        all.push(then(op, op, vec![mixed(&[2, 3, 3], 1)], constants, &[]));
    }
    for op in ["MatrixDiagPartV2", "MatrixDiagPartV3"] {
        all.push(then(op, op, vec![matrix()], vec![k(), zero()], &[]));
    }
    for op in ["MatrixSetDiagV2", "MatrixSetDiagV3"] {
        all.push(then(
            op,
            op,
            vec![matrix(), mixed(&[2, 3, 3], 2)],
            vec![k()],
            &[],
        ));
    }
    all
}

fn scatters() -> Vec<GradientCase> {
    let at = || Tensor::new(&[3, 1], &[2i32, 0, 2]).unwrap();
    let once = || Tensor::new(&[2, 1], &[2i32, 0]).unwrap();
    let mut all = vec![
        then(
            "GatherNd",
            "GatherNd",
            vec![mixed(&[3, 2], 1)],
            vec![pairs(&[[0, 1], [2, 0], [0, 1]])],
            &[],
        ),
        case("ScatterNd", vec![mixed(&[3, 2], 1)], move |g, x| {
            let node = g.op("ScatterNd").input(g.constant(at())).input(x[0]);
            vec![node.input(g.constant([4i32, 2])).output()]
        }),
    ];
    for (op, once_only) in [
        ("TensorScatterUpdate", true),
        ("TensorScatterAdd", false),
        ("ScatterNdNonAliasingAdd", false),
        ("TensorScatterSub", false),
        ("TensorScatterMax", false),
        ("TensorScatterMin", false),
    ] {
        let indices = if once_only { once() } else { at() };
        let updates = mixed(&[indices.dims()[0], 2], 2);
        all.push(case(
            op,
            vec![mixed(&[4, 2], 1), updates],
            move |g: &Graph, x: &[Output<'_>]| {
                let node = g
                    .op(op)
                    .input(g.output(x[0].id()))
                    .input(g.constant(&indices));
                vec![node.input(g.output(x[1].id())).output()]
            },
        ));
    }
    all
}
