//! Base definitions and shape rules of Fourier transforms.

use thalweg_graph::op::{Arg, AttrDef, Gradient, ShapeFn, arg, arg_of, type_attr_or};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape};

use crate::support::shape_inputs::{checked_shape, invalid_value};

const COMPLEX: AttrDef = type_attr_or("Tcomplex", DType::COMPLEX, DType::C64);
const REAL: AttrDef = type_attr_or("Treal", &[DType::F32, DType::F64], DType::F32);
const COMPLEX_ATTRS: &[AttrDef] = &[COMPLEX];
const REAL_ATTRS: &[AttrDef] = &[REAL, COMPLEX];
const COMPLEX_INPUT: &[Arg] = &[arg("input", "Tcomplex")];
const COMPLEX_OUTPUT: &[Arg] = &[arg("output", "Tcomplex")];
const REAL_INPUT: &[Arg] = &[arg("input", "Treal"), LENGTHS];
const REAL_OUTPUT: &[Arg] = &[arg("output", "Treal")];
const HALF_INPUT: &[Arg] = &[arg("input", "Tcomplex"), LENGTHS];
const LENGTHS: Arg = arg_of("fft_length", DType::I32).host();

/// Definition of a transform from complex to complex numbers.
pub(super) const fn complex_op(
    name: &'static str,
    summary: &'static str,
    shape: ShapeFn,
    gradient: Gradient,
) -> OpDef {
    OpDef {
        name,
        summary,
        inputs: COMPLEX_INPUT,
        outputs: COMPLEX_OUTPUT,
        attrs: COMPLEX_ATTRS,
        shape,
        gradient,
        ..OpDef::EMPTY
    }
}

/// Definition of a transform of real numbers to the half of their spectrum, or back.
pub(super) const fn real_op(
    name: &'static str,
    summary: &'static str,
    forward: bool,
    shape: ShapeFn,
) -> OpDef {
    let (inputs, outputs) = match forward {
        true => (REAL_INPUT, COMPLEX_OUTPUT),
        false => (HALF_INPUT, REAL_OUTPUT),
    };
    OpDef {
        name,
        summary,
        inputs,
        outputs,
        attrs: REAL_ATTRS,
        shape,
        ..OpDef::EMPTY
    }
}

/// Length of the half spectrum of `length` real numbers.
pub(super) fn half(length: usize) -> usize {
    match length {
        0 => 0,
        length => length / 2 + 1,
    }
}

/// Number of dimensions of input 0 before the last `rank`, if it is known.
fn outer_dims(cx: &Infer<'_>, rank: usize) -> Result<Option<usize>, InferError> {
    let Some(found) = cx.shape(0).rank() else {
        return Ok(None);
    };
    let outer = found.checked_sub(rank);
    outer.map(Some).ok_or_else(|| InferError::Rank {
        input: 0,
        expected: format!("at least {rank}"),
        found: cx.shape(0).clone(),
    })
}

/// Shape of a transform over the last `RANK` dimensions.
pub(super) fn complex_shape<const RANK: usize>(cx: &mut Infer<'_>) -> Result<(), InferError> {
    outer_dims(cx, RANK)?;
    cx.set(0, cx.shape(0).clone());
    Ok(())
}

/// Shape of a transform of real numbers, or back to them, from their dimensions and the lengths in input 1.
pub(super) fn real_shape<const RANK: usize, const FORWARD: bool>(
    cx: &mut Infer<'_>,
) -> Result<(), InferError> {
    let (real, complex) = (cx.attrs().dtype("Treal"), cx.attrs().dtype("Tcomplex"));
    if let (Some(real), Some(complex)) = (real, complex)
        && complex.real() != real
    {
        return Err(InferError::Attr {
            attr: "Tcomplex",
            reason: format!("the parts of {complex} are {}, not {real}", complex.real()),
        });
    }
    if let Some(n) = cx.ranked(1, 1)?.dim(0)
        && n != RANK
    {
        return Err(invalid_value(
            1,
            format!("it has {n} lengths: give one for each of the {RANK} transformed dimensions"),
        ));
    }
    let (Some(outer), Some(dims)) = (outer_dims(cx, RANK)?, cx.shape(0).dims()) else {
        return Ok(());
    };
    let (outer, inner) = dims.split_at(outer);
    let Some(lengths) = cx.ints(1) else {
        cx.set(0, Shape::of_rank(outer.len() + RANK));
        return Ok(());
    };
    let mut dims = outer.to_vec();
    for (i, (&length, own)) in lengths.iter().zip(inner.to_vec()).enumerate() {
        let length = usize::try_from(length).map_err(|_| {
            invalid_value(
                1,
                format!("{length} is no length of a dimension: use 0 or more"),
            )
        })?;
        let (needed, dim) = match (i + 1 == RANK, FORWARD) {
            (true, true) => (length, half(length)),
            (true, false) => (half(length), length),
            (false, _) => (length, length),
        };
        if let Some(own) = own
            && own > 0
            && own < needed
        {
            return Err(invalid_value(
                0,
                format!(
                    "dimension {i} of the transform has {own} elements and needs {needed}: pad it with zeros, or ask for a shorter transform"
                ),
            ));
        }
        dims.push(Some(dim));
    }
    let shape = checked_shape(1, Shape::partial(dims))?;
    cx.set(0, shape);
    Ok(())
}
