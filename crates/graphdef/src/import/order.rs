//! An order in which each node comes after those that it uses.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a node of a file waits for, by position.
pub(super) struct Waits {
    /// For each node: the nodes that it uses or waits for, what goes back in a loop left out.
    pub of: Vec<Vec<usize>>,
}

impl Waits {
    /// Each node after those that it waits for, otherwise in the order of the file; or a circle of
    /// nodes, each with the one that it waits for after it.
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
            false => Err(self.circle(&left)),
        }
    }

    /// A circle among the nodes that still wait.
    fn circle(&self, left: &[u32]) -> Vec<usize> {
        let waiting = |i: &usize| left[*i] > 0;
        let mut at = (0..left.len()).find(|i| waiting(i));
        // By node: when it was come by.
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
            // What waits does so for something that waits too.
            at = self.of[node].iter().copied().find(|i| waiting(i));
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_order_stands_where_it_can() {
        let waits = Waits {
            of: vec![vec![3], vec![], vec![1, 1], vec![], vec![0]],
        };
        assert_eq!(waits.order(), Ok(vec![1, 2, 3, 0, 4]));
    }

    #[test]
    fn a_circle_is_found_and_not_what_hangs_on_it() {
        let waits = Waits {
            of: vec![vec![1], vec![2], vec![3], vec![1], vec![]],
        };
        assert_eq!(waits.order(), Err(vec![1, 2, 3, 1]));
        assert_eq!(Waits { of: vec![vec![0]] }.order(), Err(vec![0, 0]));
    }
}
