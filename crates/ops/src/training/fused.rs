//! One pass over a variable, its slots and its gradient.

use thalweg_cpu::Vectorize;
use thalweg_cpu::parallel::Disjoint;
use thalweg_device::{KernelCx, KernelError, Prepare, Prepared};
use thalweg_tensor::{DType, Element};

use crate::elementwise::CHUNK;
use thalweg_cpu::number::{Float, Number, Wide};

/// The kernel of an optimizer's op, whose first `N` inputs are variables: `rule` makes of the rates
/// (the inputs of these names) what gives, for an element of each variable and one of the gradient,
/// the elements' new values.
///
/// Arguments are found by their names, so that one rule is enough for the op that takes a whole
/// gradient and for the one that takes some rows of it.
pub(super) fn step<T: Float, const N: usize, const R: usize, F>(
    p: &Prepare<'_>,
    rates: [&str; R],
    rule: impl Fn([T::Wide; R]) -> F + Send + Sync + 'static,
) -> Result<Prepared, KernelError>
where
    F: Fn([T::Wide; N], T::Wide) -> [T::Wide; N] + Copy + Send + Sync,
{
    let inputs = p.node.op.inputs;
    let at = |name: &str| inputs.iter().position(|arg| arg.name == name);
    let missing = KernelError::Argument("a rate or a gradient");
    let mut rate_at = [0; R];
    for (i, name) in rate_at.iter_mut().zip(rates) {
        *i = at(name).ok_or(missing.clone())?;
    }
    let grad = at("grad").or(at("delta")).ok_or(missing)?;
    let indices = at("indices").map(|i| (i, p.dtype(i)));
    let elements = p.inputs.get(grad).map_or(0, |grad| grad.elements());
    let cost = elements.saturating_mul(N + 1);
    Ok(Prepared::new(cost, move |cx| {
        let mut rates = [T::Wide::ZERO; R];
        for (value, i) in rates.iter_mut().zip(rate_at) {
            *value = rate::<T>(cx, i)?;
        }
        let step = rule(rates);
        match indices {
            None => update::<T, N>(cx, grad, step),
            Some((i, DType::I32)) => update_rows::<T, i32, N>(cx, grad, i, i64::from, step),
            Some((i, _)) => update_rows::<T, i64, N>(cx, grad, i, |i| i, step),
        }
    }))
}

/// The value of scalar input `i`: a rate, or the number of a step.
fn rate<T: Float>(cx: &KernelCx<'_>, i: usize) -> Result<T::Wide, KernelError> {
    let value = match cx.input::<i64>(i) {
        Ok(step) => step.first().map(|&step| T::Wide::from_f64(step as f64)),
        Err(_) => cx.input::<T>(i)?.first().map(|rate| rate.widen()),
    };
    value.ok_or(KernelError::Argument("a scalar"))
}

/// Sets the elements of the first `N` inputs, which are variables, to `step(elements, gradient)`.
///
/// # Errors
/// Those of [`KernelCx::renew`], and [`KernelError::Invalid`] where the variables and the gradient
/// are not of one length.
fn update<T: Float, const N: usize>(
    cx: &KernelCx<'_>,
    grad: usize,
    step: impl Fn([T::Wide; N], T::Wide) -> [T::Wide; N] + Copy + Send + Sync,
) -> Result<(), KernelError> {
    let grad = cx.input::<T>(grad)?;
    let (pool, isa) = (cx.pool(), cx.cpu().isa());
    cx.renew::<T, N>(std::array::from_fn(|i| i), |values| {
        if let Some(value) = values.iter().find(|v| v.new.len() != grad.len()) {
            return Err(KernelError::Invalid(format!(
                "the gradient has {} elements, a variable {}: they must have one shape",
                grad.len(),
                value.new.len()
            )));
        }
        let values = values.map(|v| (v.old, Disjoint::new(v.new)));
        pool.parallel_for(grad.len().div_ceil(CHUNK), &|i| {
            let start = i * CHUNK;
            let end = grad.len().min(start + CHUNK);
            let values = std::array::from_fn(|v| {
                let (old, new) = &values[v];
                // SAFETY: each index runs once, and the chunks do not overlap.
                let new = unsafe { new.slice(start, end - start) };
                if let Some(old) = old {
                    // What is copied here is still near the processor when the step reads it.
                    new.copy_from_slice(&old[start..end]);
                }
                new
            });
            let grad = &grad[start..end];
            isa.run(Step { values, grad, step });
        });
        Ok(())
    })
}

