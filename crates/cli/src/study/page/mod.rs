//! Page of a study: one file of HTML, with its pictures, which needs no network.

mod about;
mod figures;
mod html_table;
mod report;
mod server_curves;
mod step_parts;
mod study_tables;

use crate::failure::Failure;
use crate::html::{escaped, filled};

use super::results::Results;

/// The page without its texts.
const PAGE: &str = include_str!("page.html");

/// Page of results.
///
/// # Errors
/// A picture cannot be drawn.
pub(super) fn page(results: &Results) -> Result<String, Failure> {
    let (title, sections) = match &results.systems[..] {
        [system] if system.name.is_empty() => {
            let summary = &system.summary;
            let sections = [
                study_tables::best_points(summary),
                figures::of_study(summary, results.scaling)?,
                server_curves::section(summary, results.scaling)?,
                step_parts::section(summary),
                study_tables::all_points(results, summary),
                study_tables::remarks(summary),
            ];
            ("Scaling study", sections.concat())
        }
        systems => ("Scaling study of the report", report::sections(systems)?),
    };
    Ok(filled(
        PAGE,
        &[
            ("{{title}}", &escaped(title)),
            ("{{title_again}}", &escaped(title)),
            ("{{about}}", &about::list(results)),
            ("{{sections}}", &sections),
        ],
    ))
}
