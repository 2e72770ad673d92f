//! Search for CUDA's libraries: the folders that are looked into, in order, and the names of files in them.
//!
//! NVIDIA's wheels of Python hold names with a version only. So each folder is searched for those first, and the first
//! folder that has the library wins, by its absolute path: a copy of another version elsewhere is never mixed in.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Library;

/// Environment variable with folders of CUDA's libraries, separated by colons. It goes before all others.
pub(super) const FOLDERS_VARIABLE: &str = "THALWEG_CUDA_LIBRARIES";

/// Maximum number of entries of a folder that are looked at.
const MAX_ENTRIES: usize = 4096;

/// The folders in which a library may be, in order. The loader's own come between `before` and `after`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SearchFolders {
    /// Those of the variable, of the active Python's wheels, and of LD_LIBRARY_PATH.
    pub(super) before: Vec<PathBuf>,
    /// Those of the CUDA toolkit.
    pub(super) after: Vec<PathBuf>,
}

impl SearchFolders {
    /// The folders for a library, with the environment's variables.
    pub(super) fn of(
        library: Library,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> SearchFolders {
        let split = |name: &str| {
            let value = variable(name).unwrap_or_default();
            let folders: Vec<PathBuf> = std::env::split_paths(&value).collect();
            folders.into_iter().filter(|f| f.is_absolute())
        };
        let mut found = SearchFolders::default();
        found.before.extend(split(FOLDERS_VARIABLE));
        // The driver comes with the card's own, and in no wheel.
        if library != Library::Driver {
            for prefix in python_prefixes(&variable) {
                found.before.extend(wheel_folders(&prefix));
            }
            let toolkit = variable("CUDA_HOME").map(PathBuf::from);
            let toolkits = toolkit.into_iter().chain(["/usr/local/cuda".into()]);
            found
                .after
                .extend(toolkits.flat_map(|t| [t.join("lib64"), t.join("lib")]));
        }
        found.before.extend(split("LD_LIBRARY_PATH"));
        found
    }

    /// The file of a library in these folders, by its absolute path.
    pub(super) fn file(folders: &[PathBuf], library: Library) -> Option<PathBuf> {
        let candidates = folders
            .iter()
            .flat_map(|folder| library.files().iter().map(move |name| folder.join(name)));
        candidates.into_iter().find(|path| path.is_file())
    }
}

/// The folders in which the active Python is installed: those of a virtual environment, of conda, and of the first
/// `python3` in PATH.
fn python_prefixes(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut prefixes: Vec<PathBuf> = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .into_iter()
        .filter_map(|name| variable(name).map(PathBuf::from))
        .collect();
    let path = variable("PATH").unwrap_or_default();
    let python = std::env::split_paths(&path).find(|folder| folder.join("python3").is_file());
    prefixes.extend(python.as_deref().and_then(Path::parent).map(Path::to_owned));
    // The wheels that `pip install` without rights has written.
    prefixes.extend(variable("HOME").map(|home| Path::new(&home).join(".local")));
    prefixes.retain(|p| p.is_absolute());
    prefixes
}

/// The folders with libraries of NVIDIA's wheels of a Python: `lib/python3.12/site-packages/nvidia/cudnn/lib`.
fn wheel_folders(prefix: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for python in entries(&prefix.join("lib"), |name| name.starts_with("python3")) {
        for packages in ["site-packages", "dist-packages"] {
            let nvidia = python.join(packages).join("nvidia");
            let wheels = entries(&nvidia, |_| true).into_iter();
            found.extend(wheels.map(|w| w.join("lib")).filter(|f| f.is_dir()));
        }
    }
    found
}

/// The entries of a folder with such names, in the order of their names.
pub(super) fn entries(folder: &Path, named: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let Ok(all) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let paths = all.take(MAX_ENTRIES).filter_map(|e| e.ok());
    let wanted = paths.filter(|e| e.file_name().to_str().is_some_and(&named));
    let mut found: Vec<PathBuf> = wanted.map(|e| e.path()).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of this name, with empty files of these names.
    fn folder(name: &str, files: &[&str]) -> PathBuf {
        let own = format!("thalweg-search-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(own);
        for file in files {
            let path = folder.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, b"").unwrap();
        }
        folder
    }

    fn of(library: Library, variables: &[(&str, &Path)]) -> SearchFolders {
        SearchFolders::of(library, |name| {
            let found = variables.iter().find(|(n, _)| *n == name);
            found.map(|(_, path)| path.as_os_str().to_owned())
        })
    }

    #[test]
    fn wheels_go_before_the_folders_of_the_loader_and_the_variable_before_both() {
        let python = folder(
            "python",
            &[
                "lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so.9",
                "lib/python3.12/site-packages/nvidia/cu13/lib/libcublasLt.so.13",
            ],
        );
        let system = folder("system", &["libcudnn.so", "libcublasLt.so", "libnccl.so.2"]);
        let own = folder("own", &["libcudnn.so"]);
        let nvidia = python.join("lib/python3.12/site-packages/nvidia");
        let variables = [
            ("VIRTUAL_ENV", python.as_path()),
            ("LD_LIBRARY_PATH", system.as_path()),
        ];
        let file = |library, variables: &[(&str, &Path)]| {
            SearchFolders::file(&of(library, variables).before, library)
        };
        let cudnn = nvidia.join("cudnn/lib/libcudnn.so.9");
        assert_eq!(file(Library::Cudnn, &variables), Some(cudnn));
        let cublas = nvidia.join("cu13/lib/libcublasLt.so.13");
        assert_eq!(file(Library::CublasLt, &variables), Some(cublas));
        let nccl = system.join("libnccl.so.2");
        assert_eq!(file(Library::Nccl, &variables), Some(nccl));
        assert_eq!(file(Library::Nvrtc, &variables), None);
        let [first, second] = variables;
        let all = [first, second, (FOLDERS_VARIABLE, own.as_path())];
        assert_eq!(file(Library::Cudnn, &all), Some(own.join("libcudnn.so")));
        for folder in [python, system, own] {
            std::fs::remove_dir_all(folder).unwrap();
        }
    }

    #[test]
    fn a_name_with_a_version_goes_before_one_without() {
        let both = folder("both", &["libcudnn.so", "libcudnn.so.9"]);
        let found = SearchFolders::file(std::slice::from_ref(&both), Library::Cudnn);
        assert_eq!(found, Some(both.join("libcudnn.so.9")));
        std::fs::remove_dir_all(both).unwrap();
    }

    #[test]
    fn a_folder_that_is_not_absolute_is_passed_over() {
        let found = of(
            Library::Nvrtc,
            &[("LD_LIBRARY_PATH", Path::new("here:/there"))],
        );
        assert_eq!(found.before, [PathBuf::from("/there")]);
    }
}
