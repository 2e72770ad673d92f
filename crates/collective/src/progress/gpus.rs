//! Communicators of GPUs: made when a plan first needs them, by all ranks of a set together.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};
use thalweg_device::GpuCollectives;
use thalweg_device::KernelError;
use thalweg_device::gpu::{Communicator, Driver, GoesOn};

use super::{OfSession, Shared, kernel};
use crate::error::CollectiveError;

/// What a rank has of its GPUs.
#[derive(Default)]
pub(super) struct Gpus {
    /// By set, and the driver of a card: its communicator.
    communicators: HashMap<(i32, usize), Arc<Communicator>>,
    /// Since when the GPU waits for those of other ranks.
    waits: Option<Instant>,
}

impl Shared {
    pub(super) fn gpus(&self) -> MutexGuard<'_, Gpus> {
        self.gpus.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Meets the GPUs of the other ranks of a set.
    fn meet(
        &self,
        set: i32,
        number: usize,
        driver: &Arc<dyn Driver>,
    ) -> Result<Communicator, KernelError> {
        let members = self.state().sets.get(&set).cloned().unwrap_or_default();
        let place = members.iter().position(|&m| m == self.rank);
        let place = place.ok_or(KernelError::NoRanks)?;
        let made = || match driver.communicators().and_then(|c| c.identity()) {
            Ok(identity) => json!(identity),
            Err(e) => json!(e.to_string()),
        };
        let own = if place == 0 { made() } else { Value::Null };
        let told = match &self.control {
            None => own,
            Some(control) => {
                let name = format!("communicator {number} of set {set}");
                let all = control.gather_among(&name, &own, &members, &|| false);
                all.map_err(kernel)?.swap_remove(0)
            }
        };
        if let Some(error) = told.as_str() {
            return Err(KernelError::Invalid(format!(
                "rank {}: {error}",
                members[0]
            )));
        }
        let bytes = told.as_array().into_iter().flatten();
        let bytes = bytes.map(|b| b.as_u64().and_then(|b| u8::try_from(b).ok()));
        let identity: Option<Vec<u8>> = bytes.collect();
        let control = self.control.clone();
        let goes_on: GoesOn = Arc::new(move || {
            let control = control.as_ref();
            control.is_none_or(|control| control.failure().is_none())
        });
        let place = (members, place);
        let met = Communicator::meet(driver, &identity.unwrap_or_default(), place, goes_on);
        // What ended the job says more than that the meeting has ended.
        let ended = || self.control.as_ref().and_then(|c| c.failure());
        met.map_err(|e| ended().map_or_else(|| e.into(), kernel))
    }
}

impl Gpus {
    /// Gives all communicators up, while the other ranks are there.
    pub(super) fn clear(&mut self) {
        self.communicators.clear();
    }
}

impl GpuCollectives for OfSession {
    fn communicator(
        &self,
        set: i32,
        driver: &Arc<dyn Driver>,
    ) -> Result<Arc<Communicator>, KernelError> {
        let shared = &self.progress.shared;
        if let Some(failure) = self.progress.failure() {
            return Err(kernel(failure));
        }
        let mut gpus = shared.gpus();
        let key = (set, Arc::as_ptr(driver).cast::<()>() as usize);
        if let Some(known) = gpus.communicators.get(&key) {
            return Ok(known.clone());
        }
        let number = gpus.communicators.keys().filter(|k| k.0 == set).count();
        let met = shared.meet(set, number, driver).inspect_err(|error| {
            // The others wait for this one.
            let why = format!("its GPU did not meet those of other ranks: {error}");
            shared.fail(&CollectiveError::Ended(why));
        })?;
        let met = Arc::new(met);
        gpus.communicators.insert(key, met.clone());
        Ok(met)
    }

    fn waits(&self, first: Option<(i32, &str)>) -> Result<(), KernelError> {
        let shared = &self.progress.shared;
        let Some(control) = &shared.control else {
            return Ok(());
        };
        let mut gpus = shared.gpus();
        let Some((set, name)) = first else {
            if gpus.waits.take().is_some() {
                control.leave();
            }
            return Ok(());
        };
        let since = *gpus.waits.get_or_insert_with(|| {
            let now = Instant::now();
            control.enter(name, now);
            now
        });
        drop(gpus);
        // One who asks is enough, and a second one where that one is missing.
        let others = || {
            let members = shared.state().sets.get(&set).cloned().unwrap_or_default();
            let asks = members.iter().take(2).any(|&m| m == shared.rank);
            let others = members.into_iter().filter(|&m| asks && m != shared.rank);
            others.collect()
        };
        let waited = control.may_wait_for_gpus(others, name, since.elapsed());
        waited.map_err(kernel)
    }

    fn abandon(&self, why: &str) {
        let why = CollectiveError::Ended(why.to_owned());
        self.progress.shared.fail(&why);
    }
}
