//! GRUBlockCell.

use smallvec::smallvec;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Arg, AttrDef, Gradient, InputGradients, arg, type_attr};
use thalweg_graph::{GradCx, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

use super::lstm_cell::dense_gradients;
use super::matrices::{beside, floats, multiply, sigmoid, tensor, zeros};

pub(super) const T: &[AttrDef] = &[type_attr("T", &[DType::F32])];
pub(super) const INPUTS: [Arg; 6] = [
    arg("x", "T"),
    arg("h_prev", "T"),
    arg("w_ru", "T"),
    arg("w_c", "T"),
    arg("b_ru", "T"),
    arg("b_c", "T"),
];

/// Numbers of examples, inputs and cells.
pub(super) fn sizes(cx: &TensorCx<'_>) -> Result<[usize; 3], KernelError> {
    match (cx.tensor(0)?.dims(), cx.tensor(1)?.dims()) {
        (&[batch, inputs], &[rows, cells]) if rows == batch => Ok([batch, inputs, cells]),
        _ => Err(KernelError::Argument("a state for each example")),
    }
}

/// Checks the six inputs of a cell; returns the shape of a state.
pub(super) fn checked(cx: &Infer<'_>) -> Result<Shape, InferError> {
    let (x, h) = (cx.ranked(0, 2)?, cx.ranked(1, 2)?);
    for (i, rank) in [(2, 2), (3, 2), (4, 1), (5, 1)] {
        cx.ranked(i, rank)?;
    }
    let (inputs, cells) = (x.dim(1), h.dim(1));
    let rows = inputs.zip(cells).map(|(i, c)| i.saturating_add(c));
    let both = cells.map(|cells| cells.saturating_mul(2));
    let expected = [
        (1, Shape::partial([x.dim(0), cells])),
        (2, Shape::partial([rows, both])),
        (3, Shape::partial([rows, cells])),
        (4, Shape::partial([both])),
        (5, Shape::partial([cells])),
    ];
    for (input, expected) in expected {
        if cx.shape(input).merge(&expected).is_none() {
            return Err(InferError::Mismatch {
                what: format!("input {input} must fit x and h_prev"),
                left: cx.shape(input).clone(),
                right: expected,
            });
        }
    }
    Ok(Shape::partial([x.dim(0).or(h.dim(0)), cells]))
}

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let state = checked(cx)?;
    (0..4).for_each(|i| cx.set(i, state.clone()));
    Ok(())
}

fn run(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let [batch, inputs, cells] = sizes(cx)?;
    let (rows, state) = (inputs.saturating_add(cells), batch.saturating_mul(cells));
    let both = cells.saturating_mul(2);
    let (x, before) = (
        floats(cx, 0, batch.saturating_mul(inputs))?,
        floats(cx, 1, state)?,
    );
    let (w_ru, w_c) = (
        floats(cx, 2, rows.saturating_mul(both))?,
        floats(cx, 3, rows.saturating_mul(cells))?,
    );
    let (b_ru, b_c) = (floats(cx, 4, both)?, floats(cx, 5, cells)?);
    let mut room = zeros(cx, batch * rows)?;
    let mut gates = zeros(cx, 2 * state)?;
    beside(&x, inputs, &before, cells, &mut room);
    multiply(
        cx,
        [batch, 2 * cells, rows],
        (&room, false),
        (&w_ru, false),
        &mut gates,
    )?;
    let gate = |at: usize, which: usize| {
        let column = which * cells + at % cells;
        sigmoid(gates[at / cells * 2 * cells + column] + b_ru[column])
    };
    let mut all = [
        zeros(cx, state)?,
        zeros(cx, state)?,
        zeros(cx, state)?,
        zeros(cx, state)?,
    ];
    let [r, u, c, h] = &mut all;
    for at in 0..state {
        (r[at], u[at]) = (gate(at, 0), gate(at, 1));
        h[at] = r[at] * before[at];
    }
    beside(&x, inputs, h, cells, &mut room);
    multiply(cx, [batch, cells, rows], (&room, false), (&w_c, false), c)?;
    for at in 0..state {
        c[at] = (c[at] + b_c[at % cells]).tanh();
        h[at] = u[at] * before[at] + (1.0 - u[at]) * c[at];
    }
    let outputs = all
        .iter()
        .map(|values| tensor(cx, DType::F32, &[batch, cells], values));
    outputs.collect()
}

fn gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let Some(dh) = g.dy(3) else {
        return InputGradients::new();
    };
    let node = g.graph().op("GRUBlockCellGrad");
    let node = node.inputs((0..6).map(|i| g.input(i)));
    let node = node.inputs((0..3).map(|i| g.output(i))).input(dh).build();
    let [dx, dh, candidate, gates] = [0, 1, 2, 3].map(|i| node.output(i));
    let (x, h, r) = (g.input(0), g.input(1), g.output(0));
    let [_, _, dw_ru, db_ru] = dense_gradients([x, h], g.input(2), gates);
    let [_, _, dw_c, db_c] = dense_gradients([x, h * r], g.input(3), candidate);
    smallvec![
        Some(dx),
        Some(dh),
        Some(dw_ru),
        Some(dw_c),
        Some(db_ru),
        Some(db_c)
    ]
}

/// One step.
pub(crate) static GRU_BLOCK_CELL: Op = Op {
    def: OpDef {
        name: "GRUBlockCell",
        summary: "One step of a GRU: its reset and update gates, its candidate and its output.",
        inputs: &INPUTS,
        outputs: &[arg("r", "T"), arg("u", "T"), arg("c", "T"), arg("h", "T")],
        attrs: T,
        shape,
        gradient: Gradient::Rule(gradient),
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(run)],
};
