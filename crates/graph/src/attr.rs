//! Attributes: what a node says of its op beyond its inputs.

use std::fmt;

use crate::dtype::DType;
use crate::shape::Shape;
use crate::tensor::Tensor;

/// The value of an attribute. The kinds are those of TensorFlow's `AttrValue`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Attr {
    /// A dtype.
    Type(DType),
    /// An integer.
    Int(i64),
    /// A number.
    Float(f32),
    /// A flag.
    Bool(bool),
    /// A string.
    Str(String),
    /// A shape.
    Shape(Shape),
    /// A tensor.
    Tensor(Tensor),
    /// A list of integers.
    Ints(Vec<i64>),
    /// A list of dtypes.
    Types(Vec<DType>),
}

/// The kind of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrKind {
    /// [`Attr::Type`].
    Type,
    /// [`Attr::Int`].
    Int,
    /// [`Attr::Float`].
    Float,
    /// [`Attr::Bool`].
    Bool,
    /// [`Attr::Str`].
    Str,
    /// [`Attr::Shape`].
    Shape,
    /// [`Attr::Tensor`].
    Tensor,
    /// [`Attr::Ints`].
    Ints,
    /// [`Attr::Types`].
    Types,
}

impl fmt::Display for AttrKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AttrKind::Type => "type",
            AttrKind::Int => "int",
            AttrKind::Float => "float",
            AttrKind::Bool => "bool",
            AttrKind::Str => "string",
            AttrKind::Shape => "shape",
            AttrKind::Tensor => "tensor",
            AttrKind::Ints => "list(int)",
            AttrKind::Types => "list(type)",
        })
    }
}

impl Attr {
    /// The kind of this value.
    pub fn kind(&self) -> AttrKind {
        match self {
            Attr::Type(_) => AttrKind::Type,
            Attr::Int(_) => AttrKind::Int,
            Attr::Float(_) => AttrKind::Float,
            Attr::Bool(_) => AttrKind::Bool,
            Attr::Str(_) => AttrKind::Str,
            Attr::Shape(_) => AttrKind::Shape,
            Attr::Tensor(_) => AttrKind::Tensor,
            Attr::Ints(_) => AttrKind::Ints,
            Attr::Types(_) => AttrKind::Types,
        }
    }
}

impl fmt::Display for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: &[T]) -> fmt::Result {
            f.write_str("[")?;
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    f.write_str(",")?;
                }
                write!(f, "{item}")?;
            }
            f.write_str("]")
        }
        match self {
            Attr::Type(v) => write!(f, "{v}"),
            Attr::Int(v) => write!(f, "{v}"),
            Attr::Float(v) => write!(f, "{v:?}"),
            Attr::Bool(v) => write!(f, "{v}"),
            Attr::Str(v) => write!(f, "{v:?}"),
            Attr::Shape(v) => write!(f, "{v}"),
            Attr::Tensor(v) => write!(f, "{v}"),
            Attr::Ints(v) => list(f, v),
            Attr::Types(v) => list(f, v),
        }
    }
}

impl From<DType> for Attr {
    fn from(v: DType) -> Attr {
        Attr::Type(v)
    }
}

impl From<i64> for Attr {
    fn from(v: i64) -> Attr {
        Attr::Int(v)
    }
}

impl From<f32> for Attr {
    fn from(v: f32) -> Attr {
        Attr::Float(v)
    }
}

impl From<bool> for Attr {
    fn from(v: bool) -> Attr {
        Attr::Bool(v)
    }
}

impl From<&str> for Attr {
    fn from(v: &str) -> Attr {
        Attr::Str(v.to_owned())
    }
}

impl From<String> for Attr {
    fn from(v: String) -> Attr {
        Attr::Str(v)
    }
}

impl From<Shape> for Attr {
    fn from(v: Shape) -> Attr {
        Attr::Shape(v)
    }
}

impl From<Tensor> for Attr {
    fn from(v: Tensor) -> Attr {
        Attr::Tensor(v)
    }
}

impl From<&[i64]> for Attr {
    fn from(v: &[i64]) -> Attr {
        Attr::Ints(v.to_vec())
    }
}

impl From<Vec<i64>> for Attr {
    fn from(v: Vec<i64>) -> Attr {
        Attr::Ints(v)
    }
}

impl<const N: usize> From<[i64; N]> for Attr {
    fn from(v: [i64; N]) -> Attr {
        Attr::Ints(v.to_vec())
    }
}
