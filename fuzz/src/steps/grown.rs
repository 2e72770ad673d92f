//! Generates nodes of any op with valid inputs and attributes.

use thalweg_graph::op::{Allowed, Arg, ArgType, AttrDef, OpDef};
use thalweg_graph::{Attr, AttrKind, Func, Registry};
use thalweg_graphdef::GraphDef;
use thalweg_graphdef::messages::{AttrValue, NodeDef};
use thalweg_tensor::{DType, Shape};

use super::base::{Base, constant, node, of};
use super::follow::{follow, outputs};
use super::values::{int, small, string};

/// `true` if the argument accepts this dtype.
fn takes(arg: &Arg, def: &OpDef, dtype: DType) -> bool {
    match arg.ty {
        ArgType::Is(wanted) => wanted == dtype,
        ArgType::Attr(name) => match def.attr(name).map(|a| a.allowed) {
            Some(Allowed::Types(all)) => all.contains(&dtype),
            _ => true,
        },
        ArgType::List(_) => true,
    }
}

/// A cyclic sequence of bytes that drives the generation.
pub struct Seed {
    bytes: [u8; 2],
    turn: u8,
}

impl Seed {
    pub fn new(bytes: [u8; 2]) -> Seed {
        Seed { bytes, turn: 0 }
    }

    fn next(&mut self) -> u8 {
        let byte = self.bytes[usize::from(self.turn % 2)].wrapping_mul(self.turn | 1);
        self.turn = self.turn.wrapping_add(1);
        byte
    }
}

/// Adds a node of an op to a graph. Its inputs are values of the graph where they fit, and new nodes elsewhere. With a
/// zero seed the newest values are used.
pub fn grow(base: &mut Base, op: &OpDef, registry: &Registry, seed: [u8; 2]) -> NodeDef {
    grow_with(base, op, registry, &mut Seed::new(seed))
}

fn grow_with(base: &mut Base, op: &OpDef, registry: &Registry, seed: &mut Seed) -> NodeDef {
    let mut grown = node("", op.name, &[], &[]);
    for attr in op.attrs {
        if attr.default.value().is_none() {
            grown
                .attr
                .insert(attr.name.to_owned(), given(attr, &base.def, seed));
        }
    }
    let mut chosen: Vec<DType> = Vec::new();
    for (i, arg) in op.inputs.iter().enumerate() {
        // Two arguments of one attribute have one dtype.
        let same = |j: usize| matches!((arg.ty, op.inputs[j].ty), (ArgType::Attr(a), ArgType::Attr(b)) if a == b);
        let earlier = (0..i)
            .find(|&j| !op.inputs[j].is_list() && same(j))
            .and_then(|j| chosen.get(j).copied());
        for _ in 0..if arg.is_list() {
            1 + seed.next() % 2
        } else {
            1
        } {
            let fits = |d: DType| earlier.map_or(takes(arg, op, d), |e| e == d);
            let dtype = || {
                let floats = || {
                    DType::ALL
                        .into_iter()
                        .rev()
                        .find(|&d| d == DType::F32 && fits(d))
                };
                let any = || DType::ALL.into_iter().find(|&d| fits(d));
                earlier.or_else(floats).or_else(any).unwrap_or(DType::F32)
            };
            let (input, dtype) = match makers(op.name, arg, dtype()) {
                [] if arg.reference => made(base, arg, dtype(), seed),
                [] => found(&base.def, registry, &fits, seed)
                    .unwrap_or_else(|| made(base, arg, dtype(), seed)),
                makers => made_by(base, makers, registry, seed),
            };
            grown.input.push(input);
            chosen.push(dtype);
        }
    }
    follow(op, &chosen, &mut grown);
    grown.name = format!("grown_{}", base.def.node.len());
    base.def.node.push(grown.clone());
    grown
}

/// The ops that make an argument's value, for handles of resources other than variables.
fn makers(op: &str, arg: &Arg, dtype: DType) -> &'static [&'static str] {
    let about = |word: &str| op.contains(word);
    match (dtype, arg.reference) {
        (DType::String, true) if about("Queue") => {
            &["FIFOQueue", "RandomShuffleQueue", "PaddingFIFOQueue"]
        }
        (DType::String, true) if about("Stack") => &["Stack"],
        (DType::String, true) if about("Accumulator") => &["ConditionalAccumulator"],
        (DType::Resource, _) if about("Queue") => {
            &["FIFOQueueV2", "RandomShuffleQueueV2", "PaddingFIFOQueueV2"]
        }
        (DType::Resource, _) if about("Stack") => &["StackV2"],
        (DType::Resource, _) if about("TensorArray") => &["TensorArrayV3"],
        (DType::Resource, _) if about("Accumulator") => &["ResourceConditionalAccumulator"],
        (DType::Variant, _) if about("TensorList") => &[
            "EmptyTensorList",
            "TensorListReserve",
            "TensorListFromTensor",
        ],
        (DType::Variant, _) => &["OptionalFromValue", "OptionalNone", "EmptyTensorList"],
        _ => &[],
    }
}

