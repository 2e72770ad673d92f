//! GRUBlockCellGrad.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Gradient, arg};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

use super::gru::{INPUTS, T, checked, sizes};
use super::matrices::{floats, multiply, tensor, zeros};

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let state = checked(cx)?;
    for input in 6..10 {
        if cx.shape(input).merge(&state).is_none() {
            return Err(InferError::Mismatch {
                what: format!("input {input} must have the shape of the state"),
                left: cx.shape(input).clone(),
                right: state,
            });
        }
    }
    let gates = state.dim(1).and_then(|cells| cells.checked_mul(2));
    cx.set(0, cx.shape(0).clone());
    cx.set(3, Shape::partial([state.dim(0), gates]));
    cx.set(1, state.clone());
    cx.set(2, state);
    Ok(())
}

fn run(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let [batch, inputs, cells] = sizes(cx)?;
    let (rows, state) = (inputs.saturating_add(cells), batch.saturating_mul(cells));
    let both = cells.saturating_mul(2);
    let before = floats(cx, 1, state)?;
    let (w_ru, w_c) = (
        floats(cx, 2, rows.saturating_mul(both))?,
        floats(cx, 3, rows.saturating_mul(cells))?,
    );
    let of = |i: usize| floats(cx, i, state);
    let (r, u, c, dh) = (of(6)?, of(7)?, of(8)?, of(9)?);
    let (mut candidate, mut gates) = (zeros(cx, state)?, zeros(cx, 2 * state)?);
    for at in 0..state {
        candidate[at] = dh[at] * (1.0 - u[at]) * (1.0 - c[at] * c[at]);
    }
    // By way of the candidate: x, and the state that was reset.
    let mut from_candidate = zeros(cx, batch * rows)?;
    let by_candidate = (&w_c[..], true);
    multiply(
        cx,
        [batch, rows, cells],
        (&candidate, false),
        by_candidate,
        &mut from_candidate,
    )?;
    let place = |at: usize| at / cells * rows + inputs + at % cells;
    for at in 0..state {
        let gate = at / cells * 2 * cells + at % cells;
        let d_reset = from_candidate[place(at)] * before[at];
        gates[gate] = d_reset * r[at] * (1.0 - r[at]);
        gates[gate + cells] = dh[at] * (before[at] - c[at]) * u[at] * (1.0 - u[at]);
    }
    let mut from_gates = zeros(cx, batch * rows)?;
    let by_gates = (&w_ru[..], true);
    multiply(
        cx,
        [batch, rows, 2 * cells],
        (&gates, false),
        by_gates,
        &mut from_gates,
    )?;
    let (mut dx, mut dh_before) = (zeros(cx, batch * inputs)?, zeros(cx, state)?);
    for (i, to) in dx.iter_mut().enumerate() {
        let at = i / inputs * rows + i % inputs;
        *to = from_gates[at] + from_candidate[at];
    }
    for at in 0..state {
        let through = from_candidate[place(at)] * r[at];
        dh_before[at] = from_gates[place(at)] + through + dh[at] * u[at];
    }
    Ok(vec![
        tensor(cx, DType::F32, &[batch, inputs], &dx)?,
        tensor(cx, DType::F32, &[batch, cells], &dh_before)?,
        tensor(cx, DType::F32, &[batch, cells], &candidate)?,
        tensor(cx, DType::F32, &[batch, 2 * cells], &gates)?,
    ])
}

/// Gradient of one step.
pub(crate) static GRU_BLOCK_CELL_GRAD: Op = Op {
    def: OpDef {
        name: "GRUBlockCellGrad",
        summary: "The gradients of the inputs, the state, the candidate and the gates of a step of a GRU.",
        inputs: const {
            let [x, h, w_ru, w_c, b_ru, b_c] = INPUTS;
            &[
                x,
                h,
                w_ru,
                w_c,
                b_ru,
                b_c,
                arg("r", "T"),
                arg("u", "T"),
                arg("c", "T"),
                arg("d_h", "T"),
            ]
        },
        outputs: &[
            arg("d_x", "T"),
            arg("d_h_prev", "T"),
            arg("d_c_bar", "T"),
            arg("d_r_bar_u_bar", "T"),
        ],
        attrs: T,
        shape,
        gradient: Gradient::Missing,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(run)],
};
