//! Chains of elementwise ops, in one pass: piece by piece, each small enough for a cache, by the kernels of the ops
//! themselves, so that a chain gives the same bits as its ops one by one.

use std::panic::{AssertUnwindSafe, catch_unwind};

use smallvec::{SmallVec, smallvec};
use thalweg_device::kernel::RunFn;
use thalweg_device::{
    Body, Cpu, DeviceType, Kernel, KernelCx, KernelError, Op, Operand, Prepare, Prepared, Slot, cpu,
};
use thalweg_graph::function::ARGUMENTS;
use thalweg_graph::op::{Gradient, arg, list_attr, type_attr};
use thalweg_graph::shape::elements;
use thalweg_graph::{Attr, AttrKind, Attrs, DType, Dims, Node, OpDef};

use crate::cpu::{ALIGN, Scratch, for_lanes, lanes_scratch};

/// Elements of a piece, at most: kernels run on it without splitting it, and some of them lie in a cache.
const PIECE: usize = 4096;

/// The attribute with the names of the ops. The attributes of each are the chain's under [`of_member`], and so are
/// [`ARGS`] and [`DTYPE`].
pub(super) const OPS: &str = "ops";
/// Of an op of a chain: where its inputs come from; from an input of the chain, or, below zero, from an op before it: -1 is
/// the first.
pub(super) const ARGS: &str = "args";
/// Of an op of a chain: the dtype of its output.
pub(super) const DTYPE: &str = "dtype";

/// The name under which a chain has an attribute of one of its ops.
pub(super) fn of_member(number: usize, name: &str) -> String {
    format!("{number}.{name}")
}

/// A chain. Its output, and that of each op, has the same dimensions; an input has them too, or the last of them, or a
/// single element.
pub(crate) static CHAIN: Op = Op {
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

/// What an input is beside the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It has the output's dimensions.
    Full,
    /// It has the last of them: so many elements, in so many dimensions.
    Row { len: usize, rank: usize },
    /// It has one element.
    One,
}

impl Kind {
    /// What an input of these dimensions is beside an output of those; none where it is neither.
    pub(super) fn of(dims: &[usize], output: &[usize]) -> Option<Kind> {
        if dims == output {
            return Some(Kind::Full);
        }
        if elements(dims) == 1 && dims.len() <= output.len() {
            return Some(Kind::One);
        }
        let leading = dims.iter().take_while(|&&d| d == 1).count();
        let (last, rank) = (&dims[leading..], dims.len() - leading);
        let (len, ends) = (elements(last), output.ends_with(last));
        (ends && dims.len() <= output.len() && (1..=PIECE).contains(&len))
            .then_some(Kind::Row { len, rank })
    }
}

/// The kernel that computes a node on a CPU, if it is elementwise and of one output; for these dimensions.
pub(super) fn elementwise(
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
    // A kernel that panics here is asked again, and then its node is named.
    let prepared = catch_unwind(AssertUnwindSafe(|| prepare(&wanted)))
        .ok()?
        .ok()?;
    (prepared.each && prepared.scratch == 0).then_some((kernel, prepared))
}

/// Where an argument of an op comes from.
#[derive(Clone, Copy)]
enum From {
    Input(usize),
    /// The op of this number.
    Before(usize),
}

/// An op of a chain.
struct Link {
    args: SmallVec<[From; 2]>,
    dtype: DType,
    /// The buffer that its output lies in; the last one's lies in the chain's.
    buffer: usize,
    /// For a whole piece, and for the last one.
    run: [RunFn; 2],
}

struct Chain {
    links: Vec<Link>,
    kinds: SmallVec<[Kind; 4]>,
    buffers: usize,
    /// Elements of a piece, and of all.
    piece: usize,
    len: usize,
}

