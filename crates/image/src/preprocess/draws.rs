//! Random numbers of an element.

/// A sequence of random numbers that a seed and the number of an element determine (SplitMix64).
///
/// ```
/// use thalweg_image::preprocess::Draws;
///
/// let numbers = |element| {
///     let mut draws = Draws::new(7, element);
///     [draws.word(), draws.word()]
/// };
/// assert_eq!(numbers(3), numbers(3));
/// assert_ne!(numbers(3), numbers(4));
/// ```
#[derive(Clone, Debug)]
pub struct Draws {
    state: u64,
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
fn mixed(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

impl Draws {
    /// The sequence of an element. Number elements over all epochs, so that each epoch has other ones.
    pub fn new(seed: u64, element: u64) -> Draws {
        Draws {
            state: mixed(mixed(seed).wrapping_add(element)),
        }
    }

    /// 32 random bits.
    pub fn word(&mut self) -> u32 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (mixed(self.state) >> 32) as u32
    }

    /// A number of `low` to `high`, exclusive.
    pub fn uniform(&mut self, low: f32, high: f32) -> f32 {
        let unit = (self.word() >> 8) as f32 / (1 << 24) as f32;
        low + unit * (high - low)
    }

    /// A whole number below `n`, or 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.word()) * n as u128) >> 32) as usize
    }

    /// `true` or `false`.
    pub fn coin(&mut self) -> bool {
        self.word() >> 31 == 1
    }
}
