//! Figures that are written as SVG files.

use std::error::Error;
use std::fs;
use std::path::Path;

use crate::failure::Failure;
use crate::output_file::check_output_file;

/// Checks the file, before anything is measured.
///
/// # Errors
/// The name does not end in `.svg`; the file cannot be written.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    match path.extension() {
        Some(kind) if kind.eq_ignore_ascii_case("svg") => check_output_file(path),
        _ => Err(format!(
            "{}: figures are drawn as SVG, give a name that ends in .svg",
            path.display()
        )
        .into()),
    }
}

/// Writes the figure that `render` draws.
///
/// # Errors
/// It cannot be drawn, or the file cannot be written.
pub(crate) fn write(
    path: &Path,
    render: impl FnOnce(&mut String) -> Result<(), Box<dyn Error>>,
) -> Result<(), Failure> {
    let mut svg = String::new();
    render(&mut svg).map_err(|e| format!("{}: {e}", path.display()))?;
    fs::write(path, svg).map_err(|e| format!("{}: {e}", path.display()).into())
}
