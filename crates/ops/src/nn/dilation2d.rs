//! Dilation2D, Dilation2DBackpropInput, Dilation2DBackpropFilter: grey-scale morphology.

use smallvec::smallvec;
use thalweg_cpu::parallel::for_chunks;
use thalweg_cpu::window_axis::WindowAxis;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Arg, AttrDef, Gradient, arg, attr, type_attr};
use thalweg_graph::{AttrKind, Attrs, GradCx, Infer, InferError, OpDef, Output};
use thalweg_tensor::{DType, Shape, dispatch};

use super::format::{DataFormat, Padding, Sliding};
use super::pool::SAME_OR_VALID;
use super::volumes::countable;
use crate::support::number_bounds::NumberBounds;

const ATTRS: &[AttrDef] = &[
    type_attr("T", DType::NUMBERS),
    attr("strides", AttrKind::Ints),
    attr("rates", AttrKind::Ints),
    SAME_OR_VALID,
];

const GRAD_INPUTS: &[Arg] = &[
    arg("input", "T"),
    arg("filter", "T"),
    arg("out_backprop", "T"),
];

fn sliding(attrs: &Attrs) -> Result<Sliding, InferError> {
    let format = DataFormat::Nhwc;
    Ok(Sliding {
        format,
        padding: Padding::of(attrs, format)?,
        strides: format.pair(attrs, "strides")?,
        dilations: format.pair(attrs, "rates")?,
        may_be_empty: false,
    })
}

/// Shape of the output for the images and the filter.
fn output_shape(cx: &Infer<'_>) -> Result<Shape, InferError> {
    let sliding = sliding(cx.attrs())?;
    let (images, filter) = (cx.ranked(0, 4)?, cx.ranked(1, 3)?);
    let depth = match (images.dim(3), filter.dim(2)) {
        (Some(found), Some(expected)) if found != expected => {
            return Err(InferError::Mismatch {
                what: "the images and the filter must have as many channels".to_owned(),
                left: images,
                right: filter,
            });
        }
        (found, expected) => found.or(expected),
    };
    let mut counts = [None; 2];
    for (axis, count) in counts.iter_mut().enumerate() {
        if let (Some(input), Some(window)) = (images.dim(axis + 1), filter.dim(axis)) {
            *count = Some(sliding.count(0, axis, input, window)?.0);
        }
    }
    Ok(Shape::partial([images.dim(0), counts[0], counts[1], depth]))
}

/// Sets the shape of input `i`, once that of the gradient is checked.
fn gradient_shape(cx: &mut Infer<'_>, i: usize) -> Result<(), InferError> {
    let (expected, found) = (output_shape(cx)?, cx.ranked(2, 4)?);
    if expected.merge(&found).is_none() {
        return Err(InferError::Mismatch {
            what: "out_backprop must have the shape of the output".to_owned(),
            left: found,
            right: expected,
        });
    }
    cx.set(0, cx.ranked(i, [4, 3][i])?);
    Ok(())
}

/// The shape of a dilation.
#[derive(Clone, Copy)]
struct Geometry {
    batch: usize,
    axes: [WindowAxis; 2],
    depth: usize,
}

/// The places of the tap of an output that wins: in its image, and in the filter.
struct Winner {
    image: Option<usize>,
    filter: usize,
}

impl Geometry {
    fn of(p: &Prepare<'_>) -> Result<Geometry, KernelError> {
        let invalid = |e: InferError| KernelError::Invalid(e.to_string());
        let sliding = sliding(&p.node.attrs).map_err(invalid)?;
        let (&[batch, lines, columns, depth], &[k_lines, k_columns, own]) = (p.dims(0), p.dims(1))
        else {
            return Err(KernelError::Argument("images and a filter"));
        };
        if own != depth || !countable(p.dims(0)) || !countable(p.dims(1)) {
            return Err(KernelError::Argument("images for the filter"));
        }
        let axis = |axis: usize, input: usize, window: usize| {
            let (output, pad) = sliding.count(0, axis, input, window).map_err(invalid)?;
            Ok::<_, KernelError>(WindowAxis {
                input,
                output,
                window,
                stride: sliding.strides[axis],
                dilation: sliding.dilations[axis],
                pad,
            })
        };
        let axes = [axis(0, lines, k_lines)?, axis(1, columns, k_columns)?];
        if !countable(&[batch, axes[0].output, axes[1].output, depth]) {
            return Err(KernelError::Argument("an output that can be counted"));
        }
        Ok(Geometry { batch, axes, depth })
    }

    fn image(&self) -> usize {
        self.axes[0].input * self.axes[1].input * self.depth
    }

    fn output(&self) -> usize {
        self.axes[0].output * self.axes[1].output * self.depth
    }

