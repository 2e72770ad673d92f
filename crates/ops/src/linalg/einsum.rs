//! Einsum: sums of products by an equation of labels.
//!
//! Two inputs are transposed to the order of a product of matrices (labels of both inputs and of the output,
//! then those of one input and of the output, then those that are summed), multiplied, and transposed to the
//! order of the output. A diagonal is a step along two dimensions at once.

use bytemuck::Pod;
use smallvec::{SmallVec, smallvec};
use thalweg_device::gpu::Launches;
use thalweg_device::{KernelCx, KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::error::Reason;
use thalweg_graph::op::{Gradient, InputGradients, arg, attr, count_attr, type_attr};
use thalweg_graph::{AttrKind, GradCx, OpDef, Output};
use thalweg_tensor::{DType, dispatch};

use super::equation::{self, Equation, Label, LabelSizes, Term};
use super::gemm::plain_gemm;
use crate::gpu::{EinsumGemm, EinsumTensor};
use crate::math::broadcast::sum_to;
use crate::support::constants::ints;
use crate::support::cpu::slice_cpu;
use crate::support::gradient_nodes::conj;
use crate::support::strided_copy::{CopyAxis, StridedCopy, steps};
use thalweg_cpu::Epilogue;
use thalweg_cpu::gemm::{Gemm, gemm, gemm_scratch};
use thalweg_cpu::number::Arithmetic;

/// Sum of products by an equation.
pub(crate) static EINSUM: Op = Op {
    def: OpDef {
        name: "Einsum",
        summary: "The sum of products given by an equation of labels: 'ij,jk->ik' is a product of matrices.",
        inputs: &[arg("inputs", "T").list("N")],
        outputs: &[arg("output", "T")],
        attrs: &[
            attr("equation", AttrKind::Str),
            count_attr("N"),
            type_attr("T", DType::ALL_NUMBERS),
        ],
        shape: equation::shape,
        gradient: Gradient::Rule(gradient),
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| {
        dispatch!(p.dtype(0), [F16 BF16 F32 F64], T => prepare::<T>(p, GemmKernel {
            scratch: |p, product| gemm_scratch::<T>(p.cpu.isa(), p.cpu.pool().threads(), product),
            run: |cx, product, a, b, c, scratch| gemm(slice_cpu(cx.cpu()), product, [a, b], None, Epilogue::default(), c, scratch),
        }), else dispatch!(p.dtype(0), [I32 I64 C64 C128], T => prepare::<T>(p, GemmKernel {
            scratch: |_, _| 0,
            run: |cx, product, a, b, c, _| plain_gemm((cx.pool(), cx.cpu().isa()), product, [false; 2], a, b, c),
        }), else Err(KernelError::DType(p.dtype(0)))))
    })
    .only(&[(
        "T",
        &[
            DType::F16,
            DType::BF16,
            DType::F32,
            DType::F64,
            DType::I32,
            DType::I64,
            DType::C64,
            DType::C128,
        ],
    )]), gpu(on_gpu).only(&[("T", DType::FLOATS)])],
};

