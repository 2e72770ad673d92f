//! Transpose, ConjugateTranspose, InvertPermutation.

use bytemuck::Pod;
use smallvec::{SmallVec, smallvec};
use thalweg_cpu::number::Arithmetic;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu, on_host};
use thalweg_graph::op::{Gradient, InputGradients, arg, type_attr, type_attr_or};
use thalweg_graph::{GradCx, InferError, OpDef};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Shape, dispatch};

use crate::array::box_copies::BoxCopies;
use crate::support::elementwise::CHUNK;
use crate::support::gradient_nodes::int_vector;
use crate::support::numbered_elements::numbered_kernel;
use crate::support::shape_inputs::{
    int_tensor_for, ints_per_dim, invalid_value, kernel_error, known_outputs,
};
use crate::support::strided_copy::{CopyAxis, StridedCopy, steps};

/// Checks that `perm` is a permutation, and returns it as indices.
fn permutation(input: usize, perm: &[i64]) -> Result<SmallVec<[usize; 6]>, InferError> {
    let mut seen = vec![false; perm.len()];
    perm.iter()
        .map(|&p| {
            let i = usize::try_from(p).ok().filter(|&i| i < perm.len());
            i.filter(|&i| !std::mem::replace(&mut seen[i], true))
        })
        .collect::<Option<_>>()
        .ok_or_else(|| {
            let n = perm.len();
            invalid_value(
                input,
                format!("{perm:?} is no permutation: each of 0..{n} must stand in it once"),
            )
        })
}

/// A permutation whose axes may be negative, as in TensorFlow.
fn axes(perm: &[i64]) -> Result<SmallVec<[usize; 6]>, InferError> {
    let rank = perm.len() as i64;
    let forward: Vec<i64> = perm
        .iter()
        .map(|&p| if (-rank..0).contains(&p) { p + rank } else { p })
        .collect();
    permutation(1, &forward)
}

fn inverse(perm: &[usize]) -> Vec<i64> {
    let mut inverse = vec![0; perm.len()];
    for (i, &p) in perm.iter().enumerate() {
        inverse[p] = i as i64;
    }
    inverse
}

/// Permutes the dimensions.
pub(crate) static TRANSPOSE: Op = Op {
    def: OpDef {
        name: "Transpose",
        summary: "The input with its dimensions in another order: dimension i of the output is perm[i] of the input.",
        inputs: &[arg("x", "T"), arg("perm", "Tperm").host()],
        outputs: &[arg("y", "T")],
        attrs: &[
            type_attr("T", &DType::ALL),
            type_attr_or("Tperm", DType::INDICES, DType::I32),
        ],
        shape: |cx| {
            let length = cx.ranked(1, 1)?.dim(0);
            let rank = cx.shape(0).rank().or(length);
            if let (Some(rank), Some(length)) = (rank, length)
                && rank != length
            {
                return Err(invalid_value(
                    1,
                    format!(
                        "{} for a tensor of shape {}: there must be {rank}",
                        counted(length, "number"),
                        cx.shape(0)
                    ),
                ));
            }
            let shape = match ints_per_dim(cx, 1)? {
                Some(perm) => {
                    let perm = axes(&perm)?;
                    Shape::partial(perm.iter().map(|&p| cx.shape(0).dim(p)))
                }
                None => rank.map_or(Shape::unknown(), Shape::of_rank),
            };
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::Rule(|g| gradient(g, "Transpose")),
        same_as: |cx| {
            let perm = axes(&cx.ints(1)?).ok()?;
            perm.iter().enumerate().all(|(i, &p)| i == p).then_some(0)
        },
        ..OpDef::EMPTY
    },
    kernels: &[
        numbered_kernel!(TRANSPOSE, "T"),
        cpu(|p| transpose_moves(p)?.on_cpu()),
        gpu(|p| transpose_moves(p)?.on_gpu()),
    ],
};

/// Permutes the dimensions, and conjugates complex numbers.
pub(crate) static CONJUGATE_TRANSPOSE: Op = Op {
    def: OpDef {
        name: "ConjugateTranspose",
        summary: "The complex conjugates of the input with its dimensions in another order: dimension i of the output is perm[i] of the input.",
        gradient: Gradient::Rule(|g| gradient(g, "ConjugateTranspose")),
        same_as: |cx| match cx.dtype(0).is_complex() {
            true => None,
            false => (TRANSPOSE.def.same_as)(cx),
        },
        ..TRANSPOSE.def
    },
    kernels: &[
        numbered_kernel!(CONJUGATE_TRANSPOSE, "T"),
        cpu(
            |p| dispatch!(p.dtype(0), COMPLEX, T => conjugated::<T>(p), else transpose_moves(p)?.on_cpu()),
        ),
        gpu(|p| transpose_moves(p)?.on_gpu()),
    ],
};

/// Kernel that transposes, and conjugates each element of the output.
fn conjugated<T: Arithmetic + Pod>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let moved = transposition(p)?;
    Ok(Prepared::new(p.outputs[0].elements(), move |cx| {
        let out = cx.output::<T>(0)?;
        moved.run(cx.cpu(), cx.input::<T>(0)?, out)?;
        for_chunks(cx.pool(), out, CHUNK, &|_, out| {
            out.iter_mut().for_each(|x| *x = x.conj());
        });
        Ok(())
    }))
}

