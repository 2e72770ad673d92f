//! NumPy's files of arrays, `.npz`: a zip file of `.npy` files.
//!
//! Source: NumPy's `lib/format.py`. NumPy has no bf16: such tensors are written as f32. Its strings
//! have a fixed length, to which shorter ones are padded with zeros.
//!
//! ```
//! use thalweg_checkpoint::{disk, npz};
//! use thalweg_tensor::Tensor;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let path = std::env::temp_dir().join(format!("thalweg-{}.npz", std::process::id()));
//! let mut file = npz::NpzWriter::create(&disk::system(), &path)?;
//! file.add("w", &Tensor::vector(&[1.0f32, 2.0]))?;
//! file.finish()?;
//! let file = npz::NpzReader::open(&path)?;
//! assert_eq!(file.tensor("w")?.to_vec::<f32>()?, [1.0, 2.0]);
//! # std::fs::remove_file(&path)?;
//! # Ok(())
//! # }
//! ```

mod array;
mod read;
mod write;

pub use read::NpzReader;
pub use write::NpzWriter;

#[cfg(test)]
mod tests;
