//! Random numbers that depend on a seed and on their own place alone, so that ranks agree on them.

/// A number in `[0, 1)` for a place.
///
/// The mix is SplitMix64 (Steele, Lea and Flood, 2014), twice: of the seed and the first part, then of the second.
pub(crate) fn uniform(seed: u64, (a, b): (u64, u64)) -> f64 {
    let mixed = mix(mix(seed ^ mix(a)).wrapping_add(b));
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}

fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fill_the_unit_interval_evenly_and_differ_by_place_and_seed() {
        let all: Vec<f64> = (0..10_000).map(|i| uniform(7, (3, i))).collect();
        assert!(all.iter().all(|x| (0.0..1.0).contains(x)));
        for tenth in 0..10 {
            let inside = all.iter().filter(|x| (*x * 10.0) as usize == tenth).count();
            assert!((850..1150).contains(&inside), "{tenth}: {inside}");
        }
        assert_ne!(uniform(7, (3, 0)), uniform(7, (4, 0)));
        assert_ne!(uniform(7, (3, 0)), uniform(8, (3, 0)));
    }
}
