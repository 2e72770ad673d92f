//! CPU kernels of convolutions, by dtype: f32 and f64 have their own, halves are
//! computed in f32, and integers by the definition.

use bytemuck::Pod;
use half::{bf16, f16};
use thalweg_device::{KernelCx, KernelError, Prepare, Prepared};
use thalweg_tensor::{DType, Element, Tensor};

use crate::support::conv_groups::{ConvDirection, ConvGroups};
use crate::support::cpu::slice_cpu;
use crate::support::epilogue::FusedOps;
use thalweg_cpu as cpu;
use thalweg_cpu::conv::{
    ConvGeometry, Filter, Packing, Real, conv2d, conv2d_filter_grad, conv2d_filter_grad_scratch,
    conv2d_input_grad, conv2d_input_grad_scratch, conv2d_pack, conv2d_packing, conv2d_scratch,
};
use thalweg_cpu::number::Float;
use thalweg_cpu::{Epilogue, Isa, Layout, Scratch};

impl ConvDirection {
    /// Bytes of scratch memory.
    fn scratch<T: Real>(self, isa: Isa, threads: usize, g: &ConvGeometry) -> usize {
        match self {
            ConvDirection::Forward => conv2d_scratch::<T>(isa, threads, g),
            ConvDirection::ToImages => conv2d_input_grad_scratch::<T>(isa, threads, g),
            ConvDirection::ToFilter => conv2d_filter_grad_scratch::<T>(isa, threads, g),
        }
    }

    fn run<T: Real>(
        self,
        cpu: cpu::Cpu<'_>,
        g: &ConvGeometry,
        [a, b]: [&[T]; 2],
        epilogue: Epilogue<'_, T>,
        out: &mut [T],
        scratch: &mut [u8],
    ) {
        match self {
            ConvDirection::Forward => conv2d(cpu, g, a, b.into(), epilogue, out, scratch),
            ConvDirection::ToImages => conv2d_input_grad(cpu, g, a, b, out, scratch),
            ConvDirection::ToFilter => conv2d_filter_grad(cpu, g, a, b, out, scratch),
        }
    }
}

/// Kernel of a convolution of this geometry, with its epilogue.
pub(super) fn with_epilogue(
    p: &Prepare<'_>,
    groups: ConvGroups,
    ops: FusedOps,
) -> Result<Prepared, KernelError> {
    if groups.count != 1 {
        ops.without_residual("a convolution of several groups")?;
    }
    let prepared = match p.dtype(0) {
        DType::F32 => float_kernel::<f32>(p, ConvDirection::Forward, groups, ops)?,
        DType::F64 => float_kernel::<f64>(p, ConvDirection::Forward, groups, ops)?,
        other => return Err(KernelError::DType(other)),
    };
    Ok(prepared.with_cost(cost(&groups)))
}

/// Kernel of a convolution of this geometry.
pub(super) fn convolution(
    p: &Prepare<'_>,
    direction: ConvDirection,
    groups: ConvGroups,
) -> Result<Prepared, KernelError> {
    let dtype = p.dtype(direction.operands()[0]);
    let prepared = match dtype {
        DType::F32 => float_kernel::<f32>(p, direction, groups, FusedOps::NONE)?,
        DType::F64 => float_kernel::<f64>(p, direction, groups, FusedOps::NONE)?,
        DType::F16 => by_group(direction, groups, half_kernel::<f16>(p, direction, groups))?,
        DType::BF16 => by_group(direction, groups, half_kernel::<bf16>(p, direction, groups))?,
        DType::I32 => by_group(direction, groups, int_kernel(direction, groups))?,
        other => return Err(KernelError::DType(other)),
    };
    let slower = if dtype == DType::I32 { 20 } else { 1 };
    Ok(prepared.with_cost(cost(&groups).saturating_mul(slower)))
}

/// Estimate: a multiplication and an addition take about a thirtieth of a nanosecond.
fn cost(groups: &ConvGroups) -> u64 {
    let g = &groups.one;
    let channels = (groups.count * g.out_c) as f64;
    let outputs = g.batch as f64 * g.out_h as f64 * g.out_w as f64 * channels;
    200 + (outputs * g.k_h as f64 * g.k_w as f64 * g.in_c as f64 / 30.0) as u64
}

fn float_kernel<T: Real + Element>(
    p: &Prepare<'_>,
    direction: ConvDirection,
    groups: ConvGroups,
    ops: FusedOps,
) -> Result<Prepared, KernelError> {
    match groups.count {
        1 => Ok(one_group::<T>(p, direction, groups.one.folded(), ops)),
        _ => by_group(
            direction,
            groups,
            float_group::<T>(p, direction, groups, ops),
        ),
    }
}

