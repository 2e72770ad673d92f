//! Layers and phases of events, by the names of their nodes.

use std::collections::BTreeSet;

use super::event::Event;

/// Part of a training step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The network and its loss.
    Forward,
    /// Gradients.
    Backward,
    /// The optimizer's updates.
    Update,
}

/// Names of the reads that are made with a variable, after its own: of resource variables and of references.
const READS: [&str; 2] = ["/Read/ReadVariableOp", "/read"];

/// Name of a read that is made for a node, after the node's.
const READ_FOR: &str = "/ReadVariableOp";

/// Prefix of an update's scope, before the variable's name.
const UPDATE: &str = "update_";

/// The scopes of a step that have variables, and those of its optimizers. They follow from the names that TensorFlow 1's
/// variables and optimizers give their nodes: `SCOPE/VARIABLE/Read/ReadVariableOp`, `OPTIMIZER/update_SCOPE/VARIABLE/OP`.
pub(super) struct LayerNames<'e> {
    scopes: BTreeSet<&'e str>,
    optimizers: BTreeSet<&'e str>,
}

impl<'e> LayerNames<'e> {
    pub(super) fn of(events: &'e [Event]) -> LayerNames<'e> {
        let mut variables = BTreeSet::new();
        let mut optimizers = BTreeSet::new();
        for event in events {
            let variable = READS.iter().find_map(|r| event.node.strip_suffix(r));
            variables.extend(variable);
            if let Some((optimizer, node)) = update(&event.node) {
                optimizers.insert(optimizer);
                variables.extend(node.rsplit_once('/').map(|(variable, _)| variable));
            }
        }
        // A slot of an optimizer has the name of its variable before its own. A variable without a scope is one for itself.
        let scopes = variables.iter();
        let scopes = scopes.map(|v: &&'e str| v.rsplit_once('/').map_or(*v, |(scope, _)| scope));
        LayerNames {
            scopes: scopes
                .filter(|s| !s.contains('/') || !variables.contains(s))
                .collect(),
            optimizers,
        }
    }

    /// The layer and the phase of an event, which lies within another one on its thread.
    pub(super) fn place(&self, event: &Event, around: Option<&Event>) -> (String, Phase) {
        let (layer, phase) = self.place_event(event);
        let Some(around) = around else {
            return (layer, phase);
        };
        // The nodes of a branch or a loop's body have names of their own graph.
        let (outer, outer_phase) = self.place_event(around);
        match self.scopes.contains(&*layer) {
            true => (layer, outer_phase),
            false => (outer, outer_phase),
        }
    }

    /// The place of an event's node; of several that were computed together, that of the first in a scope with variables.
    fn place_event(&self, event: &Event) -> (String, Phase) {
        let places = event.members.iter().map(|member| self.place_name(member));
        let known = places
            .into_iter()
            .find(|(layer, _)| self.scopes.contains(&**layer));
        known.unwrap_or_else(|| self.place_name(&event.node))
    }

    fn place_name(&self, name: &str) -> (String, Phase) {
        if let Some((_, node)) = update(name) {
            return (self.layer(node), Phase::Update);
        }
        let optimizer = self.optimizers.iter().find(|o| within(name, o));
        if let Some(optimizer) = optimizer {
            return ((*optimizer).to_owned(), Phase::Update);
        }
        match gradient(name) {
            Some(node) => (self.layer(&node), Phase::Backward),
            None => (self.layer(name), Phase::Forward),
        }
    }

    /// The longest scope with variables around a node, or the scope of the node.
    fn layer(&self, name: &str) -> String {
        let name = name.strip_suffix(READ_FOR).unwrap_or(name);
        let mut scope = name;
        while let Some((outer, _)) = scope.rsplit_once('/') {
            if self.scopes.contains(outer) {
                return outer.to_owned();
            }
            scope = outer;
        }
        name.rsplit_once('/')
            .map_or("", |(scope, _)| scope)
            .to_owned()
    }
}

fn within(name: &str, scope: &str) -> bool {
    name.strip_prefix(scope)
        .is_some_and(|rest| rest.starts_with('/'))
}

/// The optimizer's scope and the name after `update_` of a node that updates a variable.
fn update(name: &str) -> Option<(&str, &str)> {
    let at = name.find(&format!("/{UPDATE}"))?;
    Some((&name[..at], &name[at + 1 + UPDATE.len()..]))
}

/// The name of the node whose gradient a node computes: `a/gradients/b/Op_grad/X` computes that of `b/Op`.
fn gradient(name: &str) -> Option<String> {
    let parts: Vec<&str> = name.split('/').collect();
    let at = parts.iter().position(|p| numbered(p, "gradients"))?;
    let rest = &parts[at + 1..];
    let end = rest.iter().position(|p| p.ends_with("_grad"));
    Some(match end {
        Some(end) => {
            let node = rest[end].strip_suffix("_grad").unwrap_or_default();
            [&rest[..end], &[node]].concat().join("/")
        }
        None => rest.join("/"),
    })
}

/// `true` if a part of a name is this one, or this one with the number of a second use.
fn numbered(part: &str, name: &str) -> bool {
    let rest = part.strip_prefix(name);
    rest.is_some_and(|rest| {
        rest.is_empty()
            || rest
                .strip_prefix('_')
                .is_some_and(|n| n.parse::<u32>().is_ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(node: &str) -> Event {
        Event {
            node: node.to_owned(),
            ..Event::default()
        }
    }

    #[test]
    fn names_tell_the_layer_and_the_phase_of_a_node() {
        let step = [
            "conv1/kernel/Read/ReadVariableOp",
            "conv1/kernel/Momentum/Read/ReadVariableOp",
            "rnn/cell/bias/Read/ReadVariableOp",
            "scale/Read/ReadVariableOp",
            "old/kernel/read",
            "train/update_norm/gamma/ResourceApplyMomentum",
        ]
        .map(event);
        let names = LayerNames::of(&step);
        for (node, layer, phase) in [
            ("conv1/Conv2D", "conv1", Phase::Forward),
            ("conv1/moments/mean/Sum", "conv1", Phase::Forward),
            ("conv1/kernel/Read/ReadVariableOp", "conv1", Phase::Forward),
            ("conv10/Conv2D", "conv10", Phase::Forward),
            ("rnn/while/Less", "rnn/while", Phase::Forward),
            ("rnn/cell/MatMul", "rnn/cell", Phase::Forward),
            ("norm/batchnorm/mul", "norm", Phase::Forward),
            ("scale/Read/ReadVariableOp", "scale", Phase::Forward),
            ("Relu", "", Phase::Forward),
            // Of Keras, and of references.
            ("dense/MatMul/ReadVariableOp", "dense", Phase::Forward),
            ("dense/MatMul", "dense", Phase::Forward),
            ("old/kernel/read", "old", Phase::Forward),
            ("loss/Mean", "loss", Phase::Forward),
            (
                "gradients/conv1/Conv2D_grad/Conv2DBackpropFilter",
                "conv1",
                Phase::Backward,
            ),
            ("gradients/Relu_1_grad/ReluGrad", "", Phase::Backward),
            (
                "gradients_1/norm/batchnorm/mul_grad/Sum",
                "norm",
                Phase::Backward,
            ),
            (
                "tower_1/gradients/tower_1/conv/MatMul_grad/MatMul",
                "tower_1/conv",
                Phase::Backward,
            ),
            ("gradients/AddN", "", Phase::Backward),
            (
                "train/update_conv1/kernel/ResourceApplyMomentum",
                "conv1",
                Phase::Update,
            ),
            ("train/Mul", "train", Phase::Update),
            ("training/Mul", "training", Phase::Forward),
        ] {
            assert_eq!(
                names.place(&event(node), None),
                (layer.to_owned(), phase),
                "{node}"
            );
        }
    }

    #[test]
    fn a_fused_node_belongs_to_the_layer_of_its_first_member_with_variables() {
        let step = ["norm/gamma/Read/ReadVariableOp"].map(event);
        let fused = Event {
            members: ["Add", "norm/Mul", "Relu"].map(str::to_owned).into(),
            ..event("Relu")
        };
        let place = LayerNames::of(&step).place(&fused, None);
        assert_eq!(place, ("norm".to_owned(), Phase::Forward));
    }

    #[test]
    fn nodes_of_a_branch_belong_to_the_layer_of_the_branch() {
        let step = ["norm/gamma/Read/ReadVariableOp"].map(event);
        let names = LayerNames::of(&step);
        let place = |node, around| names.place(&event(node), Some(&event(around)));
        let norm = |phase| ("norm".to_owned(), phase);
        assert_eq!(place("FusedBatchNormV3", "norm/cond"), norm(Phase::Forward));
        assert_eq!(
            place("FusedBatchNormV3", "gradients/norm/cond_grad/If"),
            norm(Phase::Backward)
        );
        assert_eq!(place("norm/Mul", "loop"), norm(Phase::Forward));
    }
}
