//! Slices of tensors: the parts of partitioned variables.

use std::fmt;

use thalweg_tensor::Tensor;
use thalweg_tensor::shape::checked_elements;

use super::block::SharedBlock;
use super::proto;
use crate::error::CheckpointError;

/// A part of a tensor: a start and a length in each dimension, or the whole dimension.
///
/// The text is that of TensorFlow's `shape_and_slices`: the full dimensions, then for each dimension
/// `start,length`, or `-` for all of it.
///
/// ```
/// use thalweg_checkpoint::SliceSpec;
///
/// # fn main() -> Result<(), thalweg_checkpoint::CheckpointError> {
/// // The first two of four rows.
/// let slice = SliceSpec::parse("4 3 0,2:-")?;
/// assert_eq!(slice.full_dims(), [4, 3]);
/// assert_eq!(slice.dims(), [2, 3]);
/// assert_eq!(slice, SliceSpec::new(&[4, 3], &[Some((0, 2)), None])?);
/// assert_eq!(slice.to_string(), "4 3 0,2:-");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceSpec {
    full: Vec<usize>,
    extents: Vec<Option<(usize, usize)>>,
}

impl SliceSpec {
    /// The part of a tensor of dimensions `full` with this start and length in each dimension;
    /// `None` takes the whole dimension.
    ///
    /// # Errors
    /// [`CheckpointError::Slice`] if an extent is empty or exceeds its dimension, or the number of
    /// extents differs from the number of dimensions.
    pub fn new(
        full: &[usize],
        extents: &[Option<(usize, usize)>],
    ) -> Result<SliceSpec, CheckpointError> {
        let slice = SliceSpec {
            full: full.to_vec(),
            extents: extents.to_vec(),
        };
        let refused = |what: String| CheckpointError::Slice {
            slice: slice.to_string(),
            what,
        };
        if full.len() != extents.len() {
            let what = format!(
                ": it has {} dimensions and {} extents; give one extent to each dimension",
                full.len(),
                extents.len()
            );
            return Err(refused(what));
        }
        if checked_elements(full).is_none() {
            return Err(refused(
                ": no tensor has so many elements; check the full dimensions".to_owned(),
            ));
        }
        for (size, extent) in full.iter().zip(extents) {
            if let Some((start, length)) = extent
                && (*length == 0 || start.checked_add(*length).is_none_or(|end| end > *size))
            {
                let what = format!(
                    ": extent {start},{length} must have a length and lie in a dimension of {size}"
                );
                return Err(refused(what));
            }
        }
        Ok(slice)
    }

    /// All of a tensor of these dimensions.
    pub fn whole(full: &[usize]) -> SliceSpec {
        SliceSpec {
            full: full.to_vec(),
            extents: vec![None; full.len()],
        }
    }

