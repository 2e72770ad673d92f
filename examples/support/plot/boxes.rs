//! Stacked column charts: the variables on each server.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{AXIS, FONT, INKS, TEXT, write_svg};

/// A stacked column chart: variables on servers.
#[derive(Clone, Debug)]
pub struct Boxes<'a> {
    /// Title of the figure.
    pub title: &'a str,
    /// Each column's name, and the names and bytes of its boxes from the bottom up.
    pub columns: Vec<(String, Vec<(String, u64)>)>,
}

const WIDTH: i32 = 210;
/// Width of the boxes; the texts beside them have the rest of a column's width.
const BOX_WIDTH: i32 = 60;
/// Height of the highest column.
const HEIGHT: f64 = 200.0;
/// Least height of a box, so that it is visible.
const MIN_BOX_HEIGHT: i32 = 2;
/// Distance between the texts beside the boxes.
const LINE_HEIGHT: i32 = 18;
const GAP: i32 = 24;
const TOP: i32 = 60;

/// Draws figures of stacked columns, side by side, into the SVG file `path`. The height of a box is proportional to its
/// bytes, on one scale in all figures; boxes of one name have the same colour.
///
/// # Errors
/// When the name does not end in `.svg` or the file cannot be written.
pub fn boxes(path: impl AsRef<Path>, figures: &[Boxes<'_>]) -> Result<(), Box<dyn Error>> {
    let width = |f: &Boxes<'_>| f.columns.len() as i32 * WIDTH;
    let across: i32 = figures.iter().map(|f| width(f) + GAP).sum();
    let all = || figures.iter().flat_map(|f| &f.columns);
    let most = all().map(|(_, things)| bytes(things)).max().unwrap_or(0);
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in all().flat_map(|(_, things)| things) {
        if !names.contains(&&**name) {
            names.push(name);
        }
    }
    // Texts beside low boxes may reach above the highest one.
    let texts = all()
        .map(|(_, things)| things.len() as i32 * LINE_HEIGHT)
        .max();
    let floor = TOP + texts.unwrap_or(0).max(HEIGHT as i32 + LINE_HEIGHT);
    let size = ((across + GAP).max(200) as u32, (floor + 60) as u32);
    write_svg(path.as_ref(), size, |root| {
        let mut left = GAP;
        for figure in figures {
            let right = left + width(figure);
            let middle = ((left + right) / 2, 24);
            root.draw_text(figure.title, &text(18, HPos::Center), middle)?;
            let line = vec![(left, floor), (right, floor)];
            root.draw(&PathElement::new(line, AXIS.stroke_width(2)))?;
            let whole: u64 = figure.columns.iter().map(|(_, t)| bytes(t)).sum();
            for ((name, things), at) in figure.columns.iter().zip(0..) {
                let x = left + at * WIDTH;
                let own = bytes(things);
                let share = 100.0 * own as f64 / whole.max(1) as f64;
                let below = |line: i32| (x + 6, floor + 2 + line * LINE_HEIGHT);
                root.draw_text(name, &text(14, HPos::Left), below(1))?;
                let told = format!("{own} bytes, {share:.1}%");
                root.draw_text(&told, &text(14, HPos::Left), below(2))?;
                let column = Column {
                    corner: (x + 6, floor - 1),
                    scale: HEIGHT / most.max(1) as f64,
                    names: &names,
                };
                column.draw(root, things)?;
            }
            left = right + GAP;
        }
        Ok(())
    })
}

fn bytes(things: &[(String, u64)]) -> u64 {
    things.iter().map(|(_, bytes)| bytes).sum()
}

fn text(size: i32, to: HPos) -> TextStyle<'static> {
    let anchor = Pos::new(to, VPos::Center);
    (FONT, size).into_font().color(&TEXT).pos(anchor)
}

/// Position and scale of a column of boxes.
struct Column<'a> {
    /// Its lower left corner.
    corner: (i32, i32),
    /// Pixels of a byte.
    scale: f64,
    /// Names of all boxes, in the order of their colours.
    names: &'a [&'a str],
}

impl Column<'_> {
    fn draw(
        &self,
        root: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
        things: &[(String, u64)],
    ) -> Result<(), Box<dyn Error>> {
        let (left, mut bottom) = self.corner;
        let right = left + BOX_WIDTH;
        // The text of the box below.
        let mut last = bottom + LINE_HEIGHT / 2;
        for (name, bytes) in things {
            let height = (*bytes as f64 * self.scale).round() as i32;
            let top = bottom - height.max(MIN_BOX_HEIGHT);
            let ink = self.names.iter().position(|n| n == name).unwrap_or(0);
            let ink = INKS[ink % INKS.len()];
            let corners = [(left, top), (right, bottom)];
            root.draw(&Rectangle::new(corners, ink.mix(0.4).filled()))?;
            root.draw(&Rectangle::new(corners, ink.stroke_width(1)))?;
            let middle = (top + bottom) / 2;
            last = middle.min(last - LINE_HEIGHT);
            let path = vec![(right + 2, middle), (right + 10, last)];
            root.draw(&PathElement::new(path, ink.stroke_width(1)))?;
            let told = format!("{name}, {bytes} B");
            root.draw_text(&told, &text(14, HPos::Left), (right + 13, last))?;
            bottom = top;
        }
        Ok(())
    }
}
