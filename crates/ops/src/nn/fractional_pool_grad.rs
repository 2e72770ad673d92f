//! FractionalMaxPoolGrad, FractionalAvgPoolGrad.

use thalweg_cpu::number::Number;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelCx, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{arg, arg_of, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, dispatch};

use super::fractional_pool::DTYPES;
use super::fractional_regions::{OVERLAPPING, Regions};
use super::geometry::sizes;
use super::volumes::countable;

/// Names of the two inputs with borders.
const SEQUENCES: [&str; 2] = ["row_pooling_sequence", "col_pooling_sequence"];

/// Checks the borders, inputs `i` and `i + 1`, of pooled images of this shape.
fn check_borders(cx: &Infer<'_>, i: usize, pooled: &Shape) -> Result<(), InferError> {
    for (axis, name) in SEQUENCES.iter().enumerate() {
        let error = |reason: String| InferError::Value {
            input: i + axis,
            reason,
        };
        let shape = cx.shape(i + axis);
        if shape.rank().is_some_and(|rank| rank != 1) {
            return Err(error(format!("{name} must be a vector, not {shape}")));
        }
        if let (Some(n), Some(regions)) = (shape.dim(0), pooled.dim(axis + 1))
            && regions.checked_add(1) != Some(n)
        {
            return Err(error(format!(
                "{name} has {n} borders, but must have one more than the gradient has {regions} regions"
            )));
        }
    }
    Ok(())
}

/// A gradient that is ready to run.
#[derive(Clone, Copy)]
struct PoolGrad {
    lines: usize,
    columns: usize,
    channels: usize,
    regions: [usize; 2],
    overlapping: bool,
}

impl PoolGrad {
    /// The gradient to images of the output's dimensions, from that of the pooled ones.
    fn of(p: &Prepare<'_>, pooled: &[usize]) -> Result<PoolGrad, KernelError> {
        let &[batch, lines, columns, channels] = p.output_dims(0) else {
            return Err(KernelError::Argument("images"));
        };
        let &[n, a, b, c] = pooled else {
            return Err(KernelError::Argument("pooled images"));
        };
        if n != batch || c != channels || !countable(p.output_dims(0)) || !countable(pooled) {
            return Err(KernelError::Invalid(format!(
                "the gradient has shape {}, which does not fit images {}",
                Shape::known(pooled),
                Shape::known(p.output_dims(0))
            )));
        }
        Ok(PoolGrad {
            lines,
            columns,
            channels,
            regions: [a, b],
            overlapping: p.node.attrs.bool(OVERLAPPING.name),
        })
    }

    /// Elements of an image.
    fn image(&self) -> usize {
        self.lines * self.columns * self.channels
    }

    /// Elements of a pooled image.
    fn pooled(&self) -> usize {
        self.regions[0] * self.regions[1] * self.channels
    }

    /// The regions of both axes, whose borders are inputs `i` and `i + 1`.
    fn borders<'a>(&self, cx: &KernelCx<'a>, i: usize) -> Result<[Regions<'a>; 2], KernelError> {
        let of = |axis: usize, input: usize| {
            let borders = cx.input::<i64>(i + axis)?;
            if borders.len() != self.regions[axis] + 1 {
                return Err(KernelError::Invalid(format!(
                    "{} has {} borders, but must have {}",
                    SEQUENCES[axis],
                    borders.len(),
                    self.regions[axis] + 1
                )));
            }
            if let Some(element) = borders.iter().position(|&border| border < 0) {
                return Err(KernelError::Element {
                    input: i + axis,
                    element,
                    reason: format!(
                        "{} sequence tensor values must not be negative: {}",
                        ["Row", "Column"][axis],
                        borders[element]
                    ),
                });
            }
            // The work is that of the images then, whatever the borders are.
            if !borders.is_sorted() {
                return Err(KernelError::Invalid(format!(
                    "{} must not decrease: it has the first element of each region",
                    SEQUENCES[axis]
                )));
            }
            Ok(Regions {
                borders,
                input,
                overlapping: self.overlapping,
            })
        };
        Ok([of(0, self.lines)?, of(1, self.columns)?])
    }

    /// Calls `f` with the place of each element of each pooled image, and the places of its region's elements.
    fn each(
        &self,
        [lines, columns]: [Regions<'_>; 2],
        mut f: impl FnMut(usize, &mut dyn Iterator<Item = usize>),
    ) {
        for o in 0..self.pooled() {
            let (pixel, c) = (o / self.channels, o % self.channels);
            let region = columns.region(pixel % self.regions[1]);
            let mut places = lines.region(pixel / self.regions[1]).flat_map(|y| {
                let line = y * self.columns;
                region.clone().map(move |x| (line + x) * self.channels + c)
            });
            f(o, &mut places);
        }
    }
}

