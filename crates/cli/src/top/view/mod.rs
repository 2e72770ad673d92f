//! Screen of `thalweg top`.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row as Cells, Table};
use std::time::Duration;

use super::cells::{COLUMNS, seconds, sort};
use super::tasks::{Row, State};

/// Help, as `?` shows it.
const HELP: [&str; 11] = [
    "q, Ctrl-C       end",
    "s, right, left  sort by another column",
    "up, down        scroll",
    "?               this help",
    "",
    "steps   those that the task has a part in, of all workers and clients",
    "loss    that of the newest training step of the task",
    "sent    over the network; shared: through shared memory",
    "memory  in use on all devices of the task",
    "contact time since the endpoint answered",
    "waits   the task whose values most receives wait for",
];

/// Order of rows, scroll position and help, which keys change.
#[derive(Debug, Default)]
pub(super) struct Choices {
    /// Index of the column that rows are sorted by.
    pub(super) column: usize,
    /// Index of the first row on the screen.
    pub(super) first: usize,
    pub(super) help: bool,
}

impl Choices {
    /// Sorts by the next column, or by the one before.
    pub(super) fn turn(&mut self, forward: bool) {
        let by = if forward { 1 } else { COLUMNS.len() - 1 };
        self.column = (self.column + by) % COLUMNS.len();
    }

    /// Scrolls by a row.
    pub(super) fn scroll(&mut self, down: bool) {
        self.first = match down {
            true => self.first.saturating_add(1),
            false => self.first.saturating_sub(1),
        };
    }
}

/// Draws the rows.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    rows: &mut [Row],
    choices: &mut Choices,
    interval: Duration,
) {
    sort(rows, choices.column);
    let [top, middle, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let every = format!("every {} ", seconds(interval.as_secs_f64()));
    frame.render_widget(Line::from(summary(rows)), top);
    frame.render_widget(
        Line::from(every).alignment(Alignment::Right),
        right_end(top),
    );
    // One line is the header. The last rows stay on the screen.
    let shown = usize::from(middle.height.saturating_sub(1));
    choices.first = choices.first.min(rows.len().saturating_sub(shown));
    frame.render_widget(table(&rows[choices.first..], choices.column), middle);
    let keys = " q end   s/←/→ sort   ↑/↓ scroll   ? help";
    frame.render_widget(Line::from(keys).style(Modifier::DIM), bottom);
    if choices.help {
        help(frame);
    }
}

/// Right part of the first line, which the summary leaves free.
fn right_end(line: Rect) -> Rect {
    let width = line.width.min(16);
    Rect {
        x: line.x + line.width - width,
        width,
        ..line
    }
}

/// Numbers of tasks by state.
fn summary(rows: &[Row]) -> Vec<Span<'static>> {
    let mut spans = vec![
        Span::styled(" thalweg top ", Modifier::BOLD),
        Span::raw(format!("  {} tasks", rows.len())),
    ];
    for state in [
        State::Up,
        State::Draining,
        State::Pending,
        State::NotReached,
    ] {
        let count = rows.iter().filter(|row| row.state == state).count();
        if count > 0 {
            let text = format!("  {count} {}", state.name());
            spans.push(Span::styled(text, style(state)));
        }
    }
    spans
}

fn style(state: State) -> Style {
    match state {
        State::Up => Style::new().fg(Color::Green),
        State::Draining => Style::new().fg(Color::Yellow),
        State::Pending => Style::new().add_modifier(Modifier::DIM),
        State::NotReached => Style::new().fg(Color::Red),
    }
}

fn table(rows: &[Row], sorted: usize) -> Table<'static> {
    let aligned = |text: String, number: bool| match number {
        true => Line::from(text).alignment(Alignment::Right),
        false => Line::from(text),
    };
    let header = COLUMNS.iter().enumerate().map(|(index, column)| {
        let cell = Cell::from(aligned(column.title.to_owned(), column.number));
        match index == sorted {
            true => cell.style(Modifier::BOLD | Modifier::UNDERLINED),
            false => cell,
        }
    });
    let lines = rows.iter().map(|row| {
        let cells = COLUMNS.iter().map(|column| {
            let cell = Cell::from(aligned((column.cell)(row), column.number));
            match column.title == "state" || row.state == State::NotReached {
                true => cell.style(style(row.state)),
                false => cell,
            }
        });
        Cells::new(cells)
    });
    let last = COLUMNS.len() - 1;
    let widths = COLUMNS.iter().enumerate().map(|(index, c)| match index {
        i if i == last => Constraint::Min(c.width),
        _ => Constraint::Length(c.width),
    });
    Table::new(lines, widths)
        .header(Cells::new(header).style(Modifier::REVERSED))
        .column_spacing(1)
}

fn help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let (width, height) = (72.min(area.width), (HELP.len() as u16 + 2).min(area.height));
    let area = Rect {
        x: (area.width - width) / 2,
        y: (area.height - height) / 2,
        width,
        height,
    };
    let lines: Vec<Line<'_>> = HELP.iter().map(|line| Line::from(*line)).collect();
    frame.render_widget(Clear, area);
    frame.render_widget(
        Paragraph::new(lines).block(Block::bordered().title(" help ")),
        area,
    );
}

#[cfg(test)]
mod tests;
