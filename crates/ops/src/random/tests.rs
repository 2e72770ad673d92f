//! Tests of random ops: determinism, sequences, moments, invalid arguments.

use std::sync::atomic::AtomicU64;

use thalweg_cpu::Isa;
use thalweg_device::{Argument, Cpu, KernelError, evaluate};
use thalweg_graph::{Graph, Output};
use thalweg_tensor::{DType, Tensor};

use super::RandomOps;
use crate::{NewGraph, SourceOps};

/// Runs the node of `output` on its constant inputs, once for each counter.
fn run(cpu: &Cpu, output: Output<'_>, counter: &AtomicU64) -> Result<Tensor, KernelError> {
    let graph = output.graph().snapshot();
    assert_eq!(output.graph().errors(), []);
    let node = graph.node(output.id().node);
    let inputs: Vec<Tensor> = (node.inputs.iter())
        .map(|&i| graph.fact(i).and_then(|f| f.value.clone()).expect("known"))
        .collect();
    let arguments: Vec<Argument<'_>> = inputs.iter().map(Argument::Value).collect();

    let op = crate::kernels()[node.op.name];
    let outputs = evaluate(cpu, op, node, &arguments, Some(counter))?;
    Ok(outputs.into_iter().next().expect("an output"))
}

fn first_run(cpu: &Cpu, output: Output<'_>) -> Tensor {
    run(cpu, output, &AtomicU64::new(0)).expect("it runs")
}

/// One node of each op and dtype, large enough for several tasks, with a size that is not a multiple of a block.
fn one_node_of_each_kind(g: &Graph) -> Vec<Output<'_>> {
    let size = [3, 16 * 1024 + 5];
    let floats = DType::FLOATS.iter().flat_map(|&dtype| {
        [
            g.random_uniform(size, 0.0, 1.0, dtype, Some(3)),
            g.random_normal(size, 0.0, 1.0, dtype, Some(3)),
            g.truncated_normal(size, 0.0, 1.0, dtype, Some(3)),
        ]
    });
    let ints =
        (DType::INDICES.iter()).map(|&dtype| g.random_uniform_int(size, -7, 1000, dtype, Some(3)));
    floats.chain(ints).collect()
}

#[test]
fn numbers_do_not_depend_on_instruction_set_or_threads() {
    let g = Graph::new();
    for output in one_node_of_each_kind(&g) {
        let expected = first_run(&Cpu::with_isa(1, Isa::portable()), output);
        for isa in Isa::available() {
            for threads in [1, 3] {
                let found = first_run(&Cpu::with_isa(threads, isa), output);
                // Compares bytes, to distinguish NaNs and zeros.
                let same = found.bytes() == expected.bytes();
                assert!(same, "{output:?} with {threads} threads and {isa:?}");
            }
        }
    }
}

#[test]
fn a_longer_run_extends_a_shorter_one_and_runs_do_not_repeat() {
    let (g, cpu) = (Graph::new(), Cpu::new(2));
    let long = g.truncated_normal([40_000], 0.0, 1.0, DType::F32, Some(1));
    let short = g.truncated_normal([30_001], 0.0, 1.0, DType::F32, Some(1));
    let counter = AtomicU64::new(0);
    let long = [(); 2].map(|()| run(&cpu, long, &counter).expect("it runs"));
    let long = long.each_ref().map(|t| t.as_slice::<f32>().expect("f32"));
    let short = first_run(&cpu, short);
    assert_eq!(&long[0][..30_001], short.as_slice::<f32>().expect("f32"));
    assert_ne!(long[0], long[1]);
}

