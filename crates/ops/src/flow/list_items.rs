//! Elements of a list, as a persistent tree with shared branches: a copy of a list with one element changed costs
//! time and memory in proportion to the depth of the tree.

use std::sync::Arc;

use thalweg_device::KernelError;
use thalweg_tensor::{Nesting, Tensor};

/// A branch has two to the power of this many children.
const BRANCH_BITS: u32 = 4;
const BRANCH_WIDTH: usize = 1 << BRANCH_BITS;

/// Elements by index; some may be absent.
#[derive(Clone, Default)]
pub(super) struct Items {
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
    Branch(Arc<[TreeNode; BRANCH_WIDTH]>),
}

/// Maximum number of elements under a node at this height.
fn max_items(height: u32) -> usize {
    1usize
        .checked_shl(BRANCH_BITS * height)
        .unwrap_or(usize::MAX)
}

impl Items {
    /// Makes `len` absent elements.
    pub(super) fn absent(len: usize) -> Items {
        let mut items = Items::default();
        items.resize(len);
        items
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
        while let TreeNode::Branch(children) = node {
            height -= 1;
            node = &children[(i >> (BRANCH_BITS * height)) % BRANCH_WIDTH];
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
    pub(super) fn set(&mut self, i: usize, item: Tensor) {
        if i >= self.len {
            return;
        }
        self.uncount(i);
        let held = item.nesting();
        self.item_nesting.depth = self.item_nesting.depth.max(held.depth);
        self.item_nesting.values = self.item_nesting.values.saturating_add(held.values);
        self.root.set(self.height, i, item);
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
    pub(super) fn push(&mut self, item: Tensor) {
        self.resize(self.len + 1);
        self.set(self.len - 1, item);
    }

    /// Truncates to `len` elements, or adds absent ones.
    pub(super) fn resize(&mut self, len: usize) {
        if len < self.len {
            if self.item_nesting.values > 0 {
                (len..self.len).for_each(|i| self.uncount(i));
            }
            self.root.truncate(self.height, len);
        }
        while max_items(self.height) < len {
            let below = std::mem::take(&mut self.root);
            if !matches!(below, TreeNode::Absent) {
                let mut children: [TreeNode; BRANCH_WIDTH] = Default::default();
                children[0] = below;
                self.root = TreeNode::Branch(Arc::new(children));
            }
            self.height += 1;
        }
        self.len = len;
    }

    /// Applies `f` to each element that is present.
    pub(super) fn map(
        &self,
        f: &mut impl FnMut(&Tensor) -> Result<Tensor, KernelError>,
    ) -> Result<Items, KernelError> {
        Ok(Items {
            root: self.root.map(f)?,
            ..*self
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
        one.resize(max_items);
        other.resize(max_items);
        let nested = one.item_nesting.values > 0 || other.item_nesting.values > 0;
        let mut merged = Items {
            root: one.root.merge(&other.root, f)?,
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
    fn set(&mut self, height: u32, i: usize, item: Tensor) {
        let Some(below) = height.checked_sub(1) else {
            *self = TreeNode::Item(item);
            return;
        };
        if let TreeNode::Absent = self {
            *self = TreeNode::Branch(Arc::default());
        }
        if let TreeNode::Branch(children) = self {
            let place = (i >> (BRANCH_BITS * below)) % BRANCH_WIDTH;
            Arc::make_mut(children)[place].set(below, i, item);
        }
    }

    /// Keeps the first `len` elements.
    fn truncate(&mut self, height: u32, len: usize) {
        if len == 0 {
            *self = TreeNode::Absent;
        } else if let TreeNode::Branch(children) = self {
            let each = max_items(height - 1);
            let last = (len - 1) / each;
            for (k, child) in Arc::make_mut(children).iter_mut().enumerate().skip(last) {
                child.truncate(height - 1, len.saturating_sub(k * each));
            }
        }
    }

    fn map(
        &self,
        f: &mut impl FnMut(&Tensor) -> Result<Tensor, KernelError>,
    ) -> Result<TreeNode, KernelError> {
        Ok(match self {
            TreeNode::Absent => TreeNode::Absent,
            TreeNode::Item(item) => TreeNode::Item(f(item)?),
            TreeNode::Branch(children) => {
                let mut made: [TreeNode; BRANCH_WIDTH] = Default::default();
                for (made, child) in made.iter_mut().zip(children.iter()) {
                    *made = child.map(f)?;
                }
                TreeNode::Branch(Arc::new(made))
            }
        })
    }

    fn merge(
        &self,
        other: &TreeNode,
        f: &mut impl FnMut(&Tensor, &Tensor) -> Result<Tensor, KernelError>,
    ) -> Result<TreeNode, KernelError> {
        Ok(match (self, other) {
            (TreeNode::Item(one), TreeNode::Item(other)) => TreeNode::Item(f(one, other)?),
            (TreeNode::Branch(one), TreeNode::Branch(other)) => {
                let mut made: [TreeNode; BRANCH_WIDTH] = Default::default();
                for (k, made) in made.iter_mut().enumerate() {
                    *made = one[k].merge(&other[k], f)?;
                }
                TreeNode::Branch(Arc::new(made))
            }
            (TreeNode::Absent, node) | (node, _) => node.clone(),
        })
    }
}

impl FromIterator<Tensor> for Items {
    fn from_iter<I: IntoIterator<Item = Tensor>>(items: I) -> Items {
        let mut all = Items::default();
        items.into_iter().for_each(|item| all.push(item));
        all
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
        items.resize(len);
        items
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
                        items.push(Tensor::scalar(n));
                        vector.push(Some(n));
                    }
                    1 if at < vector.len() => {
                        items.set(at, Tensor::scalar(n));
                        vector[at] = Some(n);
                    }
                    2 => {
                        items.resize(at);
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
                let mut items = resized(&Items::absent(before), len);
                for &i in places.iter().filter(|&&i| i < len) {
                    items.set(i, Tensor::scalar(i as i32));
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
