//! The driver interface: runs a GPU's commands on a card, in an emulation, or as a recording.

use std::fmt;
use std::path::PathBuf;
use std::ptr::NonNull;

use smallvec::SmallVec;

use thalweg_tensor::DType;

use super::{
    Address, Call, Communicators, Function, GpuCollectiveKind, GpuError, Handle, ReadyCall,
};

/// The arguments of a launch: one after the other, with the offset of each.
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

    /// Returns a pointer to each argument.
    pub fn pointers(&self) -> impl Iterator<Item = *const u8> + '_ {
        let start = |&s: &u32| self.bytes[s as usize..].as_ptr().cast();
        self.starts.iter().map(start)
    }

    /// The first eight bytes of each argument: all of one that is an address.
    pub fn words(&self) -> impl Iterator<Item = u64> + '_ {
        self.starts.iter().map(|&s| self.bytes[s as usize])
    }
}

/// A command of a GPU's queue.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Launches a function.
    Launch {
        /// Its handle from [`Driver::load`].
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
        /// Its handle from [`Driver::prepare`].
        call: Handle,
        /// Two inputs and the output.
        addresses: [Address; 3],
        /// The workspace of the call.
        workspace: Address,
    },
    /// Copies from the host, from memory of [`Driver::allocate_host`].
    CopyIn {
        /// Source.
        from: usize,
        /// Destination.
        to: Address,
        /// Number of bytes.
        bytes: usize,
    },
    /// Copies to the host, to memory of [`Driver::allocate_host`].
    CopyOut {
        /// Source.
        from: Address,
        /// Destination.
        to: usize,
        /// Number of bytes.
        bytes: usize,
    },
    /// Copies within the GPU's memory, or to another GPU's.
    Copy {
        /// Source.
        from: Address,
        /// Destination.
        to: Address,
        /// Number of bytes.
        bytes: usize,
    },
    /// Sets all bytes.
    Fill {
        /// Destination.
        to: Address,
        /// The value of each byte.
        byte: u8,
        /// Number of bytes.
        bytes: usize,
    },
    /// Runs a collective with the GPUs of other ranks. It begins after the commands submitted here before; later
    /// commands do not wait for it, unless they are [`Command::Join`].
    Collective {
        /// Its handle from [`Communicators::meet`].
        communicator: Handle,
        /// The collective.
        kind: GpuCollectiveKind,
        /// Dtype of the elements.
        dtype: DType,
        /// This rank's value.
        from: Address,
        /// Destination of the result; it may be `from`.
        to: Address,
        /// Number of elements.
        elements: usize,
    },
    /// Begins or ends a group: collectives in between start together, which costs one launch.
    Group {
        /// Its handle from [`Communicators::meet`].
        communicator: Handle,
        /// `true` where the group begins.
        begins: bool,
    },
    /// Waits for all collectives that were begun on a communicator.
    Join {
        /// Its handle from [`Communicators::meet`].
        communicator: Handle,
    },
    /// Runs the captured commands between [`Driver::begin`] and [`Driver::end`] again.
    Replay {
        /// Its handle from [`Driver::end`].
        graph: Handle,
    },
}

impl Command {
    /// Returns its name for errors.
    pub fn name(&self) -> &'static str {
        match self {
            Command::Launch { .. } => "launch a kernel",
            Command::Call { .. } => "call a library",
            Command::CopyIn { .. } => "copy from the host",
            Command::CopyOut { .. } => "copy to the host",
            Command::Copy { .. } => "copy",
            Command::Fill { .. } => "fill memory",
            Command::Collective { .. } => "begin a collective",
            Command::Group { .. } => "group collectives",
            Command::Join { .. } => "wait for collectives",
            Command::Replay { .. } => "launch a graph",
        }
    }
}

/// A driver, which runs commands. Every GPU of a session has a queue of its own; commands of a queue run one after the
/// other, while the host goes on. Sessions call it, with handles and memory that it has given them.
///
/// # Safety
/// The memory that [`Driver::allocate`] and [`Driver::allocate_host`] return must be of that length and of the caller
/// alone until it is given back, and commands must touch nothing but the memory that they name.
pub unsafe trait Driver: fmt::Debug + Send + Sync {
    /// Returns the name of the card: `NVIDIA H200`.
    fn name(&self) -> String;

    /// Returns the bytes of memory, total and free.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    fn memory(&self) -> Result<(usize, usize), GpuError>;

    /// Returns the libraries that it has opened so far: their names, and the files that were loaded.
    fn libraries(&self) -> Vec<(&'static str, PathBuf)> {
        Vec::new()
    }

    /// Makes a queue.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    fn queue(&self) -> Result<Handle, GpuError>;

    /// Drops a queue; its commands have run.
    fn drop_queue(&self, queue: Handle);

    /// Allocates memory, which begins at a multiple of [`ALIGNMENT`](super::ALIGNMENT).
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`], [`GpuError::Driver`].
    fn allocate(&self, bytes: usize) -> Result<Address, GpuError>;

    /// Frees memory of [`Driver::allocate`]; no command uses it any more.
    fn free(&self, address: Address);

    /// Allocates memory of the host that commands copy from and to, zeroed.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    fn allocate_host(&self, bytes: usize) -> Result<NonNull<u8>, GpuError>;

    /// Frees memory of [`Driver::allocate_host`] with this length; no command uses it any more.
    ///
    /// # Safety
    /// It was given by this driver's `allocate_host` with this length, and is not used afterwards.
    unsafe fn free_host(&self, memory: NonNull<u8>, bytes: usize);

    /// Compiles a function and loads it, or finds it loaded.
    ///
    /// # Errors
    /// [`GpuError::Compile`], [`GpuError::Missing`], [`GpuError::Driver`].
    fn load(&self, function: &Function) -> Result<Handle, GpuError>;

    /// Prepares a call of a library.
    ///
    /// # Errors
    /// The reason that no library computes it: there is none, it fails, or it does not take this call. It is no error
    /// of the program, as kernels compute it too.
    fn prepare(&self, call: &Call, tf32: bool) -> Result<ReadyCall, String>;

    /// Returns the factory of communicators between processes.
    ///
    /// # Errors
    /// The reason that this driver has none.
    fn communicators(&self) -> Result<&dyn Communicators, GpuError> {
        Err(GpuError::NoCommunicators)
    }

    /// Submits a command to a queue: the one function through which all work goes.
    ///
    /// # Errors
    /// [`GpuError::Driver`]. An error of an earlier command may come out here.
    ///
    /// # Safety
    /// Every address must be valid for its use by the command until the queue has run it, and nothing else may use the
    /// memory that it writes meanwhile.
    unsafe fn submit(&self, queue: Handle, command: &Command) -> Result<(), GpuError>;

    /// Waits until all commands of a queue have run.
    ///
    /// # Errors
    /// [`GpuError::Driver`], also of submitted commands.
    fn wait(&self, queue: Handle) -> Result<(), GpuError>;

    /// Begins a capture: from here on commands of the queue are captured and do not run.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    fn begin(&self, queue: Handle) -> Result<(), GpuError>;

    /// Ends a capture; returns the graph that [`Command::Replay`] runs.
    ///
    /// # Errors
    /// [`GpuError::Driver`].
    fn end(&self, queue: Handle) -> Result<Handle, GpuError>;

    /// Drops a graph of [`Driver::end`]; it does not run any more.
    fn drop_graph(&self, graph: Handle);
}
