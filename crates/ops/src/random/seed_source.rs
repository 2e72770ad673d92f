//! Start of a node's random numbers: in a sequence that continues from run to run, where seeds or a key and counter in
//! its inputs put it, or where the state in a variable is.

use thalweg_device::{KernelCx, KernelError, Prepare};
use thalweg_graph::op::Effect;
use thalweg_tensor::{DType, Element};

use crate::random::philox::Philox;
use crate::random::reserve::skipped;
use crate::random::reserve::{first_block, reserved_blocks};

/// Philox, by TensorFlow's number for the algorithm.
pub(super) const RNG_ALG_PHILOX: i32 = 1;
/// The best algorithm for the device, which is Philox.
const RNG_ALG_AUTO_SELECT: i32 = 3;

/// Source of the start of random numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SeedSource {
    /// The end of the previous run.
    Counter(Philox),
    /// Two seeds, in this input.
    Seeds(usize, DType),
    /// The key, the counter and the algorithm, in these inputs.
    Key([usize; 3]),
    /// The state in the variable of the first input, and the input with the algorithm; without that, the state begins
    /// with it.
    State(Option<usize>),
}

impl SeedSource {
    pub(crate) fn of(p: &Prepare<'_>) -> SeedSource {
        let at = |name: &str| p.node.op.inputs.iter().position(|arg| arg.name == name);
        if p.node.op.effect == Effect::Write {
            return SeedSource::State(at("algorithm"));
        }
        match (at("seed"), at("key"), at("counter"), at("alg")) {
            (Some(seed), ..) => SeedSource::Seeds(seed, p.dtype(seed)),
            (None, Some(key), Some(counter), Some(alg)) => SeedSource::Key([key, counter, alg]),
            _ => SeedSource::Counter(Philox::of(&p.node.attrs)),
        }
    }

    /// The sequence and its first block, for a run that draws `elements` numbers.
    pub(crate) fn start(
        self,
        cx: &KernelCx<'_>,
        elements: usize,
    ) -> Result<(Philox, u64), KernelError> {
        match self {
            SeedSource::Counter(philox) => Ok((philox, first_block(cx, elements)?)),
            SeedSource::Seeds(..) => {
                let (key, stream) = self.scramble(cx)?;
                Ok((Philox::new(key, stream), 0))
            }
            SeedSource::State(alg) => {
                let alg = match alg.map(|i| cx.input::<i64>(i)).transpose()? {
                    Some([alg]) => Some(*alg),
                    Some(_) => return Err(KernelError::Argument("one algorithm")),
                    None => None,
                };
                taken_state(cx, alg, elements)
            }
            SeedSource::Key([key, counter, alg]) => {
                let [key] = cx.input::<u64>(key)? else {
                    return Err(KernelError::Argument("a key"));
                };
                let [first, stream, ..] = cx.input::<u64>(counter)? else {
                    return Err(KernelError::Argument("a counter of two"));
                };
                let [alg] = cx.input::<i32>(alg)? else {
                    return Err(KernelError::Argument("one algorithm"));
                };
                check_algorithm(i64::from(*alg))?;
                Ok((Philox::new(*key, *stream), *first))
            }
        }
    }

    /// Key and upper half of the counter for two seeds: a Philox block of
    /// them, so that it does not matter which bits of the seeds differ.
    pub(super) fn scramble(self, cx: &KernelCx<'_>) -> Result<(u64, u64), KernelError> {
        let (seed, seed2) = match self {
            SeedSource::Seeds(i, DType::I32) => pair(cx.input::<i32>(i)?, |v| i64::from(v) as u64)?,
            SeedSource::Seeds(i, DType::U32) => pair(cx.input::<u32>(i)?, u64::from)?,
            SeedSource::Seeds(i, DType::U64) => pair(cx.input::<u64>(i)?, |v| v)?,
            SeedSource::Seeds(i, _) => pair(cx.input::<i64>(i)?, |v| v as u64)?,
            _ => return Err(KernelError::Argument("seeds")),
        };
        const KEY: u64 = 0x0246_1e29_3ec8_f720;
        let [a, b, c, d] = Philox::new(KEY, seed2).block(seed);
        let wide = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        Ok((wide(a, b), wide(c, d)))
    }
}

/// The sequence of the state in variable 0 and its first block; the state goes on by so many elements.
fn taken_state(
    cx: &KernelCx<'_>,
    algorithm: Option<i64>,
    elements: usize,
) -> Result<(Philox, u64), KernelError> {
    let mut taken = (Philox::new(0, 0), 0);
    cx.update::<i64, 1>([0], |[state]| {
        let (own, state) = match algorithm {
            Some(algorithm) => (Some(algorithm), state),
            None => match state.split_first_mut() {
                Some((own, state)) => (Some(*own), state),
                None => (None, Default::default()),
            },
        };
        check_algorithm(own.unwrap_or_default())?;
        let [low, high, key, ..] = state else {
            return Err(KernelError::Invalid(
                "For the Philox algorithm, the size of state must be at least 3".to_owned(),
            ));
        };
        taken = (Philox::new(*key as u64, *high as u64), *low as u64);
        let after = skipped([*low as u64, *high as u64], reserved_blocks(elements));
        (*low, *high) = (after[0] as i64, after[1] as i64);
        Ok(())
    })?;
    Ok(taken)
}

/// Fails unless this is TensorFlow's number of an algorithm that the CPU has.
pub(super) fn check_algorithm(alg: i64) -> Result<(), KernelError> {
    let known = [RNG_ALG_PHILOX, RNG_ALG_AUTO_SELECT].map(i64::from);
    match known.contains(&alg) {
        true => Ok(()),
        false => Err(KernelError::Invalid(format!(
            "algorithm {alg} is not known: use {RNG_ALG_PHILOX} (Philox), or {RNG_ALG_AUTO_SELECT} for any"
        ))),
    }
}

fn pair<T: Element>(values: &[T], to_u64: fn(T) -> u64) -> Result<(u64, u64), KernelError> {
    match *values {
        [a, b] => Ok((to_u64(a), to_u64(b))),
        _ => Err(KernelError::Argument("two seeds")),
    }
}
