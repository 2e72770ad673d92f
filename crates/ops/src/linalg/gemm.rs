//! Kernel of all matrix products: one GEMM for each matrix of the output.

use half::{bf16, f16};
use smallvec::SmallVec;
use thalweg_cpu::parallel::for_chunks;
use thalweg_cpu::thread_pool::ThreadPool;
use thalweg_device::{KernelCx, KernelError, Prepare, Prepared};
use thalweg_graph::InferError;
use thalweg_tensor::num_complex::Complex;
use thalweg_tensor::{DType, Notes, Shape, Tensor};

use crate::support::cpu::slice_cpu;
use crate::support::epilogue::FusedOps;
use thalweg_cpu::gemm;
use thalweg_cpu::gemm::{
    Gemm, GemmBatch, gemm, gemm_many, gemm_many_scratch, gemm_pack, gemm_packed_len,
    gemm_prepacked, gemm_scratch,
};
use thalweg_cpu::number::Arithmetic;
use thalweg_cpu::{Epilogue, Isa, Vectorize};

/// Dtypes with a kernel.
pub(super) const DTYPES: &[(&str, &[DType])] = &[("T", DType::ALL_NUMBERS)];

/// Checks that the inner dimensions `ka` of `a` and `kb` of `b` are equal, as far as they are known.
pub(super) fn expect_inner(
    a: &Shape,
    ka: Option<usize>,
    b: &Shape,
    kb: Option<usize>,
) -> Result<(), InferError> {
    match (ka, kb) {
        (Some(ka), Some(kb)) if ka != kb => Err(InferError::Mismatch {
            what: format!(
                "the matrices of input 0 have an inner dimension of {ka}, those of input 1 of {kb}; they must be equal"
            ),
            left: a.clone(),
            right: b.clone(),
        }),
        _ => Ok(()),
    }
}

/// GEMMs to compute, and the matrices of each.
pub(super) struct GemmBatches {
    pub(super) gemm: Gemm,
    /// For each matrix of the output: the index of the matrix of each input.
    pub(super) pairs: Vec<[usize; 2]>,
    /// `true` for an input whose complex numbers are conjugated.
    pub(super) conjugated: [bool; 2],
}

impl GemmBatches {
    /// The GEMMs as one batch, where there are several and each input gives one matrix to each of them, or one to all.
    fn regular(&self) -> Option<GemmBatch> {
        let &[_, second, ..] = &self.pairs[..] else {
            return None;
        };
        let fits = |(i, pair): (usize, &[usize; 2])| *pair == second.map(|step| i * step);
        let is_regular =
            second.iter().all(|&step| step <= 1) && self.pairs.iter().enumerate().all(fits);
        let Gemm { m, n, k, .. } = self.gemm;
        is_regular.then_some(GemmBatch {
            gemms: self.pairs.len(),
            steps: [second[0] * m * k, second[1] * k * n, m * n],
        })
    }
}

/// GEMM of the matrices in the last two dimensions of inputs of these dimensions.
pub(super) fn gemm_of(
    a: &[usize],
    b: &[usize],
    transpose_a: bool,
    transpose_b: bool,
) -> Result<Gemm, KernelError> {
    let (&[.., a0, a1], &[.., b0, b1]) = (a, b) else {
        return Err(KernelError::Argument("two matrices"));
    };
    let (m, k) = if transpose_a { (a1, a0) } else { (a0, a1) };
    let n = if transpose_b { b0 } else { b1 };
    Ok(Gemm {
        m,
        n,
        k,
        transpose_a,
        transpose_b,
    })
}

/// Prepares the kernel for inputs 0 and 1 and output 0.
pub(super) fn prepare(p: &Prepare<'_>, batches: GemmBatches) -> Result<Prepared, KernelError> {
    match p.dtype(0) {
        DType::F32 => Ok(floats::<f32>(p, batches, FusedOps::NONE)),
        DType::F64 => Ok(floats::<f64>(p, batches, FusedOps::NONE)),
        DType::F16 => Ok(floats::<f16>(p, batches, FusedOps::NONE)),
        DType::BF16 => Ok(floats::<bf16>(p, batches, FusedOps::NONE)),
        DType::I8 => Ok(plain::<i8>(p, batches)),
        DType::I16 => Ok(plain::<i16>(p, batches)),
        DType::I32 => Ok(plain::<i32>(p, batches)),
        DType::I64 => Ok(plain::<i64>(p, batches)),
        DType::U8 => Ok(plain::<u8>(p, batches)),
        DType::U16 => Ok(plain::<u16>(p, batches)),
        DType::U32 => Ok(plain::<u32>(p, batches)),
        DType::U64 => Ok(plain::<u64>(p, batches)),
        DType::C64 => Ok(plain::<Complex<f32>>(p, batches)),
        DType::C128 => Ok(plain::<Complex<f64>>(p, batches)),
        other => Err(KernelError::DType(other)),
    }
}

