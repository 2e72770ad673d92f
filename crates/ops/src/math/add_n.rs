//! AddN, AccumulateNV2.

use smallvec::SmallVec;
use thalweg_cpu::number::Arithmetic;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, cpu_tensors, gpu, on_host};
use thalweg_graph::op::{Gradient, arg, attr, count_attr, type_attr};
use thalweg_graph::{AttrKind, InferError, OpDef};
use thalweg_tensor::{DType, dispatch};

use crate::flow::variant_sum;
use crate::support::elementwise::CHUNK;
use crate::support::shapes;
use crate::support::sparse_sum;

/// Dtypes that can be added, including lists of tensors.
const SUMMABLE: &[DType] = &DType::joined::<15>(DType::ALL_NUMBERS, &[DType::Variant]);

/// Sum of any number of tensors.
pub(crate) static ADD_N: Op = Op {
    def: OpDef {
        name: "AddN",
        summary: "The sum of tensors of one shape, from the first to the last.",
        inputs: &[arg("inputs", "T").list("N")],
        outputs: &[arg("sum", "T")],
        attrs: &[count_attr("N"), type_attr("T", SUMMABLE)],
        shape: shapes::all_the_same,
        gradient: Gradient::Rule(|g| smallvec::SmallVec::from_elem(Some(g.grad()), g.inputs())),
        same_as: |cx| (cx.inputs() == 1).then_some(0),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu_tensors(|cx| {
            let mut sum = cx.value(0)?;
            for i in 1..cx.inputs() {
                let next = cx.tensor(i)?;
                sum = match sparse_sum::sum_of_variants(cx, &sum, next)? {
                    Some(matrix) => matrix,
                    None => variant_sum::added(&sum, next)?,
                };
            }
            Ok(vec![sum])
        })
        .only(&[("T", &[DType::Variant])]),
        on_host().only(&[("T", &[DType::Variant])]),
        cpu(add_n).only(&[("T", DType::ALL_NUMBERS)]),
        gpu(crate::gpu::add_n).only(&[("T", DType::ALL_NUMBERS)]),
    ],
};

/// Sum of any number of tensors, in any order.
pub(crate) static ACCUMULATE_N_V2: Op = Op {
    def: OpDef {
        name: "AccumulateNV2",
        summary: "The sum of tensors of one shape, given by an attribute.",
        inputs: &[arg("inputs", "T").list("N")],
        outputs: &[arg("sum", "T")],
        attrs: &[
            count_attr("N"),
            type_attr("T", DType::ALL_NUMBERS),
            attr("shape", AttrKind::Shape),
        ],
        shape: |cx| {
            let mut shape = cx.attrs().shape("shape");
            for i in 0..cx.inputs() {
                shape = shape
                    .merge(cx.shape(i))
                    .ok_or_else(|| InferError::Mismatch {
                        what: format!(
                            "input {i} must have the shape of those before it and of the node"
                        ),
                        left: shape.clone(),
                        right: cx.shape(i).clone(),
                    })?;
            }
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::Rule(|g| SmallVec::from_elem(Some(g.grad()), g.inputs())),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(add_n)],
};

/// Number of inputs that are added in one pass over the output.
const INPUTS_PER_PASS: usize = 8;

fn add_n(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    dispatch!(p.dtype(0), ALL_NUMBERS, T => Ok(sum_kernel::<T>(p)), else Err(KernelError::DType(p.dtype(0))))
}

fn sum_kernel<T: Arithmetic>(p: &Prepare<'_>) -> Prepared {
    let inputs = p.inputs.len();
    Prepared::new(p.outputs[0].elements() * inputs, move |cx| {
        let out = cx.output::<T>(0)?;
        // One group at a time, so that any number of inputs needs no list on the heap.
        for first in (0..inputs).step_by(INPUTS_PER_PASS) {
            let group: SmallVec<[&[T]; INPUTS_PER_PASS]> = (first
                ..inputs.min(first + INPUTS_PER_PASS))
                .map(|i| cx.input::<T>(i))
                .collect::<Result<_, _>>()?;
            for_chunks(cx.pool(), out, CHUNK, &|task, part| {
                let at = task * CHUNK;
                let terms = if first == 0 {
                    part.copy_from_slice(&group[0][at..at + part.len()]);
                    &group[1..]
                } else {
                    &group[..]
                };
                for input in terms {
                    for (sum, &x) in part.iter_mut().zip(&input[at..]) {
                        *sum = sum.add(x);
                    }
                }
            });
        }
        Ok(())
    })
}
