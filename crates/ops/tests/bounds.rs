//! `evaluate_within`: single nodes with bounds on time and memory.

use std::sync::Arc;

use thalweg_device::{Argument, Bounds, Cpu, KernelError, evaluate_within};
use thalweg_graph::Graph;
use thalweg_ops::{NewGraph, SourceOps};
use thalweg_tensor::{BUFFER_OVERHEAD, DType, Memory, Tensor, TensorError};

/// Runs a node of `op` on these inputs, within an estimated cost of `cost` and `bytes` bytes of memory.
fn run(op: &str, inputs: &[Tensor], cost: u64, bytes: usize) -> Result<Vec<Tensor>, KernelError> {
    let g = Graph::new();
    let x = inputs
        .iter()
        .map(|t| g.placeholder("x", t.dtype(), t.shape()));
    let node = g.op(op).inputs(x.collect::<Vec<_>>());
    let node = match op {
        "TensorArrayV3" => node.attr("dtype", DType::F32),
        _ => node,
    };
    let id = node.build().id();
    assert!(g.errors().is_empty(), "{:?}", g.errors());
    let cpu = Cpu::new(1);
    let memory = Arc::new(Memory::within(cpu.memory(), bytes));
    let bounds = Bounds {
        memory: &memory,
        cost,
    };
    let arguments: Vec<Argument<'_>> = inputs.iter().map(Argument::Value).collect();
    let op = thalweg_ops::kernels()[op];
    evaluate_within(bounds, &cpu, op, g.snapshot().node(id), &arguments)
}

#[test]
fn what_would_take_long_is_not_begun() {
    let wide = Tensor::zeros(DType::F32, &[1000, 1000]).unwrap();
    let small = Tensor::zeros(DType::F32, &[10, 10]).unwrap();
    let product = |x: &Tensor| run("MatMul", &[x.clone(), x.clone()], 1_000_000, 1 << 30);
    assert!(product(&small).is_ok());
    assert_eq!(product(&wide).unwrap_err(), KernelError::Stopped);
    // A kernel without an estimate is estimated by the bytes of its inputs.
    let text = |bytes: usize| Tensor::strings(&[], &[vec![b'x'; bytes]]).unwrap();
    let upper = |x: Tensor| run("StringUpper", &[x], 1_000_000, 1 << 30);
    assert!(upper(text(100)).is_ok());
    assert_eq!(upper(text(1 << 20)).unwrap_err(), KernelError::Stopped);
}

#[test]
fn what_would_take_much_memory_is_refused() {
    let x = Tensor::strings(&[], &[[b'x'; 600]]).unwrap();
    let joined = |bytes| run("StringJoin", &[x.clone(), x.clone()], u64::MAX, bytes);
    assert!(joined(2000).is_ok());
    let refused = joined(1000).unwrap_err();
    let expected = matches!(refused, KernelError::Tensor(TensorError::TooLarge { .. }));
    assert!(expected, "{refused}");
    let row = Tensor::zeros(DType::F32, &[600]).unwrap();
    assert!(
        run(
            "Tanh",
            std::slice::from_ref(&row),
            u64::MAX,
            3000 + BUFFER_OVERHEAD
        )
        .is_ok()
    );
    assert!(run("Tanh", &[row], u64::MAX, 2000).is_err());
}

#[test]
fn what_a_kernel_works_with_counts_as_well() {
    let rows = 1 << 20;
    let empty = Tensor::zeros(DType::F32, &[0, rows]).unwrap();
    let axis = Tensor::vector(&[1i64]);
    let size = Tensor::scalar(rows as i32);
    let cases = [
        ("UniqueV2", vec![empty, axis]),
        ("TensorArrayV3", vec![size]),
    ];
    for (op, inputs) in cases {
        assert!(run(op, &inputs, u64::MAX, 1 << 30).is_ok(), "{op}");
        let refused = run(op, &inputs, u64::MAX, 4 << 20).unwrap_err();
        let expected = matches!(refused, KernelError::Memory { .. });
        assert!(expected, "{op}: {refused}");
    }
}
