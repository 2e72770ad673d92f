//! Attributes: a node's parameters beyond its inputs.
//!
//! ```
//! use thalweg_graph::{Attr, AttrKind, Func};
//! use thalweg_tensor::DType;
//!
//! // The builder of a node takes any value that converts to an attribute.
//! assert_eq!(Attr::from([1, 2, 2, 1]), Attr::Ints(vec![1, 2, 2, 1]));
//! assert_eq!(Attr::from(DType::F32).kind(), AttrKind::Type);
//! assert_eq!(Attr::from("SAME").kind(), AttrKind::Str);
//! assert_eq!(Attr::from(Func::named("body")).kind(), AttrKind::Func);
//! ```

use std::fmt;

use thalweg_tensor::Tensor;
use thalweg_tensor::dtype::DType;
use thalweg_tensor::shape::Shape;

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
    /// A string that is not UTF-8.
    Bytes(Vec<u8>),
    /// A list of numbers.
    Floats(Vec<f32>),
    /// A list of flags.
    Bools(Vec<bool>),
    /// A list of strings, of bytes.
    Strs(Vec<Vec<u8>>),
    /// A list of shapes.
    Shapes(Vec<Shape>),
    /// A list of tensors.
    Tensors(Vec<Tensor>),
    /// A function of the graph's library.
    Func(Func),
    /// A list of functions.
    Funcs(Vec<Func>),
}

/// A function of a graph's library, named by an attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct Func {
    /// Its name.
    pub name: String,
    /// The attributes that it is used with, by name.
    pub attrs: Vec<(String, Attr)>,
}

impl Func {
    /// The function of this name, without attributes.
    pub fn named(name: &str) -> Func {
        Func {
            name: name.to_owned(),
            attrs: Vec::new(),
        }
    }
}

/// The kind of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttrKind {
    /// [`Attr::Type`].
    Type,
    /// [`Attr::Int`].
    Int,
    /// [`Attr::Float`].
    Float,
    /// [`Attr::Bool`].
    Bool,
    /// [`Attr::Str`] or [`Attr::Bytes`].
    Str,
    /// [`Attr::Shape`].
    Shape,
    /// [`Attr::Tensor`].
    Tensor,
    /// [`Attr::Ints`].
    Ints,
    /// [`Attr::Types`].
    Types,
    /// [`Attr::Floats`].
    Floats,
    /// [`Attr::Bools`].
    Bools,
    /// [`Attr::Strs`].
    Strs,
    /// [`Attr::Shapes`].
    Shapes,
    /// [`Attr::Tensors`].
    Tensors,
    /// [`Attr::Func`].
    Func,
    /// [`Attr::Funcs`].
    Funcs,
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
            AttrKind::Floats => "list(float)",
            AttrKind::Bools => "list(bool)",
            AttrKind::Strs => "list(string)",
            AttrKind::Shapes => "list(shape)",
            AttrKind::Tensors => "list(tensor)",
            AttrKind::Func => "func",
            AttrKind::Funcs => "list(func)",
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
            Attr::Str(_) | Attr::Bytes(_) => AttrKind::Str,
            Attr::Shape(_) => AttrKind::Shape,
            Attr::Tensor(_) => AttrKind::Tensor,
            Attr::Ints(_) => AttrKind::Ints,
            Attr::Types(_) => AttrKind::Types,
            Attr::Floats(_) => AttrKind::Floats,
            Attr::Bools(_) => AttrKind::Bools,
            Attr::Strs(_) => AttrKind::Strs,
            Attr::Shapes(_) => AttrKind::Shapes,
            Attr::Tensors(_) => AttrKind::Tensors,
            Attr::Func(_) => AttrKind::Func,
            Attr::Funcs(_) => AttrKind::Funcs,
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
            Attr::Bytes(v) => write!(f, "\"{}\"", v.escape_ascii()),
            Attr::Floats(v) => list(f, v),
            Attr::Bools(v) => list(f, v),
            Attr::Strs(v) => {
                let text = |s: &Vec<u8>| format!("\"{}\"", s.escape_ascii());
                list(f, &v.iter().map(text).collect::<Vec<_>>())
            }
            Attr::Shapes(v) => list(f, v),
            Attr::Tensors(v) => list(f, v),
            Attr::Func(v) => write!(f, "{v}"),
            Attr::Funcs(v) => list(f, v),
        }
    }
}

impl fmt::Display for Func {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.attrs.is_empty() {
            return Ok(());
        }
        let attrs: Vec<String> = self.attrs.iter().map(|(n, a)| format!("{n}={a}")).collect();
        write!(f, "[{}]", attrs.join(","))
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

impl From<Vec<DType>> for Attr {
    fn from(v: Vec<DType>) -> Attr {
        Attr::Types(v)
    }
}

impl From<Vec<Shape>> for Attr {
    fn from(v: Vec<Shape>) -> Attr {
        Attr::Shapes(v)
    }
}

impl From<Vec<f32>> for Attr {
    fn from(v: Vec<f32>) -> Attr {
        Attr::Floats(v)
    }
}

impl From<Func> for Attr {
    fn from(v: Func) -> Attr {
        Attr::Func(v)
    }
}

impl From<Vec<Func>> for Attr {
    fn from(v: Vec<Func>) -> Attr {
        Attr::Funcs(v)
    }
}
