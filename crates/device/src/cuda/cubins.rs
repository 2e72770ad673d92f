//! Disk cache of compiled kernels (cubins), so that a kernel is compiled once on a machine.
//!
//! A file is written under a name of its own and renamed when it is whole, so that processes that
//! compile the same thing do not disturb each other. It holds all that the code depends on, and a
//! checksum: one that is torn, or is of something else, counts as not there.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::Compiler;
use crate::gpu::{Function, GpuError};

/// Machine code of kernels: made ahead, kept from before, or compiled now.
#[derive(Debug)]
pub struct Cubins {
    /// The text of `thalweg.cuh`.
    header: &'static str,
    /// The compiler, or the reason that there is none: code that was made ahead needs none.
    compiler: Result<Compiler, GpuError>,
    /// The folder of code that was made ahead, by any version of the compiler. It is not written to.
    made: Option<PathBuf>,
    /// The folder of code of this machine's compiler.
    folder: Option<PathBuf>,
    /// Tells the files of this process apart.
    written: AtomicU64,
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
            folder,
            written: AtomicU64::new(0),
        }
    }

    /// Looks first into a folder that [`make`](Self::make) has filled.
    pub fn with_made(self, made: Option<PathBuf>) -> Cubins {
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
            if let Some(cubin) = kept(&made.join(file_name(function, &key)), &key) {
                return Ok(cubin);
            }
        }
        let compiler = self.compiler.as_ref().map_err(Clone::clone)?;
        let key = self.key(function, architecture, Some(compiler.version()));
        let name = file_name(function, &key);
        let path = self.folder.as_ref().map(|f| f.join(&name));
        if let Some(cubin) = path.as_ref().and_then(|path| kept(path, &key)) {
            return Ok(cubin);
        }
        let cubin = compiler.cubin(function, architecture)?;
        if let Some(folder) = &self.folder {
            // Where it cannot be kept, nothing is lost but time.
            let _ = self.write(folder, &name, &packed(&key, &cubin));
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
        let written = self.write(folder, &file_name(function, &key), &packed(&key, &cubin));
        written.map_err(|e| GpuError::Driver {
            what: "write machine code",
            reason: format!("{}: {e}", folder.display()),
        })
    }

    /// Writes a file, which is there whole or not at all.
    fn write(&self, folder: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let own = folder.join(format!("{}-{number}.part", std::process::id()));
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&own, bytes))
            .and_then(|()| fs::rename(&own, folder.join(name)))
            .inspect_err(|_| drop(fs::remove_file(&own)))
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

/// The machine code in a file, if it is there, whole and of this key.
fn kept(path: &Path, key: &[u8]) -> Option<Vec<u8>> {
    let file = fs::read(path).ok()?;
    unpacked(&file, key).map(<[u8]>::to_vec)
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

fn file_name(function: &Function, key: &[u8]) -> String {
    format!("{}-{:016x}.cubin", function.source.name, hash(key))
}

/// Key and machine code, each after its length, and a checksum.
fn packed(key: &[u8], cubin: &[u8]) -> Vec<u8> {
    let mut file = Vec::with_capacity(key.len() + cubin.len() + 24);
    for part in [key, cubin] {
        file.extend((part.len() as u64).to_le_bytes());
        file.extend(part);
    }
    let sum = hash(&file);
    file.extend(sum.to_le_bytes());
    file
}

/// The machine code of a file, if it is whole and of this key.
fn unpacked<'f>(file: &'f [u8], key: &[u8]) -> Option<&'f [u8]> {
    let (rest, sum) = file.split_last_chunk::<8>()?;
    if u64::from_le_bytes(*sum) != hash(rest) {
        return None;
    }
    let (own, rest) = part(rest)?;
    let (cubin, rest) = part(rest)?;
    (own == key && rest.is_empty()).then_some(cubin)
}

/// Some bytes after their length, and what follows.
fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<8>()?;
    let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
    rest.split_at_checked(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    use thalweg_tensor::DType;

    use crate::gpu::Source;

    #[test]
    fn a_file_that_is_torn_or_of_something_else_counts_as_not_there() {
        let file = packed(b"key", b"machine code");
        assert_eq!(unpacked(&file, b"key"), Some(&b"machine code"[..]));
        assert_eq!(unpacked(&file, b"another"), None);
        for len in 0..file.len() {
            assert_eq!(unpacked(&file[..len], b"key"), None);
        }
        for at in 0..file.len() {
            let mut torn = file.clone();
            torn[at] ^= 1;
            assert_eq!(unpacked(&torn, b"key"), None);
        }
        assert_eq!(unpacked(&packed(b"key", b""), b"key"), Some(&b""[..]));
    }

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
        made.write(&folder, &name, &packed(&key, b"code")).unwrap();
        assert_eq!(made.get(&float, "sm_90"), Ok(b"code".to_vec()));
        // For another architecture there is none, and no compiler either.
        assert_eq!(made.get(&float, "sm_80"), Err(GpuError::NoCard));
        assert_eq!(
            without_compiler("header").get(&float, "sm_90"),
            Err(GpuError::NoCard)
        );
        assert_eq!(made.make(&float, "sm_90", &folder), Err(GpuError::NoCard));
        // Nothing but whole files is left.
        let files: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|f| f.unwrap().file_name())
            .collect();
        assert_eq!(files, [name.as_str()]);
        fs::remove_dir_all(folder).unwrap();
    }
}
