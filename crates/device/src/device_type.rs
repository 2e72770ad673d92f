//! Device types: CPU and GPU.

use std::fmt;

/// The kinds of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DeviceType {
    /// A graphics card.
    Gpu,
    /// The processor.
    Cpu,
}

impl DeviceType {
    /// All of them, best first: where nothing is asked for, a node runs on the first that has its
    /// kernel.
    pub const ALL: [DeviceType; 2] = [DeviceType::Gpu, DeviceType::Cpu];

    /// As it stands in a device's name: `CPU`.
    pub const fn name(self) -> &'static str {
        match self {
            DeviceType::Gpu => "GPU",
            DeviceType::Cpu => "CPU",
        }
    }
}

impl fmt::Display for DeviceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_type_comes_first() {
        let names: Vec<String> = DeviceType::ALL.iter().map(DeviceType::to_string).collect();
        assert_eq!(names, ["GPU", "CPU"]);
        assert!(DeviceType::ALL.is_sorted());
    }
}
