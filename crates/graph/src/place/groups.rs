//! Groups of nodes that share a device: a union-find whose roots have the group's device constraint
//! and the device types that can run all of it.

use super::constraint::{Conflict, Constraints};
use super::devices::TypeLists;

/// The reason why two groups cannot be joined.
#[derive(Debug)]
pub(super) enum JoinError {
    /// They ask for different devices.
    Conflict(Conflict),
    /// No device type has kernels for both.
    Kernels,
}

impl From<Conflict> for JoinError {
    fn from(conflict: Conflict) -> JoinError {
        JoinError::Conflict(conflict)
    }
}

#[derive(Clone, Copy, Debug)]
struct GroupNode {
    parent: u32,
    rank: u8,
    constraint: u32,
    types: u32,
}

/// The groups; at first each node is one. Constraints and type lists are known by number.
#[derive(Debug)]
pub(super) struct Groups {
    members: Vec<GroupNode>,
    pub constraints: Constraints,
    pub types: TypeLists,
}

impl Groups {
    pub fn new(constraints: Constraints, types: TypeLists, nodes: usize) -> Groups {
        Groups {
            members: Vec::with_capacity(nodes),
            constraints,
            types,
        }
    }

    /// Adds the next node as a group of its own.
    pub fn push(&mut self, constraint: u32, types: u32) {
        self.members.push(GroupNode {
            parent: self.members.len() as u32,
            rank: 0,
            constraint,
            types,
        });
    }

    /// The root of a node's group: the number of one of its nodes.
    pub fn root(&mut self, node: usize) -> usize {
        let mut at = node;
        loop {
            let parent = self.members[at].parent as usize;
            if parent == at {
                return at;
            }
            let next = self.members[parent].parent;
            self.members[at].parent = next;
            at = next as usize;
        }
    }

    /// The constraint of a group.
    pub fn constraint(&self, root: usize) -> u32 {
        self.members[root].constraint
    }

    /// The device types that can run all of a group.
    pub fn types(&self, root: usize) -> u32 {
        self.members[root].types
    }

    /// Joins the groups of `x` and `y`. Changes nothing if that fails.
    ///
    /// Union by rank, and of equal ranks `x` first: if soft placement drops parts in which groups
    /// differ, the outcome depends on the order of joining, and this is TensorFlow's.
    pub fn join(&mut self, x: usize, y: usize, soft: bool) -> Result<(), JoinError> {
        let (x, y) = (self.root(x), self.root(y));
        if x == y {
            return Ok(());
        }
        let (x_rank, y_rank) = (self.members[x].rank, self.members[y].rank);
        let (new, old) = if x_rank < y_rank { (y, x) } else { (x, y) };
        let (a, b) = (self.members[new], self.members[old]);
        let constraint = self.constraints.merged(a.constraint, b.constraint, soft)?;
        let types = self
            .types
            .common(a.types, b.types)
            .ok_or(JoinError::Kernels)?;
        self.members[old].parent = new as u32;
        self.members[new] = GroupNode {
            rank: a.rank.max(b.rank + u8::from(x_rank == y_rank)),
            constraint,
            types,
            ..a
        };
        Ok(())
    }

    /// Joins `user`, which takes a resource from `source`, to the group of the resource.
    pub fn join_resource(
        &mut self,
        source: usize,
        user: usize,
        soft: bool,
    ) -> Result<(), JoinError> {
        let (from, to) = (self.root(source), self.root(user));
        if from == to {
            return Ok(());
        }
        let (at, wanted) = (self.members[from].constraint, self.members[to].constraint);
        self.members[to].constraint = self.constraints.moved_to(wanted, at)?;
        self.join(from, to, soft).inspect_err(|_| {
            // The error shows the group's request, not the one it would have been brought to.
            self.members[to].constraint = wanted;
        })
    }

    /// Joins `user` to the group of a resource that it can do without, unless that would move it to another task.
    pub fn join_unmoved(&mut self, source: usize, user: usize) -> Result<(), JoinError> {
        let [from, to] = [source, user].map(|n| self.root(n));
        let (from, to) = (self.members[from].constraint, self.members[to].constraint);
        match self.constraints.names_task_alone(from, to) {
            true => Ok(()),
            false => self.join(source, user, false),
        }
    }
}
