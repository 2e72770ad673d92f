//! BiasAdd, BiasAddV1, BiasAddGrad.

use smallvec::smallvec;
use thalweg_cpu::Vectorize;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelError, Op, Operand, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{AttrDef, Gradient, arg, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::shape::elements;
use thalweg_tensor::{DType, Shape, dispatch};

use super::conv2d::FORMAT;
use super::format::DataFormat;
use crate::support::elementwise::{CHUNK, binary, computed};
use crate::support::widened::widened;
use thalweg_cpu::number::Arithmetic;

const ATTRS: &[AttrDef] = &[type_attr("T", DType::ALL_NUMBERS), FORMAT];

/// Axis of the channels of input 0, if its rank is known.
fn channel(cx: &Infer<'_>) -> Result<Option<usize>, InferError> {
    match cx.shape(0).rank() {
        None => Ok(None),
        Some(rank) if rank >= 2 => Ok(Some(DataFormat::of(cx.attrs()).channel(rank))),
        Some(_) => Err(InferError::Rank {
            input: 0,
            expected: "at least 2".to_owned(),
            found: cx.shape(0).clone(),
        }),
    }
}

/// Dimensions as `[before, channels, after]`.
fn around_channels(p: &Prepare<'_>) -> Result<[usize; 3], KernelError> {
    let dims = p.dims(0);
    if dims.len() < 2 {
        return Err(KernelError::Argument("an input with channels"));
    }
    let axis = DataFormat::of(&p.node.attrs).channel(dims.len());
    let (before, after) = (&dims[..axis], &dims[axis + 1..]);
    Ok([elements(before), dims[axis], elements(after)])
}

/// Adds the bias of its channel to each element.
pub(crate) static BIAS_ADD: Op = Op {
    def: OpDef {
        name: "BiasAdd",
        summary: "Adds to each element the bias of its channel.",
        inputs: &[arg("value", "T"), arg("bias", "T")],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: |cx| {
            let (bias, axis) = (cx.ranked(1, 1)?, channel(cx)?);
            let value = cx.shape(0);
            let Some(axis) = axis else {
                cx.set(0, Shape::unknown());
                return Ok(());
            };
            let channels = Shape::partial([value.dim(axis)]);
            let channels = channels.merge(&bias).ok_or_else(|| InferError::Mismatch {
                what: format!(
                    "there must be one bias for each channel, which is dimension {axis} in {}",
                    DataFormat::of(cx.attrs()).name()
                ),
                left: value.clone(),
                right: bias.clone(),
            })?;
            let dims = value.dims().unwrap_or_default().iter().enumerate();
            let out = dims.map(|(i, d)| if i == axis { channels.dim(0) } else { *d });
            cx.set(0, Shape::partial(out));
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let sum = g.graph().op("BiasAddGrad").input(g.grad());
            let sum = sum.attr("data_format", DataFormat::of(g.attrs()));
            smallvec![Some(g.grad()), Some(sum.output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let dims = around_channels(p)?;
            let shaped = |dtype: DType, dims: &[usize]| Operand {
                dtype,
                dims: dims.into(),
                value: None,
            };
            let dtype = p.dtype(0);
            // With the channels in a dimension of their own, a bias is an input that broadcasts.
            let p = Prepare {
                inputs: &[shaped(dtype, &dims), shaped(dtype, &[dims[1], 1])],
                outputs: &[shaped(dtype, &dims)],
                ..*p
            };
            // A piece has its channels in the same places as the whole only if they come last.
            let each = dims[2] == 1;
            computed!(dtype, WRAPPING, T => Ok(Prepared { each, ..binary::<T>(&p, T::add) }),
                else Err(KernelError::DType(dtype)))
        })
        .in_place(&[(0, 0)]),
        gpu(|p| {
            let dims = around_channels(p)?;
            crate::gpu::broadcast(p, "AddV2", [&dims, &[dims[1], 1], &dims])
        })
        .in_place(&[(0, 0)]),
    ],
};

/// First version of the op, in which the channels are the last dimension.
pub(crate) static BIAS_ADD_V1: Op = Op {
    def: OpDef {
        name: "BiasAddV1",
        summary: "Adds to each element the bias of its channel, which is the last dimension.",
        attrs: &[type_attr("T", DType::ALL_NUMBERS)],
        ..BIAS_ADD.def
    },
    kernels: BIAS_ADD.kernels,
};

/// Sum over all elements of each channel.
pub(crate) static BIAS_ADD_GRAD: Op = Op {
    def: OpDef {
        name: "BiasAddGrad",
        summary: "The sum of each channel: the gradient of BiasAdd with respect to its bias.",
        inputs: &[arg("out_backprop", "T")],
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: |cx| {
            let channels = channel(cx)?.and_then(|axis| cx.shape(0).dim(axis));
            cx.set(0, Shape::partial([channels]));
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            // Each element gets the gradient of its channel.
            let zeros = g.graph().op("ZerosLike").input(g.input(0)).output();
            let spread = g.graph().op("BiasAdd").input(zeros).input(g.grad());
            let spread = spread.attr("data_format", DataFormat::of(g.attrs()));
            smallvec![Some(spread.output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let dims = around_channels(p)?;
            widened(p, &[0], &[0], &|p| {
                dispatch!(p.dtype(0), [F32 F64 I64 U64 C128], T => Ok(sums::<T>(dims)), else
                    Err(KernelError::DType(p.dtype(0))))
            })
        }),
        gpu(|p| crate::gpu::reduce(p, "Sum", &around_channels(p)?, &[true, false, true])),
    ],
};

/// Maximum number of tasks, each with its own sum for every channel.
const MAX_TASKS: usize = 64;

fn sums<T: Arithmetic>([before, channels, after]: [usize; 3]) -> Prepared {
    let row = channels * after;
    let rows = (CHUNK / row.max(1)).max(1).max(before.div_ceil(MAX_TASKS));
    let tasks = before.div_ceil(rows);
    let partials = tasks * channels;
    Prepared::new(before * row, move |cx| {
        let (x, out) = (cx.input::<T>(0)?, cx.output::<T>(0)?);
        let partials = cx.scratch::<T>(partials)?;
        let isa = cx.cpu().isa();
        for_chunks(cx.pool(), partials, channels, &|task, sums| {
            let x = &x[task * rows * row..x.len().min((task + 1) * rows * row)];
            isa.run_over::<T, _>(ChannelSums { x, sums, after });
        });
        for (c, out) in out.iter_mut().enumerate() {
            let own = partials.iter().skip(c).step_by(channels);
            *out = own.fold(T::ZERO, |sum, &x| sum.add(x));
        }
        Ok(())
    })
    .with_scratch(partials * size_of::<T>())
}

struct ChannelSums<'a, T> {
    x: &'a [T],
    sums: &'a mut [T],
    after: usize,
}

/// Number of sums that are computed in parallel.
const LANES: usize = 16;

impl<T: Arithmetic> Vectorize for ChannelSums<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let ChannelSums { x, sums, after } = self;
        sums.fill(T::ZERO);
        if x.is_empty() {
            return;
        }
        let channels = sums.len();
        if after == 1 {
            for pixel in x.chunks_exact(channels) {
                for (sum, &x) in sums.iter_mut().zip(pixel) {
                    *sum = sum.add(x);
                }
            }
            return;
        }
        for (i, line) in x.chunks_exact(after).enumerate() {
            let mut lanes = [T::ZERO; LANES];
            let (whole, rest) = line.as_chunks::<LANES>();
            for part in whole {
                for (lane, &x) in lanes.iter_mut().zip(part) {
                    *lane = lane.add(x);
                }
            }
            for (lane, &x) in lanes.iter_mut().zip(rest) {
                *lane = lane.add(x);
            }
            let sum = &mut sums[i % channels];
            *sum = lanes.iter().fold(*sum, |sum, &lane| sum.add(lane));
        }
    }
}
