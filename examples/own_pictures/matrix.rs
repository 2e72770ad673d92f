//! Confusion matrices as tables.

use comfy_table::{Table, presets};
use thalweg_examples::output;

/// Prints a row for each class: how often its pictures were taken for which class.
pub fn print(classes: &[String], counts: &[i32]) {
    let rows = classes.iter().zip(counts.chunks_exact(classes.len()));
    let rows = rows.map(|(class, row)| {
        let numbers = row.iter().map(i32::to_string);
        [class.clone()]
            .into_iter()
            .chain(numbers)
            .collect::<Vec<_>>()
    });
    let head = ["class \\ found"]
        .into_iter()
        .chain(classes.iter().map(String::as_str));
    let mut table = Table::new();
    let styled = table.load_style(presets::UTF8_FULL_CONDENSED);
    output::line(styled.set_header(head).add_rows(rows));
    let right: i32 = (0..classes.len())
        .map(|n| counts[n * classes.len() + n])
        .sum();
    let all: i32 = counts.iter().sum();
    let share = 100.0 * right as f32 / all as f32;
    output::line(format_args!(
        "{share:.1}% of {all} pictures that it has not seen"
    ));
}
