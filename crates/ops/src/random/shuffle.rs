//! RandomShuffle, StatelessShuffle.

use thalweg_device::{Kernel, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Effect, Gradient, arg, arg_of, type_attr};
use thalweg_tensor::{DType, Element, dispatch};

use super::fill::{SEED, SEED2};
use super::reserve::take_blocks;
use super::seed_source::SeedSource;
use super::stateless::check_generator_inputs;
use crate::support::numbered_elements::numbered_kernel;
use crate::support::shapes;
use crate::support::widened::as_uints;

/// Fisher-Yates shuffle with TensorFlow's random words: one for each item but the last.
pub(crate) fn shuffle<T>(words: &mut dyn FnMut() -> u32, items: &mut [T]) {
    let len = items.len();
    for i in 0..len.saturating_sub(1) {
        // TensorFlow uses 32 bits as well.
        let left = ((len - i) as u32).max(1);
        items.swap(i, i + (words() % left) as usize);
    }
}

/// Number of blocks for this many rows: a word for each row but the last.
fn block_count(rows: usize) -> u64 {
    rows.saturating_sub(1).div_ceil(4) as u64
}

fn prepare<T: Element>(p: &Prepare<'_>) -> Prepared {
    let source = SeedSource::of(p);
    let rows = p.dims(0).first().copied().unwrap_or(1);
    let elements = p.inputs.first().map_or(0, |x| x.elements());
    let moved = rows > 1 && elements > 1;
    let places = if moved { rows } else { 0 };
    Prepared::new(elements, move |cx| {
        let (x, out) = (cx.input::<T>(0)?, cx.output::<T>(0)?);
        if !moved {
            out.copy_from_slice(x);
            return Ok(());
        }
        let order = cx.scratch::<u64>(places)?;
        let (philox, first) = match source {
            SeedSource::Counter(philox) => (philox, take_blocks(cx, block_count(rows))?),
            placed => placed.start(cx, rows)?,
        };
        for (i, place) in order.iter_mut().enumerate() {
            *place = i as u64;
        }
        shuffle(&mut philox.words(first), order);
        let width = elements / rows;
        for (out, &row) in out.chunks_exact_mut(width).zip(&*order) {
            out.copy_from_slice(&x[row as usize * width..][..width]);
        }
        Ok(())
    })
    .with_scratch(places * size_of::<u64>())
}

const KERNELS: &[Kernel] = &[
    cpu(|p| {
        as_uints(p, &[0], &[0], &|p| dispatch!(p.dtype(0), SIZES, T => Ok(prepare::<T>(p)), else Err(KernelError::DType(p.dtype(0)))))
    })
    .only(&[("T", DType::PLAIN)]),
    numbered_kernel!(RANDOM_SHUFFLE, "T"),
];

/// Shuffles the rows of a tensor.
pub(crate) static RANDOM_SHUFFLE: Op = Op {
    def: OpDef {
        name: "RandomShuffle",
        summary: "The same slices along the first dimension, in a random order.",
        inputs: &[arg("value", "T")],
        outputs: &[arg("output", "T")],
        attrs: &[SEED, SEED2, type_attr("T", &DType::ALL)],
        shape: shapes::unchanged,
        gradient: Gradient::None,
        effect: Effect::Random,
        ..OpDef::EMPTY
    },
    kernels: KERNELS,
};

/// Shuffles the rows of a tensor by a key and a counter.
pub(crate) static STATELESS_SHUFFLE: Op = Op {
    def: OpDef {
        name: "StatelessShuffle",
        summary: "The same slices along the first dimension, in a random order given by a key and a counter.",
        inputs: &[
            arg("value", "T"),
            arg_of("key", DType::U64),
            arg_of("counter", DType::U64),
            arg_of("alg", DType::I32),
        ],
        outputs: &[arg("output", "T")],
        attrs: &[type_attr("T", DType::ELEMENTS)],
        shape: |cx| {
            check_generator_inputs(cx)?;
            shapes::unchanged(cx)
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: KERNELS,
};
