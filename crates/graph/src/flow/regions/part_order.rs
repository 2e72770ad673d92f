//! The order of parts: which parts depend on which. A graph may have thousands of conditionals.

/// The number of a part.
pub(super) type PartId = u32;

/// A set of parts: a bit for each.
#[derive(Clone, Default)]
pub(super) struct PartSet(Vec<u64>);

impl PartSet {
    pub(super) fn insert(&mut self, part: PartId) {
        let word = part as usize / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (part % 64);
    }

    pub(super) fn remove(&mut self, part: PartId) {
        if let Some(word) = self.0.get_mut(part as usize / 64) {
            *word &= !(1 << (part % 64));
        }
    }

    pub(super) fn contains(&self, part: PartId) -> bool {
        let word = self.0.get(part as usize / 64);
        word.is_some_and(|w| w & (1 << (part % 64)) != 0)
    }

    /// Adds all parts of another set.
    pub(super) fn add(&mut self, other: &PartSet) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own |= other;
        }
    }

    fn has_all(&self, other: &PartSet) -> bool {
        let own = self.0.iter().copied().chain(std::iter::repeat(0));
        other
            .0
            .iter()
            .zip(own)
            .all(|(other, own)| other & !own == 0)
    }

    /// The parts, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = PartId> + '_ {
        let words = (0u32..).zip(&self.0).filter(|(_, word)| **word != 0);
        words.flat_map(|(i, &word)| {
            (0..64)
                .filter(move |bit| word & (1 << bit) != 0)
                .map(move |bit| 64 * i + bit)
        })
    }
}

/// By part: all parts that it depends on, directly or through others.
#[derive(Default)]
pub(super) struct PartOrder(Vec<PartSet>);

impl PartOrder {
    /// `true` if a part depends on another one.
    pub(super) fn is_after(&self, part: PartId, other: PartId) -> bool {
        let before = self.0.get(part as usize);
        before.is_some_and(|before| before.contains(other))
    }

    /// Notes that a part depends on others.
    pub(super) fn put_after(&mut self, part: PartId, others: &PartSet) {
        let at = part as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, PartSet::default());
        }
        if self.0[at].has_all(others) {
            return;
        }
        let mut all = self.0[at].clone();
        all.add(others);
        for other in others.iter() {
            if let Some(before) = self.0.get(other as usize) {
                all.add(before);
            }
        }
        for before in &mut self.0 {
            if before.contains(part) {
                before.add(&all);
            }
        }
        self.0[at] = all;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(parts: &[PartId]) -> PartSet {
        let mut set = PartSet::default();
        parts.iter().for_each(|&p| set.insert(p));
        set
    }

    #[test]
    fn a_set_has_the_parts_that_were_put_in() {
        let mut parts = set(&[3, 64, 200]);
        parts.remove(64);
        parts.remove(1000);
        assert_eq!(parts.iter().collect::<Vec<_>>(), [3, 200]);
        assert!(parts.contains(200) && !parts.contains(64) && !parts.contains(1000));
    }

    #[test]
    fn a_part_depends_on_what_its_parts_depend_on_whenever_that_is_known() {
        let mut order = PartOrder::default();
        order.put_after(2, &set(&[1]));
        order.put_after(100, &set(&[2]));
        // Known later than part 100.
        order.put_after(1, &set(&[0]));
        for (part, other, expected) in [
            (2, 1, true),
            (100, 1, true),
            (100, 0, true),
            (2, 0, true),
            (1, 2, false),
            (0, 100, false),
            (500, 0, false),
        ] {
            assert_eq!(order.is_after(part, other), expected, "{part} {other}");
        }
    }
}
