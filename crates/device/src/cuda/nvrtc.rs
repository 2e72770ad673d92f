//! NVRTC: from CUDA C++ to a card's machine code, at run time.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;

use super::Library;
use super::opened::OpenedLibrary;
use crate::gpu::{Function, GpuError};

/// The functions of the compiler, with the types of `nvrtc.h`; enums are numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct NvrtcApi {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> u32,
    create: unsafe extern "C" fn(
        *mut *mut c_void,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> u32,
    destroy: unsafe extern "C" fn(*mut *mut c_void) -> u32,
    compile: unsafe extern "C" fn(*mut c_void, c_int, *const *const c_char) -> u32,
    cubin_size: unsafe extern "C" fn(*mut c_void, *mut usize) -> u32,
    cubin: unsafe extern "C" fn(*mut c_void, *mut c_char) -> u32,
    log_size: unsafe extern "C" fn(*mut c_void, *mut usize) -> u32,
    log: unsafe extern "C" fn(*mut c_void, *mut c_char) -> u32,
}

impl NvrtcApi {
    /// The functions of the library.
    ///
    /// # Errors
    /// [`GpuError::Lacking`].
    pub(super) fn of(library: &OpenedLibrary) -> Result<NvrtcApi, GpuError> {
        // SAFETY: the fields have the types of the functions in `nvrtc.h`, enums as numbers.
        unsafe {
            Ok(NvrtcApi {
                version: library.function("nvrtcVersion")?,
                create: library.function("nvrtcCreateProgram")?,
                destroy: library.function("nvrtcDestroyProgram")?,
                compile: library.function("nvrtcCompileProgram")?,
                cubin_size: library.function("nvrtcGetCUBINSize")?,
                cubin: library.function("nvrtcGetCUBIN")?,
                log_size: library.function("nvrtcGetProgramLogSize")?,
                log: library.function("nvrtcGetProgramLog")?,
            })
        }
    }

    /// The library's version, major and minor.
    pub(super) fn version(&self) -> Result<(i32, i32), NvrtcCode> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both numbers live through the call.
        NvrtcCode::of(unsafe { (self.version)(&mut major, &mut minor) })?;
        Ok((major, minor))
    }
}

/// A code of the compiler that is none of success, as a number: newer libraries return codes that no list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NvrtcCode(u32);

impl NvrtcCode {
    fn of(code: u32) -> Result<(), NvrtcCode> {
        match code {
            0 => Ok(()),
            code => Err(NvrtcCode(code)),
        }
    }
}

impl fmt::Display for NvrtcCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NVRTC's error {}", self.0)
    }
}

/// The compiler of kernels.
#[derive(Clone, Debug)]
pub struct Compiler {
    api: NvrtcApi,
    version: (i32, i32),
    /// `thalweg.cuh`, which every source includes.
    header: &'static str,
}

/// A program of the compiler, given back when it is dropped.
struct NvrtcProgram {
    api: NvrtcApi,
    program: *mut c_void,
}

impl Drop for NvrtcProgram {
    fn drop(&mut self) {
        // SAFETY: made by `create`, and not used afterwards.
        unsafe { (self.api.destroy)(&mut self.program) };
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
        let api = NvrtcApi::of(&OpenedLibrary::open(Library::Nvrtc)?)?;
        let version = api.version().map_err(|e| GpuError::Driver {
            what: "tell the compiler's version",
            reason: e.to_string(),
        })?;
        Ok(Compiler {
            api,
            version,
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
        self.compiled(function, architecture, &[])
            .map(|(cubin, _)| cubin)
    }

    /// The assembler's report on the functions of a source, for its dtypes and an architecture: registers, stack frames and
    /// spills of each.
    ///
    /// # Errors
    /// As [`cubin`](Self::cubin).
    pub fn report(&self, function: &Function, architecture: &str) -> Result<String, GpuError> {
        let verbose = ["--ptxas-options=-v"];
        self.compiled(function, architecture, &verbose)
            .map(|(_, log)| log)
    }

    /// The machine code, and the log.
    fn compiled(
        &self,
        function: &Function,
        architecture: &str,
        more: &[&str],
    ) -> Result<(Vec<u8>, String), GpuError> {
        let mut options = Self::options(function, architecture);
        options.extend(more.iter().map(|&option| option.to_owned()));
        let failed = |log: String| GpuError::Compile {
            file: function.source.name,
            architecture: architecture.to_owned(),
            options: options.clone(),
            log,
        };
        let (text, header) = (c_string(function.source.text), c_string(self.header));
        let name = c_string(&format!("{}.cu", function.source.name));
        let (headers, includes) = ([header.as_ptr()], [c"thalweg.cuh".as_ptr()]);
        let api = self.api;
        let mut raw = std::ptr::null_mut();
        // SAFETY: every string and list lives through the call, which copies them.
        let made = unsafe {
            (api.create)(
                &mut raw,
                text.as_ptr(),
                name.as_ptr(),
                1,
                headers.as_ptr(),
                includes.as_ptr(),
            )
        };
        NvrtcCode::of(made).map_err(|e| failed(e.to_string()))?;
        let program = NvrtcProgram { api, program: raw };
        let list: Vec<CString> = options.iter().map(|o| c_string(o)).collect();
        let pointers: Vec<*const c_char> = list.iter().map(|o| o.as_ptr()).collect();
        // SAFETY: the program was just made; the options live through the call.
        let compiled = unsafe { (api.compile)(raw, pointers.len() as i32, pointers.as_ptr()) };
        NvrtcCode::of(compiled).map_err(|_| failed(log(&program)))?;
        let mut size = 0;
        // SAFETY: the program is compiled; `size` lives through the call.
        let sized = NvrtcCode::of(unsafe { (api.cubin_size)(raw, &mut size) });
        let mut cubin = vec![0u8; size];
        // SAFETY: `cubin` has room for as many bytes as the library has said it will write.
        let got = NvrtcCode::of(unsafe { (api.cubin)(raw, cubin.as_mut_ptr().cast()) });
        match sized.and(got) {
            Ok(()) if size > 0 => Ok((cubin, log(&program))),
            Ok(()) => Err(failed("no machine code".to_owned())),
            Err(e) => Err(failed(format!("no machine code: {e}"))),
        }
    }
}

/// Returns the compiler's log.
fn log(program: &NvrtcProgram) -> String {
    let mut size = 0;
    // SAFETY: the program lives; `size` lives through the call.
    unsafe { (program.api.log_size)(program.program, &mut size) };
    let mut text = vec![0u8; size + 1];
    // SAFETY: `text` has room for as many bytes as the library has said it will write.
    unsafe { (program.api.log)(program.program, text.as_mut_ptr().cast()) };
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
            multi_tensor: false,
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