/// Function that multiplies two matrices.
#[derive(Clone, Copy)]
struct GemmKernel<T> {
    /// Bytes of scratch memory.
    scratch: fn(&Prepare<'_>, &Gemm) -> usize,
    run: MultiplyFn<T>,
}

/// Multiplies two matrices into a third, with scratch memory.
type MultiplyFn<T> = fn(&KernelCx<'_>, &Gemm, &[T], &[T], &mut [T], &mut [u8]);

/// Transposition of a tensor; `None` if it is in order already.
struct Transposed {
    moved: Option<StridedCopy>,
    len: usize,
}

impl Transposed {
    /// Box of these axes, with their steps for reading and for writing.
    fn new(axes: &[CopyAxis], len: usize) -> Result<Transposed, KernelError> {
        let same = axes.iter().all(|a| a.len == 1 || a.from == a.to);
        let moved = match same {
            true => None,
            false => Some(StridedCopy::new(0, 0, axes)?),
        };
        Ok(Transposed { moved, len })
    }

    /// Number of elements of scratch memory.
    fn scratch(&self) -> usize {
        if self.moved.is_some() { self.len } else { 0 }
    }
}

/// Bytes for this many elements, rounded up so that the next part is aligned.
fn aligned_bytes<T>(len: usize) -> usize {
    len.saturating_mul(size_of::<T>())
        .checked_next_multiple_of(64)
        .unwrap_or(usize::MAX)
}

/// The first `len` elements of `scratch`, and the rest of it.
fn split_scratch<T: Pod>(
    scratch: &mut [u8],
    len: usize,
) -> Result<(&mut [T], &mut [u8]), KernelError> {
    let missing = KernelError::Argument("scratch memory");
    if len == 0 {
        return Ok((&mut [], scratch));
    }
    let (own, rest) = scratch
        .split_at_mut_checked(aligned_bytes::<T>(len))
        .ok_or(missing.clone())?;
    let own = own.get_mut(..len * size_of::<T>()).ok_or(missing.clone())?;
    Ok((
        bytemuck::try_cast_slice_mut(own).map_err(|_| missing)?,
        rest,
    ))
}

/// Labels, and the product of their sizes.
struct LabelGroup {
    labels: SmallVec<[(Label, usize); 6]>,
    len: usize,
}

impl LabelGroup {
    fn new(sizes: &LabelSizes, is: impl Fn(Label) -> bool) -> Result<LabelGroup, KernelError> {
        let labels: SmallVec<[(Label, usize); 6]> = sizes
            .labels()
            .filter(|&l| is(l))
            .map(|l| (l, sizes.of(l).unwrap_or(0)))
            .collect();
        let len = labels
            .iter()
            .try_fold(1usize, |n, (_, d)| n.checked_mul(*d));
        let too_large = || KernelError::Invalid("the product of the sizes is too large".to_owned());
        Ok(LabelGroup {
            len: len.ok_or_else(too_large)?,
            labels,
        })
    }
}

/// Step of a label in a tensor: the sum over all dimensions that have it.
fn label_step(label: (Label, usize), labels: &[Label], dims: &[usize], steps: &[isize]) -> isize {
    let own = labels.iter().zip(dims).zip(steps);
    // A broadcast dimension has no step.
    own.filter(|((l, d), _)| **l == label.0 && (**d == label.1 || label.1 == 1))
        .map(|(_, step)| *step)
        .sum()
}

/// Axes of consecutive groups of labels, with `(from, to)` steps for each.
fn axes(
    groups: &[&LabelGroup],
    of: impl Fn((Label, usize), isize) -> (isize, isize),
) -> Vec<CopyAxis> {
    let labels: Vec<(Label, usize)> = groups.iter().flat_map(|g| &g.labels).copied().collect();
    let lens: Vec<usize> = labels.iter().map(|l| l.1).collect();
    let dense = steps(&lens);
    let axis = |(&label, &dense): (&(Label, usize), &isize)| {
        let (from, to) = of(label, dense);
        CopyAxis {
            len: label.1,
            from,
            to,
        }
    };
    labels.iter().zip(&dense).map(axis).collect()
}

/// A sum of products as GEMMs of its inputs in another order.
struct EinsumPlan {
    a: Transposed,
    /// `None` for ones, by which a single input is multiplied.
    b: Option<Transposed>,
    c: Transposed,
    batches: usize,
    product: Gemm,
    /// `true` if a repeated label leaves elements of the output that are not written.
    gaps: bool,
}

fn plan(p: &Prepare<'_>) -> Result<EinsumPlan, KernelError> {
    let invalid = |e: thalweg_graph::InferError| KernelError::Invalid(e.to_string());
    let equation =
        Equation::parse(p.node.attrs.str("equation"), p.inputs.len()).map_err(invalid)?;
    let ranks: Vec<usize> = p.inputs.iter().map(|o| o.dims.len()).collect();
    let (labels, output) = equation.labels(&ranks).map_err(invalid)?;
    let known = |i: usize| p.dims(i).iter().map(|&d| Some(d)).collect();
    let tensors = labels.iter().enumerate().map(|(i, l)| (&l[..], known(i)));
    let sizes = LabelSizes::new(tensors).map_err(invalid)?;

    let none = Vec::new();
    let (left, right) = (&labels[0], labels.get(1).unwrap_or(&none));
    let kept = |l: Label| output.contains(&l);
    let batch = LabelGroup::new(&sizes, |l| {
        kept(l) && left.contains(&l) && right.contains(&l)
    })?;
    let rows = LabelGroup::new(&sizes, |l| {
        kept(l) && left.contains(&l) && !right.contains(&l)
    })?;
    let columns = LabelGroup::new(&sizes, |l| kept(l) && !left.contains(&l))?;
    let summed = LabelGroup::new(&sizes, |l| !kept(l))?;
    let product = Gemm {
        m: rows.len,
        n: columns.len,
        k: summed.len,
        transpose_a: false,
        transpose_b: false,
    };
    let len = |groups: &[&LabelGroup]| {
        let len = groups.iter().try_fold(1usize, |n, g| n.checked_mul(g.len));
        len.filter(|&n| n <= isize::MAX as usize / 8)
            .ok_or_else(|| KernelError::Invalid("the product of the sizes is too large".to_owned()))
    };
    let read = |groups: &[&LabelGroup], i: usize| -> Result<Transposed, KernelError> {
        let (dims, own) = (p.dims(i), steps(p.dims(i)));
        let all = axes(groups, |label, to| {
            (label_step(label, &labels[i], dims, &own), to)
        });
        Transposed::new(&all, len(groups)?)
    };
    let a = read(&[&batch, &rows, &summed], 0)?;
    let b = match p.inputs.len() {
        1 => None,
        _ => Some(read(&[&batch, &summed, &columns], 1)?),
    };
    let out = p.output_dims(0);
    let own = steps(out);
    let groups = [&batch, &rows, &columns];
    let written = axes(&groups, |label, from| {
        (from, label_step(label, &output, out, &own))
    });
    let c = Transposed::new(&written, len(&groups)?)?;
    Ok(EinsumPlan {
        gaps: c.len < p.outputs[0].elements(),
        a,
        b,
        c,
        batches: batch.len,
        product,
    })
}

fn on_gpu(p: &Prepare<'_>) -> Result<Launches, KernelError> {
    if p.outputs[0].elements() == 0 {
        return Ok(Launches::default());
    }
    let plan = plan(p)?;
    fn tensor(t: &Transposed) -> EinsumTensor<'_> {
        EinsumTensor {
            len: t.len,
            moved: t.moved.as_ref(),
        }
    }
    let gemm = EinsumGemm {
        batches: plan.batches,
        gemm: plan.product,
        left: tensor(&plan.a),
        right: plan.b.as_ref().map(tensor),
        output: tensor(&plan.c),
        gaps: plan.gaps,
    };
    crate::gpu::einsum(p, &gemm)
}

fn prepare<T: Arithmetic + Pod>(
    p: &Prepare<'_>,
    multiply: GemmKernel<T>,
) -> Result<Prepared, KernelError> {
    if p.outputs[0].elements() == 0 {
        return Ok(Prepared::new(0, |_| Ok(())));
    }
    let EinsumPlan {
        a,
        b,
        c,
        product,
        gaps,
        ..
    } = plan(p)?;
    let b_len = b.as_ref().map_or(product.k, Transposed::scratch);
    let own = (multiply.scratch)(p, &product);
    let scratch = [a.scratch(), b_len, c.scratch()]
        .iter()
        .fold(own, |sum, &len| sum.saturating_add(aligned_bytes::<T>(len)));
    let steps = c.len as f64 * product.k as f64;
    let prepared = Prepared::new(0, move |cx| {
        let out = cx.output::<T>(0)?;
        let rest = cx.scratch::<u8>(scratch)?;
        let (a_room, rest) = split_scratch::<T>(rest, a.scratch())?;
        let (b_room, rest) = split_scratch::<T>(rest, b_len)?;
        let (c_room, rest) = split_scratch::<T>(rest, c.scratch())?;
        let a = transpose(cx, &a, 0, a_room)?;
        let b = match &b {
            Some(b) => transpose(cx, b, 1, b_room)?,
            None => {
                b_room.fill(T::ONE);
                b_room
            }
        };
        if gaps {
            out.fill(T::ZERO);
        }
        match &c.moved {
            None => multiply_all(cx, &product, multiply, [a, b], out, rest),
            Some(moved) => {
                multiply_all(cx, &product, multiply, [a, b], c_room, rest);
                moved.run(cx.cpu(), c_room, out)?;
            }
        }
        Ok(())
    });
    Ok(prepared
        .with_scratch(scratch)
        .with_cost(100 + (steps / 30.0) as u64))
}

/// Elements of input `i` in order.
fn transpose<'a, T: Arithmetic + Pod>(
    cx: &KernelCx<'a>,
    order: &Transposed,
    i: usize,
    room: &'a mut [T],
) -> Result<&'a [T], KernelError> {
    let x = cx.input::<T>(i)?;
    match &order.moved {
        None => x.get(..order.len).ok_or(KernelError::Argument("elements")),
        Some(moved) => {
            moved.run(cx.cpu(), x, room)?;
            Ok(room)
        }
    }
}

