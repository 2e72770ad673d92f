use std::error::Error;
use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{AXIS, FONT, INKS, TEXT, write_svg};

/// Things in columns: variables on servers.
#[derive(Clone, Debug)]
pub struct Boxes<'a> {
    /// What the figure shows.
    pub title: &'a str,
    /// Each column's name, and what is in it from the bottom up.
    pub columns: Vec<(String, Vec<String>)>,
}

const WIDTH: i32 = 190;
const HEIGHT: i32 = 34;
const GAP: i32 = 24;

/// Draws figures of boxes in columns, one beside the other, into the SVG file `path`. A thing has
/// the same ink in all of them.
///
/// # Errors
/// When the name does not end in `.svg` or the file cannot be written.
pub fn boxes(path: impl AsRef<Path>, figures: &[Boxes<'_>]) -> Result<(), Box<dyn Error>> {
    let columns = |f: &Boxes<'_>| f.columns.len() as i32;
    let across: i32 = figures.iter().map(|f| columns(f) * WIDTH + GAP).sum();
    let all = || figures.iter().flat_map(|f| &f.columns);
    let most = all().map(|c| c.1.len()).max().unwrap_or(0) as i32;
    let floor = 60 + most.max(1) * HEIGHT;
    let mut names: Vec<&String> = Vec::new();
    for name in all().flat_map(|c| &c.1) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let size = ((across + GAP).max(200) as u32, (floor + 40) as u32);
    write_svg(path.as_ref(), size, |root| {
        let centred = |size: i32, colour: &RGBColor| {
            let anchor = Pos::new(HPos::Center, VPos::Center);
            (FONT, size).into_font().color(colour).pos(anchor)
        };
        let mut left = GAP;
        for figure in figures {
            let width = columns(figure) * WIDTH;
            let middle = left + width / 2;
            root.draw_text(figure.title, &centred(18, &TEXT), (middle, 24))?;
            let line = vec![(left, floor), (left + width, floor)];
            root.draw(&PathElement::new(line, AXIS.stroke_width(2)))?;
            for (i, (column, things)) in figure.columns.iter().enumerate() {
                let x = left + i as i32 * WIDTH;
                root.draw_text(column, &centred(14, &TEXT), (x + WIDTH / 2, floor + 18))?;
                for (level, thing) in things.iter().enumerate() {
                    let bottom = floor - level as i32 * HEIGHT - 2;
                    let corners = [(x + 6, bottom - HEIGHT + 4), (x + WIDTH - 6, bottom)];
                    let ink = names.iter().position(|n| *n == thing).unwrap_or(0);
                    let ink = INKS[ink % INKS.len()];
                    root.draw(&Rectangle::new(corners, ink.mix(0.25).filled()))?;
                    root.draw(&Rectangle::new(corners, ink.stroke_width(1)))?;
                    let centre = (x + WIDTH / 2, bottom - HEIGHT / 2 + 2);
                    root.draw_text(thing, &centred(14, &TEXT), centre)?;
                }
            }
            left += width + GAP;
        }
        Ok(())
    })
}
