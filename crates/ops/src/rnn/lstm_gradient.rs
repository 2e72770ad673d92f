//! LSTMBlockCellGrad, BlockLSTMGrad, BlockLSTMGradV2.

use std::borrow::Cow;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{Arg, AttrDef, Gradient, arg, arg_of, attr};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape, Tensor};

use super::lstm_cell::{T, counted_steps};
use super::lstm_sizes::{GateOrder, LstmSizes, checked};
use super::lstm_steps::{LstmCell, StepValues, ViewGradients, Weights};
use super::matrices::{beside, floats, multiply, tensor, zeros};

const ATTRS: &[AttrDef] = &[attr("use_peephole", AttrKind::Bool), T];

/// Inputs of a gradient node in single precision.
struct GradientInputs<'a> {
    cell: LstmCell,
    /// Inputs from `x` on: eight of the cell, then its values, then the gradients.
    all: Vec<Cow<'a, [f32]>>,
}

impl<'a> GradientInputs<'a> {
    /// `values` values of the steps, and two gradients, follow the inputs of the cell.
    fn of(
        cx: &TensorCx<'a>,
        first: usize,
        values: usize,
        order: GateOrder,
    ) -> Result<GradientInputs<'a>, KernelError> {
        let sizes = LstmSizes::of(cx, first)?;
        let LstmSizes { steps, cells, .. } = sizes;
        let state = sizes.state();
        let mut lengths = vec![steps.saturating_mul(sizes.step()), state, state];
        lengths.extend([sizes.weights(), cells, cells, cells, sizes.gates()]);
        lengths.resize(8 + values + 2, steps.saturating_mul(state));
        let all = lengths.into_iter().enumerate();
        let all: Result<Vec<_>, _> = all.map(|(i, len)| floats(cx, first + i, len)).collect();
        Ok(GradientInputs {
            cell: LstmCell {
                sizes,
                order,
                forget_bias: 0.0,
                clip: 0.0,
                peephole: cx.attrs().bool("use_peephole"),
            },
            all: all?,
        })
    }

    fn weights(&self) -> Weights<'_> {
        Weights {
            w: &self.all[3],
            input: &self.all[4],
            forget: &self.all[5],
            output: &self.all[6],
            b: &self.all[7],
        }
    }

    /// State `t` of a value: the input itself before the first step.
    fn before(&self, value: usize, initial: usize, t: usize) -> &[f32] {
        let state = self.cell.sizes.state();
        match t.checked_sub(1) {
            Some(t) => &self.all[value][t * state..][..state],
            None => &self.all[initial],
        }
    }

    fn step(&self, t: usize) -> StepValues<'_> {
        let state = self.cell.sizes.state();
        let at = |i: usize| &self.all[i][t * state..][..state];
        StepValues {
            cs_before: self.before(9, 1, t),
            i: at(8),
            cs: at(9),
            f: at(10),
            o: at(11),
            ci: at(12),
            co: at(13),
        }
    }
}

fn cell_gradient(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let own = GradientInputs::of(cx, 0, 6, GateOrder::FIRST)?;
    let LstmSizes { batch, cells, .. } = own.cell.sizes;
    let (mut gates, mut dcs) = (zeros(cx, batch * 4 * cells)?, zeros(cx, batch * cells)?);
    let mut views: ViewGradients = [zeros(cx, cells)?, zeros(cx, cells)?, zeros(cx, cells)?];
    let given = [&own.all[14][..], &own.all[15]];
    own.cell.step_gradient(
        own.weights(),
        own.step(0),
        given,
        &mut gates,
        &mut dcs,
        &mut views,
    );
    let dtype = cx.tensor(0)?.dtype();
    let mut outputs = vec![
        tensor(cx, dtype, &[batch, cells], &dcs)?,
        tensor(cx, dtype, &[batch, 4 * cells], &gates)?,
    ];
    for view in &views {
        outputs.push(tensor(cx, dtype, &[cells], view)?);
    }
    Ok(outputs)
}

