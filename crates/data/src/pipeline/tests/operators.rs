use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use thalweg_tensor::Tensor;

use super::super::*;
use super::all;
use crate::error::DataError;
use crate::tfrecord::{RecordOptions, write_record};

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("thalweg-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The orders that TensorFlow 2.21 gives: `tf.data.Dataset.from_tensor_slices(lengths).interleave(lambda n:
/// tf.data.Dataset.range(10 * n, 10 * n + n), cycle_length, block_length)`.
#[test]
fn an_interleave_has_the_order_of_tensorflow() {
    let order = |cycle, block, lengths: &[u64]| {
        let inner = |n: u64| Ok(from_fn(move |_| 10 * n..11 * n));
        all(from_vec(lengths.to_vec()).interleave(cycle, block, inner))
    };
    INTERLEAVES
        .iter()
        .for_each(|(cycle, block, lengths, expected)| {
            assert_eq!(
                order(*cycle, *block, lengths),
                *expected,
                "{cycle} {block} {lengths:?}"
            );
        });
}

include!("../../../tests/golden/interleaves.rs");

#[test]
fn the_drop_of_a_stage_does_not_wait_for_a_function_that_hangs() {
    let (release, hanging) = channel::<()>();
    let hanging = std::sync::Mutex::new(hanging);
    let (sender, ended) = channel();
    let called = Arc::new(AtomicU64::new(0));
    let calls = called.clone();
    let mut stuck = from_fn(|_| 0..100u64)
        .map_parallel(2, move |n| {
            calls.fetch_add(1, Relaxed);
            if n > 0 {
                let _ = hanging.lock().map(|h| h.recv());
            }
            let _ = sender.send(n);
            Ok(n)
        })
        .prefetch(2);
    assert_eq!(stuck.next().unwrap().unwrap(), 0);
    assert_eq!(ended.recv().unwrap(), 0);
    // Both threads hang.
    while called.load(Relaxed) < 3 {
        std::thread::yield_now();
    }
    let started = Instant::now();
    drop(stuck);
    assert!(started.elapsed() < Duration::from_secs(5));
    // Once the function returns, its threads end: the function and its sender go with them.
    drop(release);
    while ended.recv().is_ok() {}
}

#[test]
fn a_repetition_jumps_over_epochs_of_known_length() {
    let made = Arc::new(AtomicU64::new(0));
    let counted = made.clone();
    let mut numbers = from_vec((0..10u64).collect())
        .map(move |n| {
            counted.fetch_add(1, Relaxed);
            Ok(n)
        })
        .shuffle(4, 1)
        .repeat(None);
    // With one epoch read after the other this would take hours.
    let far = 10_000_000_000_003;
    numbers.seek(far).unwrap();
    assert_eq!(numbers.position(), far);
    assert!(made.load(Relaxed) < 40, "{}", made.load(Relaxed));
    let epoch: Vec<u64> = numbers.by_ref().take(7).map(Result::unwrap).collect();
    assert_eq!(epoch.len(), 7);
    numbers.seek(far - 3).unwrap();
    let again: Vec<u64> = numbers.by_ref().take(10).map(Result::unwrap).collect();
    assert_eq!(again[3..], epoch);
}

#[test]
fn a_cache_makes_each_element_once() {
    let made = Arc::new(AtomicU64::new(0));
    let counted = made.clone();
    let numbers = from_vec((0..6u64).collect()).shuffle(6, 3).map(move |n| {
        counted.fetch_add(1, Relaxed);
        Ok(n)
    });
    let found = all(numbers.cache().repeat(Some(3)));
    assert_eq!(made.load(Relaxed), 6);
    assert_eq!((&found[..6], &found[6..12]), (&found[6..12], &found[12..]));
}

#[test]
fn a_cache_file_is_used_once_it_is_whole() {
    let path = folder("cache").join("cache");
    let make = |first: i32| {
        let rows = from_vec((first..first + 4).collect()).map(|n| {
            let words = Tensor::strings(&[], &[format!("w{n}")])?;
            Ok([Tensor::from(vec![n; n as usize % 3]), words])
        });
        rows.cache_file(&path)
    };
    let mut half = make(0);
    assert_eq!(half.by_ref().take(2).count(), 2);
    drop(half);
    assert!(
        std::fs::read_dir(path.parent().unwrap())
            .unwrap()
            .next()
            .is_none()
    );
    // An epoch of which elements were passed over is not written.
    let mut later = make(0);
    later.seek(1).unwrap();
    assert_eq!(later.count(), 3);
    assert!(!path.exists());

    let whole = all(make(0));
    assert!(path.exists());
    // Another source shows that the file is read.
    assert_eq!(all(make(7)), whole);
    let mut later = make(7);
    later.seek(3).unwrap();
    assert_eq!(all(later), whole[3..]);
    assert_eq!(all(make(7).repeat(Some(2))).len(), 8);

    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 24]).unwrap();
    let error = make(0).next().unwrap().unwrap_err().to_string();
    assert!(error.contains("delete it, and it is made anew"), "{error}");
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

