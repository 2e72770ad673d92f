//! ReverseV2, Roll, ReverseSequence.

use smallvec::smallvec;
use thalweg_device::gpu::Launches;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::infer::resolve_axis;
use thalweg_graph::op::{Gradient, arg, attr, int_attr, type_attr, type_attr_or};
use thalweg_graph::{AttrKind, InferError, OpDef};
use thalweg_tensor::DType;
use thalweg_tensor::text::counted;

use crate::array::box_copies::BoxCopies;
use crate::array::index_tables::{IndexTables, strides};
use crate::gpu::reverse_sequence;
use crate::support::numbered_elements::numbered_kernel;
use crate::support::raw_elements::{by_size, input_as, output_as};
use crate::support::shape_inputs::{ints_per_dim, invalid_value, kernel_error};
use crate::support::strided_copy::{CopyAxis, StridedCopy, steps};
use crate::support::trivial_kernels::nothing;
use crate::support::widened::with_i64_indices;

/// Reverses the elements along some axes.
pub(crate) static REVERSE_V2: Op = Op {
    def: OpDef {
        name: "ReverseV2",
        summary: "The input from last to first along the given axes.",
        inputs: &[arg("tensor", "T"), arg("axis", "Tidx").host()],
        outputs: &[arg("output", "T")],
        attrs: &[
            type_attr_or("Tidx", DType::INDICES, DType::I32),
            type_attr("T", &DType::ALL),
        ],
        shape: |cx| {
            let axes = ints_per_dim(cx, 1)?;
            cx.set(0, cx.shape(0).clone());
            if let (Some(axes), Some(rank)) = (axes, cx.shape(0).rank()) {
                let mut seen = vec![false; rank];
                for axis in axes {
                    let i = cx.axis(1, axis, rank)?;
                    if std::mem::replace(&mut seen[i], true) {
                        return Err(invalid_value(1, format!("axis {axis} is listed twice")));
                    }
                }
            }
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let node = g.graph().op("ReverseV2").input(g.grad());
            smallvec![Some(node.input(g.input(1)).output())]
        }),
        same_as: |cx| cx.ints(1)?.is_empty().then_some(0),
        ..OpDef::EMPTY
    },
    kernels: &[
        numbered_kernel!(REVERSE_V2, "T"),
        cpu(|p| reversed(p)?.on_cpu()),
        gpu(|p| reversed(p)?.on_gpu()),
    ],
};

fn reversed(p: &Prepare<'_>) -> Result<BoxCopies, KernelError> {
    let dims = p.dims(0);
    let mut turned = vec![false; dims.len()];
    for axis in p.ints(1)? {
        let i = resolve_axis(axis, dims.len()).ok_or(KernelError::Argument("an axis"))?;
        turned[i] = true;
    }
    if p.outputs[0].elements() == 0 {
        return Ok(BoxCopies::one(p, StridedCopy::default()));
    }
    let steps = steps(dims);
    let mut from = 0;
    let axes: Vec<CopyAxis> = (0..dims.len())
        .map(|i| {
            if turned[i] {
                from += (dims[i] - 1) * steps[i] as usize;
            }
            CopyAxis {
                len: dims[i],
                from: if turned[i] { -steps[i] } else { steps[i] },
                to: steps[i],
            }
        })
        .collect();
    Ok(BoxCopies::one(p, StridedCopy::new(from, 0, &axes)?))
}

