//! Forward and backward variables of a sequence: probabilities of the ways to a label, and from it, as logarithms.

use super::scores::log_add;

const ZERO: f64 = f64::NEG_INFINITY;

/// Labels of a sequence with a blank before each and at the end, and the rules of the ways along them.
pub(super) struct Paths {
    pub labels: Vec<usize>,
    blank: usize,
    /// A label may be repeated over several times.
    merge_repeated: bool,
}

impl Paths {
    pub(super) fn new(own: &[usize], blank: usize, merge_repeated: bool) -> Paths {
        let mut labels = vec![blank];
        own.iter().for_each(|label| labels.extend([*label, blank]));
        Paths {
            labels,
            blank,
            merge_repeated,
        }
    }

    /// `true` if a way may stay at place `u`.
    fn stays(&self, u: usize) -> bool {
        self.merge_repeated || self.labels[u] == self.blank
    }

    /// `true` if a way may leave out the blank between places `u` and `u + 2`.
    fn skips(&self, u: usize) -> bool {
        let [from, to] = [u, u + 2].map(|u| self.labels[u]);
        to != self.blank && !(self.merge_repeated && from == to)
    }

    /// Probabilities of the ways that are at each place at each time, that time included: `[times][places]`.
    pub(super) fn forward(&self, log_y: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let places = self.labels.len();
        let mut all: Vec<Vec<f64>> = Vec::with_capacity(log_y.len());
        for y in log_y {
            let mut now = vec![ZERO; places];
            match all.last() {
                None => (0..places.min(2)).for_each(|u| now[u] = y[self.labels[u]]),
                Some(before) => {
                    for u in 0..places {
                        let mut sum = if self.stays(u) { before[u] } else { ZERO };
                        if u > 0 {
                            sum = log_add(sum, before[u - 1]);
                        }
                        if u > 1 && self.skips(u - 2) {
                            sum = log_add(sum, before[u - 2]);
                        }
                        now[u] = y[self.labels[u]] + sum;
                    }
                }
            }
            all.push(now);
        }
        all
    }

    /// Probabilities of the ways from each place at each time to the end, that time left out: `[times][places]`.
    pub(super) fn backward(&self, log_y: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let places = self.labels.len();
        let mut all = vec![vec![ZERO; places]; log_y.len()];
        if let Some(last) = all.last_mut() {
            last[places.saturating_sub(2)..].fill(0.0);
        }
        for t in (0..log_y.len().saturating_sub(1)).rev() {
            let (now, later) = all.split_at_mut(t + 1);
            let (later, y) = (&later[0], &log_y[t + 1]);
            let to = |u: usize| later[u] + y[self.labels[u]];
            for (u, sum) in now[t].iter_mut().enumerate() {
                *sum = if self.stays(u) { to(u) } else { ZERO };
                if u + 1 < places {
                    *sum = log_add(*sum, to(u + 1));
                }
                if u + 2 < places && self.skips(u) {
                    *sum = log_add(*sum, to(u + 2));
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_at_any_time_have_the_probability_of_the_labels() {
        let y: Vec<Vec<f64>> = [
            [0.5, 0.2, 0.3],
            [0.1, 0.6, 0.3],
            [0.25, 0.25, 0.5],
            [0.7, 0.1, 0.2],
        ]
        .iter()
        .map(|y| y.iter().map(|p: &f64| p.ln()).collect())
        .collect();
        for merge in [true, false] {
            let paths = Paths::new(&[0, 0], 2, merge);
            let (forward, backward) = (paths.forward(&y), paths.backward(&y));
            let at = |t: usize| {
                let ways = forward[t].iter().zip(&backward[t]).map(|(a, b)| a + b);
                ways.fold(ZERO, log_add)
            };
            for t in 1..y.len() {
                assert!((at(t) - at(0)).abs() < 1e-12, "{merge} {t}");
            }
        }
        // Two equal labels need a blank between them where repetitions are merged: at times 0 to 3 the ways are
        // a-a-, a-aa, a--a, aa-a, -a-a.
        let p = Paths::new(&[0, 0], 2, true).forward(&y);
        let wanted = 0.5 * 0.3 * 0.25 * (0.2 + 0.7)
            + 0.5 * 0.3 * 0.5 * 0.7
            + 0.5 * 0.1 * 0.5 * 0.7
            + 0.3 * 0.1 * 0.5 * 0.7;
        assert!((log_add(p[3][3], p[3][4]).exp() - wanted).abs() < 1e-12);
    }
}
