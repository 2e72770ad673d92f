//! Datasets and iterators: older ops, mistakes, cancelled steps, memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg::graph::Attr;
use thalweg::prelude::*;
use thalweg::tensor::Memory;

use super::*;

#[test]
fn older_batches_are_those_of_the_newer_ops() {
    let g = Graph::new();
    let session = Session::new(&g).unwrap();
    let batches = node(
        &g,
        "BatchDataset",
        &[range(&g, 5), g.constant(2i64)],
        DType::I64,
    )
    .output();
    let (all, _) = elements(&session, batches, DType::I64);
    let all: Vec<Vec<i64>> = all.iter().map(|t| t.to_vec().unwrap()).collect();
    assert_eq!(all, [vec![0, 1], vec![2, 3], vec![4]]);

    let padded = g.op("PaddedBatchDataset").inputs([
        batches,
        g.constant(2i64),
        g.constant([3i64]),
        g.constant(9i64),
    ]);
    let padded = padded.attr("Toutput_types", Attr::Types(vec![DType::I64]));
    let padded = padded
        .attr("output_shapes", Attr::Shapes(vec![Shape::unknown()]))
        .attr("N", 1)
        .output();
    let none = g.constant(Tensor::strings(&[0], &[""; 0]).unwrap());
    let same = node(
        &g,
        "OptimizeDatasetV2",
        &[padded, none, none, none],
        DType::I64,
    )
    .output();
    let (all, end) = elements(&session, same, DType::I64);
    let all: Vec<Vec<i64>> = all.iter().map(|t| t.to_vec().unwrap()).collect();
    assert_eq!(all, [vec![0, 1, 9, 2, 3, 9], vec![4, 9, 9]]);
    assert!(end.contains("End of sequence"), "{end}");
}

#[test]
fn mistakes_in_datasets_are_named() {
    let g = Graph::new();
    let session = Session::new(&g).unwrap();
    let three = range(&g, 3);
    let i64s = |all: &[i64]| all.iter().map(|&n| g.constant(n)).collect::<Vec<_>>();
    let of = |op: &str, numbers: &[i64]| {
        let inputs = [vec![three], i64s(numbers)].concat();
        elements(
            &session,
            node(&g, op, &inputs, DType::I64).output(),
            DType::I64,
        )
    };
    let (taken, end) = of("AssertCardinalityDataset", &[4]);
    assert_eq!(taken.len(), 3);
    assert!(
        end.contains("was said to have 4 elements, and has 3"),
        "{end}"
    );
    let (taken, end) = of("AssertCardinalityDataset", &[2]);
    assert_eq!(taken.len(), 2);
    assert!(
        end.contains("was said to have 2 elements, and has more"),
        "{end}"
    );

    let unmade = |op: &str, numbers: &[i64]| {
        let inputs = [vec![three], i64s(numbers)].concat();
        let (start, _) = iterate(&g, node(&g, op, &inputs, DType::I64).output(), DType::I64);
        session.run::<()>(start, []).unwrap_err().to_string()
    };
    for (op, numbers, text) in [
        ("ShardDataset", &[3, 3][..], "index must be from 0 to 2"),
        (
            "ShardDataset",
            &[0, 0],
            "num_shards must be 1 or more, and is 0",
        ),
        (
            "BatchDataset",
            &[-4],
            "batch_size must be 1 or more, and is -4",
        ),
        (
            "ShuffleDataset",
            &[0, 1, 1],
            "buffer_size must be 1 or more, and is 0",
        ),
    ] {
        let error = unmade(op, numbers);
        assert!(error.contains(text), "{op}: {error}");
    }
    // An element of another dtype than the iterator's.
    let (_, end) = elements(&session, three, DType::F32);
    assert!(end.contains("component 0 of the element is i64"), "{end}");
}

