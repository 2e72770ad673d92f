//! `thalweg study --replay`: pages of earlier studies, and of the report.

use std::path::{Path, PathBuf};

use thalweg_study::Scaling;
use thalweg_study::report::ReportSystem;

use super::machine::Machine;
use super::results::{Results, System};
use crate::failure::Failure;

/// Name of the report among the studies.
const REPORT: &str = "report";
/// Folder of the report's page, if none is given.
const REPORT_FOLDER: &str = "study-report";

/// Source of the report's figures.
const SOURCE: &str = "E. Bugliarello, \"Distributed TensorFlow: a performance evaluation\", CSCS and ETH Zurich, 2017, Tables 1 to 3: \
                      InceptionV3, batches of 64 a GPU, the mean of five runs of 100 steps after 10";

/// Results of an earlier study, and the folder of their files: `report` for those of the report, or a study's folder.
///
/// # Errors
/// The folder has no records, or they cannot be read.
pub(super) fn results(replay: &Path, to: Option<&Path>) -> Result<(Results, PathBuf), Failure> {
    let (results, own) = match replay == Path::new(REPORT) {
        true => (report(), Path::new(REPORT_FOLDER)),
        false => (Results::of_folder(replay)?, replay),
    };
    Ok((results, to.unwrap_or(own).to_owned()))
}

/// Results of the report.
pub(super) fn report() -> Results {
    let system = |system: ReportSystem| System {
        name: system.to_string(),
        summary: system.summary(),
    };
    Results {
        study: SOURCE.to_owned(),
        scaling: Scaling::Weak,
        machine: Machine::default(),
        loads: None,
        systems: ReportSystem::ALL.map(system).into(),
        folder: PathBuf::new(),
    }
}
