//! _TriangularFactor: the triangular factor of a tall matrix, block of rows after block of rows.

use thalweg_cpu::gram::{Gram, GramInputs};
use thalweg_cpu::number::Number;
use thalweg_cpu::parallel::Disjoint;
use thalweg_cpu::qr::triangular_factor;
use thalweg_cpu::scratch::{Scratch, for_lanes, lanes_scratch};
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Gradient, arg_of};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, dispatch};

use super::gram::{ROW_DTYPES, ROWS, row_inputs, row_pass, rows_of, unusable_rows};

/// The most tasks.
const MAX_TASKS: usize = 8;
/// Rows of a block, as a multiple of its columns: the factor that stands above it costs little.
const BLOCK: usize = 4;

/// R of the rows that R of the rows before and these rows make.
pub(crate) static TRIANGULAR_FACTOR: Op = Op {
    def: OpDef {
        name: "_TriangularFactor",
        summary: "The triangular factor R of a tall matrix, in f64: of the rows of previous, and of ones, x and y less their shift, each row times the root of its weight.",
        inputs: &{
            let [x, y, weights, shift] = ROWS;
            [x, y, weights, shift, arg_of("previous", DType::F64)]
        },
        outputs: &[arg_of("r", DType::F64)],
        attrs: ROW_DTYPES,
        shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(
        |p| dispatch!(p.dtype(0), [F32 F64], T => kernel::<T>(p), else Err(KernelError::DType(p.dtype(0)))),
    )],
};

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    row_pass(cx)?;
    let (previous, columns) = (cx.ranked(4, 2)?, cx.shape(0).clone());
    let both = super::inputs::columns(cx, 0)?.zip(super::inputs::columns(cx, 1)?);
    let wanted = both.map(|(x, y)| 1 + x + y);
    match (previous.dims(), wanted) {
        (Some([_, Some(found)]), Some(wanted)) if *found != wanted => Err(InferError::Mismatch {
            what: format!("previous must have {wanted} columns: one, and those of x and y"),
            left: previous.clone(),
            right: columns,
        }),
        _ => Ok(()),
    }
}

/// The division of rows into tasks and blocks, by the shape alone.
#[derive(Clone, Copy)]
struct Blocks {
    g: Gram,
    /// Rows of `previous`.
    previous: usize,
    rows: usize,
    tasks: usize,
}

impl Blocks {
    fn of(g: Gram, previous: usize) -> Blocks {
        let rows = BLOCK * g.columns();
        let tasks = (g.rows / (4 * rows)).clamp(1, MAX_TASKS);
        Blocks {
            g,
            previous,
            rows,
            tasks,
        }
    }

    /// Elements of a factor and a block below it, and of the scratch of its reflections.
    fn lane(&self, rows: usize) -> Option<usize> {
        let q = self.g.columns();
        let rows = q.checked_add(rows)?;
        rows.checked_mul(q)?.checked_add(rows)?.checked_add(q)
    }

    fn bytes(&self, threads: usize) -> Option<usize> {
        let factors = self.tasks.checked_mul(self.g.columns())?;
        let together = self.lane(factors.checked_add(self.previous)?)?;
        let factors = factors.checked_mul(self.g.columns())?;
        let elements = together.checked_add(factors)?;
        let lane = self.lane(self.rows)?.checked_mul(size_of::<f64>())?;
        let lanes = lanes_scratch(
            self.tasks,
            threads,
            lane.checked_add(Scratch::bytes::<f64>(0))?,
        );
        elements
            .checked_mul(size_of::<f64>())?
            .checked_add(lanes)?
            .checked_add(2 * Scratch::bytes::<f64>(0))
    }
}

fn kernel<T: Number>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let g = rows_of(p)?;
    let previous = p.dims(4).first().copied().unwrap_or(0);
    let blocks = Blocks::of(g, previous);
    let too_wide = || {
        KernelError::Invalid(format!(
            "sums of {} columns do not fit into memory: leave columns out",
            g.columns()
        ))
    };
    let scratch = blocks.bytes(p.cpu.pool().threads()).ok_or_else(too_wide)?;
    let work = g
        .rows
        .saturating_mul(g.columns())
        .saturating_mul(4 * g.columns());
    let run = Prepared::new(work, move |cx| {
        let (q, isa) = (g.columns(), cx.cpu().isa());
        let inputs = row_inputs::<T>(cx)?;
        let out = cx.output::<f64>(0)?;
        let mut scratch = Scratch::new(cx.scratch(scratch)?);
        let factors = scratch.take::<f64>(blocks.tasks * q * q);
        let all = (blocks.tasks * q + blocks.previous) * q;
        let together = scratch.take::<f64>(all);
        let reflections = scratch.take::<f64>(all / q + q);
        let parts = Disjoint::new(factors);
        let lane = blocks.lane(blocks.rows).unwrap_or(0);
        let bytes = Scratch::bytes::<f64>(lane);
        for_lanes(
            cx.pool(),
            blocks.tasks,
            scratch.rest(),
            bytes,
            &|task, lane_bytes| {
                // SAFETY: each task runs once, and its factor is its own.
                let factor = unsafe { parts.slice(task * q * q, q * q) };
                let lane = Scratch::new(lane_bytes).take::<f64>(lane);
                let first = task * g.rows / blocks.tasks;
                let end = (task + 1) * g.rows / blocks.tasks;
                factor.fill(0.0);
                for at in (first..end).step_by(blocks.rows) {
                    let rows = blocks.rows.min(end - at);
                    let (matrix, rest) = lane.split_at_mut((q + rows) * q);
                    let (above, below) = matrix.split_at_mut(q * q);
                    above.copy_from_slice(factor);
                    copy_rows(&g, &inputs, at, below);
                    triangular_factor(isa, q, matrix, rest);
                    factor.copy_from_slice(&matrix[..q * q]);
                }
            },
        );
        let (own, before) = together.split_at_mut(blocks.tasks * q * q);
        own.copy_from_slice(factors);
        before.copy_from_slice(cx.input::<f64>(4)?);
        triangular_factor(isa, q, together, reflections);
        out.copy_from_slice(&together[..q * q]);
        match out.iter().all(|x| x.is_finite()) {
            true => Ok(()),
            false => Err(unusable_rows(&g, &inputs)),
        }
    });
    Ok(run.with_scratch(scratch))
}

/// Writes rows of ones, `x` and `y`, less their shift, times the roots of their weights.
fn copy_rows<T: Number>(g: &Gram, inputs: &GramInputs<'_, T>, at: usize, to: &mut [f64]) {
    for (row, to) in to.chunks_exact_mut(g.columns()).enumerate() {
        let row = at + row;
        let root = inputs.weights.map_or(1.0, |w| w[row].to_f64().sqrt());
        let (x, y) = (&inputs.x[row * g.x..][..g.x], &inputs.y[row * g.y..][..g.y]);
        to[0] = root;
        for (to, (z, shift)) in to[1..].iter_mut().zip(x.iter().chain(y).zip(inputs.shift)) {
            *to = root * (z.to_f64() - shift);
        }
    }
}
