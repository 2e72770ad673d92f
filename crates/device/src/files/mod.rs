//! Access control of files: the folders that a graph may read and write.
//!
//! A graph names files: those of a checkpoint, in `SaveV2` and `RestoreV2`. It may come from a stranger, so a session
//! allows no file outside the folders that it is given for the graph.
//!
//! ```
//! use thalweg_device::{Files, KernelError};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = std::env::temp_dir();
//! let files = Files::within([&folder])?;
//! assert!(files.resolve(folder.join("model.ckpt-1").to_string_lossy().as_bytes()).is_ok());
//!
//! let error = files.resolve(b"/etc/passwd").unwrap_err();
//! assert!(matches!(error, KernelError::Refused(_)));
//! let error = Files::none().resolve(b"/tmp/model.ckpt-1").unwrap_err();
//! assert!(error.to_string().contains("allows no files"));
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::KernelError;

/// The folders whose files a graph may read and write: none, some, or all.
///
/// A path must lie in one of the folders. It must not contain `..`, a symlink below the folder, or end at a device, a
/// pipe or a socket. A relative path starts at the current folder of the process.
#[derive(Clone)]
pub struct Files {
    allowed: Allowed,
    listener: Option<Arc<dyn CheckpointListener>>,
}

/// Listener to the checkpoints that steps write.
pub trait CheckpointListener: Send + Sync {
    /// A step has written a checkpoint, or has failed to, in this time.
    fn saved(&self, took: Duration, well: bool);
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Files").field(&self.allowed).finish()
    }
}

#[derive(Clone, Debug)]
enum Allowed {
    None,
    All,
    Within(Arc<[Root]>),
}

/// A folder, as it was named and as it is without symlinks.
#[derive(Clone, Debug)]
struct Root {
    named: PathBuf,
    real: PathBuf,
}

impl Root {
    fn of(folder: &Path) -> io::Result<Root> {
        let root = || {
            let named = std::path::absolute(folder)?;
            let real = folder.canonicalize()?;
            match real.is_dir() {
                true => Ok(Root { named, real }),
                false => Err(io::Error::other("it is no folder")),
            }
        };
        root().map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", folder.display())))
    }
}

impl Default for Files {
    fn default() -> Files {
        Files::none()
    }
}

impl Files {
    /// No file.
    pub const fn none() -> Files {
        Files {
            allowed: Allowed::None,
            listener: None,
        }
    }

    /// Every file that the process may use: for graphs that the program itself has built.
    pub const fn all() -> Files {
        Files {
            allowed: Allowed::All,
            listener: None,
        }
    }