/// Estimate: a multiplication and an addition take about a sixtieth of a nanosecond in a large GEMM.
fn cost(batches: &GemmBatches) -> u64 {
    let Gemm { m, n, k, .. } = batches.gemm;
    let steps = m as f64 * n as f64 * k as f64 * batches.pairs.len() as f64;
    100 + (steps / 30.0) as u64
}

/// Prepares the kernel of a single GEMM with a bias and an epilogue.
pub(super) fn with_epilogue(
    p: &Prepare<'_>,
    gemm: Gemm,
    ops: FusedOps,
) -> Result<Prepared, KernelError> {
    if ops.room(1) > 0 {
        return Err(KernelError::Invalid(
            "a batch normalization cannot follow a product in one node".to_owned(),
        ));
    }
    ops.without_residual("a product")?;
    let batches = GemmBatches {
        gemm,
        pairs: vec![[0, 0]],
        conjugated: [false; 2],
    };
    match p.dtype(0) {
        DType::F32 => Ok(floats::<f32>(p, batches, ops)),
        DType::F64 => Ok(floats::<f64>(p, batches, ops)),
        other => Err(KernelError::DType(other)),
    }
}

fn floats<T: gemm::Element + thalweg_tensor::Element>(
    p: &Prepare<'_>,
    batches: GemmBatches,
    ops: FusedOps,
) -> Prepared {
    let (cost, shape) = (cost(&batches), batches.gemm);
    let empty = p.outputs[0].elements() == 0;
    let (isa, threads) = (p.cpu.isa(), p.cpu.pool().threads());
    if let Some(many) = batches.regular().filter(|_| !empty) {
        let scratch = gemm_many_scratch::<T>(isa, threads, &shape, many);
        let kernel = move |cx: &KernelCx<'_>| {
            let (operands, c) = ([cx.input::<T>(0)?, cx.input::<T>(1)?], cx.output::<T>(0)?);
            let scratch = cx.scratch::<u8>(scratch)?;
            let cpu = slice_cpu(cx.cpu());
            gemm_many(cpu, &shape, many, operands, Epilogue::NONE, c, scratch);
            Ok(())
        };
        return Prepared::new(0, kernel)
            .with_scratch(scratch)
            .with_cost(cost);
    }
    let scratch = match empty {
        true => 0,
        false => gemm_scratch::<T>(isa, threads, &shape),
    };
    Prepared::new(0, move |cx| {
        let scratch = cx.scratch::<u8>(scratch)?;
        let epilogue = ops.epilogue::<T::Sum>(cx, &mut [], &[])?;
        // Notes describe a whole input.
        let notes = cx.notes(1).filter(|_| batches.pairs.len() == 1);
        let panels = notes.and_then(|notes| packed_b::<T>(cx, &shape, notes));
        for_each_gemm::<T>(cx, &batches, |a, b, c| {
            if let Some(panels) = panels {
                let cpu = slice_cpu(cx.cpu());
                return gemm_prepacked(cpu, &shape, [a, panels], epilogue, c, scratch);
            }
            gemm(
                slice_cpu(cx.cpu()),
                &shape,
                [a, b],
                notes,
                epilogue,
                c,
                scratch,
            );
        })
    })
    .with_scratch(scratch)
    .with_cost(cost)
}

/// A matrix in panels, kept while it is unchanged.
struct PackedMatrix {
    isa: Isa,
    /// Its dimensions in the product.
    dims: [usize; 2],
    panels: Tensor,
}

/// A matrix that was read this often without a write is packed: by a loop, the replicas of a model, or a step that
/// changes no parameter. Packing it costs no more than the product that packs it too.
const READS_BEFORE_PACKING: u32 = 1;
/// The largest matrix that is kept in panels, in bytes.
const MAX_PACKED_BYTES: usize = 16 << 20;

