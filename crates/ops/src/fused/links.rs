//! Execution of a chain: runs its ops, one after the other, on each piece.

use std::sync::{Mutex, PoisonError};

use smallvec::SmallVec;
use thalweg_device::kernel::RunFn;
use thalweg_device::{Cpu, KernelCx, KernelError, Prepared, Slot};
use thalweg_tensor::DType;

use super::chain::Kind;
use thalweg_cpu::Scratch;
use thalweg_cpu::scratch::{ALIGN, for_lanes, lanes_scratch};

/// Source of an argument of an op.
#[derive(Clone, Copy)]
pub(super) enum Source {
    Input(usize),
    /// Output of an earlier op, by index.
    Before(usize),
}

/// An op of a chain.
pub(super) struct Link {
    pub(super) args: SmallVec<[Source; 2]>,
    pub(super) dtype: DType,
    /// Buffer of its output; the last op writes to the chain's output.
    pub(super) buffer: usize,
    /// Kernels for a whole piece, and for the last one.
    pub(super) run: [RunFn; 2],
}

/// A chain that is ready to run on pieces.
pub(super) struct Chain {
    links: Vec<Link>,
    kinds: SmallVec<[Kind; 4]>,
    buffers: usize,
    /// Number of elements of a piece, and in all.
    piece: usize,
    len: usize,
}

/// Memory of inputs and output, shared by all threads.
struct Shared<'a>(&'a [Slot], Slot);

// SAFETY: the slots point to memory that is valid for the run of the kernel; a piece of the output is written by one
// thread, and an input is written only if it is the output, after it has been read.
unsafe impl Sync for Shared<'_> {}

impl Chain {
    /// Chain of these ops, in order; `overwritten` lists the inputs that each op can overwrite.
    pub(super) fn new(
        mut links: Vec<Link>,
        overwritten: &[SmallVec<[usize; 2]>],
        kinds: SmallVec<[Kind; 4]>,
        piece: usize,
        len: usize,
    ) -> Chain {
        let buffers = set_buffers(&mut links, overwritten);
        Chain {
            links,
            kinds,
            buffers,
            piece,
            len,
        }
    }

    /// Kernel that runs it on all pieces, on `threads` threads.
    pub(super) fn prepared(self, threads: usize) -> Prepared {
        let (pieces, lane) = (self.len.div_ceil(self.piece), self.lane());
        let scratch = lanes_scratch(pieces, threads, lane);
        let run = move |cx: &KernelCx<'_>| {
            let scratch = cx.scratch::<u8>(scratch)?;
            let shared = Shared(cx.input_slots(), cx.output_slot(0)?);
            let (cpu, failed) = (cx.cpu(), Mutex::new(None));
            for_lanes(cx.pool(), pieces, scratch, lane, &|piece, scratch| {
                if let Err(e) = self.run(cpu, &shared, piece, scratch) {
                    *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
                }
            });
            let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
            failed.map_or(Ok(()), Err)
        };
        Prepared::new(0, run).with_scratch(scratch)
    }

    /// Bytes of a buffer: of a piece of any dtype.
    fn buffer(&self) -> usize {
        let widest = self.links.iter().map(|l| l.dtype.size()).max();
        (self.piece * widest.unwrap_or(0)).next_multiple_of(ALIGN)
    }

    /// Bytes of the buffers that one thread needs.
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
            let input = |from: &Source| match *from {
                Source::Before(i) => made[i],
                Source::Input(i) => match self.kinds[i] {
                    Kind::Full => part(inputs[i], at, len),
                    _ => inputs[i],
                },
            };
            let inputs: SmallVec<[Slot; 4]> = link.args.iter().map(input).collect();
            let own = match number + 1 == self.links.len() {
                true => part(*output, at, len),
                false => Slot {
                    ptr: buffers.wrapping_add(link.buffer * self.buffer()),
                    len,
                    ..Slot::empty(link.dtype)
                },
            };
            let (outputs, nothing) = ([own], (std::ptr::null_mut(), 0));
            // SAFETY: inputs are pieces of the node's inputs, or filled by an earlier op; the output is a buffer of this
            // thread that no later op reads for another value, or this task's piece of the node's output. It does not
            // overlap with any input except one that the op may overwrite.
            let cx = unsafe { KernelCx::new(cpu, &inputs, &outputs, &[], None, nothing) };
            link.run[which](&cx)?;
            made.push(own);
        }
        Ok(())
    }
}

/// Assigns a buffer to each op but the last; returns the number of buffers. A buffer is reused after the last use of
/// its value: by the op of that use, if it can overwrite that input, or by the ops after it.
fn set_buffers(links: &mut [Link], overwritten: &[SmallVec<[usize; 2]>]) -> usize {
    let mut last_use = vec![0; links.len()];
    for (at, link) in links.iter().enumerate() {
        for from in &link.args {
            if let Source::Before(i) = from {
                last_use[*i] = at;
            }
        }
    }
    let (mut free, mut count): (Vec<usize>, usize) = (Vec::new(), 0);
    for at in 0..links.len().saturating_sub(1) {
        let ends = |i: usize, from: &Source| match *from {
            Source::Before(j) => {
                let same = |f: &&Source| matches!(f, Source::Before(k) if *k == j);
                let once = links[at].args.iter().filter(same).count() == 1;
                let fits = links[j].dtype == links[at].dtype && overwritten[at].contains(&i);
                (last_use[j] == at && once && fits).then_some(j)
            }
            Source::Input(_) => None,
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
            if let Source::Before(j) = *from
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
        ..Slot::empty(slot.dtype)
    }
}
