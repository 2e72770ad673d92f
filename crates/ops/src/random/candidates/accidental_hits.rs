//! ComputeAccidentalHits.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg_of, attr};
use thalweg_graph::{AttrKind, Infer, InferError};
use thalweg_tensor::{DType, Shape, Tensor};

use crate::random::fill::{SEED, SEED2};
use crate::support::accounted_map::AccountedMap;
use crate::support::tensors::AccountedVec;

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    cx.ranked(0, 2)?;
    cx.ranked(1, 1)?;
    for i in 0..cx.outputs() {
        cx.set(i, Shape::partial([None]));
    }
    Ok(())
}

fn hits(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let (classes, sampled) = (cx.tensor(0)?, cx.slice::<i64>(1)?);
    let num_true = cx.attrs().int("num_true");
    let [_, columns] = *classes.dims() else {
        return Err(KernelError::Argument("a matrix"));
    };
    if i64::try_from(columns) != Ok(num_true) {
        return Err(KernelError::Invalid(format!(
            "true_classes must have num_true columns, which are {num_true}, and has shape {}",
            classes.shape()
        )));
    }
    let mut stop = cx.stop_check();
    let mut places = AccountedMap::new(cx.memory());
    // The last place of a class counts.
    for (place, &class) in sampled.iter().enumerate().rev() {
        stop.tick()?;
        if !places.contains(&class) {
            places.or_insert(class, place, 0)?;
        }
    }
    let (mut rows, mut ids) = (
        AccountedVec::new(cx.memory()),
        AccountedVec::new(cx.memory()),
    );
    for (i, class) in classes.as_slice::<i64>()?.iter().enumerate() {
        stop.tick()?;
        if let Some(place) = places.get(class) {
            let len = rows.len() + 1;
            // TensorFlow's rows are of this dtype.
            rows.grow(len, (i / columns) as i32)?;
            ids.grow(len, place as i64)?;
        }
    }
    let mut weights = cx.zeros(DType::F32, &[rows.len()])?;
    weights.as_mut_slice::<f32>()?.fill(f32::MIN);
    Ok(vec![
        cx.tensor_of(&[rows.len()], &rows)?,
        cx.tensor_of(&[ids.len()], &ids)?,
        weights,
    ])
}

/// Candidates that are true classes.
pub(crate) static COMPUTE: Op = Op {
    def: OpDef {
        name: "ComputeAccidentalHits",
        summary: "Pairs of a row and a candidate that is one of its true classes, with the lowest weight there is.",
        inputs: &[
            arg_of("true_classes", DType::I64),
            arg_of("sampled_candidates", DType::I64),
        ],
        outputs: &[
            arg_of("indices", DType::I32),
            arg_of("ids", DType::I64),
            arg_of("weights", DType::F32),
        ],
        attrs: &[attr("num_true", AttrKind::Int), SEED, SEED2],
        shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(hits)],
};
