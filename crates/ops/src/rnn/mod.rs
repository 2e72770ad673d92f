//! Cells of recurrent networks as one op each: LSTM and GRU, for one step or for a sequence.

mod gru;
mod gru_gradient;
mod lstm_cell;
mod lstm_gradient;
mod lstm_sizes;
mod lstm_steps;
mod matrices;

use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &lstm_cell::LSTM_BLOCK_CELL,
    &lstm_cell::BLOCK_LSTM,
    &lstm_cell::BLOCK_LSTM_V2,
    &lstm_gradient::LSTM_BLOCK_CELL_GRAD,
    &lstm_gradient::BLOCK_LSTM_GRAD,
    &lstm_gradient::BLOCK_LSTM_GRAD_V2,
    &gru::GRU_BLOCK_CELL,
    &gru_gradient::GRU_BLOCK_CELL_GRAD,
];
