//! The arithmetic of one step of an LSTM, and of its gradient.

use thalweg_device::{KernelError, TensorCx};

use super::lstm_sizes::{GateOrder, LstmSizes};
use super::matrices::{beside, multiply, sigmoid, zeros};
use crate::support::tensors::AccountedVec;

/// Settings of a cell.
#[derive(Clone, Copy)]
pub(super) struct LstmCell {
    pub(super) sizes: LstmSizes,
    pub(super) order: GateOrder,
    pub(super) forget_bias: f32,
    /// The largest value of a cell; not positive for no limit.
    pub(super) clip: f32,
    pub(super) peephole: bool,
}

/// Weights of the gates, of their views of the cells, and biases.
#[derive(Clone, Copy)]
pub(super) struct Weights<'a> {
    pub(super) w: &'a [f32],
    pub(super) input: &'a [f32],
    pub(super) forget: &'a [f32],
    pub(super) output: &'a [f32],
    pub(super) b: &'a [f32],
}

/// Values of one step, each a state: i, cs, f, o, ci, co, h.
pub(super) type StepOutputs<'a> = [&'a mut [f32]; 7];

impl LstmCell {
    /// Memory of a step: the inputs beside the state before, and the gates.
    pub(super) fn room(self, cx: &TensorCx<'_>) -> Result<[AccountedVec<f32>; 2], KernelError> {
        let LstmSizes { batch, cells, .. } = self.sizes;
        Ok([
            zeros(cx, batch * self.sizes.rows())?,
            zeros(cx, batch * cells * 4)?,
        ])
    }

    /// One step from the state `before`: the cells and the outputs.
    pub(super) fn step(
        self,
        cx: &TensorCx<'_>,
        weights: Weights<'_>,
        x: &[f32],
        [cs_before, h_before]: [&[f32]; 2],
        [xh, gates]: &mut [AccountedVec<f32>; 2],
        [i, cs, f, o, ci, co, h]: StepOutputs<'_>,
    ) -> Result<(), KernelError> {
        let LstmSizes {
            batch,
            inputs,
            cells,
            ..
        } = self.sizes;
        beside(x, inputs, h_before, cells, xh);
        let shape = [batch, 4 * cells, inputs + cells];
        multiply(cx, shape, (xh, false), (weights.w, false), gates)?;
        for at in 0..batch * cells {
            let (row, cell) = (at / cells, at % cells);
            let gate = |place: usize| {
                let column = place * cells + cell;
                gates[row * 4 * cells + column] + weights.b[column]
            };
            let seen = |weights: &[f32], cs: f32| match self.peephole {
                true => cs * weights[cell],
                false => 0.0,
            };
            let before = cs_before[at];
            i[at] = sigmoid(gate(self.order.input) + seen(weights.input, before));
            ci[at] = gate(self.order.cell).tanh();
            let forget = gate(self.order.forget) + self.forget_bias;
            f[at] = sigmoid(forget + seen(weights.forget, before));
            let mut new = i[at] * ci[at] + f[at] * before;
            if self.clip > 0.0 {
                new = new.max(-self.clip).min(self.clip);
            }
            cs[at] = new;
            co[at] = new.tanh();
            o[at] = sigmoid(gate(self.order.output) + seen(weights.output, new));
            h[at] = o[at] * co[at];
        }
        Ok(())
    }
}

/// Values of a step that its gradient needs.
#[derive(Clone, Copy)]
pub(super) struct StepValues<'a> {
    pub(super) cs_before: &'a [f32],
    pub(super) i: &'a [f32],
    pub(super) cs: &'a [f32],
    pub(super) f: &'a [f32],
    pub(super) o: &'a [f32],
    pub(super) ci: &'a [f32],
    pub(super) co: &'a [f32],
}

/// Gradients of the weights of the views of the cells: of the input, forget and output gates.
pub(super) type ViewGradients = [AccountedVec<f32>; 3];

impl LstmCell {
    /// Gradients of one step: those of the gates and of the cells before. The gradients of the views are added to the last arguments.
    pub(super) fn step_gradient(
        self,
        weights: Weights<'_>,
        step: StepValues<'_>,
        [dcs, dh]: [&[f32]; 2],
        gates: &mut [f32],
        dcs_before: &mut [f32],
        [input, forget, output]: &mut ViewGradients,
    ) {
        let cells = self.sizes.cells;
        for at in 0..self.sizes.state() {
            let (row, cell) = (at / cells, at % cells);
            let (i, f, o) = (step.i[at], step.f[at], step.o[at]);
            let (ci, co) = (step.ci[at], step.co[at]);
            let slope = |gate: f32| gate * (1.0 - gate);
            let d_o = slope(o) * dh[at] * co;
            let mut d_cs = (1.0 - co * co) * dh[at] * o + dcs[at];
            if self.peephole {
                d_cs += d_o * weights.output[cell];
            }
            let d_ci = (1.0 - ci * ci) * d_cs * i;
            let d_f = slope(f) * d_cs * step.cs_before[at];
            let d_i = slope(i) * d_cs * ci;
            let row = &mut gates[row * 4 * cells..][..4 * cells];
            row[self.order.input * cells + cell] = d_i;
            row[self.order.cell * cells + cell] = d_ci;
            row[self.order.forget * cells + cell] = d_f;
            row[self.order.output * cells + cell] = d_o;
            dcs_before[at] = d_cs * f;
            if self.peephole {
                dcs_before[at] += d_i * weights.input[cell] + d_f * weights.forget[cell];
                input[cell] += d_i * step.cs_before[at];
                forget[cell] += d_f * step.cs_before[at];
                output[cell] += d_o * step.cs[at];
            }
        }
    }
}
