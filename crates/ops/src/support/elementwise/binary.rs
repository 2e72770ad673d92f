//! Elementwise kernels with two inputs and broadcasting.

use std::ops::Range;

use bytemuck::Pod;
use thalweg_cpu::Isa;
use thalweg_device::{InOut, KernelCx, KernelError, Operand, Prepare, Prepared};
use thalweg_tensor::Element;

use super::block::{BLOCK, Block};
use super::chunks::{over_rows, over_short_rows, run_of};
use super::compute::{Compute, Conversion};
use super::loops::{Binary, BinarySame, Each};
use super::walk::Walk;

/// `out = f(a, b)` with broadcasting, from one dtype, computed in `W`, to another.
pub(crate) fn binary_to<W: Compute, C: Element>(
    p: &Prepare<'_>,
    f: impl Fn(W, W) -> C + Copy + Send + Sync + 'static,
) -> Prepared {
    erased_to::<W, C>(p, Box::new(Each(f)))
}

fn erased_to<W: Compute, C: Element>(p: &Prepare<'_>, each: Box<dyn Binary<W, C>>) -> Prepared {
    let walk = walk_of(&p.inputs[0], &p.inputs[1], &p.outputs[0]);
    let conversion = W::conversion(p.dtype(0));
    Prepared::new(p.outputs[0].elements(), move |cx| {
        let Some(c) = &conversion else {
            return direct_to(cx, &walk, &*each);
        };
        let (isa, (_, steps)) = (cx.cpu().isa(), walk.inner());
        let (a, b, out) = (cx.input_bytes(0)?, cx.input_bytes(1)?, cx.output::<C>(0)?);
        if walk.has_short_rows() {
            over_short_rows(cx.cpu(), &walk, out, 1, &|rows, out| {
                let [a, b] = [(0, a), (1, b)]
                    .map(|(k, input)| block_of_rows(c, &walk, k, input, rows.clone()));
                each.run(isa, &a, &b, out);
            });
            return Ok(());
        }
        over_rows(cx.cpu(), &walk, out, 1, &|at, out| {
            for (i, out) in out.chunks_mut(BLOCK).enumerate() {
                let of = |input, k| block_of(c, input, at[k], steps[k], i * BLOCK, out.len());
                let (a, b) = (of(a, 0), of(b, 1));
                each.run(isa, &a, &b, out);
            }
        });
        Ok(())
    })
    .each()
}

/// `out = f(a, b)` with broadcasting, computed in `W`, in place of either input if the plan allows it.
pub(crate) fn binary<W: Compute>(
    p: &Prepare<'_>,
    f: impl Fn(W, W) -> W + Copy + Send + Sync + 'static,
) -> Prepared {
    erased::<W>(p, Box::new(Each(f)))
}

fn erased<W: Compute>(p: &Prepare<'_>, each: Box<dyn BinarySame<W>>) -> Prepared {
    let walk = walk_of(&p.inputs[0], &p.inputs[1], &p.outputs[0]);
    let conversion = W::conversion(p.dtype(0));
    Prepared::new(p.outputs[0].elements(), move |cx| match &conversion {
        None => direct(cx, &walk, &*each),
        Some(c) => widened(cx, &walk, c, &*each),
    })
    .each()
}

fn walk_of(a: &Operand, b: &Operand, out: &Operand) -> Walk {
    Walk::new(&a.dims, &b.dims, &out.dims)
}

/// Calls `run(start, elements)` for each block of a run, with as many elements as the block has; `input` is one
/// element or as long as the run.
fn repeated<T: Element>(input: &[T], len: usize, run: &mut dyn FnMut(usize, &[T])) {
    if input.len() == len {
        return run(0, input);
    }
    let mut block = Block::new();
    block.resize(len.min(BLOCK), input[0]);
    for start in (0..len).step_by(BLOCK) {
        run(start, &block[..(len - start).min(BLOCK)]);
    }
}

/// `out = f(a, b)`, for inputs of one element or of the output's length.
fn run<T: Element, C: Element>(each: &dyn Binary<T, C>, isa: Isa, a: &[T], b: &[T], out: &mut [C]) {
    let n = out.len();
    match (a.len(), b.len()) {
        (1, 1) => {
            each.run(isa, a, b, &mut out[..1]);
            let only = out[0];
            out.fill(only);
        }
        (1, _) => repeated(a, n, &mut |at, a| {
            let end = at + a.len();
            each.run(isa, a, &b[at..end], &mut out[at..end]);
        }),
        (_, 1) => repeated(b, n, &mut |at, b| {
            let end = at + b.len();
            each.run(isa, &a[at..end], b, &mut out[at..end]);
        }),
        _ => each.run(isa, a, b, out),
    }
}

fn direct_to<T: Element, C: Element>(
    cx: &KernelCx<'_>,
    walk: &Walk,
    each: &dyn Binary<T, C>,
) -> Result<(), KernelError> {
    let (isa, (_, steps)) = (cx.cpu().isa(), walk.inner());
    let (a, b, out) = (cx.input::<T>(0)?, cx.input::<T>(1)?, cx.output::<C>(0)?);
    if walk.has_short_rows() {
        over_short_rows(cx.cpu(), walk, out, 1, &|rows, out| {
            let (mut left, mut right) = (Block::new(), Block::new());
            let a = walk.gather(0, a, rows.clone(), &mut left);
            let b = walk.gather(1, b, rows, &mut right);
            each.run(isa, a, b, out);
        });
        return Ok(());
    }
    over_rows(cx.cpu(), walk, out, 1, &|[at, bt], out| {
        let (a, b) = (
            run_of(a, at, steps[0], out.len()),
            run_of(b, bt, steps[1], out.len()),
        );
        run(each, isa, a, b, out);
    });
    Ok(())
}

