//! Node checks: every node, from a builder, a file or a pass, is checked against its op's
//! definition here, and its outputs are inferred.
//!
//! ```
//! # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
//! use thalweg_graph::check::check_node;
//! use thalweg_graph::{Attrs, Fact, Reason};
//! use thalweg_tensor::{DType, Shape};
//!
//! let of = |dtype, dims| Fact::new(dtype, Shape::known(dims));
//! let inputs = [of(DType::F32, &[50, 1]), of(DType::F32, &[4])];
//! let (attrs, outputs) = check_node(&ops::ADD, &inputs, Attrs::default())?;
//! // The dtype follows from the inputs, and the shape from the op's rule.
//! assert_eq!(attrs.dtype("T"), Some(DType::F32));
//! assert_eq!(outputs[0].shape, Shape::known(&[50, 4]));
//!
//! let mixed = [of(DType::F32, &[]), of(DType::I32, &[])];
//! let refused = check_node(&ops::ADD, &mixed, Attrs::default());
//! assert!(matches!(refused, Err(Reason::InputType { input: 1, .. })));
//! # Ok::<(), Reason>(())
//! ```

use smallvec::SmallVec;

use crate::attr::{Attr, AttrKind};
use crate::error::Reason;
use crate::infer::Infer;
use crate::node::{Attrs, Fact};
use crate::op::{Allowed, ArgType, AttrDef, OpDef};
use thalweg_tensor::dtype::DType;
use thalweg_tensor::shape::Shape;

/// Completes `attrs` from the inputs and the defaults, and infers the outputs.
///
/// # Errors
/// Any mistake in the inputs or attributes.
pub fn check_node(
    op: &'static OpDef,
    inputs: &[Fact],
    mut attrs: Attrs,
) -> Result<(Attrs, SmallVec<[Fact; 1]>), Reason> {
    infer_counts(op, inputs, &mut attrs)?;
    infer_types(op, inputs, &mut attrs)?;
    for def in op.attrs {
        match attrs.get(def.name) {
            Some(value) => check_attr(def, value)?,
            None => {
                let value = def
                    .default
                    .value()
                    .ok_or(Reason::MissingAttr { attr: def.name })?;
                attrs.set(def.name, value);
            }
        }
    }
    let outputs = infer(op, inputs, &attrs)?;
    Ok((attrs, outputs))
}

/// The outputs of a node whose attributes are complete.
///
/// # Errors
/// The error of the op's shape rule.
pub fn infer(
    op: &'static OpDef,
    inputs: &[Fact],
    attrs: &Attrs,
) -> Result<SmallVec<[Fact; 1]>, Reason> {
    let mut outputs = SmallVec::new();
    for arg in op.outputs {
        for i in 0..arg.repeats(attrs) {
            outputs.push(Fact {
                reference: arg.reference,
                ..Fact::new(arg.dtype(i, attrs).unwrap_or(DType::F32), Shape::unknown())
            });
        }
    }
    let mut infer = Infer {
        op,
        attrs,
        inputs,
        outputs,
    };
    (op.shape)(&mut infer)?;
    Ok(infer.outputs)
}

/// The index of the input that a node's first output equals; see [`OpDef::same_as`].
pub fn same_as(op: &'static OpDef, inputs: &[Fact], attrs: &Attrs) -> Option<usize> {
    (op.same_as)(&Infer {
        op,
        attrs,
        inputs,
        outputs: SmallVec::new(),
    })
    .filter(|&i| i < inputs.len())
}

/// Infers the attributes that count the tensors of a list argument, if the op has one list.
fn infer_counts(op: &'static OpDef, inputs: &[Fact], attrs: &mut Attrs) -> Result<(), Reason> {
    let mut lists = op.inputs.iter().enumerate().filter(|(_, a)| a.is_list());
    let single = op.inputs.iter().filter(|a| !a.is_list()).count();
    if let (Some((at, list)), None) = (lists.next(), lists.next())
        && inputs.len() >= single
    {
        let len = inputs.len() - single;
        match (list.ty, list.count) {
            (ArgType::List(types), _) if attrs.get(types).is_none() => {
                let dtypes = inputs[at..at + len].iter().map(|f| f.dtype);
                attrs.set(types, Attr::Types(dtypes.collect()));
            }
            (_, Some(count)) if attrs.get(count).is_none() && len > 0 => {
                attrs.set(count, Attr::Int(len as i64));
            }
            _ => {}
        }
    }
    let expected: usize = op.inputs.iter().map(|a| a.repeats(attrs)).sum();
    if expected != inputs.len() {
        return Err(Reason::InputCount {
            expected,
            found: inputs.len(),
        });
    }
    Ok(())
}

/// Infers dtype attributes from the inputs that they describe, and checks that those agree.
fn infer_types(op: &'static OpDef, inputs: &[Fact], attrs: &mut Attrs) -> Result<(), Reason> {
    let mut input = 0;
    for arg in op.inputs {
        for i in 0..arg.repeats(attrs) {
            let fact = &inputs[input];
            if let ArgType::Attr(attr) = arg.ty {
                match attrs.get(attr) {
                    Some(Attr::Type(_)) => {}
                    Some(other) => {
                        return Err(Reason::AttrKind {
                            attr,
                            expected: AttrKind::Type,
                            found: other.kind(),
                        });
                    }
                    None => attrs.set(attr, Attr::Type(fact.dtype)),
                }
            }
            let name = arg.name;
            if let Some(expected) = arg.dtype(i, attrs)
                && expected != fact.dtype
            {
                return Err(Reason::InputType {
                    input,
                    name,
                    expected,
                    found: fact.dtype,
                });
            }
            if arg.reference && !fact.reference {
                return Err(Reason::NoReference { input, name });
            }
            input += 1;
        }
    }
    Ok(())
}

/// The largest value of an attribute with a minimum: such an attribute counts tensors.
const MAX_COUNT: i64 = 1 << 20;

fn check_attr(def: &AttrDef, value: &Attr) -> Result<(), Reason> {
    if value.kind() != def.kind {
        return Err(Reason::AttrKind {
            attr: def.name,
            expected: def.kind,
            found: value.kind(),
        });
    }
    let allowed = match (def.allowed, value) {
        (Allowed::Types(types), Attr::Type(d)) if !types.contains(d) => {
            let names: Vec<_> = types.iter().map(|d| d.name()).collect();
            format!("one of {}", names.join(", "))
        }
        (Allowed::Strs(strs), Attr::Str(s)) if !strs.contains(&s.as_str()) => {
            format!("one of {}", strs.join(", "))
        }
        (Allowed::AtLeast(n), Attr::Int(v)) if *v < n || *v > MAX_COUNT => {
            format!("between {n} and {MAX_COUNT}")
        }
        _ => return Ok(()),
    };
    Err(Reason::AttrValue {
        attr: def.name,
        found: value.to_string(),
        allowed,
    })
}
