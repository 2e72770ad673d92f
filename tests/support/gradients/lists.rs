//! Cases of gradients: tensor lists, alone and in loops.

use thalweg_graph::{Graph, NodeBuilder, Output};
use thalweg_ops::{FlowOps, MathOps, SourceOps};
use thalweg_tensor::DType;

use super::case::{GradientCase, case, mixed};

/// A list op; its elements are `f64`.
fn op<'g>(g: &'g Graph, name: &str, inputs: &[Output<'g>]) -> NodeBuilder<'g> {
    let node = g.op(name).inputs(inputs.iter().copied());
    node.attr("element_dtype", DType::F64)
}

/// The rows of `x`, of two elements each, as a list.
fn rows<'g>(g: &'g Graph, x: Output<'g>) -> Output<'g> {
    op(g, "TensorListFromTensor", &[x, g.constant([2i32])]).output()
}

/// A list of `count` uninitialized rows of two elements.
fn reserved<'g>(g: &'g Graph, count: i32) -> Output<'g> {
    let inputs = [g.constant([2i32]), g.constant(count)];
    op(g, "TensorListReserve", &inputs).output()
}

fn get<'g>(g: &'g Graph, list: Output<'g>, i: Output<'g>) -> Output<'g> {
    op(g, "TensorListGetItem", &[list, i, g.constant([2i32])]).output()
}

fn set<'g>(g: &'g Graph, list: Output<'g>, i: Output<'g>, item: Output<'g>) -> Output<'g> {
    op(g, "TensorListSetItem", &[list, i, item]).output()
}

fn stacked<'g>(g: &'g Graph, list: Output<'g>) -> Output<'g> {
    op(g, "TensorListStack", &[list, g.constant([2i32])]).output()
}

/// Lists outside of loops.
pub fn listed() -> Vec<GradientCase> {
    let mut all = looped();
    all.push(case(
        "TensorListFromTensor",
        vec![mixed(&[4, 2], 1)],
        |g, x| {
            let list = rows(g, x[0]);
            let at = |i: i32| get(g, list, g.constant(i));
            // An element that is read twice, one that is never read, and all of them.
            vec![at(1) * at(3), at(1), stacked(g, list)]
        },
    ));
    let two = || vec![mixed(&[3, 2], 1), mixed(&[2], 2)];
    all.push(case("TensorListSetItem", two(), |g, x| {
        let list = rows(g, x[0]);
        let other = set(g, list, g.constant(1i32), x[1]);
        let node = op(
            g,
            "TensorListSetItem",
            &[list, g.constant(5i32), x[1] * x[1]],
        );
        let more = node.attr("resize_if_index_out_of_bounds", true).output();
        vec![stacked(g, other), stacked(g, more)]
    }));
    all.push(case("TensorListPushBack", two(), |g, x| {
        let list = op(g, "TensorListPushBack", &[rows(g, x[0]), x[1]]).output();
        let list = op(g, "TensorListPushBack", &[list, x[1] * x[1]]).output();
        vec![stacked(g, list)]
    }));
    all.push(case(
        "TensorListPopBack",
        vec![mixed(&[3, 2], 1)],
        |g, x| {
            let list = rows(g, x[0]);
            let pop = |list| op(g, "TensorListPopBack", &[list, g.constant([2i32])]).build();
            let (last, only) = (pop(list), pop(list));
            let before = pop(pop(list).output(0));
            vec![
                last.output(1) * only.output(1),
                stacked(g, last.output(0)),
                before.output(1),
            ]
        },
    ));
    for size in [2i32, 5] {
        all.push(case(
            "TensorListResize",
            vec![mixed(&[3, 2], 1)],
            move |g, x| {
                let node = g.op("TensorListResize").input(rows(g, x[0]));
                vec![stacked(g, node.input(g.constant(size)).output())]
            },
        ));
    }
    all.push(case("TensorListGather", vec![mixed(&[4, 2], 1)], |g, x| {
        let inputs = [rows(g, x[0]), g.constant([2i32, 0, 2]), g.constant([2i32])];
        vec![op(g, "TensorListGather", &inputs).output()]
    }));
    all.push(case(
        "TensorListScatterV2",
        vec![mixed(&[2, 2], 1)],
        |g, x| {
            let (places, shape) = (g.constant([3i32, 1]), g.constant([2i32]));
            let inputs = [x[0], places, shape, g.constant(5i32)];
            vec![stacked(g, op(g, "TensorListScatterV2", &inputs).output())]
        },
    ));
    all.push(case(
        "TensorListScatter",
        vec![mixed(&[2, 2], 1)],
        |g, x| {
            let inputs = [x[0], g.constant([3i32, 1]), g.constant([2i32])];
            vec![stacked(g, op(g, "TensorListScatter", &inputs).output())]
        },
    ));
    all.push(case("TensorListConcat", vec![mixed(&[5, 2], 1)], |g, x| {
        let inputs = [x[0], g.constant([-1i32, 2]), g.constant([1i64, 0, 4])];
        let list = op(g, "TensorListSplit", &inputs).output();
        vec![op(g, "TensorListConcat", &[list]).output()]
    }));
    let two = vec![mixed(&[3, 2], 1), mixed(&[2, 2], 2)];
    all.push(case("TensorListScatterIntoExistingList", two, |g, x| {
        let inputs = [rows(g, x[0]), x[1], g.constant([4i32, 1])];
        let list = op(g, "TensorListScatterIntoExistingList", &inputs).output();
        vec![stacked(g, list)]
    }));
    all.push(case("TensorListSplit", vec![mixed(&[5, 2], 1)], |g, x| {
        let (shape, none) = (g.constant([-1i32, 2]), g.constant(Vec::<i64>::new()));
        let inputs = [x[0], shape, g.constant([1i64, 0, 4])];
        let list = op(g, "TensorListSplit", &inputs).output();
        let last = [list, g.constant(2i32), shape];
        let last = op(g, "TensorListGetItem", &last).output();
        let joined = op(g, "TensorListConcatV2", &[list, shape, none]).output();
        vec![last * last, joined]
    }));
    all
}

