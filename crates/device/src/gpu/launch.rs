//! Launches: a function of a CUDA source, its grid and its arguments.

use std::sync::Arc;

use bytemuck::{NoUninit, bytes_of};
use smallvec::SmallVec;
use thalweg_tensor::DType;

/// Threads in a block, unless a kernel has a reason for another number.
pub const THREADS: u32 = 256;

/// Maximum number of blocks of a loop over elements: enough to fill any GPU several times over. A grid depends on the
/// shape alone, so that sums have one order on every GPU.
const MAX_BLOCKS: u32 = 4096;

/// A file of kernels in CUDA C++.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// Its file's name in `kernels`, without `.cu`.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// A function of a source that is compiled for some dtypes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// The source.
    pub source: &'static Source,
    /// Its name there.
    pub name: &'static str,
    /// The dtypes that the source's types `T` and `U` stand for.
    pub types: SmallVec<[DType; 2]>,
    /// `true` if elements are counted in 64 bits.
    pub large: bool,
    /// `true` for the multi-tensor variant, which does the work of several launches: its arguments are a table of theirs, and
    /// their number.
    pub multi_tensor: bool,
}

impl Function {
    /// The macros that its source is compiled with: `T_TYPE=f32`, `T_FLOAT=1`.
    pub fn macros(&self) -> Vec<String> {
        let mut macros = Vec::new();
        for (name, dtype) in ["T", "U"].iter().zip(&self.types) {
            macros.push(format!("{name}_TYPE={}", dtype.name()));
            if DType::FLOATS.contains(dtype) {
                macros.push(format!("{name}_FLOAT=1"));
            }
            if *dtype == DType::Bool {
                macros.push(format!("{name}_BOOL=1"));
            }
        }
        if self.large {
            macros.push("INDEX_64=1".to_owned());
        }
        if self.multi_tensor {
            macros.push("MULTI_TENSOR=1".to_owned());
        }
        macros
    }
}

/// An argument of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arg {
    /// The address of an input of the node.
    Input(usize),
    /// The address of an output of the node.
    Output(usize),
    /// The address of the variable behind an input of the node.
    Variable(usize),
    /// The address of an offset in the node's scratch memory, in bytes.
    Scratch(usize),
    /// The address of a random op's counter: 64 bits in the device's memory, which outlive steps. A launch after all
    /// that draw advances it.
    Counter,
    /// The address of the node's status: 64 bits, all ones where every element is accepted, and otherwise the number of
    /// the first that is not: kernels lower it by `atomicMin`.
    Status,
    /// The address of these words, which the plan keeps in the device's memory: a table that is too long for a value.
    Table(Arc<[u64]>),
    /// The bytes of a value.
    Value(SmallVec<[u8; 16]>),
}

/// One launch of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The function.
    pub function: Function,
    /// The number of blocks, in one dimension.
    pub blocks: u32,
    /// The threads of a block.
    pub threads: u32,
    /// Its arguments, in order.
    pub args: SmallVec<[Arg; 8]>,
    /// `true` if it may be one of a multi-tensor launch.
    pub multi_tensor: bool,
}

impl Launch {
    /// A launch that loops over `elements` elements.
    pub fn over(
        elements: usize,
        source: &'static Source,
        name: &'static str,
        types: &[DType],
    ) -> Launch {
        let function = Function {
            source,
            name,
            types: types.into(),
            // Loops add a grid's stride to an index before they compare it.
            large: elements >= 1 << 31,
            multi_tensor: false,
        };
        // A thread takes several elements: they are loaded and stored together.
        let blocks = elements.div_ceil(4 * THREADS as usize);
        Launch {
            function,
            blocks: u32::try_from(blocks).map_or(MAX_BLOCKS, |b| b.clamp(1, MAX_BLOCKS)),
            threads: THREADS,
            args: SmallVec::new(),
            multi_tensor: false,
        }
    }

    /// The same, which may be one of a multi-tensor launch unless it fills a GPU by itself. The function takes its elements
    /// by `first` and `stride`, its arguments have 8 bytes at most, and it is the only launch of its node.
    pub fn multi_tensor(mut self) -> Launch {
        self.multi_tensor = self.blocks < MAX_BLOCKS;
        self
    }

    /// The same with one more argument.
    pub fn arg(mut self, arg: Arg) -> Launch {
        self.args.push(arg);
        self
    }

    /// The same with the address of input `i` as its next argument.
    pub fn input(self, i: usize) -> Launch {
        self.arg(Arg::Input(i))
    }

    /// The same with the address of output `i` as its next argument.
    pub fn output(self, i: usize) -> Launch {
        self.arg(Arg::Output(i))
    }

    /// The same with a value as its next argument, laid out as in CUDA C++.
    pub fn value<T: NoUninit>(self, value: T) -> Launch {
        self.arg(Arg::Value(SmallVec::from_slice(bytes_of(&value))))
    }

    /// The same with numbers of elements as its next argument, one after the other: each as wide as
    /// the source's `Index`.
    pub fn indices(self, values: &[usize]) -> Launch {
        let bytes = self.index_bytes(values);
        self.arg(Arg::Value(bytes))
    }

    /// Numbers of elements, each as wide as the source's `Index`.
    pub fn index_bytes(&self, values: &[usize]) -> SmallVec<[u8; 16]> {
        match self.function.large {
            true => values
                .iter()
                .flat_map(|&v| (v as u64).to_ne_bytes())
                .collect(),
            // Less than 2^31, or the function would be large.
            false => values
                .iter()
                .flat_map(|&v| (v as u32).to_ne_bytes())
                .collect(),
        }
    }
}
