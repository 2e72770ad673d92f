//! Chains of operators against a naive interpreter, which makes the vector of each epoch.

use std::rc::Rc;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::*;
use super::all;
use crate::error::DataError;
use crate::shuffle::SplitMix64;

type Boxed = Pipeline<Box<dyn Stage<Item = u64> + Send>>;
/// The elements of an epoch.
type Naive = Rc<dyn Fn(u64) -> Vec<u64>>;

#[derive(Clone, Debug)]
enum Op {
    Map,
    MapParallel(usize),
    Filter(u64),
    Shuffle(usize, u64),
    Shard(u64, u64),
    Take(u64),
    Skip(u64),
    Repeat(u64),
    Enumerate,
    Prefetch(usize),
    Group(usize, Remainder),
    Window([usize; 3], Remainder),
    Buckets(usize, Remainder),
    Cache,
    Interleave(usize, u64, u64),
    Concatenate(u64),
    Zip(u64),
    Counted,
}

fn remainder() -> impl Strategy<Value = Remainder> {
    prop_oneof![Just(Remainder::Keep), Just(Remainder::Drop)]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        Just(Op::Map),
        (1usize..4).prop_map(Op::MapParallel),
        (2u64..4).prop_map(Op::Filter),
        (1usize..9, any::<u64>()).prop_map(|(size, seed)| Op::Shuffle(size, seed)),
        (1u64..4, any::<u64>()).prop_map(|(shards, n)| Op::Shard(shards, n % shards)),
        (0u64..40).prop_map(Op::Take),
        (0u64..9).prop_map(Op::Skip),
        (0u64..5).prop_map(Op::Repeat),
        Just(Op::Enumerate),
        (1usize..4).prop_map(Op::Prefetch),
        (1usize..5, remainder()).prop_map(|(size, r)| Op::Group(size, r)),
        ([1usize..5, 1usize..6, 1usize..4], remainder()).prop_map(|(n, r)| Op::Window(n, r)),
        (1usize..4, remainder()).prop_map(|(size, r)| Op::Buckets(size, r)),
        Just(Op::Cache),
        (1usize..4, 1u64..4, 1u64..6).prop_map(|(c, b, most)| Op::Interleave(c, b, most)),
        (0u64..9).prop_map(Op::Concatenate),
        (0u64..30).prop_map(Op::Zip),
        Just(Op::Counted),
    ]
}

fn square(n: u64) -> Result<u64, DataError> {
    Ok(n.wrapping_mul(n) % 1009)
}

/// One number of a vector.
fn fold(all: &[u64]) -> u64 {
    let first = all.len() as u64;
    all.iter().fold(first, |a, b| (a * 31 + b) % 100_003)
}

/// The pipeline of an element of an interleave: as many elements as the number says.
fn inner(n: u64, most: u64) -> Vec<u64> {
    (0..n % most).map(|k| n * 10 + k).collect()
}

fn build(before: Boxed, op: &Op) -> Boxed {
    match *op {
        Op::Map => before.map(square).boxed(),
        Op::MapParallel(threads) => before.map_parallel(threads, square).boxed(),
        Op::Filter(n) => before.filter(move |item| !item.is_multiple_of(n)).boxed(),
        Op::Shuffle(size, seed) => before.shuffle(size, seed).boxed(),
        Op::Shard(shards, index) => before.shard(shards, index).boxed(),
        Op::Take(most) => before.take(most).boxed(),
        Op::Skip(count) => before.skip(count).boxed(),
        Op::Repeat(times) => before.repeat(Some(times)).boxed(),
        Op::Enumerate => before.enumerate().map(|(at, n)| Ok(fold(&[at, n]))).boxed(),
        Op::Prefetch(most) => before.prefetch(most).boxed(),
        Op::Group(size, r) => before.group(size, r).map(|all| Ok(fold(&all))).boxed(),
        Op::Window([size, shift, stride], r) => before
            .window(size, shift, stride, r)
            .map(|all| Ok(fold(&all)))
            .boxed(),
        Op::Buckets(size, r) => {
            let length = |n: &u64| *n as usize % 7;
            let buckets =
                buckets::Buckets::new(before.stage, length, vec![2, 5], vec![size, 2, 3], r);
            Pipeline::new(buckets).map(|all| Ok(fold(&all))).boxed()
        }
        Op::Cache => before.cache().boxed(),
        Op::Interleave(cycle, block, most) => before
            .interleave(cycle, block, move |n| Ok(from_vec(inner(n, most))))
            .boxed(),
        Op::Concatenate(count) => before.concatenate(from_vec((0..count).collect())).boxed(),
        Op::Zip(count) => before
            .zip(from_vec((0..count).collect()))
            .map(|(a, b)| Ok(fold(&[a, b])))
            .boxed(),
        Op::Counted => before.counted("here", &Counters::default()).boxed(),
    }
}

