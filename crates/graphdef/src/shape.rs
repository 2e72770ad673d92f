//! Conversion of shapes to and from messages.
//!
//! ```
//! use thalweg_graphdef::shape::{from_proto, to_proto};
//! use thalweg_tensor::Shape;
//!
//! # fn main() -> Result<(), thalweg_graphdef::ValueError> {
//! let batch = Shape::from([-1, 784]);
//! let message = to_proto(&batch);
//! assert_eq!((message.dim[0].size, message.dim[1].size), (-1, 784));
//! assert_eq!(from_proto(&message)?, batch);
//! # Ok(())
//! # }
//! ```

use thalweg_tensor::{Dims, Shape};

use crate::error::ValueError;
use crate::messages::TensorShapeProto;
use crate::messages::tensor_shape_proto::Dim;

/// The most dimensions of a shape; TensorFlow's limit.
const MAX_DIMS: usize = 254;

/// Converts a message to a shape; -1 stands for an unknown dimension.
///
/// # Errors
/// [`ValueError::Dim`] for other negative numbers, [`ValueError::Rank`] for more than 254 dimensions.
pub fn from_proto(proto: &TensorShapeProto) -> Result<Shape, ValueError> {
    if proto.unknown_rank {
        return Ok(Shape::unknown());
    }
    if proto.dim.len() > MAX_DIMS {
        return Err(ValueError::Rank(proto.dim.len()));
    }
    let dim = |d: &Dim| match d.size {
        -1 => Ok(None),
        size => usize::try_from(size)
            .map(Some)
            .map_err(|_| ValueError::Dim(size)),
    };
    let dims: Vec<_> = proto.dim.iter().map(dim).collect::<Result<_, _>>()?;
    Ok(Shape::partial(dims))
}

/// The dimensions of a tensor: all must be known.
///
/// # Errors
/// As [`from_proto`], and [`ValueError::UnknownShape`].
pub fn dims_from_proto(proto: Option<&TensorShapeProto>) -> Result<Dims, ValueError> {
    let Some(proto) = proto else {
        return Ok(Dims::new());
    };
    let shape = from_proto(proto)?;
    shape.to_dims().ok_or(ValueError::UnknownShape(shape))
}

/// Converts a shape to a message.
pub fn to_proto(shape: &Shape) -> TensorShapeProto {
    let dim = |size: i64| Dim {
        size,
        name: String::new(),
    };
    match shape.dims() {
        None => TensorShapeProto {
            dim: Vec::new(),
            unknown_rank: true,
        },
        Some(dims) => TensorShapeProto {
            dim: dims
                .iter()
                .map(|d| dim(d.and_then(|d| i64::try_from(d).ok()).unwrap_or(-1)))
                .collect(),
            unknown_rank: false,
        },
    }
}
