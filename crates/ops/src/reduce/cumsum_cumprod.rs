//! Cumsum, Cumprod, CumulativeLogsumexp.

use smallvec::smallvec;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::gpu::Launches;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::infer::resolve_axis;
use thalweg_graph::op::{
    Arg, AttrDef, Gradient, InputGradients, arg, bool_attr, type_attr, type_attr_or,
};
use thalweg_graph::{GradCx, Infer, InferError, OpDef, Output};
use thalweg_tensor::{DType, Element, dispatch};

use crate::support::elementwise::CHUNK;
use crate::support::gradient_nodes::conj;
use crate::support::widened::widened_ints;
use thalweg_cpu::number::{Arithmetic, Float, Wide};

const INPUTS: &[Arg] = &[arg("x", "T"), arg("axis", "Tidx").host()];
const OUT: &[Arg] = &[arg("out", "T")];
const EXCLUSIVE: AttrDef = bool_attr("exclusive", false);
const REVERSE: AttrDef = bool_attr("reverse", false);
const INDEX: AttrDef = type_attr_or("Tidx", DType::INDICES, DType::I32);

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    cx.ranked(1, 0)?;
    if let (Some(rank), Some(axis)) = (cx.shape(0).rank(), cx.ints(1)) {
        for axis in axis {
            cx.axis(1, axis, rank)?;
        }
    }
    cx.set(0, cx.shape(0).clone());
    Ok(())
}

const SCAN: OpDef = OpDef {
    inputs: INPUTS,
    outputs: OUT,
    attrs: &[
        EXCLUSIVE,
        REVERSE,
        type_attr("T", DType::ALL_NUMBERS),
        INDEX,
    ],
    shape,
    ..OpDef::EMPTY
};

/// Adds `op(x, axis)` with the attributes of the differentiated node; `turned` reverses its direction.
fn scan_like<'g>(g: &GradCx<'_, 'g>, op: &str, x: Output<'g>, turned: bool) -> Output<'g> {
    let node = g.graph().op(op).input(x).input(g.input(1));
    node.attr("exclusive", g.attrs().bool("exclusive"))
        .attr("reverse", g.attrs().bool("reverse") != turned)
        .output()
}

/// Kernel of a scan along the axis in input 1: `join` combines the running value, which starts as `start`, with an
/// element.
fn scan<T: Element>(
    p: &Prepare<'_>,
    start: T,
    join: impl Fn(T, T) -> T + Copy + Send + Sync + 'static,
) -> Result<Prepared, KernelError> {
    let dims = p.dims(0);
    let axis = p.ints(1)?.first().copied().unwrap_or(0);
    let axis = resolve_axis(axis, dims.len()).ok_or(KernelError::Argument("an axis"))?;
    let exclusive = p.node.attrs.bool("exclusive");
    let reverse = p.node.attrs.bool("reverse");
    let n = p.outputs[0].elements();
    if n == 0 {
        return Ok(Prepared::new(0, |_| Ok(())));
    }
    let len = dims[axis];
    let inner: usize = dims[axis + 1..].iter().product();
    let block = len * inner;
    Ok(Prepared::new(n * 8, move |cx| {
        let (x, out) = (cx.input::<T>(0)?, cx.output::<T>(0)?);
        // Whole blocks in a task.
        let blocks = (CHUNK / block).max(1);
        for_chunks(cx.pool(), out, blocks * block, &|task, part| {
            let x = x[task * blocks * block..].chunks_exact(block);
            for (x, out) in x.zip(part.chunks_exact_mut(block)) {
                match (inner, reverse) {
                    (1, false) => scan_line((x.iter(), out.iter_mut()), start, exclusive, join),
                    (1, true) => {
                        let line = (x.iter().rev(), out.iter_mut().rev());
                        scan_line(line, start, exclusive, join);
                    }
                    _ => scan_rows((x, out), inner, start, (exclusive, reverse), join),
                }
            }
        });
        Ok(())
    }))
}

/// Scan of a line, whose running value stays in a register.
#[inline(always)]
fn scan_line<'a, T: Element>(
    (x, out): (impl Iterator<Item = &'a T>, impl Iterator<Item = &'a mut T>),
    start: T,
    exclusive: bool,
    join: impl Fn(T, T) -> T,
) {
    let mut all = out.zip(x);
    if exclusive {
        let mut running = start;
        for (out, &x) in all {
            *out = running;
            running = join(running, x);
        }
    } else if let Some((out, &first)) = all.next() {
        *out = first;
        let mut running = first;
        for (out, &x) in all {
            running = join(running, x);
            *out = running;
        }
    }
}