/// Kernel of a float convolution in one group: a filter that stays is packed once.
fn one_group<T: Real + Element>(
    p: &Prepare<'_>,
    direction: ConvDirection,
    g: ConvGeometry,
    ops: FusedOps,
) -> Prepared {
    let own = direction.scratch::<T>(p.cpu.isa(), p.cpu.pool().threads(), &g);
    let room = ops.room(g.out_c);
    // It comes first, and moves the rest off its alignment.
    let scratch = match room {
        0 => own,
        room => Scratch::bytes::<T>(room) + own,
    };
    let [a, b] = direction.operands();
    // The operands of gradients change with every step.
    let forward = direction == ConvDirection::Forward;
    let packing = forward.then(|| conv2d_packing::<T>(p.cpu.isa(), &g));
    let packing = packing.flatten();
    Prepared::new(0, move |cx| {
        let (operands, out) = ([cx.input::<T>(a)?, cx.input::<T>(b)?], cx.output::<T>(0)?);
        let (cpu, mut scratch) = (
            slice_cpu(cx.cpu()),
            Scratch::new(cx.scratch::<u8>(scratch)?),
        );
        let numbers = match room {
            0 => &mut [],
            room => scratch.take::<T>(room),
        };
        let (epilogue, scratch) = (ops.epilogue::<T>(cx, numbers, out)?, scratch.rest());
        let taps = operands[1];
        match packing.and_then(|p| packed_filter(cx, &g, p, taps, scratch)) {
            Some(packed) => {
                let filter = Filter {
                    taps,
                    packed: Some(packed),
                };
                conv2d(cpu, &g, operands[0], filter, epilogue, out, scratch);
            }
            None => direction.run(cpu, &g, operands, epilogue, out, scratch),
        }
        Ok(())
    })
    .with_scratch(scratch)
}

/// A filter that was read this often without a write is packed.
const READS_BEFORE_PACKING: u32 = 16;

/// Packed filter that is reused while the filter is unchanged.
struct PackedFilter {
    packing: Packing,
    numbers: Tensor,
}

/// Packed filter of a convolution, from the notes of the filter or packed now; `None` if memory is limited,
/// since the parameters themselves may need it.
fn packed_filter<'a, T: Real + Element>(
    cx: &KernelCx<'a>,
    g: &ConvGeometry,
    packing: Packing,
    filter: &[T],
    scratch: &mut [u8],
) -> Option<&'a [T]> {
    let notes = cx.notes(1).filter(|_| !cx.memory_is_limited())?;
    let kept = notes.derived(0, READS_BEFORE_PACKING, || {
        let mut numbers = cx.zeros(T::DTYPE, &[packing.len()]).ok()?;
        let to = numbers.as_mut_slice::<T>().ok()?;
        conv2d_pack(slice_cpu(cx.cpu()), g, filter, to, scratch);
        Some(PackedFilter { packing, numbers })
    });
    let kept = kept.filter(|kept| kept.packing == packing)?;
    kept.numbers.as_slice().ok()
}

/// Computation of one group, whose number it takes: the operands, the output and the scratch memory are those of the
/// group.
type GroupRun<T> = Box<
    dyn Fn(&KernelCx<'_>, usize, [&[T]; 2], &mut [T], &mut [u8]) -> Result<(), KernelError>
        + Send
        + Sync,
>;

/// Computation of one group, with the bytes of its scratch memory.
struct GroupKernel<T> {
    scratch: usize,
    run: GroupRun<T>,
}

/// Kernel that computes one group after the other: on the tensors themselves if there is one group, or on copies.
fn by_group<T: Element + Pod>(
    direction: ConvDirection,
    groups: ConvGroups,
    kernel: GroupKernel<T>,
) -> Result<Prepared, KernelError> {
    let [a, b] = direction.operands();
    let GroupKernel { scratch, run } = kernel;
    if groups.count == 1 {
        let kernel = move |cx: &KernelCx<'_>| {
            let operands = [cx.input::<T>(a)?, cx.input::<T>(b)?];
            run(cx, 0, operands, cx.output::<T>(0)?, cx.scratch(scratch)?)
        };
        return Ok(Prepared::new(0, kernel).with_scratch(scratch));
    }
    let ([left, right], result) = (direction.tensors(), direction.result());
    let lens = [left, right, result].map(|tensor| groups.len(tensor));
    let splits = [groups.split(left, lens[0])?, groups.split(right, lens[1])?];
    let join = groups.join(result, lens[2])?;
    let whole = lens.map(|len| len * groups.count);
    let bytes = whole.map(Scratch::bytes::<T>).iter().sum::<usize>() + scratch;
    let kernel = move |cx: &KernelCx<'_>| {
        let mut room = Scratch::new(cx.scratch::<u8>(bytes)?);
        let (left, right) = (room.take::<T>(whole[0]), room.take::<T>(whole[1]));
        let (result, own) = (room.take::<T>(whole[2]), room.rest());
        splits[0].run(cx.cpu(), cx.input::<T>(a)?, left)?;
        splits[1].run(cx.cpu(), cx.input::<T>(b)?, right)?;
        for i in 0..groups.count {
            let of = |len: usize| i * len..(i + 1) * len;
            let operands = [&left[of(lens[0])], &right[of(lens[1])]];
            run(cx, i, operands, &mut result[of(lens[2])], own)?;
        }
        join.run(cx.cpu(), result, cx.output::<T>(0)?)
    };
    Ok(Prepared::new(0, kernel).with_scratch(bytes))
}

