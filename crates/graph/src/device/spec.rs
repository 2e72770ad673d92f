//! Device specs: partial names of devices.

use std::fmt;
use std::sync::Arc;

/// A device's name, or a part of one: what is unset may be anything.
///
/// Prints as `/job:NAME/replica:N/task:N/device:TYPE:N`, TensorFlow's canonical form; the empty
/// spec prints as nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceSpec {
    /// The job.
    pub job: Option<Arc<str>>,
    /// The replica.
    pub replica: Option<u32>,
    /// The task.
    pub task: Option<u32>,
    /// The device's type: `CPU`, `GPU`.
    pub device_type: Option<Arc<str>>,
    /// The device's number among those of its type.
    pub index: Option<u32>,
}

impl DeviceSpec {
    /// Whether nothing is set: any device will do.
    pub fn is_empty(&self) -> bool {
        *self == DeviceSpec::default()
    }

    /// Whether a device of this name is one that `self` allows: all that is set here is the same
    /// there.
    pub fn admits(&self, name: &DeviceSpec) -> bool {
        fn same<T: PartialEq>(wanted: &Option<T>, found: &Option<T>) -> bool {
            wanted.is_none() || wanted == found
        }
        same(&self.job, &name.job)
            && same(&self.replica, &name.replica)
            && same(&self.task, &name.task)
            && same(&self.device_type, &name.device_type)
            && same(&self.index, &name.index)
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(job) = &self.job {
            write!(f, "/job:{job}")?;
        }
        if let Some(replica) = self.replica {
            write!(f, "/replica:{replica}")?;
        }
        if let Some(task) = self.task {
            write!(f, "/task:{task}")?;
        }
        match (&self.device_type, self.index) {
            (None, None) => Ok(()),
            (Some(t), Some(i)) => write!(f, "/device:{t}:{i}"),
            (Some(t), None) => write!(f, "/device:{t}:*"),
            (None, Some(i)) => write!(f, "/device:*:{i}"),
        }
    }
}
