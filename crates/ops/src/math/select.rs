//! SelectV2.

use smallvec::smallvec;
use thalweg_cpu::Vectorize;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{Gradient, arg, arg_of, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::shape::{broadcast_dims, elements};
use thalweg_tensor::{DType, Element, dispatch};

use super::broadcast::sum_to;
use crate::support::elementwise::{CHUNK, Walk};
use crate::support::numbered_elements::numbered_kernel;
use crate::support::widened::as_uints;

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let of = |a: &thalweg_tensor::Shape, b: &thalweg_tensor::Shape| {
        a.broadcast(b).ok_or_else(|| InferError::Broadcast {
            left: a.clone(),
            right: b.clone(),
        })
    };
    let values = of(cx.shape(1), cx.shape(2))?;
    let all = of(cx.shape(0), &values)?;
    cx.set(0, all);
    Ok(())
}

/// `condition ? t : e`.
pub(crate) static SELECT: Op = Op {
    def: OpDef {
        name: "SelectV2",
        summary: "An element of t where the condition is true, otherwise one of e, with broadcasting.",
        inputs: &[
            arg_of("condition", DType::Bool),
            arg("t", "T"),
            arg("e", "T"),
        ],
        outputs: &[arg("output", "T")],
        attrs: &[type_attr("T", &DType::ALL)],
        shape,
        gradient: Gradient::Rule(|g| {
            let (graph, condition, dz) = (g.graph(), g.input(0), g.grad());
            let zero = graph.op("ZerosLike").input(dz).output();
            let select = || graph.op("SelectV2").input(condition);
            let (to_t, to_e) = (
                select().input(dz).input(zero),
                select().input(zero).input(dz),
            );
            let (t, e, out) = (g.input(1), g.input(2), g.output(0));
            smallvec![
                None,
                Some(sum_to(to_t.output(), t, out)),
                Some(sum_to(to_e.output(), e, out))
            ]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        numbered_kernel!(SELECT, "T"),
        cpu(|p| {
            as_uints(
                p,
                &[1, 2],
                &[0],
                &|p| dispatch!(p.dtype(1), SIZES, T => select::<T>(p), else Err(KernelError::DType(p.dtype(1)))),
            )
        }),
        gpu(crate::gpu::select),
    ],
};

fn select<T: Element>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let out = p.output_dims(0);
    let fits = broadcast_dims(p.dims(1), p.dims(2)).is_some();
    if !fits {
        return Err(KernelError::Argument("inputs that broadcast"));
    }
    // The condition is walked together with t, and together with e.
    let with_t = Walk::new(p.dims(0), p.dims(1), out);
    let with_e = Walk::new(p.dims(0), p.dims(2), out);
    // Each is as large as the output, or has one element.
    let simple = [0, 1, 2]
        .iter()
        .all(|&i| p.dims(i) == out || elements(p.dims(i)) == 1);
    Ok(Prepared::new(p.outputs[0].elements() * 2, move |cx| {
        let (c, t, e) = (cx.input::<bool>(0)?, cx.input::<T>(1)?, cx.input::<T>(2)?);
        let isa = cx.cpu().isa();
        for_chunks(cx.pool(), cx.output::<T>(0)?, CHUNK, &|task, out| {
            let at = task * CHUNK;
            if simple {
                isa.run(SelectLoop {
                    c: task_part(c, at, out.len()),
                    t: task_part(t, at, out.len()),
                    e: task_part(e, at, out.len()),
                    out,
                });
                return;
            }
            for (i, out) in out.iter_mut().enumerate() {
                let [condition, then] = with_t.at(at + i);
                *out = match c[condition] {
                    true => t[then],
                    false => e[with_e.at(at + i)[1]],
                };
            }
        });
        Ok(())
    }))
}

/// A task's part of an input, or its only element.
fn task_part<T>(all: &[T], at: usize, len: usize) -> &[T] {
    match all.len() {
        1 => all,
        _ => &all[at..at + len],
    }
}

/// Selection from inputs that each have as many elements as the output, or one.
struct SelectLoop<'a, T> {
    c: &'a [bool],
    t: &'a [T],
    e: &'a [T],
    out: &'a mut [T],
}

impl<T: Copy> Vectorize for SelectLoop<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let SelectLoop { c, t, e, out } = self;
        let n = out.len();
        match (c, t, e) {
            (&[c], _, _) if n != 1 => match if c { t } else { e } {
                &[only] => out.fill(only),
                all => out.copy_from_slice(all),
            },
            (_, &[t], &[e]) => select_each(out, &c[..n], |_| t, |_| e),
            (_, &[t], _) => {
                let e = &e[..n];
                select_each(out, &c[..n], |_| t, |i| e[i]);
            }
            (_, _, &[e]) => {
                let t = &t[..n];
                select_each(out, &c[..n], |i| t[i], |_| e);
            }
            _ => {
                let (t, e) = (&t[..n], &e[..n]);
                select_each(out, &c[..n], |i| t[i], |i| e[i]);
            }
        }
    }
}

#[inline(always)]
fn select_each<T>(out: &mut [T], c: &[bool], t: impl Fn(usize) -> T, e: impl Fn(usize) -> T) {
    for (i, (out, &c)) in out.iter_mut().zip(c).enumerate() {
        // Reads both, to avoid a branch.
        let (t, e) = (t(i), e(i));
        *out = if c { t } else { e };
    }
}