/// Lists that loops read and write.
fn looped() -> Vec<GradientCase> {
    let mut all = Vec::new();
    let three = || vec![mixed(&[5, 2], 1), mixed(&[2], 2), mixed(&[2], 3)];
    all.push(case("a loop from list to list", three(), |g, x| {
        let (list, w) = (rows(g, x[0]), x[2]);
        // Values that no output depends on have no gradient, and do not disturb the others.
        let initial = [g.constant(0i32), reserved(g, 5), x[1], reserved(g, 5)];
        let out = g.while_loop(
            &initial,
            |_g, v| v[0].less(5i32),
            |g, v| {
                let next = (get(g, list, v[0]) * w + v[2]).tanh();
                let one = g.constant(1i32);
                let unused = set(g, v[3], v[0], next * next);
                vec![v[0] + one, set(g, v[1], v[0], next), next, unused]
            },
        );
        vec![stacked(g, out[1]), out[2]]
    }));
    all.push(case("a loop that reads what it wrote", three(), |g, x| {
        let start = set(g, rows(g, x[0]), g.constant(0i32), x[1]);
        let out = g.while_loop(
            &[g.constant(1i32), start],
            |_, v| v[0].less(5i32),
            |g, v| {
                let one = g.constant(1i32);
                let before = get(g, v[1], v[0] - one);
                let here = get(g, v[1], v[0]);
                vec![v[0] + one, set(g, v[1], v[0], before * here + x[2])]
            },
        );
        vec![stacked(g, out[1])]
    }));
    all.push(case("a loop that ends early", three(), |g, x| {
        let list = rows(g, x[0]);
        let out = g.while_loop(
            &[g.constant(0i32), reserved(g, 4), x[1]],
            |_, v| v[0].less(3i32),
            |g, v| {
                let next = get(g, list, v[0]) * v[2];
                vec![v[0] + g.constant(1i32), set(g, v[1], v[0], next), next]
            },
        );
        vec![stacked(g, out[1])]
    }));
    all.push(case(
        "a loop that pushes and a loop that pops",
        three(),
        |g, x| {
            let inputs = [g.constant(-1i32), g.constant(-1i32)];
            let empty = op(g, "EmptyTensorList", &inputs).output();
            let pushed = g.while_loop(
                &[g.constant(0i32), empty, x[1]],
                |_, v| v[0].less(4i32),
                |g, v| {
                    let next = v[2] * x[2];
                    let list = op(g, "TensorListPushBack", &[v[1], next]).output();
                    vec![v[0] + g.constant(1i32), list, next]
                },
            );
            let popped = g.while_loop(
                &[pushed[1], x[1]],
                |g, v| {
                    let length = g.op("TensorListLength").input(v[0]).output();
                    length.greater(1i32)
                },
                |g, v| {
                    let inputs = [v[0], g.constant([2i32])];
                    let node = op(g, "TensorListPopBack", &inputs).build();
                    vec![node.output(0), v[1] * node.output(1) + x[2]]
                },
            );
            vec![popped[1]]
        },
    ));
    all.push(case("a branch that writes a list", three(), |g, x| {
        let list = rows(g, x[0]);
        let at = g.constant(2i32);
        let yes = g.constant(true);
        let chosen = g.cond(yes, |g| vec![set(g, list, at, x[1] * x[2])], |_| vec![list]);
        vec![stacked(g, chosen[0])]
    }));
    all
}
