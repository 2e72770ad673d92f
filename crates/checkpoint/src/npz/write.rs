//! Writer of `.npz` files.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thalweg_tensor::half::bf16;
use thalweg_tensor::{DType, Strings, Tensor};
use zip::write::FileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::disk::{self, AtomicFile, Disk};
use crate::error::CheckpointError;

/// A `.npz` file under construction: arrays are stored uncompressed, as by NumPy's `savez`. It
/// appears as a whole.
pub struct NpzWriter {
    disk: Arc<dyn Disk>,
    zip: ZipWriter<AtomicFile>,
    path: PathBuf,
    names: BTreeSet<String>,
}

impl NpzWriter {
    /// Begins to write a file.
    ///
    /// # Errors
    /// [`CheckpointError::Io`].
    pub fn create(disk: &Arc<dyn Disk>, path: &Path) -> Result<NpzWriter, CheckpointError> {
        Ok(NpzWriter {
            disk: disk.clone(),
            zip: ZipWriter::new(AtomicFile::create(disk, path)?),
            path: path.to_owned(),
            names: BTreeSet::new(),
        })
    }

    /// Adds an array. An array of bf16, which NumPy does not have, is stored as f32.
    ///
    /// # Errors
    /// [`CheckpointError::Duplicate`]; [`CheckpointError::Unsupported`] for strings that end in a
    /// zero byte, which NumPy cannot tell from shorter ones, and for runtime objects;
    /// [`CheckpointError::Io`].
    pub fn add(&mut self, name: &str, tensor: &Tensor) -> Result<(), CheckpointError> {
        let unsupported = |what: String| CheckpointError::unsupported(&self.path, Some(name), what);
        if self.names.contains(name) {
            return Err(CheckpointError::Duplicate {
                name: name.to_owned(),
                file: self.path.clone(),
            });
        }
        let mut strings = None;
        let (descr, bytes) = match tensor.dtype() {
            DType::BF16 => ("<f4".to_owned(), tensor.bytes().len().saturating_mul(2)),
            DType::String => {
                let all = tensor.as_strings().unwrap_or_default();
                if all.iter().any(|s| s.ends_with(&[0])) {
                    return Err(unsupported(
                        "has a string that ends in a zero byte, which NumPy's cannot: save a checkpoint instead"
                            .to_owned(),
                    ));
                }
                let longest = all.iter().map(<[u8]>::len).max().unwrap_or(0).max(1);
                strings = Some((all, longest));
                (format!("|S{longest}"), longest.saturating_mul(all.len()))
            }
            dtype => {
                let descr = descr(dtype).ok_or_else(|| {
                    unsupported(format!(
                        "cannot be written: its dtype is {dtype}, a thing of the runtime's; save variables"
                    ))
                })?;
                (descr.to_owned(), tensor.bytes().len())
            }
        };
        self.names.insert(name.to_owned());
        let options = FileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(bytes as u64 >= u64::from(u32::MAX) / 2);
        let head = header(&descr, tensor.dims());
        let started = self.zip.start_file(format!("{name}.npy"), options);
        let wrote = started.map_err(io::Error::other).and_then(|()| {
            self.zip.write_all(&head)?;
            match (strings, tensor.as_slice::<bf16>()) {
                (Some((all, longest)), _) => put_strings(&mut self.zip, all, longest),
                (None, Ok(narrow)) => put_bf16_as_f32(&mut self.zip, narrow),
                (None, Err(_)) => self.zip.write_all(tensor.bytes()),
            }
        });
        wrote.map_err(|e| CheckpointError::io(&self.path, "written", &e))
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// [`CheckpointError::Io`].
    pub fn finish(mut self) -> Result<(), CheckpointError> {
        let finished = self.zip.finish().map_err(io::Error::other);
        let file = finished.map_err(|e| CheckpointError::io(&self.path, "written", &e))?;
        file.finish()?;
        disk::sync_folder_of(&self.disk, &self.path)
    }
}

fn descr(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::I8 => "|i1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::U8 => "|u1",
        DType::U16 => "<u2",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
        DType::C64 => "<c8",
        DType::C128 => "<c16",
        DType::Bool => "|b1",
        _ => return None,
    })
}

/// The bytes before an array's elements, padded so that the elements begin at a multiple of 64.
fn header(descr: &str, dims: &[usize]) -> Vec<u8> {
    let shape = match dims {
        [one] => format!("({one},)"),
        _ => {
            let dims: Vec<_> = dims.iter().map(usize::to_string).collect();
            format!("({})", dims.join(", "))
        }
    };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let length = (10 + text.len() + 1).next_multiple_of(64) - 10;
    text.push_str(&" ".repeat(length - 1 - text.len()));
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(length as u16).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

fn put_strings(to: &mut impl Write, all: Strings<'_>, longest: usize) -> io::Result<()> {
    let mut filled = vec![0; longest];
    for string in all {
        filled.fill(0);
        filled[..string.len()].copy_from_slice(string);
        to.write_all(&filled)?;
    }
    Ok(())
}

fn put_bf16_as_f32(to: &mut impl Write, narrow: &[bf16]) -> io::Result<()> {
    for some in narrow.chunks(64 << 10) {
        let wide: Vec<f32> = some.iter().map(|v| v.to_f32()).collect();
        to.write_all(bytemuck::cast_slice(&wide))?;
    }
    Ok(())
}
