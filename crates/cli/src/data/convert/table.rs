//! Tables in CSV files as records with a feature for each column.

use std::path::{Path, PathBuf};

use thalweg_data::example::ExampleWriter;

use crate::failure::Failure;

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Int,
    Float,
    Text,
}

/// Rows of a CSV file with typed columns.
pub(super) struct Table {
    path: PathBuf,
    columns: Vec<(String, Type)>,
    rows: Vec<csv::StringRecord>,
}

impl Table {
    /// Reads a CSV file with a header. A column's type is that of `types`, each `name=type`, or else the narrowest that
    /// all values have.
    ///
    /// # Errors
    /// The file cannot be read, or is no table; a type names no column.
    pub(super) fn open(path: &Path, delimiter: char, types: &[String]) -> Result<Table, Failure> {
        let wrong = |e: csv::Error| format!("{}: {e}", path.display());
        let delimiter = match u8::try_from(delimiter) {
            Ok(byte) if byte.is_ascii() => byte,
            _ => return Err(format!("--delimiter {delimiter}: give an ASCII character").into()),
        };
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(delimiter)
            .from_path(path)
            .map_err(wrong)?;
        let names = reader.headers().map_err(wrong)?.clone();
        let mut rows = Vec::new();
        for row in reader.records() {
            rows.push(row.map_err(wrong)?);
        }
        let mut columns: Vec<(String, Type)> = Vec::with_capacity(names.len());
        for (at, name) in names.iter().enumerate() {
            let name = name.trim().to_owned();
            if columns.iter().any(|(other, _)| *other == name) {
                return Err(format!("{}: two columns are named `{name}`", path.display()).into());
            }
            columns.push((name, narrowest(&rows, at)));
        }
        for setting in types {
            let (name, kind) = parse(setting)?;
            let column = columns.iter_mut().find(|(column, _)| column == name);
            let missing = || format!("--column {setting}: {} has no such column", path.display());
            column.ok_or_else(missing)?.1 = kind;
        }
        Ok(Table {
            path: path.to_owned(),
            columns,
            rows,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The record of a row. The error is its reason.
    pub(super) fn record(&self, number: usize) -> Result<Vec<u8>, String> {
        let row = &self.rows[number];
        let mut example = ExampleWriter::new();
        for ((name, kind), field) in self.columns.iter().zip(row) {
            let known = field.trim();
            if known.is_empty() {
                continue;
            }
            let wrong = |what| {
                let line = row.position().map_or(0, |p| p.line());
                let start: String = known.chars().take(40).collect();
                format!(
                    "{}, line {line}, column `{name}`: `{start}` is no {what}",
                    self.path.display()
                )
            };
            example = match kind {
                Type::Int => {
                    let value = known.parse().map_err(|_| wrong("whole number"))?;
                    example.ints(name, &[value])
                }
                Type::Float => {
                    let value = known.parse().map_err(|_| wrong("number"))?;
                    example.floats(name, &[value])
                }
                Type::Text => example.bytes(name, [field]),
            };
        }
        Ok(example.finish())
    }
}

/// The narrowest type that all values of a column have.
fn narrowest(rows: &[csv::StringRecord], column: usize) -> Type {
    let fields = || {
        let fields = rows.iter().filter_map(|row| row.get(column));
        fields.map(str::trim).filter(|field| !field.is_empty())
    };
    if fields().all(|field| field.parse::<i64>().is_ok()) {
        Type::Int
    } else if fields().all(|field| field.parse::<f32>().is_ok()) {
        Type::Float
    } else {
        Type::Text
    }
}

/// The name and the type of a setting `name=type`.
fn parse(setting: &str) -> Result<(&str, Type), Failure> {
    let kind = match setting.rsplit_once('=') {
        Some((name, "int")) => (name, Type::Int),
        Some((name, "float")) => (name, Type::Float),
        Some((name, "text")) => (name, Type::Text),
        _ => {
            return Err(
                format!("--column {setting}: give NAME=int, NAME=float or NAME=text").into(),
            );
        }
    };
    Ok(kind)
}
