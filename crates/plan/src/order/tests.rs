use proptest::prelude::*;
use thalweg_graph::{Attr, Fact, Func, Function, OpDef, Origin};
use thalweg_tensor::{DType, Shape};

use super::*;
use crate::testing::{bare_node, bare_op, first};

static PURE: OpDef = bare_op("Pure", Effect::Pure);
static READ: OpDef = bare_op("Read", Effect::Read);
static UPDATE: OpDef = bare_op("Update", Effect::Write);
static HANDLE: OpDef = bare_op("Handle", Effect::Handle);
static COLLECTIVE: OpDef = bare_op("Collective", Effect::Collective);
static BLOCKING: OpDef = bare_op("Blocking", Effect::Blocking);

/// A graph of bare nodes, and the variables that they use and update.
#[derive(Default)]
struct Step {
    graph: GraphData,
    uses: Vec<SmallVec<[VariableId; 2]>>,
    updates: Vec<SmallVec<[VariableId; 2]>>,
}

impl Step {
    fn add(
        &mut self,
        op: &'static OpDef,
        inputs: &[usize],
        uses: &[VariableId],
        updates: &[VariableId],
    ) -> usize {
        let inputs: Vec<OutputId> = inputs.iter().map(|&i| first(self.graph.id(i))).collect();
        self.uses.push(uses.into());
        self.updates.push(updates.into());
        self.graph.push(bare_node(op, &inputs, &[])).index()
    }

    fn pure(&mut self, inputs: &[usize]) -> usize {
        self.add(&PURE, inputs, &[], &[])
    }

    fn read(&mut self, variable: VariableId) -> usize {
        self.add(&READ, &[], &[variable], &[])
    }

    /// A node that uses the value that `read` has read of a variable.
    fn user(&mut self, variable: VariableId, read: usize) -> usize {
        self.add(&PURE, &[read], &[variable], &[])
    }

    fn update(&mut self, variable: VariableId, inputs: &[usize]) -> usize {
        self.add(&UPDATE, inputs, &[], &[variable])
    }

    fn collective(&mut self, inputs: &[usize]) -> usize {
        self.add(&COLLECTIVE, inputs, &[], &[])
    }

    /// Adds a control input, whichever of the two was built first.
    fn wait(&mut self, node: usize, first: usize) {
        let (node, first) = (self.graph.id(node), self.graph.id(first));
        self.graph.wait_for(node, first);
    }

    fn sequence(self) -> Vec<usize> {
        let accesses = Accesses {
            uses: self.uses,
            updates: self.updates,
            variables: 2,
        };
        let order = sequence(&self.graph, &accesses);
        order.into_iter().map(NodeId::index).collect()
    }
}

#[test]
fn nodes_that_may_run_at_once_keep_the_order_of_building() {
    let mut step = Step::default();
    let a = step.pure(&[]);
    let b = step.pure(&[a]);
    let c = step.pure(&[]);
    step.pure(&[b, c, c]);
    assert_eq!(step.sequence(), [0, 1, 2, 3]);
}

#[test]
fn a_control_input_comes_first_although_it_was_built_later() {
    let mut step = Step::default();
    for _ in 0..3 {
        step.pure(&[]);
    }
    step.wait(0, 2);
    assert_eq!(step.sequence(), [1, 2, 0]);
}

#[test]
fn an_update_waits_for_all_uses_of_the_old_value() {
    let mut step = Step::default();
    let read = step.read(0);
    step.update(0, &[]);
    step.user(0, read);
    assert_eq!(step.sequence(), [0, 2, 1]);
}

#[test]
fn a_free_update_precedes_nodes_built_before_it() {
    let mut step = Step::default();
    let read = step.read(0);
    let user = step.user(0, read);
    step.pure(&[user]);
    step.update(0, &[]);
    assert_eq!(step.sequence(), [0, 1, 3, 2]);
}

#[test]
fn updates_of_one_variable_keep_the_order_of_building() {
    let mut step = Step::default();
    let late = step.pure(&[]);
    let late = step.pure(&[late]);
    step.update(0, &[late]);
    step.update(0, &[]);
    // Of another variable: it does not wait.
    step.update(1, &[]);
    assert_eq!(step.sequence(), [4, 0, 1, 2, 3]);
}

#[test]
fn a_read_with_a_control_input_on_the_update_comes_after_it() {
    let mut step = Step::default();
    let read = step.read(0);
    step.update(0, &[]);
    step.wait(read, 1);
    assert_eq!(step.sequence(), [1, 0]);
}

#[test]
fn an_update_that_uses_its_own_variable_does_not_wait_for_itself() {
    let mut step = Step::default();
    step.add(&UPDATE, &[], &[0], &[0]);
    assert_eq!(step.sequence(), [0]);
}

