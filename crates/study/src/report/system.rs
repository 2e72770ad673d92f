//! Systems of the report, and the form of its tables' rows.

use std::fmt::{Display, Formatter};

use crate::point::{Data, Point};

/// Images of a step of one GPU in all of the report's measurements.
pub const REPORT_BATCH: u32 = 64;

/// System of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReportSystem {
    /// Cray XC50 nodes with one P100 each.
    PizDaint,
    /// EC2 instances with one K80 GPU each.
    P2Xlarge,
    /// EC2 instances with eight K80 GPUs each.
    P28Xlarge,
}

impl ReportSystem {
    /// All systems, in the order of the tables.
    pub const ALL: [ReportSystem; 3] = [
        ReportSystem::PizDaint,
        ReportSystem::P2Xlarge,
        ReportSystem::P28Xlarge,
    ];

    /// Number of GPUs of a node.
    pub fn gpus_per_node(self) -> u32 {
        match self {
            ReportSystem::PizDaint | ReportSystem::P2Xlarge => 1,
            ReportSystem::P28Xlarge => 8,
        }
    }
}

/// Name, as in the report.
impl Display for ReportSystem {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ReportSystem::PizDaint => "Piz Daint",
            ReportSystem::P2Xlarge => "p2.xlarge",
            ReportSystem::P28Xlarge => "p2.8xlarge",
        })
    }
}

/// Row of a table: the settings with the highest speed for a number of GPUs, and that speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReportCell {
    /// System.
    pub system: ReportSystem,
    /// Number of GPUs.
    pub gpus: u32,
    /// Number of parameter servers.
    pub servers: u32,
    /// Value of `--variable_update`.
    pub mode: &'static str,
    /// Images of the runs.
    pub data: Data,
    /// Images per second of all GPUs, the mean of five runs.
    pub images_per_second: f64,
}

impl ReportCell {
    /// Settings of the row. A task is a GPU.
    pub fn point(&self) -> Point {
        Point {
            mode: self.mode.to_owned(),
            data: self.data,
            batch: REPORT_BATCH,
            tasks: self.gpus,
            servers: self.servers,
        }
    }
}
