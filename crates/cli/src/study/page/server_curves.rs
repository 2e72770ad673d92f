//! Pictures of images/s by the number of servers.

use thalweg_study::{Data, Point, PointSummary, Scaling, Summary};

use super::figures::{Series, speed_figure, speed_lines};
use crate::failure::Failure;
use crate::figure::INKS;
use crate::html::escaped;

/// A picture for each way to update variables, kind of images and batch, with a line for each number of tasks that was run with
/// several numbers of servers; empty without such a line.
///
/// # Errors
/// A picture cannot be drawn.
pub(super) fn section(summary: &Summary, scaling: Scaling) -> Result<String, Failure> {
    let key = |point: &Point| (point.mode.clone(), point.data, scaling.grid_batch(point));
    let mut keys: Vec<(String, Data, u32)> = Vec::new();
    for point in measured(summary) {
        if !keys.contains(&key(&point.point)) {
            keys.push(key(&point.point));
        }
    }
    let mut figures = String::new();
    for own in &keys {
        let points = measured(summary).filter(|p| key(&p.point) == *own);
        let all = by_tasks(points.collect());
        let servers = |p: &PointSummary| f64::from(p.point.servers);
        let lines = all.iter().zip(INKS.into_iter().cycle());
        let lines: Vec<_> = lines
            .flat_map(|(series, ink)| speed_lines(series, ink, &servers))
            .collect();
        if !lines.is_empty() {
            let (mode, data, batch) = own;
            let of = match scaling {
                Scaling::Weak => "a task",
                Scaling::Strong => "all tasks",
            };
            let caption = format!("{mode}, {data} images, {batch} a step of {of}");
            figures += &speed_figure(&caption, "servers", lines)?;
        }
    }
    Ok(match figures.is_empty() {
        true => String::new(),
        false => format!(
            "<h2>{}</h2>\n<div class=\"figures\">\n{figures}</div>\n",
            escaped("Images per second by the number of servers")
        ),
    })
}

/// Points with servers and a speed.
fn measured(summary: &Summary) -> impl Iterator<Item = &PointSummary> {
    let points = summary.points.iter();
    points.filter(|p| p.point.servers > 0 && p.speed.is_some())
}

/// A series for each number of tasks that has several numbers of servers, each in the order of their servers.
fn by_tasks(mut points: Vec<&PointSummary>) -> Vec<Series<'_>> {
    points.sort_by_key(|p| (p.point.tasks, p.point.servers));
    let all = points.chunk_by(|a, b| a.point.tasks == b.point.tasks);
    let several = all.filter(|points| points.len() > 1);
    several
        .map(|points| Series {
            name: format!("{} tasks", points[0].point.tasks),
            points: points.to_vec(),
        })
        .collect()
}