    /// The files in these folders, which exist.
    ///
    /// # Errors
    /// A folder that does not exist, or is none.
    pub fn within(folders: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<Files, io::Error> {
        let folders = folders.into_iter().map(|folder| Root::of(folder.as_ref()));
        Ok(Files {
            allowed: Allowed::Within(folders.collect::<io::Result<_>>()?),
            listener: None,
        })
    }

    /// The same files, and those in another folder, which exists.
    ///
    /// # Errors
    /// A folder that does not exist, or is none.
    pub fn also_within(self, folder: impl AsRef<Path>) -> Result<Files, io::Error> {
        let root = Root::of(folder.as_ref())?;
        let allowed = match self.allowed {
            Allowed::All => Allowed::All,
            Allowed::None => Allowed::Within(Arc::new([root])),
            Allowed::Within(roots) => {
                Allowed::Within(roots.iter().cloned().chain([root]).collect())
            }
        };
        Ok(Files { allowed, ..self })
    }

    /// The same files, with a listener to the checkpoints that steps write.
    pub fn with_checkpoint_listener(self, listener: Arc<dyn CheckpointListener>) -> Files {
        Files {
            listener: Some(listener),
            ..self
        }
    }

    /// Notifies the listener of a checkpoint that a step has written, or has failed to.
    pub fn saved(&self, took: Duration, well: bool) {
        if let Some(listener) = &self.listener {
            listener.saved(took, well);
        }
    }

    /// The folders that the files lie in, without symlinks; `None` if every file may be used.
    pub fn folders(&self) -> Option<Vec<PathBuf>> {
        match &self.allowed {
            Allowed::All => None,
            Allowed::None => Some(Vec::new()),
            Allowed::Within(roots) => Some(roots.iter().map(|root| root.real.clone()).collect()),
        }
    }

    /// Returns the path that these bytes of a graph name: a path, or one after `file://`.
    ///
    /// This is the check that names the mistake. Another process may change the folders after it, so a file is opened
    /// without following symlinks below [`Files::folders`].
    ///
    /// # Errors
    /// [`KernelError::Refused`], where the graph may not use it.
    pub fn resolve(&self, name: &[u8]) -> Result<PathBuf, KernelError> {
        let shown = String::from_utf8_lossy(name);
        let refused = |why: &str| KernelError::Refused(format!("file '{shown}': {why}"));
        if name.is_empty() || name.contains(&0) {
            return Err(refused("this is no name of a file"));
        }
        let name = local_name(name).map_err(|why| refused(&why))?;
        let path = path_of(name).ok_or_else(|| refused("its name is not in UTF-8"))?;
        let roots = match &self.allowed {
            Allowed::All => return Ok(path),
            Allowed::None => {
                return Err(refused(
                    "this session allows no files: name the folder for them, with `--files DIR` or SessionOptions::files",
                ));
            }
            Allowed::Within(roots) => roots,
        };
        if path.components().any(|c| c == Component::ParentDir) {
            return Err(refused("a path must not contain '..'"));
        }
        let path = std::path::absolute(&path).map_err(|e| refused(&e.to_string()))?;
        for root in roots.iter() {
            let below = [&root.named, &root.real]
                .into_iter()
                .find_map(|r| path.strip_prefix(r).ok());
            if let Some(below) = below {
                return walk(&root.real, below).map_err(|why| refused(&why));
            }
        }
        let folders = roots.iter().map(|r| r.named.display().to_string());
        let folders = folders.collect::<Vec<_>>().join(", ");
        Err(refused(&format!(
            "it lies outside of the folders that this session allows ({folders}): add its folder, with `--files DIR` or SessionOptions::files"
        )))
    }

    /// As [`Files::resolve`], of the prefix of a checkpoint: files beside it that begin with it must be plain.
    ///
    /// # Errors
    /// As [`Files::resolve`].
    pub fn resolve_prefix(&self, name: &[u8]) -> Result<PathBuf, KernelError> {
        let prefix = self.resolve(name)?;
        let Allowed::Within(roots) = &self.allowed else {
            return Ok(prefix);
        };
        let shown = String::from_utf8_lossy(name);
        let refused = |why: &str| KernelError::Refused(format!("file '{shown}': {why}"));
        // The files of such a prefix would lie beside the folder.
        if roots.iter().any(|root| root.real == prefix) {
            return Err(refused("it is the folder itself: name a file in it"));
        }
        let (Some(folder), Some(start)) = (prefix.parent(), prefix.file_name()) else {
            return Err(refused("this is no name of a file"));
        };
        let start = [start.as_encoded_bytes(), b"."].concat();
        let entries = match folder.read_dir() {
            Ok(entries) => entries,
            // A folder that is not there has no files that could be something else.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(prefix),
            Err(e) => return Err(refused(&format!("its folder cannot be listed: {e}"))),
        };
        for entry in entries {
            let entry = entry.map_err(|e| refused(&format!("its folder cannot be listed: {e}")))?;
            let name = entry.file_name();
            let belongs = name.as_encoded_bytes().starts_with(&start);
            if belongs && !entry.file_type().is_ok_and(|t| t.is_file()) {
                let path = entry.path();
                return Err(KernelError::Refused(format!(
                    "file '{}': it is a symlink, a folder or a device, and a checkpoint has plain files: remove it",
                    path.display()
                )));
            }
        }
        Ok(prefix)
    }
}

/// The path of a name, which may be a URL of the scheme `file`.
///
/// # Errors
/// The reason why it is no file of this machine.
fn local_name(name: &[u8]) -> Result<&[u8], String> {
    let Some(colon) = name.windows(3).position(|part| part == b"://") else {
        return Ok(name);
    };
    let (scheme, rest) = (&name[..colon], &name[colon + 3..]);
    let begins = scheme.first().is_some_and(u8::is_ascii_alphabetic);
    let of_scheme = |c: &u8| c.is_ascii_alphanumeric() || b"+-.".contains(c);
    if !begins || !scheme.iter().all(of_scheme) {
        return Ok(name);
    }
    if scheme != b"file" {
        return Err(format!(
            "there is no file system for {}://: use a folder of this machine, or mount the other one",
            String::from_utf8_lossy(scheme)
        ));
    }
    let path = rest.strip_prefix(b"localhost").unwrap_or(rest);
    match path.first() {
        Some(b'/') => Ok(path),
        _ => Err("it names another machine: write file:///FOLDER/NAME".to_owned()),
    }
}

#[cfg(unix)]
fn path_of(name: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(name)))
}

#[cfg(not(unix))]
fn path_of(name: &[u8]) -> Option<PathBuf> {
    std::str::from_utf8(name).ok().map(PathBuf::from)
}

/// The path `below` of a folder, where no part of it leads elsewhere.
fn walk(root: &Path, below: &Path) -> Result<PathBuf, String> {
    let mut at = root.to_owned();
    let mut parts = below.components().peekable();
    while let Some(part) = parts.next() {
        at.push(part);
        let found = match at.symlink_metadata() {
            Ok(found) => found,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                // It is not there yet, and neither is what comes after it.
                at.extend(parts);
                return Ok(at);
            }
            Err(e) => return Err(format!("{}: {e}", at.display())),
        };
        let kind = found.file_type();
        if kind.is_symlink() {
            return Err(format!(
                "{} is a symlink: name what it leads to",
                at.display()
            ));
        }
        if parts.peek().is_some() && !kind.is_dir() {
            return Err(format!("{} is no folder", at.display()));
        }
        if !kind.is_dir() && !kind.is_file() {
            return Err("it is a device, a pipe or a socket".to_owned());
        }
    }
    Ok(at)
}

#[cfg(all(test, unix))]
mod tests;
