//! Op sets: all ops of this crate, and ops of a program's own.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use thalweg_device::{Body, DeviceType, Op};
use thalweg_graph::op::{ArgType, Effect};
use thalweg_graph::{OpDef, Registry};
use thiserror::Error;

use crate::families::ops;
use crate::fused;

/// The ops that a program uses: all ops of Thalweg, and those that the program defines itself.
///
/// A graph takes the definitions from it ([`NewGraph::with_ops`](crate::NewGraph::with_ops)), a session or a server
/// the kernels (`SessionOptions::ops`).
///
/// ```
/// use thalweg_device::{Op, Prepared, cpu};
/// use thalweg_graph::op::{Gradient, arg, type_attr};
/// use thalweg_graph::{Graph, OpDef};
/// use thalweg_ops::{MathOps, NewGraph, OpSet, SourceOps};
/// use thalweg_tensor::DType;
///
/// static TWICE: Op = Op {
///     def: OpDef {
///         name: "Twice",
///         summary: "The element times two.",
///         inputs: &[arg("x", "T")],
///         outputs: &[arg("y", "T")],
///         attrs: &[type_attr("T", &[DType::F32])],
///         shape: |cx| {
///             cx.set(0, cx.shape(0).clone());
///             Ok(())
///         },
///         gradient: Gradient::Rule(|cx| FromIterator::from_iter([Some(cx.grad() * 2.0)])),
///         ..OpDef::EMPTY
///     },
///     kernels: &[cpu(|p| {
///         Ok(Prepared::new(p.outputs[0].elements(), |cx| {
///             let (x, y) = (cx.input::<f32>(0)?, cx.output::<f32>(0)?);
///             y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
///             Ok(())
///         }))
///     })],
/// };
///
/// # fn main() -> Result<(), thalweg_ops::OpSetError> {
/// let ops = OpSet::new([&TWICE])?;
/// let g = Graph::with_ops(&ops);
/// let y = g.op("Twice").input(g.constant([1.0f32, 2.0])).output();
/// assert!(!y.is_invalid());
/// // The name of an op of Thalweg is taken.
/// static RELU: Op = Op { def: OpDef { name: "Relu", ..OpDef::EMPTY }, kernels: &[] };
/// assert!(OpSet::new([&RELU]).is_err());
/// # Ok(())
/// # }
/// ```
///
/// The default set has all ops of Thalweg, and no other.
#[derive(Clone, Default)]
pub struct OpSet {
    own: Arc<[&'static Op]>,
}

impl fmt::Debug for OpSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.own.iter().map(|op| op.def.name);
        f.write_str("OpSet of Thalweg's ops and ")?;
        f.debug_list().entries(names).finish()
    }
}

impl OpSet {
    /// All ops of Thalweg, and these.
    ///
    /// # Errors
    /// [`OpSetError`]: a name that is taken or is no name, or a definition that contradicts itself.
    pub fn new(own: impl IntoIterator<Item = &'static Op>) -> Result<OpSet, OpSetError> {
        let own: Arc<[&'static Op]> = own.into_iter().collect();
        let mut taken: BTreeMap<&str, &str> =
            ops().map(|op| (op.def.name, "an op of Thalweg")).collect();
        for op in own.iter() {
            let name = op.def.name;
            check_name(name)?;
            if let Some(by) = taken.insert(name, "another op of this set") {
                return Err(OpSetError::Taken { name, by });
            }
            check_definition(op)?;
        }
        Ok(OpSet { own })
    }

    /// The definitions of all ops, for a graph.
    pub fn registry(&self) -> Registry {
        Registry::new(self.iter().map(|op| &op.def))
    }

    /// All ops: Thalweg's, then the program's own.
    pub fn iter(&self) -> impl Iterator<Item = &'static Op> + '_ {
        ops().chain(self.own.iter().copied())
    }

    /// All ops by name, with their kernels, and the fused ops that only the planner adds.
    pub fn kernels(&self) -> HashMap<&'static str, &'static Op> {
        let all = self.iter().chain(fused::OPS.iter().copied());
        all.map(|op| (op.def.name, op)).collect()
    }

    /// The program's own ops.
    pub fn own(&self) -> &[&'static Op] {
        &self.own
    }
}

/// The error of an op that cannot be part of a set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpSetError {
    /// A name that cannot be that of an op.
    #[error(
        "'{name}' is no name of an op: it begins with an upper-case letter and goes on with letters, digits, '_' and '>'"
    )]
    Name {
        /// The name.
        name: &'static str,
    },
    /// Two ops of one name.
    #[error(
        "op '{name}' has the name of {by}: rename it; a prefix such as 'Crate>{name}' is unique"
    )]
    Taken {
        /// The name.
        name: &'static str,
        /// The other one.
        by: &'static str,
    },
    /// A definition whose parts do not fit.
    #[error("op '{name}': {problem}")]
    Definition {
        /// The name.
        name: &'static str,
        /// The mistake.
        problem: String,
    },
}

