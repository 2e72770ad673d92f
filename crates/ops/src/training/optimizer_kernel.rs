//! Optimizer kernels: one pass over a variable, its slots and its gradient.

use bytemuck::Pod;
use smallvec::SmallVec;
use thalweg_cpu::parallel::Disjoint;
use thalweg_cpu::{Isa, Vectorize};
use thalweg_device::{KernelCx, KernelError, Prepare, Prepared};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Tensor};

use crate::support::elementwise::{BLOCK, CHUNK, Compute, Conversion};
use crate::support::tensors::bytes_mut;
use thalweg_cpu::number::Wide;

/// Kernel of an optimizer op whose first `N` inputs are variables. `rule` maps the rates (the inputs of
/// these names) to a function from one element of each variable and of the gradient
/// to the new elements of the variables. All arithmetic is in `W`.
///
/// Arguments are found by their names, so that one rule serves both the op that takes a whole
/// gradient and the op that takes rows of it.
pub(super) fn step<W: Wide + Compute + Pod, const N: usize, const R: usize, F>(
    p: &Prepare<'_>,
    rates: [&str; R],
    rule: impl Fn([W; R]) -> F + Send + Sync + 'static,
) -> Result<Prepared, KernelError>
where
    F: Fn([W; N], W) -> [W; N] + Copy + Send + Sync,
{
    const { assert!(R <= MAX_RATES) };
    let rule = move |rates: &[W], then: &mut WithPass<'_, W, N>| {
        let mut of = [W::ZERO; R];
        of.copy_from_slice(rates);
        then(&RulePass(rule(of)))
    };
    prepare::<W, N>(p, &rates, Box::new(rule))
}

/// Maximum number of rates of a rule.
const MAX_RATES: usize = 8;

/// Continuation that is called with the loop of a rule at given rates.
type WithPass<'a, W, const N: usize> =
    dyn FnMut(&dyn ElementwisePass<W, N>) -> Result<(), KernelError> + 'a;