    /// Parses TensorFlow's text, as `4 3 0,2:-`. An empty text, which there means no slice at all,
    /// is an error.
    ///
    /// # Errors
    /// [`CheckpointError::Slice`].
    pub fn parse(text: &str) -> Result<SliceSpec, CheckpointError> {
        let refused = |what: &str| CheckpointError::Slice {
            slice: format!("\"{text}\""),
            what: format!(": {what}; write it as \"4 3 0,2:-\""),
        };
        let (dims, extents) = text
            .rsplit_once(' ')
            .ok_or_else(|| refused("it needs dimensions, a space and extents"))?;
        let full = dims
            .split(' ')
            .map(|d| d.parse().ok())
            .collect::<Option<Vec<usize>>>()
            .ok_or_else(|| refused("a dimension is no number"))?;
        let extents = extents
            .split(':')
            .map(|extent| match extent {
                "-" => Some(None),
                _ => {
                    let (start, length) = extent.split_once(',')?;
                    Some(Some((start.parse().ok()?, length.parse().ok()?)))
                }
            })
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| refused("an extent is neither - nor start,length"))?;
        SliceSpec::new(&full, &extents)
    }

    /// Parses the text of a slice as the ops `SaveV2` and `RestoreV2` have it: an empty one means
    /// the whole tensor.
    ///
    /// # Errors
    /// As [`SliceSpec::parse`].
    ///
    /// ```
    /// use thalweg_checkpoint::SliceSpec;
    ///
    /// assert_eq!(SliceSpec::parse_or_whole(""), Ok(None));
    /// assert!(SliceSpec::parse_or_whole("4 3 0,2:-").is_ok_and(|slice| slice.is_some()));
    /// ```
    pub fn parse_or_whole(text: &str) -> Result<Option<SliceSpec>, CheckpointError> {
        match text {
            "" => Ok(None),
            text => SliceSpec::parse(text).map(Some),
        }
    }

    /// Cuts this part out of a tensor; `None` if the tensor has other dimensions than the slice is
    /// of.
    ///
    /// ```
    /// use thalweg_checkpoint::SliceSpec;
    /// use thalweg_tensor::Tensor;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let whole = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// let column = SliceSpec::parse("2 2 -:1,1")?.cut(&whole);
    /// assert_eq!(column, Some(Tensor::from([[2.0f32], [4.0]])));
    /// # Ok(())
    /// # }
    /// ```
    pub fn cut(&self, whole: &Tensor) -> Option<Tensor> {
        if whole.dims() != self.full {
            return None;
        }
        let (dims, from): (Vec<_>, Vec<_>) = self.ranges().map(|(start, len)| (len, start)).unzip();
        let block = SharedBlock {
            lengths: &dims,
            from_dims: &self.full,
            from: &from,
            to_dims: &dims,
            to: &vec![0; dims.len()],
        };
        if let Ok(all) = whole.as_strings() {
            let mut strings = Vec::new();
            block.for_each_run(|from, _, n| strings.extend(all.range(from..from + n)));
            return Tensor::strings(&dims, &strings).ok();
        }
        let (size, all) = (whole.dtype().size(), whole.bytes());
        let mut bytes = Vec::new();
        block.for_each_run(|from, _, n| bytes.extend_from_slice(&all[from * size..][..n * size]));
        Tensor::from_bytes(whole.dtype(), &dims, &bytes).ok()
    }

    /// The dimensions of the whole tensor.
    pub fn full_dims(&self) -> &[usize] {
        &self.full
    }

    /// The start and length in each dimension; `None` takes the whole dimension.
    pub fn extents(&self) -> &[Option<(usize, usize)>] {
        &self.extents
    }

    /// The dimensions of the slice.
    pub fn dims(&self) -> Vec<usize> {
        self.ranges().map(|(_, length)| length).collect()
    }

    /// `true` if the slice is the whole tensor.
    pub fn is_whole(&self) -> bool {
        self.dims() == self.full
    }

    /// The start and length in each dimension.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let both = self.full.iter().zip(&self.extents);
        both.map(|(&size, extent)| extent.unwrap_or((0, size)))
    }

    pub(crate) fn to_proto(&self) -> proto::Slice {
        let extent = self.extents.iter().map(|extent| match extent {
            None => proto::Extent::default(),
            Some((start, length)) => proto::Extent {
                start: *start as i64,
                length: Some(*length as i64),
            },
        });
        proto::Slice {
            extent: extent.collect(),
        }
    }

    pub(crate) fn from_proto(full: &[usize], slice: &proto::Slice) -> Option<SliceSpec> {
        let extents = slice.extent.iter().map(|extent| match extent.length {
            None => Some(None),
            Some(length) => Some(Some((
                usize::try_from(extent.start).ok()?,
                usize::try_from(length).ok()?,
            ))),
        });
        SliceSpec::new(full, &extents.collect::<Option<Vec<_>>>()?).ok()
    }
}

impl fmt::Display for SliceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for size in &self.full {
            write!(f, "{size} ")?;
        }
        for (i, extent) in self.extents.iter().enumerate() {
            if i > 0 {
                f.write_str(":")?;
            }
            match extent {
                None => f.write_str("-")?,
                Some((start, length)) => write!(f, "{start},{length}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::SliceSpec;

    #[test]
    fn invalid_slice_texts_are_errors() {
        for (text, why) in [
            ("", "it needs dimensions"),
            ("4", "it needs dimensions"),
            ("a -", "a dimension is no number"),
            ("4 3 0,2", "2 dimensions and 1 extents"),
            (
                "4 0,5",
                "extent 0,5 must have a length and lie in a dimension of 4",
            ),
            ("4 0,0", "must have a length"),
            ("4 18446744073709551615,2", "lie in a dimension of 4"),
            ("4 0;2", "an extent is neither"),
            ("4294967296 4294967296 4294967296 -:-:-", "so many elements"),
        ] {
            let said = SliceSpec::parse(text).unwrap_err().to_string();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
