//! The variables behind a kernel's inputs: read, updated and replaced.

use std::sync::MutexGuard;

use smallvec::SmallVec;
use thalweg_tensor::{Element, Tensor};

use super::{KernelCx, Renewal};
use crate::error::KernelError;
use crate::variable::Variable;

/// The locked values of some variables.
type Guards<'a> = SmallVec<[MutexGuard<'a, Option<Tensor>>; 4]>;

impl<'a> KernelCx<'a> {
    /// The variable behind resource input `i`.
    ///
    /// # Errors
    /// [`KernelError::Argument`] where the input is no resource.
    pub fn variable(&self, i: usize) -> Result<&'a Variable, KernelError> {
        match self.variables.get(i) {
            Some(Some(variable)) => Ok(variable),
            _ => Err(KernelError::Argument("a variable")),
        }
    }

    /// Locks the variables behind these resource inputs, all of them initialised, and hands their
    /// elements to `update`, in this order.
    ///
    /// # Errors
    /// [`KernelError::Uninitialized`], [`KernelError::Invalid`] where one variable stands behind two inputs, or the
    /// error of `update`.
    pub fn update<T: Element, const N: usize>(
        &self,
        inputs: [usize; N],
        update: impl FnOnce([&mut [T]; N]) -> Result<(), KernelError>,
    ) -> Result<(), KernelError> {
        let mut update = Some(update);
        self.update_tensors(&inputs, &mut |tensors| {
            let mut slices: [&mut [T]; N] = std::array::from_fn(|_| Default::default());
            for (slice, tensor) in slices.iter_mut().zip(tensors) {
                *slice = tensor.as_mut_slice()?;
            }
            update.take().map_or(Ok(()), |update| update(slices))
        })
    }

    /// As [`KernelCx::update`], of tensors, one for each of the inputs; calls `update` once.
    ///
    /// # Errors
    /// As [`KernelCx::update`].
    pub fn update_tensors(
        &self,
        inputs: &[usize],
        update: &mut dyn FnMut(&mut [&mut Tensor]) -> Result<(), KernelError>,
    ) -> Result<(), KernelError> {
        let mut guards = self.locked(inputs)?;
        let mut tensors: SmallVec<[&mut Tensor; 4]> = SmallVec::new();
        for (guard, &i) in guards.iter_mut().zip(inputs) {
            match guard.as_mut() {
                Some(value) => tensors.push(value),
                None => return Err(self.variable(i)?.uninitialized()),
            }
        }
        update(&mut tensors)
    }

    /// As [`KernelCx::update_tensors`], for an update that writes all elements: values that something else holds are
    /// not copied first, but read where they are.
    ///
    /// # Errors
    /// As [`KernelCx::update`]; the variables then have the values that they had, but for those that were
    /// written in place.
    pub fn renew(
        &self,
        inputs: &[usize],
        renew: &mut dyn FnMut(&mut [Renewal<'_>]) -> Result<(), KernelError>,
    ) -> Result<(), KernelError> {
        let mut guards = self.locked(inputs)?;
        let mut alone = guards.iter_mut().map(|g| g.as_mut());
        if !alone.all(|value| value.is_some_and(Tensor::is_alone)) {
            return self.replace(guards, inputs, renew);
        }
        let mut renewals: SmallVec<[Renewal<'_>; 4]> = SmallVec::new();
        for new in guards.iter_mut().filter_map(|guard| guard.as_mut()) {
            renewals.push(Renewal { old: None, new });
        }
        renew(&mut renewals)
    }

    /// As [`KernelCx::renew`], for variables of which one is held elsewhere, or that have no value.
    #[cold]
    fn replace(
        &self,
        mut guards: Guards<'a>,
        inputs: &[usize],
        renew: &mut dyn FnMut(&mut [Renewal<'_>]) -> Result<(), KernelError>,
    ) -> Result<(), KernelError> {
        // Replaced values are dropped once the variables are unlocked.
        let mut replaced: SmallVec<[(usize, Tensor); 4]> = SmallVec::new();
        let mut next: SmallVec<[Option<Tensor>; 4]> = SmallVec::new();
        for (guard, &i) in guards.iter_mut().zip(inputs) {
            match guard.as_mut() {
                Some(value) => next.push(self.variable(i)?.successor(value)?),
                None => return Err(self.variable(i)?.uninitialized()),
            }
        }
        let mut renewals: SmallVec<[Renewal<'_>; 4]> = SmallVec::new();
        for (guard, next) in guards.iter_mut().zip(&mut next) {
            match (guard.as_mut(), next) {
                (Some(value), Some(new)) => renewals.push(Renewal {
                    old: Some(value),
                    new,
                }),
                (Some(new), None) => renewals.push(Renewal { old: None, new }),
                (None, _) => {}
            }
        }
        renew(&mut renewals)?;
        drop(renewals);
        for ((guard, next), &i) in guards.iter_mut().zip(next).zip(inputs) {
            if next.is_some()
                && let Some(old) = std::mem::replace(&mut **guard, next)
            {
                replaced.push((i, old));
            }
        }
        drop(guards);
        for (i, old) in replaced {
            self.variable(i)?.keep_spare(old);
        }
        Ok(())
    }

    /// Locks the values of the variables behind these resource inputs, in this order.
    fn locked(&self, inputs: &[usize]) -> Result<Guards<'a>, KernelError> {
        if let &[i] = inputs {
            let mut guards = Guards::new();
            guards.push(self.variable(i)?.lock());
            return Ok(guards);
        }
        let mut variables: SmallVec<[(usize, &Variable); 4]> = SmallVec::new();
        for (position, &i) in inputs.iter().enumerate() {
            variables.push((position, self.variable(i)?));
        }
        // Every step locks in the order of addresses, so that no two wait for each other.
        variables.sort_by_key(|(_, v)| std::ptr::from_ref(*v) as usize);
        if variables.windows(2).any(|w| std::ptr::eq(w[0].1, w[1].1)) {
            return Err(KernelError::Invalid(
                "one variable stands behind two of the inputs: give each its own".to_owned(),
            ));
        }
        let mut guards: SmallVec<[(usize, MutexGuard<'_, Option<Tensor>>); 4]> =
            variables.iter().map(|(p, v)| (*p, v.lock())).collect();
        guards.sort_by_key(|(position, _)| *position);
        Ok(guards.into_iter().map(|(_, guard)| guard).collect())
    }
}
