//! Reshape, ExpandDims, Squeeze.

use smallvec::smallvec;
use thalweg_device::Op;
use thalweg_graph::infer::resolve_axis;
use thalweg_graph::op::{Gradient, arg, ints_attr, type_attr, type_attr_or};
use thalweg_graph::{GradCx, Infer, InferError, OpDef, Output};
use thalweg_tensor::{DType, Shape, text};

use crate::support::gradient_nodes::{int_vector, shape_of};
use crate::support::shape_inputs::{partial_shape, vector_length};
use crate::support::trivial_kernels::VIEW;

/// Gradient with the shape of the input.
pub(crate) fn reshape_back<'g>(g: &GradCx<'_, 'g>) -> Output<'g> {
    reshape_like(g.grad(), g.input(0))
}

/// Reshapes `x` to the shape of `like`.
#[track_caller]
pub(crate) fn reshape_like<'g>(x: Output<'g>, like: Output<'g>) -> Output<'g> {
    let (graph, shape) = (x.graph(), like.shape());
    let dims = shape.dims().unwrap_or_default();
    // One unknown dimension is inferred from the others, unless one of them is 0.
    let follows = dims.iter().filter(|d| d.is_none()).count() == 1 && !dims.contains(&Some(0));
    let to = if follows {
        let dims: Vec<i64> = dims.iter().map(|d| d.map_or(-1, |d| d as i64)).collect();
        int_vector(graph, DType::I64, &dims)
    } else {
        shape_of(like, DType::I32)
    };
    graph.op("Reshape").input(x).input(to).output()
}

/// Sets output 0 to `shape`, with the value of input 0 if it is known.
fn pass_value(cx: &mut Infer<'_>, shape: Shape) {
    let reshaped = shape
        .to_dims()
        .and_then(|dims| cx.value(0)?.reshaped(&dims).ok());
    // A scalar becomes a vector of one element, or the other way round.
    let elements = cx
        .elements(0)
        .filter(|_| shape.rank().is_some_and(|r| r <= 1));
    match reshaped {
        Some(value) => cx.set_value(0, value),
        None => {
            cx.set(0, shape);
            if let Some(elements) = elements {
                cx.set_elements(0, elements);
            }
        }
    }
}

/// Reshapes to another shape with the same number of elements.
pub(crate) static RESHAPE: Op = Op {
    def: OpDef {
        name: "Reshape",
        summary: "The same elements under other dimensions; one of them may be -1, which takes what is left.",
        inputs: &[arg("tensor", "T"), arg("shape", "Tshape").host()],
        outputs: &[arg("output", "T")],
        attrs: &[
            type_attr("T", &DType::ALL),
            type_attr_or("Tshape", DType::INDICES, DType::I32),
        ],
        shape: |cx| {
            let shape = target(cx)?;
            pass_value(cx, shape);
            Ok(())
        },
        gradient: Gradient::Rule(|g| smallvec![Some(reshape_back(g))]),
        same_as: |cx| {
            let to = Shape::from(cx.ints(1)?);
            (to.is_known() && to == *cx.shape(0)).then_some(0)
        },
        ..OpDef::EMPTY
    },
    kernels: &[VIEW],
};

fn target(cx: &Infer<'_>) -> Result<Shape, InferError> {
    let wrong = |reason: String| InferError::Value { input: 1, reason };
    let rank = vector_length(cx, 1)?;
    let Some(asked) = cx.elements(1) else {
        return Ok(rank.map_or(Shape::unknown(), Shape::of_rank));
    };
    if let Some(bad) = asked.iter().flatten().find(|&&d| d < -1) {
        return Err(wrong(format!(
            "dimension {bad} is negative: only -1 may be"
        )));
    }
    if asked.iter().filter(|&&d| d == Some(-1)).count() > 1 {
        return Err(wrong("only one dimension may be -1".to_owned()));
    }
    let shape = partial_shape(&asked);
    let known = Shape::partial(
        shape
            .dims()
            .unwrap_or(&[])
            .iter()
            .copied()
            .filter(Option::is_some),
    );
    let Some(rest) = known.elements() else {
        return Err(wrong(format!(
            "{shape} has more elements than can be counted"
        )));
    };
    let unknown = asked.iter().filter(|d| d.is_none()).count();
    let open = shape
        .dims()
        .map_or(0, |dims| dims.iter().filter(|d| d.is_none()).count());
    if open > 1 || (unknown > 0 && rest == 0) {
        return Ok(shape);
    }
    let Some(elements) = cx.shape(0).elements() else {
        return Ok(shape);
    };
    let mismatch = || InferError::Mismatch {
        what: "a reshape keeps the number of elements".to_owned(),
        left: cx.shape(0).clone(),
        right: shape.clone(),
    };
    if shape.is_known() {
        return if rest == elements {
            Ok(shape)
        } else {
            Err(mismatch())
        };
    }
    let whole = rest != 0;
    let (elements, rest) = match rest {
        // As in TensorFlow, -1 is inferred without the dimensions of 0.
        0 if !cx.shape(0).is_known() => return Ok(shape),
        0 if elements == 0 => {
            let too_large = || wrong(format!("{shape} has dimensions too large to multiply"));
            let counted = |shape| counted(shape).ok_or_else(too_large);
            (counted(cx.shape(0))?, counted(&known)?)
        }
        0 => return Err(mismatch()),
        _ => (elements, rest),
    };
    if whole && elements % rest != 0 {
        return Err(mismatch());
    }
    let dims = shape.dims().unwrap_or(&[]);
    Ok(Shape::partial(
        dims.iter().map(|d| d.or(Some(elements / rest))),
    ))
}

