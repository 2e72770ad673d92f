//! ParameterizedTruncatedNormal.

use half::{bf16, f16};
use thalweg_cpu::number::{Float, Wide};
use thalweg_device::{KernelCx, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Arg, Effect, Gradient, arg, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::DType;

use super::box_muller::{normal_pair_f64, uniform_f32, uniform_f64};
use super::fill::{SEED, SEED2, SHAPE_TYPE, listed_shape};
use super::normal::four_normals;
use super::philox::Philox;
use super::reserve::take_blocks;

/// Most rounds of a rejection; TensorFlow's.
const MAX_ROUNDS: usize = 1000;

/// Numbers that are drawn with the same parameters, where all have them; TensorFlow's.
const GROUP: usize = 100;

/// Estimated nanoseconds of an element.
const COST: usize = 40;

/// The numbers of a block.
#[derive(Clone, Copy)]
struct Draws<W, const N: usize> {
    normals: fn([u32; 4]) -> [W; N],
    uniforms: fn([u32; 4]) -> [W; N],
}

const SINGLE: Draws<f32, 4> = Draws {
    normals: four_normals,
    uniforms: |x| x.map(uniform_f32),
};

const DOUBLE: Draws<f64, 2> = Draws {
    normals: normal_pair_f64,
    uniforms: |[a, b, c, d]| [uniform_f64(a, b), uniform_f64(c, d)],
};

/// Mean, standard deviation and bounds.
type Parameters<W> = [W; 4];

/// The interval of the standard normal distribution that is drawn from, and the way back from it.
struct Interval<W> {
    low: W,
    high: W,
    scale: W,
    mean: W,
}

impl<W: Wide> Interval<W> {
    /// One-sided intervals, and those below the mean, are turned: they have a lower bound.
    fn of([mean, deviation, low, high]: Parameters<W>) -> Result<Interval<W>, KernelError> {
        let is_finite = |x: W| x * W::ZERO == W::ZERO;
        if !(deviation > W::ZERO && low < high && (is_finite(low) || is_finite(high))) {
            return Err(KernelError::Invalid(format!(
                "Invalid parameters: the standard deviation {} must be above 0, the bounds {} and {} ascending, and one of \
                 them finite",
                deviation.to_f64(),
                low.to_f64(),
                high.to_f64()
            )));
        }
        let turn = low == W::NEG_INFINITY || high < mean;
        let (low, high, scale) = match turn {
            true => (high, low, -deviation),
            false => (low, high, deviation),
        };
        Ok(Interval {
            low: (low - mean) / scale,
            high: (high - mean) / scale,
            scale,
            mean,
        })
    }

    /// Fills `out`. The samplers, and the choice between them, are TensorFlow's: normal numbers where the mean lies well
    /// inside, uniform ones for a narrow interval, and exponential ones for a tail.
    fn fill<T: Float<Wide = W>, const N: usize>(
        &self,
        out: &mut [T],
        draws: Draws<W, N>,
        block: &mut impl FnMut() -> [u32; 4],
    ) -> Result<(), KernelError> {
        let (low, high, two) = (self.low, self.high, W::from_f64(2.0));
        let inside = W::from_f64(1.3);
        let mut to = Accepted {
            out: out.iter_mut(),
            interval: self,
            rounds: 0,
        };
        let root = (low * low + W::from_f64(4.0)).sqrt();
        let quarter = low * (low - root) / W::from_f64(4.0);
        let cutoff = two * (W::from_f64(0.5) + quarter).exp() / (low + root);
        let width = high - low;
        if (low < -inside && high >= W::ZERO) || (high > inside && low <= W::ZERO) {
            while to.is_open() {
                for x in (draws.normals)(block()) {
                    to.put(x, x >= low && x <= high)?;
                }
            }
        } else if width < cutoff {
            let plus = if low < W::ZERO { W::ZERO } else { low * low };
            while to.is_open() {
                let places = (draws.uniforms)(block()).map(|u| u * width + low);
                for (z, u) in places.into_iter().zip((draws.uniforms)(block())) {
                    to.put(z, u <= ((plus - z * z) / two).exp())?;
                }
            }
        } else {
            let rate = (low + root) / two;
            while to.is_open() {
                let numbers = (draws.uniforms)(block());
                for pair in numbers.chunks_exact(2) {
                    let z = -pair[0].ln() / rate + low;
                    let x = if low < rate { rate - z } else { low - rate };
                    to.put(z, pair[1] <= (-(x * x) / two).exp() && z < high)?;
                }
            }
        }
        Ok(())
    }
}

/// The numbers that are still to be drawn.
struct Accepted<'a, T: Float> {
    out: std::slice::IterMut<'a, T>,
    interval: &'a Interval<T::Wide>,
    rounds: usize,
}

