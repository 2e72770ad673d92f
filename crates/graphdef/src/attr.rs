//! Conversion of attributes to and from messages.
//!
//! ```
//! use std::collections::BTreeMap;
//! use thalweg_graph::{Attr, AttrKind};
//! use thalweg_graphdef::attr::{AttrCx, from_proto, to_proto};
//! use thalweg_graphdef::tensor::Budget;
//!
//! # fn main() -> Result<(), thalweg_graphdef::ValueError> {
//! let strides = Attr::Ints(vec![1, 2, 2, 1]);
//! let message = to_proto(&strides)?;
//! let mut cx = AttrCx { budget: &mut Budget::new(0), given: &BTreeMap::new() };
//! assert_eq!(from_proto(&message, Some(AttrKind::Ints), &mut cx)?, strides);
//! # Ok(())
//! # }
//! ```

use std::collections::BTreeMap;

use thalweg_graph::{Attr, AttrKind, Func};

use crate::dtype;
use crate::error::ValueError;
use crate::messages::attr_value::{ListValue, Value};
use crate::messages::{AttrValue, NameAttrList};
use crate::shape;
use crate::tensor::{self, Budget};

/// The context of reading attributes.
pub struct AttrCx<'a> {
    /// The budget for tensors whose elements the file does not list in full.
    pub budget: &'a mut Budget,
    /// In a function's body: the attributes that the function is used with.
    pub given: &'a BTreeMap<String, Attr>,
}

/// Converts a message to an attribute. An empty list has no element type of its own: it is taken
/// from `kind`, if that is known.
///
/// # Errors
/// The mistake; see [`ValueError`].
pub fn from_proto(
    proto: &AttrValue,
    kind: Option<AttrKind>,
    cx: &mut AttrCx<'_>,
) -> Result<Attr, ValueError> {
    Ok(match proto.value.as_ref().ok_or(ValueError::Empty)? {
        Value::S(v) => string(v.clone()),
        Value::I(v) => Attr::Int(*v),
        Value::F(v) => Attr::Float(*v),
        Value::B(v) => Attr::Bool(*v),
        Value::Type(v) => Attr::Type(dtype::from_number(*v)?),
        Value::Shape(v) => Attr::Shape(shape::from_proto(v)?),
        Value::Tensor(v) => Attr::Tensor(tensor::from_proto(v, cx.budget)?),
        Value::Func(v) => Attr::Func(func(v, cx)?),
        Value::List(v) => list(v, kind, cx)?,
        Value::Placeholder(name) => {
            let given = cx.given.get(name);
            given
                .ok_or_else(|| ValueError::Placeholder(name.clone()))?
                .clone()
        }
    })
}

fn string(bytes: Vec<u8>) -> Attr {
    match String::from_utf8(bytes) {
        Ok(text) => Attr::Str(text),
        Err(error) => Attr::Bytes(error.into_bytes()),
    }
}

fn func(proto: &NameAttrList, cx: &mut AttrCx<'_>) -> Result<Func, ValueError> {
    let attrs = proto.attr.iter();
    Ok(Func {
        name: proto.name.clone(),
        attrs: attrs
            .map(|(name, value)| Ok((name.clone(), from_proto(value, None, cx)?)))
            .collect::<Result<_, ValueError>>()?,
    })
}

