//! SparseSoftmax.

use smallvec::smallvec;
use thalweg_cpu::number::{Arithmetic, Float, Wide};
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Gradient, InputGradients, arg, arg_of, type_attr};
use thalweg_graph::{GradCx, OpDef};
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use super::sparse_input::{SparseInput, infer_sparse, invalid};
use crate::support::gradient_nodes::int_vector;

/// Softmax of the entries of each row of a sparse tensor.
pub(crate) static SOFTMAX: Op = Op {
    def: OpDef {
        name: "SparseSoftmax",
        summary: "The softmax of the entries of each row of a sparse tensor; places without an entry have none.",
        inputs: &[
            arg_of("sp_indices", DType::I64),
            arg("sp_values", "T"),
            arg_of("sp_shape", DType::I64),
        ],
        outputs: &[arg("output", "T")],
        attrs: &[type_attr("T", &[DType::F16, DType::F32, DType::F64])],
        shape: |cx| {
            infer_sparse(cx, 0)?;
            cx.set(
                0,
                Shape::partial([cx.shape(0).dim(0).or(cx.shape(1).dim(0))]),
            );
            Ok(())
        },
        gradient: Gradient::Rule(gradient),
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let dtype = cx.tensor(1)?.dtype();
        dispatch!(dtype, [F16 F32 F64], T => softmax::<T>(cx), else Err(KernelError::DType(dtype)))
    })],
};

fn softmax<T: Float>(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let sparse = SparseInput::of(cx, 0)?;
    if sparse.rank() < 2 {
        return Err(invalid(format!(
            "Input should have rank >= 2, but received shape: {}",
            super::sparse_input::listed(&sparse.shape)
        )));
    }
    sparse.check_inside(cx)?;
    // The result is in ascending order of the indices, as in TensorFlow.
    let order = sparse.sorted_by(cx, |index| index)?;
    let mut out = cx.zeros(T::DTYPE, &[sparse.len()])?;
    let (to, values) = (out.as_mut_slice::<T>()?, sparse.values.as_slice::<T>()?);
    to.iter_mut()
        .zip(order.iter())
        .for_each(|(to, &entry)| *to = values[entry]);
    let row = |at: usize| &sparse.index(order[at])[..sparse.rank() - 1];
    let (mut start, mut stop) = (0, cx.stop_check());
    while start < values.len() {
        let same = (start + 1..values.len()).take_while(|&at| row(at) == row(start));
        let end = start + 1 + same.count();
        let own = &mut to[start..end];
        let largest = own.iter().map(|x| x.widen());
        let largest = largest.fold(T::Wide::NEG_INFINITY, |a, b| if a < b { b } else { a });
        let mut sum = T::Wide::ZERO;
        for x in own.iter() {
            stop.tick()?;
            sum = Arithmetic::add(sum, Wide::exp(x.widen() - largest));
        }
        for x in own {
            *x = T::narrow(Wide::exp(x.widen() - largest) / sum);
        }
        start = end;
    }
    Ok(vec![out])
}

fn gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (graph, y, dy) = (g.graph(), g.output(0), g.grad());
    let sums = graph.op("SparseReduceSum").input(g.input(0)).input(y * dy);
    let sums = sums
        .input(g.input(2))
        .input(int_vector(graph, DType::I32, &[-1]));
    let sums = sums.attr("keep_dims", true).output();
    let node = graph.op("SparseDenseCwiseAdd").input(g.input(0)).input(dy);
    let centered = node.input(g.input(2)).input(-sums).output();
    smallvec![None, Some(centered * y)]
}
