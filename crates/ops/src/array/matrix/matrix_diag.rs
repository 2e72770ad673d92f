//! MatrixDiag, MatrixDiagPart, MatrixSetDiag, each in three versions.

use bytemuck::Pod;
use smallvec::smallvec;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{Arg, AttrDef, Gradient, InputGradients, arg, arg_of, str_attr, type_attr};
use thalweg_graph::{GradCx, Infer, InferError, OpDef, Output};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Shape};

use super::band::Band;
use super::index_map::{ElementSource, index_map};
use crate::support::elementwise::CHUNK;
use crate::support::gradient_nodes::int_scalar;
use crate::support::raw_elements::{by_size, input_as, output_as};
use crate::support::shape_inputs::{checked_shape, invalid_value, kernel_error, scalar_int};

const ANY: AttrDef = type_attr("T", DType::PLAIN);
const ALIGN: AttrDef = str_attr(
    "align",
    "RIGHT_LEFT",
    &["LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"],
);
const K: Arg = arg_of("k", DType::I32).host();

/// Dimensions before the last `n`, if the rank is at least `n`.
fn batch(dims: &[Option<usize>], n: usize) -> Option<&[Option<usize>]> {
    dims.len().checked_sub(n).map(|end| &dims[..end])
}

fn too_small(cx: &Infer<'_>, input: usize, rank: usize) -> InferError {
    InferError::Rank {
        input,
        expected: format!("at least {rank}"),
        found: cx.shape(input).clone(),
    }
}

/// A dimension of this length, if it is not negative.
fn dim(length: i64) -> Option<usize> {
    usize::try_from(length).ok()
}

/// Diagonals of a node in a shape rule, from input `at` if there is such an input.
fn band(cx: &Infer<'_>, at: usize) -> Result<Option<Band>, InferError> {
    let at = (cx.inputs() > at).then_some(at);
    Band::of(cx.attrs(), at, at.and_then(|at| cx.ints(at)))
}

/// As [`band`], for a node to prepare.
fn band_of(p: &Prepare<'_>, at: usize) -> Result<Band, KernelError> {
    let at = (p.inputs.len() > at).then_some(at);
    let value = at.map(|at| p.ints(at)).transpose()?;
    let band = Band::of(&p.node.attrs, at, value).map_err(kernel_error)?;
    band.ok_or(KernelError::Argument("diagonals"))
}

/// The last two dimensions.
fn matrix(dims: &[usize]) -> Result<[i64; 2], KernelError> {
    match *dims {
        [.., rows, columns] => Ok([rows as i64, columns as i64]),
        _ => Err(KernelError::Argument("a matrix")),
    }
}

/// Rows and columns of a matrix with these diagonals, of which the longest has `width` elements; -1 for a size that
/// is not given.
fn size(band: Band, width: i64, rows: i64, columns: i64) -> Result<[i64; 2], InferError> {
    let (least_rows, least_columns) = (width - band.high.min(0), width + band.low.max(0));
    let [rows, columns] = match (rows, columns) {
        (-1, -1) => [least_rows.max(least_columns); 2],
        (-1, columns) => [least_rows, columns],
        (rows, -1) => [rows, least_columns],
        (rows, columns) => [rows, columns],
    };
    let fits = rows >= least_rows && columns >= least_columns;
    if !fits || (rows != least_rows && columns != least_columns) {
        let reason = format!(
            "diagonals {} to {} of {width} elements do not fill {rows} by {columns}: use {least_rows} rows or {least_columns} columns",
            band.low, band.high
        );
        return Err(invalid_value(2, reason));
    }
    Ok([rows, columns])
}

fn diag_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let band = band(cx, 1)?;
    let newer = cx.inputs() > 1;
    let given = |i: usize| match newer {
        true => scalar_int(cx, i),
        false => Ok(Some(-1)),
    };
    let (rows, columns) = (given(2)?, given(3)?);
    if newer {
        cx.ranked(4, 0)?;
    }
    let (Some(dims), Some(band)) = (cx.shape(0).dims(), band) else {
        return Ok(());
    };
    let own = if band.count() > 1 { 2 } else { 1 };
    let batch = batch(dims, own).ok_or_else(|| too_small(cx, 0, own))?;
    if own == 2
        && let Some(n) = dims[batch.len()]
        && n as i64 != band.count()
    {
        return Err(invalid_value(
            0,
            format!(
                "{} for {}",
                counted(n, "row"),
                counted(band.count(), "diagonal")
            ),
        ));
    }
    let mut last = [None, None];
    if let (Some(rows), Some(columns), Some(width)) = (rows, columns, dims[dims.len() - 1]) {
        last = size(band, width as i64, rows, columns)?.map(dim);
    }
    let all = batch.iter().copied().chain(last);
    let shape = checked_shape(0, Shape::partial(all))?;
    cx.set(0, shape);
    Ok(())
}