/// As [`update`], of the rows that the indices name: one after the other, so that a row that is named
/// twice is updated twice.
fn update_rows<T: Float, I: Element, const N: usize>(
    cx: &KernelCx<'_>,
    grad: usize,
    indices: usize,
    to_i64: fn(I) -> i64,
    step: impl Fn([T::Wide; N], T::Wide) -> [T::Wide; N] + Copy + Send + Sync,
) -> Result<(), KernelError> {
    let (grad, rows) = (cx.input::<T>(grad)?, cx.input::<I>(indices)?);
    let isa = cx.cpu().isa();
    cx.update::<T, N>(std::array::from_fn(|i| i), |mut values| {
        let width = grad.len() / rows.len().max(1);
        if width == 0 {
            return Ok(());
        }
        let len = values.first().map_or(0, |v| v.len());
        if let Some(value) = values.iter().find(|v| v.len() != len || len % width != 0) {
            return Err(KernelError::Invalid(format!(
                "the gradient has rows of {width} elements, a variable {} elements: they must have \
                 the same rows",
                value.len()
            )));
        }
        let count = len / width;
        let row = |(element, &index): (usize, &I)| {
            let row = usize::try_from(to_i64(index)).ok().filter(|&r| r < count);
            row.ok_or_else(|| KernelError::Element {
                input: indices,
                element,
                reason: format!("index {} is not within 0..{count}", to_i64(index)),
            })
        };
        rows.iter().enumerate().try_for_each(|i| row(i).map(drop))?;
        for (at, grad) in rows.iter().enumerate().zip(grad.chunks_exact(width)) {
            let start = row(at)? * width;
            isa.run(Step {
                values: values.each_mut().map(|v| &mut v[start..start + width]),
                grad,
                step,
            });
        }
        Ok(())
    })
}

/// A gradient's numbers, and what the rule makes of slots, which decay where gradients are zero, are never subnormal
/// ([`Wide::normal`]); the variable, which comes first, is what the rule says.
struct Step<'a, T, F, const N: usize> {
    values: [&'a mut [T]; N],
    grad: &'a [T],
    step: F,
}

/// Elements that are read before the first of them is written: that the slices do not overlap is
/// then plain to the compiler, whatever their number.
const LANES: usize = 16;

impl<T: Float, F, const N: usize> Vectorize for Step<'_, T, F, N>
where
    F: Fn([T::Wide; N], T::Wide) -> [T::Wide; N],
{
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Step {
            mut values,
            grad,
            step,
        } = self;
        let (whole, rest) = grad.as_chunks::<LANES>();
        for (i, grad) in whole.iter().enumerate() {
            let at = i * LANES;
            let mut lanes = [[T::Wide::ZERO; LANES]; N];
            for (lanes, value) in lanes.iter_mut().zip(&values) {
                for (lane, x) in lanes.iter_mut().zip(&value[at..at + LANES]) {
                    *lane = x.widen();
                }
            }
            for l in 0..LANES {
                let stepped = step(
                    std::array::from_fn(|v| lanes[v][l]),
                    grad[l].widen().normal(),
                );
                for v in 0..N {
                    lanes[v][l] = if v == 0 {
                        stepped[v]
                    } else {
                        stepped[v].normal()
                    };
                }
            }
            for (lanes, value) in lanes.iter().zip(&mut values) {
                for (x, lane) in value[at..at + LANES].iter_mut().zip(lanes) {
                    *x = T::narrow(*lane);
                }
            }
        }
        let at = whole.len() * LANES;
        for (i, grad) in rest.iter().enumerate() {
            let stepped = step(
                std::array::from_fn(|v| values[v][at + i].widen()),
                grad.widen().normal(),
            );
            for (v, (value, x)) in values.iter_mut().zip(stepped).enumerate() {
                value[at + i] = T::narrow(if v == 0 { x } else { x.normal() });
            }
        }
    }
}