#[test]
fn an_endless_dataset_without_elements_ends_with_its_step() {
    let g = Graph::new();
    let session = Session::new(&g).unwrap();
    // Each pass skips all elements, so no pass has one.
    let all = node(
        &g,
        "RepeatDataset",
        &[range(&g, 1 << 40), g.constant(-1i64)],
        DType::I64,
    )
    .output();
    let none = node(&g, "SkipDataset", &[all, g.constant(i64::MAX)], DType::I64).output();
    let (start, next) = iterate(&g, none, DType::I64);
    session.run::<()>(start, []).unwrap();
    let started = Instant::now();
    let options = RunOptions::new().timeout(Duration::from_millis(50));
    let error = session.step_with(next, [], &options).unwrap_err();
    assert!(matches!(error, SessionError::Timeout { .. }), "{error}");
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn elements_that_a_dataset_keeps_count_against_the_memory() {
    let g = Graph::new();
    let limited = || {
        let memory = Arc::new(Memory::new(Some(1 << 20)));
        let options = SessionOptions::new().memory_account(memory);
        Session::with_options(&g, options).unwrap()
    };
    let all = range(&g, i64::MAX);
    let n = |n: i64| g.constant(n);
    let none = g.constant(Tensor::strings(&[], &[""]).unwrap());
    let drop = g.constant(false);
    let large = 1 << 40;
    for (op, inputs) in [
        ("ShuffleDataset", vec![all, n(large), n(1), n(2)]),
        ("BatchDatasetV2", vec![all, n(large), drop]),
        ("WindowDataset", vec![all, n(large), n(1), n(1), drop]),
    ] {
        let (taken, end) = elements(
            &limited(),
            node(&g, op, &inputs, DType::I64).output(),
            DType::I64,
        );
        assert!(
            taken.is_empty() && end.contains("no memory for"),
            "{op}: {end}"
        );
    }
    let cache = node(&g, "CacheDataset", &[all, none], DType::I64).output();
    let (taken, end) = elements(&limited(), cache, DType::I64);
    assert!(
        taken.len() > 1000 && end.contains("no memory for"),
        "{}: {end}",
        taken.len()
    );
}

#[test]
fn a_deep_chain_of_datasets_is_an_error() {
    let g = Graph::new();
    let session = Session::new(&g).unwrap();
    let mut chain = range(&g, 3);
    for at in 0..500 {
        if at == 399 {
            assert_eq!(elements(&session, chain, DType::I64).0.len(), 3);
        }
        chain = node(&g, "SkipDataset", &[chain, g.constant(0i64)], DType::I64).output();
    }
    let (start, _) = iterate(&g, chain, DType::I64);
    let error = session.run::<()>(start, []).unwrap_err().to_string();
    assert!(error.contains("datasets stand on each other"), "{error}");
}

#[test]
fn an_iterator_says_its_device() {
    let g = Graph::new();
    let session = Session::new(&g).unwrap();
    let iterator = node(&g, "IteratorV2", &[], DType::I64)
        .attr("shared_name", "")
        .attr("container", "")
        .output();
    let device = session
        .run::<Tensor>(g.op("IteratorGetDevice").input(iterator).output(), [])
        .unwrap();
    let device = String::from_utf8_lossy(&device.as_strings().unwrap()[0]).into_owned();
    assert!(device.ends_with("device:CPU:0"), "{device}");
}

/// Batches are cut into parts of the first batch's size by the number of replicas.
#[test]
fn a_rebatched_dataset_has_the_parts_of_its_batches() {
    let g = Graph::new();
    let batches = node(
        &g,
        "BatchDataset",
        &[range(&g, 7), g.constant(4i64)],
        DType::I64,
    );
    let parts = node(
        &g,
        "RebatchDataset",
        &[batches.output(), g.constant(2i64)],
        DType::I64,
    );
    let wrapped = g.op("WrapDatasetVariant").input(parts.output()).output();
    let parts = g.op("UnwrapDatasetVariant").input(wrapped).output();
    let session = Session::new(&g).unwrap();
    let (found, _) = elements(&session, parts, DType::I64);
    let expected: [&[i64]; 4] = [&[0, 1], &[2, 3], &[4, 5], &[6]];
    assert_eq!(found, expected.map(Tensor::vector));
}