fn direct<T: Element>(
    cx: &KernelCx<'_>,
    walk: &Walk,
    each: &dyn BinarySame<T>,
) -> Result<(), KernelError> {
    let (cpu, isa, (_, steps)) = (cx.cpu(), cx.cpu().isa(), walk.inner());
    // The input in place has the output's shape: it is not broadcast.
    if let InOut::Same(out) = in_place_of::<T>(cx, 0)? {
        let b = cx.input::<T>(1)?;
        if walk.has_short_rows() {
            over_short_rows(cpu, walk, out, 1, &|rows, out| {
                let mut room = Block::new();
                each.in_first(isa, out, walk.gather(1, b, rows, &mut room));
            });
            return Ok(());
        }
        over_rows(cpu, walk, out, 1, &|[_, bt], out| {
            let n = out.len();
            repeated(run_of(b, bt, steps[1], n), n, &mut |at, b| {
                each.in_first(isa, &mut out[at..at + b.len()], b);
            });
        });
    } else if let InOut::Same(out) = in_place_of::<T>(cx, 1)? {
        let a = cx.input::<T>(0)?;
        if walk.has_short_rows() {
            over_short_rows(cpu, walk, out, 1, &|rows, out| {
                let mut room = Block::new();
                each.in_second(isa, walk.gather(0, a, rows, &mut room), out);
            });
            return Ok(());
        }
        over_rows(cpu, walk, out, 1, &|[at, _], out| {
            let n = out.len();
            repeated(run_of(a, at, steps[0], n), n, &mut |at, a| {
                each.in_second(isa, a, &mut out[at..at + a.len()]);
            });
        });
    } else {
        direct_to(cx, walk, each)?;
    }
    Ok(())
}

/// The output's buffer if it is also input `i`'s; it is not taken otherwise.
fn in_place_of<'a, T: Element>(cx: &KernelCx<'a>, i: usize) -> Result<InOut<'a, T>, KernelError> {
    if cx.is_in_place(i, 0) {
        cx.in_out(i, 0)
    } else {
        Ok(InOut::Apart(&[], &mut []))
    }
}

/// Elements of an input for elements `start..start + len` of a run; the run reads the input from `at` with `step` 0
/// or 1.
fn block_of<W: Compute>(
    c: &Conversion<W>,
    input: &[u8],
    at: usize,
    step: usize,
    start: usize,
    len: usize,
) -> Block<W> {
    let first = (at + start * step) * c.size;
    if step == 1 {
        return c.block(&input[first..first + len * c.size]);
    }
    let mut one = c.block(&input[first..first + c.size]);
    let only = one[0];
    one.resize(len, only);
    one
}

/// Elements of input `k` for these rows.
fn block_of_rows<W: Compute>(
    c: &Conversion<W>,
    walk: &Walk,
    k: usize,
    input: &[u8],
    rows: Range<usize>,
) -> Block<W> {
    match c.size {
        1 => block_of_items::<W, u8>(c, walk, k, input, rows),
        2 => block_of_items::<W, u16>(c, walk, k, input, rows),
        4 => block_of_items::<W, u32>(c, walk, k, input, rows),
        _ => block_of_items::<W, u64>(c, walk, k, input, rows),
    }
}

fn block_of_items<W: Compute, T: Pod>(
    c: &Conversion<W>,
    walk: &Walk,
    k: usize,
    input: &[u8],
    rows: Range<usize>,
) -> Block<W> {
    let mut room = Block::<T>::new();
    let items = walk.gather(k, bytemuck::cast_slice(input), rows, &mut room);
    c.block(bytemuck::cast_slice(items))
}

fn widened<W: Compute>(
    cx: &KernelCx<'_>,
    walk: &Walk,
    c: &Conversion<W>,
    each: &dyn BinarySame<W>,
) -> Result<(), KernelError> {
    let (cpu, isa, (_, steps)) = (cx.cpu(), cx.cpu().isa(), walk.inner());
    let same = [cx.is_in_place(0, 0), cx.is_in_place(1, 0)];
    let out = cx.output_bytes(0)?;
    // The input in place is read from the output before the output is written.
    let input = |i: usize| match same[i] {
        true => Ok(None),
        false => cx.input_bytes(i).map(Some),
    };
    let inputs = [input(0)?, input(1)?];
    if walk.has_short_rows() {
        over_short_rows(cpu, walk, out, c.size, &|rows, out| {
            let of = |k: usize| match inputs[k] {
                None => c.block(out),
                Some(input) => block_of_rows(c, walk, k, input, rows.clone()),
            };
            let (mut a, b) = (of(0), of(1));
            each.in_first(isa, &mut a, &b);
            c.narrow(&a, out);
        });
        return Ok(());
    }
    over_rows(cpu, walk, out, c.size, &|at, out| {
        for (i, out) in out.chunks_mut(BLOCK * c.size).enumerate() {
            let len = out.len() / c.size;
            let of = |k: usize| match inputs[k] {
                None => c.block(out),
                Some(input) => block_of(c, input, at[k], steps[k], i * BLOCK, len),
            };
            let (mut a, b) = (of(0), of(1));
            each.in_first(isa, &mut a, &b);
            c.narrow(&a, out);
        }
    });
    Ok(())
}
