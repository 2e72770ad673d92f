//! SpaceToBatchND, BatchToSpaceND, SpaceToBatch, BatchToSpace.

use smallvec::smallvec;
use thalweg_device::gpu::Launches;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{
    Allowed, AttrDef, Gradient, InputGradients, arg, attr, type_attr, type_attr_or,
};
use thalweg_graph::{AttrKind, Attrs, GradCx, Infer, InferError, OpDef};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Shape};

use crate::array::index_tables::{IndexTables, strides};
use crate::support::shape_inputs::{checked_shape, invalid_value, kernel_error, vector_length};
use crate::support::trivial_kernels::nothing;

/// Block sizes, and paddings or crops, along the dimensions after the first.
struct SpatialBlocks {
    sides: Vec<usize>,
    /// Before and after.
    around: Vec<(usize, usize)>,
}

impl SpatialBlocks {
    /// Blocks with these sides and these paddings or crops.
    fn new(sides: &[i64], around: &[i64], input: usize) -> Result<SpatialBlocks, InferError> {
        let at_least = |v: i64, least: i64, input| match usize::try_from(v) {
            Ok(size) if v >= least => Ok(size),
            _ => Err(invalid_value(
                input,
                format!("{v} is too small: use at least {least}"),
            )),
        };
        if around.len() != 2 * sides.len() {
            let reason = format!(
                "{} for {}",
                counted(around.len(), "number"),
                counted(sides.len(), "dimension")
            );
            return Err(invalid_value(input, reason));
        }
        Ok(SpatialBlocks {
            sides: sides
                .iter()
                .map(|&s| at_least(s, 1, 1))
                .collect::<Result<_, _>>()?,
            around: around
                .chunks_exact(2)
                .map(|pair| Ok((at_least(pair[0], 0, input)?, at_least(pair[1], 0, input)?)))
                .collect::<Result<_, InferError>>()?,
        })
    }

    /// Number of batches that a block makes.
    fn batches(&self) -> Option<usize> {
        self.sides.iter().try_fold(1usize, |n, &s| n.checked_mul(s))
    }
}

/// Blocks of a node, from two inputs, or from an attribute and an input.
fn blocks_of(
    attrs: &Attrs,
    old: bool,
    values: [Option<Vec<i64>>; 2],
) -> Result<Option<SpatialBlocks>, InferError> {
    match (old, values) {
        (true, [Some(around), _]) => {
            let side = attrs.int("block_size");
            Ok(Some(SpatialBlocks::new(&[side, side], &around, 1)?))
        }
        (false, [Some(sides), Some(around)]) => Ok(Some(SpatialBlocks::new(&sides, &around, 2)?)),
        _ => Ok(None),
    }
}

