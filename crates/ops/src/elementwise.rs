//! Loops over elements: one input, two inputs with broadcasting. They run over threads in chunks of
//! a fixed size, and are compiled for each instruction set.

use smallvec::SmallVec;
use thalweg_cpu::Vectorize;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{Cpu, InOut, KernelError, Operand, Prepare, Prepared};
use thalweg_tensor::Element;

/// Elements in a task: large enough to be worth a thread, small enough to balance.
pub(crate) const CHUNK: usize = 16 * 1024;

struct Map<'a, A, B, F>(&'a [A], &'a mut [B], F);

impl<A: Copy, B, F: Fn(A) -> B> Vectorize for Map<'_, A, B, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for (out, &a) in self.1.iter_mut().zip(self.0) {
            *out = (self.2)(a);
        }
    }
}

struct MapSame<'a, T, F>(&'a mut [T], F);

impl<T: Copy, F: Fn(T) -> T> Vectorize for MapSame<'_, T, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        for out in self.0 {
            *out = (self.1)(*out);
        }
    }
}

/// Runs `body(part)` over `out` in chunks, on this thread where there is only one.
fn over_chunks<T: Send>(cpu: &Cpu, out: &mut [T], body: &(dyn Fn(usize, &mut [T]) + Sync)) {
    for_chunks(cpu.pool(), out, CHUNK, &|i, part| body(i * CHUNK, part));
}

/// `out[i] = f(in[i])`, in place where the plan says so.
pub(crate) fn unary<T: Element>(
    p: &Prepare<'_>,
    f: impl Fn(T) -> T + Copy + Send + Sync + 'static,
) -> Prepared {
    Prepared::new(p.outputs[0].elements(), move |cx| {
        let cpu = cx.cpu();
        match cx.in_out::<T>(0, 0)? {
            InOut::Same(out) => {
                over_chunks(cpu, out, &|_, o| cpu.isa().run_over::<T, _>(MapSame(o, f)))
            }
            InOut::Apart(a, out) => over_chunks(cpu, out, &|at, o| {
                cpu.isa().run_over::<T, _>(Map(&a[at..at + o.len()], o, f));
            }),
        }
        Ok(())
    })
    .each()
}

/// `out[i] = f(in[i])` from one dtype to another.
pub(crate) fn convert<A: Element, B: Element>(
    p: &Prepare<'_>,
    f: impl Fn(A) -> B + Copy + Send + Sync + 'static,
) -> Prepared {
    Prepared::new(p.outputs[0].elements(), move |cx| {
        let (a, out) = (cx.input::<A>(0)?, cx.output::<B>(0)?);
        let cpu = cx.cpu();
        over_chunks(cpu, out, &|at, o| {
            cpu.isa().run_over::<A, _>(Map(&a[at..at + o.len()], o, f));
        });
        Ok(())
    })
    .each()
}

/// How two inputs are walked to fill an output: dimensions that both walk alike are taken together.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    /// Lengths, outermost first; the last one is the inner loop.
    lens: SmallVec<[usize; 6]>,
    /// Steps of the two inputs in each dimension, in elements; 0 where one is broadcast.
    steps: SmallVec<[[usize; 2]; 6]>,
}

impl Walk {
    /// The walk over `out` of inputs with dimensions `a` and `b` that broadcast to it.
    pub(crate) fn new(a: &[usize], b: &[usize], out: &[usize]) -> Walk {
        let rank = out.len();
        let steps_of = |dims: &[usize]| {
            let mut steps: SmallVec<[usize; 6]> = SmallVec::from_elem(0, rank);
            let mut step = 1;
            for i in (0..dims.len()).rev() {
                if dims[i] != 1 {
                    steps[rank - dims.len() + i] = step;
                }
                // Only an empty tensor has dimensions whose product overflows; it is not walked.
                step = step.wrapping_mul(dims[i]);
            }
            steps
        };
        let (sa, sb) = (steps_of(a), steps_of(b));
        let mut walk = Walk {
            lens: SmallVec::new(),
            steps: SmallVec::new(),
        };
        for i in 0..rank {
            let (len, step) = (out[i], [sa[i], sb[i]]);
            if len == 1 {
                continue;
            }
            match (walk.lens.last_mut(), walk.steps.last_mut()) {
                // The dimension outside steps over exactly this one in both inputs.
                (Some(outer), Some(last))
                    if last[0] == step[0].wrapping_mul(len)
                        && last[1] == step[1].wrapping_mul(len) =>
                {
                    *outer = outer.wrapping_mul(len);
                    *last = step;
                }
                _ => {
                    walk.lens.push(len);
                    walk.steps.push(step);
                }
            }
        }
        if walk.lens.is_empty() {
            walk.lens.push(1);
            walk.steps.push([0, 0]);
        }
        walk
    }

