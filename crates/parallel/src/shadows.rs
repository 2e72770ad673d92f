//! Shadows: variables on servers, of which workers have copies.

use thalweg_graph::{Graph, Operation};
use thalweg_ops::{StateOps, Variable};

use crate::placement::Placement;

/// Prefix of the name of a shadow variable.
const PREFIX: &str = "ps_var/";

/// Variables of the servers.
pub(crate) struct Shadows<'g> {
    /// One for each variable of the first tower, in order.
    pub(crate) all: Vec<Variable<'g>>,
}

impl<'g> Shadows<'g> {
    /// Creates shadows of the variables of the first tower, with their initial values.
    #[track_caller]
    pub(crate) fn new(
        g: &'g Graph,
        placement: &Placement,
        servers: u32,
        first: &[Variable<'g>],
        trained: impl Fn(Variable<'g>) -> bool,
    ) -> Shadows<'g> {
        let shared = placement.servers(servers);
        let make = |&variable: &Variable<'g>| {
            let name = format!("{PREFIX}{}", variable.name());
            let initial = initial(g, variable);
            let scope = shared.scope(&placement.tower(0));
            let make = || match trained(variable) {
                true => g.variable(&name, initial),
                false => g.untrained_variable(&name, initial),
            };
            g.name_scope("/", || g.device(scope, make))
        };
        Shadows {
            all: first.iter().map(make).collect(),
        }
    }

    /// Copies the servers' values, after `after`, to the variables of each tower. A value is read once for all towers, so that
    /// it crosses the network once.
    #[track_caller]
    pub(crate) fn copied(
        &self,
        towers: &[Vec<Variable<'g>>],
        after: &[Operation<'g>],
    ) -> Vec<Operation<'g>> {
        let copy = |(at, shadow): (usize, &Variable<'g>)| -> Vec<Operation<'g>> {
            let g = shadow.handle().graph();
            let value =
                g.control_dependencies(after.iter().copied(), || shadow.colocate(|| shadow.read()));
            let copies = towers.iter().map(|tower| tower[at]);
            copies
                .map(|copy| copy.colocate(|| copy.assign(value)))
                .collect()
        };
        self.all.iter().enumerate().flat_map(copy).collect()
    }
}

/// Name in a checkpoint.
pub(crate) fn saved_name(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

/// Initial value of a variable: the value that its initializer assigns.
fn initial<'g>(g: &'g Graph, variable: Variable<'g>) -> thalweg_graph::Output<'g> {
    let data = g.snapshot();
    let node = data.get(variable.initializer().id());
    let value = node.and_then(|n| n.inputs.get(1).copied());
    value.map_or(variable.value(), |id| g.output(id))
}