/// Computation of a group of floats, with its channels' part of the epilogue.
fn float_group<T: Real + Element>(
    p: &Prepare<'_>,
    direction: ConvDirection,
    groups: ConvGroups,
    ops: FusedOps,
) -> GroupKernel<T> {
    let g = groups.one.folded();
    let own = direction.scratch::<T>(p.cpu.isa(), p.cpu.pool().threads(), &g);
    let room = ops.room(groups.count * g.out_c);
    GroupKernel {
        scratch: Scratch::bytes::<T>(room) + own,
        run: Box::new(move |cx, i, operands, out, scratch| {
            let mut scratch = Scratch::new(scratch);
            let numbers = scratch.take::<T>(room);
            let whole = ops.epilogue::<T>(cx, numbers, out)?;
            let own = i * g.out_c..(i + 1) * g.out_c;
            let epilogue = Epilogue {
                scale: whole.scale.map(|scale| &scale[own.clone()]),
                bias: whole.bias.map(|bias| &bias[own]),
                ..whole
            };
            let cpu = slice_cpu(cx.cpu());
            direction.run(cpu, &g, operands, epilogue, out, scratch.rest());
            Ok(())
        }),
    }
}

/// Computation of a group of halves: in f32, on copies.
fn half_kernel<T: Float<Wide = f32> + Element>(
    p: &Prepare<'_>,
    direction: ConvDirection,
    groups: ConvGroups,
) -> GroupKernel<T> {
    let g = groups.one.folded();
    let own = direction.scratch::<f32>(p.cpu.isa(), p.cpu.pool().threads(), &g);
    let [left, right] = direction.tensors();
    let lens = [left, right, direction.result()].map(|tensor| groups.len(tensor));
    GroupKernel {
        scratch: lens.map(Scratch::bytes::<f32>).iter().sum::<usize>() + own,
        run: Box::new(move |cx, _, operands, out, scratch| {
            let mut scratch = Scratch::new(scratch);
            let wide = lens.map(|len| scratch.take::<f32>(len));
            let [wide_a, wide_b, wide_out] = wide;
            for (wide, narrow) in [(&mut *wide_a, operands[0]), (&mut *wide_b, operands[1])] {
                for (wide, x) in wide.iter_mut().zip(narrow) {
                    *wide = x.widen();
                }
            }
            direction.run(
                slice_cpu(cx.cpu()),
                &g,
                [wide_a, wide_b],
                Epilogue::NONE,
                wide_out,
                scratch.rest(),
            );
            for (out, &wide) in out.iter_mut().zip(&*wide_out) {
                *out = T::narrow(wide);
            }
            Ok(())
        }),
    }
}

/// Computation of a group of integers: by the definition, with sums that wrap.
fn int_kernel(direction: ConvDirection, groups: ConvGroups) -> GroupKernel<i32> {
    GroupKernel {
        scratch: 0,
        run: Box::new(move |_, _, [a, b], out, _| {
            out.fill(0);
            each_product(&groups.one, |image, filter, result| {
                let (x, y, to) = match direction {
                    ConvDirection::Forward => (a[image], b[filter], result),
                    ConvDirection::ToImages => (a[filter], b[result], image),
                    ConvDirection::ToFilter => (a[image], b[result], filter),
                };
                out[to] = out[to].wrapping_add(x.wrapping_mul(y));
            });
            Ok(())
        }),
    }
}

/// Calls `f(image element, filter element, output element)` for each product in the convolution.
fn each_product(g: &ConvGeometry, mut f: impl FnMut(usize, usize, usize)) {
    let place = |[h, w, c]: [usize; 3], [n, y, x, k]: [usize; 4]| match g.layout {
        Layout::Nhwc => ((n * h + y) * w + x) * c + k,
        Layout::Nchw => ((n * c + k) * h + y) * w + x,
    };
    let outputs = (0..g.batch)
        .flat_map(|n| (0..g.out_h).flat_map(move |y| (0..g.out_w).map(move |x| [n, y, x])));
    for [n, out_y, out_x] in outputs {
        for (i, j) in (0..g.k_h).flat_map(|i| (0..g.k_w).map(move |j| (i, j))) {
            let y = (out_y * g.stride[0] + i * g.dilation[0]).wrapping_sub(g.pad_top);
            let x = (out_x * g.stride[1] + j * g.dilation[1]).wrapping_sub(g.pad_left);
            if y >= g.in_h || x >= g.in_w {
                continue;
            }
            for (c, o) in (0..g.in_c).flat_map(|c| (0..g.out_c).map(move |o| (c, o))) {
                f(
                    place([g.in_h, g.in_w, g.in_c], [n, y, x, c]),
                    ((i * g.k_w + j) * g.in_c + c) * g.out_c + o,
                    place([g.out_h, g.out_w, g.out_c], [n, out_y, out_x, o]),
                );
            }
        }
    }
}
