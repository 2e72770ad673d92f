//! MergeV2Checkpoints.

use std::path::PathBuf;

use thalweg_checkpoint::{MergeOptions, bundle};
use thalweg_device::{KernelError, Op, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Effect, Gradient, arg_of, bool_attr};
use thalweg_tensor::DType;

use super::checkpoint_inputs::{disk, kernel_error, prefix};

/// Merges checkpoint files of several devices into one checkpoint.
pub(crate) static MERGE_V2: Op = Op {
    def: OpDef {
        name: "MergeV2Checkpoints",
        summary: "Merges the files of several prefixes under one prefix.",
        inputs: &[
            arg_of("checkpoint_prefixes", DType::String),
            arg_of("destination_prefix", DType::String),
        ],
        attrs: &[
            bool_attr("delete_old_dirs", true),
            bool_attr("allow_missing_files", false),
        ],
        gradient: Gradient::None,
        effect: Effect::Stateful,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let files = cx.environment().files();
        let parts = cx.strings(0)?.iter().map(|name| files.resolve_prefix(name));
        let parts: Vec<PathBuf> = parts.collect::<Result<_, KernelError>>()?;
        let options = MergeOptions {
            delete_old: cx.attrs().bool("delete_old_dirs"),
            allow_missing: cx.attrs().bool("allow_missing_files"),
        };
        bundle::merge_on(&disk(files), &parts, &prefix(cx, 1)?, options).map_err(kernel_error)?;
        Ok(Vec::new())
    })],
};
