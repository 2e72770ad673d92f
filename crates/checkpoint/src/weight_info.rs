//! `WeightInfo`: the description of a tensor in a file of any format.

use thalweg_tensor::DType;

/// The description of a tensor in a file.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = std::env::temp_dir().join(format!("thalweg-info-{}.npz", std::process::id()));
/// use thalweg_tensor::Tensor;
///
/// thalweg_checkpoint::save_weights(&path, [("w", Tensor::vector(&[1i64, 2]))])?;
/// let weights = thalweg_checkpoint::Weights::open(&path)?;
/// let info = weights.info("w").ok_or("no w")?;
/// assert_eq!((info.dims, info.bytes, info.dtype_name.as_str()), (vec![2], 16, "i64"));
/// # std::fs::remove_file(&path)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WeightInfo {
    /// The tensor's name.
    pub name: String,
    /// Its dtype; `None` for one that this engine does not have.
    pub dtype: Option<DType>,
    /// The dtype's name, in any case.
    pub dtype_name: String,
    /// Its dimensions.
    pub dims: Vec<usize>,
    /// Its bytes in the file, uncompressed.
    pub bytes: u64,
}
