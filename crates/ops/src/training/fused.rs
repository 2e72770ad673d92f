//! One pass over a variable, its slots and its gradient.

use thalweg_device::parallel::Disjoint;
use thalweg_device::{KernelCx, KernelError, Prepare, Prepared, Vectorize};

use crate::elementwise::CHUNK;
use crate::number::{Float, Number};

/// A kernel that takes about this long for each element of its gradient and each of `N` variables.
pub(super) fn prepared<const N: usize>(
    p: &Prepare<'_>,
    grad: usize,
    run: impl Fn(&KernelCx<'_>) -> Result<(), KernelError> + Send + Sync + 'static,
) -> Prepared {
    let elements = p.inputs.get(grad).map_or(0, |grad| grad.elements());
    Prepared::new(elements.saturating_mul(N + 1), run)
}

/// The value of scalar input `i`: a rate.
pub(super) fn rate<T: Float>(cx: &KernelCx<'_>, i: usize) -> Result<T::Wide, KernelError> {
    let value = cx.input::<T>(i)?.first();
    let value = value.ok_or(KernelError::Argument("a scalar"))?;
    Ok(value.widen())
}

/// Sets the elements of the variables behind these inputs to `step(elements, gradient)`.
///
/// # Errors
/// Those of [`KernelCx::update`], and [`KernelError::Invalid`] where the variables and the gradient
/// are not of one length.
pub(super) fn update<T: Float, const N: usize>(
    cx: &KernelCx<'_>,
    variables: [usize; N],
    grad: usize,
    step: impl Fn([T::Wide; N], T::Wide) -> [T::Wide; N] + Copy + Send + Sync,
) -> Result<(), KernelError> {
    let grad = cx.input::<T>(grad)?;
    let (pool, isa) = (cx.pool(), cx.cpu().isa());
    cx.update::<T, N>(variables, |values| {
        if let Some(value) = values.iter().find(|v| v.len() != grad.len()) {
            return Err(KernelError::Invalid(format!(
                "the gradient has {} elements, a variable {}: they must have one shape",
                grad.len(),
                value.len()
            )));
        }
        let values = values.map(Disjoint::new);
        pool.parallel_for(grad.len().div_ceil(CHUNK), &|i| {
            let start = i * CHUNK;
            let len = CHUNK.min(grad.len() - start);
            isa.run(Step {
                // SAFETY: each index runs once, and the chunks do not overlap.
                values: std::array::from_fn(|v| unsafe { values[v].slice(start, len) }),
                grad: &grad[start..start + len],
                step,
            });
        });
        Ok(())
    })
}

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
                let stepped = step(std::array::from_fn(|v| lanes[v][l]), grad[l].widen());
                for v in 0..N {
                    lanes[v][l] = stepped[v];
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
                grad.widen(),
            );
            for (value, x) in values.iter_mut().zip(stepped) {
                value[at + i] = T::narrow(x);
            }
        }
    }
}
