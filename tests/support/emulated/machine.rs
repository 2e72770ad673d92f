//! The emulated machine of a library of kernels.

use std::ffi::c_void;
use std::sync::Mutex;

use libloading::Library;
use thalweg_tensor::sync::Unpoisoned;

/// Each library has one emulated machine as a global: launches are serialized.
static LAUNCHING: Mutex<()> = Mutex::new(());

/// The function of `ENTRY` in `emulator.h`.
type Launch = unsafe extern "C" fn(u32, u32, *mut *mut c_void, u32) -> i32;

/// The bytes of an argument of a function; 0 where it has no such argument.
pub fn size_of_argument(library: &Library, name: &str, i: usize) -> usize {
    type Size = unsafe extern "C" fn(u32) -> u32;
    // SAFETY: `ENTRY` defines it with this signature, and it only returns a number.
    unsafe {
        let size = library.get::<Size>(format!("size_{name}").as_bytes());
        size.expect("what ENTRY defines")(i as u32) as usize
    }
}

/// Runs a function of a library on a grid of blocks and threads.
///
/// # Safety
/// The arguments are those of the function, and their pointees are valid for its accesses.
pub unsafe fn run_emulated(
    library: &Library,
    name: &str,
    (blocks, threads): (u32, u32),
    args: &mut [*mut c_void],
    order: u32,
) -> Result<(), String> {
    // SAFETY: `ENTRY` defines it with this signature.
    let run = unsafe { library.get::<Launch>(format!("launch_{name}").as_bytes()) };
    let run = run.map_err(|e| e.to_string())?;
    let _alone = LAUNCHING.lock().unpoisoned();
    // SAFETY: by the caller's promise.
    match unsafe { run(blocks, threads, args.as_mut_ptr(), order) } {
        0 => Ok(()),
        _ => Err("threads of a block do not meet at one barrier".to_owned()),
    }
}
