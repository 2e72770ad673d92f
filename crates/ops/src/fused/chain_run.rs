//! Execution of a chain: runs its ops, one after the other, on each piece.

use std::sync::Mutex;

use smallvec::SmallVec;
use thalweg_cpu::Scratch;
use thalweg_cpu::scratch::{ALIGN, for_lanes, lanes_scratch};
use thalweg_device::kernel::RunFn;
use thalweg_device::{Cpu, KernelCx, KernelError, Prepared, Slot};
use thalweg_tensor::DType;
use thalweg_tensor::sync::Unpoisoned;

use super::input_kind::InputKind;

/// Source of an argument of an op.
#[derive(Clone, Copy)]
pub(super) enum ArgSource {
    Input(usize),
    /// Output of an earlier op, by index.
    Earlier(usize),
}

/// An op of a chain.
pub(super) struct ChainOp {
    pub(super) args: SmallVec<[ArgSource; 2]>,
    pub(super) dtype: DType,
    /// Buffer of its output; the last op writes to the chain's output.
    pub(super) buffer: usize,
    /// Kernels for a whole piece, and for the last one.
    pub(super) run: [RunFn; 2],
}

/// A chain that is ready to run on pieces.
pub(super) struct Chain {
    chain_ops: Vec<ChainOp>,
    kinds: SmallVec<[InputKind; 4]>,
    buffers: usize,
    /// Number of elements of a piece, and in all.
    piece: usize,
    len: usize,
}

/// Memory of inputs and output, shared by all threads.
struct SharedSlots<'a>(&'a [Slot], Slot);

// SAFETY: the slots point to memory that is valid for the run of the kernel; a piece of the output is written by one
// thread, and an input is written only if it is the output, after it has been read.
unsafe impl Sync for SharedSlots<'_> {}

impl Chain {
    /// Chain of these ops, in order; `overwritten` lists the inputs that each op can overwrite.
    pub(super) fn new(
        mut chain_ops: Vec<ChainOp>,
        overwritten: &[SmallVec<[usize; 2]>],
        kinds: SmallVec<[InputKind; 4]>,
        piece: usize,
        len: usize,
    ) -> Chain {
        let buffers = set_buffers(&mut chain_ops, overwritten);
        Chain {
            chain_ops,
            kinds,
            buffers,
            piece,
            len,
        }
    }

