//! TileGrad, ParallelConcat.

use thalweg_cpu::number::Arithmetic;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Gradient, arg, arg_of, attr, count_attr, type_attr};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Element, Shape, Tensor, dispatch};

use crate::flow::rows::joined;
use crate::support::shape_inputs::{ints_per_dim, invalid_value};

/// Length of a tile along a dimension.
fn tile(size: usize, multiple: i64) -> Result<usize, InferError> {
    let multiple = usize::try_from(multiple).unwrap_or(0);
    match size.checked_rem(multiple) {
        Some(0) => Ok(size / multiple),
        _ => Err(invalid_value(
            1,
            format!("{size} elements are no {multiple} tiles: use a divisor of the dimension"),
        )),
    }
}

fn tile_grad_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let multiples = ints_per_dim(cx, 1)?;
    let (Some(dims), Some(multiples)) = (cx.shape(0).dims(), multiples) else {
        return Ok(());
    };
    if dims.len() != multiples.len() {
        let reason = format!("{} multiples for {}", multiples.len(), cx.shape(0));
        return Err(invalid_value(1, reason));
    }
    let mut tiles = Vec::with_capacity(dims.len());
    for (&size, &multiple) in dims.iter().zip(&multiples) {
        tiles.push(match size {
            Some(size) => Some(tile(size, multiple)?),
            None => None,
        });
    }
    cx.set(0, Shape::partial(tiles));
    Ok(())
}

/// The sum of the tiles.
fn sum_of_tiles<T: Element + Arithmetic>(
    cx: &TensorCx<'_>,
    dims: &[usize],
) -> Result<Tensor, KernelError> {
    let (x, from) = (cx.slice::<T>(0)?, cx.tensor(0)?.dims());
    let mut sum = Tensor::zeros_in(T::DTYPE, dims, cx.memory())?;
    let (to, mut stop) = (sum.as_mut_slice::<T>()?, cx.stop_check());
    for (i, &x) in x.iter().enumerate() {
        stop.tick()?;
        let (mut rest, mut place, mut stride) = (i, 0, 1);
        for (&size, &tile) in from.iter().zip(dims).rev() {
            place += rest % size % tile * stride;
            (rest, stride) = (rest / size, stride * tile);
        }
        to[place] = Arithmetic::add(to[place], x);
    }
    Ok(sum)
}

/// The gradient of Tile in TensorFlow's first graphs.
pub(crate) static TILE_GRAD: Op = Op {
    def: OpDef {
        name: "TileGrad",
        summary: "The sum of so many tiles of the input in each dimension.",
        inputs: &[arg("input", "T"), arg_of("multiples", DType::I32)],
        outputs: &[arg("output", "T")],
        attrs: &[type_attr("T", DType::ALL_NUMBERS)],
        shape: tile_grad_shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let (x, multiples) = (cx.tensor(0)?, cx.ints(1)?);
        let invalid = |e: InferError| KernelError::Invalid(e.to_string());
        if x.dims().len() != multiples.len() {
            return Err(KernelError::Argument("a multiple for each dimension"));
        }
        let tiles: Result<Vec<usize>, _> = (x.dims().iter().zip(&multiples))
            .map(|(&size, &multiple)| tile(size, multiple))
            .collect();
        let dims = tiles.map_err(invalid)?;
        dispatch!(x.dtype(), ALL_NUMBERS, T => Ok(vec![sum_of_tiles::<T>(cx, &dims)?]), else
            Err(KernelError::DType(x.dtype())))
    })],
};

fn parallel_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let shape = cx.attrs().shape("shape");
    let invalid = |reason: String| InferError::Attr {
        attr: "shape",
        reason,
    };
    let Some(dims) = shape.to_dims().filter(|dims| !dims.is_empty()) else {
        return Err(invalid(format!(
            "{shape} must be known and have a dimension"
        )));
    };
    if dims[0] != cx.inputs() {
        return Err(invalid(format!("{shape} has not {} rows", cx.inputs())));
    }
    let row = Shape::known(&[&[1], &dims[1..]].concat());
    for i in 0..cx.inputs() {
        if row.merge(cx.shape(i)).is_none() {
            return Err(InferError::Mismatch {
                what: format!("input {i} must have the shape of one row"),
                left: cx.shape(i).clone(),
                right: row,
            });
        }
    }
    cx.set(0, shape);
    Ok(())
}

/// Concatenates rows.
pub(crate) static PARALLEL_CONCAT: Op = Op {
    def: OpDef {
        name: "ParallelConcat",
        summary: "The inputs, of one row each, as the rows of a tensor.",
        inputs: &[arg("values", "T").list("N")],
        outputs: &[arg("output", "T")],
        attrs: &[
            count_attr("N"),
            type_attr("T", DType::ELEMENTS),
            attr("shape", AttrKind::Shape),
        ],
        shape: parallel_shape,
        gradient: Gradient::Missing,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let rows: Result<Vec<Tensor>, _> = (0..cx.inputs()).map(|i| cx.value(i)).collect();
        let rows = rows?;
        let dims = cx.attrs().shape("shape").to_dims().unwrap_or_default();
        let dtype = rows.first().map_or(DType::F32, Tensor::dtype);
        Ok(vec![joined(cx.memory(), dtype, &rows, &dims)?])
    })],
};