/// Rotates the elements along some axes.
pub(crate) static ROLL: Op = Op {
    def: OpDef {
        name: "Roll",
        summary: "The input moved on along axes; what leaves at the end comes in at the beginning.",
        inputs: &[
            arg("input", "T"),
            arg("shift", "Tshift").host(),
            arg("axis", "Taxis").host(),
        ],
        outputs: &[arg("output", "T")],
        attrs: &[
            type_attr("T", &DType::ALL),
            type_attr("Tshift", DType::INDICES),
            type_attr("Taxis", DType::INDICES),
        ],
        shape: |cx| {
            for i in 1..3 {
                if cx.shape(i).rank().is_some_and(|r| r > 1) {
                    return Err(InferError::Rank {
                        input: i,
                        expected: "at most 1".to_owned(),
                        found: cx.shape(i).clone(),
                    });
                }
            }
            if cx.shape(0).rank() == Some(0) {
                return Err(InferError::Rank {
                    input: 0,
                    expected: "at least 1".to_owned(),
                    found: cx.shape(0).clone(),
                });
            }
            cx.same(1, 2)?;
            if let (Some(rank), Some(axes)) = (cx.shape(0).rank(), cx.ints(2)) {
                for axis in axes {
                    cx.axis(2, axis, rank)?;
                }
            }
            cx.set(0, cx.shape(0).clone());
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let node = g.graph().op("Roll").input(g.grad()).input(-g.input(1));
            smallvec![Some(node.input(g.input(2)).output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        numbered_kernel!(ROLL, "T"),
        cpu(|p| match rolled(p)? {
            Some(tables) => tables.gather(p),
            None => Ok(nothing()),
        }),
        gpu(|p| match rolled(p)? {
            Some(tables) => tables.gather_on_gpu(p),
            None => Ok(Launches::default()),
        }),
    ],
};

/// For each element of the output, the element of the input; `None` if there is none.
fn rolled(p: &Prepare<'_>) -> Result<Option<IndexTables>, KernelError> {
    let dims = p.dims(0);
    if p.outputs[0].elements() == 0 {
        return Ok(None);
    }
    let mut shifts = vec![0usize; dims.len()];
    for (shift, axis) in p.ints(1)?.into_iter().zip(p.ints(2)?) {
        let i = resolve_axis(axis, dims.len()).ok_or(KernelError::Argument("an axis"))?;
        // The remainder is less than the dimension.
        let shift = shift.rem_euclid(dims[i] as i64) as usize;
        shifts[i] = (shifts[i] + shift) % dims[i];
    }
    let strides = strides(dims);
    let table = |i: usize| {
        let d = dims[i];
        let from = |to: usize| (to + d - shifts[i]) % d * strides[i];
        (0..d).map(from).collect()
    };
    Ok(Some(IndexTables::new((0..dims.len()).map(table).collect())))
}

/// The batch and sequence axes of a node, for a known rank.
fn axes(attrs: &thalweg_graph::Attrs, rank: usize) -> Result<(usize, usize), InferError> {
    let axis = |attr: &'static str| {
        let axis = attrs.int(attr);
        let found = usize::try_from(axis).ok().filter(|&a| a < rank);
        found.ok_or_else(|| InferError::Attr {
            attr,
            reason: format!("{axis} is no axis of {}", counted(rank, "dimension")),
        })
    };
    let (batch, seq) = (axis("batch_dim")?, axis("seq_dim")?);
    match batch == seq {
        true => Err(InferError::Attr {
            attr: "seq_dim",
            reason: format!("{seq} is the batch's axis: the sequences need another one"),
        }),
        false => Ok((batch, seq)),
    }
}

/// Reverses the first elements of each sequence.
pub(crate) static REVERSE_SEQUENCE: Op = Op {
    def: OpDef {
        name: "ReverseSequence",
        summary: "Of each slice of a batch so many elements as its length says from last to first, the rest unchanged.",
        inputs: &[arg("input", "T"), arg("seq_lengths", "Tlen")],
        outputs: &[arg("output", "T")],
        attrs: &[
            attr("seq_dim", AttrKind::Int),
            int_attr("batch_dim", 0),
            type_attr("T", DType::ELEMENTS),
            type_attr_or("Tlen", DType::INDICES, DType::I64),
        ],
        shape: |cx| {
            let lengths = cx.ranked(1, 1)?;
            let shape = cx.shape(0).clone();
            if let Some(rank) = shape.rank() {
                let (batch, _) = axes(cx.attrs(), rank)?;
                if let (Some(d), Some(n)) = (shape.dim(batch), lengths.dim(0))
                    && d != n
                {
                    return Err(invalid_value(
                        1,
                        format!("{} for a batch of {d}", counted(n, "length")),
                    ));
                }
            }
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let node = g.graph().op("ReverseSequence").input(g.grad());
            let node = node
                .input(g.input(1))
                .attr("seq_dim", g.attrs().int("seq_dim"));
            let node = node.attr("batch_dim", g.attrs().int("batch_dim"));
            smallvec![Some(node.output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        numbered_kernel!(REVERSE_SEQUENCE, "T"),
        cpu(|p| with_i64_indices(p, &[1], &|p| by_size!(p.dtype(0), T => sequences::<T>(p)))),
        gpu(|p| {
            let dims = p.dims(0);
            let (batch, seq) = axes(&p.node.attrs, dims.len()).map_err(kernel_error)?;
            let steps = strides(dims);
            reverse_sequence(p, [dims[batch], dims[seq], steps[batch], steps[seq]])
        }),
    ],
};

fn sequences<T: bytemuck::Pod + Send + Sync>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let (dims, dtype) = (p.dims(0), p.dtype(0));
    let (batch, seq) = axes(&p.node.attrs, dims.len()).map_err(kernel_error)?;
    let (batches, len, strides) = (dims[batch], dims[seq], strides(dims));
    let n = p.outputs[0].elements();
    // Adjacent elements are copied together.
    let each = match batch > seq {
        true => strides[batch],
        false => strides[seq],
    };
    let (batch, seq) = (strides[batch], strides[seq]);
    Ok(Prepared::new(n * 2, move |cx| {
        let (x, lengths) = (input_as::<T>(cx, 0)?, cx.input::<i64>(1)?);
        // SAFETY: only elements of an input of the same dtype are written to it.
        let out = unsafe { output_as::<T>(cx, 0, dtype) }?;
        for (element, &length) in lengths.iter().enumerate() {
            if !(0..=len as i64).contains(&length) {
                return Err(KernelError::Element {
                    input: 1,
                    element,
                    reason: format!("a sequence has between 0 and {len} elements, not {length}"),
                });
            }
        }
        if n == 0 {
            return Ok(());
        }
        for (slice, out) in out.chunks_exact_mut(each).enumerate() {
            let at = slice * each;
            let length = lengths[at / batch % batches] as usize;
            let step = at / seq % len;
            let from = match step < length {
                true => at - step * seq + (length - 1 - step) * seq,
                false => at,
            };
            out.copy_from_slice(&x[from..][..each]);
        }
        Ok(())
    }))
}
