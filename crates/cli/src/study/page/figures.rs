//! Pictures of studies: images/s, efficiency and I/O overhead by the number of tasks.

use plotters::style::RGBColor;
use thalweg_study::{Data, Point, PointSummary, Scaling, Summary};

use crate::failure::Failure;
use crate::figure::{Axis, GREY, INKS, Line, LineChart};
use crate::html::escaped;

/// Width and height of a picture, in pixels.
const SIZE: (u32, u32) = (520, 340);

/// Points of a line, in the order of their tasks.
pub(super) struct Series<'s> {
    /// Name in the legend.
    pub(super) name: String,
    pub(super) points: Vec<&'s PointSummary>,
}

/// Pictures of a study.
///
/// # Errors
/// They cannot be drawn.
pub(super) fn of_study(summary: &Summary, scaling: Scaling) -> Result<String, Failure> {
    let all = series(summary, scaling);
    let overheads: Vec<(String, Vec<(f64, f64)>)> = all
        .iter()
        .map(|s| (s.name.clone(), overheads(summary, &s.points)))
        .filter(|(_, points)| !points.is_empty())
        .collect();
    let mut html = speeds("Images per second", "tasks", &all)?;
    html += &efficiencies("Efficiency: share of the ideal speed", "tasks", &all)?;
    if !overheads.is_empty() {
        html += &overhead("I/O overhead of images in files", "tasks", &overheads)?;
    }
    Ok(format!(
        "<h2>Scaling</h2>\n<p class=\"note\">With the best number of servers for each number of tasks. Ideal is the speed of one \
         process times the number of tasks.</p>\n<div class=\"figures\">\n{html}</div>\n"
    ))
}

/// A series for each mode, kind of images and batch: with the best number of servers for each number of tasks. One process
/// alone is the start of a line whose mode has no other point of one task.
fn series(summary: &Summary, scaling: Scaling) -> Vec<Series<'_>> {
    let batch = |point: &Point| scaling.grid_batch(point);
    let key = |point: &Point| (point.mode.clone(), point.data, batch(point));
    let measured = || summary.points.iter().filter(|p| p.speed.is_some());
    let has_others = measured().any(|p| !p.point.is_alone());
    let drawn = || measured().filter(|p| p.is_best && has_others != p.point.is_alone());
    let mut keys: Vec<(String, Data, u32)> = Vec::new();
    for point in drawn() {
        if !keys.contains(&key(&point.point)) {
            keys.push(key(&point.point));
        }
    }
    let differs = |part: &dyn Fn(&(String, Data, u32)) -> String| {
        keys.iter().any(|k| part(k) != part(&keys[0]))
    };
    let (kinds, batches) = (differs(&|k| k.1.to_string()), differs(&|k| k.2.to_string()));
    let of_key = |k: &(String, Data, u32)| {
        let mut points: Vec<&PointSummary> = drawn().filter(|p| key(&p.point) == *k).collect();
        if points.iter().all(|p| p.point.tasks > 1) {
            let is_start = |p: &&PointSummary| {
                p.point.is_alone() && (p.point.data, batch(&p.point)) == (k.1, k.2)
            };
            points.extend(measured().find(is_start));
        }
        points.sort_by_key(|p| p.point.tasks);
        let mut name = k.0.clone();
        if kinds {
            name += &format!(", {}", k.1);
        }
        if batches {
            name += &format!(", batch {}", k.2);
        }
        Series { name, points }
    };
    keys.iter().map(of_key).collect()
}

/// Tasks and overheads of points with images of files.
pub(super) fn overheads(summary: &Summary, points: &[&PointSummary]) -> Vec<(f64, f64)> {
    let of = |p: &&PointSummary| Some((f64::from(p.point.tasks), summary.input_overhead(p)?));
    points.iter().filter_map(of).collect()
}

/// Images/s by tasks, with the ideal and the predicted speeds. Both axes are logarithmic.
pub(super) fn speeds(caption: &str, unit: &str, all: &[Series<'_>]) -> Result<String, Failure> {
    let mut lines: Vec<Line> = Vec::new();
    let tasks = |p: &PointSummary| f64::from(p.point.tasks);
    let of = |s: &Series<'_>, y: fn(&PointSummary) -> Option<f64>| -> Vec<(f64, f64)> {
        let points = s.points.iter();
        points.filter_map(|p| Some((tasks(p), y(p)?))).collect()
    };
    for series in all {
        let ideal = of(series, |p| p.ideal);
        let covers = |line: &Line| ideal.iter().all(|point| line.points.contains(point));
        if ideal.len() > 1 && !lines.iter().any(covers) {
            lines.push(Line::dashed("ideal", GREY, ideal));
        }
    }
    for (series, ink) in all.iter().zip(INKS.into_iter().cycle()) {
        lines.extend(speed_lines(series, ink, &tasks));
    }
    speed_figure(caption, unit, lines)
}

