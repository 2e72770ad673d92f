//! What every kind of link must do, as each rank sees it: the same table runs over memory, over TCP, and over MPI.

use serde_json::json;
use thalweg_collective::{ALL_RANKS, Ranks, ReduceOp, Reduction};
use thalweg_tensor::{DType, dispatch};

const LENS: [usize; 8] = [0, 1, 2, 7, 31, 1_000, 32_769, 100_003];

/// Whole numbers, so that sums are exact in every order.
pub fn value(rank: usize, i: usize) -> f32 {
    ((rank * 31 + i * 17) % 101) as f32 - 50.0
}

/// All of the table.
pub fn everything(ranks: &mut Ranks) {
    reductions(ranks);
    rounded_sums(ranks);
    dtypes(ranks);
    copies(ranks);
    parts(ranks);
    sets(ranks);
}

fn reduce(ranks: &mut Ranks, set: i32, data: &mut [f32], op: ReduceOp) {
    let reduction = Reduction::new(op, DType::F32);
    let bytes = bytemuck::cast_slice_mut(data);
    ranks.all_reduce(set, "x", bytes, reduction).unwrap();
}

/// Reductions of every length are exact.
pub fn reductions(ranks: &mut Ranks) {
    let (own, size) = (ranks.rank(), ranks.size());
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
                assert_eq!(
                    element, expected,
                    "{size} ranks, {op}, element {i} of {len}"
                );
            }
        }
    }
}

/// Sums that are rounded have the same bits on all ranks, and again.
pub fn rounded_sums(ranks: &mut Ranks) {
    let run = |ranks: &mut Ranks| {
        let own = ranks.rank();
        let mut data: Vec<f32> = (0..20_011).map(|i| (value(own, i) + 0.1).sin()).collect();
        reduce(ranks, ALL_RANKS, &mut data, ReduceOp::Sum);
        let mix = |h: u64, x: &f32| (h ^ u64::from(x.to_bits())).wrapping_mul(0x0100_0000_01b3);
        format!("{:x}", data.iter().fold(7, mix))
    };
    let first = run(ranks);
    ranks.same("bits of a sum", &json!(first)).unwrap();
    assert_eq!(first, run(ranks));
}

/// Every dtype with numbers is reduced.
pub fn dtypes(ranks: &mut Ranks) {
    for &dtype in DType::NUMBERS {
        let ones = ones(dtype, 100);
        let mut words = aligned(&ones);
        let bytes = &mut bytemuck::cast_slice_mut(&mut words)[..ones.len()];
        let sum = Reduction {
            postscale: 2.0,
            ..Reduction::new(ReduceOp::Sum, dtype)
        };
        ranks.all_reduce(ALL_RANKS, "x", bytes, sum).unwrap();
        let found = first(dtype, bytes);
        assert_eq!(found, 2.0 * ranks.size() as f64, "{dtype}");
    }
}

/// Broadcasts and gathers, with equal and unequal parts.
pub fn copies(ranks: &mut Ranks) {
    let (own, size) = (ranks.rank(), ranks.size());
    for len in [0, 1, 5_000, 300_001] {
        let root = len % size;
        let mut data = vec![if own == root { 7.0f32 } else { 0.0 }; len];
        let bytes = bytemuck::cast_slice_mut(&mut data);
        ranks.broadcast(ALL_RANKS, "b", root, bytes).unwrap();
        assert!(data.iter().all(|&x| x == 7.0), "{size} ranks: {len}");
    }
    for most in [0, 1, 150_000] {
        let lens: Vec<usize> = (0..size).map(|r| (r * 7 + 1) % (most + 1)).collect();
        let part = vec![own as u8; lens[own]];
        let mut output = vec![255; lens.iter().sum()];
        ranks
            .all_gather(ALL_RANKS, "g", &part, &lens, &mut output)
            .unwrap();
        let expected: Vec<u8> = (0..size).flat_map(|r| vec![r as u8; lens[r]]).collect();
        assert!(output == expected, "{size} ranks: {lens:?}");
    }
    ranks.barrier(ALL_RANKS, "end").unwrap();
}

/// Parts of sums, and values for each rank.
pub fn parts(ranks: &mut Ranks) {
    let (own, size) = (ranks.rank(), ranks.size());
    let lens: Vec<usize> = (0..size).map(|r| 4 * ((r * 3) % 5)).collect();
    let total: usize = lens.iter().sum();
    let mut data = vec![own as f32; total / 4];
    let sum = Reduction::new(ReduceOp::Sum, DType::F32);
    let bytes = bytemuck::cast_slice_mut(&mut data);
    ranks
        .reduce_scatter(ALL_RANKS, "s", bytes, &lens, sum)
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
        .all_to_all(ALL_RANKS, "e", (&input, &sent), (&mut output, &received))
        .unwrap();
    let from = |r: usize| vec![(r * 10 + own) as u8; to(r, own)];
    let expected: Vec<u8> = (0..size).flat_map(from).collect();
    assert_eq!(output, expected, "{size} ranks");
}

/// Sets of ranks reduce alone, and nobody reduces in a set that it is not in.
pub fn sets(ranks: &mut Ranks) {
    let (own, size) = (ranks.rank(), ranks.size());
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
    let sum = Reduction::new(ReduceOp::Sum, DType::F32);
    let other = numbers[1 - own % 2];
    let error = ranks.all_reduce(other, "z", &mut [], sum).unwrap_err();
    assert!(error.to_string().contains("not in set"), "{error}");
}

/// So many ones, as bytes.
pub fn ones(dtype: DType, len: usize) -> Vec<u8> {
    use thalweg_cpu::number::Number;
    dispatch!(dtype, NUMBERS, T => {
        let one: T = Number::from_f64(1.0);
        bytemuck::bytes_of(&one).repeat(len)
    }, else panic!("{dtype}"))
}

/// The same, aligned for every dtype.
pub fn aligned(bytes: &[u8]) -> Vec<u64> {
    let mut words = vec![0u64; bytes.len().div_ceil(8)];
    bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..bytes.len()].copy_from_slice(bytes);
    words
}

/// The first element.
pub fn first(dtype: DType, bytes: &[u8]) -> f64 {
    use thalweg_cpu::number::Number;
    dispatch!(dtype, NUMBERS, T => {
        let elements: &[T] = bytemuck::cast_slice(bytes);
        Number::to_f64(elements[0])
    }, else panic!("{dtype}"))
}
