//! The units of a run, each one test or measurement, in parts.

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use serde_json::Value;

use crate::bench::{Bench, Scale};
use crate::shares::{FULL_RUN_SECONDS, share};
use crate::{RunFlags, card, convolutions, floors, op_table, rest, smoke, training};

/// Result of a unit, as the members of its line.
pub type UnitResult = Result<Value, Box<dyn Error>>;

/// Parts of units, in the order of their value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The card and the libraries.
    Card,
    /// Training steps, compared with PyTorch: half precision first.
    Training,
    /// Lower bounds of times.
    Floors,
    /// Every library call and dtype, and steps.
    Smoke,
    /// The op table of convolutional networks.
    Networks,
    /// Each convolution of ResNet-50 and InceptionV3, compared with PyTorch.
    Convolutions,
    /// All else.
    Rest,
}

impl Part {
    pub const ALL: [Part; 7] = [
        Part::Card,
        Part::Training,
        Part::Floors,
        Part::Smoke,
        Part::Networks,
        Part::Convolutions,
        Part::Rest,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Part::Card => "card",
            Part::Floors => "floors",
            Part::Smoke => "smoke",
            Part::Networks => "networks",
            Part::Convolutions => "convolutions",
            Part::Training => "training",
            Part::Rest => "rest",
        }
    }

    /// Seconds that the part may take, before the parts after it have had theirs, in a run of so many. The first two keep theirs
    /// in a short run.
    pub fn share(self, run: u64) -> Duration {
        let kept = [Part::Card, Part::Training];
        let all = kept.iter().map(|p| p.seconds()).sum();
        share(self.seconds(), kept.contains(&self), all, run)
    }

    /// Seconds of the part in a full run.
    fn seconds(self) -> u64 {
        match self {
            Part::Card => 15,
            Part::Floors => 20,
            Part::Smoke => 40,
            Part::Networks => 60,
            Part::Convolutions => 120,
            Part::Training => 180,
            Part::Rest => FULL_RUN_SECONDS,
        }
    }

    /// `true` if its units are compared with PyTorch.
    pub fn has_peer(self) -> bool {
        matches!(self, Part::Training | Part::Convolutions)
    }

    /// Seconds that one of its units may take.
    pub fn limit(self) -> u64 {
        match self {
            Part::Card | Part::Floors | Part::Smoke | Part::Networks => 30,
            Part::Convolutions => 20,
            Part::Training => 100,
            Part::Rest => 240,
        }
    }

    /// The names of its units, without its own.
    fn units(self, scale: Scale) -> Vec<String> {
        match self {
            Part::Card => card::names(),
            Part::Floors => floors::names(),
            Part::Smoke => smoke::names(),
            Part::Networks => op_table::of_networks(),
            Part::Convolutions => convolutions::names(),
            Part::Training => training::names(scale),
            Part::Rest => rest::names(),
        }
    }
}

/// The names of the requested units, by part: `floors/copies`.
pub fn requested(flags: &RunFlags) -> Vec<(Part, Vec<String>)> {
    let of = |part: Part| {
        let all = part.units(flags.scale()).into_iter();
        let all = all.map(|name| format!("{}/{name}", part.name()));
        let all: Vec<String> = all.filter(|name| name.starts_with(&flags.only)).collect();
        match flags.each {
            Some(most) if most < all.len() => {
                let spread = (0..most).map(|i| all[i * all.len() / most].clone());
                (part, spread.collect())
            }
            _ => (part, all),
        }
    };
    Part::ALL.map(of).into()
}

/// Prints the names of the units that a run would run.
pub fn print(flags: &RunFlags) -> Result<bool, Box<dyn Error>> {
    let mut out = std::io::stdout();
    for name in requested(flags).iter().flat_map(|(_, names)| names) {
        writeln!(out, "{name}")?;
    }
    Ok(true)
}

/// Runs a unit.
pub fn run(bench: &mut Bench, unit: &str) -> UnitResult {
    let (part, name) = unit.split_once('/').unwrap_or((unit, ""));
    let part = Part::ALL.into_iter().find(|p| p.name() == part);
    match part.ok_or("there is no such part")? {
        Part::Card => card::run(bench, name),
        Part::Floors => floors::run(bench, name),
        Part::Smoke => smoke::run(bench, name),
        Part::Networks => op_table::run(bench, name, &op_table::BRIEF),
        Part::Convolutions => convolutions::run(bench, name),
        Part::Training => training::run(bench, name),
        Part::Rest => rest::run(bench, name),
    }
}