impl<T: Float> Accepted<'_, T> {
    fn is_open(&self) -> bool {
        self.out.len() > 0
    }

    /// Keeps a number if it is accepted and one is missing.
    fn put(&mut self, x: T::Wide, accepted: bool) -> Result<(), KernelError> {
        if !self.is_open() {
            return Ok(());
        }
        if !accepted {
            self.rounds += 1;
            return match self.rounds < MAX_ROUNDS {
                true => Ok(()),
                false => Err(KernelError::Invalid(format!(
                    "no number between the bounds was drawn in {MAX_ROUNDS} rounds: use wider bounds"
                ))),
            };
        }
        self.rounds = 0;
        if let Some(out) = self.out.next() {
            *out = T::narrow(x * self.interval.scale + self.interval.mean);
        }
        Ok(())
    }
}

/// The numbers are drawn one after the other. TensorFlow starts anew for each of its threads.
fn kernel<T: Float<Wide = W>, W: Wide, const N: usize>(
    p: &Prepare<'_>,
    draws: Draws<W, N>,
) -> Prepared {
    let philox = Philox::of(&p.node.attrs);
    let dims = p.output_dims(0);
    let rows = dims.first().copied().unwrap_or(1);
    let elements = p.outputs.first().map_or(0, |o| o.elements());
    let one = [1, 2].into_iter().all(|i| matches!(p.dims(i), [] | [1]))
        && [3, 4].into_iter().all(|i| p.dims(i).is_empty());
    let width = match one {
        true => GROUP,
        false => elements.checked_div(rows).unwrap_or(0),
    };
    let groups = if one { elements.div_ceil(GROUP) } else { rows };
    Prepared::new(elements.saturating_mul(COST), move |cx| {
        let parameters = Rows::<T>::of(cx, rows)?;
        let blocks = (groups as u64).wrapping_mul(2 * MAX_ROUNDS as u64);
        let blocks = blocks.wrapping_mul(width as u64 + 3) / 4;
        let mut next = take_blocks(cx, blocks)?;
        let mut block = || {
            let words = philox.block(next);
            next = next.wrapping_add(1);
            words
        };
        let out = cx.output::<T>(0)?;
        for (group, out) in out.chunks_mut(width.max(1)).enumerate() {
            Interval::of(parameters.row(group))?.fill(out, draws, &mut block)?;
        }
        Ok(())
    })
}

/// The four parameters: one value of each, or one for each row.
struct Rows<'a, T>([&'a [T]; 4]);

impl<'a, T: Float> Rows<'a, T> {
    fn of(cx: &'a KernelCx<'_>, rows: usize) -> Result<Rows<'a, T>, KernelError> {
        let mut all = [&[][..]; 4];
        for (at, name) in ["means", "stdevs", "minvals", "maxvals"]
            .into_iter()
            .enumerate()
        {
            all[at] = cx.input::<T>(at + 1)?;
            if all[at].len() != 1 && all[at].len() != rows {
                return Err(KernelError::Invalid(format!(
                    "Input {name} should have length 1 or shape[0], which is {rows}, and has {}",
                    all[at].len()
                )));
            }
        }
        Ok(Rows(all))
    }

    fn row(&self, row: usize) -> Parameters<T::Wide> {
        self.0.map(|all| match all {
            [one] => one.widen(),
            many => many[row].widen(),
        })
    }
}

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    for i in 1..5 {
        if cx.shape(i).rank().is_some_and(|rank| rank > 1) {
            return Err(InferError::Value {
                input: i,
                reason: "must be a scalar, or a vector of one value for each row".to_owned(),
            });
        }
    }
    match cx.shape(0).dim(0) {
        Some(0) => Err(InferError::Value {
            input: 0,
            reason: "must list one dimension or more".to_owned(),
        }),
        _ => listed_shape(cx),
    }
}

const fn parameter(name: &'static str) -> Arg {
    arg(name, "dtype")
}

/// Samples of normal distributions between bounds.
pub(crate) static PARAMETERIZED_TRUNCATED_NORMAL: Op = Op {
    def: OpDef {
        name: "ParameterizedTruncatedNormal",
        summary: "Numbers of normal distributions between bounds, in the shape that the first input lists; a row has its own parameters.",
        inputs: &[
            arg("shape", "T").host(),
            parameter("means"),
            parameter("stdevs"),
            parameter("minvals"),
            parameter("maxvals"),
        ],
        outputs: &[arg("output", "dtype")],
        attrs: &[SEED, SEED2, type_attr("dtype", DType::FLOATS), SHAPE_TYPE],
        shape,
        gradient: Gradient::None,
        effect: Effect::Random,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| match p.dtype(1) {
        // Halves are drawn as f32.
        DType::F16 => Ok(kernel::<f16, f32, 4>(p, SINGLE)),
        DType::BF16 => Ok(kernel::<bf16, f32, 4>(p, SINGLE)),
        DType::F32 => Ok(kernel::<f32, f32, 4>(p, SINGLE)),
        DType::F64 => Ok(kernel::<f64, f64, 2>(p, DOUBLE)),
        other => Err(KernelError::DType(other)),
    })],
};
