//! Conformance checks of every collective, run by each rank: over shared memory, over TCP, over MPI, and between GPUs.

use serde_json::json;
use thalweg_collective::{ALL_RANKS, Ranks, ReduceOp, Reduction};
use thalweg_tensor::{DType, dispatch};

const LENS: [usize; 8] = [0, 1, 2, 7, 31, 1_000, 32_769, 100_003];

/// Implementation of collectives, with the arguments of [`Ranks`].
pub trait Engine {
    /// This rank, and the number of ranks.
    fn place(&self) -> (usize, usize);
    /// `true` if an average is a sum that is divided once, at the end.
    fn divides_last(&self) -> bool {
        true
    }
    fn all_reduce(
        &mut self,
        set: i32,
        name: &str,
        data: &mut [u8],
        dtype: DType,
        reduction: Reduction,
    ) -> Outcome;
    fn broadcast(&mut self, name: &str, root: usize, data: &mut [u8]) -> Outcome;
    fn all_gather(&mut self, name: &str, own: &[u8], lens: &[usize], output: &mut [u8]) -> Outcome;
    fn reduce_scatter(
        &mut self,
        name: &str,
        data: &mut [u8],
        lens: &[usize],
        dtype: DType,
        reduction: Reduction,
    ) -> Outcome;
    fn all_to_all(
        &mut self,
        name: &str,
        input: (&[u8], &[usize]),
        output: (&mut [u8], &[usize]),
    ) -> Outcome;
    fn barrier(&mut self, name: &str) -> Outcome;
    fn add_set(&mut self, members: &[usize]) -> Result<i32, String>;
    /// Checks that a value is the same on all ranks.
    fn check_equal(&mut self, name: &str, own: &str) -> Outcome;
}

/// Result of a collective.
pub type Outcome = Result<(), String>;

fn outcome(result: thalweg_collective::Result<()>) -> Outcome {
    result.map_err(|e| e.to_string())
}

impl Engine for Ranks {
    fn place(&self) -> (usize, usize) {
        (self.rank(), self.size())
    }

    fn all_reduce(
        &mut self,
        set: i32,
        name: &str,
        data: &mut [u8],
        dtype: DType,
        reduction: Reduction,
    ) -> Outcome {
        outcome(Ranks::all_reduce(self, set, name, data, dtype, reduction))
    }

    fn broadcast(&mut self, name: &str, root: usize, data: &mut [u8]) -> Outcome {
        outcome(Ranks::broadcast(self, ALL_RANKS, name, root, data))
    }

    fn all_gather(&mut self, name: &str, own: &[u8], lens: &[usize], output: &mut [u8]) -> Outcome {
        outcome(Ranks::all_gather(self, ALL_RANKS, name, own, lens, output))
    }

    fn reduce_scatter(
        &mut self,
        name: &str,
        data: &mut [u8],
        lens: &[usize],
        dtype: DType,
        reduction: Reduction,
    ) -> Outcome {
        outcome(Ranks::reduce_scatter(
            self, ALL_RANKS, name, data, lens, dtype, reduction,
        ))
    }

    fn all_to_all(
        &mut self,
        name: &str,
        input: (&[u8], &[usize]),
        output: (&mut [u8], &[usize]),
    ) -> Outcome {
        outcome(Ranks::all_to_all(self, ALL_RANKS, name, input, output))
    }

    fn barrier(&mut self, name: &str) -> Outcome {
        outcome(Ranks::barrier(self, ALL_RANKS, name))
    }

    fn add_set(&mut self, members: &[usize]) -> Result<i32, String> {
        Ranks::add_set(self, members).map_err(|e| e.to_string())
    }

    fn check_equal(&mut self, name: &str, own: &str) -> Outcome {
        outcome(Ranks::check_equal(self, name, &json!(own)))
    }
}

/// Integers, for which sums are exact in every order.
pub fn value(rank: usize, i: usize) -> f32 {
    ((rank * 31 + i * 17) % 101) as f32 - 50.0
}

/// Runs all checks.
pub fn check_all(ranks: &mut impl Engine) {
    reductions(ranks);
    rounded_sums(ranks);
    dtypes(ranks);
    copies(ranks);
    parts(ranks);
    sets(ranks);
}