/// A rule before its rates are known.
type RateRule<W, const N: usize> =
    dyn Fn(&[W], &mut WithPass<'_, W, N>) -> Result<(), KernelError> + Send + Sync;

/// A rule compiled into a loop over elements.
trait ElementwisePass<W, const N: usize>: Sync {
    /// Applies the rule to elements of each variable and of the gradient, in place.
    fn run(&self, isa: Isa, values: [&mut [W]; N], grad: &[W]);
}

struct RulePass<F>(F);

impl<W: Wide, F, const N: usize> ElementwisePass<W, N> for RulePass<F>
where
    F: Fn([W; N], W) -> [W; N] + Copy + Sync,
{
    fn run(&self, isa: Isa, values: [&mut [W]; N], grad: &[W]) {
        isa.run_over::<W, _>(FusedStep {
            values,
            grad,
            step: self.0,
        });
    }
}

fn prepare<W: Wide + Compute + Pod, const N: usize>(
    p: &Prepare<'_>,
    rates: &[&str],
    rule: Box<RateRule<W, N>>,
) -> Result<Prepared, KernelError> {
    let inputs = p.node.op.inputs;
    let at = |name: &str| inputs.iter().position(|arg| arg.name == name);
    let missing = KernelError::Argument("a rate or a gradient");
    // The step number is an integer, whatever the dtype of the variables.
    let mut rate_at: SmallVec<[(usize, bool); MAX_RATES]> = SmallVec::new();
    for name in rates {
        let i = at(name).ok_or(missing.clone())?;
        rate_at.push((i, p.dtype(i) == DType::I64));
    }
    let grad = at("grad").or(at("delta")).ok_or(missing)?;
    let indices = at("indices");
    let elements = p.inputs.get(grad).map_or(0, |grad| grad.elements());
    let cost = elements.saturating_mul(N + 1);
    let stored = Storage::<W>(p.dtype(grad), W::conversion(p.dtype(grad)));
    Ok(Prepared::new(cost, move |cx| {
        let mut rates = [W::ZERO; MAX_RATES];
        for (rate, &at) in rates.iter_mut().zip(&rate_at) {
            *rate = stored.rate(cx, at)?;
        }
        rule(&rates[..rate_at.len()], &mut |pass| match indices {
            None => stored.update(cx, grad, pass),
            Some(i) => stored.update_rows(cx, grad, i, pass),
        })
    }))
}

/// Old elements of a variable, unless they are in the new buffer already, and the new buffer.
type OldAndNew<'a> = (Option<&'a [u8]>, Disjoint<'a, u8>);

/// Dtype of the variables, and the conversion of its elements to the type of the arithmetic.
struct Storage<W>(DType, Option<Conversion<W>>);

impl<W: Wide + Compute + Pod> Storage<W> {
    /// Value of scalar input `i`: a rate, or the step number.
    fn rate(&self, cx: &KernelCx<'_>, (i, is_number): (usize, bool)) -> Result<W, KernelError> {
        let value = match (is_number, self.1) {
            (true, _) => cx.input::<i64>(i)?.first().map(|&n| W::from_f64(n as f64)),
            (false, None) => cx.input::<W>(i)?.first().copied(),
            (false, Some(c)) => c.blocks(cx.input_bytes(i)?).next().map(|rate| rate[0]),
        };
        value.ok_or(KernelError::Argument("a scalar"))
    }

    /// Updates the elements of the first `N` inputs, which are variables, by `pass(elements, gradient)`.
    ///
    /// # Errors
    /// Those of [`KernelCx::renew`], and [`KernelError::Invalid`] if the variables and the gradient
    /// differ in length.
    fn update<const N: usize>(
        &self,
        cx: &KernelCx<'_>,
        grad: usize,
        pass: &dyn ElementwisePass<W, N>,
    ) -> Result<(), KernelError> {
        let grad = cx.input_bytes(grad)?;
        let (pool, isa) = (cx.pool(), cx.cpu().isa());
        let inputs: [usize; N] = std::array::from_fn(|i| i);
        cx.renew(&inputs, &mut |renewals| {
            let mut values: [OldAndNew<'_>; N] =
                std::array::from_fn(|_| (None, Disjoint::new(&mut [])));
            for (value, renewal) in values.iter_mut().zip(renewals) {
                let old = renewal.old.map(Tensor::bytes);
                let new = bytes_mut(renewal.new, self.0)?;
                if new.len() != grad.len() {
                    return Err(KernelError::Invalid(format!(
                        "the gradient has {}, a variable {}: they must have one shape",
                        counted(grad.len() / self.0.size(), "element"),
                        new.len() / self.0.size()
                    )));
                }
                *value = (old, Disjoint::new(new));
            }
            let chunk = CHUNK * self.0.size();
            pool.parallel_for(grad.len().div_ceil(chunk), &|i| {
                let start = i * chunk;
                let end = grad.len().min(start + chunk);
                let parts = std::array::from_fn(|v| {
                    let (old, new) = &values[v];
                    // SAFETY: each index runs once, and the chunks do not overlap.
                    let new = unsafe { new.slice(start, end - start) };
                    if let Some(old) = old {
                        // The copied elements are still in the cache when the step reads them.
                        new.copy_from_slice(&old[start..end]);
                    }
                    new
                });
                self.run(isa, parts, &grad[start..end], pass);
            });
            Ok(())
        })
    }

    /// Like [`Storage::update`], for the indexed rows: one after the other, so that a row with two
    /// indices is updated twice.
    fn update_rows<const N: usize>(
        &self,
        cx: &KernelCx<'_>,
        grad: usize,
        indices: usize,
        pass: &dyn ElementwisePass<W, N>,
    ) -> Result<(), KernelError> {
        let (grad, isa) = (cx.input_bytes(grad)?, cx.cpu().isa());
        let (short, long) = match cx.input_slots().get(indices).map(|i| i.dtype) {
            Some(DType::I32) => (cx.input::<i32>(indices)?, &[][..]),
            _ => (&[][..], cx.input::<i64>(indices)?),
        };
        let rows = || {
            short
                .iter()
                .map(|&i| i64::from(i))
                .chain(long.iter().copied())
        };
        let inputs: [usize; N] = std::array::from_fn(|i| i);
        cx.update_tensors(&inputs, &mut |tensors| {
            let size = self.0.size();
            let width = grad.len() / (short.len() + long.len()).max(1);
            if width == 0 {
                return Ok(());
            }
            let mut values: [&mut [u8]; N] = std::array::from_fn(|_| Default::default());
            for (value, tensor) in values.iter_mut().zip(tensors) {
                *value = bytes_mut(tensor, self.0)?;
            }
            let len = values.first().map_or(0, |v| v.len());
            if let Some(value) = values
                .iter()
                .find(|v| v.len() != len || !len.is_multiple_of(width))
            {
                return Err(KernelError::Invalid(format!(
                    "the gradient has rows of {} elements, a variable {} elements: they must have \
                     the same rows",
                    width / size,
                    value.len() / size
                )));
            }
            let count = len / width;
            let row = |(element, index): (usize, i64)| {
                let row = usize::try_from(index).ok().filter(|&r| r < count);
                row.ok_or_else(|| KernelError::Element {
                    input: indices,
                    element,
                    reason: format!("index {index} is not within 0..{count}"),
                })
            };
            rows().enumerate().try_for_each(|i| row(i).map(drop))?;
            for (at, grad) in rows().enumerate().zip(grad.chunks_exact(width)) {
                let start = row(at)? * width;
                let parts = values.each_mut().map(|v| &mut v[start..start + width]);
                self.run(isa, parts, grad, pass);
            }
            Ok(())
        })
    }

    /// Runs the loop over elements of the variables, converted block by block if necessary.
    fn run<const N: usize>(
        &self,
        isa: Isa,
        mut values: [&mut [u8]; N],
        grad: &[u8],
        pass: &dyn ElementwisePass<W, N>,
    ) {
        let Some(c) = self.1 else {
            let values = values.map(bytemuck::cast_slice_mut);
            return pass.run(isa, values, bytemuck::cast_slice(grad));
        };
        for (i, grad) in c.blocks(grad).enumerate() {
            let bytes = i * BLOCK * c.size..(i * BLOCK + grad.len()) * c.size;
            let mut wide = values.each_ref().map(|v| c.block(&v[bytes.clone()]));
            pass.run(isa, wide.each_mut().map(|wide| &mut wide[..]), &grad);
            for (value, wide) in values.iter_mut().zip(&wide) {
                c.narrow(wide, &mut value[bytes.clone()]);
            }
        }
    }
}

/// Flushes the gradient, and the new values of slots, which decay where gradients are zero, if they are subnormal
/// ([`Wide::normal`]); the variable, which comes first, is not flushed.
struct FusedStep<'a, T, F, const N: usize> {
    values: [&'a mut [T]; N],
    grad: &'a [T],
    step: F,
}

/// Number of elements that are read before the first of them is written. The compiler then sees that the slices
/// do not overlap, whatever their number.
const LANES: usize = 16;

impl<T: Wide, F, const N: usize> Vectorize for FusedStep<'_, T, F, N>
where
    F: Fn([T; N], T) -> [T; N],
{
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let FusedStep {
            mut values,
            grad,
            step,
        } = self;
        let (whole, rest) = grad.as_chunks::<LANES>();
        for (i, grad) in whole.iter().enumerate() {
            let at = i * LANES;
            let mut lanes = [[T::ZERO; LANES]; N];
            for (lanes, value) in lanes.iter_mut().zip(&values) {
                for (lane, x) in lanes.iter_mut().zip(&value[at..at + LANES]) {
                    *lane = *x;
                }
            }
            for l in 0..LANES {
                let stepped = step(std::array::from_fn(|v| lanes[v][l]), grad[l].normal());
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
                    *x = *lane;
                }
            }
        }
        let at = whole.len() * LANES;
        for (i, grad) in rest.iter().enumerate() {
            let stepped = step(std::array::from_fn(|v| values[v][at + i]), grad.normal());
            for (v, (value, x)) in values.iter_mut().zip(stepped).enumerate() {
                value[at + i] = if v == 0 { x } else { x.normal() };
            }
        }
    }
}