fn check_name(name: &'static str) -> Result<(), OpSetError> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '>';
    match name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(part) {
        true => Ok(()),
        false => Err(OpSetError::Name { name }),
    }
}

fn check_definition(op: &'static Op) -> Result<(), OpSetError> {
    let def = &op.def;
    let wrong = |problem: String| {
        let name = def.name;
        Err(OpSetError::Definition { name, problem })
    };
    if let Some(unknown) = unknown_attribute(def) {
        return wrong(format!("it has no attribute '{unknown}'"));
    }
    let effects = [
        Effect::Pure,
        Effect::Random,
        Effect::Stateful,
        Effect::Write,
    ];
    if !effects.contains(&def.effect) {
        return wrong(format!(
            "its effect {:?} is one that the engine alone handles; an op of your own has one of {effects:?}",
            def.effect
        ));
    }
    if op.kernels.is_empty() {
        return wrong("it has no kernel".to_owned());
    }
    for kernel in op.kernels {
        let computes = matches!(
            kernel.body,
            Body::Compute(_) | Body::Tensors(_) | Body::Launch(_) | Body::Host
        );
        if !computes {
            return wrong(format!(
                "a kernel of it is {:?}, which only the engine's ops are",
                kernel.body
            ));
        }
        let restricted = kernel.dtypes.iter().find(|(a, _)| def.attr(a).is_none());
        if let Some((attr, _)) = restricted {
            return wrong(format!(
                "a kernel is for dtypes of '{attr}', which is no attribute"
            ));
        }
        let lists = |args: &[thalweg_graph::op::Arg]| args.iter().any(|a| a.is_list());
        let beyond = kernel.in_place.iter().find(|(input, output)| {
            (*input >= def.inputs.len() && !lists(def.inputs))
                || (*output >= def.outputs.len() && !lists(def.outputs))
        });
        if let Some(pair) = beyond {
            return wrong(format!(
                "a kernel shares {pair:?}, and there is no such input or output"
            ));
        }
        let on_cpu = |k: &thalweg_device::Kernel| k.device == Some(DeviceType::Cpu);
        if matches!(kernel.body, Body::Host) && !op.kernels.iter().any(on_cpu) {
            return wrong("it runs on a GPU's host, and has no kernel for CPUs".to_owned());
        }
    }
    Ok(())
}

