//! NumPy's files: arrays that are fed, and results that are kept.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read};
use std::path::Path;

use npyz::npz::NpzWriter;
use npyz::zip::CompressionMethod;
use npyz::zip::write::FileOptions;
use npyz::{AutoSerialize, DType as NpyType, Deserialize, NpyFile, Order, TypeChar, WriterBuilder};
use thalweg_tensor::half::{bf16, f16};
use thalweg_tensor::{DType, Element, Tensor, dispatch};

use crate::Failure;
use crate::output::Pending;

/// Reads a `.npy` file.
pub(crate) fn read(path: &Path) -> Result<Tensor, Failure> {
    let wrong = |what: String| Failure::from(format!("{}: {what}", path.display()));
    let file = File::open(path).map_err(|e| wrong(e.to_string()))?;
    let size = file.metadata().map_err(|e| wrong(e.to_string()))?.len();
    let npy = NpyFile::new(BufReader::new(file)).map_err(|e| wrong(e.to_string()))?;
    let kind = match npy.dtype() {
        NpyType::Plain(kind) => kind,
        other => {
            return Err(wrong(format!(
                "an array of {} cannot be fed",
                other.descr()
            )));
        }
    };
    let bytes = kind.num_bytes().unwrap_or(0) as u64;
    let dims: Option<Vec<usize>> = npy
        .shape()
        .iter()
        .map(|&d| usize::try_from(d).ok())
        .collect();
    let elements = npy.shape().iter().try_fold(1u64, |n, &d| n.checked_mul(d));
    // A header can promise anything, and readers make room for it.
    let dims = match (dims, elements.and_then(|n| n.checked_mul(bytes))) {
        (Some(dims), Some(all)) if all <= size => dims,
        _ => return Err(wrong("it has fewer bytes than its header says".to_owned())),
    };
    let tensor = match (kind.type_char(), kind.size_field()) {
        (TypeChar::Bool, _) => plain::<bool, _>(npy, &dims),
        (TypeChar::Float, 2) => plain::<f16, _>(npy, &dims),
        (TypeChar::Float, 4) => plain::<f32, _>(npy, &dims),
        (TypeChar::Float, 8) => plain::<f64, _>(npy, &dims),
        (TypeChar::Int, 1) => plain::<i8, _>(npy, &dims),
        (TypeChar::Int, 2) => plain::<i16, _>(npy, &dims),
        (TypeChar::Int, 4) => plain::<i32, _>(npy, &dims),
        (TypeChar::Int, 8) => plain::<i64, _>(npy, &dims),
        (TypeChar::Uint, 1) => plain::<u8, _>(npy, &dims),
        (TypeChar::Uint, 2) => plain::<u16, _>(npy, &dims),
        (TypeChar::Uint, 4) => plain::<u32, _>(npy, &dims),
        (TypeChar::Uint, 8) => plain::<u64, _>(npy, &dims),
        (TypeChar::ByteStr, _) => strings::<Vec<u8>, _>(npy, &dims),
        (TypeChar::UnicodeStr, _) => strings::<String, _>(npy, &dims),
        _ => Err(format!("an array of dtype {kind} cannot be fed").into()),
    };
    tensor.map_err(|e| wrong(e.to_string()))
}

fn plain<T: Element + Deserialize, R: Read>(
    npy: NpyFile<R>,
    dims: &[usize],
) -> Result<Tensor, Failure> {
    let order = npy.order();
    let elements = row_major(npy.into_vec::<T>()?, dims, order);
    Ok(Tensor::new(dims, &elements)?)
}

fn strings<S: Deserialize + AsRef<[u8]> + Clone, R: Read>(
    npy: NpyFile<R>,
    dims: &[usize],
) -> Result<Tensor, Failure> {
    let order = npy.order();
    let elements = row_major(npy.into_vec::<S>()?, dims, order);
    Ok(Tensor::strings(dims, &elements)?)
}

