//! Elements of a list, as a persistent tree with shared branches: a copy of a list with one element changed costs
//! time and memory in proportion to the depth of the tree.

use std::sync::Arc;

use thalweg_device::KernelError;
use thalweg_tensor::{Memory, Nesting, Reservation, Tensor};

use crate::support::tensors::reserved;

/// A branch has two to the power of this many children.
const BRANCH_BITS: u32 = 4;
const BRANCH_WIDTH: usize = 1 << BRANCH_BITS;

/// Elements by index; some may be absent.
#[derive(Clone, Default)]
pub(super) struct Items {
    /// Memory that the branches count against; `None` for no limit.
    memory: Option<Arc<Memory>>,
    len: usize,
    /// Number of branches above an element.
    height: u32,
    root: TreeNode,
    /// Nesting of the elements that are variants.
    item_nesting: Nesting,
}

/// A place of the tree.
#[derive(Clone, Default)]
enum TreeNode {
    /// Nothing here, nor below.
    #[default]
    Absent,
    Item(Tensor),
    Branch(Arc<TreeBranch>),
}

/// A branch of the tree, which counts against a memory.
struct TreeBranch {
    children: [TreeNode; BRANCH_WIDTH],
    _reserved: Reservation,
}

impl TreeBranch {
    /// A branch with these children.
    fn new(
        children: [TreeNode; BRANCH_WIDTH],
        memory: Option<&Arc<Memory>>,
    ) -> Result<TreeBranch, KernelError> {
        Ok(TreeBranch {
            children,
            _reserved: reserved(size_of::<TreeBranch>(), memory)?,
        })
    }

    /// The children of a branch that no other list shares: a copy, if one does.
    fn own<'b>(
        branch: &'b mut Arc<TreeBranch>,
        memory: Option<&Arc<Memory>>,
    ) -> Result<&'b mut [TreeNode; BRANCH_WIDTH], KernelError> {
        if Arc::get_mut(branch).is_none() {
            *branch = Arc::new(TreeBranch::new(branch.children.clone(), memory)?);
        }
        Arc::get_mut(branch)
            .map(|branch| &mut branch.children)
            .ok_or(KernelError::Argument("a branch of its own"))
    }
}

/// Maximum number of elements under a node at this height.
fn max_items(height: u32) -> usize {
    1usize
        .checked_shl(BRANCH_BITS * height)
        .unwrap_or(usize::MAX)
}

impl Items {
    /// Makes `len` absent elements, whose branches count against a memory.
    pub(super) fn absent(len: usize, memory: &Arc<Memory>) -> Result<Items, KernelError> {
        let mut items = Items {
            memory: Some(memory.clone()),
            ..Items::default()
        };
        items.resize(len)?;
        Ok(items)
    }

    /// These elements, whose branches count against a memory.
    pub(super) fn of(
        all: impl IntoIterator<Item = Tensor>,
        memory: &Arc<Memory>,
    ) -> Result<Items, KernelError> {
        let mut items = Items::absent(0, memory)?;
        all.into_iter().try_for_each(|item| items.push(item))?;
        Ok(items)
    }

    /// Number of elements, including absent ones.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Element at an index, if it is present.
    pub(super) fn get(&self, i: usize) -> Option<&Tensor> {
        let (mut node, mut height) = (&self.root, self.height);
        if i >= self.len {
            return None;
        }
        while let TreeNode::Branch(branch) = node {
            height -= 1;
            node = &branch.children[(i >> (BRANCH_BITS * height)) % BRANCH_WIDTH];
        }
        match node {
            TreeNode::Item(item) => Some(item),
            _ => None,
        }
    }