    /// How many dimensions are walked.
    pub(crate) fn rank(&self) -> usize {
        self.lens.len()
    }

    /// Each dimension's length, and the steps of the two inputs in it, outermost first.
    pub(crate) fn dims(&self) -> impl Iterator<Item = (usize, [usize; 2])> + '_ {
        self.lens.iter().copied().zip(self.steps.iter().copied())
    }

    /// Where the two inputs are for one element of the output.
    pub(crate) fn at(&self, element: usize) -> [usize; 2] {
        let (inner, steps) = self.inner();
        let inside = element % inner;
        let [a, b] = self.start(element / inner);
        [a + inside * steps[0], b + inside * steps[1]]
    }

    fn inner(&self) -> (usize, [usize; 2]) {
        let last = self.lens.len() - 1;
        (self.lens[last], self.steps[last])
    }

    /// Where the two inputs start for row `row` of the inner loop.
    fn start(&self, mut row: usize) -> [usize; 2] {
        let mut at = [0, 0];
        for i in (0..self.lens.len() - 1).rev() {
            let index = row % self.lens[i];
            row /= self.lens[i];
            at[0] += index * self.steps[i][0];
            at[1] += index * self.steps[i][1];
        }
        at
    }
}

struct Zip<'a, A, B, C, F> {
    a: &'a [A],
    b: &'a [B],
    out: &'a mut [C],
    steps: [usize; 2],
    f: F,
}

impl<A: Copy, B: Copy, C, F: Fn(A, B) -> C> Vectorize for Zip<'_, A, B, C, F> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let Zip {
            a,
            b,
            out,
            steps,
            f,
        } = self;
        match steps {
            [0, 0] => out.iter_mut().for_each(|o| *o = f(a[0], b[0])),
            [0, _] => out.iter_mut().zip(b).for_each(|(o, &b)| *o = f(a[0], b)),
            [_, 0] => out.iter_mut().zip(a).for_each(|(o, &a)| *o = f(a, b[0])),
            _ => {
                for ((o, &a), &b) in out.iter_mut().zip(a).zip(b) {
                    *o = f(a, b);
                }
            }
        }
    }
}

/// The same with the first (`FIRST`) or second input in the output's own buffer.
struct ZipSame<'a, T, F, const FIRST: bool> {
    other: &'a [T],
    out: &'a mut [T],
    step: usize,
    f: F,
}

impl<T: Copy, F: Fn(T, T) -> T, const FIRST: bool> Vectorize for ZipSame<'_, T, F, FIRST> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let f = |own: T, other: T| match FIRST {
            true => (self.f)(own, other),
            false => (self.f)(other, own),
        };
        if self.step == 0 {
            let other = self.other[0];
            self.out.iter_mut().for_each(|o| *o = f(*o, other));
        } else {
            for (o, &other) in self.out.iter_mut().zip(self.other) {
                *o = f(*o, other);
            }
        }
    }
}

/// Splits an output into runs of the inner loop and calls `body(starts of the inputs, run)`.
fn over_rows<T: Send>(
    cpu: &Cpu,
    walk: &Walk,
    out: &mut [T],
    body: &(dyn Fn([usize; 2], &mut [T]) + Sync),
) {
    let (inner, steps) = walk.inner();
    if walk.lens.len() == 1 {
        return over_chunks(cpu, out, &|at, part| {
            body([at * steps[0], at * steps[1]], part);
        });
    }
    // Whole rows in a task, so that tasks depend on the shape alone.
    let rows = (CHUNK / inner.max(1)).max(1);
    for_chunks(cpu.pool(), out, rows * inner, &|task, part| {
        for (i, row) in part.chunks_mut(inner).enumerate() {
            body(walk.start(task * rows + i), row);
        }
    });
}

