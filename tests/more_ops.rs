//! Ops that stand in no case of TensorFlow's table, against values worked out by hand.

use thalweg::graph::NodeBuilder;
use thalweg::prelude::*;

/// The outputs of a node.
fn run(g: &Graph, node: NodeBuilder<'_>) -> Vec<Tensor> {
    let id = node.build().id();
    let outputs = g.operation(id).outputs();
    let got = Session::new(g).unwrap().run(&outputs, []).unwrap();
    (0..outputs.len())
        .map(|i| got.tensor(i).unwrap().clone())
        .collect()
}

#[test]
fn floor_is_the_integer_below() {
    let g = Graph::new();
    let x = g.constant([1.5f32, -1.5, 2.0, -0.0]);
    assert_eq!(
        run(&g, g.op("Floor").input(x)),
        [Tensor::from([1.0f32, -2.0, 2.0, -0.0])]
    );
}

#[test]
fn older_names_give_what_the_newer_ones_give() {
    let g = Graph::new();
    let x = g.constant([[7.0f32, -3.0], [0.5, 2.0]]);
    let y = g.constant([2.0f32, -4.0]);
    let of = |op: &str| run(&g, g.op(op).input(x).input(y));
    assert_eq!(of("Add"), of("AddV2"));
    assert_eq!(of("Div"), of("RealDiv"));
    assert_eq!(of("Div"), [Tensor::from([[3.5f32, 0.75], [0.25, -0.5]])]);
}

#[test]
fn pack_and_unpack_undo_each_other() {
    let g = Graph::new();
    let (a, b) = (g.constant([1i64, 2, 3]), g.constant([4i64, 5, 6]));
    let pack = |axis: i64| g.op("Pack").input(a).input(b).attr("axis", axis);
    let rows = Tensor::from([[1i64, 2, 3], [4, 5, 6]]);
    let columns = Tensor::from([[1i64, 4], [2, 5], [3, 6]]);
    for (axis, packed) in [(0, &rows), (-2, &rows), (1, &columns), (-1, &columns)] {
        assert_eq!(run(&g, pack(axis)), *std::slice::from_ref(packed));
        let value = g.constant(packed);
        let unpack = g
            .op("Unpack")
            .input(value)
            .attr("axis", axis)
            .attr("num", 2i64);
        assert_eq!(
            run(&g, unpack),
            [Tensor::from([1i64, 2, 3]), Tensor::from([4i64, 5, 6])]
        );
    }
    assert!(pack(2).build().is_invalid() && pack(-3).build().is_invalid());
}

#[test]
fn segments_are_summed_and_negative_ids_left_out() {
    let g = Graph::new();
    let x = g.constant([[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]);
    let ids = g.placeholder("ids", DType::I32, [4]);
    let n = g.constant(4i32);
    let sums = g
        .op("UnsortedSegmentSum")
        .input(x)
        .input(ids)
        .input(n)
        .output();
    let session = Session::new(&g).unwrap();
    let got = session.run(sums, [ids.feed([3i32, 0, -1, 3])]).unwrap();
    assert_eq!(
        *got.tensor(0).unwrap(),
        Tensor::from([[3.0f32, 4.0], [0.0, 0.0], [0.0, 0.0], [8.0, 10.0]])
    );
    let e = session.run(sums, [ids.feed([0i32, 0, 0, 4])]).unwrap_err();
    assert!(e.to_string().contains("element 3"), "{e}");
    session.run(sums, [ids.feed([0i32, 0, 0, 3])]).unwrap();
}

/// As many outputs as a node may have inputs, not as many as a word has bits.
#[test]
fn a_node_may_have_a_hundred_outputs() {
    let g = Graph::new();
    let all: Vec<i32> = (0..100).collect();
    let x = g.placeholder("x", DType::I32, [100]);
    let split = g
        .op("Split")
        .input(g.constant(0i32))
        .input(x)
        .attr("num_split", 100i64);
    let outputs = split.build().outputs();
    let session = Session::new(&g).unwrap();
    let got = session.run(&outputs, [x.feed(all)]).unwrap();
    for i in 0..100 {
        assert_eq!(got.scalar::<i32>(i).unwrap(), i as i32);
    }
}
