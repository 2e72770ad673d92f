//! Attributes and helpers of the kernels of collectives: process sets, reductions, and the wait for other ranks.

use std::sync::Arc;

use thalweg_device::{
    Collective, CollectiveRequest, Collectives, KernelError, RankOf, ReduceOp, Reduction, TensorCx,
};
use thalweg_graph::op::{AttrDef, Effect, Gradient, bool_attr, float_attr, int_attr};
use thalweg_graph::{Attrs, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

/// Attribute: Horovod's process set of the ranks that take part; 0 is the set of all ranks.
pub(super) const PROCESS_SET: AttrDef = int_attr("process_set_id", 0);
/// Attribute: the node's name counts without its scopes. Not used: ranks that run the same graph have the same
/// names.
pub(super) const IGNORE_SCOPE: AttrDef = bool_attr("ignore_name_scope", false);
/// Attribute: factor of the inputs of a reduction.
pub(super) const PRESCALE: AttrDef = float_attr("prescale_factor", 1.0);
/// Attribute: factor of the reduced value.
pub(super) const POSTSCALE: AttrDef = float_attr("postscale_factor", 1.0);

/// Base definition of a collective.
pub(super) const COLLECTIVE_OP: OpDef = OpDef {
    effect: Effect::Collective,
    gradient: Gradient::Missing,
    ..OpDef::EMPTY
};

/// Transport between ranks.
pub(super) fn collectives<'a>(cx: &TensorCx<'a>) -> Result<&'a Arc<dyn Collectives>, KernelError> {
    cx.environment().collectives().ok_or(KernelError::NoRanks)
}

/// Process set in attribute `process_set_id`.
pub(super) fn process_set(attrs: &Attrs) -> Result<i32, KernelError> {
    let id = attrs.int("process_set_id");
    i32::try_from(id).map_err(|_| {
        KernelError::Invalid(format!(
            "{id} is no process set: give process_set_id the number of one, or 0 for all ranks"
        ))
    })
}

/// This rank's place in the process set of the node.
pub(super) fn ranks(cx: &TensorCx<'_>) -> Result<RankOf, KernelError> {
    collectives(cx)?.ranks(process_set(cx.attrs())?)
}

/// Starts this rank's part of a collective, or fetches its result; blocks until the others have done theirs. `what` is
/// called once.
pub(super) fn run(
    cx: &TensorCx<'_>,
    set: i32,
    what: impl Fn() -> Result<(Collective, Tensor), KernelError>,
) -> Result<Vec<Tensor>, KernelError> {
    run_as(cx, &cx.node().name, set, what)
}

/// Like [`run`], under a name other than the node's.
pub(super) fn run_as(
    cx: &TensorCx<'_>,
    name: &str,
    set: i32,
    what: impl Fn() -> Result<(Collective, Tensor), KernelError>,
) -> Result<Vec<Tensor>, KernelError> {
    let collectives = collectives(cx)?;
    // Reports a rank outside of the set before others wait for it.
    collectives.ranks(set)?;
    let ticket = cx.environment().ticket();
    let mut request = || {
        let (kind, input) = what()?;
        Ok(CollectiveRequest {
            name: name.to_owned(),
            set,
            kind,
            input,
        })
    };
    if let Some(results) = collectives.run(&ticket, cx.memory(), &mut request)? {
        return Ok(results);
    }
    let (collectives, number) = (collectives.clone(), ticket.number());
    let abandon = Box::new(move || collectives.abandon(number));
    cx.environment().on_abandon(abandon);
    Err(KernelError::Blocked)
}

/// Reduction given by attributes.
pub(super) fn reduction_of_attrs(attrs: &Attrs) -> Result<Reduction, KernelError> {
    let op = ReduceOp::of_number(attrs.int("reduce_op"));
    let op = op.ok_or(KernelError::Argument("the number of a reduction"))?;
    let scale = |name| f64::from(attrs.float(name));
    Ok(Reduction::of(op).scaled(scale("prescale_factor"), scale("postscale_factor")))
}

/// Checks the attributes of a reduction.
pub(super) fn check_reduction(cx: &Infer<'_>) -> Result<(), InferError> {
    let number = cx.attrs().int("reduce_op");
    let wrong = |reason: String| InferError::Attr {
        attr: "reduce_op",
        reason,
    };
    match ReduceOp::of_number(number) {
        None => {
            let all = ReduceOp::ALL.map(|op| format!("{} ({op})", op.number()));
            let all = all.join(", ");
            Err(wrong(format!("{number} is none of {all}")))
        }
        Some(ReduceOp::Adasum) if !cx.dtype(0).is_float() => {
            let dtype = cx.dtype(0);
            Err(wrong(format!("Adasum is for floats: Cast what is {dtype}")))
        }
        Some(_) => Ok(()),
    }
}

/// Shape rule: the shape of input 0 with another number of rows, which depends on the other ranks.
pub(super) fn unknown_row_count(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let shape = rows(cx)?;
    cx.set(0, shape);
    Ok(())
}

/// Shape of input 0, which must have rows, with an unknown number of rows.
pub(super) fn rows(cx: &Infer<'_>) -> Result<Shape, InferError> {
    let shape = cx.shape(0);
    match shape.dims() {
        None => Ok(Shape::unknown()),
        Some([]) => Err(InferError::Rank {
            input: 0,
            expected: "at least 1".to_owned(),
            found: shape.clone(),
        }),
        Some([_, rest @ ..]) => Ok(Shape::partial(
            std::iter::once(None).chain(rest.iter().copied()),
        )),
    }
}

/// Number of rows for each of `size` ranks; all must get the same number.
pub(super) fn even_share(rows: usize, size: usize) -> Result<usize, KernelError> {
    if size == 0 || !rows.is_multiple_of(size) {
        return Err(KernelError::Invalid(format!(
            "its {rows} rows are no multiple of the {size} ranks: give it as many rows for each rank"
        )));
    }
    Ok(rows / size)
}

/// First of some results.
pub(super) fn first(results: Vec<Tensor>) -> Result<Vec<Tensor>, KernelError> {
    let first = results.into_iter().next();
    Ok(vec![first.ok_or(KernelError::Argument("a result"))?])
}

/// Input of a barrier.
pub(super) fn barrier_input() -> Result<Tensor, KernelError> {
    Ok(Tensor::zeros(DType::F32, &[0])?)
}