fn reduce(ranks: &mut impl Engine, set: i32, data: &mut [f32], op: ReduceOp) {
    let reduction = Reduction::of(op);
    let bytes = bytemuck::cast_slice_mut(data);
    ranks
        .all_reduce(set, "x", bytes, DType::F32, reduction)
        .unwrap();
}

/// Checks that reductions of every length are exact.
pub fn reductions(ranks: &mut impl Engine) {
    let (own, size) = ranks.place();
    for op in [
        ReduceOp::Sum,
        ReduceOp::Average,
        ReduceOp::Min,
        ReduceOp::Max,
        ReduceOp::Product,
    ] {
        // Products of 1, -1 and 2 are exact too.
        let value = |rank: usize, i: usize| match op {
            ReduceOp::Product => [1.0, -1.0, 2.0][(rank + i) % 3],
            _ => value(rank, i),
        };
        for len in LENS {
            let mut data: Vec<f32> = (0..len).map(|i| value(own, i)).collect();
            reduce(ranks, ALL_RANKS, &mut data, op);
            for (i, &element) in data.iter().enumerate() {
                let all = (0..size).map(|r| value(r, i));
                let expected = match op {
                    ReduceOp::Sum => all.sum(),
                    ReduceOp::Average => all.sum::<f32>() * (1.0 / size as f32),
                    ReduceOp::Min => all.fold(f32::INFINITY, f32::min),
                    ReduceOp::Max => all.fold(f32::NEG_INFINITY, f32::max),
                    _ => all.product(),
                };
                let rounds = op == ReduceOp::Average && !ranks.divides_last();
                let most = if rounds { 1e-5 * 50.0 } else { 0.0 };
                assert!(
                    (element - expected).abs() <= most,
                    "{size} ranks, {op}, element {i} of {len}: {element} and {expected}"
                );
            }
        }
    }
}

/// Checks that rounded sums have the same bits on all ranks and in every run.
pub fn rounded_sums(ranks: &mut impl Engine) {
    fn run(ranks: &mut impl Engine) -> String {
        let (own, _) = ranks.place();
        let mut data: Vec<f32> = (0..20_011).map(|i| (value(own, i) + 0.1).sin()).collect();
        reduce(ranks, ALL_RANKS, &mut data, ReduceOp::Sum);
        let mix = |h: u64, x: &f32| (h ^ u64::from(x.to_bits())).wrapping_mul(0x0100_0000_01b3);
        format!("{:x}", data.iter().fold(7, mix))
    }
    let first = run(ranks);
    ranks.check_equal("bits of a sum", &first).unwrap();
    assert_eq!(first, run(ranks));
}

/// Checks reductions of every numeric dtype.
pub fn dtypes(ranks: &mut impl Engine) {
    for &dtype in DType::NUMBERS {
        let ones = ones(dtype, 100);
        let mut words = aligned(&ones);
        let bytes = &mut bytemuck::cast_slice_mut(&mut words)[..ones.len()];
        let sum = Reduction::of(ReduceOp::Sum).scaled(1.0, 2.0);
        ranks.all_reduce(ALL_RANKS, "x", bytes, dtype, sum).unwrap();
        let found = first(dtype, bytes);
        assert_eq!(found, 2.0 * ranks.place().1 as f64, "{dtype}");
    }
}

/// Checks broadcasts and gathers, with equal and unequal parts.
pub fn copies(ranks: &mut impl Engine) {
    let (own, size) = ranks.place();
    for len in [0, 1, 5_000, 300_001] {
        let root = len % size;
        let mut data = vec![if own == root { 7.0f32 } else { 0.0 }; len];
        let bytes = bytemuck::cast_slice_mut(&mut data);
        ranks.broadcast("b", root, bytes).unwrap();
        assert!(data.iter().all(|&x| x == 7.0), "{size} ranks: {len}");
    }
    for most in [0, 1, 150_000] {
        let lens: Vec<usize> = (0..size).map(|r| (r * 7 + 1) % (most + 1)).collect();
        let part = vec![own as u8; lens[own]];
        let mut output = vec![255; lens.iter().sum()];
        ranks.all_gather("g", &part, &lens, &mut output).unwrap();
        let expected: Vec<u8> = (0..size).flat_map(|r| vec![r as u8; lens[r]]).collect();
        assert!(output == expected, "{size} ranks: {lens:?}");
    }
    ranks.barrier("end").unwrap();
}

