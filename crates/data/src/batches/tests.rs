//! Tests of batches: order, epochs, seeds, scaling, resumed positions.

use proptest::prelude::*;

use super::*;
use crate::mnist::Mnist;
use crate::mnist::tests::repository_data;

/// `count` images of one row and two pixels: image `i` is `[i, 255 - i]`, labelled `i % 10`.
fn split(count: u8) -> Split {
    let images = (0..count).flat_map(|i| [i, 255 - i]).collect();
    let labels = (0..count).map(|i| i % 10).collect();
    Split::new(images, labels, 1, 2).expect("a good split")
}

/// Draws a batch and returns the indices of its images.
fn draw(batches: &mut Batches<'_>) -> Vec<u8> {
    let mut images = vec![f32::NAN; 2 * batches.size()];
    let mut labels = vec![-1; batches.size()];
    batches
        .next_into(&mut images, &mut labels)
        .expect("lengths fit");
    let found: Vec<u8> = images
        .chunks(2)
        .map(|p| (p[0] * 255.0).round() as u8)
        .collect();
    for ((image, pair), label) in found.iter().zip(images.chunks(2)).zip(labels) {
        assert_eq!(pair[1], f32::from(255 - image) * (1.0 / 255.0));
        assert_eq!(label, i64::from(image % 10), "an image keeps its label");
    }
    found
}

fn sorted(mut of: Vec<u8>) -> Vec<u8> {
    of.sort_unstable();
    of
}

#[test]
fn each_epoch_serves_every_image_once_in_a_new_order() {
    let split = split(100);
    let mut batches = Batches::new(&split, 20, 1).expect("a batch size");
    let epoch =
        |batches: &mut Batches<'_>| -> Vec<u8> { (0..5).flat_map(|_| draw(batches)).collect() };
    let (first, second) = (epoch(&mut batches), epoch(&mut batches));
    let all: Vec<u8> = (0..100).collect();
    assert_ne!(first, all);
    assert_ne!(first, second);
    assert_eq!(sorted(first), all);
    assert_eq!(sorted(second), all);
}

#[test]
fn a_batch_across_the_end_of_an_epoch_continues_with_the_next() {
    let split = split(10);
    let mut batches = Batches::new(&split, 4, 3).expect("a batch size");
    let mut epochs = vec![];
    let mut seen = vec![];
    for _ in 0..5 {
        seen.extend(draw(&mut batches));
        epochs.push(batches.epoch());
    }
    assert_eq!(epochs, [0, 0, 1, 1, 2]);
    for epoch in seen.chunks(10) {
        assert_eq!(sorted(epoch.to_vec()), sorted((0..10).collect()));
    }
}

#[test]
fn a_batch_larger_than_the_data_set_repeats_images() {
    let split = split(3);
    let mut batches = Batches::new(&split, 8, 3).expect("a batch size");
    let seen = draw(&mut batches);
    assert_eq!(batches.epoch(), 2);
    assert_eq!(sorted(seen[..6].to_vec()), [0, 0, 1, 1, 2, 2]);
}

#[test]
fn different_seeds_give_different_orders() {
    let split = split(50);
    let first = |seed| draw(&mut Batches::new(&split, 50, seed).expect("a batch size"));
    assert_eq!(first(7), first(7));
    assert_ne!(first(7), first(8));
}

#[test]
fn the_order_does_not_depend_on_the_batch_size() {
    let split = split(10);
    let drawn = |size, times| -> Vec<u8> {
        let mut batches = Batches::new(&split, size, 2).expect("a batch size");
        (0..times).flat_map(|_| draw(&mut batches)).collect()
    };
    assert_eq!(drawn(4, 15), drawn(20, 3));
}

#[test]
fn one_hot_rows_match_the_labels() {
    let split = split(30);
    let mut by_class = Batches::new(&split, 7, 2).expect("a batch size");
    let mut by_row = by_class.clone();
    let (mut images, mut labels) = (vec![0.0; 14], vec![0; 7]);
    let (mut same_images, mut rows) = (vec![0.0; 14], vec![f32::NAN; 70]);
    for _ in 0..10 {
        by_class
            .next_into(&mut images, &mut labels)
            .expect("lengths fit");
        by_row
            .next_one_hot_into(&mut same_images, &mut rows)
            .expect("lengths fit");
        assert_eq!(images, same_images);
        for (label, row) in labels.iter().zip(rows.chunks(CLASSES)) {
            let expected: Vec<f32> = (0..10).map(|c| f32::from(c == *label)).collect();
            assert_eq!(row, expected);
        }
    }
}

#[test]
fn a_batch_size_of_zero_and_an_empty_data_set_are_errors() {
    let (some, none) = (split(3), split(0));
    assert!(matches!(
        Batches::new(&some, 0, 1),
        Err(DataError::ZeroBatch)
    ));
    assert!(matches!(
        Batches::new(&none, 1, 1),
        Err(DataError::EmptySplit)
    ));
    assert!(matches!(some.chunks(0), Err(DataError::ZeroBatch)));
    assert_eq!(none.chunks(1).expect("a chunk size").count(), 0);
}

