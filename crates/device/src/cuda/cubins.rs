//! Disk cache of compiled kernels (cubins), so that a kernel is compiled once on a machine.

use std::path::{Path, PathBuf};

use super::Compiler;
use super::disk_cache::{DiskCache, hash};
use crate::gpu::{Function, GpuError};

/// Machine code of kernels: made ahead, kept from before, or compiled now.
#[derive(Debug)]
pub struct Cubins {
    /// The text of `thalweg.cuh`.
    header: &'static str,
    /// The compiler, or the reason that there is none: code that was made ahead needs none.
    compiler: Result<Compiler, GpuError>,
    /// The folder of code that was made ahead, by any version of the compiler. It is not written to.
    made: Option<DiskCache>,
    /// Code of this machine's compiler.
    kept: Option<DiskCache>,
}

impl Cubins {
    /// With files in `folder`, which is made when there is something to keep; without one, nothing
    /// is kept. `header` is the text of `thalweg.cuh`.
    pub fn new(
        header: &'static str,
        compiler: Result<Compiler, GpuError>,
        folder: Option<PathBuf>,
    ) -> Cubins {
        Cubins {
            header,
            compiler,
            made: None,
            kept: folder.map(DiskCache::new),
        }
    }

    /// Looks first into a folder that [`make`](Self::make) has filled.
    pub fn with_made(self, made: Option<PathBuf>) -> Cubins {
        let made = made.map(DiskCache::new);
        Cubins { made, ..self }
    }

    /// Returns the default folder of the cache: `THALWEG_CACHE`, or `thalweg` in the user's folder of caches.
    pub fn usual_folder() -> Option<PathBuf> {
        let variable = |name| std::env::var_os(name).map(PathBuf::from);
        let own = variable("THALWEG_CACHE");
        let caches =
            || variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
        own.or_else(|| Some(caches()?.join("thalweg")))
    }

    /// Returns the folder of machine code that was made ahead, if the user names one: `THALWEG_CUBINS`.
    pub fn made_folder() -> Option<PathBuf> {
        std::env::var_os("THALWEG_CUBINS").map(PathBuf::from)
    }

    /// Returns the machine code of a function's source: made ahead, from disk, or compiled and kept there. Code that
    /// cannot be kept (a full disk, a folder that may not be written) is compiled all the same.
    ///
    /// # Errors
    /// [`GpuError::Compile`]; without a compiler, the reason that there is none.
    pub fn get(&self, function: &Function, architecture: &str) -> Result<Vec<u8>, GpuError> {
        if let Some(made) = &self.made {
            let key = self.key(function, architecture, None);
            if let Some(cubin) = made.get(&file_name(function, &key), &key) {
                return Ok(cubin);
            }
        }
        let compiler = self.compiler.as_ref().map_err(Clone::clone)?;
        let key = self.key(function, architecture, Some(compiler.version()));
        let name = file_name(function, &key);
        if let Some(cubin) = self.kept.as_ref().and_then(|kept| kept.get(&name, &key)) {
            return Ok(cubin);
        }
        let cubin = compiler.cubin(function, architecture)?;
        if let Some(kept) = &self.kept {
            // Where it cannot be kept, nothing is lost but time.
            let _ = kept.put(&name, &key, &cubin);
        }
        Ok(cubin)
    }

    /// Compiles a function's source for a machine that may have no compiler, or another version of
    /// it: that machine's `THALWEG_CUBINS` names the folder.
    ///
    /// # Errors
    /// As [`get`](Self::get), and where the file cannot be written.
    pub fn make(
        &self,
        function: &Function,
        architecture: &str,
        folder: &Path,
    ) -> Result<(), GpuError> {
        let compiler = self.compiler.as_ref().map_err(Clone::clone)?;
        let cubin = compiler.cubin(function, architecture)?;
        let key = self.key(function, architecture, None);
        let cache = DiskCache::new(folder.to_owned());
        let written = cache.put(&file_name(function, &key), &key, &cubin);
        written.map_err(|e| GpuError::Driver {
            what: "write machine code",
            reason: format!("{}: {e}", folder.display()),
        })
    }

    /// Returns all that the machine code depends on; the compiler's version is left out for code that is made ahead.
    fn key(&self, function: &Function, architecture: &str, version: Option<(i32, i32)>) -> Vec<u8> {
        let version = version.map(|(major, minor)| format!("{major}.{minor}"));
        let mut key = format!("{}\n", version.unwrap_or_default()).into_bytes();
        for option in Compiler::options(function, architecture) {
            key.extend(option.into_bytes());
            key.push(b'\n');
        }
        key.extend(self.header.as_bytes());
        key.extend(function.source.text.as_bytes());
        key
    }
}

fn file_name(function: &Function, key: &[u8]) -> String {
    format!("{}-{:016x}.cubin", function.source.name, hash(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    use thalweg_tensor::DType;

    use crate::gpu::Source;

    static SOURCE: Source = Source {
        name: "unary",
        text: "source",
    };
    static OTHER: Source = Source {
        name: "unary",
        text: "changed",
    };

    fn function(source: &'static Source, dtype: DType) -> Function {
        Function {
            source,
            name: "Tanh",
            types: [dtype][..].into(),
            large: false,
            multi_tensor: false,
        }
    }

    fn without_compiler(header: &'static str) -> Cubins {
        Cubins::new(header, Err(GpuError::NoCard), None)
    }

    #[test]
    fn code_depends_on_source_header_types_architecture_and_compiler() {
        let float = function(&SOURCE, DType::F32);
        let cubins = without_compiler("header");
        let key = cubins.key(&float, "sm_90", Some((13, 0)));
        let name = file_name(&float, &key);
        assert!(
            name.starts_with("unary-") && name.ends_with(".cubin"),
            "{name}"
        );
        let others = [
            cubins.key(&function(&OTHER, DType::F32), "sm_90", Some((13, 0))),
            cubins.key(&function(&SOURCE, DType::F64), "sm_90", Some((13, 0))),
            cubins.key(&float, "sm_80", Some((13, 0))),
            cubins.key(&float, "sm_90", Some((12, 9))),
            cubins.key(&float, "sm_90", None),
            without_compiler("newer").key(&float, "sm_90", Some((13, 0))),
        ];
        for other in others {
            assert_ne!(key, other);
            assert_ne!(name, file_name(&float, &other));
        }
    }

    #[test]
    fn code_that_was_made_ahead_needs_no_compiler() {
        let folder = std::env::temp_dir().join(format!("thalweg-cubins-{}", std::process::id()));
        let made = without_compiler("header").with_made(Some(folder.clone()));
        let float = function(&SOURCE, DType::F32);
        let key = made.key(&float, "sm_90", None);
        let name = file_name(&float, &key);
        let cache = DiskCache::new(folder.clone());
        cache.put(&name, &key, b"code").unwrap();
        assert_eq!(made.get(&float, "sm_90"), Ok(b"code".to_vec()));
        // For another architecture there is none, and no compiler either.
        assert_eq!(made.get(&float, "sm_80"), Err(GpuError::NoCard));
        assert_eq!(
            without_compiler("header").get(&float, "sm_90"),
            Err(GpuError::NoCard)
        );
        assert_eq!(made.make(&float, "sm_90", &folder), Err(GpuError::NoCard));
        // Nothing but whole files is left.
        let files: Vec<_> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|f| f.unwrap().file_name())
            .collect();
        assert_eq!(files, [name.as_str()]);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
