//! Decoding of JPEG files by libjpeg-turbo, whose bits are TensorFlow's, and of windows of them.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::NonNull;

use turbojpeg_sys as raw;

use super::jpeg::{header, without_lines_below};
use super::jpeg_color::{cmyk_to_rgb, convert};
use super::jpeg_header::Coding;
use super::limits::Limits;
use crate::error::check_len;
use crate::{Format, ImageError, Size, Window};

/// Widths of an MCU by libjpeg-turbo's numbers of subsamplings: 4:4:4, 4:2:2, 4:2:0, grey, 4:4:0, 4:1:1, 4:4:1.
const MCU_WIDTHS: [usize; 7] = [8, 16, 16, 8, 8, 32, 8];

/// Scans of a progressive file. Each costs a pass over the image, and can have few bytes.
const MAX_SCANS: c_int = 100;

/// Decoder by libjpeg-turbo.
#[derive(Default)]
pub(super) struct Jpeg {
    handle: Option<Handle>,
    /// Pixels that are not converted or cut yet.
    raw: Vec<u8>,
}

impl Jpeg {
    pub(super) fn decode(
        &mut self,
        bytes: &[u8],
        channels: usize,
        limits: &Limits,
        pixels: &mut Vec<u8>,
    ) -> Result<Size, ImageError> {
        let (header, size) = header(bytes, channels, limits)?;
        pixels.resize(size.elements(), 0);
        let handle = self.opened(bytes, size)?;
        if !matches!(header.coding, Coding::Cmyk | Coding::Ycck) {
            handle.decode(bytes, None, size, pixels)?;
            return Ok(size);
        }
        let inks = Size {
            channels: 4,
            ..size
        };
        self.decode_raw(bytes, None, inks)?;
        convert(&self.raw, pixels, |x| cmyk_to_rgb(x, header.adobe));
        Ok(size)
    }

    /// Decodes a window, which lies in the image.
    pub(super) fn decode_window(
        &mut self,
        bytes: &[u8],
        window: Window,
        channels: usize,
        limits: &Limits,
        pixels: &mut Vec<u8>,
    ) -> Result<Size, ImageError> {
        let (header, mut size) = header(bytes, channels, limits)?;
        let cut = without_lines_below(&header, bytes, window);
        let bytes = match &cut {
            Some((cut, lines)) => {
                size.height = *lines;
                cut
            }
            None => bytes,
        };
        let inks = matches!(header.coding, Coding::Cmyk | Coding::Ycck);
        let decoded = if inks { 4 } else { size.channels };
        let mcu = self.opened(bytes, size)?.mcu_width();
        let region = region_of(window, size, mcu);
        // Samplings without a name cannot be decoded in part.
        let part = (region != size.window()).then_some(region);
        self.decode_raw(bytes, part, Size::new(region.height, region.width, decoded))?;
        let line = window.width * size.channels;
        pixels.resize(window.height * line, 0);
        for (i, to) in pixels.chunks_exact_mut(line).enumerate() {
            let at = (window.y - region.y + i) * region.width + window.x - region.x;
            let from = &self.raw[at * decoded..][..window.width * decoded];
            match inks {
                true => convert(from, to, |x| cmyk_to_rgb(x, header.adobe)),
                false => to.copy_from_slice(from),
            }
        }
        Ok(Size::new(window.height, window.width, size.channels))
    }

    /// The handle, after it has read the header of a file whose size is known.
    fn opened(&mut self, bytes: &[u8], size: Size) -> Result<&mut Handle, ImageError> {
        let handle = match self.handle.take() {
            Some(handle) => handle,
            None => Handle::new()?,
        };
        let handle = self.handle.insert(handle);
        handle.open(bytes, size)?;
        Ok(handle)
    }

    /// Decodes an opened file into the buffer for pixels that are not converted.
    fn decode_raw(
        &mut self,
        bytes: &[u8],
        region: Option<Window>,
        size: Size,
    ) -> Result<(), ImageError> {
        self.raw.resize(size.elements(), 0);
        match &mut self.handle {
            Some(handle) => handle.decode(bytes, region, size, &mut self.raw),
            None => Err(ImageError::corrupt(Format::Jpeg, "it is not open")),
        }
    }
}

/// The part of an image that is decoded for a window: from the start of an MCU, and with the neighbours from which
/// colours at the edges of the window are interpolated.
fn region_of(window: Window, size: Size, mcu: Option<usize>) -> Window {
    /// Interpolated colours lie 2 pixels apart, in 4:1:1 they are not interpolated.
    const MARGIN: usize = 2;
    let Some(mcu) = mcu else {
        return size.window();
    };
    let y = window.y.saturating_sub(MARGIN);
    let x = window.x.saturating_sub(MARGIN) / mcu * mcu;
    Window {
        y,
        x,
        height: (window.y + window.height + MARGIN).min(size.height) - y,
        width: (window.x + window.width + MARGIN).min(size.width) - x,
    }
}

