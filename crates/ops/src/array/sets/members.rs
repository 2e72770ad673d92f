//! Members of sets as a sorted list, and operations on two such lists.

use std::cmp::Ordering;
use std::sync::Arc;

use thalweg_device::{KernelError, StopCheck};
use thalweg_tensor::Memory;

use crate::support::tensors::AccountedVec;

/// A member of one of several sets. Members are ordered by their set, and then by their value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Member<T> {
    /// Number of the set.
    pub(super) set: usize,
    pub(super) value: T,
}

/// Members of several sets: distinct, in ascending order.
pub(super) type Members<T> = AccountedVec<Member<T>>;

/// Sorts members, and removes those that repeat.
pub(super) fn sort_distinct<T: Copy + Ord>(members: &mut Members<T>) {
    members.sort_unstable();
    let mut kept = 0;
    for i in 0..members.len() {
        if kept == 0 || members[kept - 1] != members[i] {
            members[kept] = members[i];
            kept += 1;
        }
    }
    members.truncate(kept);
}

/// Operation on two sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetOperation {
    /// Members of the first set alone.
    FirstOnly,
    /// Members of the second set alone.
    SecondOnly,
    Intersection,
    Union,
}

impl SetOperation {
    /// Operation with this name, in upper or lower case.
    pub(super) fn from_name(name: &str) -> Option<SetOperation> {
        match name.to_ascii_lowercase().as_str() {
            "a-b" => Some(SetOperation::FirstOnly),
            "b-a" => Some(SetOperation::SecondOnly),
            "intersection" => Some(SetOperation::Intersection),
            "union" => Some(SetOperation::Union),
            _ => None,
        }
    }

    /// Result of the operation on each pair of sets with the same number.
    pub(super) fn apply<T: Copy + Ord + Default>(
        self,
        [first, second]: [&[Member<T>]; 2],
        memory: &Arc<Memory>,
        stop: &mut StopCheck<'_>,
    ) -> Result<Members<T>, KernelError> {
        let most = match self {
            SetOperation::FirstOnly => first.len(),
            SetOperation::SecondOnly => second.len(),
            SetOperation::Intersection => first.len().min(second.len()),
            SetOperation::Union => first.len().saturating_add(second.len()),
        };
        let mut result = AccountedVec::filled(most, Member::default(), memory)?;
        let (mut i, mut j, mut len) = (0, 0, 0);
        loop {
            stop.tick()?;
            let order = match (first.get(i), second.get(j)) {
                (Some(a), Some(b)) => a.cmp(b),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => break,
            };
            let (kept, member) = match order {
                Ordering::Less => (
                    matches!(self, SetOperation::FirstOnly | SetOperation::Union),
                    first[i],
                ),
                Ordering::Greater => (
                    matches!(self, SetOperation::SecondOnly | SetOperation::Union),
                    second[j],
                ),
                Ordering::Equal => (
                    matches!(self, SetOperation::Intersection | SetOperation::Union),
                    first[i],
                ),
            };
            i += usize::from(order.is_le());
            j += usize::from(order.is_ge());
            if kept {
                result[len] = member;
                len += 1;
            }
        }
        result.truncate(len);
        Ok(result)
    }
}