/// The gradient in the order of the input, by `op`.
fn gradient<'g>(g: &GradCx<'_, 'g>, op: &str) -> InputGradients<'g> {
    let (graph, perm) = (g.graph(), g.input(1));
    let fact = perm.fact();
    let known = fact.value.and_then(|v| axes(&v.to_ints()?).ok());
    let back = match known {
        Some(perm) => int_vector(graph, fact.dtype, &inverse(&perm)),
        None => graph.op("InvertPermutation").input(perm).output(),
    };
    let dx = graph.op(op).input(g.grad()).input(back);
    smallvec![Some(dx.output())]
}

fn transpose_moves(p: &Prepare<'_>) -> Result<BoxCopies, KernelError> {
    Ok(BoxCopies::one(p, transposition(p)?))
}

fn transposition(p: &Prepare<'_>) -> Result<StridedCopy, KernelError> {
    let perm = axes(&p.ints(1)?).map_err(kernel_error)?;
    let (from, out) = (steps(p.dims(0)), p.output_dims(0));
    let to = steps(out);
    if perm.len() != from.len() || perm.len() != out.len() {
        return Err(KernelError::Argument("an axis for each dimension"));
    }
    let axes: Vec<CopyAxis> = (0..out.len())
        .map(|i| CopyAxis {
            len: out[i],
            from: from[perm[i]],
            to: to[i],
        })
        .collect();
    StridedCopy::new(0, 0, &axes)
}

/// Inverse of a permutation.
pub(crate) static INVERT_PERMUTATION: Op = Op {
    def: OpDef {
        name: "InvertPermutation",
        summary: "The permutation that undoes the one given: y[x[i]] = i.",
        inputs: &[arg("x", "T").host()],
        outputs: &[arg("y", "T")],
        attrs: &[type_attr_or("T", DType::INDICES, DType::I32)],
        shape: |cx| {
            let shape = cx.ranked(0, 1)?;
            cx.set(0, shape);
            if let Some(perm) = cx.ints(0) {
                let back = inverse(&permutation(0, &perm)?);
                let value = int_tensor_for("T", cx.dtype(0), &[back.len()], &back)?;
                cx.set_value(0, value);
            }
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let back = inverse(&permutation(0, &p.ints(0)?).map_err(kernel_error)?);
            let value =
                int_tensor_for("T", p.dtype(0), &[back.len()], &back).map_err(kernel_error)?;
            known_outputs(p.dtype(0), vec![value])
        }),
        on_host(),
    ],
};
