//! SparseTensorDenseMatMul.

use half::{bf16, f16};
use smallvec::smallvec;
use thalweg_cpu::number::{Arithmetic, Float};
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::op::{
    Gradient, InputGradients, arg, arg_of, bool_attr, type_attr, type_attr_or,
};
use thalweg_graph::{GradCx, Infer, InferError, OpDef, Output};
use thalweg_tensor::num_complex::Complex;
use thalweg_tensor::{DType, Shape, Tensor};

use super::sparse_input::{SparseInput, invalid};
use crate::array::ArrayOps;
use crate::support::gradient_nodes::{conj, gather_rows, int_vector};
use crate::support::shape_inputs::checked_shape;
use crate::support::tensors::AccountedVec;

/// Product of a sparse and a dense matrix.
pub(crate) static MAT_MUL: Op = Op {
    def: OpDef {
        name: "SparseTensorDenseMatMul",
        summary: "The product of a sparse matrix and a dense one, either of them transposed first.",
        inputs: &[
            arg("a_indices", "Tindices"),
            arg("a_values", "T"),
            arg_of("a_shape", DType::I64),
            arg("b", "T"),
        ],
        outputs: &[arg("product", "T")],
        attrs: &[
            type_attr("T", DType::ALL_NUMBERS),
            type_attr_or("Tindices", DType::INDICES, DType::I64),
            bool_attr("adjoint_a", false),
            bool_attr("adjoint_b", false),
        ],
        shape,
        gradient: Gradient::Rule(gradient),
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let product = match cx.tensor(1)?.dtype() {
            DType::F32 => product::<f32, f32>(cx, |x| x),
            DType::F64 => product::<f64, f64>(cx, |x| x),
            DType::I32 => product::<i32, i32>(cx, |x| x),
            DType::F16 => product_of_halves::<f16>(cx),
            DType::BF16 => product_of_halves::<bf16>(cx),
            DType::C64 => product::<Complex<f32>, Complex<f32>>(cx, |x| x),
            DType::C128 => product::<Complex<f64>, Complex<f64>>(cx, |x| x),
            other => Err(KernelError::DType(other)),
        };
        Ok(vec![product?])
    })],
};

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    cx.ranked(0, 2)?;
    cx.ranked(1, 1)?;
    cx.ranked(2, 1)?;
    let b = cx.ranked(3, 2)?;
    let [adjoint_a, adjoint_b] =
        ["adjoint_a", "adjoint_b"].map(|attr| usize::from(cx.attrs().bool(attr)));
    let rows = cx.ints(2).and_then(|shape| shape.get(adjoint_a).copied());
    let rows = rows.and_then(|rows| usize::try_from(rows).ok());
    let shape = checked_shape(2, Shape::partial([rows, b.dim(1 - adjoint_b)]))?;
    cx.set(0, shape);
    Ok(())
}

/// A dense matrix in rows, or in columns if it is to be transposed.
struct Dense<'a, T> {
    elements: &'a [T],
    /// Numbers of rows and columns of the operand.
    rows: usize,
    columns: usize,
    transposed: bool,
}

/// The sizes of the operands, which must fit each other: rows of the product, and the dense matrix.
fn operands<'a, T: Arithmetic>(
    cx: &TensorCx<'a>,
    a: &SparseInput<'_>,
) -> Result<(usize, Dense<'a, T>), KernelError> {
    let b = cx.tensor(3)?;
    let &[b0, b1] = b.dims() else {
        return Err(invalid("Tensor 'b' is not a matrix"));
    };
    let &[a0, a1] = &a.dims()[..] else {
        return Err(invalid("Tensor 'a_shape' must have 2 elements"));
    };
    let (m, inner_a) = if cx.attrs().bool("adjoint_a") {
        (a1, a0)
    } else {
        (a0, a1)
    };
    let transposed = cx.attrs().bool("adjoint_b");
    let (inner_b, n) = if transposed { (b1, b0) } else { (b0, b1) };
    if inner_a != inner_b {
        return Err(invalid(format!(
            "Cannot multiply A and B because inner dimension does not match: {inner_a} vs. {inner_b}.  Did you forget a \
             transpose?  Dimensions of A: [{a0}, {a1}).  Dimensions of B: {}",
            b.shape()
        )));
    }
    let dense = Dense {
        elements: b.as_slice::<T>()?,
        rows: inner_b,
        columns: n,
        transposed,
    };
    Ok((m, dense))
}

/// The transpose of a matrix of `columns` rows, each of `rows` elements.
fn transposed<T: Arithmetic>(
    cx: &TensorCx<'_>,
    from: &Dense<'_, T>,
) -> Result<AccountedVec<T>, KernelError> {
    let mut to = AccountedVec::filled(from.elements.len(), T::ZERO, cx.memory())?;
    if !to.is_empty() {
        for (column, elements) in from.elements.chunks_exact(from.rows).enumerate() {
            let rows = to.chunks_exact_mut(from.columns);
            rows.zip(elements).for_each(|(row, &x)| row[column] = x);
        }
    }
    Ok(to)
}

