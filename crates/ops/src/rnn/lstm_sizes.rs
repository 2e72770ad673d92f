//! Sizes of an LSTM's inputs, and the order of its gates.

use thalweg_device::{KernelError, TensorCx};
use thalweg_graph::{Infer, InferError};
use thalweg_tensor::Shape;

/// Numbers of steps, examples, inputs and cells.
#[derive(Clone, Copy)]
pub(super) struct LstmSizes {
    pub(super) steps: usize,
    pub(super) batch: usize,
    pub(super) inputs: usize,
    pub(super) cells: usize,
}

/// A size of several inputs that must agree.
fn agreed(
    cx: &Infer<'_>,
    what: &str,
    places: &[(usize, usize)],
) -> Result<Option<usize>, InferError> {
    let mut known: Option<(usize, usize)> = None;
    for &(input, axis) in places {
        let Some(size) = cx.shape(input).dim(axis) else {
            continue;
        };
        match known {
            Some((other, first)) if other != size => {
                return Err(InferError::Value {
                    input,
                    reason: format!(
                        "its {what} is {size}, and {other} in input {first}: they must agree"
                    ),
                });
            }
            _ => known = Some((size, input)),
        }
    }
    Ok(known.map(|(size, _)| size))
}

/// Shapes of an LSTM whose input `x` is `first`: of a state, and of all outputs of a kind.
pub(super) fn checked(cx: &Infer<'_>, first: usize) -> Result<[Shape; 2], InferError> {
    let sequence = usize::from(first > 0);
    let x = cx.ranked(first, 2 + sequence)?;
    for (i, rank) in [(1, 2), (2, 2), (3, 2), (4, 1), (5, 1), (6, 1), (7, 1)] {
        cx.ranked(first + i, rank)?;
    }
    let state = |i: usize, axis: usize| (first + i, axis);
    let batch = agreed(cx, "batch", &[(first, sequence), state(1, 0), state(2, 0)])?;
    let cells = agreed(
        cx,
        "number of cells",
        &[
            state(1, 1),
            state(2, 1),
            state(4, 0),
            state(5, 0),
            state(6, 0),
        ],
    )?;
    let inputs = x.dim(1 + sequence);
    let wrong = |i: usize, found: usize, expected: usize| InferError::Value {
        input: first + i,
        reason: format!("a dimension is {found}, and {expected} is needed"),
    };
    if let Some(cells) = cells {
        let gates = cells.saturating_mul(4);
        let rows = inputs.map(|inputs| inputs.saturating_add(cells));
        let expected = [(3, 0, rows), (3, 1, Some(gates)), (7, 0, Some(gates))];
        for (i, axis, expected) in expected {
            if let (Some(found), Some(expected)) = (cx.shape(first + i).dim(axis), expected)
                && found != expected
            {
                return Err(wrong(i, found, expected));
            }
        }
    }
    let own = Shape::partial([batch, cells]);
    let all = match sequence {
        0 => own.clone(),
        _ => Shape::partial([x.dim(0), batch, cells]),
    };
    Ok([own, all])
}

impl LstmSizes {
    /// Sizes of a node whose input `x` is `first`.
    pub(super) fn of(cx: &TensorCx<'_>, first: usize) -> Result<LstmSizes, KernelError> {
        let (x, state) = (cx.tensor(first)?.dims(), cx.tensor(first + 1)?.dims());
        let (&[batch, inputs], steps) = (match x {
            [steps, rest @ ..] if first > 0 => (rest, *steps),
            all => (all, 1),
        }) else {
            return Err(KernelError::Argument("a matrix for each step"));
        };
        match *state {
            [rows, cells] if rows == batch => Ok(LstmSizes {
                steps,
                batch,
                inputs,
                cells,
            }),
            _ => Err(KernelError::Argument("a state for each example")),
        }
    }

    /// Elements of a state.
    pub(super) fn state(self) -> usize {
        self.batch.saturating_mul(self.cells)
    }

    /// Rows of the weights.
    pub(super) fn rows(self) -> usize {
        self.inputs.saturating_add(self.cells)
    }

    /// Columns of the weights.
    pub(super) fn gates(self) -> usize {
        self.cells.saturating_mul(4)
    }

    /// Elements of the weights.
    pub(super) fn weights(self) -> usize {
        self.rows().saturating_mul(self.gates())
    }

    /// Elements of the inputs of one step.
    pub(super) fn step(self) -> usize {
        self.batch.saturating_mul(self.inputs)
    }
}

/// Places of the four gates among the columns of the weights.
#[derive(Clone, Copy)]
pub(super) struct GateOrder {
    pub(super) input: usize,
    pub(super) cell: usize,
    pub(super) forget: usize,
    pub(super) output: usize,
}

impl GateOrder {
    /// Order of all ops of the first version.
    pub(super) const FIRST: GateOrder = GateOrder {
        input: 0,
        cell: 1,
        forget: 2,
        output: 3,
    };
    /// Order of the second version.
    pub(super) const SECOND: GateOrder = GateOrder {
        input: 0,
        cell: 2,
        forget: 1,
        output: 3,
    };
}
