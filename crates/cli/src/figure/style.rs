//! Colours and font of figures.

use plotters::style::RGBColor;

/// Colours of lines, which remain distinct for colour-blind readers and in grey (Okabe and Ito, 2008).
pub(crate) const INKS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(170, 80, 140),
    RGBColor(90, 90, 90),
    RGBColor(86, 180, 233),
];
pub(crate) const GREY: RGBColor = RGBColor(140, 140, 140);
pub(crate) const TEXT: RGBColor = RGBColor(40, 40, 40);
pub(crate) const GRID: RGBColor = RGBColor(228, 228, 228);
pub(crate) const FONT: &str = "sans-serif";
