//! MatchingFiles, ReadFile, WriteFile.

use thalweg_data::pipeline::NamePattern;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Effect, Gradient, arg_of};
use thalweg_tensor::{DType, Shape};

use super::checkpoint_inputs::disk;
use super::record_files::OpenFile;

/// Maximum number of names that patterns may match.
const MAX_NAMES: usize = 1 << 22;

/// The names of the files that match the patterns at input `i`, sorted and without repetition.
pub(crate) fn matching_files(cx: &TensorCx<'_>, i: usize) -> Result<Vec<Vec<u8>>, KernelError> {
    let mut all = Vec::new();
    for pattern in cx.strings(i)? {
        add_matches(cx, pattern, &mut all)?;
    }
    all.sort();
    all.dedup();
    Ok(all)
}

/// The names of the files that match a pattern, sorted.
pub(crate) fn matches(cx: &TensorCx<'_>, pattern: &[u8]) -> Result<Vec<Vec<u8>>, KernelError> {
    let mut all = Vec::new();
    add_matches(cx, pattern, &mut all)?;
    all.sort();
    Ok(all)
}

/// Adds the names that match a pattern. Folders are listed from the last part without a wildcard on.
fn add_matches(
    cx: &TensorCx<'_>,
    pattern: &[u8],
    all: &mut Vec<Vec<u8>>,
) -> Result<(), KernelError> {
    let wrong = |why: &str| {
        KernelError::Invalid(format!(
            "pattern '{}': {why}",
            String::from_utf8_lossy(pattern)
        ))
    };
    let text = std::str::from_utf8(pattern).map_err(|_| wrong("it is not in UTF-8"))?;
    let mut found = vec![String::new()];
    let mut parts = text.split('/').peekable();
    let mut stop = cx.stop_check();
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        let matches = match part.contains(['*', '?', '[']) {
            true => {
                let matches = NamePattern::new(part);
                Some(matches.ok_or_else(|| wrong("a '[' in it has no ']'"))?)
            }
            false => None,
        };
        let mut next = Vec::new();
        for folder in found {
            stop.tick()?;
            match &matches {
                Some(matches) => list(cx, &folder, matches, &mut next)?,
                None => next.push(format!("{folder}{part}")),
            }
            if next.len() > MAX_NAMES {
                return Err(wrong(&format!(
                    "it matches more than {MAX_NAMES} names: use one that matches fewer"
                )));
            }
        }
        if !last {
            next.iter_mut().for_each(|name| name.push('/'));
        }
        found = next;
    }
    let files = cx.environment().files();
    for name in found {
        // Of names that were found, those that may not be read are left out: symlinks, devices.
        match files.resolve(name.as_bytes()) {
            Ok(path) if path.symlink_metadata().is_ok() => all.push(name.into_bytes()),
            Err(error) if name == text => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Adds the names in a folder that match. A folder that is not there, or is none, has no names.
fn list(
    cx: &TensorCx<'_>,
    folder: &str,
    matches: &NamePattern,
    to: &mut Vec<String>,
) -> Result<(), KernelError> {
    let files = cx.environment().files();
    let shown = if folder.is_empty() { "." } else { folder };
    let path = files.resolve(shown.as_bytes())?;
    let Ok(entries) = disk(files).list(&path) else {
        return Ok(());
    };
    for entry in entries {
        let name = entry.file_name().and_then(std::ffi::OsStr::to_str);
        if let Some(name) = name.filter(|name| matches.matches(name)) {
            to.push(format!("{folder}{name}"));
        }
    }
    Ok(())
}

/// The name of a file at input 0.
fn name<'a>(cx: &TensorCx<'a>) -> Result<&'a [u8], KernelError> {
    let names = cx.strings(0)?;
    match names.only() {
        Some(name) => Ok(name),
        None => Err(KernelError::Invalid(format!(
            "filename must be one name, and has {}",
            names.len()
        ))),
    }
}

/// Base definition of an op on files.
const FILE_OP: OpDef = OpDef {
    gradient: Gradient::None,
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};

/// The names of files.
pub(crate) static MATCHING: Op = Op {
    def: OpDef {
        name: "MatchingFiles",
        summary: "The names of the files that match patterns, sorted.",
        inputs: &[arg_of("pattern", DType::String)],
        outputs: &[arg_of("filenames", DType::String)],
        shape: |cx| {
            cx.set(0, Shape::partial([None]));
            Ok(())
        },
        ..FILE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let names = matching_files(cx, 0)?;
        Ok(vec![cx.strings_of(&[names.len()], names)?])
    })],
};

/// The contents of a file.
pub(crate) static READ: Op = Op {
    def: OpDef {
        name: "ReadFile",
        summary: "The contents of a file.",
        inputs: &[arg_of("filename", DType::String)],
        outputs: &[arg_of("contents", DType::String)],
        shape: crate::support::shapes::scalar,
        ..FILE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let (contents, _held) = OpenFile::new(cx, name(cx)?)?.contents(cx.memory())?;
        Ok(vec![cx.strings_of(&[], [contents])?])
    })],
};

/// A file with new contents.
pub(crate) static WRITE: Op = Op {
    def: OpDef {
        name: "WriteFile",
        summary: "Writes a file, whole or not at all, in place of one of its name; folders that are missing are made.",
        inputs: &[
            arg_of("filename", DType::String),
            arg_of("contents", DType::String),
        ],
        ..FILE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let files = cx.environment().files();
        let path = files.resolve(name(cx)?)?;
        let Some(contents) = cx.strings(1)?.only() else {
            return Err(KernelError::Invalid(
                "contents must be one string".to_owned(),
            ));
        };
        let disk = disk(files);
        if let Some(folder) = path.parent() {
            let wrong = |e| KernelError::Storage(format!("{}: {e}", folder.display()));
            disk.create_folder(folder).map_err(wrong)?;
        }
        let written = thalweg_checkpoint::disk::write(&disk, &path, contents);
        written.map_err(|e| KernelError::Storage(e.to_string()))?;
        Ok(Vec::new())
    })],
};
