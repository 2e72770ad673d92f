//! Devices of all types.
//!
//! ```
//! use thalweg_device::{Cpu, Device};
//!
//! let device = Device::Cpu(Cpu::new(1));
//! assert_eq!(device.name().device_type.as_deref(), Some("CPU"));
//! assert!(device.gpu().is_none());
//! ```

use std::sync::Arc;

use thalweg_graph::DeviceSpec;
use thalweg_tensor::Memory;

use crate::cpu::Cpu;
use crate::device_type::DeviceType;
use crate::gpu::Gpu;

/// A device of a session.
pub enum Device {
    /// A processor, or a part of it.
    Cpu(Cpu),
    /// A graphics card, or a part of it.
    Gpu(Gpu),
}

impl Device {
    /// Its full name.
    pub fn name(&self) -> &DeviceSpec {
        match self {
            Device::Cpu(cpu) => cpu.name(),
            Device::Gpu(gpu) => gpu.name(),
        }
    }

    /// Returns its type.
    pub fn device_type(&self) -> DeviceType {
        match self {
            Device::Cpu(_) => DeviceType::Cpu,
            Device::Gpu(_) => DeviceType::Gpu,
        }
    }

    /// The account of its memory.
    pub fn memory(&self) -> &Arc<Memory> {
        match self {
            Device::Cpu(cpu) => cpu.memory(),
            Device::Gpu(gpu) => gpu.memory(),
        }
    }

    /// The processor itself, or the part of one that leads it.
    pub fn host(&self) -> &Cpu {
        match self {
            Device::Cpu(cpu) => cpu,
            Device::Gpu(gpu) => gpu.host(),
        }
    }

    /// The GPU, if it is one.
    pub fn gpu(&self) -> Option<&Gpu> {
        match self {
            Device::Cpu(_) => None,
            Device::Gpu(gpu) => Some(gpu),
        }
    }
}
