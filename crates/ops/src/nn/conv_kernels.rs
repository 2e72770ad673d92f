//! CPU kernels of convolutions, by dtype: f32 and f64 have their own, halves are
//! computed in f32, and integers by the definition.

use half::{bf16, f16};
use thalweg_device::{KernelCx, KernelError, Prepare, Prepared};
use thalweg_tensor::{DType, Element, Tensor};

use crate::support::cpu::slice_cpu;
use crate::support::epilogue::FusedOps;
use thalweg_cpu as cpu;
use thalweg_cpu::conv::{
    ConvGeometry, Filter, Packing, Real, conv2d, conv2d_filter_grad, conv2d_filter_grad_scratch,
    conv2d_input_grad, conv2d_input_grad_scratch, conv2d_pack, conv2d_packing, conv2d_scratch,
};
use thalweg_cpu::number::Float;
use thalweg_cpu::{Epilogue, Isa, Layout, Scratch};

/// Computation of a convolution or of one of its gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConvDirection {
    /// The convolution.
    Forward,
    /// Gradient with respect to the images.
    ToImages,
    /// Gradient with respect to the filter.
    ToFilter,
}

impl ConvDirection {
    /// Indices of its inputs.
    fn operands(self) -> [usize; 2] {
        match self {
            ConvDirection::Forward => [0, 1],
            ConvDirection::ToImages => [1, 2],
            ConvDirection::ToFilter => [0, 2],
        }
    }

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
    g: ConvGeometry,
    ops: FusedOps,
) -> Result<Prepared, KernelError> {
    let prepared = match p.dtype(0) {
        DType::F32 => float_kernel::<f32>(p, ConvDirection::Forward, g, ops),
        DType::F64 => float_kernel::<f64>(p, ConvDirection::Forward, g, ops),
        other => return Err(KernelError::DType(other)),
    };
    Ok(prepared.with_cost(cost(&g)))
}

/// Kernel of a convolution of this geometry.
pub(super) fn convolution(
    p: &Prepare<'_>,
    direction: ConvDirection,
    g: ConvGeometry,
) -> Result<Prepared, KernelError> {
    let dtype = p.dtype(direction.operands()[0]);
    let prepared = match dtype {
        DType::F32 => float_kernel::<f32>(p, direction, g, FusedOps::NONE),
        DType::F64 => float_kernel::<f64>(p, direction, g, FusedOps::NONE),
        DType::F16 => half_kernel::<f16>(p, direction, g),
        DType::BF16 => half_kernel::<bf16>(p, direction, g),
        DType::I32 => int_kernel(direction, g),
        other => return Err(KernelError::DType(other)),
    };
    let slower = if dtype == DType::I32 { 20 } else { 1 };
    Ok(prepared.with_cost(cost(&g).saturating_mul(slower)))
}

/// Estimate: a multiplication and an addition take about a thirtieth of a nanosecond.
fn cost(g: &ConvGeometry) -> u64 {
    let outputs = g.batch as f64 * g.out_h as f64 * g.out_w as f64 * g.out_c as f64;
    200 + (outputs * g.k_h as f64 * g.k_w as f64 * g.in_c as f64 / 30.0) as u64
}

fn float_kernel<T: Real + Element>(
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
        let (epilogue, scratch) = (ops.epilogue::<T>(cx, numbers)?, scratch.rest());
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
    let kept = notes.derived(|| {
        let mut numbers = cx.zeros(T::DTYPE, &[packing.len()]).ok()?;
        let to = numbers.as_mut_slice::<T>().ok()?;
        conv2d_pack(slice_cpu(cx.cpu()), g, filter, to, scratch);
        Some(PackedFilter { packing, numbers })
    });
    let kept = kept.filter(|kept| kept.packing == packing)?;
    kept.numbers.as_slice().ok()
}

/// Kernel for halves: computed in f32, on copies.
fn half_kernel<T: Float<Wide = f32> + Element>(
    p: &Prepare<'_>,
    direction: ConvDirection,
    g: ConvGeometry,
) -> Prepared {
    let scratch = direction.scratch::<f32>(p.cpu.isa(), p.cpu.pool().threads(), &g);
    let scratch = scratch.div_ceil(size_of::<f32>());
    let [a, b] = direction.operands();
    let (a_len, b_len) = (p.inputs[a].elements(), p.inputs[b].elements());
    let total = scratch + a_len + b_len + p.outputs[0].elements();
    Prepared::new(0, move |cx| {
        let out = cx.output::<T>(0)?;
        let (scratch, copies) = cx.scratch::<f32>(total)?.split_at_mut(scratch);
        let (wide_a, copies) = copies.split_at_mut(a_len);
        let (wide_b, wide_out) = copies.split_at_mut(b_len);
        for (wide, input) in [(&mut *wide_a, a), (&mut *wide_b, b)] {
            for (wide, x) in wide.iter_mut().zip(cx.input::<T>(input)?) {
                *wide = x.widen();
            }
        }
        let scratch = bytemuck::cast_slice_mut(scratch);
        direction.run(
            slice_cpu(cx.cpu()),
            &g,
            [wide_a, wide_b],
            Epilogue::NONE,
            wide_out,
            scratch,
        );
        for (out, &wide) in out.iter_mut().zip(&*wide_out) {
            *out = T::narrow(wide);
        }
        Ok(())
    })
    .with_scratch(total * size_of::<f32>())
}

/// Kernel for integers: computed by the definition, with sums that wrap.
fn int_kernel(direction: ConvDirection, g: ConvGeometry) -> Prepared {
    let [a, b] = direction.operands();
    Prepared::new(0, move |cx| {
        let (a, b, out) = (
            cx.input::<i32>(a)?,
            cx.input::<i32>(b)?,
            cx.output::<i32>(0)?,
        );
        out.fill(0);
        each_product(&g, |image, filter, result| {
            let (x, y, to) = match direction {
                ConvDirection::Forward => (a[image], b[filter], result),
                ConvDirection::ToImages => (a[filter], b[result], image),
                ConvDirection::ToFilter => (a[image], b[result], filter),
            };
            out[to] = out[to].wrapping_add(x.wrapping_mul(y));
        });
        Ok(())
    })
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