/// Line of the measured speeds of a series with their intervals, and one of the predicted speeds if there are any.
pub(super) fn speed_lines(
    series: &Series<'_>,
    ink: RGBColor,
    x: &dyn Fn(&PointSummary) -> f64,
) -> Vec<Line> {
    let of = |y: fn(&PointSummary) -> Option<f64>| -> Vec<(f64, f64)> {
        let points = series.points.iter();
        points.filter_map(|p| Some((x(p), y(p)?))).collect()
    };
    let mut line = Line::solid(&series.name, ink, of(|p| p.speed.map(|s| s.mean)));
    let intervals = series.points.iter();
    line.intervals = intervals
        .filter_map(|p| Some((x(p), interval(p)?)))
        .collect();
    let mut lines = vec![line];
    let predicted = of(|p| p.predicted);
    if !predicted.is_empty() {
        let name = format!("{}, predicted", series.name);
        lines.push(Line::dashed(name, ink, predicted));
    }
    lines
}

/// Figure of images/s, on logarithmic axes.
///
/// # Errors
/// It cannot be drawn.
pub(super) fn speed_figure(caption: &str, unit: &str, lines: Vec<Line>) -> Result<String, Failure> {
    let ends = lines.iter().flat_map(|l| &l.intervals).flat_map(|i| i.1);
    let values = lines.iter().flat_map(|l| &l.points).map(|p| p.1);
    let values: Vec<f64> = values.chain(ends).collect();
    let y = Axis::logarithmic("images/s", values.into_iter());
    figure(caption, unit, y, lines)
}

/// Interval of a point's mean.
fn interval(point: &PointSummary) -> Option<[f64; 2]> {
    let speed = point.speed?;
    let half = speed.confidence?;
    // A logarithmic axis has no zero.
    let low = (speed.mean - half).max(0.1 * speed.mean);
    Some([low, speed.mean + half])
}

/// Efficiencies by tasks.
pub(super) fn efficiencies(
    caption: &str,
    unit: &str,
    all: &[Series<'_>],
) -> Result<String, Failure> {
    let lines = all
        .iter()
        .zip(INKS.into_iter().cycle())
        .map(|(series, ink)| {
            let points = series.points.iter();
            let points =
                points.filter_map(|p| Some((f64::from(p.point.tasks), 100.0 * p.efficiency()?)));
            Line::solid(&series.name, ink, points.collect())
        });
    percentages(caption, unit, "efficiency, %", lines.collect())
}

/// Overheads by tasks.
pub(super) fn overhead(
    caption: &str,
    unit: &str,
    all: &[(String, Vec<(f64, f64)>)],
) -> Result<String, Failure> {
    let lines = all
        .iter()
        .zip(INKS.into_iter().cycle())
        .map(|((name, points), ink)| {
            let points = points.iter().map(|(tasks, share)| (*tasks, 100.0 * share));
            Line::solid(name, ink, points.collect())
        });
    percentages(caption, unit, "I/O overhead, %", lines.collect())
}

fn percentages(caption: &str, unit: &str, y: &str, lines: Vec<Line>) -> Result<String, Failure> {
    let values: Vec<f64> = lines.iter().flat_map(|l| &l.points).map(|p| p.1).collect();
    figure(caption, unit, Axis::linear(y, values.into_iter()), lines)
}

/// A chart with its caption and legend.
fn figure(caption: &str, unit: &str, y: Axis, lines: Vec<Line>) -> Result<String, Failure> {
    let legend = legend(&lines);
    let tasks: Vec<f64> = lines.iter().flat_map(|l| &l.points).map(|p| p.0).collect();
    let chart = LineChart {
        size: SIZE,
        title: String::new(),
        x: Axis::at_values(unit, tasks.into_iter()),
        y,
        lines,
        legend: None,
    };
    let mut svg = String::new();
    chart
        .draw(&mut svg)
        .map_err(|e| format!("{caption}: {e}"))?;
    Ok(format!(
        "<figure>\n<figcaption>{}</figcaption>\n{legend}{svg}</figure>\n",
        escaped(caption)
    ))
}

/// Legend of lines; lines of one name are told once.
fn legend(lines: &[Line]) -> String {
    let mut told: Vec<&str> = Vec::new();
    let mut html = String::new();
    for line in lines {
        if told.contains(&&*line.name) {
            continue;
        }
        told.push(&line.name);
        let class = if line.is_dashed { "dashed" } else { "" };
        html += &format!(
            "<li><i class=\"{class}\" style=\"border-color:{}\"></i>{}</li>",
            css(line.ink),
            escaped(&line.name)
        );
    }
    format!("<ul class=\"legend\">{html}</ul>\n")
}

/// Colour in CSS.
pub(super) fn css(colour: RGBColor) -> String {
    let RGBColor(red, green, blue) = colour;
    format!("#{red:02x}{green:02x}{blue:02x}")
}
