//! The properties of a graphics card.

/// A graphics card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Its number for the driver.
    pub number: i32,
    /// Its name: `NVIDIA H200`.
    pub name: String,
    /// Its compute capability: (9, 0).
    pub capability: (i32, i32),
    /// Bytes of its memory.
    pub memory: usize,
}

impl Card {
    /// Returns the architecture that kernels are compiled for: `sm_90`.
    pub fn architecture(&self) -> String {
        format!("sm_{}{}", self.capability.0, self.capability.1)
    }
}

#[cfg(test)]
mod tests {
    use super::Card;

    #[test]
    fn kernels_are_compiled_for_the_compute_capability() {
        for (capability, architecture) in [((9, 0), "sm_90"), ((12, 1), "sm_121")] {
            let card = Card {
                number: 0,
                name: String::new(),
                capability,
                memory: 0,
            };
            assert_eq!(card.architecture(), architecture);
        }
    }
}
