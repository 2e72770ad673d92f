//! Draws of candidates, and how often each is expected among them: TensorFlow's `RangeSampler`.

use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::Tensor;

use super::ranges::Distribution;
use super::simple_philox::SimplePhilox;
use crate::random::philox::Philox;
use crate::support::accounted_map::AccountedMap;

/// Blocks of the random sequence that each candidate reserves; TensorFlow's.
const RESERVED_PER_CANDIDATE: u64 = 2048 / 4;

/// Inputs and attributes of a sampler.
pub(super) struct Request<'a> {
    pub(super) true_classes: &'a Tensor,
    pub(super) classes: &'a [i64],
    count: usize,
    unique: bool,
}

impl<'a> Request<'a> {
    /// The request of a node for classes below `range`.
    ///
    /// # Errors
    /// The shape or the classes do not fit.
    pub(super) fn of(cx: &TensorCx<'a>, range: i64) -> Result<Request<'a>, KernelError> {
        let (attrs, true_classes) = (cx.attrs(), cx.tensor(0)?);
        let num_true = attrs.int("num_true");
        match *true_classes.dims() {
            [_, columns] if i64::try_from(columns) == Ok(num_true) => {}
            _ => {
                return Err(KernelError::Invalid(format!(
                    "true_classes must be a matrix of num_true columns, which are {num_true}, and has shape {}",
                    true_classes.shape()
                )));
            }
        }
        let classes = true_classes.as_slice::<i64>()?;
        if let Some(at) = classes.iter().position(|c| !(0..range).contains(c)) {
            return Err(KernelError::Element {
                input: 0,
                element: at,
                reason: format!(
                    "`true_candidate` out of range [0, {range}), received {}",
                    classes[at]
                ),
            });
        }
        let (count, unique) = (attrs.int("num_sampled"), attrs.bool("unique"));
        if unique && count > range {
            return Err(KernelError::Invalid(format!(
                "Sampler's range is too small: there are no {count} different classes of {range}"
            )));
        }
        Ok(Request {
            true_classes,
            classes,
            count: usize::try_from(count).unwrap_or(0),
            unique,
        })
    }

    /// The results: candidates, and the expected counts of the true classes and of the candidates.
    pub(super) fn results(
        &self,
        cx: &TensorCx<'_>,
        candidates: &[i64],
        expected: impl Fn(i64) -> f32,
    ) -> Result<Vec<Tensor>, KernelError> {
        let counts = |classes: &[i64], dims: &[usize]| {
            let mut counts = cx.zeros(thalweg_tensor::DType::F32, dims)?;
            let places = counts.as_mut_slice::<f32>()?.iter_mut();
            places
                .zip(classes)
                .for_each(|(to, class)| *to = expected(*class));
            Ok::<_, KernelError>(counts)
        };
        Ok(vec![
            cx.tensor_of(&[candidates.len()], candidates)?,
            counts(self.classes, self.true_classes.dims())?,
            counts(candidates, &[candidates.len()])?,
        ])
    }

    /// Draws candidates by a distribution.
    pub(super) fn draw(
        &self,
        cx: &TensorCx<'_>,
        distribution: &dyn Distribution,
    ) -> Result<Vec<Tensor>, KernelError> {
        let reserved = (self.count as u64).wrapping_mul(RESERVED_PER_CANDIDATE);
        let counter = cx.counter()?;
        let first = counter.fetch_add(reserved, std::sync::atomic::Ordering::Relaxed);
        let mut words = Philox::of(cx.attrs()).words(first);
        let (mut numbers, mut stop) = (SimplePhilox::new(&mut words), cx.stop_check());
        let mut candidates = cx.zeros(thalweg_tensor::DType::I64, &[self.count])?;
        let places = candidates.as_mut_slice::<i64>()?;
        let mut known = AccountedMap::new(cx.memory());
        let (mut picked, mut tries) = (0, 0i32);
        while picked < places.len() {
            stop.tick()?;
            tries = tries.checked_add(1).ok_or_else(|| {
                KernelError::Invalid(format!(
                    "{picked} of {} different classes were found in {} tries: ask for fewer candidates",
                    self.count,
                    i32::MAX
                ))
            })?;
            let class = distribution.sample(&mut numbers);
            if self.unique {
                if known.contains(&class) {
                    continue;
                }
                known.or_insert(class, (), 0)?;
            }
            places[picked] = class;
            picked += 1;
        }
        let count = self.count as i32;
        self.results(cx, candidates.as_slice()?, |class| {
            expected_count(distribution.probability(class), count, tries)
        })
    }
}

/// Expected number of a class of probability `p` among `count` candidates that took `tries` draws.
fn expected_count(p: f32, count: i32, tries: i32) -> f32 {
    match tries == count {
        true => p * count as f32,
        // 1 - (1 - p)^tries, without loss of digits.
        false => -(tries as f32 * (-p).ln_1p()).exp_m1(),
    }
}