/// The panels of input 1, from its notes or packed now; `None` if the product needs none, or if memory is limited.
fn packed_b<'a, T: gemm::Element + thalweg_tensor::Element>(
    cx: &KernelCx<'a>,
    shape: &Gemm,
    notes: &'a Notes,
) -> Option<&'a [T]> {
    let len = gemm_packed_len::<T>(slice_cpu(cx.cpu()).isa, shape)?;
    if cx.memory_is_limited() || len.saturating_mul(size_of::<T>()) > MAX_PACKED_BYTES {
        return None;
    }
    let (isa, dims) = (slice_cpu(cx.cpu()).isa, [shape.k, shape.n]);
    let kept = notes.derived(shape.transpose_b.into(), READS_BEFORE_PACKING, || {
        let b = cx.input::<T>(1).ok()?;
        let mut panels = cx.zeros(T::DTYPE, &[len]).ok()?;
        let to = panels.as_mut_slice::<T>().ok()?;
        gemm_pack(slice_cpu(cx.cpu()), shape, b, to);
        Some(PackedMatrix { isa, dims, panels })
    });
    let kept = kept.filter(|kept| kept.isa == isa && kept.dims == dims)?;
    kept.panels.as_slice::<T>().ok()
}

/// Kernel of integers, which wrap as in all integer arithmetic, and of complex numbers.
fn plain<T: Arithmetic>(_: &Prepare<'_>, batches: GemmBatches) -> Prepared {
    let (cost, p) = (cost(&batches), batches.gemm);
    Prepared::new(0, move |cx| {
        let isa = cx.cpu().isa();
        for_each_gemm::<T>(cx, &batches, |a, b, c| {
            plain_gemm((cx.pool(), isa), &p, batches.conjugated, a, b, c)
        })
    })
    .with_cost(cost.saturating_mul(10))
}

/// `c = a b`, row by row.
pub(super) fn plain_gemm<T: Arithmetic>(
    (pool, isa): (&ThreadPool, Isa),
    p: &Gemm,
    conjugated: [bool; 2],
    a: &[T],
    b: &[T],
    c: &mut [T],
) {
    for_chunks(pool, c, p.n, &|row, c| {
        let at = |i: usize| match p.transpose_a {
            true => a[i * p.m + row],
            false => a[row * p.k + i],
        };
        let line = (0..p.k).map(at);
        let line: SmallVec<[T; 64]> = match conjugated[0] {
            true => line.map(T::conj).collect(),
            false => line.collect(),
        };
        isa.run_up_to_avx2(PlainRow {
            line: &line,
            b,
            c,
            transposed: p.transpose_b,
            conjugated: conjugated[1],
        });
    });
}

/// A row of a product: a line of the first matrix, times the second matrix.
struct PlainRow<'a, T> {
    line: &'a [T],
    b: &'a [T],
    c: &'a mut [T],
    transposed: bool,
    conjugated: bool,
}

impl<T: Arithmetic> Vectorize for PlainRow<'_, T> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let of_b = |y: T| if self.conjugated { y.conj() } else { y };
        if self.transposed {
            let dot = |column: &[T]| {
                let products = self.line.iter().zip(column).map(|(x, &y)| x.mul(of_b(y)));
                products.fold(T::ZERO, |sum, x| sum.add(x))
            };
            let columns = self.b.chunks_exact(self.line.len().max(1));
            self.c.fill(T::ZERO);
            self.c
                .iter_mut()
                .zip(columns)
                .for_each(|(c, column)| *c = dot(column));
            return;
        }
        let n = self.c.len();
        self.c.fill(T::ZERO);
        for (x, row) in self.line.iter().zip(self.b.chunks_exact(n)) {
            for (c, &y) in self.c.iter_mut().zip(row) {
                *c = c.add(x.mul(of_b(y)));
            }
        }
    }
}

/// Calls `body` with the matrices of each GEMM.
fn for_each_gemm<T: thalweg_tensor::Element>(
    cx: &KernelCx<'_>,
    batches: &GemmBatches,
    mut body: impl FnMut(&[T], &[T], &mut [T]),
) -> Result<(), KernelError> {
    let (a, b, c) = (cx.input::<T>(0)?, cx.input::<T>(1)?, cx.output::<T>(0)?);
    let Gemm { m, n, k, .. } = batches.gemm;
    if c.is_empty() {
        return Ok(());
    }
    // If the output is not empty, m and n are at least 1.
    for (c, [i, j]) in c.chunks_exact_mut(m * n).zip(&batches.pairs) {
        body(&a[i * m * k..][..m * k], &b[j * k * n..][..k * n], c);
    }
    Ok(())
}
