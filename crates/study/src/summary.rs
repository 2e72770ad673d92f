//! Summary of a study: statistics, efficiency and the best number of servers.

use crate::grid::Scaling;
use crate::outcome::{Outcome, StepShares};
use crate::point::{Data, Point};
use crate::run_file::RunRecord;
use crate::statistics::SampleStatistics;

/// Statistics of a point.
#[derive(Clone, Debug)]
pub struct PointSummary {
    /// The point.
    pub point: Point,
    /// Images per second of all tasks; `None` if all runs have failed.
    pub speed: Option<SampleStatistics>,
    /// Images per second of each run that has ended well.
    pub runs: Vec<f64>,
    /// Speed of one process, times the number of tasks; `None` without that.
    pub ideal: Option<f64>,
    /// Images per second of all tasks by a model of costs, where one tells.
    pub predicted: Option<f64>,
    /// Mean share of a step in which values are exchanged, if the program tells.
    pub exchange: Option<f64>,
    /// Mean share of a step in which it waits for input, if the program tells.
    pub input: Option<f64>,
    /// Mean shares of the traced steps, if the program traces them.
    pub step: Option<StepShares>,
    /// Reasons of failed runs.
    pub failures: Vec<String>,
    /// `true` for the number of servers with the highest speed among points that differ in nothing else.
    pub is_best: bool,
}

impl PointSummary {
    /// Share of the ideal speed.
    pub fn efficiency(&self) -> Option<f64> {
        Some(self.speed?.mean / self.ideal?)
    }

    /// Relative error of the predicted speed: above 0 if it is too high.
    pub fn prediction_error(&self) -> Option<f64> {
        Some(self.predicted? / self.speed?.mean - 1.0)
    }
}

/// Summary of a study.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Points in the order of the grid.
    pub points: Vec<PointSummary>,
}

impl Summary {
    /// Summary of the records of runs at these points. A point is compared to one process with the batch that the scaling
    /// started from.
    pub fn new(points: &[Point], records: &[RunRecord], scaling: Scaling) -> Summary {
        let mut all: Vec<PointSummary> = points.iter().map(|p| point_summary(p, records)).collect();
        for at in 0..all.len() {
            all[at].ideal = ideal(&all, &all[at].point, scaling);
            all[at].is_best = is_best(&all, at);
        }
        Summary { points: all }
    }

    /// Puts predicted speeds, in images per second of all tasks, beside the measured ones. Those of other points are passed
    /// over.
    pub fn predict(&mut self, predictions: &[(Point, f64)]) {
        for point in &mut self.points {
            let found = predictions.iter().find(|(of, _)| *of == point.point);
            point.predicted = found.map(|(_, speed)| *speed);
        }
    }

    /// Overhead of reading real images at a point of them: 1 - images/s / images/s of synthetic images, with the same settings,
    /// or else the fastest for as many tasks and the same batch.
    pub fn input_overhead(&self, real: &PointSummary) -> Option<f64> {
        if real.point.data != Data::Real {
            return None;
        }
        let twin = Point {
            data: Data::Synthetic,
            ..real.point.clone()
        };
        let same = self.points.iter().find(|p| p.point == twin);
        let synthetic = same.or_else(|| self.fastest(&twin))?;
        Some(1.0 - real.speed?.mean / synthetic.speed?.mean)
    }

    /// Fastest point with as many tasks, the same batch and the same kind of images as this one: of all ways to update
    /// variables, and all numbers of servers. `None` if none has a speed.
    pub fn fastest(&self, like: &Point) -> Option<&PointSummary> {
        let is_like = |p: &&PointSummary| {
            let of = &p.point;
            (of.tasks, of.batch, of.data) == (like.tasks, like.batch, like.data)
        };
        let alike = self.points.iter().filter(is_like);
        let speed = |p: &PointSummary| p.speed.map_or(f64::NEG_INFINITY, |s| s.mean);
        let best = alike.max_by(|a, b| speed(a).total_cmp(&speed(b)))?;
        best.speed.map(|_| best)
    }
}

fn point_summary(point: &Point, records: &[RunRecord]) -> PointSummary {
    let own = || records.iter().filter(|r| r.point == *point);
    let speeds = || {
        own().filter_map(|record| match &record.outcome {
            Outcome::Speed(speed) => Some(speed),
            Outcome::Error { .. } => None,
        })
    };
    let mean = |values: Vec<f64>| SampleStatistics::of(&values).map(|s| s.mean);
    let rates: Vec<f64> = speeds().map(|s| s.images_per_second).collect();
    PointSummary {
        point: point.clone(),
        speed: SampleStatistics::of(&rates),
        runs: rates,
        ideal: None,
        predicted: None,
        exchange: mean(speeds().filter_map(|s| s.exchange).collect()),
        input: mean(speeds().filter_map(|s| s.input).collect()),
        step: StepShares::mean(&speeds().filter_map(|s| s.step).collect::<Vec<_>>()),
        failures: own()
            .filter_map(|record| match &record.outcome {
                Outcome::Error { error } => Some(error.clone()),
                Outcome::Speed(_) => None,
            })
            .collect(),
        is_best: false,
    }
}