fn sequence_gradient(cx: &TensorCx<'_>, order: GateOrder) -> Result<Vec<Tensor>, KernelError> {
    let own = GradientInputs::of(cx, 1, 7, order)?;
    let LstmSizes {
        steps,
        batch,
        inputs,
        cells,
    } = own.cell.sizes;
    let (state, rows) = (own.cell.sizes.state(), own.cell.sizes.rows());
    let mut dx = zeros(cx, steps * batch * inputs)?;
    let (mut dcs, mut dh) = (zeros(cx, state)?, zeros(cx, state)?);
    let (mut dcs_before, mut gates) = (zeros(cx, state)?, zeros(cx, batch * 4 * cells)?);
    let (mut xh, mut dxh) = (zeros(cx, batch * rows)?, zeros(cx, batch * rows)?);
    let (mut dw, mut part) = (zeros(cx, rows * 4 * cells)?, zeros(cx, rows * 4 * cells)?);
    let mut db = zeros(cx, 4 * cells)?;
    let mut views: ViewGradients = [zeros(cx, cells)?, zeros(cx, cells)?, zeros(cx, cells)?];
    let mut stop = cx.stop_check();
    let counted = counted_steps(cx, steps)?;
    // Steps without examples or cells have no gradients.
    let counted = if state == 0 { 0 } else { counted };
    for t in (0..counted).rev() {
        stop.tick()?;
        let add = |to: &mut [f32], from: &[f32]| to.iter_mut().zip(from).for_each(|(a, b)| *a += b);
        add(&mut dcs, &own.all[15][t * state..][..state]);
        add(&mut dh, &own.all[16][t * state..][..state]);
        let given = [&dcs[..], &dh[..]];
        own.cell.step_gradient(
            own.weights(),
            own.step(t),
            given,
            &mut gates,
            &mut dcs_before,
            &mut views,
        );
        dcs.copy_from_slice(&dcs_before);
        let w = (&*own.all[3], true);
        multiply(cx, [batch, rows, 4 * cells], (&gates, false), w, &mut dxh)?;
        let dx = &mut dx[t * batch * inputs..][..batch * inputs];
        for (row, dxh) in dxh.chunks_exact(rows.max(1)).enumerate() {
            dx[row * inputs..][..inputs].copy_from_slice(&dxh[..inputs]);
            dh[row * cells..][..cells].copy_from_slice(&dxh[inputs..]);
        }
        let x = &own.all[0][t * batch * inputs..];
        beside(x, inputs, own.before(14, 2, t), cells, &mut xh);
        multiply(
            cx,
            [rows, 4 * cells, batch],
            (&xh, true),
            (&gates, false),
            &mut part,
        )?;
        add(&mut dw, &part);
        gates
            .chunks_exact((4 * cells).max(1))
            .for_each(|row| add(&mut db, row));
    }
    let dtype = cx.tensor(1)?.dtype();
    let mut outputs = vec![
        tensor(cx, dtype, &[steps, batch, inputs], &dx)?,
        tensor(cx, dtype, &[batch, cells], &dcs)?,
        tensor(cx, dtype, &[batch, cells], &dh)?,
        tensor(cx, dtype, &[rows, 4 * cells], &dw)?,
    ];
    for view in &views {
        outputs.push(tensor(cx, dtype, &[cells], view)?);
    }
    outputs.push(tensor(cx, dtype, &[4 * cells], &db)?);
    Ok(outputs)
}

/// Checks that inputs from `from` on have this shape.
fn expect_all(cx: &Infer<'_>, from: usize, shape: &Shape) -> Result<(), InferError> {
    match (from..cx.inputs()).find(|&i| cx.shape(i).merge(shape).is_none()) {
        Some(input) => Err(InferError::Mismatch {
            what: format!("input {input} must have the shape of the cell's outputs"),
            left: cx.shape(input).clone(),
            right: shape.clone(),
        }),
        None => Ok(()),
    }
}