/// Scan of rows of `inner` elements, each row from the one before it.
#[inline(always)]
fn scan_rows<T: Element>(
    (x, out): (&[T], &mut [T]),
    inner: usize,
    start: T,
    (exclusive, reverse): (bool, bool),
    join: impl Fn(T, T) -> T,
) {
    let len = x.len() / inner;
    let row = |step: usize| inner * if reverse { len - 1 - step } else { step };
    let first = &mut out[row(0)..][..inner];
    match exclusive {
        true => first.fill(start),
        false => first.copy_from_slice(&x[row(0)..][..inner]),
    }
    for step in 1..len {
        let (at, before) = (row(step), row(step - 1));
        let (low, high) = out.split_at_mut(at.max(before));
        let (out, running) = match reverse {
            false => (&mut high[..inner], &low[before..][..inner]),
            true => (&mut low[at..][..inner], &high[..inner]),
        };
        let x = &x[if exclusive { before } else { at }..][..inner];
        for ((out, &running), &x) in out.iter_mut().zip(running).zip(x) {
            *out = join(running, x);
        }
    }
}

fn scan_on_gpu(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    let dims = p.dims(0);
    let axis = p.ints(1)?.first().copied().unwrap_or(0);
    let axis = resolve_axis(axis, dims.len()).ok_or(KernelError::Argument("an axis"))?;
    let inner = dims[axis + 1..].iter().product();
    Ok(crate::gpu::scan(p, [dims[axis], inner]))
}

/// Cumulative sums.
pub(crate) static CUMSUM: Op = Op {
    def: OpDef {
        name: "Cumsum",
        summary: "The sum of each element and those before it along an axis.",
        gradient: Gradient::Rule(|g| smallvec![Some(scan_like(g, "Cumsum", g.grad(), true))]),
        ..SCAN
    },
    kernels: &[
        cpu(|p| {
            widened_ints(p, &[0], &[0], &|p| {
                dispatch!(p.dtype(0), [F16 BF16 F32 F64 I64 U64 C128], T => scan::<T>(p, T::ZERO, T::add), else
                Err(KernelError::DType(p.dtype(0))))
            })
        }),
        gpu(scan_on_gpu).only(&[("T", DType::NUMBERS)]),
    ],
};

/// Cumulative products.
pub(crate) static CUMPROD: Op = Op {
    def: OpDef {
        name: "Cumprod",
        summary: "The product of each element and those before it along an axis.",
        gradient: Gradient::Rule(|g| {
            // As in TensorFlow: correct if no element is 0.
            let x = conj(g.input(0));
            let sums = scan_like(g, "Cumsum", conj(g.output(0)) * g.grad(), true);
            let node = g.graph().op("DivNoNan").input(sums).input(x);
            smallvec![Some(node.output())]
        }),
        ..SCAN
    },
    kernels: &[
        cpu(|p| {
            widened_ints(p, &[0], &[0], &|p| {
                dispatch!(p.dtype(0), [F16 BF16 F32 F64 I64 U64 C128], T => scan::<T>(p, T::ONE, T::mul), else
                Err(KernelError::DType(p.dtype(0))))
            })
        }),
        gpu(scan_on_gpu).only(&[("T", DType::NUMBERS)]),
    ],
};

/// Cumulative logarithms of sums of exponentials.
pub(crate) static CUMULATIVE_LOGSUMEXP: Op = Op {
    def: OpDef {
        name: "CumulativeLogsumexp",
        summary: "The logarithm of the sum of e to the power of each element and those before it along an axis.",
        attrs: &[EXCLUSIVE, REVERSE, type_attr("T", DType::FLOATS), INDEX],
        gradient: Gradient::Rule(log_sum_exp_gradient),
        ..SCAN
    },
    kernels: &[cpu(|p| {
        dispatch!(p.dtype(0), FLOATS, T => {
            let none = T::narrow(<T as Float>::Wide::NEG_INFINITY);
            scan::<T>(p, none, |a, b| T::narrow(log_add(a.widen(), b.widen())))
        }, else Err(KernelError::DType(p.dtype(0))))
    })],
};

/// Lowest finite number of a float dtype.
fn lowest(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => half::f16::MIN.to_f64(),
        DType::BF16 => half::bf16::MIN.to_f64(),
        DType::F32 => f32::MIN.into(),
        _ => f64::MIN,
    }
}

/// `log(exp(a) + exp(b))`, computed relative to the larger of both.
#[inline(always)]
fn log_add<W: Wide>(a: W, b: W) -> W {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    // The difference is NaN if both are the same infinity.
    if low == W::NEG_INFINITY || low == high && W::ONE / low == W::ZERO {
        return high;
    }
    Wide::ln_1p(Wide::exp(low - high)) + high
}

/// As in TensorFlow: computes the positive and negative parts of the gradient separately, as logarithms.
fn log_sum_exp_gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (graph, x, y, dy) = (g.graph(), g.input(0), g.output(0), g.grad());
    let lowest = dy.constant_like(lowest(dy.dtype()));
    let part = |of: Output<'g>| {
        let positive = graph.op("Greater").input(of).input(of.constant_like(0));
        let log = graph.op("Log").input(of).output();
        let log = graph.op("SelectV2").input(positive.output()).input(log);
        let sums = scan_like(
            g,
            "CumulativeLogsumexp",
            log.input(lowest).output() - y,
            true,
        );
        graph.op("Exp").input(sums + x).output()
    };
    smallvec![Some(part(dy) - part(-dy))]
}
