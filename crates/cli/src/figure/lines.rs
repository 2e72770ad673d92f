//! Charts of lines.

use std::error::Error;

use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;

use super::axis::Axis;
use super::style::{FONT, GRID, TEXT};

/// Line of a chart.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Name in the legend.
    pub(crate) name: String,
    pub(crate) ink: RGBColor,
    pub(crate) is_dashed: bool,
    /// Pairs of x and y. Those that a logarithmic axis does not have are left out.
    pub(crate) points: Vec<(f64, f64)>,
    /// Interval of y at an x.
    pub(crate) intervals: Vec<(f64, [f64; 2])>,
}

impl Line {
    /// Solid line with marks at its points.
    pub(crate) fn solid(name: impl Into<String>, ink: RGBColor, points: Vec<(f64, f64)>) -> Line {
        Line {
            name: name.into(),
            ink,
            is_dashed: false,
            points,
            intervals: Vec::new(),
        }
    }

    /// Dashed line without marks.
    pub(crate) fn dashed(name: impl Into<String>, ink: RGBColor, points: Vec<(f64, f64)>) -> Line {
        Line {
            is_dashed: true,
            ..Line::solid(name, ink, points)
        }
    }
}

/// Chart of lines.
#[derive(Clone, Debug)]
pub(crate) struct LineChart {
    /// Width and height in pixels.
    pub(crate) size: (u32, u32),
    /// Title above; none if empty.
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
    /// Place of the legend; `None` for a figure whose page has it.
    pub(crate) legend: Option<SeriesLabelPosition>,
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;

impl LineChart {
    /// Appends the chart to `svg`.
    ///
    /// # Errors
    /// It cannot be drawn.
    pub(crate) fn draw(&self, svg: &mut String) -> Result<(), Box<dyn Error>> {
        let root = SVGBackend::with_string(svg, self.size).into_drawing_area();
        root.fill(&WHITE)?;
        let (x, y) = (&self.x, &self.y);
        let mut builder = ChartBuilder::on(&root);
        builder.margin(12).margin_right(28);
        builder.x_label_area_size(44).y_label_area_size(64);
        if !self.title.is_empty() {
            builder.caption(&self.title, (FONT, 19, &TEXT));
        }
        let mut chart = builder.build_cartesian_2d(x.clone(), y.clone())?;
        chart
            .configure_mesh()
            .x_desc(&x.name)
            .y_desc(&y.name)
            .x_label_formatter(&|value| x.format_ext(value))
            .y_label_formatter(&|value| y.format_ext(value))
            .label_style((FONT, 14, &TEXT))
            .axis_desc_style((FONT, 16, &TEXT))
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .draw()?;
        for line in &self.lines {
            self.draw_line(&mut chart, line)?;
        }
        if let Some(position) = &self.legend {
            chart
                .configure_series_labels()
                .position(position.clone())
                .margin(14)
                .legend_area_size(36)
                .label_font((FONT, 15, &TEXT))
                .background_style(WHITE.mix(0.9))
                .border_style(GRID)
                .draw()?;
        }
        root.present()?;
        Ok(())
    }

    fn draw_line(&self, chart: &mut Chart<'_, '_>, line: &Line) -> Result<(), Box<dyn Error>> {
        let has = |(x, y): &(f64, f64)| self.x.has(*x) && self.y.has(*y);
        let points: Vec<(f64, f64)> = line.points.iter().copied().filter(has).collect();
        let style = line.ink.stroke_width(if line.is_dashed { 2 } else { 3 });
        let drawn = match line.is_dashed {
            true => {
                chart.draw_series(DashedLineSeries::new(points.iter().copied(), 6, 5, style))?
            }
            false => chart.draw_series(LineSeries::new(points.iter().copied(), style))?,
        };
        drawn
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 26, y)], style));
        if !line.is_dashed {
            let mark = |at| Circle::new(at, 4, line.ink.filled());
            chart.draw_series(points.iter().copied().map(mark))?;
        }
        let ends = line.intervals.iter().filter_map(|(x, [low, high])| {
            let ends = [(*x, *low), (*x, *high)];
            let is_drawn = ends.iter().all(has);
            is_drawn.then(|| PathElement::new(ends, TEXT.stroke_width(1)))
        });
        chart.draw_series(ends)?;
        Ok(())
    }
}