fn list(list: &ListValue, kind: Option<AttrKind>, cx: &mut AttrCx<'_>) -> Result<Attr, ValueError> {
    let ListValue {
        s,
        i,
        f,
        b,
        r#type,
        shape,
        tensor,
        func: funcs,
    } = list;
    let filled = [
        (!s.is_empty(), AttrKind::Strs),
        (!i.is_empty(), AttrKind::Ints),
        (!f.is_empty(), AttrKind::Floats),
        (!b.is_empty(), AttrKind::Bools),
        (!r#type.is_empty(), AttrKind::Types),
        (!shape.is_empty(), AttrKind::Shapes),
        (!tensor.is_empty(), AttrKind::Tensors),
        (!funcs.is_empty(), AttrKind::Funcs),
    ];
    let mut kinds = filled.iter().filter(|(filled, _)| *filled).map(|(_, k)| *k);
    let kind = match (kinds.next(), kinds.next()) {
        (Some(_), Some(_)) => return Err(ValueError::MixedList),
        (Some(found), None) => found,
        (None, _) => kind.unwrap_or(AttrKind::Ints),
    };
    Ok(match kind {
        AttrKind::Strs => Attr::Strs(s.clone()),
        AttrKind::Floats => Attr::Floats(f.clone()),
        AttrKind::Bools => Attr::Bools(b.clone()),
        AttrKind::Types => Attr::Types(
            r#type
                .iter()
                .map(|t| dtype::from_number(*t))
                .collect::<Result<_, _>>()?,
        ),
        AttrKind::Shapes => Attr::Shapes(
            shape
                .iter()
                .map(shape::from_proto)
                .collect::<Result<_, _>>()?,
        ),
        AttrKind::Tensors => Attr::Tensors(
            tensor
                .iter()
                .map(|t| tensor::from_proto(t, cx.budget))
                .collect::<Result<_, _>>()?,
        ),
        AttrKind::Funcs => Attr::Funcs(
            funcs
                .iter()
                .map(|f| func(f, cx))
                .collect::<Result<_, _>>()?,
        ),
        _ => Attr::Ints(i.clone()),
    })
}

/// Converts an attribute to a message.
///
/// # Errors
/// [`ValueError::Handle`] for a tensor that holds a runtime object, and for kinds of attributes
/// that files do not have.
pub fn to_proto(attr: &Attr) -> Result<AttrValue, ValueError> {
    let list = |list: ListValue| Value::List(list);
    let empty = ListValue::default;
    let value = match attr {
        Attr::Type(v) => Value::Type(dtype::to_number(*v)),
        Attr::Int(v) => Value::I(*v),
        Attr::Float(v) => Value::F(*v),
        Attr::Bool(v) => Value::B(*v),
        Attr::Str(v) => Value::S(v.as_bytes().to_vec()),
        Attr::Bytes(v) => Value::S(v.clone()),
        Attr::Shape(v) => Value::Shape(shape::to_proto(v)),
        Attr::Tensor(v) => Value::Tensor(tensor::to_proto(v)?),
        Attr::Func(v) => Value::Func(func_to_proto(v)?),
        Attr::Ints(v) => list(ListValue {
            i: v.clone(),
            ..empty()
        }),
        Attr::Floats(v) => list(ListValue {
            f: v.clone(),
            ..empty()
        }),
        Attr::Bools(v) => list(ListValue {
            b: v.clone(),
            ..empty()
        }),
        Attr::Strs(v) => list(ListValue {
            s: v.clone(),
            ..empty()
        }),
        Attr::Types(v) => list(ListValue {
            r#type: v.iter().map(|d| dtype::to_number(*d)).collect(),
            ..empty()
        }),
        Attr::Shapes(v) => list(ListValue {
            shape: v.iter().map(shape::to_proto).collect(),
            ..empty()
        }),
        Attr::Tensors(v) => list(ListValue {
            tensor: v.iter().map(tensor::to_proto).collect::<Result<_, _>>()?,
            ..empty()
        }),
        Attr::Funcs(v) => list(ListValue {
            func: v.iter().map(func_to_proto).collect::<Result<_, _>>()?,
            ..empty()
        }),
        _ => return Err(ValueError::Handle),
    };
    Ok(AttrValue { value: Some(value) })
}

fn func_to_proto(func: &Func) -> Result<NameAttrList, ValueError> {
    let attrs = func.attrs.iter();
    Ok(NameAttrList {
        name: func.name.clone(),
        attr: attrs
            .map(|(name, attr)| Ok((name.clone(), to_proto(attr)?)))
            .collect::<Result<_, ValueError>>()?,
    })
}