fn cell_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let [state, _] = checked(cx, 0)?;
    expect_all(cx, 8, &state)?;
    let cells = state.dim(1);
    let gates = cells.and_then(|cells| cells.checked_mul(4));
    cx.set(1, Shape::partial([state.dim(0), gates]));
    cx.set(0, state);
    for i in 2..5 {
        cx.set(i, Shape::partial([cells]));
    }
    Ok(())
}

fn sequence_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    cx.ranked(0, 0)?;
    let [_, all] = checked(cx, 1)?;
    expect_all(cx, 9, &all)?;
    for i in 0..8 {
        cx.set(i, cx.shape(i + 1).clone());
    }
    Ok(())
}

/// Gradient of one step.
pub(crate) static LSTM_BLOCK_CELL_GRAD: Op = Op {
    def: OpDef {
        name: "LSTMBlockCellGrad",
        summary: "The gradients of the gates, of the cells before and of the peephole weights of a step of an LSTM.",
        inputs: &[
            arg("x", "T"),
            arg("cs_prev", "T"),
            arg("h_prev", "T"),
            arg("w", "T"),
            arg("wci", "T"),
            arg("wcf", "T"),
            arg("wco", "T"),
            arg("b", "T"),
            arg("i", "T"),
            arg("cs", "T"),
            arg("f", "T"),
            arg("o", "T"),
            arg("ci", "T"),
            arg("co", "T"),
            arg("cs_grad", "T"),
            arg("h_grad", "T"),
        ],
        outputs: &[
            arg("cs_prev_grad", "T"),
            arg("dicfo", "T"),
            arg("wci_grad", "T"),
            arg("wcf_grad", "T"),
            arg("wco_grad", "T"),
        ],
        attrs: ATTRS,
        shape: cell_shape,
        gradient: Gradient::Missing,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(cell_gradient)],
};

const SEQUENCE_INPUTS: &[Arg] = &[
    arg_of("seq_len_max", DType::I64),
    arg("x", "T"),
    arg("cs_prev", "T"),
    arg("h_prev", "T"),
    arg("w", "T"),
    arg("wci", "T"),
    arg("wcf", "T"),
    arg("wco", "T"),
    arg("b", "T"),
    arg("i", "T"),
    arg("cs", "T"),
    arg("f", "T"),
    arg("o", "T"),
    arg("ci", "T"),
    arg("co", "T"),
    arg("h", "T"),
    arg("cs_grad", "T"),
    arg("h_grad", "T"),
];

const SEQUENCE: OpDef = OpDef {
    name: "BlockLSTMGrad",
    summary: "The gradients of the inputs of an LSTM over a sequence.",
    inputs: SEQUENCE_INPUTS,
    outputs: &[
        arg("x_grad", "T"),
        arg("cs_prev_grad", "T"),
        arg("h_prev_grad", "T"),
        arg("w_grad", "T"),
        arg("wci_grad", "T"),
        arg("wcf_grad", "T"),
        arg("wco_grad", "T"),
        arg("b_grad", "T"),
    ],
    attrs: ATTRS,
    shape: sequence_shape,
    gradient: Gradient::Missing,
    ..OpDef::EMPTY
};

/// Gradient of all steps of a sequence.
pub(crate) static BLOCK_LSTM_GRAD: Op = Op {
    def: SEQUENCE,
    kernels: &[cpu_tensors(|cx| sequence_gradient(cx, GateOrder::FIRST))],
};

/// As [`BLOCK_LSTM_GRAD`], with the gates in the order of the second version.
pub(crate) static BLOCK_LSTM_GRAD_V2: Op = Op {
    def: OpDef {
        name: "BlockLSTMGradV2",
        ..SEQUENCE
    },
    kernels: &[cpu_tensors(|cx| sequence_gradient(cx, GateOrder::SECOND))],
};
