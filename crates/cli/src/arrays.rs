//! Arrays to feed, from NumPy's `.npy` files.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use npyz::{DType as NpyType, Deserialize, NpyFile, Order, TypeChar};
use thalweg_tensor::half::f16;
use thalweg_tensor::{Element, Tensor};

use crate::failure::Failure;

/// Reads a `.npy` file.
pub(crate) fn read(path: &Path) -> Result<Tensor, Failure> {
    let wrong = |reason: String| Failure::from(format!("{}: {reason}", path.display()));
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
    // Readers allocate the size of the header, so it is checked first.
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

/// Elements in row-major order: the last dimension changes fastest.
fn row_major<T: Clone>(elements: Vec<T>, dims: &[usize], order: Order) -> Vec<T> {
    if order == Order::C || dims.len() < 2 {
        return elements;
    }
    let mut at = vec![0usize; dims.len()];
    let mut row_major = Vec::with_capacity(elements.len());
    for _ in 0..elements.len() {
        let from = at
            .iter()
            .zip(dims)
            .rev()
            .fold(0, |index, (i, d)| index * d + i);
        row_major.push(elements[from].clone());
        for (i, d) in at.iter_mut().zip(dims).rev() {
            *i += 1;
            if *i < *d {
                break;
            }
            *i = 0;
        }
    }
    row_major
}
