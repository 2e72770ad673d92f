//! Results of a study.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use thalweg_study::{Point, RunFile, RunRecord, Scaling, Summary};

use super::machine::{self, Machine};
use super::predictions::Prediction;
use crate::failure::Failure;

/// File with a record of each run.
pub(super) const RECORDS: &str = "runs.jsonl";
/// File with all results.
pub(super) const RESULTS: &str = "results.json";
/// Folder of the traces.
pub(super) const TRACES: &str = "traces";

/// Results of a study.
pub(super) struct Results {
    /// Program and options, or the source of the results.
    pub(super) study: String,
    /// Meaning of the batches.
    pub(super) scaling: Scaling,
    pub(super) machine: Machine,
    /// Least and greatest load of the machine before a run, if the system tells.
    pub(super) loads: Option<[f64; 2]>,
    /// Results of each system; of one without a name, for a study of this machine.
    pub(super) systems: Vec<System>,
    /// Folder of the study.
    pub(super) folder: PathBuf,
}

/// Results of a system.
pub(super) struct System {
    /// Name; empty for the machine of the study.
    pub(super) name: String,
    pub(super) summary: Summary,
}

impl Results {
    /// Results of runs at these points, on one machine.
    pub(super) fn of_runs(
        (study, scaling): (&str, Scaling),
        machine: &Machine,
        points: &[Point],
        records: &[RunRecord],
        folder: &Path,
    ) -> Results {
        Results {
            study: study.to_owned(),
            scaling,
            machine: machine.clone(),
            loads: machine::loads(records),
            systems: vec![System {
                name: String::new(),
                summary: Summary::new(points, records, scaling),
            }],
            folder: folder.to_owned(),
        }
    }

    /// Results of an earlier study's folder: its points are those that have run.
    ///
    /// # Errors
    /// The records cannot be read.
    pub(super) fn of_folder(folder: &Path) -> Result<Results, Failure> {
        let (study, records) = RunFile::read(&folder.join(RECORDS))?;
        let mut points: Vec<Point> = Vec::new();
        for record in &records {
            if !points.contains(&record.point) {
                points.push(record.point.clone());
            }
        }
        // A study that was killed in its first round has no results yet.
        let text = fs::read_to_string(folder.join(RESULTS)).unwrap_or_default();
        let earlier: Value = serde_json::from_str(&text).unwrap_or_default();
        let scaling = match earlier["scaling"].as_str() {
            Some("strong") => Scaling::Strong,
            _ => Scaling::Weak,
        };
        let machine = Machine::of_json(&earlier["machine"]);
        let study = (&*study, scaling);
        Ok(Results::of_runs(study, &machine, &points, &records, folder))
    }

    /// Puts predicted speeds beside the measured ones.
    pub(super) fn predict(&mut self, predictions: &[Prediction]) {
        for system in &mut self.systems {
            let own = predictions.iter().filter(|p| p.system == system.name);
            let own = own.map(|p| (p.point.clone(), p.images_per_second));
            system.summary.predict(&own.collect::<Vec<_>>());
        }
    }

    /// Path of a point's trace within the folder, if there is one.
    pub(super) fn trace(&self, point: &Point) -> Option<String> {
        let name = format!("{TRACES}/{}.json", point.file_stem());
        self.folder.join(&name).is_file().then_some(name)
    }
}
