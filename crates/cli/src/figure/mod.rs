//! Figures as SVG: colours, axes, charts of lines.

mod axis;
mod lines;
mod style;
pub(crate) mod svg_file;

pub(crate) use axis::Axis;
pub(crate) use lines::{Line, LineChart};
pub(crate) use style::{FONT, GREY, GRID, INKS, TEXT};