/// A decompressor of libjpeg-turbo.
struct Handle(NonNull<c_void>);

// SAFETY: a decompressor is a block of memory without ties to a thread, and a `&mut` is needed to use it.
unsafe impl Send for Handle {}

impl Handle {
    fn new() -> Result<Handle, ImageError> {
        // SAFETY: the call has no conditions; it returns null if there is no memory.
        let handle = unsafe { raw::tj3Init(raw::TJINIT_TJINIT_DECOMPRESS as c_int) };
        match NonNull::new(handle) {
            Some(handle) => Ok(Handle(handle)),
            None => Err(ImageError::Argument("no memory for a decoder".to_owned())),
        }
    }

    /// The error of a call that has returned `code`.
    fn check(&mut self, code: c_int) -> Result<(), ImageError> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the handle is alive. A warning is about damage in the data that TensorFlow accepts.
        let severity = unsafe { raw::tj3GetErrorCode(self.0.as_ptr()) };
        if severity == raw::TJERR_TJERR_WARNING as c_int {
            return Ok(());
        }
        // SAFETY: the handle is alive, and the text is terminated and lives until the next call.
        let text = unsafe { CStr::from_ptr(raw::tj3GetErrorStr(self.0.as_ptr())) };
        Err(ImageError::corrupt(Format::Jpeg, text.to_string_lossy()))
    }

    fn get(&mut self, parameter: raw::TJPARAM) -> c_int {
        // SAFETY: the handle is alive.
        unsafe { raw::tj3Get(self.0.as_ptr(), parameter as c_int) }
    }

    fn set(&mut self, parameter: raw::TJPARAM, value: c_int) -> Result<(), ImageError> {
        // SAFETY: the handle is alive; the call checks parameters and values.
        let code = unsafe { raw::tj3Set(self.0.as_ptr(), parameter as c_int, value) };
        self.check(code)
    }

    /// Reads the header of a file.
    fn open(&mut self, bytes: &[u8], size: Size) -> Result<(), ImageError> {
        self.set(raw::TJPARAM_TJPARAM_SCANLIMIT, MAX_SCANS)?;
        // SAFETY: the handle is alive, and the pointer and the length are those of a slice.
        let code =
            unsafe { raw::tj3DecompressHeader(self.0.as_ptr(), bytes.as_ptr(), bytes.len() as _) };
        self.check(code)?;
        let found = [
            raw::TJPARAM_TJPARAM_JPEGHEIGHT,
            raw::TJPARAM_TJPARAM_JPEGWIDTH,
        ]
        .map(|p| usize::try_from(self.get(p)).unwrap_or(0));
        match found == [size.height, size.width] {
            true => Ok(()),
            false => Err(ImageError::corrupt(Format::Jpeg, "it has several frames")),
        }
    }

    /// Width of an MCU of the opened file, if its sampling has a name.
    fn mcu_width(&mut self) -> Option<usize> {
        let sampling = usize::try_from(self.get(raw::TJPARAM_TJPARAM_SUBSAMP)).ok()?;
        MCU_WIDTHS.get(sampling).copied()
    }

    /// Decodes the opened file, or a region of it that begins at an MCU.
    fn decode(
        &mut self,
        bytes: &[u8],
        region: Option<Window>,
        size: Size,
        pixels: &mut [u8],
    ) -> Result<(), ImageError> {
        check_len(size, pixels.len())?;
        let region = region.unwrap_or(Window {
            y: 0,
            x: 0,
            height: 0,
            width: 0,
        });
        // A JPEG's sides have 16 bits.
        let region = raw::tjregion {
            x: region.x as c_int,
            y: region.y as c_int,
            w: region.width as c_int,
            h: region.height as c_int,
        };
        // SAFETY: the handle is alive; the call checks the region against the opened file.
        let code = unsafe { raw::tj3SetCroppingRegion(self.0.as_ptr(), region) };
        self.check(code)?;
        let format = match size.channels {
            1 => raw::TJPF_TJPF_GRAY,
            3 => raw::TJPF_TJPF_RGB,
            _ => raw::TJPF_TJPF_CMYK,
        };
        // SAFETY: the handle is alive; `bytes` is a slice whose header gave the size; the region has `size`, or there is
        // none and the image has it; and `pixels` has as many bytes as `size.height` lines of `size.width` pixels of
        // this format without gaps.
        let code = unsafe {
            raw::tj3Decompress8(
                self.0.as_ptr(),
                bytes.as_ptr(),
                bytes.len() as _,
                pixels.as_mut_ptr(),
                (size.width * size.channels) as c_int,
                format as c_int,
            )
        };
        self.check(code)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is alive, and nothing uses it any more.
        unsafe { raw::tj3Destroy(self.0.as_ptr()) };
    }
}