fn max_grad<T: Number>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let g = PoolGrad::of(p, p.dims(2))?;
    let elements = p.inputs.first().map_or(0, |x| x.elements());
    Ok(Prepared::new(elements, move |cx| {
        let (x, dy) = (cx.input::<T>(0)?, cx.input::<T>(2)?);
        let borders = g.borders(cx, 3)?;
        let empty = |axis: usize| {
            let regions: Regions<'_> = borders[axis];
            (0..regions.len()).find(|&i| regions.region(i).is_empty())
        };
        for (axis, name) in SEQUENCES.iter().enumerate() {
            if let Some(i) = empty(axis) {
                return Err(KernelError::Element {
                    input: 3 + axis,
                    element: i,
                    reason: format!("{name}: region {i} has no elements of the images"),
                });
            }
        }
        for_chunks(cx.pool(), cx.output::<T>(0)?, g.image(), &|i, dx| {
            let (image, dy) = (&x[i * g.image()..], &dy[i * g.pooled()..]);
            dx.fill(T::ZERO);
            g.each(borders, |o, places| {
                let largest =
                    places.reduce(|best, at| if image[at] > image[best] { at } else { best });
                if let Some(at) = largest {
                    dx[at] = dx[at].add(dy[o]);
                }
            });
        });
        Ok(())
    }))
}

/// Sums are taken in `f64`, as TensorFlow does.
fn avg_grad<T: Number>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let g = PoolGrad::of(p, p.dims(1))?;
    let elements = p.outputs.first().map_or(0, |x| x.elements());
    let image = g.image();
    Ok(Prepared::new(elements, move |cx| {
        let dy = cx.input::<T>(1)?;
        let borders = g.borders(cx, 2)?;
        let out = cx.output::<T>(0)?;
        let sums = cx.scratch::<f64>(image)?;
        if image == 0 {
            return Ok(());
        }
        for (i, dx) in out.chunks_exact_mut(image).enumerate() {
            let dy = &dy[i * g.pooled()..];
            sums.fill(0.0);
            g.each(borders, |o, places| {
                let pixel = o / g.channels;
                let of = |axis: usize, at: usize| borders[axis].region(at).len();
                let n = of(0, pixel / g.regions[1]) * of(1, pixel % g.regions[1]);
                for at in places {
                    sums[at] += dy[o].to_f64() / n as f64;
                }
            });
            for (dx, &sum) in dx.iter_mut().zip(&*sums) {
                *dx = T::from_f64(sum);
            }
        }
        Ok(())
    })
    .with_scratch(image * size_of::<f64>()))
}

/// Gradient of FractionalMaxPool.
pub(crate) static FRACTIONAL_MAX_POOL_GRAD: Op = Op {
    def: OpDef {
        name: "FractionalMaxPoolGrad",
        summary: "The gradient of FractionalMaxPool: that of each region goes to the first of its largest elements.",
        inputs: &[
            arg("orig_input", "T"),
            arg("orig_output", "T"),
            arg("out_backprop", "T"),
            arg_of(SEQUENCES[0], DType::I64),
            arg_of(SEQUENCES[1], DType::I64),
        ],
        outputs: &[arg("output", "T")],
        attrs: &[OVERLAPPING, type_attr("T", DTYPES)],
        shape: |cx| {
            let images = cx.ranked(0, 4)?;
            cx.ranked(1, 4)?;
            cx.ranked(2, 4)?;
            let pooled = cx.same(1, 2)?;
            check_borders(cx, 3, &pooled)?;
            cx.set(0, images);
            Ok(())
        },
        ..OpDef::EMPTY
    },
    kernels: &[cpu(
        |p| dispatch!(p.dtype(0), [F32 F64 I32 I64], T => max_grad::<T>(p), else Err(KernelError::DType(p.dtype(0)))),
    )],
};

/// Gradient of FractionalAvgPool.
pub(crate) static FRACTIONAL_AVG_POOL_GRAD: Op = Op {
    def: OpDef {
        name: "FractionalAvgPoolGrad",
        summary: "The gradient of FractionalAvgPool: that of each region is spread evenly over its elements.",
        inputs: &[
            arg_of("orig_input_tensor_shape", DType::I64).host(),
            arg("out_backprop", "T"),
            arg_of(SEQUENCES[0], DType::I64),
            arg_of(SEQUENCES[1], DType::I64),
        ],
        outputs: &[arg("output", "T")],
        attrs: &[OVERLAPPING, type_attr("T", DTYPES)],
        shape: |cx| {
            let images = sizes(cx, 0)?;
            let pooled = cx.ranked(1, 4)?;
            check_borders(cx, 2, &pooled)?;
            cx.set(0, images);
            Ok(())
        },
        ..OpDef::EMPTY
    },
    kernels: &[cpu(
        |p| dispatch!(p.dtype(1), [F32 F64 I32 I64], T => avg_grad::<T>(p), else Err(KernelError::DType(p.dtype(1)))),
    )],
};
