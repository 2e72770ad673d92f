use thalweg_graph::{GraphData, OpDef, Origin, OutputId};
use thalweg_ops::{MathOps, RandomOps, SourceOps};
use thalweg_tensor::{DType, Tensor};

use super::*;
use crate::testing::{Planner, bare_node, bare_op, first, graph};

static SWITCH_OP: OpDef = bare_op(SWITCH, Effect::Flow);
static MERGE_OP: OpDef = bare_op(MERGE, Effect::Flow);
static ENTER_OP: OpDef = bare_op(ENTER, Effect::Flow);
static EXIT_OP: OpDef = bare_op(EXIT, Effect::Flow);
static NEXT_OP: OpDef = bare_op(NEXT, Effect::Flow);
static PASS_OP: OpDef = bare_op("LoopCond", Effect::Flow);
static NOTHING_OP: OpDef = bare_op("NoOp", Effect::Control);
static HANDLE_OP: OpDef = bare_op("VarHandleOp", Effect::Handle);
static FEED_OP: OpDef = bare_op("Placeholder", Effect::Feed);
static ODD_OP: OpDef = bare_op("Odd", Effect::Stateful);

fn function(body: GraphData, inputs: Vec<NodeId>, outputs: Vec<OutputId>) -> Function {
    let results = outputs.iter().enumerate();
    Function {
        name: "f".to_owned(),
        arguments: Vec::new(),
        results: results
            .map(|(i, _)| thalweg_graph::function::Port {
                name: format!("result_{i}"),
                dtype: DType::F32,
            })
            .collect(),
        body,
        inputs,
        outputs,
        controls: Vec::new(),
        attrs: Vec::new(),
        origin: Origin::Other("a test".into()),
    }
}

fn enter(from: NodeId, frame: &str, constant: bool) -> Node {
    let mut node = bare_node(&ENTER_OP, &[first(from)], &[]);
    node.attrs.set("frame_name", frame.into());
    node.attrs.set("is_constant", constant.into());
    node
}

/// A short text of a node's kind.
fn kind_text(kind: &Kind) -> String {
    match kind {
        Kind::Argument(i) => format!("argument {i}"),
        Kind::Switch => "switch".to_owned(),
        Kind::Merge { looped } => format!("merge, looped: {looped}"),
        Kind::Enter { frame, constant } => format!("enter {frame}, constant: {constant}"),
        Kind::Exit => "exit".to_owned(),
        Kind::Next => "next".to_owned(),
        Kind::Pass => "pass".to_owned(),
        Kind::Nothing => "nothing".to_owned(),
        Kind::Constant => "constant".to_owned(),
        Kind::Handle => "handle".to_owned(),
        Kind::Kernel(op) => format!("kernel {}", op.def.name),
    }
}

#[test]
fn a_loop_is_compiled_to_kinds_and_users() {
    let g = graph();
    let x = g.placeholder("x", DType::F32, []);
    let (tanh, noise) = (
        x.tanh(),
        g.random_uniform(Tensor::vector(&[2i32]), 0.0, 1.0, DType::F32, None),
    );
    let value = x.constant_like(1.0);
    let data = g.snapshot();
    let real = |output: OutputId, inputs: &[OutputId]| Node {
        inputs: inputs.into(),
        ..(**data.node(output.node)).clone()
    };
    let noise = {
        let made = |id: &NodeId| data.node(*id).op.effect == Effect::Random;
        let id = data.ids().find(made).unwrap_or(noise.id().node);
        first(id)
    };

    let mut body = GraphData::new();
    let argument = body.push(bare_node(&ARGUMENT, &[], &[]));
    let carried = body.push(enter(argument, "loop", false));
    body.push(enter(argument, "loop", true));
    let open = OutputId {
        node: NodeId::INVALID,
        index: 0,
    };
    let merge = body.push(bare_node(&MERGE_OP, &[first(carried), open], &[]));
    let switch = bare_node(&SWITCH_OP, &[first(merge), first(merge)], &[]);
    let switch = body.push(Node {
        outputs: [switch.outputs[0].clone(), switch.outputs[0].clone()]
            .into_iter()
            .collect(),
        ..switch
    });
    let inside = OutputId {
        node: switch,
        index: 1,
    };
    let tanh = body.push(real(tanh.id(), &[inside]));
    let next = body.push(bare_node(&NEXT_OP, &[first(tanh)], &[]));
    let exit = body.push(bare_node(&EXIT_OP, &[first(switch)], &[]));
    body.push(bare_node(&PASS_OP, &[first(exit)], &[]));
    body.push(bare_node(&NOTHING_OP, &[], &[exit]));
    let mut constant = bare_node(&PASS_OP, &[], &[]);
    constant.op = data.node(value.id().node).op;
    constant.outputs[0].value = Some(Tensor::vector(&[2i32]));
    let constant = body.push(constant);
    body.push(bare_node(&HANDLE_OP, &[], &[]));
    body.push(real(noise, &[first(constant)]));
    let once = body.push(bare_node(&MERGE_OP, &[first(exit)], &[]));
    body.close(merge, 1, first(next));

    let planner = Planner::cpus(&[1]);
    let results = vec![first(exit), first(once)];
    let region = Region::new(&function(body, vec![argument], results), planner.context()).unwrap();
    let kinds: Vec<String> = region.nodes.iter().map(|n| kind_text(&n.kind)).collect();
    assert_eq!(
        kinds,
        [
            "argument 0",
            "enter loop, constant: false",
            "enter loop, constant: true",
            "merge, looped: true",
            "switch",
            "kernel Tanh",
            "next",
            "exit",
            "pass",
            "nothing",
            "constant",
            "handle",
            "kernel RandomUniform",
            "merge, looped: false",
        ]
    );
    let users: Vec<&[(u32, u32, u32)]> = region.nodes.iter().map(|n| &n.users[..]).collect();
    assert_eq!(users[0], [(0, 1, 0), (0, 2, 0)]);
    assert_eq!(users[3], [(0, 4, 0), (0, 4, 1)]);
    assert_eq!(users[4], [(1, 5, 0), (0, 7, 0)]);
    // Into the next iteration.
    assert_eq!(users[6], [(0, 3, 1)]);
    assert_eq!(
        (region.nodes[9].controls, &region.nodes[7].waiting[..]),
        (1, &[9][..])
    );
    let counters = region.nodes.iter().map(|n| n.counter.is_some());
    assert_eq!(
        counters.collect::<Vec<_>>(),
        (0..14).map(|i| i == 12).collect::<Vec<_>>()
    );
    let expected = [
        (7, 0, "result_0".to_owned()),
        (13, 0, "result_1".to_owned()),
    ];
    assert_eq!(region.results, expected);
    assert_eq!(
        region.enters.into_iter().collect::<Vec<_>>(),
        [("loop".to_owned(), 2)]
    );
}

#[test]
fn a_placeholder_or_a_node_without_a_kernel_is_an_error() {
    let planner = Planner::cpus(&[1]);
    for (op, text) in [
        (
            &FEED_OP,
            "placeholder 'Placeholder' (f32[]), made at a test, must be fed for what is fetched",
        ),
        (
            &ODD_OP,
            "node 'Odd' (Odd), made at a test: the session does not have this op: give it its op set \
             (SessionOptions::ops)",
        ),
    ] {
        let mut body = GraphData::new();
        body.push(bare_node(op, &[], &[]));
        let region = Region::new(&function(body, Vec::new(), Vec::new()), planner.context());
        assert_eq!(region.err().unwrap().to_string(), text);
    }
}
