//! The seam to what runs a GPU's commands: a card's driver, an emulation, a recording.

use std::fmt;
use std::ptr::NonNull;

use smallvec::SmallVec;

use thalweg_tensor::DType;

use super::{Address, Call, Communicators, Exchange, Function, GpuError, Handle, ReadyCall};

/// The arguments of a launch: one after the other, and where each of them begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    bytes: SmallVec<[u64; 16]>,
    starts: SmallVec<[u32; 10]>,
}

impl Arguments {
    /// Adds an argument. Each begins at a multiple of 8 bytes, which is as much as any needs.
    pub fn push(&mut self, bytes: &[u8]) {
        self.starts.push(self.bytes.len() as u32);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.bytes.push(u64::from_ne_bytes(word));
        }
    }

    /// Where each argument is.
    pub fn pointers(&self) -> impl Iterator<Item = *const u8> + '_ {
        let start = |&s: &u32| self.bytes[s as usize..].as_ptr().cast();
        self.starts.iter().map(start)
    }

    /// The first eight bytes of each argument: all of one that is an address.
    pub fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.starts.iter().map(|&s| self.bytes[s as usize])
    }
}

/// What a GPU is told to do, in the order of a queue.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Launches a function.
    Launch {
        /// What [`Driver::load`] has given for it.
        function: Handle,
        /// The number of blocks.
        blocks: u32,
        /// The threads of a block.
        threads: u32,
        /// Its arguments.
        arguments: Arguments,
    },
    /// Computes by a library.
    Call {
        /// What [`Driver::prepare`] has given for it.
        call: Handle,
        /// Two inputs and the output.
        addresses: [Address; 3],
        /// As many bytes as the call works with.
        workspace: Address,
    },
    /// Copies from the host, from memory of [`Driver::allocate_host`].
    CopyIn {
        /// Where from.
        from: usize,
        /// Where to.
        to: Address,
        /// How many bytes.
        bytes: usize,
    },
    /// Copies to the host, to memory of [`Driver::allocate_host`].
    CopyOut {
        /// Where from.
        from: Address,
        /// Where to.
        to: usize,
        /// How many bytes.
        bytes: usize,
    },
    /// Copies within the GPU's memory, or to another GPU's.
    Copy {
        /// Where from.
        from: Address,
        /// Where to.
        to: Address,
        /// How many bytes.
        bytes: usize,
    },
    /// Sets all bytes.
    Fill {
        /// Where.
        to: Address,
        /// What each becomes.
        byte: u8,
        /// How many bytes.
        bytes: usize,
    },
    /// Does something together with the GPUs of other ranks. It begins after what was submitted here before; what is
    /// submitted next does not wait for it, unless it is [`Command::Join`].
    Collective {
        /// What [`Communicators::meet`] has given.
        communicator: Handle,
        /// What they do.
        what: Exchange,
        /// Of the elements.
        dtype: DType,
        /// This rank's value.
        from: Address,
        /// Where the result goes; `from` too, perhaps.
        to: Address,
        /// How many elements.
        elements: usize,
    },
    /// Waits for all that was begun on a communicator.
    Join {
        /// What [`Communicators::meet`] has given.
        communicator: Handle,
    },
    /// All that was submitted between [`Driver::begin`] and [`Driver::end`], again.
    Replay {
        /// What [`Driver::end`] has given.
        graph: Handle,
    },
}

impl Command {
    /// What is done, for an error.
    pub fn what(&self) -> &'static str {
        match self {
            Command::Launch { .. } => "launch a kernel",
            Command::Call { .. } => "call a library",
            Command::CopyIn { .. } => "copy from the host",
            Command::CopyOut { .. } => "copy to the host",
            Command::Copy { .. } => "copy",
            Command::Fill { .. } => "fill memory",
            Command::Collective { .. } => "begin a collective",
            Command::Join { .. } => "wait for collectives",
            Command::Replay { .. } => "launch a graph",
        }
    }
}

/// What runs commands. Every GPU of a session has a queue of its own; commands of a queue run one
/// after the other, while the host goes on. It is called by sessions, with what it has given them.
///
/// # Safety
/// What [`Driver::allocate`] and [`Driver::allocate_host`] give must be memory of that length and of
/// the caller alone until it is given back, and commands must touch nothing but what they name.
pub unsafe trait Driver: fmt::Debug + Send + Sync {
    /// What it drives, for people: `NVIDIA H200`.
    fn name(&self) -> String;

    /// Bytes of memory, and how many of them are free.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    fn memory(&self) -> Result<(usize, usize), GpuError>;

    /// Makes a queue.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    fn queue(&self) -> Result<Handle, GpuError>;

    /// Gives a queue up; what was submitted to it has run.
    fn drop_queue(&self, queue: Handle);

    /// Takes memory, which begins at a multiple of [`ALIGNMENT`](super::ALIGNMENT).
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`], [`GpuError::Driver`].
    fn allocate(&self, bytes: usize) -> Result<Address, GpuError>;

    /// Gives memory back that [`Driver::allocate`] gave; no command uses it any more.
    fn free(&self, address: Address);

    /// Takes memory of the host that commands copy from and to, zeroed.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>, GpuError>;

    /// Gives memory back that [`Driver::allocate_host`] gave with this length; no command uses it
    /// any more.
    ///
    /// # Safety
    /// It was given by this driver's `allocate_host` with this length, and is not used afterwards.
    unsafe fn free_host(&self, memory: NonNull<u8>, bytes: usize);

    /// Compiles a function and loads it, or finds it loaded.
    ///
    /// # Errors
    /// [`GpuError::Compile`], [`GpuError::Missing`], [`GpuError::Driver`].
    fn load(&self, function: &Function) -> Result<Handle, GpuError>;

    /// Makes what a library computes ready.
    ///
    /// # Errors
    /// Why no library does: there is none, it fails, or it does not take this. It is no error of the
    /// program, as kernels compute it too.
    fn prepare(&self, call: &Call, tf32: bool) -> Result<ReadyCall, String>;

    /// What GPUs of several processes meet by.
    ///
    /// # Errors
    /// Why this driver has nothing for that.
    fn communicators(&self) -> Result<&dyn Communicators, GpuError> {
        Err(GpuError::NoCommunicators)
    }

    /// Hands a command to a queue: the one function through which all work goes.
    ///
    /// # Errors
    /// [`GpuError::Driver`]. An error of an earlier command may come out here.
    ///
    /// # Safety
    /// Every address must be valid for what the command does with it until the queue has run it,
    /// and nothing else may use what it writes meanwhile.
    unsafe fn submit(&self, queue: Handle, command: &Command) -> Result<(), GpuError>;

    /// Waits until all that was submitted to a queue has run.
    ///
    /// # Errors
    /// [`GpuError::Driver`], also of what was submitted.
    fn wait(&self, queue: Handle) -> Result<(), GpuError>;

    /// From here on what is submitted to a queue is captured and does not run.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    fn begin(&self, queue: Handle) -> Result<(), GpuError>;

    /// Ends a capture; gives what [`Command::Replay`] runs.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    fn end(&self, queue: Handle) -> Result<Handle, GpuError>;

    /// Gives a graph up that [`Driver::end`] gave; it does not run any more.
    fn drop_graph(&self, graph: Handle);
}