    /// All elements, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Option<&Tensor>> {
        (0..self.len).map(|i| self.get(i))
    }

    /// Sets the element at an index, which must exist.
    ///
    /// # Errors
    /// [`KernelError::Memory`] if the limit does not allow it.
    pub(super) fn set(&mut self, i: usize, item: Tensor) -> Result<(), KernelError> {
        if i >= self.len {
            return Ok(());
        }
        let (before, held) = (self.get(i).map(Tensor::nesting), item.nesting());
        self.root.set(self.height, i, item, self.memory.as_ref())?;
        let nesting = &mut self.item_nesting;
        nesting.depth = nesting.depth.max(held.depth);
        nesting.values = nesting
            .values
            .saturating_sub(before.unwrap_or_default().values)
            .saturating_add(held.values);
        Ok(())
    }

    /// Removes the element at an index from the count of nesting.
    fn uncount(&mut self, i: usize) {
        let held = self.get(i).map(Tensor::nesting).unwrap_or_default();
        self.item_nesting.values = self.item_nesting.values.saturating_sub(held.values);
    }

    /// Nesting of values in a list of these elements. An absent element counts as a present one: it stands for
    /// zeros.
    pub(super) fn nesting(&self) -> Nesting {
        Nesting {
            values: self.item_nesting.values.saturating_add(self.len as u64),
            ..self.item_nesting
        }
    }

    /// Appends an element.
    ///
    /// # Errors
    /// As [`Items::set`].
    pub(super) fn push(&mut self, item: Tensor) -> Result<(), KernelError> {
        self.resize(self.len + 1)?;
        self.set(self.len - 1, item)
    }

    /// Truncates to `len` elements, or adds absent ones.
    ///
    /// # Errors
    /// As [`Items::set`].
    pub(super) fn resize(&mut self, len: usize) -> Result<(), KernelError> {
        if len < self.len {
            if self.item_nesting.values > 0 {
                (len..self.len).for_each(|i| self.uncount(i));
            }
            self.root.truncate(self.height, len, self.memory.as_ref())?;
        }
        while max_items(self.height) < len {
            let below = std::mem::take(&mut self.root);
            if !matches!(below, TreeNode::Absent) {
                let mut children: [TreeNode; BRANCH_WIDTH] = Default::default();
                children[0] = below;
                let branch = TreeBranch::new(children, self.memory.as_ref())?;
                self.root = TreeNode::Branch(Arc::new(branch));
            }
            self.height += 1;
        }
        self.len = len;
        Ok(())
    }

    /// Applies `f` to each element that is present.
    pub(super) fn map(
        &self,
        f: &mut impl FnMut(&Tensor) -> Result<Tensor, KernelError>,
    ) -> Result<Items, KernelError> {
        Ok(Items {
            root: self.root.map(f, self.memory.as_ref())?,
            ..self.clone()
        })
    }

    /// Combines the elements of two lists of one length by `f`; an element without a counterpart stays unchanged.
    pub(super) fn merge(
        &self,
        other: &Items,
        f: &mut impl FnMut(&Tensor, &Tensor) -> Result<Tensor, KernelError>,
    ) -> Result<Items, KernelError> {
        // The tree that was longer before may be higher.
        let (mut one, mut other) = (self.clone(), other.clone());
        let len = one.len;
        let max_items = max_items(one.height.max(other.height));
        one.resize(max_items)?;
        other.resize(max_items)?;
        let nested = one.item_nesting.values > 0 || other.item_nesting.values > 0;
        let mut merged = Items {
            root: one.root.merge(&other.root, f, one.memory.as_ref())?,
            ..one
        };
        merged.len = len;
        if nested {
            let all = merged.iter().flatten().map(Tensor::nesting);
            merged.item_nesting = all.fold(Nesting::default(), |sum, held| Nesting {
                depth: sum.depth.max(held.depth),
                values: sum.values.saturating_add(held.values),
            });
        }
        Ok(merged)
    }
}

impl TreeNode {
    fn set(
        &mut self,
        height: u32,
        i: usize,
        item: Tensor,
        memory: Option<&Arc<Memory>>,
    ) -> Result<(), KernelError> {
        let Some(below) = height.checked_sub(1) else {
            *self = TreeNode::Item(item);
            return Ok(());
        };
        if let TreeNode::Absent = self {
            *self = TreeNode::Branch(Arc::new(TreeBranch::new(Default::default(), memory)?));
        }
        if let TreeNode::Branch(branch) = self {
            let place = (i >> (BRANCH_BITS * below)) % BRANCH_WIDTH;
            TreeBranch::own(branch, memory)?[place].set(below, i, item, memory)?;
        }
        Ok(())
    }

    /// Keeps the first `len` elements.
    fn truncate(
        &mut self,
        height: u32,
        len: usize,
        memory: Option<&Arc<Memory>>,
    ) -> Result<(), KernelError> {
        if len == 0 {
            *self = TreeNode::Absent;
        } else if let TreeNode::Branch(branch) = self {
            let each = max_items(height - 1);
            let last = (len - 1) / each;
            let children = TreeBranch::own(branch, memory)?.iter_mut();
            for (k, child) in children.enumerate().skip(last) {
                child.truncate(height - 1, len.saturating_sub(k * each), memory)?;
            }
        }
        Ok(())
    }

    fn map(
        &self,
        f: &mut impl FnMut(&Tensor) -> Result<Tensor, KernelError>,
        memory: Option<&Arc<Memory>>,
    ) -> Result<TreeNode, KernelError> {
        Ok(match self {
            TreeNode::Absent => TreeNode::Absent,
            TreeNode::Item(item) => TreeNode::Item(f(item)?),
            TreeNode::Branch(branch) => {
                let mut made: [TreeNode; BRANCH_WIDTH] = Default::default();
                for (made, child) in made.iter_mut().zip(&branch.children) {
                    *made = child.map(f, memory)?;
                }
                TreeNode::Branch(Arc::new(TreeBranch::new(made, memory)?))
            }
        })
    }

