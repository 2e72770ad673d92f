//! Chains of elementwise ops, computed in one pass: piece by piece, each small enough for a cache, by the kernels of the
//! ops themselves, so that a chain gives the same bits as its ops one by one.
//!
//! ```
//! use thalweg_ops::fused::chain::{InputKind, member_attr};
//!
//! // A bias of four beside a matrix of two rows, and a single number.
//! assert_eq!(InputKind::of(&[4], &[2, 4]), Some(InputKind::Row { len: 4, rank: 1 }));
//! assert_eq!(InputKind::of(&[], &[2, 4]), Some(InputKind::One));
//! // The chain's name for the attribute `T` of its second op.
//! assert_eq!(member_attr(1, "T"), "1.T");
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind};

use smallvec::{SmallVec, smallvec};
use thalweg_device::{
    Body, Cpu, DeviceType, Kernel, KernelError, Op, Operand, Prepare, Prepared, cpu,
};
use thalweg_graph::function::ARGUMENTS;
use thalweg_graph::op::{Gradient, arg, list_attr, type_attr};
use thalweg_graph::{Attr, AttrKind, Attrs, Node, OpDef};
use thalweg_tensor::shape::elements;
use thalweg_tensor::{DType, Dims};

use super::chain_run::{ArgSource, Chain, ChainOp};
use super::input_kind::MAX_PIECE;

pub use super::input_kind::InputKind;

/// Attribute with the names of the ops. The attributes of each op are attributes of the chain, named by [`member_attr`], and
/// so are [`ARGS`] and [`DTYPE`].
pub const OPS: &str = "ops";
/// Attribute of an op of a chain: sources of its inputs. A number from 0 on is an input of the chain; a negative one is an
/// earlier op: -1 is the first.
pub const ARGS: &str = "args";
/// Attribute of an op of a chain: dtype of its output.
pub const DTYPE: &str = "dtype";

/// Name of the chain's attribute for an attribute of one of its ops.
pub fn member_attr(number: usize, name: &str) -> String {
    format!("{number}.{name}")
}

/// A chain. Its output and that of each op have the same dimensions; an input has them too, or the last of them, or a
/// single element.
pub static CHAIN: Op = Op {
    def: OpDef {
        name: "_Fused",
        summary: "Elementwise ops in one pass.",
        inputs: &[ARGUMENTS],
        outputs: &[arg("output", "T")],
        attrs: &[
            list_attr("Tin", AttrKind::Types),
            type_attr("T", &DType::ALL),
            list_attr(OPS, AttrKind::Str),
        ],
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(prepare).in_place(&[(0, 0)])],
};

/// Kernel of a node on a CPU, for these dimensions, if the node is elementwise and has one output.
pub fn elementwise(
    cpu: &Cpu,
    op: &'static Op,
    node: &Node,
    inputs: &[Operand],
    output: Operand,
) -> Option<(&'static Kernel, Prepared)> {
    let kernel = op.kernels.iter().find(|k| k.takes(DeviceType::Cpu, node))?;
    let Body::Compute(prepare) = kernel.body else {
        return None;
    };
    let outputs = &[output];
    let wanted = Prepare {
        cpu,
        node,
        inputs,
        outputs,
    };
    // A kernel that panics here runs again alone, and its node is then named in the error.
    let prepared = catch_unwind(AssertUnwindSafe(|| prepare(&wanted)))
        .ok()?
        .ok()?;
    (prepared.each && prepared.scratch == 0).then_some((kernel, prepared))
}

/// Op `number` of a chain, of this name, with its attributes.
fn member(chain: &Node, number: usize, name: &[u8]) -> Option<(&'static Op, Attrs)> {
    let op = crate::families::ops().find(|op| op.def.name.as_bytes() == name)?;
    let (mut attrs, own) = (Attrs::default(), member_attr(number, ""));
    for (name, value) in chain.attrs.iter() {
        if let Some(name) = name.strip_prefix(&own) {
            attrs.set(name.to_owned(), value.clone());
        }
    }
    Some((op, attrs))
}