/// A value of a new node of one of these ops.
fn made_by(
    base: &mut Base,
    makers: &[&str],
    registry: &Registry,
    seed: &mut Seed,
) -> (String, DType) {
    let maker = makers[usize::from(seed.next()) % makers.len()];
    let Some(op) = registry.get(maker) else {
        return (String::new(), DType::Resource);
    };
    // An existing resource may be shared.
    let there = base
        .def
        .node
        .iter()
        .rev()
        .find(|n| n.op == maker && seed.next() < 128);
    let node = there
        .cloned()
        .unwrap_or_else(|| grow_with(base, op, registry, seed));
    (
        node.name.clone(),
        outputs(op, &node)
            .first()
            .copied()
            .unwrap_or(DType::Resource),
    )
}

/// Finds a value of the graph that fits.
fn found(
    def: &GraphDef,
    registry: &Registry,
    fits: &dyn Fn(DType) -> bool,
    seed: &mut Seed,
) -> Option<(String, DType)> {
    let skip = usize::from(seed.next());
    // Some inputs are new nodes although there are fitting values.
    if skip >= 192 {
        return None;
    }
    let mut all = Vec::new();
    for node in def.node.iter().rev().filter(|n| n.name.len() < 64) {
        let Some(op) = registry.get(&node.op) else {
            continue;
        };
        let dtypes = outputs(op, node)
            .into_iter()
            .enumerate()
            .filter(|&(_, d)| fits(d));
        all.extend(dtypes.map(|(i, d)| (format!("{}:{i}", node.name), d)));
    }
    let count = all.len().max(1);
    all.into_iter().nth(skip % count)
}

/// A new value: a constant, or a variable with one.
fn made(base: &mut Base, arg: &Arg, dtype: DType, seed: &mut Seed) -> (String, DType) {
    let name = format!("made_{}", base.def.node.len());
    let dims: &[usize] = match seed.next() % 8 {
        0 | 1 => &[],
        2 => &[1],
        3 => &[3],
        4 => &[2, 3],
        5 => &[0],
        6 => &[2, 2, 2],
        _ => &[1, 4, 4, 2],
    };
    let handle = dtype == DType::Resource;
    let value = small(if handle { DType::F32 } else { dtype }, dims, seed.next());
    let Some(value) = value else {
        return (name, dtype);
    };
    if !handle && !arg.reference {
        base.def.node.push(constant(&name, &value));
        return (name, dtype);
    }
    let (initial, assign) = (format!("{name}_initial"), format!("{name}_assign"));
    let kind = [
        ("dtype", Attr::Type(value.dtype())),
        ("shape", Attr::Shape(value.shape())),
    ];
    let (variable, update) = if handle {
        ("VarHandleOp", "AssignVariableOp")
    } else {
        ("VariableV2", "Assign")
    };
    base.def.node.push(constant(&initial, &value));
    base.def.node.push(node(&name, variable, &[], &kind));
    let of = [(
        if handle { "dtype" } else { "T" },
        Attr::Type(value.dtype()),
    )];
    base.def
        .node
        .push(node(&assign, update, &[&name, &initial], &of));
    base.inits.push(assign);
    (name, dtype)
}

/// A value for an attribute that must be given.
fn given(attr: &AttrDef, def: &GraphDef, seed: &mut Seed) -> AttrValue {
    let byte = seed.next();
    let function = || {
        let all = def.library.iter().flat_map(|l| &l.function);
        let names: Vec<String> = all
            .filter_map(|f| Some(f.signature.as_ref()?.name.clone()))
            .collect();
        Func {
            name: names
                .get(usize::from(byte) % names.len().max(1))
                .cloned()
                .unwrap_or_default(),
            attrs: Vec::new(),
        }
    };
    of(&match (attr.kind, attr.allowed) {
        (AttrKind::Type, Allowed::Types(all)) if byte < 128 && all.contains(&DType::F32) => {
            Attr::Type(DType::F32)
        }
        (AttrKind::Type, Allowed::Types(all)) => Attr::Type(all[usize::from(byte) % all.len()]),
        (AttrKind::Type, _) => Attr::Type(DType::F32),
        (AttrKind::Int, Allowed::AtLeast(least)) => Attr::Int(least + i64::from(byte % 4)),
        (AttrKind::Int, _) => Attr::Int(int(byte)),
        (AttrKind::Float, _) => Attr::Float(f32::from(byte) / 16.0),
        (AttrKind::Bool, _) => Attr::Bool(byte & 1 == 1),
        (AttrKind::Str, Allowed::Strs(all)) => {
            Attr::Str(all[usize::from(byte) % all.len()].to_owned())
        }
        (AttrKind::Str, _) => Attr::Bytes(string(byte)),
        (AttrKind::Shape, _) => Attr::Shape(Shape::known(&vec![2; usize::from(byte % 3)])),
        (AttrKind::Tensor, _) => match small(DType::F32, &[2], byte) {
            Some(t) => Attr::Tensor(t),
            None => Attr::Int(0),
        },
        (AttrKind::Types, _) => Attr::Types(vec![DType::F32; usize::from(1 + byte % 2)]),
        (AttrKind::Shapes, _) => Attr::Shapes(vec![Shape::unknown(); usize::from(1 + byte % 2)]),
        (AttrKind::Func, _) => Attr::Func(function()),
        (AttrKind::Funcs, _) => Attr::Funcs(vec![function(), function()]),
        _ => attr_list(byte),
    })
}

fn attr_list(byte: u8) -> Attr {
    Attr::Ints(vec![1; usize::from(byte % 5)])
}
