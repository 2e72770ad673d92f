//! `--plot`: a figure of the speed of each step, and of the time of traced steps by activity.

use std::path::Path;

use thalweg_examples::plot::{Curve, Panel, panels};

use crate::Result;
use crate::step_time::StepTime;

/// Draws the figure.
///
/// # Errors
/// The file cannot be written.
pub fn draw(
    path: &Path,
    batch: usize,
    steps: &[f64],
    step_times: &[(u64, StepTime)],
) -> Result<()> {
    let speeds: Vec<(f64, f64)> = (1..)
        .zip(steps)
        .map(|(step, seconds)| (f64::from(step), batch as f64 / seconds))
        .collect();
    let part = |of: fn(&StepTime) -> f64| -> Vec<(f64, f64)> {
        let step_times = step_times.iter().filter(|(step, _)| *step > 0);
        step_times
            .map(|(step, step_time)| (*step as f64, of(step_time) * 1e3))
            .collect()
    };
    let parts = [
        ("compute", part(|s| s.compute)),
        ("exchange", part(|s| s.exchange)),
        ("input", part(|s| s.input)),
        ("waiting", part(|s| s.waiting)),
    ];
    let curves = parts.iter().map(|(label, points)| Curve { label, points });
    let all = [
        Panel {
            name: "images/s of each step",
            curves: vec![Curve {
                label: "images/s",
                points: &speeds,
            }],
        },
        Panel {
            name: "time per step by activity, ms (traced steps)",
            curves: curves.collect(),
        },
    ];
    panels(path, "step", &all)
}
