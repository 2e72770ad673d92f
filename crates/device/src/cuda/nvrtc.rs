//! NVRTC: from CUDA C++ to a card's machine code, at run time.

use std::ffi::{CStr, CString, c_char};

use cudarc::nvrtc::sys::{self, nvrtcProgram, nvrtcResult};

use super::Library;
use crate::gpu::{Function, GpuError};

/// The compiler of kernels.
#[derive(Clone, Debug)]
pub struct Compiler {
    version: (i32, i32),
    /// `thalweg.cuh`, which every source includes.
    header: &'static str,
}

/// A program of the compiler, given back when it is dropped.
struct NvrtcProgram(nvrtcProgram);

impl Drop for NvrtcProgram {
    fn drop(&mut self) {
        // SAFETY: made by `nvrtcCreateProgram`, and not used afterwards.
        unsafe { sys::nvrtcDestroyProgram(&mut self.0) };
    }
}

/// A C string of text that may come with zeros in it, at which it ends.
fn c_string(text: &str) -> CString {
    let whole = text.split('\0').next().unwrap_or_default();
    CString::new(whole).unwrap_or_default()
}

impl Compiler {
    /// Opens NVRTC. `header` is the text of `thalweg.cuh`.
    ///
    /// # Errors
    /// [`GpuError::Missing`].
    pub fn open(header: &'static str) -> Result<Compiler, GpuError> {
        Library::Nvrtc.open()?;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the library is there, and both numbers live through the call.
        unsafe { sys::nvrtcVersion(&mut major, &mut minor) };
        Ok(Compiler {
            version: (major, minor),
            header,
        })
    }

    /// Its version: (13, 0).
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    /// Returns the properties that cubins depend on beside the function and the header.
    pub(super) fn options(function: &Function, architecture: &str) -> Vec<String> {
        let mut options = vec![
            // A real architecture, so that the assembler runs too.
            format!("--gpu-architecture={architecture}"),
            "--std=c++17".to_owned(),
        ];
        options.extend(
            function
                .macros()
                .iter()
                .map(|m| format!("--define-macro={m}")),
        );
        options
    }

    /// The machine code of a function's source, for its dtypes and an architecture (`sm_90`).
    ///
    /// # Errors
    /// [`GpuError::Compile`], with the compiler's log.
    pub fn cubin(&self, function: &Function, architecture: &str) -> Result<Vec<u8>, GpuError> {
        let options = Self::options(function, architecture);
        let failed = |log: String| GpuError::Compile {
            file: function.source.name,
            architecture: architecture.to_owned(),
            options: options.clone(),
            log,
        };
        let (text, header) = (c_string(function.source.text), c_string(self.header));
        let name = c_string(&format!("{}.cu", function.source.name));
        let (headers, includes) = ([header.as_ptr()], [c"thalweg.cuh".as_ptr()]);
        let mut raw: nvrtcProgram = std::ptr::null_mut();
        // SAFETY: the library was opened when `self` was made; every string and list lives through
        // the call, which copies them.
        let made = unsafe {
            sys::nvrtcCreateProgram(
                &mut raw,
                text.as_ptr(),
                name.as_ptr(),
                1,
                headers.as_ptr(),
                includes.as_ptr(),
            )
        };
        if made != nvrtcResult::NVRTC_SUCCESS {
            return Err(failed(format!("{made:?}")));
        }
        let program = NvrtcProgram(raw);
        let list: Vec<CString> = options.iter().map(|o| c_string(o)).collect();
        let pointers: Vec<*const c_char> = list.iter().map(|o| o.as_ptr()).collect();
        // SAFETY: the program was just made; the options live through the call.
        let compiled = unsafe {
            sys::nvrtcCompileProgram(program.0, pointers.len() as i32, pointers.as_ptr())
        };
        if compiled != nvrtcResult::NVRTC_SUCCESS {
            return Err(failed(log(&program)));
        }
        let mut size = 0;
        // SAFETY: the program is compiled; `size` lives through the call.
        let sized = unsafe { sys::nvrtcGetCUBINSize(program.0, &mut size) };
        let mut cubin = vec![0u8; size];
        // SAFETY: `cubin` has room for as many bytes as the library has said it will write.
        let got = unsafe { sys::nvrtcGetCUBIN(program.0, cubin.as_mut_ptr().cast()) };
        match (sized, got) {
            (nvrtcResult::NVRTC_SUCCESS, nvrtcResult::NVRTC_SUCCESS) if size > 0 => Ok(cubin),
            (sized, got) => Err(failed(format!("no machine code: {sized:?}, {got:?}"))),
        }
    }
}

/// Returns the compiler's log.
fn log(program: &NvrtcProgram) -> String {
    let mut size = 0;
    // SAFETY: the program lives; `size` lives through the call.
    unsafe { sys::nvrtcGetProgramLogSize(program.0, &mut size) };
    let mut text = vec![0u8; size + 1];
    // SAFETY: `text` has room for as many bytes as the library has said it will write.
    unsafe { sys::nvrtcGetProgramLog(program.0, text.as_mut_ptr().cast()) };
    let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
    text.to_string_lossy().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    use thalweg_tensor::DType;

    use crate::gpu::Source;

    static SOURCE: Source = Source {
        name: "unary",
        text: "",
    };

    #[test]
    fn the_compiler_gets_the_architecture_and_the_macros_of_the_function() {
        let function = Function {
            source: &SOURCE,
            name: "Tanh",
            types: [DType::F16][..].into(),
            large: true,
        };
        let options = [
            "--gpu-architecture=sm_90",
            "--std=c++17",
            "--define-macro=T_TYPE=f16",
            "--define-macro=T_FLOAT=1",
            "--define-macro=INDEX_64=1",
        ];
        assert_eq!(Compiler::options(&function, "sm_90"), options);
    }

    #[test]
    fn text_with_a_zero_ends_there() {
        for (text, expected) in [("", ""), ("a", "a"), ("a\0b", "a"), ("\0", "")] {
            assert_eq!(c_string(text).to_str().unwrap(), expected);
        }
    }
}
