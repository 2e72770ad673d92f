//! Node names: unique in a graph, nested by scopes, by TensorFlow's rules.

use std::collections::HashMap;

/// Generator of unique names.
///
/// Names differ in more than case, as TensorFlow's do, so that they can become file names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    used: HashMap<String, u32>,
}

impl Names {
    /// Reserves `name`, which must be free.
    pub(crate) fn reserve(&mut self, name: &str) {
        self.used.entry(name.to_lowercase()).or_insert(1);
    }

    /// Releases a name that [`unique`](Names::unique) made of `base` and that is no longer used.
    pub(crate) fn release(&mut self, base: &str, name: &str) {
        self.used.remove(&name.to_lowercase());
        let number = name.strip_prefix(base).and_then(|n| n.strip_prefix('_'));
        if let Some(number) = number.and_then(|n| n.parse::<u32>().ok())
            && let Some(next) = self.used.get_mut(&base.to_lowercase())
            && *next == number + 1
        {
            *next = number;
        }
    }

    /// Reserves `name` itself, or `name_1`, `name_2`, ... if it is taken, and returns it.
    pub(crate) fn unique(&mut self, name: &str) -> String {
        let key = name.to_lowercase();
        let Some(&count) = self.used.get(&key) else {
            self.used.insert(key, 1);
            return name.to_owned();
        };
        let mut n = count;
        loop {
            let candidate = format!("{name}_{n}");
            n += 1;
            let candidate_key = candidate.to_lowercase();
            if !self.used.contains_key(&candidate_key) {
                self.used.insert(key, n);
                self.used.insert(candidate_key, 1);
                return candidate;
            }
        }
    }
}

/// `true` if a node may have this name: `[A-Za-z0-9.][A-Za-z0-9_.\-/]*`.
pub(crate) fn is_valid(name: &str) -> bool {
    let mut chars = name.bytes();
    chars
        .next()
        .is_some_and(|c| c.is_ascii_alphanumeric() || c == b'.')
        && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b'-' | b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_name_gets_the_next_number() {
        let mut names = Names::default();
        assert_eq!(names.unique("x"), "x");
        assert_eq!(names.unique("x"), "x_1");
        assert_eq!(names.unique("x_1"), "x_1_1");
        assert_eq!(names.unique("X"), "X_2");
    }

    #[test]
    fn a_name_that_is_given_back_is_given_out_again() {
        let mut names = Names::default();
        for _ in 0..2 {
            assert_eq!(names.unique("x"), "x");
            names.release("x", "x");
        }
        assert_eq!(names.unique("x"), "x");
        for _ in 0..2 {
            assert_eq!(names.unique("x"), "x_1");
            names.release("x", "x_1");
        }
    }

    #[test]
    fn names_match_the_pattern() {
        for good in ["x", "9", ".a", "a/b-c_d.e"] {
            assert!(is_valid(good), "{good}");
        }
        for bad in ["", "_x", "/x", "a b", "é", "a:0"] {
            assert!(!is_valid(bad), "{bad}");
        }
    }
}