pub(super) fn prepare(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let missing = || KernelError::Argument("a chain of elementwise ops");
    let output = p.output_dims(0);
    let kinds: Option<SmallVec<[Kind; 4]>> =
        p.inputs.iter().map(|i| Kind::of(&i.dims, output)).collect();
    let kinds = kinds.ok_or_else(missing)?;
    // The longest row, and how many of them are a piece.
    let rows = kinds.iter().filter_map(|k| match k {
        Kind::Row { len, rank } => Some((*len, *rank)),
        _ => None,
    });
    let (row, rank) = rows.max().unwrap_or((1, 0));
    let (len, piece) = (elements(output), PIECE / row * row);
    let shape = |elements: usize| -> Dims {
        let rows = std::iter::once(elements / row);
        rows.chain(output[output.len() - rank..].iter().copied())
            .collect()
    };
    let (whole, last) = (shape(piece.min(len)), shape(len % piece));
    let Some(Attr::Strs(ops)) = p.node.attrs.get(OPS) else {
        return Err(missing());
    };
    let (mut links, mut cost): (Vec<Link>, u64) = (Vec::new(), 0);
    // By op: the inputs that it can be in place of.
    let mut overwritten: Vec<SmallVec<[usize; 2]>> = Vec::new();
    for (number, name) in ops.iter().enumerate() {
        let op = crate::ops()
            .find(|op| op.def.name.as_bytes() == &name[..])
            .ok_or_else(missing)?;
        let mut attrs = Attrs::default();
        let own = of_member(number, "");
        for (name, value) in p.node.attrs.iter() {
            if let Some(name) = name.strip_prefix(&own) {
                attrs.set(name.to_owned(), value.clone());
            }
        }
        let (Some(Attr::Ints(args)), Some(&Attr::Type(dtype))) =
            (attrs.get(ARGS), attrs.get(DTYPE))
        else {
            return Err(missing());
        };
        let from = |&i: &i64| match usize::try_from(i) {
            Ok(input) => (input < kinds.len()).then_some(From::Input(input)),
            Err(_) => {
                let before = usize::try_from(-1 - i).ok()?;
                (before < links.len()).then_some(From::Before(before))
            }
        };
        let args: Option<SmallVec<[From; 2]>> = args.iter().map(from).collect();
        let args = args.ok_or_else(missing)?;
        let node = Node {
            op: &op.def,
            attrs,
            inputs: smallvec![],
            ..p.node.clone()
        };
        let link = |dims: &Dims| {
            let operand = |dtype, dims: &[usize]| Operand {
                dtype,
                dims: dims.into(),
                value: None,
            };
            let of = |from: &From| match *from {
                From::Before(i) => operand(links[i].dtype, dims),
                From::Input(i) => match kinds[i] {
                    Kind::Full => operand(p.inputs[i].dtype, dims),
                    Kind::One => operand(p.inputs[i].dtype, &[]),
                    Kind::Row { rank, .. } => {
                        operand(p.inputs[i].dtype, &output[output.len() - rank..])
                    }
                },
            };
            let inputs: SmallVec<[Operand; 4]> = args.iter().map(of).collect();
            elementwise(p.cpu, op, &node, &inputs, operand(dtype, dims)).ok_or_else(missing)
        };
        let ((kernel, on_whole), (_, on_last)) = (link(&whole)?, link(&last)?);
        cost += on_whole.cost.saturating_mul((len / piece) as u64) + on_last.cost;
        let in_place = kernel.in_place.iter().filter(|(_, o)| *o == 0);
        overwritten.push(in_place.map(|(i, _)| *i).collect());
        links.push(Link {
            run: [on_whole.run, on_last.run],
            args,
            dtype,
            buffer: 0,
        });
    }
    if links.is_empty() {
        return Err(missing());
    }
    let buffers = set_buffers(&mut links, &overwritten);
    let chain = Chain {
        links,
        kinds,
        buffers,
        piece,
        len,
    };
    let (pieces, lane) = (len.div_ceil(piece), chain.lane());
    let scratch = lanes_scratch(pieces, p.cpu.pool().threads(), lane);
    let run = move |cx: &KernelCx<'_>| {
        let scratch = cx.scratch::<u8>(scratch)?;
        let (inputs, output) = (cx.input_slots(), cx.output_slot(0)?);
        let (cpu, failed) = (cx.cpu(), std::sync::Mutex::new(None));
        let shared = Shared(inputs, output);
        for_lanes(cx.pool(), pieces, scratch, lane, &|piece, scratch| {
            if let Err(e) = chain.run(cpu, &shared, piece, scratch) {
                *failed.lock().unwrap_or_else(|e| e.into_inner()) = Some(e);
            }
        });
        let failed = failed.into_inner().unwrap_or_else(|e| e.into_inner());
        failed.map_or(Ok(()), Err)
    };
    Ok(Prepared::new(0, run).with_scratch(scratch).with_cost(cost))
}

