//! Watches the memory accesses of emulated kernels: `tests/emulator/watch.cpp`, which their libraries call.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW, Symbol};
use thalweg_device::gpu::{Arg, Launches};
use thalweg_tensor::Tensor;
use thalweg_tensor::sync::Unpoisoned;

/// The watcher has one shadow memory.
static WATCHING: Mutex<()> = Mutex::new(());

/// Memory that kernels may access.
#[derive(Clone)]
pub struct Region {
    pub name: String,
    pub address: u64,
    /// Length in bytes.
    pub len: usize,
    /// `false` for memory that may only be read after it was written.
    pub written: bool,
}

impl Region {
    /// The memory of a tensor.
    pub fn of(name: &str, tensor: &Tensor, written: bool) -> Region {
        Region {
            name: name.to_owned(),
            address: tensor.bytes().as_ptr() as u64,
            len: tensor.bytes().len(),
            written,
        }
    }

    /// Eight bytes that have a value.
    pub fn of_word(name: &str, address: u64) -> Region {
        Region {
            name: name.to_owned(),
            address,
            len: 8,
            written: true,
        }
    }

    /// The tables that launches read.
    pub fn of_tables(launches: &Launches) -> impl Iterator<Item = Region> {
        let args = launches.list.iter().flat_map(|l| &l.args);
        args.filter_map(|arg| match arg {
            Arg::Table(words) => Some(Region {
                name: "a table".to_owned(),
                address: words.as_ptr() as u64,
                len: size_of_val(&words[..]),
                written: true,
            }),
            _ => None,
        })
    }
}

/// Requests of warps to a kind of memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Transfers {
    pub requests: u64,
    /// Sectors of 32 bytes of global memory; passes over the banks of shared memory.
    pub transfers: u64,
    /// Transfers of the same bytes if they lay one after the other.
    pub least: u64,
}

/// Transfers of launches.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryTransfers {
    pub global: Transfers,
    pub shared: Transfers,
}

type Begin = unsafe extern "C" fn(bool);
type Count = unsafe extern "C" fn(*mut MemoryTransfers);
type AddRegion = unsafe extern "C" fn(*const c_char, *mut c_void, usize, bool);
type Each = extern "C" fn(*const c_char, *mut c_void);
type End = unsafe extern "C" fn(Each, *mut c_void);

pub struct Watcher {
    library: Library,
}

impl Watcher {
    /// Loads the watcher's library, for libraries of kernels that are loaded after it.
    pub fn open(path: &Path) -> Watcher {
        // SAFETY: the library runs no code when it is loaded but the constructors of its containers.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) };
        let library = library.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Watcher { library }
    }

    /// A function of the library.
    ///
    /// # Safety
    /// It has this type.
    unsafe fn function<F>(&self, name: &str) -> Symbol<F> {
        // SAFETY: by the caller's promise.
        let function = unsafe { self.library.get::<F>(name.as_bytes()) };
        function.unwrap_or_else(|e| panic!("{e}"))
    }

    /// Runs kernels that may access these regions alone. The findings are the error. `count` adds up transfers, which
    /// takes longer.
    pub fn watch(
        &self,
        regions: &[Region],
        count: Option<&mut MemoryTransfers>,
        run: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        let _alone = WATCHING.lock().unpoisoned();
        // SAFETY: types and order of the calls are those of `watch.cpp`; the watcher compares addresses and does not
        // follow them; `findings` outlives the call that fills it.
        unsafe {
            self.function::<Begin>("watch_begin")(count.is_some());
            let region = self.function::<AddRegion>("watch_region");
            for r in regions {
                let name = CString::new(r.name.as_str()).expect("a name without zeros");
                region(name.as_ptr(), r.address as *mut c_void, r.len, r.written);
            }
            let result = run();
            if let Some(count) = count {
                self.function::<Count>("watch_transfers")(count);
            }
            let mut findings: Vec<String> = Vec::new();
            self.function::<End>("watch_end")(keep, (&raw mut findings).cast());
            match findings.is_empty() {
                true => result,
                false => {
                    let lines: Vec<String> = findings.iter().map(|f| with_line(f)).collect();
                    Err(lines.join("\n        "))
                }
            }
        }
    }
}

/// Appends a finding to the vector behind `findings`.
extern "C" fn keep(finding: *const c_char, findings: *mut c_void) {
    // SAFETY: `watch` passes the vector, and the library a string that ends with zero.
    unsafe {
        let text = CStr::from_ptr(finding).to_string_lossy().into_owned();
        (*findings.cast::<Vec<String>>()).push(text);
    }
}

/// A finding with the lines of its instruction, innermost first.
fn with_line(finding: &str) -> String {
    let mut parts = finding.split('\t');
    let (Some(text), Some(library), Some(offset)) = (parts.next(), parts.next(), parts.next())
    else {
        return finding.to_owned();
    };
    let output = Command::new("addr2line")
        .args(["--inlines", "--basenames", "--exe", library, offset])
        .output();
    let lines = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
    let lines: Vec<String> = lines
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect();
    format!("{text}, at {}", lines.join(" < "))
}