#[test]
fn a_padded_batch_has_the_largest_or_the_given_shape() {
    let rows = vec![
        [
            Tensor::new(&[1, 2], &[1f32, 2.0]).unwrap(),
            Tensor::strings(&[1], &["a"]).unwrap(),
        ],
        [
            Tensor::new(&[2, 1], &[3f32, 4.0]).unwrap(),
            Tensor::strings(&[0], &[""; 0]).unwrap(),
        ],
    ];
    let padding = [
        Padding {
            dims: vec![None, Some(3)],
            value: None,
        },
        Padding {
            value: Some(Tensor::strings(&[], &["-"]).unwrap()),
            ..Padding::default()
        },
    ];
    let make = |padding| from_vec(rows.clone()).padded_batch(2, Remainder::Keep, padding);
    let [x, words] = make(padding.clone()).next().unwrap().unwrap();
    assert_eq!(x.dims(), [2, 2, 3]);
    let expected = [1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 4.0, 0.0, 0.0];
    assert_eq!(x.to_vec::<f32>().unwrap(), expected);
    assert_eq!(words.dims(), [2, 1]);
    assert_eq!(&words.as_strings().unwrap()[1], b"-");
    assert_eq!(
        make(padding.clone()).seek(1).err().map(|e| e.to_string()),
        None
    );

    let error = |first: Padding| {
        let padding = [first, Padding::default()];
        make(padding).next().unwrap().unwrap_err().to_string()
    };
    let small = error(Padding {
        dims: vec![Some(1), None],
        value: None,
    });
    assert!(
        small.ends_with("elements of up to [2,2] cannot be padded to [1,?]"),
        "{small}"
    );
    let other = error(Padding {
        value: Some(Tensor::from(0)),
        ..Padding::default()
    });
    assert!(
        other.ends_with("the padding is of i32[]: give a scalar of f32"),
        "{other}"
    );
    // Empty elements.
    let empty = from_vec(vec![
        [
            Tensor::zeros(thalweg_tensor::DType::F32, &[0, 3]).unwrap()
        ];
        2
    ]);
    let [empty] = empty
        .padded_batch(2, Remainder::Keep, [Padding::default()])
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(empty.dims(), [2, 0, 3]);
    let none = from_vec(vec![[Tensor::strings(&[0], &[""; 0]).unwrap()]; 2]);
    let [none] = none
        .padded_batch(2, Remainder::Keep, [Padding::default()])
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(none.dims(), [2, 0]);
}

#[test]
fn buckets_are_batches_of_like_length() {
    let rows = [1usize, 5, 2, 6, 9, 1].map(|n| [Tensor::from(vec![n as i32; n])]);
    let buckets = from_vec(rows.to_vec()).bucket_by_length(
        |[row]| row.len(),
        vec![3, 7],
        vec![2, 2, 2],
        Remainder::Keep,
        [Padding::default()],
    );
    let dims: Vec<Vec<usize>> = all(buckets).iter().map(|[b]| b.dims().to_vec()).collect();
    assert_eq!(dims, [[2, 2], [2, 6], [1, 1], [1, 9]]);
    let mut wrong = from_vec(rows.to_vec()).bucket_by_length(
        |[row]| row.len(),
        vec![3],
        vec![2],
        Remainder::Keep,
        [Padding::default()],
    );
    assert!(matches!(wrong.next(), Some(Err(DataError::Options(_)))));
    let mut wrong = from_vec(vec![1]).window(1, 0, 1, Remainder::Keep);
    assert!(matches!(wrong.next(), Some(Err(DataError::Options(_)))));
}

#[test]
fn records_are_passed_over_without_their_data() {
    let folder = folder("passed");
    let path = folder.join("records");
    let mut file = Vec::new();
    (0..20u8).for_each(|n| write_record(&mut file, &[n; 30]).unwrap());
    // The data of record 3 are damaged.
    file[3 * 46 + 20] ^= 1;
    std::fs::write(&path, &file).unwrap();
    let mut read = records([&path, &path]).repeat(None);
    read.seek(20 + 4 + 40 * 1000).unwrap();
    assert_eq!(read.next().unwrap().unwrap(), [4; 30]);
    read.seek(3).unwrap();
    let error = read.next().unwrap().unwrap_err().to_string();
    assert!(error.contains("record 3, at byte 138"), "{error}");

    let damaged = Arc::new(AtomicU64::new(0));
    let options = RecordOptions {
        skip_damaged: Some(damaged.clone()),
        ..RecordOptions::default()
    };
    let mut good = records_with([&path], options);
    assert_eq!(good.by_ref().count(), 19);
    assert_eq!(damaged.load(Relaxed), 1);
    good.seek(3).unwrap();
    assert_eq!(good.next().unwrap().unwrap(), [4; 30]);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn counters_show_the_slow_stage() {
    let counters = Counters::default();
    let slow = from_vec((0..5).collect::<Vec<i32>>())
        .counted("source", &counters)
        .map(|n| {
            std::thread::sleep(Duration::from_millis(4));
            Ok(n)
        })
        .counted("slow", &counters);
    assert_eq!(slow.count(), 5);
    let [source, slow] = &counters.read()[..] else {
        panic!("two places")
    };
    assert_eq!((source.elements, slow.elements), (5, 5));
    assert!(slow.waited >= Duration::from_millis(20));
    // The source waits for the map between its elements.
    assert!(source.idle >= Duration::from_millis(20) && source.waited < slow.waited);
}
