//! SVG pictures of folded graphs.

use std::collections::BTreeMap;
use std::fmt::Write;

use thalweg_graph::dump::colour;
use thalweg_graph::{FoldedBox, FoldedEdge, FoldedGraph, GraphData};
use thalweg_tensor::text::{counted, grouped};

use super::layout::{Layout, fitting, layout};
use super::times::NodeTimes;
use crate::html::escaped;

/// Largest number of boxes of a picture. More of them cannot be read, and take long to lay out.
pub(crate) const MAX_BOXES: usize = 200;

/// Number of neighbours from which on a box stands aside, and its neighbours name it.
const HUB: usize = 10;

/// Names of hubs that a box lists.
const MAX_LISTED: usize = 3;

/// Width of a letter and height of a line, at the size of the page's font.
const CHARACTER: f64 = 7.4;
const LINE: f64 = 15.0;

/// Largest horizontal distance of the ends of an edge with a label.
const MAX_SIDEWAYS: f64 = 60.0;

/// One line of a box.
struct Line {
    text: String,
    class: &'static str,
}

/// Draws a folded graph. Each box is a link to its scope or node.
pub(crate) fn draw(data: &GraphData, folded: &FoldedGraph, times: &NodeTimes) -> String {
    let hubs = hubs(folded);
    let near: Vec<&FoldedEdge> = folded
        .edges
        .iter()
        .filter(|e| !hubs[e.from] && !hubs[e.to])
        .collect();
    let ends: Vec<(usize, usize)> = near.iter().map(|e| (e.from, e.to)).collect();
    let fits = fitting(folded.boxes.len(), &ends);
    let drawn: Vec<&FoldedEdge> = near
        .iter()
        .zip(&fits)
        .filter(|(_, fits)| **fits)
        .map(|(e, _)| *e)
        .collect();
    // Of the others, one end names the other: that at a hub does not.
    let mut listed: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    let long = near
        .iter()
        .zip(&fits)
        .filter(|(_, fits)| !**fits)
        .map(|(e, _)| *e);
    for edge in long.chain(folded.edges.iter().filter(|e| hubs[e.from] || hubs[e.to])) {
        let (at, text) = match hubs[edge.from] {
            true => (edge.to, format!("from {}", folded.boxes[edge.from].name)),
            false => (edge.from, format!("to {}", folded.boxes[edge.to].name)),
        };
        listed.entry(at).or_default().push(text);
    }
    let lines: Vec<Vec<Line>> = folded
        .boxes
        .iter()
        .enumerate()
        .map(|(at, b)| lines(data, b, times, listed.get(&at).map_or(&[][..], |l| l)))
        .collect();
    let size = |lines: &Vec<Line>| {
        let longest = lines
            .iter()
            .map(|l| l.text.chars().count())
            .max()
            .unwrap_or(0);
        (
            longest as f64 * CHARACTER + 20.0,
            lines.len() as f64 * LINE + 10.0,
        )
    };
    let sizes: Vec<(f64, f64)> = lines.iter().map(size).collect();
    let ends: Vec<(usize, usize)> = drawn.iter().map(|e| (e.from, e.to)).collect();
    let places = layout(&sizes, &ends);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0} {1:.0}\" width=\"{0:.0}\" height=\"{1:.0}\">\n",
        places.width, places.height
    );
    for (edge, path) in drawn.iter().zip(&places.paths) {
        draw_edge(
            &mut svg,
            path,
            edge.from > edge.to,
            edge.values.is_empty(),
            &edge.label(data),
        );
    }
    for (at, b) in folded.boxes.iter().enumerate() {
        draw_box(&mut svg, data, b, times, (&places, &sizes, at), &lines[at]);
    }
    svg += "</svg>";
    svg
}

/// `true` for each box with so many neighbours that its edges would cover the others.
fn hubs(folded: &FoldedGraph) -> Vec<bool> {
    let mut neighbours = vec![0; folded.boxes.len()];
    for edge in &folded.edges {
        neighbours[edge.from] += 1;
        neighbours[edge.to] += 1;
    }
    neighbours.into_iter().map(|n| n >= HUB).collect()
}

