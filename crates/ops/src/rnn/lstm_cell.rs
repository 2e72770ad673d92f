//! LSTMBlockCell, BlockLSTM, BlockLSTMV2.

use smallvec::smallvec;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{
    Arg, AttrDef, Gradient, InputGradients, arg, arg_of, bool_attr, float_attr, type_attr,
};
use thalweg_graph::{GradCx, Infer, InferError, OpDef, Output};
use thalweg_tensor::{DType, Tensor};

use super::lstm_sizes::{GateOrder, LstmSizes, checked};
use super::lstm_steps::{LstmCell, Weights};
use super::matrices::{floats, tensor, zeros};
use crate::support::gradient_nodes::{int_scalar, int_vector, reshape};

pub(super) const T: AttrDef = type_attr("T", &[DType::F16, DType::F32]);
const PEEPHOLE: AttrDef = bool_attr("use_peephole", false);
const OUTPUTS: &[Arg] = &[
    arg("i", "T"),
    arg("cs", "T"),
    arg("f", "T"),
    arg("o", "T"),
    arg("ci", "T"),
    arg("co", "T"),
    arg("h", "T"),
];

/// Seven outputs of one shape.
fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let first = cx.inputs() - 8;
    if first > 0 {
        cx.ranked(0, 0)?;
    }
    let [_, all] = checked(cx, first)?;
    for i in 0..7 {
        cx.set(i, all.clone());
    }
    Ok(())
}

/// Steps of a sequence that count.
pub(super) fn counted_steps(cx: &TensorCx<'_>, steps: usize) -> Result<usize, KernelError> {
    let most = cx.int(0)?;
    usize::try_from(most)
        .ok()
        .filter(|&most| most <= steps)
        .ok_or_else(|| {
            KernelError::Invalid(format!(
                "seq_len_max is {most}, but there are {steps} steps: give a number of steps from 0 to {steps}"
            ))
        })
}

/// Kernel of all versions; `first` is the place of `x` among the inputs.
fn run(cx: &TensorCx<'_>, first: usize, order: GateOrder) -> Result<Vec<Tensor>, KernelError> {
    let (sizes, attrs) = (LstmSizes::of(cx, first)?, cx.attrs());
    let LstmSizes {
        steps,
        batch,
        inputs,
        cells,
    } = sizes;
    let cell = LstmCell {
        sizes,
        order,
        forget_bias: attrs
            .get("forget_bias")
            .map_or(0.0, |_| attrs.float("forget_bias")),
        clip: attrs.float("cell_clip"),
        peephole: attrs.bool("use_peephole"),
    };
    let counted = match first {
        0 => steps,
        _ => counted_steps(cx, steps)?,
    };
    let of = |i: usize, len: usize| floats(cx, first + i, len);
    let x = of(0, steps.saturating_mul(sizes.step()))?;
    let (cs, h) = (of(1, sizes.state())?, of(2, sizes.state())?);
    let w = of(3, sizes.weights())?;
    let (input, forget, output) = (of(4, cells)?, of(5, cells)?, of(6, cells)?);
    let b = of(7, sizes.gates())?;
    let weights = Weights {
        w: &w,
        input: &input,
        forget: &forget,
        output: &output,
        b: &b,
    };
    let state = sizes.state();
    let mut all = Vec::with_capacity(7);
    for _ in 0..7 {
        all.push(zeros(cx, steps.saturating_mul(state))?);
    }
    let mut room = cell.room(cx)?;
    let mut stop = cx.stop_check();
    // Steps without examples or cells have no values.
    let counted = if state == 0 { 0 } else { counted };
    for t in 0..counted {
        stop.tick()?;
        let mut own: Vec<&mut [f32]> = Vec::with_capacity(7);
        let mut before: [&[f32]; 2] = [&cs, &h];
        for (kind, values) in all.iter_mut().enumerate() {
            let (past, rest) = values.split_at_mut(t * state);
            if let (1 | 6, Some(start)) = (kind, past.len().checked_sub(state)) {
                before[usize::from(kind == 6)] = &past[start..];
            }
            own.push(&mut rest[..state]);
        }
        let own = own
            .try_into()
            .map_err(|_| KernelError::Argument("outputs"))?;
        let x = &x[t * batch * inputs..][..batch * inputs];
        cell.step(cx, weights, x, before, &mut room, own)?;
    }
    let dims = match first {
        0 => vec![batch, cells],
        _ => vec![steps, batch, cells],
    };
    let dtype = cx.tensor(first)?.dtype();
    let outputs = all.iter().map(|values| tensor(cx, dtype, &dims, values));
    outputs.collect()
}

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
];

/// Inputs of one step: those of a sequence but its length.
const CELL_INPUTS: &[Arg] = SEQUENCE_INPUTS.split_at(1).1;

const CELL: OpDef = OpDef {
    name: "LSTMBlockCell",
    summary: "One step of an LSTM: its gates, cells and outputs.",
    inputs: CELL_INPUTS,
    outputs: OUTPUTS,
    attrs: &[
        float_attr("forget_bias", 1.0),
        float_attr("cell_clip", 3.0),
        PEEPHOLE,
        T,
    ],
    shape,
    gradient: Gradient::Rule(cell_gradient),
    ..OpDef::EMPTY
};