/// The elements from `at` that a run of `len` reads with `step` 0 or 1.
fn run_of<T>(input: &[T], at: usize, step: usize, len: usize) -> &[T] {
    &input[at..at + if step == 0 { 1 } else { len }]
}

/// `out = f(a, b)` with broadcasting, from one dtype to another.
pub(crate) fn binary_to<T: Element, C: Element>(
    p: &Prepare<'_>,
    f: impl Fn(T, T) -> C + Copy + Send + Sync + 'static,
) -> Prepared {
    let walk = walk_of(&p.inputs[0], &p.inputs[1], &p.outputs[0]);
    Prepared::new(p.outputs[0].elements(), move |cx| {
        let (a, b, out) = (cx.input::<T>(0)?, cx.input::<T>(1)?, cx.output::<C>(0)?);
        zip(cx.cpu(), &walk, a, b, out, f);
        Ok(())
    })
    .each()
}

fn zip<T: Element, C: Element>(
    cpu: &Cpu,
    walk: &Walk,
    a: &[T],
    b: &[T],
    out: &mut [C],
    f: impl Fn(T, T) -> C + Copy + Send + Sync,
) {
    let (_, steps) = walk.inner();
    over_rows(cpu, walk, out, &|[at, bt], out| {
        cpu.isa().run_over::<T, _>(Zip {
            a: run_of(a, at, steps[0], out.len()),
            b: run_of(b, bt, steps[1], out.len()),
            out,
            steps,
            f,
        });
    });
}

fn walk_of(a: &Operand, b: &Operand, out: &Operand) -> Walk {
    Walk::new(&a.dims, &b.dims, &out.dims)
}

/// `out = f(a, b)` with broadcasting, in place of either input where the plan says so.
pub(crate) fn binary<T: Element>(
    p: &Prepare<'_>,
    f: impl Fn(T, T) -> T + Copy + Send + Sync + 'static,
) -> Prepared {
    let walk = walk_of(&p.inputs[0], &p.inputs[1], &p.outputs[0]);
    Prepared::new(p.outputs[0].elements(), move |cx| {
        let (cpu, (_, steps)) = (cx.cpu(), walk.inner());
        // The input that is in place is walked as the output is: it broadcasts nowhere.
        if let InOut::Same(out) = in_place_of::<T>(cx, 0)? {
            let other = cx.input::<T>(1)?;
            over_rows(cpu, &walk, out, &|[_, at], out| {
                let other = run_of(other, at, steps[1], out.len());
                cpu.isa().run_over::<T, _>(ZipSame::<_, _, true> {
                    other,
                    out,
                    step: steps[1],
                    f,
                });
            });
        } else if let InOut::Same(out) = in_place_of::<T>(cx, 1)? {
            let other = cx.input::<T>(0)?;
            over_rows(cpu, &walk, out, &|[at, _], out| {
                let other = run_of(other, at, steps[0], out.len());
                cpu.isa().run_over::<T, _>(ZipSame::<_, _, false> {
                    other,
                    out,
                    step: steps[0],
                    f,
                });
            });
        } else {
            zip(cpu, &walk, cx.input(0)?, cx.input(1)?, cx.output(0)?, f);
        }
        Ok(())
    })
    .each()
}

/// The output's buffer if it is input `i`'s as well; nothing is taken otherwise.
fn in_place_of<'a, T: Element>(
    cx: &thalweg_device::KernelCx<'a>,
    i: usize,
) -> Result<InOut<'a, T>, KernelError> {
    if cx.is_in_place(i, 0) {
        cx.in_out(i, 0)
    } else {
        Ok(InOut::Apart(&[], &mut []))
    }
}

/// `out = in`, repeated to the output's shape.
pub(crate) fn copy_broadcast<T: Element>(p: &Prepare<'_>) -> Prepared {
    let out = p.output_dims(0);
    let walk = Walk::new(p.dims(0), out, out);
    Prepared::new(p.outputs[0].elements(), move |cx| {
        let (a, out) = (cx.input::<T>(0)?, cx.output::<T>(0)?);
        let (_, [step, _]) = walk.inner();
        over_rows(cx.cpu(), &walk, out, &|[at, _], out| match step {
            0 => out.fill(a[at]),
            _ => out.copy_from_slice(run_of(a, at, step, out.len())),
        });
        Ok(())
    })
}
