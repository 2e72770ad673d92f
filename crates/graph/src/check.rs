//! Checks a node against its op's definition and infers its outputs: the one gate through which
//! every node comes, from a builder, a file or a pass.

use smallvec::SmallVec;

use crate::attr::{Attr, AttrKind};
use crate::dtype::DType;
use crate::error::Reason;
use crate::infer::Infer;
use crate::node::{Attrs, Fact};
use crate::op::{Allowed, Arg, ArgType, AttrDef, OpDef};

/// Completes `attrs` from the inputs and the defaults, and infers the outputs.
///
/// # Errors
/// Whatever is wrong with the inputs or attributes.
pub fn check_node(
    op: &'static OpDef,
    inputs: &[Fact],
    mut attrs: Attrs,
) -> Result<(Attrs, SmallVec<[Fact; 1]>), Reason> {
    infer_counts(op, inputs.len(), &mut attrs)?;
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
/// What the op's shape rule says.
pub fn infer(
    op: &'static OpDef,
    inputs: &[Fact],
    attrs: &Attrs,
) -> Result<SmallVec<[Fact; 1]>, Reason> {
    let outputs = op
        .outputs
        .iter()
        .flat_map(|arg| {
            let dtype = match arg.ty {
                ArgType::Is(d) => d,
                ArgType::Attr(a) => attrs.dtype(a).unwrap_or(DType::F32),
            };
            std::iter::repeat_n(
                Fact::new(dtype, crate::shape::Shape::unknown()),
                repeats(arg, attrs),
            )
        })
        .collect();
    let mut infer = Infer {
        op,
        attrs,
        inputs,
        outputs,
    };
    (op.shape)(&mut infer)?;
    Ok(infer.outputs)
}

/// Which input a node's only output equals; see [`OpDef::same_as`].
pub fn same_as(op: &'static OpDef, inputs: &[Fact], attrs: &Attrs) -> Option<usize> {
    (op.same_as)(&Infer {
        op,
        attrs,
        inputs,
        outputs: SmallVec::new(),
    })
    .filter(|&i| i < inputs.len())
}

/// The most tensors that one list argument may have.
const MOST_REPEATS: i64 = 1 << 20;

fn repeats(arg: &Arg, attrs: &Attrs) -> usize {
    arg.count
        .map_or(1, |c| attrs.int(c).clamp(0, MOST_REPEATS) as usize)
}

/// The count of a list argument follows from the number of inputs, where the op has one list.
fn infer_counts(op: &'static OpDef, inputs: usize, attrs: &mut Attrs) -> Result<(), Reason> {
    let lists = op.inputs.iter().filter(|a| a.count.is_some()).count();
    let single = op.inputs.len() - lists;
    if let Some(count) = op.inputs.iter().find_map(|a| a.count)
        && lists == 1
        && attrs.get(count).is_none()
        && inputs > single
    {
        attrs.set(count, Attr::Int((inputs - single) as i64));
    }
    let expected: usize = op.inputs.iter().map(|a| repeats(a, attrs)).sum();
    if expected != inputs {
        return Err(Reason::InputCount {
            expected,
            found: inputs,
        });
    }
    Ok(())
}

/// Dtype attributes follow from the inputs that they describe, and those must agree.
fn infer_types(op: &'static OpDef, inputs: &[Fact], attrs: &mut Attrs) -> Result<(), Reason> {
    let mut i = 0;
    for arg in op.inputs {
        for _ in 0..repeats(arg, attrs) {
            let found = inputs[i].dtype;
            let expected = match arg.ty {
                ArgType::Is(d) => d,
                ArgType::Attr(a) => match attrs.get(a) {
                    Some(Attr::Type(d)) => *d,
                    Some(other) => {
                        return Err(Reason::AttrKind {
                            attr: a,
                            expected: AttrKind::Type,
                            found: other.kind(),
                        });
                    }
                    None => {
                        attrs.set(a, Attr::Type(found));
                        found
                    }
                },
            };
            if expected != found {
                return Err(Reason::InputType {
                    input: i,
                    name: arg.name,
                    expected,
                    found,
                });
            }
            i += 1;
        }
    }
    Ok(())
}

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
        (Allowed::AtLeast(n), Attr::Int(v)) if *v < n || *v > MOST_REPEATS => {
            format!("between {n} and {MOST_REPEATS}")
        }
        _ => return Ok(()),
    };
    Err(Reason::AttrValue {
        attr: def.name,
        found: value.to_string(),
        allowed,
    })
}
