//! Kernels that treat the matrices of a batch one by one, on several threads.

use std::array;
use std::sync::{Mutex, PoisonError};

use bytemuck::Pod;
use smallvec::SmallVec;
use thalweg_cpu::Isa;
use thalweg_cpu::parallel::Disjoint;
use thalweg_cpu::scratch::{Scratch, for_lanes, lanes_scratch};
use thalweg_device::{KernelCx, KernelError, Operand, Prepare, Prepared};
use thalweg_tensor::shape::{checked_elements, elements};
use thalweg_tensor::{Dims, Element};

use super::matrices::matrix_at;

/// The parts of the operands of a node that belong to one matrix of the batch.
#[derive(Clone, Copy)]
pub(super) struct EachMatrix<const I: usize, const O: usize> {
    /// For each input, the number of its last dimensions that do. Those before them broadcast.
    pub inputs: [usize; I],
    /// As `inputs`, of outputs.
    pub outputs: [usize; O],
    /// Elements of scratch memory for a matrix; `None` where they cannot be counted.
    pub scratch: Option<usize>,
    /// Estimated multiplications for a matrix.
    pub work: usize,
}

/// One matrix of a batch: parts of inputs, parts of outputs, and scratch memory with arbitrary contents.
pub(super) struct MatrixCx<'a, T, const I: usize, const O: usize> {
    pub isa: Isa,
    pub inputs: [&'a [T]; I],
    pub outputs: [&'a mut [T]; O],
    pub scratch: &'a mut [T],
}

/// Batch dimensions of an operand, and elements of the part that belongs to one matrix.
type Part = (Dims, usize);

fn part(operand: Option<&Operand>, rank: usize) -> Result<Part, KernelError> {
    let dims = operand.map_or(&[][..], |o| &o.dims);
    let split = dims.len().checked_sub(rank);
    let (batch, own) = dims.split_at(split.ok_or(KernelError::Argument("a matrix"))?);
    Ok((batch.into(), checked_elements(own).ok_or_else(too_large)?))
}

fn too_large() -> KernelError {
    KernelError::Invalid("a matrix is too large".to_owned())
}

/// A kernel that calls `body` for each matrix of the batch of output 0. The node fails with the error of the first matrix
/// that has one.
pub(super) fn each_matrix<T: Element + Pod, const I: usize, const O: usize>(
    p: &Prepare<'_>,
    form: EachMatrix<I, O>,
    body: impl Fn(MatrixCx<'_, T, I, O>) -> Result<(), &'static str> + Send + Sync + 'static,
) -> Result<Prepared, KernelError> {
    let part_of = |operands: &[Operand], i: usize, rank| part(operands.get(i), rank);
    let mut inputs: [Part; I] = array::from_fn(|_| Part::default());
    let mut outputs: [Part; O] = array::from_fn(|_| Part::default());
    for (i, input) in inputs.iter_mut().enumerate() {
        *input = part_of(p.inputs, i, form.inputs[i])?;
    }
    for (o, output) in outputs.iter_mut().enumerate() {
        *output = part_of(p.outputs, o, form.outputs[o])?;
    }
    let batch = outputs
        .first()
        .map_or(Dims::new(), |(batch, _)| batch.clone());
    let count = elements(&batch);
    if count == 0 {
        return Ok(Prepared::new(0, |_| Ok(())));
    }
    let len = form.scratch.ok_or_else(too_large)?;
    let bytes = len.checked_mul(size_of::<T>()).ok_or_else(too_large)?;
    let lane = bytes
        .checked_add(Scratch::bytes::<T>(0))
        .ok_or_else(too_large)?;
    let lanes = count.min(p.cpu.pool().threads());
    lane.checked_mul(2 * lanes).ok_or_else(too_large)?;
    let scratch = lanes_scratch(count, lanes, lane);
    let run = move |cx: &KernelCx<'_>| {
        let mut read = [&[][..]; I];
        for (i, elements) in read.iter_mut().enumerate() {
            *elements = cx.input::<T>(i)?;
        }
        let written = (0..O).map(|o| Ok(Disjoint::new(cx.output::<T>(o)?)));
        let written = written.collect::<Result<SmallVec<[_; O]>, KernelError>>()?;
        let failed = Mutex::new(None);
        let (isa, bytes) = (cx.cpu().isa(), cx.scratch::<u8>(scratch)?);
        for_lanes(cx.pool(), count, bytes, lane, &|i, bytes| {
            let one = MatrixCx {
                isa,
                inputs: array::from_fn(|k| {
                    let (own, size) = &inputs[k];
                    &read[k][matrix_at(i, &batch, own) * size..][..*size]
                }),
                outputs: array::from_fn(|o| {
                    let size = outputs[o].1;
                    // SAFETY: each matrix of the batch is treated once, and has its own part.
                    unsafe { written[o].slice(i * size, size) }
                }),
                scratch: Scratch::new(bytes).take(len),
            };
            if let Err(error) = body(one) {
                let mut first = failed.lock().unwrap_or_else(PoisonError::into_inner);
                if first.is_none_or(|(before, _)| i < before) {
                    *first = Some((i, error));
                }
            }
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some((_, error)) if count == 1 => Err(KernelError::Invalid(error.to_owned())),
            Some((i, error)) => {
                let text = format!("{error} (matrix {i} of {count}, counted from 0)");
                Err(KernelError::Invalid(text))
            }
        }
    };
    let work = form.work.saturating_mul(count);
    Ok(Prepared::new(work, run).with_scratch(scratch))
}

/// The product of dimensions, as an estimate of work.
pub(super) fn product(dims: &[usize]) -> usize {
    elements(dims).min(1 << 48)
}