fn diag(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let band = band_of(p, 1)?;
    let size = matrix(p.output_dims(0))?;
    let width = p.dims(0).last().copied().unwrap_or(0) as i64;
    let (each, columns) = ((size[0] * size[1]).max(1) as usize, size[1].max(1) as usize);
    let rows_of = (band.count() * width) as usize;
    let padded = p.inputs.len() > 4;
    index_map(p, if padded { &[0, 4] } else { &[0] }, move |i| {
        let (matrix, at) = (i / each, i % each);
        let (row, column) = ((at / columns) as i64, (at % columns) as i64);
        match band.place(row, column, size, width) {
            Some(place) => ElementSource::one(0, matrix * rows_of + place),
            None if padded => ElementSource::one(1, 0),
            // To the band's first column in this row, or to the end of the row.
            None => match row + band.low - column {
                before if before > 0 => ElementSource::Zeros(before.min(size[1] - column) as usize),
                _ => ElementSource::Zeros((size[1] - column) as usize),
            },
        }
    })
}

fn part_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let band = band(cx, 1)?;
    if cx.inputs() > 2 {
        cx.ranked(2, 0)?;
    }
    let (Some(dims), Some(band)) = (cx.shape(0).dims(), band) else {
        return Ok(());
    };
    let batch = batch(dims, 2).ok_or_else(|| too_small(cx, 0, 2))?;
    let count = (band.count() > 1).then(|| dim(band.count()));
    let longest = match (dims[batch.len()], dims[batch.len() + 1]) {
        (Some(rows), Some(columns)) => {
            band.within(1, rows as i64, columns as i64)?;
            dim(band.longest(rows as i64, columns as i64))
        }
        _ => None,
    };
    let all = batch.iter().copied().chain(count).chain([longest]);
    let shape = checked_shape(0, Shape::partial(all))?;
    cx.set(0, shape);
    Ok(())
}

fn part(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let band = band_of(p, 1)?;
    let size = matrix(p.dims(0))?;
    let width = p.output_dims(0).last().copied().unwrap_or(0);
    let each = (band.count() as usize).saturating_mul(width).max(1);
    let area = (size[0] * size[1]) as usize;
    let padded = p.inputs.len() > 2;
    index_map(p, if padded { &[0, 2] } else { &[0] }, move |i| {
        let (matrix, at) = (i / each, i % each);
        let (row, along) = ((at / width) as i64, (at % width) as i64);
        match band.element(row, along, size, width as i64) {
            Some((place, len)) => ElementSource::From {
                input: 0,
                at: matrix * area + place,
                step: size[1] as usize + 1,
                len,
            },
            None if padded => ElementSource::one(1, 0),
            None => ElementSource::Zeros(1),
        }
    })
}

fn set_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let band = band(cx, 2)?;
    let input = cx.shape(0).clone();
    cx.set(0, input.clone());
    let (Some(dims), Some(band)) = (input.dims(), band) else {
        return Ok(());
    };
    let batch = batch(dims, 2).ok_or_else(|| too_small(cx, 0, 2))?;
    let (rows, columns) = (dims[batch.len()], dims[batch.len() + 1]);
    let longest = match (rows, columns) {
        (Some(rows), Some(columns)) => {
            band.within(2, rows as i64, columns as i64)?;
            dim(band.longest(rows as i64, columns as i64))
        }
        _ => None,
    };
    let count = (band.count() > 1).then(|| dim(band.count()));
    let diagonal = Shape::partial(batch.iter().copied().chain(count).chain([longest]));
    diagonal
        .merge(cx.shape(1))
        .ok_or_else(|| InferError::Mismatch {
            what: "the diagonals must have the shape of those of the input".to_owned(),
            left: cx.shape(1).clone(),
            right: diagonal.clone(),
        })?;
    Ok(())
}

fn set(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let band = band_of(p, 2)?;
    let size = matrix(p.dims(0))?;
    let (dtype, n) = (p.dtype(0), p.outputs[0].elements());
    by_size!(dtype, T => Ok(set_kernel::<T>(n, dtype, band, size)))
}