fn shape(cx: &mut Infer<'_>, old: bool, to_batch: bool) -> Result<(), InferError> {
    let at = if old { 1 } else { 2 };
    let sides = if old { Some(2) } else { vector_length(cx, 1)? };
    cx.ranked(at, 2)?
        .merge(&Shape::partial([sides, Some(2)]))
        .ok_or_else(|| {
            invalid_value(
                at,
                format!(
                    "a shape of {}: give a row of two numbers for each side of a block",
                    cx.shape(at)
                ),
            )
        })?;
    let shape = match old {
        true => cx.ranked(0, 4)?,
        false => cx.shape(0).clone(),
    };
    let (Some(dims), Some(m)) = (shape.dims(), sides) else {
        return Ok(());
    };
    if dims.len() < m + 1 {
        return Err(InferError::Rank {
            input: 0,
            expected: format!("at least {}", m + 1),
            found: shape,
        });
    }
    let values = match old {
        true => [cx.ints(1), None],
        false => [cx.ints(1), cx.ints(2)],
    };
    let Some(blocks) = blocks_of(cx.attrs(), old, values)? else {
        let unknown = dims.iter().enumerate();
        let all = unknown.map(|(i, d)| if i <= m { None } else { *d });
        cx.set(0, Shape::partial(all));
        return Ok(());
    };
    let too_large = || invalid_value(1, "the blocks make the output too large");
    let batches = blocks.batches().ok_or_else(too_large)?;
    let mut all = dims.to_vec();
    all[0] = match (dims[0], to_batch) {
        (None, _) => None,
        (Some(d), true) => Some(d.checked_mul(batches).ok_or_else(too_large)?),
        (Some(d), false) if d % batches == 0 => Some(d / batches),
        (Some(d), false) => {
            return Err(invalid_value(
                0,
                format!("a batch of {d} is no multiple of {batches}"),
            ));
        }
    };
    for (i, (&side, &(before, after))) in blocks.sides.iter().zip(&blocks.around).enumerate() {
        let Some(d) = dims[i + 1] else { continue };
        let around = before.checked_add(after).ok_or_else(too_large)?;
        all[i + 1] = Some(match to_batch {
            true => match d.checked_add(around).ok_or_else(too_large)? {
                padded if padded % side == 0 => padded / side,
                padded => {
                    let reason = format!(
                        "{padded}, the padded length of dimension {}, is no multiple of {side}",
                        i + 1
                    );
                    return Err(invalid_value(at, reason));
                }
            },
            false => {
                let long = d.checked_mul(side).ok_or_else(too_large)?;
                long.checked_sub(around).ok_or_else(|| {
                    invalid_value(
                        at,
                        format!(
                            "{around} elements of {long} cannot be cut off dimension {}",
                            i + 1
                        ),
                    )
                })?
            }
        });
    }
    let shape = checked_shape(0, Shape::partial(all))?;
    cx.set(0, shape);
    Ok(())
}

/// Kernel of a node: its blocks are those of [`blocks_of`].
fn prepare(p: &Prepare<'_>, old: bool, to_batch: bool) -> Result<Prepared, KernelError> {
    match (mapping(p, old, to_batch)?, to_batch) {
        (None, _) => Ok(nothing()),
        (Some(tables), true) => tables.scatter(p),
        (Some(tables), false) => tables.gather(p),
    }
}

/// As [`prepare`], on a GPU.
fn launches(p: &Prepare<'_>, old: bool, to_batch: bool) -> Result<Launches, KernelError> {
    match (mapping(p, old, to_batch)?, to_batch) {
        (None, _) => Ok(Launches::default()),
        (Some(tables), true) => tables.scatter_on_gpu(p),
        (Some(tables), false) => tables.gather_on_gpu(p),
    }
}

/// Maps each element of the spatial tensor (padded or cropped) to an element of the batched one; `None` if the output is
/// empty.
fn mapping(p: &Prepare<'_>, old: bool, to_batch: bool) -> Result<Option<IndexTables>, KernelError> {
    let values = match old {
        true => [Some(p.ints(1)?), None],
        false => [Some(p.ints(1)?), Some(p.ints(2)?)],
    };
    let blocks = blocks_of(&p.node.attrs, old, values).map_err(kernel_error)?;
    let blocks = blocks.ok_or(KernelError::Argument("blocks"))?;
    let (space, batches) = match to_batch {
        true => (p.dims(0), p.output_dims(0)),
        false => (p.output_dims(0), p.dims(0)),
    };
    if p.outputs[0].elements() == 0 {
        return Ok(None);
    }
    let strides = strides(batches);
    // A step along the first side of a block skips all batches that the other sides make.
    let mut block_strides = vec![0; blocks.sides.len()];
    let mut stride = space[0].saturating_mul(strides[0]);
    for (own, &side) in block_strides.iter_mut().zip(&blocks.sides).rev() {
        *own = stride;
        stride = stride.saturating_mul(side);
    }
    if space.contains(&0) {
        // All of the output is padding, and tables must not be empty.
        return Ok(Some(IndexTables::new(vec![vec![0]])));
    }
    let table = |i: usize| -> Vec<usize> {
        let along = i.checked_sub(1).filter(|&k| k < blocks.sides.len());
        let Some(k) = along else {
            return (0..space[i]).map(|at| at * strides[i]).collect();
        };
        let (side, before) = (blocks.sides[k], blocks.around[k].0);
        (before..before + space[i])
            .map(|at| at / side * strides[i] + at % side * block_strides[k])
            .collect()
    };
    Ok(Some(IndexTables::new(
        (0..space.len()).map(table).collect(),
    )))
}