    /// Kernel that runs it on all pieces, on `threads` threads.
    pub(super) fn prepared(self, threads: usize) -> Prepared {
        let (pieces, thread_bytes) = (self.len.div_ceil(self.piece), self.thread_bytes());
        let scratch = lanes_scratch(pieces, threads, thread_bytes);
        let run = move |cx: &KernelCx<'_>| {
            let scratch = cx.scratch::<u8>(scratch)?;
            let shared = SharedSlots(cx.input_slots(), cx.output_slot(0)?);
            let (cpu, failed) = (cx.cpu(), Mutex::new(None));
            for_lanes(
                cx.pool(),
                pieces,
                scratch,
                thread_bytes,
                &|piece, scratch| {
                    if let Err(e) = self.run(cpu, &shared, piece, scratch) {
                        *failed.lock().unpoisoned() = Some(e);
                    }
                },
            );
            let failed = failed.into_inner().unpoisoned();
            failed.map_or(Ok(()), Err)
        };
        Prepared::new(0, run).with_scratch(scratch)
    }

    /// Bytes of a buffer: of a piece of any dtype.
    fn buffer_bytes(&self) -> usize {
        let widest = self.chain_ops.iter().map(|l| l.dtype.size()).max();
        (self.piece * widest.unwrap_or(0)).next_multiple_of(ALIGN)
    }

    /// Bytes of the buffers that one thread needs.
    fn thread_bytes(&self) -> usize {
        Scratch::bytes::<u8>(self.buffers * self.buffer_bytes())
    }

    /// Runs the ops on a piece, one after the other.
    fn run(
        &self,
        cpu: &Cpu,
        SharedSlots(inputs, output): &SharedSlots<'_>,
        piece: usize,
        scratch: &mut [u8],
    ) -> Result<(), KernelError> {
        let at = piece * self.piece;
        let len = self.piece.min(self.len - at);
        let which = usize::from(len < self.piece);
        let buffers = Scratch::new(scratch).take::<u8>(self.buffers * self.buffer_bytes());
        let buffers = buffers.as_mut_ptr();
        let mut made: SmallVec<[Slot; 8]> = SmallVec::new();
        for (number, chain_op) in self.chain_ops.iter().enumerate() {
            let input = |from: &ArgSource| match *from {
                ArgSource::Earlier(i) => made[i],
                ArgSource::Input(i) => match self.kinds[i] {
                    InputKind::Full => slot_part(inputs[i], at, len),
                    _ => inputs[i],
                },
            };
            let inputs: SmallVec<[Slot; 4]> = chain_op.args.iter().map(input).collect();
            let own = match number + 1 == self.chain_ops.len() {
                true => slot_part(*output, at, len),
                false => Slot {
                    ptr: buffers.wrapping_add(chain_op.buffer * self.buffer_bytes()),
                    len,
                    ..Slot::empty(chain_op.dtype)
                },
            };
            let (outputs, nothing) = ([own], (std::ptr::null_mut(), 0));
            // SAFETY: inputs are pieces of the node's inputs, or filled by an earlier op; the output is a buffer of this
            // thread that no later op reads for another value, or this task's piece of the node's output. It does not
            // overlap with any input except one that the op may overwrite.
            let cx = unsafe { KernelCx::new(cpu, &inputs, &outputs, &[], None, nothing) };
            chain_op.run[which](&cx)?;
            made.push(own);
        }
        Ok(())
    }
}

/// Assigns a buffer to each op but the last; returns the number of buffers. A buffer is reused after the last use of
/// its value: by the op of that use, if it can overwrite that input, or by the ops after it.
fn set_buffers(chain_ops: &mut [ChainOp], overwritten: &[SmallVec<[usize; 2]>]) -> usize {
    let mut last_use = vec![0; chain_ops.len()];
    for (at, chain_op) in chain_ops.iter().enumerate() {
        for from in &chain_op.args {
            if let ArgSource::Earlier(i) = from {
                last_use[*i] = at;
            }
        }
    }
    let (mut free, mut count): (Vec<usize>, usize) = (Vec::new(), 0);
    for at in 0..chain_ops.len().saturating_sub(1) {
        let ends = |i: usize, from: &ArgSource| match *from {
            ArgSource::Earlier(j) => {
                let same = |f: &&ArgSource| matches!(f, ArgSource::Earlier(k) if *k == j);
                let once = chain_ops[at].args.iter().filter(same).count() == 1;
                let fits =
                    chain_ops[j].dtype == chain_ops[at].dtype && overwritten[at].contains(&i);
                (last_use[j] == at && once && fits).then_some(j)
            }
            ArgSource::Input(_) => None,
        };
        let args = chain_ops[at].args.clone();
        let taken = args.iter().enumerate().find_map(|(i, from)| ends(i, from));
        let buffer = match taken {
            Some(j) => chain_ops[j].buffer,
            None => free.pop().unwrap_or_else(|| {
                count += 1;
                count - 1
            }),
        };
        let mut over: SmallVec<[usize; 2]> = SmallVec::new();
        for from in &args {
            if let ArgSource::Earlier(j) = *from
                && last_use[j] == at
                && Some(j) != taken
                && !over.contains(&j)
            {
                over.push(j);
            }
        }
        free.extend(over.iter().map(|&j| chain_ops[j].buffer));
        chain_ops[at].buffer = buffer;
    }
    count
}

/// A piece of a slot.
fn slot_part(slot: Slot, at: usize, len: usize) -> Slot {
    Slot {
        ptr: slot.ptr.wrapping_add(at * slot.dtype.size()),
        len,
        ..Slot::empty(slot.dtype)
    }
}