/// Product of the dimensions that are not 0.
fn counted(shape: &Shape) -> Option<usize> {
    let dims = shape.dims().unwrap_or(&[]).iter();
    dims.filter_map(|d| d.filter(|&d| d != 0))
        .try_fold(1usize, |all, d| all.checked_mul(d))
}

/// Inserts a dimension of 1.
pub(crate) static EXPAND_DIMS: Op = Op {
    def: OpDef {
        name: "ExpandDims",
        summary: "A new dimension of 1 before the given axis; a negative axis counts from behind the last.",
        inputs: &[arg("input", "T"), arg("dim", "Tdim").host()],
        outputs: &[arg("output", "T")],
        attrs: &[
            type_attr("T", &DType::ALL),
            type_attr_or("Tdim", DType::INDICES, DType::I32),
        ],
        shape: |cx| {
            let axis = match cx.ints(1).as_deref() {
                Some([axis]) => Some(*axis),
                Some(_) => {
                    return Err(InferError::Value {
                        input: 1,
                        reason: "one axis must be given".to_owned(),
                    });
                }
                None => None,
            };
            let (Some(dims), Some(axis)) = (cx.shape(0).dims(), axis) else {
                let rank = cx.shape(0).rank().map(|r| r + 1);
                cx.set(0, rank.map_or(Shape::unknown(), Shape::of_rank));
                return Ok(());
            };
            let axis = cx.axis(1, axis, dims.len() + 1)?;
            let mut dims = dims.to_vec();
            dims.insert(axis, Some(1));
            pass_value(cx, Shape::partial(dims));
            Ok(())
        },
        gradient: Gradient::Rule(|g| smallvec![Some(reshape_back(g))]),
        ..OpDef::EMPTY
    },
    kernels: &[VIEW],
};

/// Removes dimensions of 1.
pub(crate) static SQUEEZE: Op = Op {
    def: OpDef {
        name: "Squeeze",
        summary: "Leaves out the given dimensions, which must be 1; all that are 1 where none is given.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("output", "T")],
        attrs: &[type_attr("T", &DType::ALL), ints_attr("squeeze_dims", &[])],
        shape: |cx| {
            let Some(dims) = cx.shape(0).dims() else {
                return Ok(());
            };
            let wrong = |reason: String| InferError::Attr {
                attr: "squeeze_dims",
                reason,
            };
            let mut out = vec![false; dims.len()];
            for &axis in cx.attrs().ints("squeeze_dims") {
                let at = resolve_axis(axis, dims.len()).ok_or_else(|| {
                    wrong(format!(
                        "axis {axis} is not one of a tensor with {}",
                        text::counted(dims.len(), "dimension")
                    ))
                })?;
                if dims[at].is_some_and(|d| d != 1) {
                    return Err(wrong(format!("dimension {at} of {} is not 1", cx.shape(0))));
                }
                out[at] = true;
            }
            if cx.attrs().ints("squeeze_dims").is_empty() {
                if !cx.shape(0).is_known() {
                    return Ok(());
                }
                out = dims.iter().map(|&d| d == Some(1)).collect();
            }
            let left = dims
                .iter()
                .zip(&out)
                .filter(|(_, out)| !**out)
                .map(|(d, _)| *d);
            let shape = Shape::partial(left);
            pass_value(cx, shape);
            Ok(())
        },
        gradient: Gradient::Rule(|g| smallvec![Some(reshape_back(g))]),
        ..OpDef::EMPTY
    },
    kernels: &[VIEW],
};
