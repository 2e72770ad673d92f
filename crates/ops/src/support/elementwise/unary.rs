//! Elementwise kernels with one input.

use thalweg_cpu::Isa;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{Cpu, InOut, KernelCx, KernelError, Prepare, Prepared};
use thalweg_tensor::Element;

use super::block::{BLOCK, Block};
use super::chunks::{CHUNK, over_chunks};
use super::compute::{Compute, Conversion};
use super::loops::{Each, EachWithExceptions, Function, Unary, UnarySame};

/// `out[i] = f(in[i])`, computed in `W`, in place if the plan allows it.
pub(crate) fn unary<W: Compute>(
    p: &Prepare<'_>,
    f: impl Fn(W) -> W + Copy + Send + Sync + 'static,
) -> Prepared {
    erased::<W>(p, Box::new(Each(f)))
}

/// As [`unary`], with a long function.
pub(crate) fn unary_of<W: Compute>(p: &Prepare<'_>, f: impl Function<W, W> + 'static) -> Prepared {
    erased::<W>(p, Box::new(Each(f)))
}

/// As [`unary`], with another function for elements for which `is_exception` holds: few, as it is called one by one.
pub(crate) fn unary_with_exceptions<W: Compute>(
    p: &Prepare<'_>,
    f: impl Function<W, W> + 'static,
    is_exception: impl Fn(W) -> bool + Copy + Send + Sync + 'static,
    exact: impl Fn(W) -> W + Copy + Send + Sync + 'static,
) -> Prepared {
    let each = EachWithExceptions {
        f,
        is_exception,
        exact,
    };
    erased::<W>(p, Box::new(each))
}

fn erased<W: Compute>(p: &Prepare<'_>, each: Box<dyn UnarySame<W>>) -> Prepared {
    let conversion = W::conversion(p.dtype(0));
    Prepared::new(p.outputs[0].elements(), move |cx| match &conversion {
        None => direct(cx, &*each),
        Some(conversion) => widened(cx, conversion, &*each),
    })
    .each()
}

fn direct<T: Element>(cx: &KernelCx<'_>, each: &dyn UnarySame<T>) -> Result<(), KernelError> {
    let (cpu, isa) = (cx.cpu(), cx.cpu().isa());
    match cx.in_out::<T>(0, 0)? {
        InOut::Same(out) => over_chunks(cpu, out, &|_, o| each.in_place(isa, o)),
        InOut::Apart(a, out) => apart(cpu, a, out, each),
    }
    Ok(())
}

fn apart<A: Element, B: Element>(cpu: &Cpu, a: &[A], out: &mut [B], each: &dyn Unary<A, B>) {
    over_chunks(cpu, out, &|at, o| {
        each.run(cpu.isa(), &a[at..at + o.len()], o)
    });
}

fn widened<W: Compute>(
    cx: &KernelCx<'_>,
    c: &Conversion<W>,
    each: &dyn UnarySame<W>,
) -> Result<(), KernelError> {
    let isa = cx.cpu().isa();
    let block = |wide: &mut Block<W>, out: &mut [u8]| {
        each.in_place(isa, wide);
        c.narrow(wide, out);
    };
    match cx.in_out_bytes(0, 0)? {
        InOut::Same(out) => for_chunks(cx.pool(), out, CHUNK * c.size, &|_, part| {
            for out in part.chunks_mut(BLOCK * c.size) {
                block(&mut c.block(out), out);
            }
        }),
        InOut::Apart(a, out) => for_chunks(cx.pool(), out, CHUNK * c.size, &|i, part| {
            let a = &a[i * CHUNK * c.size..];
            for (a, out) in a
                .chunks(BLOCK * c.size)
                .zip(part.chunks_mut(BLOCK * c.size))
            {
                block(&mut c.block(&a[..out.len()]), out);
            }
        }),
    }
    Ok(())
}

/// `out[i] = f(in[i])` from one dtype, computed in `W`, to another.
pub(crate) fn convert<W: Compute, B: Element>(
    p: &Prepare<'_>,
    f: impl Fn(W) -> B + Copy + Send + Sync + 'static,
) -> Prepared {
    converting::<W, B>(p, Box::new(Each(f)))
}

fn converting<W: Compute, B: Element>(p: &Prepare<'_>, each: Box<dyn Unary<W, B>>) -> Prepared {
    let conversion = W::conversion(p.dtype(0));
    Prepared::new(p.outputs[0].elements(), move |cx| {
        let (cpu, isa): (&Cpu, Isa) = (cx.cpu(), cx.cpu().isa());
        let Some(c) = &conversion else {
            apart(cpu, cx.input::<W>(0)?, cx.output::<B>(0)?, &*each);
            return Ok(());
        };
        let (a, out) = (cx.input_bytes(0)?, cx.output::<B>(0)?);
        over_chunks(cpu, out, &|at, part| {
            let a = &a[at * c.size..];
            for (a, out) in a.chunks(BLOCK * c.size).zip(part.chunks_mut(BLOCK)) {
                each.run(isa, &c.block(&a[..out.len() * c.size]), out);
            }
        });
        Ok(())
    })
    .each()
}
