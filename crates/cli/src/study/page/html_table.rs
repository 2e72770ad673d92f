//! Tables in HTML.

use crate::html::escaped;

/// Row of a table.
pub(super) struct Row {
    /// Class of the row; none if empty.
    class: &'static str,
    /// HTML of the cells.
    cells: Vec<String>,
}

impl Row {
    /// Row of texts.
    pub(super) fn of(class: &'static str, texts: Vec<String>) -> Row {
        Row {
            class,
            cells: texts.iter().map(|text| escaped(text)).collect(),
        }
    }

    /// Adds a cell of HTML.
    pub(super) fn html(&mut self, html: String) {
        self.cells.push(html);
    }
}

/// Table with a caption. Columns whose head begins with `#` are numbers; those without any text are left out.
pub(super) fn table(caption: &str, head: &[&str], rows: &[Row]) -> String {
    let cell = |row: &Row, column: usize| row.cells.get(column).cloned().unwrap_or_default();
    let is_told = |column: &usize| rows.iter().any(|row| !cell(row, *column).is_empty());
    let columns: Vec<usize> = (0..head.len()).filter(is_told).collect();
    let line = |tag: &str, cells: &dyn Fn(usize) -> String| -> String {
        let cells = columns.iter().map(|&column| {
            let class = match head[column].starts_with('#') {
                true => " class=\"n\"",
                false => "",
            };
            format!("<{tag}{class}>{}</{tag}>", cells(column))
        });
        cells.collect()
    };
    let heads = line("th", &|column| {
        escaped(head[column].trim_start_matches('#'))
    });
    let mut html = format!(
        "<div class=\"scroll\"><table>\n<caption>{}</caption>\n<tr>{heads}</tr>\n",
        escaped(caption)
    );
    for row in rows {
        let cells = line("td", &|column| cell(row, column));
        html += &format!("<tr class=\"{}\">{cells}</tr>\n", row.class);
    }
    html + "</table></div>\n"
}

/// Share as a percentage; empty without.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or(String::new(), |s| format!("{:.2}%", 100.0 * s))
}

/// Images per second; empty without.
pub(super) fn rate(speed: Option<f64>) -> String {
    speed.map_or(String::new(), |s| format!("{s:.2}"))
}