#[test]
fn of_uses_that_wait_for_each_others_updates_the_first_update_goes_into_a_copy() {
    let mut step = Step::default();
    let (a, b) = (step.read(0), step.read(1));
    let (update_a, update_b) = (step.update(0, &[]), step.update(1, &[]));
    let (user_a, user_b) = (step.user(0, a), step.user(1, b));
    step.wait(user_a, update_b);
    step.wait(user_b, update_a);
    assert_eq!(step.sequence(), [a, b, update_a, user_b, update_b, user_a]);
}

#[test]
fn of_reads_that_wait_for_each_others_updates_the_first_update_goes_on() {
    let mut step = Step::default();
    let (update_a, update_b) = (step.update(0, &[]), step.update(1, &[]));
    let (read_a, read_b) = (step.read(0), step.read(1));
    step.wait(read_a, update_b);
    step.wait(read_b, update_a);
    assert_eq!(step.sequence(), [update_a, read_b, update_b, read_a]);
}

#[test]
fn collectives_keep_the_order_of_building_whichever_could_run_first() {
    let mut step = Step::default();
    let late = step.pure(&[]);
    let late = step.pure(&[late]);
    step.collective(&[late]);
    step.collective(&[]);
    assert_eq!(step.sequence(), [0, 1, 2, 3]);
}

#[test]
fn a_collective_whose_inputs_are_there_precedes_other_nodes() {
    let mut step = Step::default();
    step.pure(&[]);
    step.pure(&[]);
    step.collective(&[]);
    assert_eq!(step.sequence(), [2, 0, 1]);
}

#[test]
fn a_node_that_may_block_follows_those_that_do_not_need_it() {
    let mut step = Step::default();
    let taken = step.add(&BLOCKING, &[], &[], &[]);
    let used = step.pure(&[taken]);
    let given = step.pure(&[]);
    let put = step.update(0, &[given]);
    assert_eq!(step.sequence(), [given, put, taken, used]);
}

#[test]
fn nodes_on_a_cycle_are_missing() {
    let mut step = Step::default();
    let open = OutputId {
        node: NodeId::INVALID,
        index: 0,
    };
    step.graph.push(bare_node(&PURE, &[open], &[]));
    step.uses.push(SmallVec::new());
    step.updates.push(SmallVec::new());
    let second = step.pure(&[0]);
    step.pure(&[]);
    let (start, end) = (step.graph.id(0), first(step.graph.id(second)));
    step.graph.close(start, 0, end);
    assert_eq!(step.sequence(), [2]);
}

/// A node of a random step: its kind, two inputs and a control input among the nodes before it, its variable.
type StepNode = (u8, usize, usize, Option<usize>, VariableId);

fn drawn() -> impl Strategy<Value = Vec<StepNode>> {
    let node = (
        0u8..8,
        0usize..40,
        0usize..40,
        proptest::option::of(0usize..40),
        0usize..2,
    );
    proptest::collection::vec(node, 1..40)
}

proptest! {
    #[test]
    fn every_dependency_points_forward(nodes in drawn()) {
        let mut step = Step::default();
        // Updates have no users, so that no use of an old value waits for one.
        let mut sources: Vec<usize> = Vec::new();
        for (kind, a, b, control, variable) in nodes {
            let among = |i: usize| sources.get(i % sources.len().max(1)).copied();
            let inputs: Vec<usize> = [among(a), among(b)].into_iter().flatten().collect();
            let id = match kind {
                0 => step.read(variable),
                1 => match inputs.first() {
                    Some(&read) => step.user(variable, read),
                    None => step.pure(&[]),
                },
                2 | 3 => step.update(variable, &inputs),
                4 => step.collective(&inputs),
                _ => step.pure(&inputs),
            };
            if let Some(control) = control.and_then(among) {
                step.wait(id, control);
            }
            if !matches!(kind, 2 | 3) {
                sources.push(id);
            }
        }
        let (graph, uses, updates) = (step.graph.clone(), step.uses.clone(), step.updates.clone());
        let order = step.sequence();
        prop_assert_eq!(order.len(), graph.len());
        let mut place = vec![usize::MAX; graph.len()];
        for (at, &id) in order.iter().enumerate() {
            place[id] = at;
        }
        for (id, node) in graph.nodes() {
            let before = node.inputs.iter().map(|i| i.node).chain(node.controls.iter().copied());
            for first in before {
                prop_assert!(place[first.index()] < place[id.index()]);
            }
        }
        let of = |list: &[SmallVec<[VariableId; 2]>], v: VariableId| -> Vec<usize> {
            (0..list.len()).filter(|&i| list[i].contains(&v)).collect()
        };
        for v in 0..2 {
            let updates = of(&updates, v);
            prop_assert!(updates.windows(2).all(|w| place[w[0]] < place[w[1]]));
            for user in of(&uses, v) {
                prop_assert!(updates.iter().all(|&u| place[user] < place[u]));
            }
        }
        let collectives = graph.nodes().filter(|(_, n)| n.op.effect == Effect::Collective);
        let collectives: Vec<usize> = collectives.map(|(id, _)| place[id.index()]).collect();
        prop_assert!(collectives.is_sorted());
    }
}