/// Product of each pair of matrices, written to `c`.
fn multiply_all<T>(
    cx: &KernelCx<'_>,
    product: &Gemm,
    multiply: GemmKernel<T>,
    [a, b]: [&[T]; 2],
    c: &mut [T],
    scratch: &mut [u8],
) {
    let Gemm { m, n, k, .. } = *product;
    // The output has elements, so m and n are not 0.
    for (i, c) in c.chunks_exact_mut(m * n).enumerate() {
        let (a, b) = (&a[i * m * k..][..m * k], &b[i * k * n..][..k * n]);
        (multiply.run)(cx, product, a, b, c, scratch);
    }
}

/// Einsum node of an equation.
fn einsum<'g>(equation: &str, inputs: &[Output<'g>]) -> Output<'g> {
    let graph = inputs[0].graph();
    let node = graph.op("Einsum").inputs(inputs.iter().copied());
    node.attr("equation", equation).output()
}

/// Gradient of each input: the output's gradient times the other input, summed over labels that the input does
/// not have, and repeated along labels that no other term has.
fn gradient<'g>(g: &GradCx<'_, 'g>) -> InputGradients<'g> {
    let equation = match Equation::parse(g.attrs().str("equation"), g.inputs()) {
        Ok(equation) => equation,
        Err(e) => {
            let reason = Reason::Argument(e.to_string());
            return smallvec![Some(g.graph().fail("gradient", "Einsum", reason))];
        }
    };
    (0..g.inputs())
        .map(|i| Some(input_gradient(g, &equation, i)))
        .collect()
}

