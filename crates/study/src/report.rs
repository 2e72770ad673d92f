//! Measurements of the report that the project began with: E. Bugliarello, "Distributed TensorFlow: a performance evaluation",
//! CSCS and ETH Zurich, 2017, Tables 1 to 3. InceptionV3 with batches of 64 a GPU, TensorFlow 1.1, in August 2017.
//!
//! ```
//! use thalweg_study::report::{REPORT_CELLS, ReportSystem};
//! use thalweg_study::Data;
//!
//! let daint = REPORT_CELLS.iter().filter(|c| c.system == ReportSystem::PizDaint && c.data == Data::Synthetic);
//! let fastest = daint.max_by(|a, b| a.images_per_second.total_cmp(&b.images_per_second)).unwrap();
//! assert_eq!((fastest.gpus, fastest.servers), (128, 116));
//! ```

use std::fmt::{Display, Formatter};

use crate::point::Data;

/// Images of a step of one GPU in all of the report's measurements.
pub const REPORT_BATCH: u32 = 64;

const PS: &str = "parameter_server";
const REPLICATED: &str = "distributed_replicated";

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

const fn cell(
    system: ReportSystem,
    gpus: u32,
    servers: u32,
    mode: &'static str,
    data: Data,
    images_per_second: f64,
) -> ReportCell {
    ReportCell {
        system,
        gpus,
        servers,
        mode,
        data,
        images_per_second,
    }
}