/// Where inputs and output lie, for all threads.
struct Shared<'a>(&'a [Slot], Slot);

// SAFETY: what the slots point to is valid for the run of the kernel; a piece of the output is written by one thread, and
// an input is written only where it is the output, after it has been read.
unsafe impl Sync for Shared<'_> {}

impl Chain {
    /// Bytes of a buffer: of a piece of any dtype.
    fn buffer(&self) -> usize {
        let widest = self.links.iter().map(|l| l.dtype.size()).max();
        (self.piece * widest.unwrap_or(0)).next_multiple_of(ALIGN)
    }

    /// Bytes for what the ops but the last give of a piece.
    fn lane(&self) -> usize {
        Scratch::bytes::<u8>(self.buffers * self.buffer())
    }

    /// Runs the ops on a piece, one after the other.
    fn run(
        &self,
        cpu: &Cpu,
        Shared(inputs, output): &Shared<'_>,
        piece: usize,
        scratch: &mut [u8],
    ) -> Result<(), KernelError> {
        let at = piece * self.piece;
        let len = self.piece.min(self.len - at);
        let which = usize::from(len < self.piece);
        let buffers = Scratch::new(scratch).take::<u8>(self.buffers * self.buffer());
        let buffers = buffers.as_mut_ptr();
        let mut made: SmallVec<[Slot; 8]> = SmallVec::new();
        for (number, link) in self.links.iter().enumerate() {
            let input = |from: &From| match *from {
                From::Before(i) => made[i],
                From::Input(i) => match self.kinds[i] {
                    Kind::Full => part(inputs[i], at, len),
                    _ => inputs[i],
                },
            };
            let inputs = link.args.iter().map(input).collect();
            let own = match number + 1 == self.links.len() {
                true => part(*output, at, len),
                false => Slot {
                    ptr: buffers.wrapping_add(link.buffer * self.buffer()),
                    len,
                    dtype: link.dtype,
                },
            };
            let nothing = (std::ptr::null_mut(), 0);
            // SAFETY: inputs are pieces of the node's, or what an op before has filled; the output is a buffer of this
            // thread's own that no later op reads for another value, or this task's piece of the node's output. It lies
            // apart from all inputs but for one that the op may be in place of.
            let cx = unsafe { KernelCx::new(cpu, inputs, smallvec![own], &[], None, nothing) };
            link.run[which](&cx)?;
            made.push(own);
        }
        Ok(())
    }
}

/// Gives each op but the last a buffer; tells how many there are. A buffer is taken again once what it holds was used for
/// the last time: by the op that does so, where it can be in place of that input, or by those after it.
fn set_buffers(links: &mut [Link], overwritten: &[SmallVec<[usize; 2]>]) -> usize {
    let mut last_use = vec![0; links.len()];
    for (at, link) in links.iter().enumerate() {
        for from in &link.args {
            if let From::Before(i) = from {
                last_use[*i] = at;
            }
        }
    }
    let (mut free, mut count): (Vec<usize>, usize) = (Vec::new(), 0);
    for at in 0..links.len().saturating_sub(1) {
        let ends = |i: usize, from: &From| match *from {
            From::Before(j) => {
                let same = |f: &&From| matches!(f, From::Before(k) if *k == j);
                let once = links[at].args.iter().filter(same).count() == 1;
                let fits = links[j].dtype == links[at].dtype && overwritten[at].contains(&i);
                (last_use[j] == at && once && fits).then_some(j)
            }
            From::Input(_) => None,
        };
        let args = links[at].args.clone();
        let taken = args.iter().enumerate().find_map(|(i, from)| ends(i, from));
        let buffer = match taken {
            Some(j) => links[j].buffer,
            None => free.pop().unwrap_or_else(|| {
                count += 1;
                count - 1
            }),
        };
        let mut over: SmallVec<[usize; 2]> = SmallVec::new();
        for from in &args {
            if let From::Before(j) = *from
                && last_use[j] == at
                && Some(j) != taken
                && !over.contains(&j)
            {
                over.push(j);
            }
        }
        free.extend(over.iter().map(|&j| links[j].buffer));
        links[at].buffer = buffer;
    }
    count
}

/// A piece of a slot.
fn part(slot: Slot, at: usize, len: usize) -> Slot {
    Slot {
        ptr: slot.ptr.wrapping_add(at * slot.dtype.size()),
        len,
        ..slot
    }
}