/// Elements in the order that tensors have: the last dimension changes fastest.
fn row_major<T: Clone>(elements: Vec<T>, dims: &[usize], order: Order) -> Vec<T> {
    if order == Order::C || dims.len() < 2 {
        return elements;
    }
    let mut at = vec![0usize; dims.len()];
    let mut turned = Vec::with_capacity(elements.len());
    for _ in 0..elements.len() {
        let from = at
            .iter()
            .zip(dims)
            .rev()
            .fold(0, |index, (i, d)| index * d + i);
        turned.push(elements[from].clone());
        for (i, d) in at.iter_mut().zip(dims).rev() {
            *i += 1;
            if *i < *d {
                break;
            }
            *i = 0;
        }
    }
    turned
}

/// Results as arrays of one `.npz` file, which appears when it is whole.
pub(crate) struct Results {
    pending: Pending,
    npz: NpzWriter<BufWriter<File>>,
    path: String,
}

impl Results {
    pub(crate) fn create(path: &Path) -> Result<Results, Failure> {
        let shown = path.display().to_string();
        let (pending, file) =
            Pending::create(path).map_err(|e| format!("{shown} cannot be written: {e}"))?;
        Ok(Results {
            pending,
            npz: NpzWriter::new(file),
            path: shown,
        })
    }

    /// Adds an array. One of bf16, which NumPy does not have, becomes one of f32.
    pub(crate) fn add(&mut self, name: &str, tensor: &Tensor) -> Result<(), Failure> {
        let added = match tensor.dtype() {
            DType::BF16 => {
                let wide = tensor
                    .as_slice::<bf16>()?
                    .iter()
                    .map(|v| v.to_f32())
                    .collect::<Vec<_>>();
                self.plain(name, tensor.dims(), &wide)
            }
            DType::String => self.strings(name, tensor),
            dtype => dispatch!(
                dtype,
                [F16 F32 F64 I8 I16 I32 I64 U8 U16 U32 U64 Bool],
                T => self.plain(name, tensor.dims(), tensor.as_slice::<T>()?),
                else Err(format!("no file holds {dtype}, which is a thing of the runtime's").into())
            ),
        };
        added.map_err(|e| format!("{name} cannot be kept in {}: {e}", self.path).into())
    }

    fn plain<T: AutoSerialize + Copy>(
        &mut self,
        name: &str,
        dims: &[usize],
        elements: &[T],
    ) -> Result<(), Failure> {
        let array = self.npz.array::<T>(name, options(size_of_val(elements)))?;
        let mut array = array.default_dtype().shape(&shape(dims)).begin_nd()?;
        array.extend(elements.iter().copied())?;
        Ok(array.finish()?)
    }

    fn strings(&mut self, name: &str, tensor: &Tensor) -> Result<(), Failure> {
        let all = tensor.as_strings()?;
        if all.iter().any(|s| s.ends_with(&[0])) {
            return Err("NumPy's strings cannot end in a zero byte, and one of these does".into());
        }
        let longest = all.iter().map(|s| s.len()).max().unwrap_or(0).max(1);
        let bytes = longest.saturating_mul(all.len());
        let array = self.npz.array::<[u8]>(name, options(bytes))?;
        let kind = NpyType::Plain(format!("|S{longest}").parse()?);
        let mut array = array.dtype(kind).shape(&shape(tensor.dims())).begin_nd()?;
        for string in all {
            array.push(string)?;
        }
        Ok(array.finish()?)
    }

    /// Puts the file in its place.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let failed = |e: String| Failure::from(format!("{} cannot be written: {e}", self.path));
        let file = self
            .npz
            .zip_writer()
            .finish()
            .map_err(|e| failed(e.to_string()))?;
        self.pending.finish(file).map_err(|e| failed(e.to_string()))
    }
}

fn shape(dims: &[usize]) -> Vec<u64> {
    dims.iter().map(|&d| d as u64).collect()
}

/// Arrays are stored as they are, as NumPy's `savez` does it.
fn options(bytes: usize) -> FileOptions {
    let options = FileOptions::default().compression_method(CompressionMethod::Stored);
    options.large_file(bytes as u64 >= u64::from(u32::MAX) / 2)
}
