//! UniformCandidateSampler, LogUniformCandidateSampler, LearnedUnigramCandidateSampler,
//! ThreadUnsafeUnigramCandidateSampler, FixedUnigramCandidateSampler, AllCandidateSampler.

use std::sync::{Arc, Mutex};

use thalweg_device::{KernelError, Op, SharedObject, TensorCx, cpu_tensors};
use thalweg_graph::op::{
    AttrDef, Effect, Gradient, arg_of, attr, float_attr, int_attr, list_attr, str_attr,
};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{DType, Shape, Tensor};

use super::alias_table::AliasTable;
use super::draw::Request;
use super::ranges::{LogUniform, Uniform, check_range};
use super::weight_tree::WeightTree;
use crate::random::fill::{SEED, SEED2};
use crate::support::shapes::expect_at_least;

const NUM_TRUE: AttrDef = attr("num_true", AttrKind::Int);
const NUM_SAMPLED: AttrDef = attr("num_sampled", AttrKind::Int);
const UNIQUE: AttrDef = attr("unique", AttrKind::Bool);
const RANGE_MAX: AttrDef = attr("range_max", AttrKind::Int);

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let classes = cx.ranked(0, 2)?;
    expect_at_least(cx, NUM_TRUE.name, 1)?;
    expect_at_least(cx, NUM_SAMPLED.name, 1)?;
    let size = |attr| usize::try_from(cx.attrs().int(attr)).ok();
    let (num_true, num_sampled) = (size("num_true"), size("num_sampled"));
    cx.set(0, Shape::partial([num_sampled]));
    cx.set(1, Shape::partial([classes.dim(0), num_true]));
    cx.set(2, Shape::partial([num_sampled]));
    Ok(())
}

/// Base definition of a sampler.
const SAMPLER_OP: OpDef = OpDef {
    inputs: &[arg_of("true_classes", DType::I64)],
    outputs: &[
        arg_of("sampled_candidates", DType::I64),
        arg_of("true_expected_count", DType::F32),
        arg_of("sampled_expected_count", DType::F32),
    ],
    attrs: &[NUM_TRUE, NUM_SAMPLED, UNIQUE, RANGE_MAX, SEED, SEED2],
    shape,
    gradient: Gradient::None,
    effect: Effect::Random,
    ..OpDef::EMPTY
};

/// The sampler of a node, which the session keeps; `make` creates it on first use.
fn kept<T: Send + Sync + 'static>(
    cx: &TensorCx<'_>,
    make: fn(&TensorCx<'_>) -> Result<T, KernelError>,
) -> Result<Arc<T>, KernelError> {
    let name = format!("candidate sampler {}", cx.node().name);
    let kept = cx
        .environment()
        .session_object(&name, &mut || Ok(Arc::new(make(cx)?) as SharedObject))?;
    kept.downcast()
        .map_err(|_| KernelError::Argument("the node's sampler"))
}

fn range_max(cx: &TensorCx<'_>) -> Result<i64, KernelError> {
    check_range(cx.attrs().int(RANGE_MAX.name))
}

/// Draws by the classes that were seen before, and counts those of this run.
fn learned(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let range = range_max(cx)?;
    let request = Request::of(cx, range)?;
    let tree = kept(cx, |cx| {
        Ok(Mutex::new(WeightTree::new(range_max(cx)?, cx.memory())?))
    })?;
    let mut tree = tree.lock().unpoisoned();
    let drawn = request.draw(cx, &*tree)?;
    tree.count(request.classes);
    Ok(drawn)
}

/// Draws from a uniform distribution.
pub(crate) static UNIFORM: Op = Op {
    def: OpDef {
        name: "UniformCandidateSampler",
        summary: "Candidate classes from a uniform distribution, and how often each class is expected.",
        ..SAMPLER_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let range = range_max(cx)?;
        Request::of(cx, range)?.draw(cx, &Uniform { range })
    })],
};

/// Draws from a log-uniform distribution.
pub(crate) static LOG_UNIFORM: Op = Op {
    def: OpDef {
        name: "LogUniformCandidateSampler",
        summary: "Candidate classes from a log-uniform (Zipfian) distribution, and how often each class is expected.",
        ..SAMPLER_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let range = range_max(cx)?;
        Request::of(cx, range)?.draw(cx, &LogUniform::new(range))
    })],
};

/// Draws from the distribution of the true classes so far.
pub(crate) static LEARNED_UNIGRAM: Op = Op {
    def: OpDef {
        name: "LearnedUnigramCandidateSampler",
        summary: "Candidate classes by the counts of the true classes of the runs before.",
        ..SAMPLER_OP
    },
    kernels: &[cpu_tensors(learned)],
};

/// As [`LEARNED_UNIGRAM`].
pub(crate) static THREAD_UNSAFE_UNIGRAM: Op = Op {
    def: OpDef {
        name: "ThreadUnsafeUnigramCandidateSampler",
        ..LEARNED_UNIGRAM.def
    },
    kernels: &[cpu_tensors(learned)],
};

/// Draws from given weights.
pub(crate) static FIXED_UNIGRAM: Op = Op {
    def: OpDef {
        name: "FixedUnigramCandidateSampler",
        summary: "Candidate classes by weights from a file or an attribute, and how often each class is expected.",
        attrs: &[
            NUM_TRUE,
            NUM_SAMPLED,
            UNIQUE,
            RANGE_MAX,
            str_attr("vocab_file", "", &[]),
            float_attr("distortion", 1.0),
            int_attr("num_reserved_ids", 0),
            int_attr("num_shards", 1),
            int_attr("shard", 0),
            list_attr("unigrams", AttrKind::Floats),
            SEED,
            SEED2,
        ],
        ..SAMPLER_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let table = kept(cx, AliasTable::of)?;
        Request::of(cx, range_max(cx)?)?.draw(cx, &*table)
    })],
};

/// All classes.
pub(crate) static ALL: Op = Op {
    def: OpDef {
        name: "AllCandidateSampler",
        summary: "All classes as candidates, each of which is expected once.",
        attrs: &[NUM_TRUE, NUM_SAMPLED, UNIQUE, SEED, SEED2],
        ..SAMPLER_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let range = check_range(cx.attrs().int(NUM_SAMPLED.name))?;
        let request = Request::of(cx, range)?;
        let count = usize::try_from(range).unwrap_or(usize::MAX);
        let mut all = cx.zeros(DType::I64, &[count])?;
        let places = all.as_mut_slice::<i64>()?;
        (0..range).zip(places).for_each(|(class, to)| *to = class);
        request.results(cx, all.as_slice()?, |_| 1.0)
    })],
};
