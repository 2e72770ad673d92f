//! Libraries of CUDA that have been opened.

use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libloading::os::unix::{Library as Handle, RTLD_GLOBAL, RTLD_LAZY};

use super::Library;
use super::search::{SearchFolders, entries};
use crate::gpu::GpuError;

/// A library of CUDA that has been opened. It stays open until the process ends: NVIDIA's libraries have threads of their
/// own, and plans outlive their owners.
#[derive(Clone, Debug)]
pub struct OpenedLibrary {
    library: Library,
    path: PathBuf,
    handle: Arc<ManuallyDrop<Handle>>,
}

impl OpenedLibrary {
    /// Opens a library: from the first folder that has it, with the parts that it opens by name itself.
    ///
    /// # Errors
    /// [`GpuError::Missing`], with the names and folders that were tried.
    pub(super) fn open(library: Library) -> Result<OpenedLibrary, GpuError> {
        let folders = SearchFolders::of(library, |name| std::env::var_os(name));
        let before = SearchFolders::file(&folders.before, library).and_then(|p| at(library, &p));
        let by_name = || {
            library
                .files()
                .iter()
                .find_map(|n| at(library, Path::new(n)))
        };
        let after = || SearchFolders::file(&folders.after, library).and_then(|p| at(library, &p));
        let opened = before.or_else(by_name).or_else(after);
        opened.ok_or_else(|| library.missing([folders.before, folders.after].concat()))
    }

    /// The file that was loaded, by its absolute path where the system tells it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A function of the library.
    ///
    /// # Errors
    /// [`GpuError::Lacking`].
    ///
    /// # Safety
    /// `F` is the type of the function of this name: `unsafe extern "C" fn`, with enums as numbers.
    pub(super) unsafe fn function<F: Copy>(&self, name: &'static str) -> Result<F, GpuError> {
        // SAFETY: by the caller's promise; the library stays open.
        let found = unsafe { self.handle.get::<F>(name.as_bytes()) };
        found.map(|f| *f).map_err(|_| self.library.lacking(name))
    }
}

/// Opens the library at a path, or with a name for the system's loader.
fn at(library: Library, path: &Path) -> Option<OpenedLibrary> {
    let parts = match (library.parts(), path.parent()) {
        (Some(stem), Some(folder)) if path.is_absolute() => open_parts(&entries(folder, |n| {
            n.starts_with(stem) && n.contains(".so")
        })),
        _ => Vec::new(),
    };
    let opened = handle(path)?;
    // The parts stay open as the library does.
    parts.into_iter().for_each(std::mem::forget);
    let path = match path.is_absolute() {
        true => path.to_owned(),
        false => loaded_path(path).unwrap_or_else(|| path.to_owned()),
    };
    Some(OpenedLibrary {
        library,
        path,
        handle: Arc::new(ManuallyDrop::new(opened)),
    })
}

/// Opens the parts of a library, which may need each other in any order. A part that does not open is left to the library.
fn open_parts(paths: &[PathBuf]) -> Vec<Handle> {
    let mut waiting: Vec<&PathBuf> = paths.iter().collect();
    let mut opened = Vec::new();
    loop {
        let before = waiting.len();
        waiting.retain(|path| match handle(path) {
            Some(part) => {
                opened.push(part);
                false
            }
            None => true,
        });
        if waiting.is_empty() || waiting.len() == before {
            return opened;
        }
    }
}

fn handle(path: &Path) -> Option<Handle> {
    // Parts find the functions of each other. SAFETY: opening one of NVIDIA's libraries runs its initialization, and
    // nothing else.
    unsafe { Handle::open(Some(path), RTLD_LAZY | RTLD_GLOBAL).ok() }
}

/// The file that the system's loader has taken for a name.
fn loaded_path(name: &Path) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let stem = name.file_name()?.to_str()?.split(".so").next()?.to_owned() + ".so";
    let paths = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    let is_it = |path: &&Path| {
        let file = path.file_name().and_then(|f| f.to_str());
        file.is_some_and(|f| f.starts_with(&stem))
    };
    paths.into_iter().find(is_it).map(Path::to_owned)
}
