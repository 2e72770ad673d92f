//! FractionalMaxPool, FractionalAvgPool: pooling over regions whose borders are drawn at random.

use smallvec::smallvec;
use thalweg_cpu::number::Number;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelCx, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{
    AttrDef, Effect, Gradient, arg, arg_of, attr, bool_attr, int_attr, type_attr,
};
use thalweg_graph::{AttrKind, Attrs, Infer, InferError, OpDef};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Shape, dispatch};

use super::fractional_regions::{OVERLAPPING, Regions, Sequence};
use crate::random::philox::Philox;
use crate::random::reserve::take_blocks;
use crate::support::gradient_nodes::shape_of;

/// The dtypes of fractional pooling.
pub(super) const DTYPES: &[DType] = &[DType::F32, DType::F64, DType::I32, DType::I64];

const ATTRS: &[AttrDef] = &[
    attr("pooling_ratio", AttrKind::Floats),
    bool_attr("pseudo_random", false),
    OVERLAPPING,
    bool_attr("deterministic", false),
    int_attr("seed", 0),
    int_attr("seed2", 0),
    type_attr("T", DTYPES),
];

/// The ratios of input to output, of lines and of columns.
fn ratios(attrs: &Attrs) -> Result<[f32; 2], InferError> {
    let error = |reason: String| InferError::Attr {
        attr: "pooling_ratio",
        reason,
    };
    let all = attrs.floats("pooling_ratio");
    let &[images, lines, columns, channels] = all else {
        return Err(error(format!(
            "has {}, but must have 4, one for each dimension",
            counted(all.len(), "value")
        )));
    };
    // Not true of NaN either.
    let fits = |ratio: &f32| *ratio >= 1.0;
    if let Some(ratio) = all.iter().find(|ratio| !fits(ratio)) {
        return Err(error(format!(
            "pooling_ratio cannot be smaller than 1, got: {ratio}"
        )));
    }
    if images != 1.0 || channels != 1.0 {
        return Err(InferError::Unsupported(format!(
            "pooling_ratio is {images} for images and {channels} for channels: regions divide lines and columns only, so both must be 1"
        )));
    }
    Ok([lines, columns])
}

/// Regions along an axis of `input` elements.
fn regions(input: usize, ratio: f32) -> usize {
    (input as f32 / ratio).floor() as usize
}

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let ratios = ratios(cx.attrs())?;
    let images = cx.ranked(0, 4)?;
    let mut dims = [0, 1, 2, 3].map(|axis| images.dim(axis));
    for (axis, dim) in dims.iter_mut().enumerate() {
        let ratio = match axis {
            1 | 2 => ratios[axis - 1],
            _ => 1.0,
        };
        let Some(input) = *dim else { continue };
        *dim = Some(regions(input, ratio));
        if *dim == Some(0) {
            return Err(InferError::Value {
                input: 0,
                reason: format!(
                    "Pooling ratio is higher than input dimension size for dimension {axis}: {input}, and the ratio is {ratio}"
                ),
            });
        }
    }
    cx.set(0, Shape::partial(dims));
    for axis in [1, 2] {
        cx.set(axis, Shape::partial([dims[axis].map(|n| n + 1)]));
    }
    Ok(())
}

/// Draws the borders of the regions, and writes them to the outputs.
fn draw<'a>(cx: &KernelCx<'a>, p: &Pool) -> Result<[&'a [i64]; 2], KernelError> {
    let [lines, columns] = p.sequences;
    let blocks = [lines, columns].map(|s| s.blocks(p.pseudo_random));
    // Each run of a deterministic pool has the borders of the first.
    let first = match p.deterministic {
        true => 0,
        false => take_blocks(cx, blocks[0] + blocks[1])?,
    };
    let (to_lines, to_columns) = (cx.output::<i64>(1)?, cx.output::<i64>(2)?);
    lines.draw(p.pseudo_random, &mut p.philox.words(first), to_lines);
    let second = first.wrapping_add(blocks[0]);
    columns.draw(p.pseudo_random, &mut p.philox.words(second), to_columns);
    Ok([to_lines, to_columns])
}

/// A fractional pool that is ready to run.
#[derive(Clone, Copy)]
struct Pool {
    sequences: [Sequence; 2],
    channels: usize,
    pseudo_random: bool,
    deterministic: bool,
    overlapping: bool,
    philox: Philox,
}

