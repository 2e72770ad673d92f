//! Collectives between GPUs. A communicator is made when a plan first needs it, by all ranks of a set together.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use thalweg_device::GpuCollectives;
use thalweg_device::KernelError;
use thalweg_device::gpu::{Communicator, Driver, KeepWaiting};
use thalweg_tensor::sync::Unpoisoned;

use super::session::SessionCollectives;
use super::shared::{ProgressShared, kernel_error};
use crate::error::CollectiveError;

impl ProgressShared {
    /// Makes a communicator with the GPUs of the other ranks of a set that have this number in their tasks.
    fn meet(
        &self,
        set: i32,
        number: u32,
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
                let name = format!("communicator of GPU {number} of set {set}");
                let all = control.gather_among(&name, &own, &members, &|| false);
                all.map_err(kernel_error)?.swap_remove(0)
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
        let keep_waiting: KeepWaiting = Arc::new(move || {
            let control = control.as_ref();
            control.is_none_or(|control| control.failure().is_none())
        });
        let place = (members, place);
        let met = Communicator::meet(driver, &identity.unwrap_or_default(), place, keep_waiting);
        // The reason for which the job ended says more than the error of the driver.
        let ended = || self.control.as_ref().and_then(|c| c.failure());
        met.map_err(|e| ended().map_or_else(|| e.into(), kernel_error))
    }
}

impl GpuCollectives for SessionCollectives {
    fn communicator(
        &self,
        set: i32,
        number: u32,
        driver: &Arc<dyn Driver>,
    ) -> Result<Arc<Communicator>, KernelError> {
        let shared = &self.progress.shared;
        if let Some(failure) = self.progress.failure() {
            return Err(kernel_error(failure));
        }
        let key = (set, number, Arc::as_ptr(driver).cast::<()>() as usize);
        let slot = shared
            .communicators()
            .by_set
            .entry(key)
            .or_default()
            .clone();
        // GPUs of other numbers, and the end of the job, do not wait for this one to meet the other ranks.
        let mut met_before = slot.lock().unpoisoned();
        if let Some(known) = &*met_before {
            return Ok(known.clone());
        }
        let met = shared.meet(set, number, driver).inspect_err(|error| {
            // The other ranks wait for this one.
            let why = format!("its GPU did not meet those of other ranks: {error}");
            shared.fail(&CollectiveError::Ended(why));
        })?;
        let met = Arc::new(met);
        *met_before = Some(met.clone());
        Ok(met)
    }

    fn waits(&self, first: Option<(i32, &str)>) -> Result<(), KernelError> {
        let shared = &self.progress.shared;
        let Some(control) = &shared.control else {
            return Ok(());
        };
        let mut gpus = shared.communicators();
        let Some((set, name)) = first else {
            if gpus.waits_since.take().is_some() {
                control.leave();
            }
            return Ok(());
        };
        let since = *gpus.waits_since.get_or_insert_with(|| {
            let now = Instant::now();
            control.enter(name, now);
            now
        });
        drop(gpus);
        // One rank that asks the others is enough, and a second one if the first is missing.
        let others = || {
            let members = shared.state().sets.get(&set).cloned().unwrap_or_default();
            let asks = members.iter().take(2).any(|&m| m == shared.rank);
            let others = members.into_iter().filter(|&m| asks && m != shared.rank);
            others.collect()
        };
        let waited = control.may_wait_for_gpus(others, name, since.elapsed());
        waited.map_err(kernel_error)
    }

    fn abandon(&self, why: &str) {
        let why = CollectiveError::Ended(why.to_owned());
        self.progress.shared.fail(&why);
    }
}