/// The attribute that an input or output follows, and that the definition lacks.
fn unknown_attribute(def: &OpDef) -> Option<&'static str> {
    let args = def.inputs.iter().chain(def.outputs);
    let named = args.flat_map(|arg| {
        let ty = match arg.ty {
            ArgType::Attr(a) | ArgType::List(a) => Some(a),
            ArgType::Is(_) => None,
        };
        ty.into_iter().chain(arg.count)
    });
    named.into_iter().find(|a| def.attr(a).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    use thalweg_device::{Kernel, cpu_tensors, on_host};
    use thalweg_graph::op::{arg, arg_of, type_attr};
    use thalweg_tensor::DType;

    const KERNEL: Kernel = cpu_tensors(|_| Ok(Vec::new()));

    const fn op(name: &'static str) -> Op {
        Op {
            def: OpDef {
                name,
                ..OpDef::EMPTY
            },
            kernels: &[KERNEL],
        }
    }

    static FIRST: Op = op("First");
    static AGAIN: Op = op("First");
    static MATMUL: Op = op("MatMul");
    static INTERNAL: Op = op("_Hidden");
    static EMPTY: Op = op("");
    static SPACED: Op = op("Two words");
    static PREFIXED: Op = op("Mine>MatMul");

    fn refusal(own: &[&'static Op]) -> String {
        OpSet::new(own.iter().copied()).unwrap_err().to_string()
    }

    #[test]
    fn own_ops_stand_beside_all_others() {
        let set = OpSet::new([&FIRST, &PREFIXED]).unwrap();
        let registry = set.registry();
        assert!(registry.get("First").is_some() && registry.get("MatMul").is_some());
        assert_eq!(set.own().len(), 2);
        assert_eq!(set.iter().count(), ops().count() + 2);
        assert!(OpSet::default().own().is_empty());
        assert!(format!("{set:?}").contains("First"));
    }

    #[test]
    fn names_are_checked() {
        assert!(refusal(&[&MATMUL]).contains("an op of Thalweg: rename it"));
        assert!(refusal(&[&FIRST, &AGAIN]).contains("another op of this set"));
        for bad in [&INTERNAL, &EMPTY, &SPACED] {
            assert!(refusal(&[bad]).contains("is no name of an op"));
        }
    }

    #[test]
    fn definitions_that_contradict_themselves_are_refused() {
        static NO_ATTRIBUTE: Op = Op {
            def: OpDef {
                inputs: &[arg("x", "T")],
                ..op("A").def
            },
            kernels: &[KERNEL],
        };
        static NO_COUNT: Op = Op {
            def: OpDef {
                inputs: &[arg_of("x", DType::F32).list("N")],
                ..op("A").def
            },
            kernels: &[KERNEL],
        };
        static NO_KERNEL: Op = Op {
            kernels: &[],
            ..op("A")
        };
        static OTHER_DTYPES: Op = Op {
            kernels: &[KERNEL.only(&[("T", DType::FLOATS)])],
            ..op("A")
        };
        static BEYOND: Op = Op {
            def: OpDef {
                inputs: &[arg("x", "T")],
                attrs: &[type_attr("T", DType::FLOATS)],
                ..op("A").def
            },
            kernels: &[KERNEL.in_place(&[(0, 0)])],
        };
        static VIEW: Op = Op {
            kernels: &[Kernel {
                body: Body::View,
                ..KERNEL
            }],
            ..op("A")
        };
        static FLOW: Op = Op {
            def: OpDef {
                effect: Effect::Flow,
                ..op("A").def
            },
            ..op("A")
        };
        static NO_HOST: Op = Op {
            kernels: &[on_host()],
            ..op("A")
        };
        for (op, part) in [
            (&NO_ATTRIBUTE, "no attribute 'T'"),
            (&NO_COUNT, "no attribute 'N'"),
            (&NO_KERNEL, "no kernel"),
            (&OTHER_DTYPES, "dtypes of 'T'"),
            (&BEYOND, "shares (0, 0)"),
            (&VIEW, "a kernel of it is View"),
            (&FLOW, "its effect Flow"),
            (&NO_HOST, "no kernel for CPUs"),
        ] {
            let text = refusal(&[op]);
            assert!(
                text.starts_with("op 'A': ") && text.contains(part),
                "{text}"
            );
        }
    }
}