/// Rows of Tables 1, 2 and 3.
pub const REPORT_CELLS: &[ReportCell] = &[
    cell(ReportSystem::PizDaint, 1, 1, PS, Data::Synthetic, 138.23),
    cell(ReportSystem::PizDaint, 1, 1, PS, Data::Real, 137.03),
    cell(ReportSystem::PizDaint, 2, 1, PS, Data::Synthetic, 264.57),
    cell(ReportSystem::PizDaint, 2, 1, REPLICATED, Data::Real, 260.84),
    cell(
        ReportSystem::PizDaint,
        4,
        3,
        REPLICATED,
        Data::Synthetic,
        523.38,
    ),
    cell(ReportSystem::PizDaint, 4, 3, REPLICATED, Data::Real, 516.71),
    cell(ReportSystem::PizDaint, 8, 2, PS, Data::Synthetic, 1018.18),
    cell(ReportSystem::PizDaint, 8, 2, PS, Data::Real, 911.84),
    cell(ReportSystem::PizDaint, 16, 4, PS, Data::Synthetic, 2001.00),
    cell(ReportSystem::PizDaint, 16, 4, PS, Data::Real, 1772.34),
    cell(ReportSystem::PizDaint, 32, 12, PS, Data::Synthetic, 3840.35),
    cell(ReportSystem::PizDaint, 32, 12, PS, Data::Real, 3425.55),
    cell(ReportSystem::PizDaint, 64, 40, PS, Data::Synthetic, 7118.31),
    cell(ReportSystem::PizDaint, 64, 40, PS, Data::Real, 6348.74),
    cell(
        ReportSystem::PizDaint,
        128,
        116,
        PS,
        Data::Synthetic,
        9219.70,
    ),
    cell(ReportSystem::PizDaint, 128, 116, PS, Data::Real, 9055.64),
    cell(ReportSystem::P2Xlarge, 1, 1, PS, Data::Synthetic, 30.55),
    cell(ReportSystem::P2Xlarge, 1, 1, PS, Data::Real, 30.04),
    cell(
        ReportSystem::P2Xlarge,
        2,
        2,
        REPLICATED,
        Data::Synthetic,
        57.45,
    ),
    cell(ReportSystem::P2Xlarge, 2, 2, REPLICATED, Data::Real, 56.93),
    cell(
        ReportSystem::P2Xlarge,
        4,
        4,
        REPLICATED,
        Data::Synthetic,
        114.57,
    ),
    cell(ReportSystem::P2Xlarge, 4, 4, REPLICATED, Data::Real, 113.03),
    cell(
        ReportSystem::P2Xlarge,
        8,
        8,
        REPLICATED,
        Data::Synthetic,
        228.41,
    ),
    cell(ReportSystem::P2Xlarge, 8, 8, REPLICATED, Data::Real, 224.06),
    cell(
        ReportSystem::P2Xlarge,
        16,
        12,
        REPLICATED,
        Data::Synthetic,
        431.64,
    ),
    cell(
        ReportSystem::P2Xlarge,
        16,
        12,
        REPLICATED,
        Data::Real,
        431.31,
    ),
    cell(ReportSystem::P2Xlarge, 32, 32, PS, Data::Synthetic, 825.64),
    cell(ReportSystem::P2Xlarge, 32, 32, PS, Data::Real, 734.97),
    cell(ReportSystem::P2Xlarge, 64, 64, PS, Data::Synthetic, 996.32),
    cell(ReportSystem::P2Xlarge, 64, 64, PS, Data::Real, 986.91),
    cell(
        ReportSystem::P2Xlarge,
        128,
        128,
        PS,
        Data::Synthetic,
        1077.59,
    ),
    cell(ReportSystem::P2Xlarge, 128, 128, PS, Data::Real, 1080.12),
    cell(ReportSystem::P28Xlarge, 1, 1, PS, Data::Synthetic, 30.55),
    cell(ReportSystem::P28Xlarge, 1, 1, PS, Data::Real, 30.04),
    cell(
        ReportSystem::P28Xlarge,
        2,
        1,
        REPLICATED,
        Data::Synthetic,
        58.38,
    ),
    cell(ReportSystem::P28Xlarge, 2, 1, REPLICATED, Data::Real, 58.23),
    cell(
        ReportSystem::P28Xlarge,
        4,
        1,
        REPLICATED,
        Data::Synthetic,
        116.34,
    ),
    cell(
        ReportSystem::P28Xlarge,
        4,
        1,
        REPLICATED,
        Data::Real,
        115.56,
    ),
    cell(
        ReportSystem::P28Xlarge,
        8,
        1,
        REPLICATED,
        Data::Synthetic,
        230.75,
    ),
    cell(
        ReportSystem::P28Xlarge,
        8,
        1,
        REPLICATED,
        Data::Real,
        190.02,
    ),
    cell(
        ReportSystem::P28Xlarge,
        16,
        1,
        REPLICATED,
        Data::Synthetic,
        448.57,
    ),
    cell(
        ReportSystem::P28Xlarge,
        16,
        1,
        REPLICATED,
        Data::Real,
        387.67,
    ),
    cell(
        ReportSystem::P28Xlarge,
        32,
        3,
        REPLICATED,
        Data::Synthetic,
        863.72,
    ),
    cell(
        ReportSystem::P28Xlarge,
        32,
        3,
        REPLICATED,
        Data::Real,
        717.49,
    ),
    cell(
        ReportSystem::P28Xlarge,
        64,
        8,
        REPLICATED,
        Data::Synthetic,
        1731.31,
    ),
    cell(
        ReportSystem::P28Xlarge,
        64,
        8,
        REPLICATED,
        Data::Real,
        1430.28,
    ),
    cell(
        ReportSystem::P28Xlarge,
        128,
        16,
        REPLICATED,
        Data::Synthetic,
        3333.20,
    ),
    cell(
        ReportSystem::P28Xlarge,
        128,
        16,
        REPLICATED,
        Data::Real,
        2832.83,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn efficiencies_are_those_of_the_reports_text() {
        let speed = |system, gpus| {
            let mut cells = REPORT_CELLS.iter();
            let found =
                cells.find(|c| (c.system, c.gpus, c.data) == (system, gpus, Data::Synthetic));
            found.unwrap().images_per_second
        };
        let stated = [
            (ReportSystem::PizDaint, 8, 92.07),
            (ReportSystem::P2Xlarge, 8, 93.45),
            (ReportSystem::P28Xlarge, 8, 94.44),
            (ReportSystem::P2Xlarge, 16, 88.31),
            (ReportSystem::P28Xlarge, 16, 91.77),
            (ReportSystem::P2Xlarge, 32, 84.45),
            (ReportSystem::P28Xlarge, 32, 88.35),
            (ReportSystem::P2Xlarge, 64, 50.96),
            (ReportSystem::P28Xlarge, 64, 88.55),
        ];
        for (system, gpus, percent) in stated {
            let efficiency = speed(system, gpus) / (f64::from(gpus) * speed(system, 1));
            assert!(
                (100.0 * efficiency - percent).abs() < 0.01,
                "{system} {gpus}: {efficiency}"
            );
        }
    }
}