/// The product, with sums of type `S`.
fn product<T: Arithmetic, S: Arithmetic>(
    cx: &TensorCx<'_>,
    widen: impl Fn(T) -> S + Copy,
) -> Result<Tensor, KernelError> {
    let a = SparseInput::of(cx, 0)?;
    let (m, b) = operands::<T>(cx, &a)?;
    let (left, right) = if cx.attrs().bool("adjoint_a") {
        (1, 0)
    } else {
        (0, 1)
    };
    let mut sums = cx.zeros(S::DTYPE, &[m, b.columns])?;
    let to = sums.as_mut_slice::<S>()?;
    let values = a.values.as_slice::<T>()?;
    // Rows of the transpose are worth their making if most of them are used.
    let own = match b.transposed && a.len() >= b.rows {
        true => Some(transposed(cx, &b)?),
        false => None,
    };
    let in_rows = match b.transposed {
        false => Some(b.elements),
        true => own.as_deref(),
    };
    let [of_a, of_b] = ["adjoint_a", "adjoint_b"].map(|attr| {
        let adjoint = cx.attrs().bool(attr);
        move |x: S| if adjoint { x.conj() } else { x }
    });
    let mut stop = cx.stop_check();
    for (entry, &value) in values.iter().enumerate() {
        stop.tick()?;
        let index = a.index(entry);
        let inside = |i: i64, end: usize| usize::try_from(i).ok().filter(|&i| i < end);
        let row = inside(index[left], m);
        let row = row.ok_or_else(|| out_of_bounds("m", index[left], entry, left, m))?;
        let at = inside(index[right], b.rows);
        let at = at.ok_or_else(|| out_of_bounds("k", index[right], entry, right, b.rows))?;
        let (to, x) = (&mut to[row * b.columns..][..b.columns], of_a(widen(value)));
        match in_rows {
            Some(rows) => {
                let row = &rows[at * b.columns..][..b.columns];
                to.iter_mut()
                    .zip(row)
                    .for_each(|(to, &y)| *to = to.add(x.mul(of_b(widen(y)))));
            }
            None => {
                let column = b.elements.get(at..).unwrap_or_default();
                let column = column.iter().step_by(b.rows);
                to.iter_mut()
                    .zip(column)
                    .for_each(|(to, &y)| *to = to.add(x.mul(of_b(widen(y)))));
            }
        }
    }
    Ok(sums)
}

fn out_of_bounds(name: &str, value: i64, entry: usize, column: usize, end: usize) -> KernelError {
    invalid(format!(
        "{name} ({value}) from index[{entry},{column}] out of bounds (>={end})"
    ))
}

/// The product of halves, with sums of `f32`.
fn product_of_halves<T: Float<Wide = f32>>(cx: &TensorCx<'_>) -> Result<Tensor, KernelError> {
    let sums = product::<T, f32>(cx, T::widen)?;
    let mut product = cx.zeros(T::DTYPE, sums.dims())?;
    let sums = sums.as_slice::<f32>()?;
    let to = product.as_mut_slice::<T>()?.iter_mut();
    to.zip(sums).for_each(|(to, &sum)| *to = T::narrow(sum));
    Ok(product)
}

/// Column `i` of the indices.
fn column(indices: Output<'_>, i: i64) -> Output<'_> {
    let at = |i: i64| int_vector(indices.graph(), DType::I64, &[i]);
    let node = indices
        .graph()
        .op("GatherV2")
        .input(indices)
        .input(at(i))
        .input(at(1));
    node.output().reshape(at(-1))
}

fn gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let (graph, indices, b, dy) = (g.graph(), g.input(0), g.input(3), g.grad());
    let [adjoint_a, adjoint_b] = ["adjoint_a", "adjoint_b"].map(|attr| g.attrs().bool(attr));
    let swapped = || int_vector(graph, DType::I32, &[1, 0]);
    let node = graph
        .op("SparseTensorDenseMatMul")
        .input(indices)
        .input(g.input(1));
    let node = node
        .input(g.input(2))
        .input(dy)
        .attr("adjoint_a", !adjoint_a);
    let mut db = node.output();
    let mut b = b;
    if adjoint_b {
        (db, b) = (conj(db).transpose(swapped()), conj(b).transpose(swapped()));
    }
    let (left, right) = if adjoint_a { (1, 0) } else { (0, 1) };
    let dy = gather_rows(dy, column(indices, left));
    let terms = dy * conj(gather_rows(b, column(indices, right)));
    let da = graph
        .op("Sum")
        .input(terms)
        .input(int_vector(graph, DType::I32, &[1]));
    let da = match adjoint_a {
        true => conj(da.output()),
        false => da.output(),
    };
    smallvec![None, Some(da), None, Some(db)]
}
