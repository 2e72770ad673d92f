//! _TurnSum, _TurnBegin, _TurnGive, _TurnMean, _TurnKeep, _TurnKept: the gradient sums of synchronous training.
//! The gradients of one turn are added up, and the values that an update writes are kept until all servers have them.
//!
//! A turn has a token, and tokens only grow. A request with another token belongs to a turn that is over: its gradient
//! is dropped, and its read is an error. So each op can be repeated after its answer was lost.

use std::sync::{Arc, Mutex};

use thalweg_cpu::number::Number;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{AttrDef, Effect, Gradient, arg, arg_of, attr, str_attr, type_attr};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{DType, Shape, Tensor, dispatch};

use super::queues::{resource_handle, shared_name};
use crate::support::tensors::sum;

/// Sum of the gradients of a turn, one for each ticket.
struct TurnSum {
    name: String,
    dtype: DType,
    shape: Shape,
    state: Mutex<SumState>,
}

#[derive(Default)]
struct SumState {
    token: i64,
    tickets: Vec<i64>,
    sum: Option<Tensor>,
    /// Mean of the gradients. Once it has been read, further gradients are dropped.
    mean: Option<Tensor>,
}

impl TurnSum {
    fn with<R>(&self, f: impl FnOnce(&mut SumState) -> R) -> R {
        f(&mut self.state.lock().unpoisoned())
    }

    /// Starts a turn, unless a later one has started.
    fn begin(&self, token: i64) {
        self.with(|state| {
            if token > state.token {
                *state = SumState {
                    token,
                    ..SumState::default()
                };
            }
        });
    }

    /// Adds a gradient, unless the turn is over or already has one for the ticket.
    fn add_gradient(&self, token: i64, ticket: i64, gradient: &Tensor) -> Result<(), KernelError> {
        if gradient.dtype() != self.dtype || !self.shape.admits(gradient.dims()) {
            return Err(KernelError::Invalid(format!(
                "a sum of {}{} does not take {}{}",
                self.dtype,
                self.shape,
                gradient.dtype(),
                gradient.shape()
            )));
        }
        self.with(|state| {
            let known = state.tickets.contains(&ticket);
            if token != state.token || state.mean.is_some() || known {
                return Ok(());
            }
            let before = state.sum.as_ref();
            if let Some(before) = before.filter(|b| b.dims() != gradient.dims()) {
                return Err(KernelError::Invalid(format!(
                    "a gradient of shape {} comes after one of {}: all gradients of a variable have one shape",
                    gradient.shape(),
                    before.shape()
                )));
            }
            state.sum = Some(match state.sum.take() {
                None => gradient.clone(),
                Some(before) => sum(before, gradient)?,
            });
            state.tickets.push(ticket);
            Ok(())
        })
    }

    /// Mean of the gradients of this turn.
    fn mean(&self, token: i64) -> Result<Tensor, KernelError> {
        self.with(|state| {
            // A restarted process does not know the turn.
            let unknown = || KernelError::Uninitialized {
                variable: self.name.clone(),
            };
            if token != state.token {
                return Err(unknown());
            }
            if let Some(mean) = &state.mean {
                return Ok(mean.clone());
            }
            let mut mean = state.sum.take().ok_or_else(unknown)?;
            let count = state.tickets.len() as f64;
            dispatch!(self.dtype, NUMBERS, T => {
                // Exact to the last bit for types narrower than f64: it rounds only once.
                for x in mean.as_mut_slice::<T>()? {
                    *x = T::from_f64(x.to_f64() / count);
                }
            }, else return Err(KernelError::DType(self.dtype)));
            state.mean = Some(mean.clone());
            Ok(mean)
        })
    }
}

/// Value for the update of one turn.
struct KeptValue {
    name: String,
    value: Mutex<Option<(i64, Tensor)>>,
}

impl KeptValue {
    fn with<R>(&self, f: impl FnOnce(&mut Option<(i64, Tensor)>) -> R) -> R {
        f(&mut self.value.lock().unpoisoned())
    }
}

fn kept_value(cx: &TensorCx<'_>) -> Result<Arc<KeptValue>, KernelError> {
    let name = shared_name(cx);
    let thing = cx.environment().object("", name, &mut || {
        Ok(Arc::new(KeptValue {
            name: name.to_owned(),
            value: Mutex::default(),
        }))
    })?;
    thing.downcast().map_err(|_| {
        KernelError::Invalid(format!("'{name}' is no kept value: give it another name"))
    })
}

const SHARED_NAME: AttrDef = str_attr("shared_name", "", &[]);
const SHAPE: AttrDef = attr("shape", AttrKind::Shape);

/// Sets the output's shape from attribute `shape`.
fn shape_of_attr(cx: &mut Infer<'_>) -> Result<(), InferError> {
    cx.set(0, cx.attrs().shape("shape"));
    Ok(())
}

/// Base definition of an op of a turn.
const TURN_OP: OpDef = OpDef {
    gradient: Gradient::None,
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};