/// Checks reduce-scatter and all-to-all.
pub fn parts(ranks: &mut impl Engine) {
    let (own, size) = ranks.place();
    let lens: Vec<usize> = (0..size).map(|r| 4 * ((r * 3) % 5)).collect();
    let total: usize = lens.iter().sum();
    let mut data = vec![own as f32; total / 4];
    let sum = Reduction::of(ReduceOp::Sum);
    let bytes = bytemuck::cast_slice_mut(&mut data);
    ranks
        .reduce_scatter("s", bytes, &lens, DType::F32, sum)
        .unwrap();
    let begin: usize = lens[..own].iter().sum::<usize>() / 4;
    let part = &data[begin..begin + lens[own] / 4];
    let whole = (0..size).sum::<usize>() as f32;
    assert!(part.iter().all(|&x| x == whole), "{size} ranks: {part:?}");

    let to = |a: usize, b: usize| (a + 2 * b) % 4;
    let input = |own: usize| (0..size).flat_map(move |r| vec![(own * 10 + r) as u8; to(own, r)]);
    let input: Vec<u8> = input(own).collect();
    let sent: Vec<usize> = (0..size).map(|r| to(own, r)).collect();
    let received: Vec<usize> = (0..size).map(|r| to(r, own)).collect();
    let mut output = vec![255; received.iter().sum()];
    ranks
        .all_to_all("e", (&input, &sent), (&mut output, &received))
        .unwrap();
    let from = |r: usize| vec![(r * 10 + own) as u8; to(r, own)];
    let expected: Vec<u8> = (0..size).flat_map(from).collect();
    assert_eq!(output, expected, "{size} ranks");
}

/// Checks that sets of ranks reduce alone, and that a rank outside of a set gets an error.
pub fn sets(ranks: &mut impl Engine) {
    let (own, size) = ranks.place();
    if size < 2 {
        return;
    }
    let of = |odd: usize| -> Vec<usize> { (0..size).rev().filter(|r| r % 2 == odd).collect() };
    let numbers = [0, 1].map(|odd| ranks.add_set(&of(odd)).unwrap());
    let mut data = [own as f32];
    reduce(ranks, numbers[own % 2], &mut data, ReduceOp::Sum);
    assert_eq!(data[0], of(own % 2).iter().sum::<usize>() as f32);
    let mut whole = [own as f32];
    reduce(ranks, ALL_RANKS, &mut whole, ReduceOp::Sum);
    assert_eq!(whole[0], (0..size).sum::<usize>() as f32);
    let sum = Reduction::of(ReduceOp::Sum);
    let other = numbers[1 - own % 2];
    let error = ranks
        .all_reduce(other, "z", &mut [], DType::F32, sum)
        .unwrap_err();
    assert!(error.contains("not in set"), "{error}");
}

/// `len` ones, as bytes.
pub fn ones(dtype: DType, len: usize) -> Vec<u8> {
    use thalweg_cpu::number::Number;
    dispatch!(dtype, NUMBERS, T => {
        let one: T = Number::from_f64(1.0);
        bytemuck::bytes_of(&one).repeat(len)
    }, else panic!("{dtype}"))
}

/// Bytes with the alignment of every dtype.
pub fn aligned(bytes: &[u8]) -> Vec<u64> {
    let mut words = vec![0u64; bytes.len().div_ceil(8)];
    bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..bytes.len()].copy_from_slice(bytes);
    words
}

/// First element.
pub fn first(dtype: DType, bytes: &[u8]) -> f64 {
    use thalweg_cpu::number::Number;
    dispatch!(dtype, NUMBERS, T => {
        let elements: &[T] = bytemuck::cast_slice(bytes);
        Number::to_f64(elements[0])
    }, else panic!("{dtype}"))
}