impl Pool {
    fn of(p: &Prepare<'_>) -> Result<Pool, KernelError> {
        let (&[_, lines, columns, channels], &[_, out_lines, out_columns, _]) =
            (p.dims(0), p.output_dims(0))
        else {
            return Err(KernelError::Argument("images"));
        };
        if out_lines == 0 || out_columns == 0 {
            return Err(KernelError::Argument("an output with pixels"));
        }
        let attrs = &p.node.attrs;
        Ok(Pool {
            sequences: [(lines, out_lines), (columns, out_columns)]
                .map(|(input, regions)| Sequence { input, regions }),
            channels,
            pseudo_random: attrs.bool("pseudo_random"),
            deterministic: attrs.bool("deterministic"),
            overlapping: attrs.bool(OVERLAPPING.name),
            philox: Philox::of(attrs),
        })
    }
}

/// Kernel that joins the elements of a region, from the first on, and finishes with their number.
fn kernel<T: Number>(
    p: &Prepare<'_>,
    join: fn(T, T) -> T,
    finish: fn(T, usize) -> T,
) -> Result<Prepared, KernelError> {
    let pool = Pool::of(p)?;
    let elements = p.inputs.first().map_or(0, |x| x.elements());
    Ok(Prepared::new(elements, move |cx| {
        let borders = draw(cx, &pool)?;
        let x = cx.input::<T>(0)?;
        let [lines, columns] = [0, 1].map(|axis| Regions {
            borders: borders[axis],
            input: pool.sequences[axis].input,
            overlapping: pool.overlapping,
        });
        let channels = pool.channels;
        let line = columns.len() * channels;
        for_chunks(cx.pool(), cx.output::<T>(0)?, line, &|i, out| {
            let (image, y) = (i / lines.len(), i % lines.len());
            for (o, out) in out.iter_mut().enumerate() {
                let (x_region, c) = (columns.region(o / channels), o % channels);
                let elements = lines.region(y).flat_map(|y| {
                    let line = (image * lines.input + y) * columns.input;
                    x_region
                        .clone()
                        .map(move |at| x[(line + at) * channels + c])
                });
                let mut number = 0;
                let joined = elements.inspect(|_| number += 1).reduce(join);
                *out = joined.map_or(T::ZERO, |joined| finish(joined, number));
            }
        });
        Ok(())
    }))
}

fn largest<T: Number>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    kernel::<T>(p, |a, b| if b > a { b } else { a }, |x, _| x)
}

/// Largest element of each region.
pub(crate) static FRACTIONAL_MAX_POOL: Op = Op {
    def: OpDef {
        name: "FractionalMaxPool",
        summary: "The largest element of each of the regions into which random borders divide images, and the borders.",
        inputs: &[arg("value", "T")],
        outputs: &[
            arg("output", "T"),
            arg_of("row_pooling_sequence", DType::I64),
            arg_of("col_pooling_sequence", DType::I64),
        ],
        attrs: ATTRS,
        shape,
        gradient: Gradient::Rule(|g| {
            let Some(dy) = g.dy(0) else {
                return smallvec![];
            };
            let node = g.graph().op("FractionalMaxPoolGrad");
            let node = node.input(g.input(0)).input(g.output(0)).input(dy);
            let node = node.input(g.output(1)).input(g.output(2));
            let node = node.attr(OVERLAPPING.name, g.attrs().bool(OVERLAPPING.name));
            smallvec![Some(node.output())]
        }),
        effect: Effect::Random,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(
        |p| dispatch!(p.dtype(0), [F32 F64 I32 I64], T => largest::<T>(p), else Err(KernelError::DType(p.dtype(0)))),
    )],
};

/// Mean of each region.
pub(crate) static FRACTIONAL_AVG_POOL: Op = Op {
    def: OpDef {
        name: "FractionalAvgPool",
        summary: "The mean of each of the regions into which random borders divide images, and the borders.",
        gradient: Gradient::Rule(|g| {
            let Some(dy) = g.dy(0) else {
                return smallvec![];
            };
            let node = g.graph().op("FractionalAvgPoolGrad");
            let node = node.input(shape_of(g.input(0), DType::I64)).input(dy);
            let node = node.input(g.output(1)).input(g.output(2));
            let node = node.attr(OVERLAPPING.name, g.attrs().bool(OVERLAPPING.name));
            smallvec![Some(node.output())]
        }),
        ..FRACTIONAL_MAX_POOL.def
    },
    kernels: &[cpu(|p| match p.dtype(0) {
        DType::F32 => kernel::<f32>(p, |a, b| a + b, |sum, n| sum / n as f32),
        DType::F64 => kernel::<f64>(p, |a, b| a + b, |sum, n| sum / n as f64),
        DType::I32 => kernel::<i32>(p, i32::wrapping_add, |sum, n| {
            sum.checked_div(n as i32).unwrap_or(0)
        }),
        DType::I64 => kernel::<i64>(p, i64::wrapping_add, |sum, n| {
            sum.checked_div(n as i64).unwrap_or(0)
        }),
        other => Err(KernelError::DType(other)),
    })],
};
