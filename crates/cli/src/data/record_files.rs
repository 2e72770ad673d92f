//! Arguments of subcommands that read TFRecord files.

use std::path::{Path, PathBuf};

use thalweg_data::example::Example;
use thalweg_data::pipeline::files;
use thalweg_data::{DataError, RecordFile, RecordOptions};

use crate::failure::Failure;

/// The files of arguments: a name that is no file is a pattern, such as `data/train-*`.
///
/// # Errors
/// No file matches a pattern.
pub(super) fn expanded(arguments: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut all = Vec::new();
    for argument in arguments {
        if argument.is_dir() {
            let shown = argument.display();
            return Err(
                format!("{shown} is a folder: give its files, as in '{shown}/train-*'").into(),
            );
        }
        match argument.to_str() {
            Some(pattern) if !argument.exists() => all.extend(files(pattern)?),
            _ => all.push(argument.clone()),
        }
    }
    Ok(all)
}

/// Number of threads: the one that was asked for, or that of the cores.
///
/// # Errors
/// It is 0.
pub(super) fn threads(asked: Option<usize>) -> Result<usize, Failure> {
    match asked {
        Some(0) => Err("--threads 0: give at least 1".into()),
        Some(count) => Ok(count),
        None => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
    }
}

/// Opens a TFRecord file.
pub(super) fn open(path: &Path) -> Result<RecordFile, DataError> {
    RecordFile::open(path, RecordOptions::default())
}

/// The first byte string of a feature.
pub(super) fn first_bytes<'a>(example: &Example<'a>, key: &str) -> Option<&'a [u8]> {
    example.get(key)?.bytes()?.next()
}

/// The first integer of a feature.
pub(super) fn first_int(example: &Example<'_>, key: &str) -> Option<i64> {
    example.get(key)?.ints()?.next()
}