/// Creates the sum of a turn's gradients.
pub(super) static SUM: Op = Op {
    def: OpDef {
        name: "_TurnSum",
        summary: "Adds up the gradients of a turn of synchronous training, one for each ticket.",
        outputs: &[arg_of("handle", DType::Resource)],
        attrs: &[type_attr("dtype", DType::NUMBERS), SHAPE, SHARED_NAME],
        shape: crate::support::shapes::scalar,
        ..TURN_OP
    },
    kernels: &[cpu_tensors(|cx| {
        resource_handle(cx, &|name| {
            Ok(Arc::new(TurnSum {
                name: name.to_owned(),
                dtype: cx.attrs().dtype("dtype").unwrap_or(DType::F32),
                shape: cx.attrs().shape("shape"),
                state: Mutex::default(),
            }))
        })
    })],
};

/// Starts a turn.
pub(super) static BEGIN: Op = Op {
    def: OpDef {
        name: "_TurnBegin",
        summary: "Begins a turn of synchronous training, unless a later one has begun.",
        inputs: &[
            arg_of("handle", DType::Resource),
            arg_of("token", DType::I64),
        ],
        ..TURN_OP
    },
    kernels: &[cpu_tensors(|cx| {
        cx.object::<TurnSum>(0)?.begin(cx.int(1)?);
        Ok(Vec::new())
    })],
};

/// Adds a gradient.
pub(super) static GIVE: Op = Op {
    def: OpDef {
        name: "_TurnGive",
        summary: "Adds a gradient to a turn's sum, unless the turn is over or has one for the ticket.",
        inputs: &[
            arg_of("handle", DType::Resource),
            arg_of("token", DType::I64),
            arg_of("ticket", DType::I64),
            arg("gradient", "dtype"),
        ],
        attrs: &[type_attr("dtype", DType::NUMBERS)],
        ..TURN_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let (token, ticket) = (cx.int(1)?, cx.int(2)?);
        cx.object::<TurnSum>(0)?
            .add_gradient(token, ticket, cx.tensor(3)?)?;
        Ok(Vec::new())
    })],
};

/// Reads the mean.
pub(super) static MEAN: Op = Op {
    def: OpDef {
        name: "_TurnMean",
        summary: "The mean of the gradients of a turn, which then takes no more of them.",
        inputs: &[
            arg_of("handle", DType::Resource),
            arg_of("token", DType::I64),
        ],
        outputs: &[arg("mean", "dtype")],
        attrs: &[type_attr("dtype", DType::NUMBERS), SHAPE],
        shape: shape_of_attr,
        ..TURN_OP
    },
    kernels: &[cpu_tensors(|cx| {
        Ok(vec![cx.object::<TurnSum>(0)?.mean(cx.int(1)?)?])
    })],
};

/// Stores a value for the update of a turn.
pub(super) static KEEP: Op = Op {
    def: OpDef {
        name: "_TurnKeep",
        summary: "Stores a value for the update of a turn, unless one of a later turn is stored.",
        inputs: &[arg_of("token", DType::I64), arg("value", "dtype")],
        attrs: &[type_attr("dtype", &DType::ALL), SHARED_NAME],
        ..TURN_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let (token, value) = (cx.int(0)?, cx.value(1)?);
        kept_value(cx)?.with(|kept_value| {
            if kept_value.as_ref().is_none_or(|(of, _)| *of <= token) {
                *kept_value = Some((token, value));
            }
        });
        Ok(Vec::new())
    })],
};

/// Reads a stored value.
pub(super) static KEPT: Op = Op {
    def: OpDef {
        name: "_TurnKept",
        summary: "The value that was stored for the update of a turn.",
        inputs: &[arg_of("token", DType::I64)],
        outputs: &[arg("value", "dtype")],
        attrs: &[type_attr("dtype", &DType::ALL), SHAPE, SHARED_NAME],
        shape: shape_of_attr,
        ..TURN_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let (token, kept_value) = (cx.int(0)?, kept_value(cx)?);
        kept_value.with(|value| match value {
            Some((of, value)) if *of == token => Ok(vec![value.clone()]),
            // The process was restarted in the meantime.
            _ => Err(KernelError::Uninitialized {
                variable: kept_value.name.clone(),
            }),
        })
    })],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_takes_one_gradient_for_each_ticket_and_none_of_another_turn() {
        let sum = TurnSum {
            name: "w".to_owned(),
            dtype: DType::F32,
            shape: Shape::from([1]),
            state: Mutex::default(),
        };
        let add_gradient =
            |token, ticket, x: f32| sum.add_gradient(token, ticket, &Tensor::vector(&[x]));
        let mean = |token| Some(sum.mean(token).ok()?.to_vec::<f32>().unwrap());
        sum.begin(2);
        add_gradient(2, 0, 1.0).unwrap();
        // A repeated ticket, a gradient of the previous turn, and one of a turn that has not begun.
        add_gradient(2, 0, 8.0).unwrap();
        add_gradient(1, 1, 8.0).unwrap();
        add_gradient(3, 1, 8.0).unwrap();
        add_gradient(2, 1, 3.0).unwrap();
        assert_eq!((mean(1), mean(2)), (None, Some(vec![2.0])));
        // The mean was read, so the turn is over.
        add_gradient(2, 2, 8.0).unwrap();
        assert_eq!(mean(2), Some(vec![2.0]));
        // An earlier turn does not start again.
        sum.begin(3);
        sum.begin(2);
        assert_eq!((mean(2), mean(3)), (None, None));
        add_gradient(3, 0, 5.0).unwrap();
        assert_eq!(mean(3), Some(vec![5.0]));
    }
}