/// Kernel of a chain: the kernels of each of its ops, for a whole piece and for the last one.
pub fn prepare(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let missing = || KernelError::Argument("a chain of elementwise ops");
    let output = p.output_dims(0);
    let kinds: Option<SmallVec<[InputKind; 4]>> = p
        .inputs
        .iter()
        .map(|i| InputKind::of(&i.dims, output))
        .collect();
    let kinds = kinds.ok_or_else(missing)?;
    // Rows are the longest repeated input; a piece consists of whole rows.
    let rows = kinds.iter().filter_map(|k| match k {
        InputKind::Row { len, rank } => Some((*len, *rank)),
        _ => None,
    });
    let (row, rank) = rows.max().unwrap_or((1, 0));
    let (len, piece) = (elements(output), MAX_PIECE / row * row);
    let shape = |elements: usize| -> Dims {
        let rows = std::iter::once(elements / row);
        rows.chain(output[output.len() - rank..].iter().copied())
            .collect()
    };
    let (whole, last) = (shape(piece.min(len)), shape(len % piece));
    let Some(Attr::Strs(ops)) = p.node.attrs.get(OPS) else {
        return Err(missing());
    };
    let (mut chain_ops, mut cost): (Vec<ChainOp>, u64) = (Vec::new(), 0);
    // For each op: the inputs that it can overwrite.
    let mut overwritten: Vec<SmallVec<[usize; 2]>> = Vec::new();
    for (number, name) in ops.iter().enumerate() {
        let (op, attrs) = member(p.node, number, name).ok_or_else(missing)?;
        let (Some(Attr::Ints(args)), Some(&Attr::Type(dtype))) =
            (attrs.get(ARGS), attrs.get(DTYPE))
        else {
            return Err(missing());
        };
        let from = |&i: &i64| match usize::try_from(i) {
            Ok(input) => (input < kinds.len()).then_some(ArgSource::Input(input)),
            Err(_) => {
                let before = usize::try_from(-1 - i).ok()?;
                (before < chain_ops.len()).then_some(ArgSource::Earlier(before))
            }
        };
        let args: Option<SmallVec<[ArgSource; 2]>> = args.iter().map(from).collect();
        let args = args.ok_or_else(missing)?;
        let node = Node {
            op: &op.def,
            attrs: attrs.clone(),
            inputs: smallvec![],
            ..p.node.clone()
        };
        let chain_op = |dims: &Dims| {
            let operand = |dtype, dims: &[usize]| Operand {
                dtype,
                dims: dims.into(),
                value: None,
            };
            let of = |from: &ArgSource| match *from {
                ArgSource::Earlier(i) => operand(chain_ops[i].dtype, dims),
                ArgSource::Input(i) => match kinds[i] {
                    InputKind::Full => operand(p.inputs[i].dtype, dims),
                    InputKind::One => operand(p.inputs[i].dtype, &[]),
                    InputKind::Row { rank, .. } => {
                        operand(p.inputs[i].dtype, &output[output.len() - rank..])
                    }
                },
            };
            let inputs: SmallVec<[Operand; 4]> = args.iter().map(of).collect();
            elementwise(p.cpu, op, &node, &inputs, operand(dtype, dims)).ok_or_else(missing)
        };
        let ((kernel, on_whole), (_, on_last)) = (chain_op(&whole)?, chain_op(&last)?);
        let pieces = on_whole.cost.saturating_mul((len / piece) as u64);
        cost = cost.saturating_add(pieces).saturating_add(on_last.cost);
        let in_place = kernel.in_place.iter().filter(|(_, o)| *o == 0);
        overwritten.push(in_place.map(|(i, _)| *i).collect());
        chain_ops.push(ChainOp {
            run: [on_whole.run, on_last.run],
            args,
            dtype,
            buffer: 0,
        });
    }
    if chain_ops.is_empty() {
        return Err(missing());
    }
    let chain = Chain::new(chain_ops, &overwritten, kinds, piece, len);
    Ok(chain.prepared(p.cpu.pool().threads()).with_cost(cost))
}