#[test]
fn moments_and_bounds_match_the_distributions() {
    let (g, cpu) = (Graph::new(), Cpu::new(2));
    let n = 200_000;
    // Mean, variance, bound: those of a normal distribution without its tails beyond 2 follow
    // from its density there, 0.05399, and the probability between, 0.95450.
    let cases = [
        (
            g.random_uniform([n], 0.0, 1.0, DType::F32, Some(5)),
            0.5,
            1.0 / 12.0,
            1.0,
        ),
        (
            g.random_normal([n], 0.0, 1.0, DType::F32, Some(5)),
            0.0,
            1.0,
            5.7,
        ),
        (
            g.truncated_normal([n], 0.0, 1.0, DType::F32, Some(5)),
            0.0,
            0.77374,
            2.0,
        ),
    ];
    for (output, mean, variance, bound) in cases {
        let t = first_run(&cpu, output);
        let values = t.as_slice::<f32>().expect("f32");
        let average = |f: &dyn Fn(f64) -> f64| {
            values.iter().map(|&v| f(f64::from(v))).sum::<f64>() / f64::from(n)
        };
        assert!((average(&|v| v) - mean).abs() < 0.01, "{output:?}");
        assert!(
            (average(&|v| (v - mean) * (v - mean)) - variance).abs() < 0.01,
            "{output:?}"
        );
        assert!(
            values.iter().all(|v| f64::from(v.abs()) < bound),
            "{output:?}"
        );
    }
}

#[test]
fn nodes_without_a_seed_differ() {
    let (g, cpu) = (Graph::new(), Cpu::new(1));
    let [a, b] =
        [(); 2].map(|()| first_run(&cpu, g.random_uniform([8], 0.0, 1.0, DType::F32, None)));
    assert_ne!(a.as_slice::<f32>(), b.as_slice::<f32>());
}

#[test]
fn an_empty_integer_interval_is_an_error_unless_nothing_is_drawn() {
    let (g, cpu, counter) = (Graph::new(), Cpu::new(1), AtomicU64::new(0));
    for (low, high) in [(5, 5), (6, 5)] {
        let error = run(
            &cpu,
            g.random_uniform_int([2], low, high, DType::I32, None),
            &counter,
        );
        assert!(
            matches!(error, Err(KernelError::Element { input: 2, .. })),
            "{error:?}"
        );
        let none = run(
            &cpu,
            g.random_uniform_int([0], low, high, DType::I32, None),
            &counter,
        );
        assert!(none.is_ok_and(|t| t.is_empty()));
    }
}

#[test]
fn invalid_shapes_are_errors() {
    let wrong = |build: &dyn Fn(&Graph)| {
        let g = Graph::new();
        build(&g);
        g.errors()
            .first()
            .map(ToString::to_string)
            .unwrap_or_default()
    };
    let of = |shape: Vec<i64>| {
        wrong(&|g| {
            g.random_uniform(shape.clone(), 0.0, 1.0, DType::F32, None);
        })
    };
    assert!(of(vec![2, -1]).contains("negative"), "{}", of(vec![2, -1]));
    assert!(of(vec![i64::MAX, 2]).contains("no memory"));
    assert!(of(vec![i64::MAX]).contains("no memory"));
    assert!(of(vec![1; 255]).contains("255 dimensions"));
    let scalar = wrong(&|g| {
        g.random_uniform(3i64, 0.0, 1.0, DType::F32, None);
    });
    assert!(scalar.contains("must have 1 dimension"), "{scalar}");
    let bound = wrong(&|g| {
        g.random_uniform_int([1], 0, 1 << 40, DType::I32, None);
    });
    assert!(bound.contains("must fit"), "{bound}");
}

#[test]
fn an_unknown_shape_input_still_gives_the_rank() {
    let g = Graph::new();
    let shape = g.placeholder("shape", DType::I64, [3]);
    let drawn = g.random_normal(shape, 1.0, 2.0, DType::F64, None);
    assert_eq!(drawn.shape().to_string(), "[?,?,?]");
    let shape = g.placeholder("shape", DType::I64, [-1]);
    let drawn = g.random_normal(shape, 1.0, 2.0, DType::F64, None);
    assert_eq!(drawn.shape().rank(), None);
    assert_eq!(g.errors(), []);
}

#[test]
fn scaling_by_one_and_shifts_by_zero_add_no_node() {
    let g = Graph::new();
    let op = |o: Output<'_>| g.snapshot().node(o.id().node).op.name;
    let dtype = DType::F32;
    assert_eq!(
        op(g.random_uniform([2], 0.0, 1.0, dtype, None)),
        "RandomUniform"
    );
    assert_eq!(op(g.random_uniform([2], 0.0, 2.0, dtype, None)), "Mul");
    assert_eq!(op(g.random_normal([2], 3.0, 1.0, dtype, None)), "AddV2");
}
