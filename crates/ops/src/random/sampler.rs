//! Numbers of distributions with parameters, by rejection: each element has blocks of its own, so that it can be
//! computed without those before it.

use thalweg_cpu::number::Number;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelCx, KernelError, Prepare, Prepared};
use thalweg_graph::{Infer, InferError};
use thalweg_tensor::Shape;

use super::box_muller::{normal_pair_f64, uniform_f64};
use super::fill::{listed_shape, listed_shape_of};
use super::philox::Philox;
use super::seed_source::SeedSource;
use super::stateless::check_generator_inputs;

/// Number of blocks of an element, used or not; TensorFlow's.
pub(super) const BLOCKS_PER_ELEMENT: u64 = 256;

/// Most rounds of a rejection that has a chance of a tenth or more. A sampler that has not accepted a number by then
/// never does: its parameter is out of range.
pub(super) const MAX_ROUNDS: usize = 1000;

/// Estimated nanoseconds of an element.
const COST: u64 = 150;

/// Elements of a task: few, because each is slow.
const CHUNK: usize = 512;

/// Random numbers of one element, two from a block.
pub(super) struct Sampler<'a> {
    philox: &'a Philox,
    next: u64,
    /// Numbers that are left of the last block, the last one first.
    uniforms: ([f64; 2], usize),
    normals: ([f64; 2], usize),
}

impl<'a> Sampler<'a> {
    pub(super) fn new(philox: &'a Philox, first: u64) -> Sampler<'a> {
        Sampler {
            philox,
            next: first,
            uniforms: ([0.0; 2], 0),
            normals: ([0.0; 2], 0),
        }
    }

    fn block(&mut self) -> [u32; 4] {
        let block = self.philox.block(self.next);
        self.next = self.next.wrapping_add(1);
        block
    }

    /// A number of `[0, 1)`.
    pub(super) fn uniform(&mut self) -> f64 {
        if self.uniforms.1 == 0 {
            let [a, b, c, d] = self.block();
            self.uniforms = ([uniform_f64(a, b), uniform_f64(c, d)], 2);
        }
        self.uniforms.1 -= 1;
        self.uniforms.0[self.uniforms.1]
    }

    /// A number of the standard normal distribution.
    pub(super) fn normal(&mut self) -> f64 {
        if self.normals.1 == 0 {
            self.normals = (normal_pair_f64(self.block()), 2);
        }
        self.normals.1 -= 1;
        self.normals.0[self.normals.1]
    }
}

/// Shape rule: the output has, for each element of the shape that input 0 lists, one of each parameter in input 1.
pub(super) fn samples_of_each(cx: &mut Infer<'_>) -> Result<(), InferError> {
    let each = cx.shape(1).clone();
    listed_shape_of(cx, &each)
}

/// Shape rule: the output has the shape that input 0 lists, which ends with that of the parameters.
pub(super) fn samples_that_end_with(
    cx: &mut Infer<'_>,
    parameters: &Shape,
) -> Result<(), InferError> {
    check_generator_inputs(cx)?;
    listed_shape(cx)?;
    let (Some(listed), Some(dims)) = (cx.ints(0), parameters.dims()) else {
        return Ok(());
    };
    let end = listed.len().checked_sub(dims.len()).map(|at| &listed[at..]);
    let fits = |(have, want): (&i64, &Option<usize>)| want.is_none_or(|d| *have == d as i64);
    match end.is_some_and(|end| end.iter().zip(dims).all(fits)) {
        true => Ok(()),
        false => Err(InferError::Value {
            input: 0,
            reason: format!(
                "Shape passed in must end with broadcasted shape: {listed:?} does not end with {parameters}"
            ),
        }),
    }
}

/// A run's elements of dtype `T`: of `parameters` parameters, which change fastest, as many numbers of each.
/// `draw` returns that of a parameter; it gets the index of the number, counted parameter by parameter, whose blocks
/// it uses.
pub(super) fn draw_each<T: Number>(
    cx: &KernelCx<'_>,
    parameters: usize,
    draw: impl Fn(usize, u64) -> f64 + Sync,
) -> Result<(), KernelError> {
    let out = cx.output::<T>(0)?;
    if parameters == 0 && !out.is_empty() {
        return Err(KernelError::Argument("a parameter"));
    }
    let samples = out.len() / parameters.max(1);
    for_chunks(cx.pool(), out, CHUNK, &|task, part| {
        for (i, out) in part.iter_mut().enumerate() {
            let (sample, parameter) = (
                (task * CHUNK + i) / parameters,
                (task * CHUNK + i) % parameters,
            );
            *out = T::from_f64(draw(parameter, (parameter * samples + sample) as u64));
        }
    });
    Ok(())
}

/// Kernel of numbers with one parameter, in input `input`, by `draw`.
pub(super) fn of_one_parameter<P: Number, T: Number>(
    p: &Prepare<'_>,
    input: usize,
    draw: fn(f64, &mut Sampler<'_>) -> f64,
) -> Prepared {
    let source = SeedSource::of(p);
    let parameters = p.inputs[input].elements();
    let elements = p.outputs.first().map_or(0, |o| o.elements());
    let run = move |cx: &KernelCx<'_>| {
        let values = cx.input::<P>(input)?;
        let (philox, first) = source.start(cx, elements)?;
        draw_each::<T>(cx, parameters, |parameter, number| {
            let first = first.wrapping_add(number.wrapping_mul(BLOCKS_PER_ELEMENT));
            draw(
                values[parameter].to_f64(),
                &mut Sampler::new(&philox, first),
            )
        })
    };
    Prepared::new(elements, run).with_cost(20 + (elements as u64).saturating_mul(COST))
}