/// One step.
pub(crate) static LSTM_BLOCK_CELL: Op = Op {
    def: CELL,
    kernels: &[cpu_tensors(|cx| run(cx, 0, GateOrder::FIRST))],
};

/// All steps of a sequence.
pub(crate) static BLOCK_LSTM: Op = Op {
    def: OpDef {
        name: "BlockLSTM",
        summary: "The steps of an LSTM over a sequence: its gates, cells and outputs after each.",
        inputs: SEQUENCE_INPUTS,
        gradient: Gradient::Rule(|g| sequence_gradient(g, "BlockLSTMGrad")),
        ..CELL
    },
    kernels: &[cpu_tensors(|cx| run(cx, 1, GateOrder::FIRST))],
};

/// All steps of a sequence, with the gates in another order.
pub(crate) static BLOCK_LSTM_V2: Op = Op {
    def: OpDef {
        name: "BlockLSTMV2",
        summary: "The steps of an LSTM over a sequence, whose weights have the forget gate before the cell.",
        inputs: SEQUENCE_INPUTS,
        attrs: &[float_attr("cell_clip", 0.0), PEEPHOLE, T],
        gradient: Gradient::Rule(|g| sequence_gradient(g, "BlockLSTMGradV2")),
        ..CELL
    },
    kernels: &[cpu_tensors(|cx| run(cx, 1, GateOrder::SECOND))],
};

/// The gradient of output `i`, or zeros.
fn given<'g>(g: &GradCx<'_, 'g>, i: u32) -> Output<'g> {
    let zeros = || g.graph().op("ZerosLike").input(g.output(i)).output();
    g.dy(i as usize).unwrap_or_else(zeros)
}

fn cell_gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let graph = g.graph();
    let inputs: Vec<Output<'g>> = (0..8).map(|i| g.input(i)).collect();
    let values: Vec<Output<'g>> = (0..6).map(|i| g.output(i)).collect();
    let node = graph.op("LSTMBlockCellGrad").inputs(inputs.iter().copied());
    let node = node.inputs(values).input(given(g, 1)).input(given(g, 6));
    let node = node
        .attr("use_peephole", g.attrs().bool("use_peephole"))
        .build();
    let [cs, gates, wci, wcf, wco] = [0, 1, 2, 3, 4].map(|i| node.output(i));
    let [dx, dh, dw, db] = dense_gradients([inputs[0], inputs[2]], inputs[3], gates);
    smallvec![
        Some(dx),
        Some(cs),
        Some(dh),
        Some(dw),
        Some(wci),
        Some(wcf),
        Some(wco),
        Some(db)
    ]
}

/// Gradients of two inputs side by side, of the weights that they are multiplied by, and of the biases.
pub(super) fn dense_gradients<'g>(
    [x, h]: [Output<'g>; 2],
    w: Output<'g>,
    gates: Output<'g>,
) -> [Output<'g>; 4] {
    let graph = x.graph();
    let product = |a: Output<'g>, b: Output<'g>, ta: bool, tb: bool| {
        let node = graph.op("MatMul").input(a).input(b);
        node.attr("transpose_a", ta)
            .attr("transpose_b", tb)
            .output()
    };
    let both = product(gates, w, false, true);
    let parts = graph.op("ConcatV2").input(x).input(h);
    let xh = parts.input(int_scalar(graph, DType::I32, 1)).output();
    let sizes = [x, h].map(|part| {
        let shape = graph.op("Shape").input(part).output();
        let node = graph.op("GatherV2").input(shape);
        let node = node.input(int_scalar(graph, DType::I32, 1));
        reshape(node.input(int_scalar(graph, DType::I32, 0)).output(), &[1])
    });
    let sizes = graph.op("ConcatV2").inputs(sizes);
    let sizes = sizes.input(int_scalar(graph, DType::I32, 0)).output();
    let split = graph.op("SplitV").input(both).input(sizes);
    let split = split.input(int_scalar(graph, DType::I32, 1));
    let split = split.attr("num_split", 2i64).build();
    let sum = graph
        .op("Sum")
        .input(gates)
        .input(int_vector(graph, DType::I32, &[0]));
    [
        split.output(0),
        split.output(1),
        product(xh, gates, true, false),
        sum.output(),
    ]
}

fn sequence_gradient<'g>(g: &GradCx<'_, 'g>, op: &'static str) -> InputGradients<'g> {
    let node = g.graph().op(op).inputs((0..9).map(|i| g.input(i)));
    let node = node.inputs((0..7).map(|i| g.output(i)));
    let node = node.input(given(g, 1)).input(given(g, 6));
    let node = node
        .attr("use_peephole", g.attrs().bool("use_peephole"))
        .build();
    let own = (0..8).map(|i| Some(node.output(i)));
    std::iter::once(None).chain(own).collect()
}
