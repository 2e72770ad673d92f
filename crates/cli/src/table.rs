//! Tables on the screen.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

/// Maximum number of rows on the screen.
const MAX_ROWS: usize = 40;

/// Formats a table. The columns in `numbers` are aligned right.
pub(crate) fn table(head: &[&str], rows: Vec<Vec<String>>, numbers: &[usize]) -> String {
    let mut table = Table::new();
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_header(head.to_vec());
    let all = rows.len();
    for row in rows.into_iter().take(MAX_ROWS) {
        table.add_row(row);
    }
    for &number in numbers {
        if let Some(column) = table.column_mut(number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let more = match all > MAX_ROWS {
        true => format!("and {} more; --json tells all\n", all - MAX_ROWS),
        false => String::new(),
    };
    format!("{table}\n{more}\n")
}
