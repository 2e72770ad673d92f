//! Inputs of checkpoint ops: prefixes, names, slices; and checkpoint errors as kernel errors.

use std::path::PathBuf;
use std::sync::Arc;

use thalweg_checkpoint::disk::{self, Disk};
use thalweg_checkpoint::{CheckpointError, SliceSpec};
use thalweg_device::{Files, KernelError, TensorCx};

/// Converts an error of a checkpoint to a kernel error.
pub(super) fn kernel_error(error: CheckpointError) -> KernelError {
    let text = error.to_string();
    match error {
        CheckpointError::NoEntry { .. } | CheckpointError::Missing { .. } => {
            KernelError::NotFound(text)
        }
        CheckpointError::Io { .. } | CheckpointError::Corrupt { .. } => KernelError::Storage(text),
        _ => KernelError::Invalid(text),
    }
}

/// Disk of the files that the session allows: no symlink below their folders is followed.
pub(crate) fn disk(files: &Files) -> Arc<dyn Disk> {
    match files.folders() {
        #[cfg(unix)]
        Some(folders) => Arc::new(disk::FolderDisk::new(folders)),
        _ => disk::system(),
    }
}

/// Prefix of a checkpoint, from input `i`.
pub(super) fn prefix(cx: &TensorCx<'_>, i: usize) -> Result<PathBuf, KernelError> {
    let names = cx.strings(i)?;
    match names.only() {
        Some(name) => cx.environment().files().resolve_prefix(name),
        None => Err(KernelError::Invalid(format!(
            "input {i} must be one prefix, and is {} of them",
            names.len()
        ))),
    }
}

/// Names of tensors from input 1, and slices from input 2: as many of each as there are tensors.
pub(super) fn entries(
    cx: &TensorCx<'_>,
    tensors: usize,
) -> Result<Vec<(String, Option<SliceSpec>)>, KernelError> {
    let (names, slices) = (cx.strings(1)?, cx.strings(2)?);
    if names.len() != tensors || slices.len() != tensors {
        return Err(KernelError::Invalid(format!(
            "there are {} names and {} slices for {tensors} tensors: give one of each for every tensor",
            names.len(),
            slices.len()
        )));
    }
    let text = |bytes: &[u8]| {
        let text = std::str::from_utf8(bytes);
        text.map(str::to_owned)
            .map_err(|_| KernelError::Invalid("a name is not in UTF-8".to_owned()))
    };
    let entry = |i: usize| {
        let slice = SliceSpec::parse_or_whole(&text(&slices[i])?).map_err(kernel_error)?;
        Ok((text(&names[i])?, slice))
    };
    (0..tensors).map(entry).collect()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_disk_of_allowed_folders_follows_no_symlink() {
        let folder = std::env::temp_dir().join(format!("thalweg-disk-of-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("inside")).unwrap();
        let folder = folder.canonicalize().unwrap();
        std::fs::write(folder.join("secret"), "secret").unwrap();
        let link = folder.join("inside/link");
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        let within = Files::within([folder.join("inside")]).unwrap();
        for (files, opens) in [
            (within, false),
            (Files::none(), false),
            (Files::all(), true),
        ] {
            let opened = disk(&files).open(&link.join("secret"));
            assert_eq!(opened.is_ok(), opens, "{files:?}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
