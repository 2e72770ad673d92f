//! Parsing of the inputs of nodes, as a file names them.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_graph::{NodeId, OutputId};

use crate::names;

/// The naming scheme of inputs.
pub(super) enum InputNames<'d> {
    /// `node:index`; some are replaced by existing outputs and nodes.
    Graph {
        map: BTreeMap<(&'d str, u32), OutputId>,
        waits: BTreeMap<&'d str, NodeId>,
        used: BTreeSet<String>,
    },
    /// `argument` or `node:output_name:index`.
    Body,
}

impl InputNames<'_> {
    /// A replacement that nothing uses.
    pub(super) fn unused(&self) -> Option<String> {
        let InputNames::Graph { map, waits, used } = self else {
            return None;
        };
        let outputs = map.keys().map(|(node, index)| format!("{node}:{index}"));
        let nodes = waits.keys().map(|node| format!("^{node}"));
        outputs.chain(nodes).find(|name| !used.contains(name))
    }

    /// Parses the text of an input, with replacements applied.
    pub(super) fn read<'t>(&mut self, text: &'t str) -> Option<Input<'t>> {
        if let Some(node) = text.strip_prefix('^') {
            if let InputNames::Graph { waits, used, .. } = self
                && let Some(&given) = waits.get(node)
            {
                used.insert(text.to_owned());
                return Some(Input::GivenControl(given));
            }
            return Some(Input::Control(node));
        }
        match self {
            InputNames::Graph { map, used, .. } => {
                let (node, index) = names::output(text)?;
                if let Some(&given) = map.get(&(node, index)) {
                    used.insert(format!("{node}:{index}"));
                    return Some(Input::Given(given));
                }
                Some(Input::Output(node, index))
            }
            InputNames::Body => {
                let mut parts = text.split(':');
                let node = parts.next()?;
                match (parts.next(), parts.next(), parts.next()) {
                    (None, ..) => Some(Input::Output(node, 0)),
                    (Some(port), None, _) => Some(Input::Named(node, port, 0)),
                    (Some(port), Some(index), None) => {
                        Some(Input::Named(node, port, names::number(index)?))
                    }
                    _ => None,
                }
            }
        }
    }
}

/// An input of a node, as the file names it.
#[derive(Clone, Copy)]
pub(super) enum Input<'d> {
    Output(&'d str, u32),
    Named(&'d str, &'d str, u32),
    Control(&'d str),
    /// An existing output that replaces it.
    Given(OutputId),
    GivenControl(NodeId),
}

impl<'d> Input<'d> {
    /// The node of the file that it names.
    pub(super) fn node(self) -> Option<&'d str> {
        match self {
            Input::Output(node, _) | Input::Named(node, ..) | Input::Control(node) => Some(node),
            Input::Given(_) | Input::GivenControl(_) => None,
        }
    }

    /// `true` for a control input.
    pub(super) fn is_control(self) -> bool {
        matches!(self, Input::Control(_) | Input::GivenControl(_))
    }
}