    fn merge(
        &self,
        other: &TreeNode,
        f: &mut impl FnMut(&Tensor, &Tensor) -> Result<Tensor, KernelError>,
        memory: Option<&Arc<Memory>>,
    ) -> Result<TreeNode, KernelError> {
        Ok(match (self, other) {
            (TreeNode::Item(one), TreeNode::Item(other)) => TreeNode::Item(f(one, other)?),
            (TreeNode::Branch(one), TreeNode::Branch(other)) => {
                let mut made: [TreeNode; BRANCH_WIDTH] = Default::default();
                for (k, made) in made.iter_mut().enumerate() {
                    *made = one.children[k].merge(&other.children[k], f, memory)?;
                }
                TreeNode::Branch(Arc::new(TreeBranch::new(made, memory)?))
            }
            (TreeNode::Absent, node) | (node, _) => node.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbers(items: &Items) -> Vec<Option<i32>> {
        let number = |t: &Tensor| t.to_ints().map(|n| n[0] as i32);
        items.iter().map(|i| i.and_then(number)).collect()
    }

    fn resized(items: &Items, len: usize) -> Items {
        let mut items = items.clone();
        items.resize(len).unwrap();
        items
    }

    #[test]
    fn one_value_in_many_places_counts_against_the_memory() {
        let memory = Arc::new(Memory::new(Some(1 << 20)));
        let (value, mut items) = (Tensor::scalar(1), Items::absent(0, &memory).unwrap());
        (0..256).for_each(|_| items.push(value.clone()).unwrap());
        assert_eq!(memory.used(), 17 * size_of::<TreeBranch>());
        // A copy shares the branches, and has those of a changed element for itself.
        let mut copy = items.clone();
        copy.set(3, value.clone()).unwrap();
        assert_eq!(memory.used(), 19 * size_of::<TreeBranch>());
        copy.resize(20).unwrap();
        let refused = (256..1_000_000).find(|_| items.push(value.clone()).is_err());
        let most = (1 << 20) / size_of::<TreeNode>();
        assert!(
            refused.is_some_and(|n| n > most / 2 && n <= most),
            "{refused:?}, {most}"
        );
        assert!(items.map(&mut |item| Ok(item.clone())).is_err());
        drop((items, copy));
        assert_eq!(memory.used(), 0);
    }

    proptest! {
        /// A vector of options with the same elements.
        #[test]
        fn items_behave_like_a_vector(steps in prop::collection::vec((0usize..4, 0usize..600), 1..60)) {
            let (mut items, mut vector): (Items, Vec<Option<i32>>) = Default::default();
            let mut versions = Vec::new();
            for (n, (step, at)) in steps.into_iter().enumerate() {
                let n = n as i32;
                match step {
                    0 => {
                        items.push(Tensor::scalar(n))?;
                        vector.push(Some(n));
                    }
                    1 if at < vector.len() => {
                        items.set(at, Tensor::scalar(n))?;
                        vector[at] = Some(n);
                    }
                    2 => {
                        items.resize(at)?;
                        vector.resize(at, None);
                    }
                    _ => {}
                }
                versions.push((items.clone(), vector.clone()));
            }
            for (items, vector) in &versions {
                prop_assert_eq!(items.len(), vector.len());
                prop_assert_eq!(&numbers(items), vector);
            }
        }

        /// Merges lists of any length.
        #[test]
        fn merge_keeps_items_of_one_list_and_adds_items_of_both(
            one in prop::collection::vec(0usize..300, 0..40),
            other in prop::collection::vec(0usize..300, 0..40),
            before in 1usize..5000,
            len in 1usize..300,
        ) {
            let filled = |places: &[usize], before: usize| {
                let mut items = resized(&resized(&Items::default(), before), len);
                for &i in places.iter().filter(|&&i| i < len) {
                    items.set(i, Tensor::scalar(i as i32)).unwrap();
                }
                items
            };
            let (a, b) = (filled(&one, 0), filled(&other, before));
            let mut add = |a: &Tensor, b: &Tensor| crate::support::tensors::sum(a.clone(), b);
            let expected: Vec<Option<i32>> = (0..len)
                .map(|i| match one.contains(&i) as i32 + other.contains(&i) as i32 {
                    0 => None,
                    times => Some(times * i as i32),
                })
                .collect();
            prop_assert_eq!(numbers(&a.merge(&b, &mut add)?), expected.clone());
            prop_assert_eq!(numbers(&b.merge(&a, &mut add)?), expected);
        }
    }
}
