//! The ops of a chain on a piece of its inputs, one after the other.

use std::sync::{Mutex, PoisonError};

use smallvec::SmallVec;
use thalweg_device::kernel::RunFn;
use thalweg_device::{Cpu, KernelCx, KernelError, Prepared, Slot};
use thalweg_tensor::DType;

use super::chain::Kind;
use thalweg_cpu::Scratch;
use thalweg_cpu::scratch::{ALIGN, for_lanes, lanes_scratch};

/// Where an argument of an op comes from.
#[derive(Clone, Copy)]
pub(super) enum Source {
    Input(usize),
    /// The op of this number.
    Before(usize),
}

/// An op of a chain.
pub(super) struct Link {
    pub(super) args: SmallVec<[Source; 2]>,
    pub(super) dtype: DType,
    /// The buffer that its output lies in; the last one's lies in the chain's.
    pub(super) buffer: usize,
    /// For a whole piece, and for the last one.
    pub(super) run: [RunFn; 2],
}

/// The ops of a chain, ready to run on pieces.
pub(super) struct Chain {
    links: Vec<Link>,
    kinds: SmallVec<[Kind; 4]>,
    buffers: usize,
    /// Elements of a piece, and of all.
    piece: usize,
    len: usize,
}

/// Where inputs and output lie, for all threads.
struct Shared<'a>(&'a [Slot], Slot);

// SAFETY: what the slots point to is valid for the run of the kernel; a piece of the output is written by one thread, and
// an input is written only where it is the output, after it has been read.
unsafe impl Sync for Shared<'_> {}

impl Chain {
    /// The chain of these ops, in order, of which each can be in place of some of its inputs.
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

    /// The kernel that runs it on all pieces, on so many threads.
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
            // SAFETY: inputs are pieces of the node's, or what an op before has filled; the output is a buffer of this
            // thread's own that no later op reads for another value, or this task's piece of the node's output. It lies
            // apart from all inputs but for one that the op may be in place of.
            let cx = unsafe { KernelCx::new(cpu, &inputs, &outputs, &[], None, nothing) };
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