/// Speed of one process with the batch of the grid and the same images, or with the nearest batch that was measured, times the
/// number of tasks.
fn ideal(all: &[PointSummary], point: &Point, scaling: Scaling) -> Option<f64> {
    let batch = scaling.grid_batch(point);
    let alone = all
        .iter()
        .filter(|other| other.point.is_alone() && other.point.data == point.data)
        .min_by_key(|other| other.point.batch.abs_diff(batch))?;
    Some(alone.speed?.mean * f64::from(point.tasks))
}

/// `true` if no point with another number of servers, and the same settings otherwise, is faster.
fn is_best(all: &[PointSummary], at: usize) -> bool {
    let own = &all[at];
    let Some(speed) = own.speed else {
        return false;
    };
    let is_rival = |other: &&PointSummary| {
        let same = Point {
            servers: own.point.servers,
            ..other.point.clone()
        };
        same == own.point
    };
    let rivals = all.iter().filter(is_rival);
    !rivals
        .filter_map(|other| other.speed)
        .any(|other| other.mean > speed.mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::Scaling;
    use crate::outcome::Speed;

    #[test]
    fn tasks_that_share_a_batch_are_compared_to_one_process_with_all_of_it() {
        let with = |batch: u32, tasks: u32, speed: f64| {
            let mode = if tasks == 1 { "independent" } else { "horovod" };
            let mut record = record(mode, (tasks, 0), Data::Synthetic, Some(speed));
            record.point.batch = batch;
            record
        };
        // Batches of 32 and of 64, each of one process and shared by two tasks.
        let records = [
            with(32, 1, 100.0),
            with(64, 1, 120.0),
            with(16, 2, 150.0),
            with(32, 2, 180.0),
        ];
        let points: Vec<Point> = records.iter().map(|r| r.point.clone()).collect();
        let efficiencies = |scaling| {
            let summary = Summary::new(&points, &records, scaling);
            let all = summary.points.iter().map(|p| p.efficiency().unwrap());
            all.collect::<Vec<f64>>()
        };
        assert_eq!(efficiencies(Scaling::Strong), [1.0, 1.0, 0.75, 0.75]);
        assert_eq!(efficiencies(Scaling::Weak), [1.0, 1.0, 0.75, 0.9]);
    }

    fn record(
        mode: &str,
        (tasks, servers): (u32, u32),
        data: Data,
        speed: Option<f64>,
    ) -> RunRecord {
        RunRecord {
            point: Point {
                mode: mode.to_owned(),
                data,
                batch: 32,
                tasks,
                servers,
            },
            run: 0,
            load: None,
            outcome: match speed {
                Some(images_per_second) => Outcome::Speed(Speed {
                    images_per_second,
                    exchange: Some(0.25),
                    input: None,
                    step: None,
                }),
                None => Outcome::Error {
                    error: "lost".to_owned(),
                },
            },
        }
    }

    #[test]
    fn efficiency_and_the_best_number_of_servers_follow_from_the_means() {
        let records = [
            record("independent", (1, 0), Data::Synthetic, Some(100.0)),
            record("independent", (1, 0), Data::Real, Some(80.0)),
            record("parameter_server", (4, 1), Data::Synthetic, Some(200.0)),
            record("parameter_server", (4, 2), Data::Synthetic, Some(300.0)),
            record("parameter_server", (4, 2), Data::Synthetic, Some(320.0)),
            record("parameter_server", (4, 4), Data::Synthetic, None),
            record("parameter_server", (4, 2), Data::Real, Some(155.0)),
        ];
        let mut points: Vec<Point> = records.iter().map(|r| r.point.clone()).collect();
        points.dedup();
        let summary = Summary::new(&points, &records, Scaling::Weak);
        let of = |servers: u32, data: Data| {
            let mut all = summary.points.iter();
            let found = all
                .find(|p| p.point.tasks == 4 && (p.point.servers, p.point.data) == (servers, data));
            found.unwrap()
        };
        let two = of(2, Data::Synthetic);
        assert_eq!((two.efficiency(), two.is_best), (Some(310.0 / 400.0), true));
        assert_eq!(two.exchange, Some(0.25));
        assert!(!of(1, Data::Synthetic).is_best);
        let failed = of(4, Data::Synthetic);
        assert_eq!((failed.efficiency(), failed.failures.len()), (None, 1));
        assert!(!failed.is_best);
        let real = of(2, Data::Real);
        assert_eq!(summary.input_overhead(real), Some(0.5));
        assert_eq!(real.efficiency(), Some(155.0 / 320.0));
        assert_eq!(summary.input_overhead(two), None);
    }
}