/// Copies matrices row by row, and then the elements of each row that are on the diagonals.
fn set_kernel<T: Pod + Send + Sync>(
    n: usize,
    dtype: DType,
    band: Band,
    size: [i64; 2],
) -> Prepared {
    let width = band.longest(size[0], size[1]);
    let (rows, columns) = (size[0].max(1) as usize, size[1].max(1) as usize);
    let of_matrix = (band.count() * width) as usize;
    let each = (CHUNK / columns).max(1);
    Prepared::new(n, move |cx| {
        let (from, diagonals) = (input_as::<T>(cx, 0)?, input_as::<T>(cx, 1)?);
        // SAFETY: only elements of inputs of the same dtype are written to it.
        let out = unsafe { output_as::<T>(cx, 0, dtype) }?;
        for_chunks(cx.pool(), out, each * columns, &|task, part| {
            let first = task * each;
            part.copy_from_slice(&from[first * columns..][..part.len()]);
            for (i, part) in part.chunks_exact_mut(columns).enumerate() {
                let (matrix, row) = ((first + i) / rows, ((first + i) % rows) as i64);
                let begin = (row + band.low).clamp(0, size[1]);
                let end = (row + band.high + 1).clamp(begin, size[1]);
                for column in begin..end {
                    if let Some(place) = band.place(row, column, size, width) {
                        part[column as usize] = diagonals[matrix * of_matrix + place];
                    }
                }
            }
        });
        Ok(())
    })
}

/// Version suffix of the ops in a gradient, which keep the alignment of the differentiated node.
struct OpVersion(&'static str);

impl OpVersion {
    fn aligned<'g>(&self, g: &GradCx<'_, 'g>, node: thalweg_graph::NodeBuilder<'g>) -> Output<'g> {
        match g.attrs().get("align") {
            Some(align) => node.attr("align", align.clone()).output(),
            None => node.output(),
        }
    }

    /// The diagonals of `x` that input `k` of the node selects, padded with zeros.
    fn part<'g>(&self, g: &GradCx<'_, 'g>, x: Output<'g>, k: usize) -> Output<'g> {
        let node = g.graph().op(&format!("MatrixDiagPart{}", self.0)).input(x);
        match self.0 {
            "" => node.output(),
            _ => self.aligned(g, node.input(g.input(k)).input(zero(x))),
        }
    }

    /// Sets these diagonals of `x`.
    fn set<'g>(
        &self,
        g: &GradCx<'_, 'g>,
        x: Output<'g>,
        diagonal: Output<'g>,
        k: usize,
    ) -> Output<'g> {
        let node = g.graph().op(&format!("MatrixSetDiag{}", self.0));
        let node = node.input(x).input(diagonal);
        match self.0 {
            "" => node.output(),
            _ => self.aligned(g, node.input(g.input(k))),
        }
    }

    fn diag_gradient<'g>(&self, g: &GradCx<'_, 'g>) -> InputGradients<'g> {
        smallvec![Some(self.part(g, g.grad(), 1))]
    }

    fn part_gradient<'g>(&self, g: &GradCx<'_, 'g>) -> InputGradients<'g> {
        let zeros = g.graph().op("ZerosLike").input(g.input(0)).output();
        smallvec![Some(self.set(g, zeros, g.grad(), 1))]
    }

    fn set_gradient<'g>(&self, g: &GradCx<'_, 'g>) -> InputGradients<'g> {
        let zeros = g.graph().op("ZerosLike").input(g.input(1)).output();
        smallvec![
            Some(self.set(g, g.grad(), zeros, 2)),
            Some(self.part(g, g.grad(), 2))
        ]
    }
}