#[test]
fn a_buffer_of_the_wrong_length_is_an_error_and_skips_no_image() {
    let split = split(6);
    let mut batches = Batches::new(&split, 3, 1).expect("a batch size");
    let mut same = batches.clone();
    let error = batches
        .next_into(&mut [0.0; 6], &mut [0; 4])
        .expect_err("4 labels");
    assert!(
        matches!(
            error,
            DataError::BufferLength {
                what: "labels",
                expected: 3,
                found: 4
            }
        ),
        "{error:?}"
    );
    assert_eq!(
        error.to_string(),
        "the buffer for labels holds 4 elements, this batch fills 3"
    );
    let mut vast = Batches::new(&split, usize::MAX, 1).expect("a batch size");
    assert!(vast.next_into(&mut [0.0; 6], &mut [0; 3]).is_err());
    assert!(batches.next_into(&mut [0.0; 5], &mut [0; 3]).is_err());
    assert!(
        batches
            .next_one_hot_into(&mut [0.0; 6], &mut [0.0; 29])
            .is_err()
    );
    assert_eq!(draw(&mut batches), draw(&mut same));
}

#[test]
fn pixels_are_scaled_to_0_and_1_within_a_rounding() {
    let bytes: Vec<u8> = (0..=255).collect();
    let mut to = [f32::NAN; 256];
    scale(&bytes, &mut to);
    assert_eq!((to[0], to[255]), (0.0, 1.0));
    for (byte, found) in bytes.iter().zip(to) {
        let exact = f64::from(*byte) / 255.0;
        assert!((f64::from(found) - exact).abs() <= exact * f64::from(f32::EPSILON));
    }
}

#[test]
fn chunks_cover_all_images_in_order_and_the_last_is_smaller() {
    let split = split(10);
    let mut chunks = split.chunks(4).expect("a chunk size");
    assert_eq!(chunks.len(), 3);
    let lengths: Vec<usize> = chunks.clone().map(|c| c.len()).collect();
    assert_eq!(lengths, [4, 4, 2]);
    let last = chunks.nth(2).expect("a third chunk");
    let (mut images, mut labels, mut rows) = ([0.0; 4], [0; 2], [0.0; 20]);
    last.images_into(&mut images).expect("lengths fit");
    last.labels_into(&mut labels).expect("lengths fit");
    last.one_hot_into(&mut rows).expect("lengths fit");
    assert_eq!(
        images.map(|p| (p * 255.0).round()),
        [8.0, 247.0, 9.0, 246.0]
    );
    assert_eq!(labels, [8, 9]);
    assert_eq!((rows[8], rows[19], rows.iter().sum()), (1.0, 1.0, 2.0));
    assert!(last.images_into(&mut [0.0; 3]).is_err());
    assert!(last.labels_into(&mut [0; 3]).is_err());
    assert!(last.one_hot_into(&mut [0.0; 10]).is_err());
}

#[test]
fn the_first_batch_of_the_repository_data_is_stable() {
    let mnist = Mnist::load(repository_data()).expect("the repository's data");
    let mut batches = mnist.train.batches(12, 1).expect("a batch size");
    let (mut images, mut labels) = (vec![0.0; 12 * 784], vec![0; 12]);
    batches
        .next_into(&mut images, &mut labels)
        .expect("lengths fit");
    // From a second implementation of the shuffle, in Python.
    assert_eq!(labels, [4, 7, 9, 4, 6, 0, 2, 6, 1, 1, 7, 9]);
}

proptest! {
    #[test]
    fn any_size_and_seed_serve_whole_epochs(
        count in 1u8..40, size in 1usize..100, seed in any::<u64>(),
    ) {
        let split = split(count);
        let n = usize::from(count);
        let mut batches = Batches::new(&split, size, seed).expect("a batch size");
        let seen: Vec<u8> = (0..3).flat_map(|_| draw(&mut batches)).collect();
        prop_assert_eq!(batches.epoch(), (3 * size / n) as u64);
        for epoch in seen.chunks_exact(n) {
            prop_assert!(sorted(epoch.to_vec()).into_iter().eq(0..count));
        }
    }
}

#[test]
fn seek_resumes_the_sequence_of_batches() {
    let split = split(10);
    let mut undisturbed = Batches::new(&split, 3, 5).expect("a batch size");
    let mut seen = vec![];
    for _ in 0..12 {
        seen.push((undisturbed.position(), draw(&mut undisturbed)));
    }
    let mut other = Batches::new(&split, 3, 5).expect("a batch size");
    for (position, batch) in seen.iter().rev().chain(&seen) {
        other.seek(*position);
        assert_eq!(other.position(), *position);
        assert_eq!(draw(&mut other), *batch);
    }
}