fn interpret(before: Naive, op: Op) -> Naive {
    Rc::new(move |epoch| {
        let now = || before(epoch).into_iter();
        match op {
            Op::Map | Op::MapParallel(_) => now().filter_map(|n| square(n).ok()).collect(),
            Op::Filter(n) => now().filter(|item| !item.is_multiple_of(n)).collect(),
            Op::Shuffle(size, seed) => {
                shuffled(before(epoch), size, SplitMix64::keyed(seed, epoch))
            }
            Op::Shard(shards, index) => now()
                .skip(index as usize)
                .step_by(shards as usize)
                .collect(),
            Op::Take(most) => now().take(most as usize).collect(),
            Op::Skip(count) => now().skip(count as usize).collect(),
            Op::Repeat(times) => {
                let epochs = (0..times).map(|n| before(epoch * times + n));
                epochs.take_while(|all| !all.is_empty()).flatten().collect()
            }
            Op::Enumerate => now()
                .enumerate()
                .map(|(at, n)| fold(&[at as u64, n]))
                .collect(),
            Op::Prefetch(_) | Op::Counted => before(epoch),
            Op::Group(size, r) => {
                let groups = before(epoch);
                let groups = groups
                    .chunks(size)
                    .filter(|g| r == Remainder::Keep || g.len() == size);
                groups.map(fold).collect()
            }
            Op::Window([size, shift, stride], r) => {
                let all = before(epoch);
                let windows = (0..all.len()).step_by(shift);
                let windows = windows.map(|at| {
                    let window = all[at..].iter().step_by(stride).take(size);
                    window.copied().collect::<Vec<u64>>()
                });
                let windows = windows.filter(|w| r == Remainder::Keep || w.len() == size);
                windows.map(|w| fold(&w)).collect()
            }
            Op::Buckets(size, r) => bucketed(before(epoch), [size, 2, 3], r),
            Op::Cache => before(0),
            Op::Interleave(cycle, block, most) => interleaved(before(epoch), cycle, block, most),
            Op::Concatenate(count) => now().chain(0..count).collect(),
            Op::Zip(count) => now().zip(0..count).map(|(a, b)| fold(&[a, b])).collect(),
        }
    })
}

fn shuffled(all: Vec<u64>, size: usize, mut random: SplitMix64) -> Vec<u64> {
    let mut rest = all.into_iter();
    let mut buffer: Vec<u64> = rest.by_ref().take(size).collect();
    let mut order = Vec::new();
    while !buffer.is_empty() {
        let drawn = random.below(buffer.len() as u64) as usize;
        order.push(buffer.swap_remove(drawn));
        buffer.extend(rest.next());
    }
    order
}

fn bucketed(all: Vec<u64>, sizes: [usize; 3], remainder: Remainder) -> Vec<u64> {
    let mut buckets = [const { Vec::new() }; 3];
    let mut groups = Vec::new();
    for n in all {
        let bucket = match n % 7 {
            0..2 => 0,
            2..5 => 1,
            _ => 2,
        };
        buckets[bucket].push(n);
        if buckets[bucket].len() == sizes[bucket] {
            groups.push(fold(&buckets[bucket]));
            buckets[bucket].clear();
        }
    }
    if remainder == Remainder::Keep {
        groups.extend(buckets.iter().filter(|b| !b.is_empty()).map(|b| fold(b)));
    }
    groups
}

/// Turn by turn: an empty place opens the next pipeline; one that ends gives its place up until the next turn.
fn interleaved(all: Vec<u64>, cycle: usize, block: u64, most: u64) -> Vec<u64> {
    let mut inputs = all.into_iter();
    let mut open = vec![None; cycle];
    let mut order = Vec::new();
    loop {
        for place in &mut open {
            if place.is_none() {
                *place = inputs.next().map(|n| inner(n, most).into_iter());
            }
            let Some(running) = place else { continue };
            let taken: Vec<u64> = running.take(block as usize).collect();
            if (taken.len() as u64) < block {
                *place = None;
            }
            order.extend(taken);
        }
        if inputs.len() == 0 && open.iter().all(Option::is_none) {
            return order;
        }
    }
}

/// A source whose epochs are alike, or one whose epochs differ.
fn source(count: u64, alike: bool) -> (Boxed, Naive) {
    match alike {
        true => {
            let all: Vec<u64> = (0..count).collect();
            (from_vec(all.clone()).boxed(), Rc::new(move |_| all.clone()))
        }
        false => {
            let epoch = move |epoch: u64| epoch * 5..epoch * 5 + (count + epoch) % 40;
            (from_fn(epoch).boxed(), Rc::new(move |e| epoch(e).collect()))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn chains_have_the_elements_the_order_and_the_positions_of_the_interpreter(
        count in 0u64..40, alike: bool, ops in vec(op(), 0..6),
        epoch in 0u64..3, taken in 0usize..12, passed in 0u64..60, position in 0u64..60,
    ) {
        let (mut pipeline, mut naive) = source(count, alike);
        for op in ops {
            pipeline = build(pipeline, &op);
            naive = interpret(naive, op);
        }
        let expected = naive(epoch);

        // An epoch: some are taken, some are passed over, some are taken.
        let stage = &mut pipeline.stage;
        stage.start(epoch).unwrap();
        if let Some(length) = stage.length().unwrap() {
            prop_assert_eq!(length, expected.len() as u64);
        }
        let mut found = Vec::new();
        while found.len() < taken {
            let Some(item) = stage.next().unwrap() else { break };
            found.push(item);
        }
        let rest = (expected.len() - found.len()) as u64;
        prop_assert_eq!(&found[..], &expected[..found.len()]);
        prop_assert_eq!(stage.pass(passed).unwrap(), passed.min(rest));
        let at = found.len() + passed.min(rest) as usize;
        let end = std::iter::from_fn(|| stage.next().unwrap()).collect::<Vec<u64>>();
        prop_assert_eq!(&end[..], &expected[at..]);
        prop_assert!(stage.next().unwrap().is_none());

        let expected = naive(0);
        pipeline.seek(position).unwrap();
        prop_assert_eq!(pipeline.position(), position.min(expected.len() as u64));
        let rest: Vec<u64> = pipeline.by_ref().map(Result::unwrap).collect();
        prop_assert_eq!(&rest[..], expected.get(position as usize..).unwrap_or_default());
        pipeline.seek(0).unwrap();
        let all = all(pipeline);
        prop_assert_eq!(all, expected);
    }
}