/// A zero of the dtype of `x`.
fn zero(x: Output<'_>) -> Output<'_> {
    let zero = int_scalar(x.graph(), DType::I32, 0);
    let node = x.graph().op("Cast").input(zero);
    node.attr("DstT", x.dtype()).output()
}

const DIAG: OpDef = OpDef {
    name: "MatrixDiag",
    summary: "Square matrices with the given rows as their main diagonals and zeros elsewhere.",
    inputs: &[arg("diagonal", "T")],
    outputs: &[arg("output", "T")],
    attrs: &[ANY],
    shape: diag_shape,
    gradient: Gradient::Rule(|g| OpVersion("").diag_gradient(g)),
    ..OpDef::EMPTY
};

const DIAG_INPUTS: &[Arg] = &[
    arg("diagonal", "T"),
    K,
    arg_of("num_rows", DType::I32).host(),
    arg_of("num_cols", DType::I32).host(),
    arg("padding_value", "T"),
];

/// Matrices from their main diagonals.
pub(crate) static MATRIX_DIAG: Op = Op {
    def: DIAG,
    kernels: &[cpu(diag)],
};

/// The older name of [`MATRIX_DIAG`].
pub(crate) static BATCH_MATRIX_DIAG: Op = Op {
    def: OpDef {
        name: "BatchMatrixDiag",
        ..DIAG
    },
    kernels: &[cpu(diag)],
};

/// Matrices from some diagonals, which begin at the left of their rows.
pub(crate) static MATRIX_DIAG_V2: Op = Op {
    def: OpDef {
        name: "MatrixDiagV2",
        summary: "Matrices with the given diagonals, aligned to the left, and a value elsewhere.",
        inputs: DIAG_INPUTS,
        gradient: Gradient::Rule(|g| OpVersion("V2").diag_gradient(g)),
        ..DIAG
    },
    kernels: &[cpu(diag)],
};

/// Matrices from some diagonals.
pub(crate) static MATRIX_DIAG_V3: Op = Op {
    def: OpDef {
        name: "MatrixDiagV3",
        summary: "Matrices with the given diagonals and a value elsewhere.",
        inputs: DIAG_INPUTS,
        attrs: &[ANY, ALIGN],
        gradient: Gradient::Rule(|g| OpVersion("V3").diag_gradient(g)),
        ..DIAG
    },
    kernels: &[cpu(diag)],
};

const PART: OpDef = OpDef {
    name: "MatrixDiagPart",
    summary: "The main diagonals of matrices.",
    inputs: &[arg("input", "T")],
    outputs: &[arg("diagonal", "T")],
    attrs: &[ANY],
    shape: part_shape,
    gradient: Gradient::Rule(|g| OpVersion("").part_gradient(g)),
    ..OpDef::EMPTY
};

const PART_INPUTS: &[Arg] = &[arg("input", "T"), K, arg("padding_value", "T")];

/// The main diagonals of matrices.
pub(crate) static MATRIX_DIAG_PART: Op = Op {
    def: PART,
    kernels: &[cpu(part)],
};

/// The older name of [`MATRIX_DIAG_PART`].
pub(crate) static BATCH_MATRIX_DIAG_PART: Op = Op {
    def: OpDef {
        name: "BatchMatrixDiagPart",
        ..PART
    },
    kernels: &[cpu(part)],
};

/// Some diagonals of matrices, at the left of their rows.
pub(crate) static MATRIX_DIAG_PART_V2: Op = Op {
    def: OpDef {
        name: "MatrixDiagPartV2",
        summary: "Some diagonals of matrices, aligned to the left, with a value behind them.",
        inputs: PART_INPUTS,
        gradient: Gradient::Rule(|g| OpVersion("V2").part_gradient(g)),
        ..PART
    },
    kernels: &[cpu(part)],
};

/// Some diagonals of matrices.
pub(crate) static MATRIX_DIAG_PART_V3: Op = Op {
    def: OpDef {
        name: "MatrixDiagPartV3",
        summary: "Some diagonals of matrices, with a value beside those that are shorter.",
        inputs: PART_INPUTS,
        attrs: &[ANY, ALIGN],
        gradient: Gradient::Rule(|g| OpVersion("V3").part_gradient(g)),
        ..PART
    },
    kernels: &[cpu(part)],
};

const SET: OpDef = OpDef {
    name: "MatrixSetDiag",
    summary: "Matrices with other main diagonals.",
    inputs: &[arg("input", "T"), arg("diagonal", "T")],
    outputs: &[arg("output", "T")],
    attrs: &[ANY],
    shape: set_shape,
    gradient: Gradient::Rule(|g| OpVersion("").set_gradient(g)),
    ..OpDef::EMPTY
};

const SET_INPUTS: &[Arg] = &[arg("input", "T"), arg("diagonal", "T"), K];

/// Matrices with other main diagonals.
pub(crate) static MATRIX_SET_DIAG: Op = Op {
    def: SET,
    kernels: &[cpu(set)],
};

/// The older name of [`MATRIX_SET_DIAG`].
pub(crate) static BATCH_MATRIX_SET_DIAG: Op = Op {
    def: OpDef {
        name: "BatchMatrixSetDiag",
        ..SET
    },
    kernels: &[cpu(set)],
};

/// Matrices with some other diagonals, which begin at the left of their rows.
pub(crate) static MATRIX_SET_DIAG_V2: Op = Op {
    def: OpDef {
        name: "MatrixSetDiagV2",
        summary: "Matrices with some other diagonals, aligned to the left.",
        inputs: SET_INPUTS,
        gradient: Gradient::Rule(|g| OpVersion("V2").set_gradient(g)),
        ..SET
    },
    kernels: &[cpu(set)],
};

/// Matrices with some other diagonals.
pub(crate) static MATRIX_SET_DIAG_V3: Op = Op {
    def: OpDef {
        name: "MatrixSetDiagV3",
        summary: "Matrices with some other diagonals.",
        inputs: SET_INPUTS,
        attrs: &[ANY, ALIGN],
        gradient: Gradient::Rule(|g| OpVersion("V3").set_gradient(g)),
        ..SET
    },
    kernels: &[cpu(set)],
};
