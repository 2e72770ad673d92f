mod interpreter;
mod operators;
mod records;

use proptest::prelude::*;
use thalweg_tensor::Tensor;

use super::*;
use crate::error::DataError;
use crate::tfrecord::write_record;

fn all<S: Stage>(pipeline: Pipeline<S>) -> Vec<S::Item> {
    pipeline.collect::<Result<_, _>>().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The operators against the same of iterators and vectors.
    #[test]
    fn a_chain_of_operators_gives_what_iterators_give(
        count in 0u64..40, shards in 1u64..4, skip in 0u64..5, most in 0u64..30, times in 0u64..4,
        size in 1usize..6, threads in 1usize..4, keep: bool, position in 0u64..40,
    ) {
        let remainder = if keep { Remainder::Keep } else { Remainder::Drop };
        let make = || from_fn(move |_| 0..count)
            .shard(shards, shards - 1)
            .skip(skip)
            .map_parallel(threads, |n| Ok(n * n))
            .filter(|n| n % 3 != 1)
            .take(most)
            .enumerate()
            .repeat(Some(times))
            .prefetch(3)
            .group(size, remainder);
        let once = (0..count).skip(shards as usize - 1).step_by(shards as usize).skip(skip as usize)
            .map(|n| n * n).filter(|n| n % 3 != 1).take(most as usize).enumerate()
            .map(|(at, n)| (at as u64, n));
        let flat: Vec<(u64, u64)> = (0..times).flat_map(|_| once.clone()).collect();
        let mut expected: Vec<Vec<_>> = flat.chunks(size).map(<[_]>::to_vec).collect();
        expected.retain(|group| keep || group.len() == size);
        prop_assert_eq!(all(make()), expected.clone());

        let mut later = make();
        let mut taken: Vec<_> = later.by_ref().take(2).map(Result::unwrap).collect();
        taken.truncate(2);
        later.seek(position).unwrap();
        let rest = expected.get(position as usize..).unwrap_or_default();
        prop_assert_eq!(all(later), rest);
    }

    #[test]
    fn a_shuffle_has_every_element_once_in_an_order_of_each_seed_and_epoch(
        count in 2u64..60, buffer in 1usize..70, seed: u64,
    ) {
        let make = |threads| {
            let numbers = from_fn(move |_| 0..count).map_parallel(threads, Ok);
            all(numbers.shuffle(buffer, seed).repeat(Some(2)))
        };
        let found = make(1);
        prop_assert_eq!(&found, &make(4));
        for epoch in found.chunks(count as usize) {
            let mut sorted = epoch.to_vec();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..count).collect::<Vec<_>>());
            // An element comes at most a buffer early.
            prop_assert!(epoch.iter().enumerate().all(|(at, n)| *n < (at + buffer) as u64));
        }
    }
}

#[test]
fn epochs_of_a_shuffle_differ_and_a_seek_finds_the_same_batches() {
    let make = || {
        from_vec((0..50).collect::<Vec<i32>>())
            .shuffle(50, 3)
            .repeat(None)
    };
    let found = all(make().take(100));
    assert_ne!(found[..50], found[50..]);
    let mut later = make();
    later.seek(70).unwrap();
    let rest: Vec<i32> = later.by_ref().take(30).map(Result::unwrap).collect();
    assert_eq!(rest, found[70..]);
}

#[test]
fn errors_come_at_their_elements_and_end_the_pipeline() {
    let fails = |n: u64| match n {
        5 => Err(DataError::Function("five".into())),
        7 => panic!("seven"),
        n => Ok(n),
    };
    let mut one = from_fn(|_| 0..10).map_parallel(3, fails).prefetch(2);
    let good: Vec<u64> = one.by_ref().take(5).map(Result::unwrap).collect();
    assert_eq!(good, [0, 1, 2, 3, 4]);
    assert_eq!(one.next().unwrap().unwrap_err().to_string(), "five");
    assert!(one.next().is_none());
    one.seek(6).unwrap();
    assert_eq!(one.next().unwrap().unwrap(), 6);
    let error = one.next().unwrap().unwrap_err().to_string();
    assert_eq!(error, "a function of the pipeline has panicked: seven");
}

#[test]
fn a_repetition_of_nothing_ends() {
    assert!(all(from_vec(Vec::<i32>::new()).repeat(None)).is_empty());
    assert!(all(from_vec(vec![1]).filter(|_| false).repeat(None)).is_empty());
}

#[test]
fn rows_of_a_batch_have_one_shape() {
    let rows = |n: u64| {
        Ok([
            Tensor::from(vec![0.5f32; n as usize % 2 + 1]),
            Tensor::from(n as i64),
        ])
    };
    let mut batches = from_fn(|_| 0..4).map(rows).batch(2, Remainder::Drop);
    let error = batches.next().unwrap().unwrap_err().to_string();
    assert!(error.starts_with("tensor 0 of batch 0"), "{error}");
    assert!(error.contains("f32[1] and of f32[2]"), "{error}");
    let words = |n: u64| Ok([Tensor::strings(&[], &[format!("w{n}")])?]);
    let [words] = from_fn(|_| 0..3)
        .map(words)
        .batch(3, Remainder::Keep)
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(
        (words.dims(), &words.as_strings().unwrap()[2]),
        (&[3][..], &b"w2"[..])
    );
}

#[test]
fn records_and_lines_of_several_files_are_read_and_damage_is_named() {
    let folder = std::env::temp_dir().join(format!("thalweg-pipeline-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let paths = ["a", "b"].map(|name| folder.join(name));
    for (path, numbers) in paths.iter().zip([0..3u8, 3..5]) {
        let mut file = Vec::new();
        numbers.for_each(|n| write_record(&mut file, &[n]).unwrap());
        std::fs::write(path, file).unwrap();
    }
    let mut read = records(paths.clone());
    assert_eq!(
        read.by_ref().map(|r| r.unwrap()[0]).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4]
    );
    read.seek(4).unwrap();
    assert_eq!(read.next().unwrap().unwrap(), [4]);
    let mut damaged = std::fs::read(&paths[1]).unwrap();
    damaged[17 + 12] ^= 1;
    std::fs::write(&paths[1], damaged).unwrap();
    let error = records(paths.clone())
        .find_map(Result::err)
        .unwrap()
        .to_string();
    assert!(error.contains("b: record 1, at byte 17: "), "{error}");
    // Passing over records does not read them.
    let mut passing = records(paths.clone());
    passing.seek(5).unwrap();
    assert!(passing.next().is_none());
    let pattern = folder.join("[ab]").display().to_string();
    assert_eq!(files(&pattern).unwrap(), paths);
    let none = files(&folder.join("c*").display().to_string()).unwrap_err();
    assert!(none.to_string().ends_with("no file matches it"), "{none}");
    std::fs::write(&paths[0], "one\r\ntwo\n\nlast").unwrap();
    assert_eq!(all(text_lines([&paths[0]])), ["one", "two", "", "last"]);
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(records(paths).next().unwrap().is_err());
}