    fn prepared(
        self,
        run: impl Fn(&thalweg_device::KernelCx<'_>) -> Result<(), KernelError> + Send + Sync + 'static,
    ) -> Prepared {
        let taps = self.axes[0].window.saturating_mul(self.axes[1].window);
        let seen = (self.batch * self.output()).saturating_mul(taps);
        Prepared::new(seen.saturating_add(self.batch * self.image()), run)
    }

    /// The largest sum of an image's element and the filter's, in the window of output `o` of the image, and its place.
    /// A window without taps in the image, or without a sum above the lowest number, has that number.
    #[inline(always)]
    fn largest<T: NumberBounds>(&self, image: &[T], filter: &[T], o: usize) -> (T, Winner) {
        let ([lines, columns], depth) = (self.axes, self.depth);
        let (pixel, c) = (o / depth, o % depth);
        let (y, x) = (pixel / columns.output, pixel % columns.output);
        // TensorFlow's place then is the first pixel of the window, if it lies in the image.
        let first = |axis: WindowAxis, o: usize| {
            let at = (o * axis.stride).saturating_sub(axis.pad);
            (at < axis.input).then_some(at)
        };
        let at = |y: usize, x: usize| (y * columns.input + x) * depth + c;
        let mut winner = Winner {
            image: first(lines, y)
                .zip(first(columns, x))
                .map(|(y, x)| at(y, x)),
            filter: c,
        };
        let mut best = T::LOWEST;
        for i in 0..lines.window {
            let Some(y) = lines.place(y, i) else { continue };
            for j in 0..columns.window {
                let Some(x) = columns.place(x, j) else {
                    continue;
                };
                let tap = (i * columns.window + j) * depth + c;
                let sum = image[at(y, x)].add(filter[tap]);
                if sum > best {
                    best = sum;
                    winner = Winner {
                        image: Some(at(y, x)),
                        filter: tap,
                    };
                }
            }
        }
        (best, winner)
    }
}

fn forward<T: NumberBounds>(g: Geometry) -> Prepared {
    g.prepared(move |cx| {
        let (x, filter) = (cx.input::<T>(0)?, cx.input::<T>(1)?);
        let line = g.axes[1].output * g.depth;
        for_chunks(cx.pool(), cx.output::<T>(0)?, line, &|i, out| {
            let (image, y) = (i / g.axes[0].output, i % g.axes[0].output);
            let image = &x[image * g.image()..][..g.image()];
            for (o, out) in out.iter_mut().enumerate() {
                *out = g.largest(image, filter, y * line + o).0;
            }
        });
        Ok(())
    })
}

fn to_images<T: NumberBounds>(g: Geometry) -> Prepared {
    g.prepared(move |cx| {
        let (x, filter, dy) = (cx.input::<T>(0)?, cx.input::<T>(1)?, cx.input::<T>(2)?);
        for_chunks(cx.pool(), cx.output::<T>(0)?, g.image(), &|i, dx| {
            dx.fill(T::ZERO);
            let image = &x[i * g.image()..][..g.image()];
            for (o, &dy) in dy[i * g.output()..][..g.output()].iter().enumerate() {
                if let Some(at) = g.largest(image, filter, o).1.image {
                    dx[at] = dx[at].add(dy);
                }
            }
        });
        Ok(())
    })
}

fn to_filter<T: NumberBounds>(g: Geometry) -> Prepared {
    g.prepared(move |cx| {
        let (x, filter, dy) = (cx.input::<T>(0)?, cx.input::<T>(1)?, cx.input::<T>(2)?);
        let sums = cx.output::<T>(0)?;
        sums.fill(T::ZERO);
        if g.image() * g.output() == 0 {
            return Ok(());
        }
        for (image, dy) in x.chunks_exact(g.image()).zip(dy.chunks_exact(g.output())) {
            for (o, &dy) in dy.iter().enumerate() {
                let at = g.largest(image, filter, o).1.filter;
                sums[at] = sums[at].add(dy);
            }
        }
        Ok(())
    })
}

/// Node of a gradient with the attributes of this node.
fn gradient_node<'g>(g: &GradCx<'_, 'g>, op: &str) -> Output<'g> {
    let copied = ["strides", "rates", "padding"];
    let node = copied
        .iter()
        .fold(g.graph().op(op), |node, name| match g.attrs().get(name) {
            Some(value) => node.attr(name, value.clone()),
            None => node,
        });
    let node = node.input(g.input(0)).input(g.input(1));
    node.input(g.grad()).output()
}

/// Greatest sum of images and a filter in each window.
pub(crate) static DILATION_2D: Op = Op {
    def: OpDef {
        name: "Dilation2D",
        summary: "The largest sum of an element and the filter's, in each window and channel.",
        inputs: GRAD_INPUTS.split_at(2).0,
        outputs: &[arg("output", "T")],
        attrs: ATTRS,
        shape: |cx| {
            let out = output_shape(cx)?;
            cx.set(0, out);
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            smallvec![
                Some(gradient_node(g, "Dilation2DBackpropInput")),
                Some(gradient_node(g, "Dilation2DBackpropFilter")),
            ]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        let g = Geometry::of(p)?;
        dispatch!(p.dtype(0), NUMBERS, T => Ok(forward::<T>(g)), else Err(KernelError::DType(p.dtype(0))))
    })],
};

/// Gradient of [`DILATION_2D`] with respect to its images.
pub(crate) static DILATION_2D_BACKPROP_INPUT: Op = Op {
    def: OpDef {
        name: "Dilation2DBackpropInput",
        summary: "The gradient of Dilation2D with respect to its images: that of each window goes to the first of its largest sums.",
        inputs: GRAD_INPUTS,
        outputs: &[arg("in_backprop", "T")],
        attrs: ATTRS,
        shape: |cx| gradient_shape(cx, 0),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        let g = Geometry::of(p)?;
        dispatch!(p.dtype(0), NUMBERS, T => Ok(to_images::<T>(g)), else Err(KernelError::DType(p.dtype(0))))
    })],
};

/// Gradient of [`DILATION_2D`] with respect to its filter.
pub(crate) static DILATION_2D_BACKPROP_FILTER: Op = Op {
    def: OpDef {
        name: "Dilation2DBackpropFilter",
        summary: "The gradient of Dilation2D with respect to its filter: that of each window goes to the first of its largest sums.",
        inputs: GRAD_INPUTS,
        outputs: &[arg("filter_backprop", "T")],
        attrs: ATTRS,
        shape: |cx| gradient_shape(cx, 1),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        let g = Geometry::of(p)?;
        dispatch!(p.dtype(0), NUMBERS, T => Ok(to_filter::<T>(g)), else Err(KernelError::DType(p.dtype(0))))
    })],
};