#[test]
fn instructions_wait_for_the_last_update_and_an_update_for_all_uses_since() {
    let mut hazards = Hazards::new(2);
    let visits: [(&[VariableId], &[VariableId], &[u32]); 8] = [
        (&[0], &[], &[]),
        (&[0], &[], &[]),
        (&[], &[0], &[0, 1]),
        (&[0], &[], &[2]),
        (&[1], &[], &[]),
        // It uses the variable that it updates.
        (&[0], &[0], &[2, 2, 3]),
        // One variable behind two inputs.
        (&[], &[0, 0], &[5]),
        (&[0, 1], &[], &[6]),
    ];
    for (at, (uses, updates, expected)) in visits.into_iter().enumerate() {
        let mut waits = Vec::new();
        hazards.visit(at as u32, uses, updates, &mut waits);
        assert_eq!(waits, expected, "instruction {at}");
    }
}

/// Returns the uses and updates of variable 0, whose handle is node 0.
fn accesses(graph: &GraphData, views: &[NodeId]) -> (Vec<usize>, Vec<usize>) {
    let handles = [(first(graph.id(0)), 0)].into_iter().collect();
    let found = Accesses::new(graph, &handles, &|id| views.contains(&id));
    assert_eq!(found.variables, 1);
    let with = |list: &[SmallVec<[VariableId; 2]>]| {
        let all = list.iter().enumerate();
        all.filter(|(_, v)| v[..] == [0]).map(|(i, _)| i).collect()
    };
    (with(&found.uses), with(&found.updates))
}

#[test]
fn a_value_that_was_read_is_used_through_views_and_not_behind_a_computation() {
    let mut graph = GraphData::new();
    let mut add = |op, inputs: &[NodeId]| {
        let inputs: Vec<OutputId> = inputs.iter().map(|&i| first(i)).collect();
        graph.push(bare_node(op, &inputs, &[]))
    };
    let handle = add(&HANDLE, &[]);
    let read = add(&READ, &[handle]);
    let view = add(&PURE, &[read]);
    let computed = add(&PURE, &[view]);
    add(&PURE, &[computed]);
    add(&UPDATE, &[handle, computed]);
    // Neither reads nor updates: a question about the variable.
    add(&PURE, &[handle]);
    assert_eq!(accesses(&graph, &[view]), (vec![1, 2, 3], vec![5]));
    assert_eq!(accesses(&graph, &[]), (vec![1, 2], vec![5]));
}

#[test]
fn a_call_updates_the_variables_that_its_function_updates() {
    let library = crate::testing::graph();
    let value = Fact::new(DType::F32, Shape::scalar());
    let handle = Fact {
        variable: Some((DType::F32, Shape::scalar())),
        ..Fact::new(DType::Resource, Shape::scalar())
    };
    for (op, expected) in [
        ("ReadVariableOp", (vec![1], vec![])),
        ("AssignVariableOp", (vec![], vec![1])),
        ("", (vec![], vec![1])),
    ] {
        let mut graph = GraphData::new();
        graph.push(bare_node(&HANDLE, &[], &[]));
        let mut call = bare_node(&PURE, &[first(graph.id(0))], &[]);
        call.attrs.set("f", Attr::Func(Func::named("body")));
        graph.push(call);
        let mut body = Function {
            name: "body".to_owned(),
            arguments: Vec::new(),
            results: Vec::new(),
            body: GraphData::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            controls: Vec::new(),
            attrs: Vec::new(),
            origin: Origin::Other("a test".into()),
        };
        // Without an argument in the body, the call is taken to update everything.
        if !op.is_empty() {
            let argument = body.push_argument(&library, &handle);
            let inputs = [argument, body.push_unused(&library, &value)];
            let count = if op == "ReadVariableOp" { 1 } else { 2 };
            body.push_node(
                &library,
                op,
                &inputs[..count],
                &[("dtype", DType::F32.into())],
            );
        }
        graph.define(body);
        assert_eq!(accesses(&graph, &[]), expected, "{op}");
    }
}