/// The texts of a box.
fn lines(data: &GraphData, b: &FoldedBox, times: &NodeTimes, listed: &[String]) -> Vec<Line> {
    let line = |text: String, class| Line { text, class };
    let short = match b.is_outside {
        true => &b.name,
        false => b.name.rsplit('/').next().unwrap_or(&b.name),
    };
    let mut lines = vec![line(short.to_owned(), "name")];
    lines.push(match (b.is_scope, b.nodes.first()) {
        (false, Some(&id)) => line(data.node(id).op.name.to_owned(), "op"),
        _ => line(counted(grouped(b.nodes.len()), "node"), "op"),
    });
    let us = times.of(data, &b.nodes);
    if us > 0.0 {
        lines.push(line(format!("{:.3} ms", us / 1e3), "op"));
    }
    let more = listed.len().saturating_sub(MAX_LISTED);
    lines.extend(
        listed
            .iter()
            .take(MAX_LISTED)
            .map(|l| line(l.clone(), "far")),
    );
    if more > 0 {
        lines.push(line(format!("and {more} more"), "far"));
    }
    lines
}

fn draw_edge(svg: &mut String, path: &[(f64, f64)], is_back: bool, is_control: bool, label: &str) {
    let [(x, y), .., (end_x, end_y)] = *path else {
        return;
    };
    let mut d = format!("M{x:.1} {y:.1}");
    for w in path.windows(2) {
        let ((ax, ay), (bx, by)) = (w[0], w[1]);
        let middle = (ay + by) / 2.0;
        // Writing to a String cannot fail.
        let _ = write!(
            d,
            " C{ax:.1} {middle:.1} {bx:.1} {middle:.1} {bx:.1} {by:.1}"
        );
    }
    let class = if is_control { "edge control" } else { "edge" };
    let marker = if is_back {
        "marker-start"
    } else {
        "marker-end"
    };
    let _ = writeln!(
        svg,
        "<path class=\"{class}\" d=\"{d}\" {marker}=\"url(#arrow)\"><title>{}</title></path>",
        escaped(label)
    );
    // Labels of edges that lead sideways would lie on each other.
    if path.len() == 2 && (x - end_x).abs() < MAX_SIDEWAYS && !label.is_empty() {
        let (x, y) = ((x + end_x) / 2.0 + 4.0, (y + end_y) / 2.0 + 3.0);
        let _ = writeln!(
            svg,
            "<text class=\"label\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
            escaped(label)
        );
    }
}

fn draw_box(
    svg: &mut String,
    data: &GraphData,
    b: &FoldedBox,
    times: &NodeTimes,
    (places, sizes, at): (&Layout, &[(f64, f64)], usize),
    lines: &[Line],
) {
    let ((x, y), (width, height)) = (places.centres[at], sizes[at]);
    let (left, top) = (x - width / 2.0, y - height / 2.0);
    let fill = match (times.share(data, &b.nodes), b.is_scope, b.nodes.first()) {
        // White to red.
        (Some(share), ..) => {
            let rest = (255.0 - 175.0 * share.sqrt()).round();
            format!("rgb(255,{rest},{rest})")
        }
        (None, false, Some(&id)) => colour(data.node(id).op.effect).to_owned(),
        _ => "#f2f2f2".to_owned(),
    };
    let kind = if b.is_scope { "scope" } else { "node" };
    let class = if b.is_outside { " outside" } else { "" };
    let radius = if b.is_scope { 8 } else { 3 };
    // Writing to a String cannot fail.
    let _ = writeln!(
        svg,
        "<g class=\"{kind}{class}\" data-name=\"{}\"><rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{radius}\" fill=\"{fill}\"/>",
        escaped(&b.name)
    );
    for (number, line) in lines.iter().enumerate() {
        let y = top + 16.0 + number as f64 * LINE;
        let _ = writeln!(
            svg,
            "<text class=\"{}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
            line.class,
            escaped(&line.text)
        );
    }
    svg.push_str("</g>\n");
}