fn input_gradient<'g>(g: &GradCx<'_, 'g>, equation: &Equation, i: usize) -> Output<'g> {
    let (x, own) = (g.input(i), &equation.inputs[i]);
    let other = (equation.inputs.len() > 1).then(|| (&equation.inputs[1 - i], g.input(1 - i)));
    let has = |term: &Term, c: char| term.letters().any(|l| l == c);
    let elsewhere =
        |c: char| has(&equation.output, c) || other.is_some_and(|(term, _)| has(term, c));
    let mut letters: Vec<char> = own.letters().collect();
    letters.sort_unstable();
    letters.dedup();
    let dots = if own.after.is_some() { "..." } else { "" };
    let (found, alone): (Vec<char>, Vec<char>) = letters.iter().partition(|&&c| elsewhere(c));
    let text = |letters: &[char]| letters.iter().collect::<String>();
    let found = format!("{dots}{}", text(&found));

    // Labels that occur elsewhere: the ellipsis first, and each letter once.
    let out = equation.output.text();
    let mut dx = match other {
        Some((term, y)) => einsum(
            &format!("{out},{}->{found}", term.text()),
            &[g.grad(), conj(y)],
        ),
        None => einsum(&format!("{out}->{found}"), &[g.grad()]),
    };
    if own.after.is_some() {
        // Broadcast dimensions are summed to the input's shape.
        let ones = g.graph().op("OnesLike").input(x).output();
        let like = einsum(&format!("{}->{found}", own.text()), &[ones]);
        dx = sum_to(dx, like, dx);
    }
    match alone.is_empty() {
        true => einsum(&format!("{found}->{}", own.text()), &[dx]),
        false => {
            let ones = ones(x, own, &alone);
            einsum(
                &format!("{found},{}->{}", text(&alone), own.text()),
                &[dx, ones],
            )
        }
    }
}

/// Ones with a dimension for each of these letters, as long as in `x`.
fn ones<'g>(x: Output<'g>, term: &Term, letters: &[char]) -> Output<'g> {
    let graph = x.graph();
    // Letters after an ellipsis are counted from the end.
    let place = |c: &char| {
        let after = term.after.as_deref().unwrap_or_default();
        match term.before.iter().position(|b| b == c) {
            Some(at) => at as i32,
            None => {
                let at = after.iter().position(|a| a == c).unwrap_or(0);
                at as i32 - after.len() as i32
            }
        }
    };
    let shape = crate::support::constants::shape_of(x);
    let rank = graph.op("Size").input(shape).output();
    let places: Vec<i32> = letters.iter().map(place).collect();
    let places = graph.op("FloorMod").input(ints(graph, &places)).input(rank);
    let zero = graph
        .op("Const")
        .attr("value", thalweg_tensor::Tensor::from(0i32));
    let zero = zero.attr("dtype", DType::I32).output();
    let dims = graph
        .op("GatherV2")
        .input(shape)
        .input(places.output())
        .input(zero);
    let one = x.constant_like(1);
    graph.op("Fill").input(dims.output()).input(one).output()
}
