//! Topological order of a file's nodes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The dependencies of a file's nodes, by position.
pub(super) struct Dependencies {
    /// For each node: the nodes that it uses or waits for, except over the back edges of loops.
    pub of: Vec<Vec<usize>>,
}

impl Dependencies {
    /// Returns a topological order, ties in the order of the file; or a cycle of nodes, each
    /// followed by the one that it waits for.
    pub(super) fn order(&self) -> Result<Vec<usize>, Vec<usize>> {
        let n = self.of.len();
        let mut left = vec![0u32; n];
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); n];
        for (node, waits) in self.of.iter().enumerate() {
            for &on in waits {
                left[node] += 1;
                users[on].push(node);
            }
        }
        let free = (0..n).filter(|&i| left[i] == 0).map(Reverse);
        let mut ready: BinaryHeap<Reverse<usize>> = free.collect();
        let mut order = Vec::with_capacity(n);
        while let Some(Reverse(node)) = ready.pop() {
            order.push(node);
            for &user in &users[node] {
                left[user] -= 1;
                if left[user] == 0 {
                    ready.push(Reverse(user));
                }
            }
        }
        match order.len() == n {
            true => Ok(order),
            false => Err(self.cycle(&left)),
        }
    }

    /// A cycle among the nodes that still wait.
    fn cycle(&self, left: &[u32]) -> Vec<usize> {
        let waiting = |i: &usize| left[*i] > 0;
        let mut at = (0..left.len()).find(|i| waiting(i));
        // By node: the step at which it was visited.
        let mut seen = vec![None; left.len()];
        let mut path = Vec::new();
        while let Some(node) = at {
            if let Some(start) = seen[node] {
                path.drain(..start);
                path.push(node);
                break;
            }
            seen[node] = Some(path.len());
            path.push(node);
            // A waiting node has a dependency that waits too.
            at = self.of[node].iter().copied().find(|i| waiting(i));
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_keep_the_order_of_the_file() {
        let waits = Dependencies {
            of: vec![vec![3], vec![], vec![1, 1], vec![], vec![0]],
        };
        assert_eq!(waits.order(), Ok(vec![1, 2, 3, 0, 4]));
    }

    #[test]
    fn a_cycle_is_found_without_its_dependents() {
        let waits = Dependencies {
            of: vec![vec![1], vec![2], vec![3], vec![1], vec![]],
        };
        assert_eq!(waits.order(), Err(vec![1, 2, 3, 1]));
        assert_eq!(Dependencies { of: vec![vec![0]] }.order(), Err(vec![0, 0]));
    }
}
