//! ShardedFilename, ShardedFilespec.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg_of};
use thalweg_tensor::{DType, Tensor};

use crate::support::shapes::{expect_scalar, scalar};

fn name(cx: &TensorCx<'_>, name: impl Fn(&str) -> String) -> Result<Vec<Tensor>, KernelError> {
    let Some(base) = cx.strings(0)?.only() else {
        return Err(KernelError::Argument("one name"));
    };
    let name = name(&String::from_utf8_lossy(base));
    Ok(vec![cx.strings_of(&[], [name])?])
}

/// Name of one shard of a checkpoint.
pub(crate) static FILENAME: Op = Op {
    def: OpDef {
        name: "ShardedFilename",
        summary: "The name of one shard: base-00003-of-00010.",
        inputs: &[
            arg_of("basename", DType::String),
            arg_of("shard", DType::I32),
            arg_of("num_shards", DType::I32),
        ],
        outputs: &[arg_of("filename", DType::String)],
        shape: |cx| {
            (0..3).try_for_each(|i| expect_scalar(cx, i))?;
            scalar(cx)
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let (shard, shards) = (cx.int(1)?, cx.int(2)?);
        name(cx, |base| format!("{base}-{shard:05}-of-{shards:05}"))
    })],
};

/// Pattern that matches the names of all shards.
pub(crate) static FILESPEC: Op = Op {
    def: OpDef {
        name: "ShardedFilespec",
        summary: "The pattern of the names of all shards: base-?????-of-00010.",
        inputs: &[
            arg_of("basename", DType::String),
            arg_of("num_shards", DType::I32),
        ],
        outputs: &[arg_of("filename", DType::String)],
        shape: |cx| {
            (0..2).try_for_each(|i| expect_scalar(cx, i))?;
            scalar(cx)
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let shards = cx.int(1)?;
        name(cx, |base| format!("{base}-?????-of-{shards:05}"))
    })],
};