/// Gradient: the inverse op.
fn back<'g>(g: &GradCx<'_, 'g>, op: &str) -> InputGradients<'g> {
    let node = g.graph().op(op).input(g.grad()).input(g.input(1));
    let node = match g.attrs().get("block_size") {
        Some(side) => node.attr("block_size", side.clone()),
        None => node.input(g.input(2)),
    };
    smallvec![Some(node.output())]
}

const fn index(name: &'static str) -> AttrDef {
    type_attr_or(name, DType::INDICES, DType::I32)
}

const BLOCK_SIZE: AttrDef = AttrDef {
    allowed: Allowed::AtLeast(2),
    ..attr("block_size", AttrKind::Int)
};

/// Moves blocks of the spatial dimensions to the batch.
pub(crate) static SPACE_TO_BATCH_ND: Op = Op {
    def: OpDef {
        name: "SpaceToBatchND",
        summary: "The input, padded with zeros, with each place in blocks of its space as a batch.",
        inputs: &[
            arg("input", "T"),
            arg("block_shape", "Tblock_shape").host(),
            arg("paddings", "Tpaddings").host(),
        ],
        outputs: &[arg("output", "T")],
        attrs: &[
            type_attr("T", DType::PLAIN),
            index("Tblock_shape"),
            index("Tpaddings"),
        ],
        shape: |cx| shape(cx, false, true),
        gradient: Gradient::Rule(|g| back(g, "BatchToSpaceND")),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| prepare(p, false, true)),
        gpu(|p| launches(p, false, true)),
    ],
};

/// Moves batches to blocks of the spatial dimensions.
pub(crate) static BATCH_TO_SPACE_ND: Op = Op {
    def: OpDef {
        name: "BatchToSpaceND",
        summary: "The input with batches as places in blocks of space, whose edges are cut off.",
        inputs: &[
            arg("input", "T"),
            arg("block_shape", "Tblock_shape").host(),
            arg("crops", "Tcrops").host(),
        ],
        outputs: &[arg("output", "T")],
        attrs: &[
            type_attr("T", DType::PLAIN),
            index("Tblock_shape"),
            index("Tcrops"),
        ],
        shape: |cx| shape(cx, false, false),
        gradient: Gradient::Rule(|g| back(g, "SpaceToBatchND")),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| prepare(p, false, false)),
        gpu(|p| launches(p, false, false)),
    ],
};

/// Moves blocks of pixels to the batch.
pub(crate) static SPACE_TO_BATCH: Op = Op {
    def: OpDef {
        name: "SpaceToBatch",
        summary: "Images, padded with zeros, with each place in square blocks as a batch.",
        inputs: &[arg("input", "T"), arg("paddings", "Tpaddings").host()],
        outputs: &[arg("output", "T")],
        attrs: &[type_attr("T", DType::PLAIN), index("Tpaddings"), BLOCK_SIZE],
        shape: |cx| shape(cx, true, true),
        gradient: Gradient::Rule(|g| back(g, "BatchToSpace")),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| prepare(p, true, true)),
        gpu(|p| launches(p, true, true)),
    ],
};

/// Moves batches to blocks of pixels.
pub(crate) static BATCH_TO_SPACE: Op = Op {
    def: OpDef {
        name: "BatchToSpace",
        summary: "Images with batches as places in square blocks, whose edges are cut off.",
        inputs: &[arg("input", "T"), arg("crops", "Tidx").host()],
        outputs: &[arg("output", "T")],
        attrs: &[type_attr("T", DType::PLAIN), BLOCK_SIZE, index("Tidx")],
        shape: |cx| shape(cx, true, false),
        gradient: Gradient::Rule(|g| back(g, "SpaceToBatch")),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| prepare(p, true, false)),
        gpu(|p| launches(p, true, false)),
    ],
};
