//! Files of results: tables and the page.

use std::path::Path;

use thalweg_checkpoint::disk;

use super::results::{RESULTS, Results};
use super::{page, tables};
use crate::failure::Failure;

/// Writes the tables and the page into a folder.
///
/// # Errors
/// A file cannot be written.
pub(super) fn write(results: &Results, to: &Path) -> Result<(), Failure> {
    let write =
        |name: &str, text: &str| disk::write(&disk::system(), &to.join(name), text.as_bytes());
    write("results.csv", &tables::csv(results)?)?;
    write(RESULTS, &format!("{:#}\n", tables::json(results)))?;
    write("page.html", &page::page(results)?)?;
    Ok(())
}
