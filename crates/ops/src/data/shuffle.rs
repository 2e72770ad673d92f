//! ShuffleDataset, ShuffleDatasetV2, ShuffleDatasetV3, ShuffleAndRepeatDataset and its V2, DummySeedGenerator,
//! AnonymousSeedGenerator.
//! The order is that of TensorFlow's `shuffle_dataset_op.cc` for the same seeds.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};

use thalweg_device::{KernelError, Op, SharedObject, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{AttrDef, arg_of, bool_attr};
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{DType, Nesting, Tensor};

use super::dataset::{
    Cardinality, DATASET_OP, Dataset, DatasetValue, INPUT, METADATA, Row, RowBuffer, Rows, SHAPES,
    TYPES, flag, input, number, over, positive,
};
use crate::random::philox::Philox;

/// Epochs whose elements may be in the buffer at once.
const MAX_EPOCHS: usize = 3;

/// Random words, one after the other.
pub(super) struct Words {
    philox: Philox,
    drawn: u64,
}

impl Words {
    pub(super) fn new(seeds: [u64; 2]) -> Words {
        Words {
            philox: Philox::new(seeds[0], seeds[1]),
            drawn: 0,
        }
    }

    pub(super) fn next(&mut self) -> u32 {
        let word = self.philox.block(self.drawn / 4)[(self.drawn % 4) as usize];
        self.drawn += 1;
        word
    }
}

/// The seeds of each pass.
pub(super) enum Seeds {
    /// The same each time.
    Fixed([u64; 2]),
    /// Drawn for each pass.
    Drawn(Mutex<Words>),
}

impl Seeds {
    /// Of two numbers; two zeros ask for seeds that are unpredictable.
    fn new(seeds: [i64; 2], reshuffles: bool) -> Seeds {
        let seeds = match seeds {
            [0, 0] => {
                let entropy = RandomState::new();
                [entropy.hash_one(0u8), entropy.hash_one(1u8)]
            }
            other => other.map(|seed| seed as u64),
        };
        match reshuffles {
            true => Seeds::Drawn(Mutex::new(Words::new(seeds))),
            false => Seeds::Fixed(seeds),
        }
    }

    pub(super) fn next(&self) -> [u64; 2] {
        match self {
            Seeds::Fixed(seeds) => *seeds,
            Seeds::Drawn(words) => {
                let mut words = words.lock().unpoisoned();
                [u64::from(words.next()), u64::from(words.next())]
            }
        }
    }
}

struct Shuffle {
    before: Arc<DatasetValue>,
    buffer: usize,
    seeds: Arc<Seeds>,
    /// Passes over the elements, 1 or more; `None` without end.
    times: Option<u64>,
}

impl Dataset for Shuffle {
    fn rows(&self, cx: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(ShuffleRows {
            before: self.before.clone(),
            rows: Some(self.before.dataset.rows(cx)?),
            size: self.buffer,
            left: self.times.map(|n| n - 1),
            words: Words::new(self.seeds.next()),
            seeds: self.seeds.clone(),
            epochs: VecDeque::from([RowBuffer::new(cx)]),
            held: 0,
            empty: true,
        }))
    }

    fn cardinality(&self) -> Cardinality {
        match (self.before.dataset.cardinality(), self.times) {
            (Cardinality::Finite(0), _) => Cardinality::Finite(0),
            (_, None) => Cardinality::Infinite,
            (before, Some(times)) => before.map(|n| n.saturating_mul(times)),
        }
    }
}

struct ShuffleRows {
    before: Arc<DatasetValue>,
    /// The pass that fills the buffer; `None` once the last one has ended.
    rows: Option<Box<dyn Rows>>,
    size: usize,
    /// Passes after this one; `None` without end.
    left: Option<u64>,
    seeds: Arc<Seeds>,
    /// The random words of the epoch that elements are drawn from.
    words: Words,
    /// The elements of the buffer by epoch; they are drawn from the first epoch alone.
    epochs: VecDeque<RowBuffer<VecDeque<Row>>>,
    /// Number of elements in the buffer.
    held: usize,
    /// `true` as long as no pass had an element.
    empty: bool,
}

impl ShuffleRows {
    fn fill(&mut self, cx: &TensorCx<'_>) -> Result<(), KernelError> {
        let mut stop = cx.stop_check();
        while self.held < self.size && (self.held == 0 || self.epochs.len() <= MAX_EPOCHS) {
            stop.tick()?;
            let Some(rows) = &mut self.rows else {
                return Ok(());
            };
            if let Some(row) = rows.next(cx)? {
                self.empty = false;
                self.held += 1;
                if let Some(epoch) = self.epochs.back_mut() {
                    epoch.add(row, VecDeque::push_back)?;
                }
                continue;
            }
            let again = match &mut self.left {
                // Passes without elements would have no end.
                None => !self.empty,
                Some(0) => false,
                Some(left) => {
                    *left -= 1;
                    true
                }
            };
            self.rows = None;
            if again {
                self.epochs.push_back(RowBuffer::new(cx));
                self.rows = Some(self.before.dataset.rows(cx)?);
            }
        }
        Ok(())
    }
}

impl Rows for ShuffleRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        self.fill(cx)?;
        while self.epochs.len() > 1 && self.epochs[0].all().is_empty() {
            self.epochs.pop_front();
            self.words = Words::new(self.seeds.next());
        }
        let Some(epoch) = self.epochs.front_mut() else {
            return Ok(None);
        };
        let left = epoch.all().len();
        if left == 0 {
            return Ok(None);
        }
        let drawn = self.words.next() as usize % left;
        self.held -= 1;
        // The first element takes the place of the drawn one.
        Ok(epoch.remove(|all| {
            all.swap(0, drawn);
            all.pop_front()
        }))
    }
}

/// The seeds of a dataset: those of inputs `own`.
fn own_seeds(cx: &TensorCx<'_>, own: [usize; 2]) -> Result<Arc<Seeds>, KernelError> {
    let reshuffles = cx.attrs().bool("reshuffle_each_iteration");
    let [a, b] = own.map(|i| cx.int(i));
    Ok(Arc::new(Seeds::new([a?, b?], reshuffles)))
}

/// The seeds of a dataset: those of the generator at input `generator`, if it has some, or of inputs `own`. Without
/// these inputs they are unpredictable.
pub(super) fn seeds_of(
    cx: &TensorCx<'_>,
    own: [usize; 2],
    generator: usize,
) -> Result<Arc<Seeds>, KernelError> {
    match cx.object::<SeedGenerator>(generator)?.0.clone() {
        Some(seeds) => Ok(seeds),
        None if own.contains(&generator) => Ok(Arc::new(Seeds::new([0, 0], true))),
        None => own_seeds(cx, own),
    }
}

/// The op's kernel. The seeds are inputs 2 and 3, or belong to a generator at input `generator`, which counts if it has
/// seeds; the number of passes is input 4 if it repeats.
fn shuffle(
    cx: &TensorCx<'_>,
    repeats: bool,
    generator: Option<usize>,
) -> Result<Vec<Tensor>, KernelError> {
    let before = input(cx, 0)?;
    let seeds = match generator {
        Some(generator) => seeds_of(cx, [2, 3], generator)?,
        None => own_seeds(cx, [2, 3])?,
    };
    let times = match repeats {
        true => match cx.int(4)? {
            -1 => None,
            _ => Some(positive(cx, 4, "count")? as u64),
        },
        false => Some(1),
    };
    let shuffle = Shuffle {
        before: before.clone(),
        buffer: match cx.int(1)? {
            // The whole data set.
            -2 => usize::MAX,
            _ => positive(cx, 1, "buffer_size")?,
        },
        seeds,
        times,
    };
    over(&[&before], shuffle, &[])
}

/// The object behind the handle of a generator of seeds; without seeds it is a placeholder for the data set's own.
struct SeedGenerator(Option<Arc<Seeds>>);

fn handle(generator: SeedGenerator) -> Result<Tensor, KernelError> {
    let generator: SharedObject = Arc::new(generator);
    Ok(Tensor::handle(DType::Resource, generator)?)
}

pub(super) const RESHUFFLES: AttrDef = bool_attr("reshuffle_each_iteration", true);

/// Elements in a random order.
pub(crate) static SHUFFLE: Op = Op {
    def: OpDef {
        name: "ShuffleDataset",
        summary: "The elements of a dataset, each drawn from the next buffer_size ones.",
        inputs: &[
            INPUT,
            number("buffer_size"),
            number("seed"),
            number("seed2"),
        ],
        attrs: &[RESHUFFLES, TYPES, SHAPES, METADATA],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| shuffle(cx, false, None))],
};

/// As [`SHUFFLE`], by a generator of seeds.
pub(crate) static SHUFFLE_V2: Op = Op {
    def: OpDef {
        name: "ShuffleDatasetV2",
        summary: "The elements of a dataset, each drawn from the next buffer_size ones, by a generator of seeds.",
        inputs: &[
            INPUT,
            number("buffer_size"),
            arg_of("seed_generator", DType::Resource),
        ],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| shuffle(cx, false, Some(2)))],
};

/// As [`SHUFFLE`], by seeds or a generator of them.
pub(crate) static SHUFFLE_V3: Op = Op {
    def: OpDef {
        name: "ShuffleDatasetV3",
        summary: "The elements of a dataset, each drawn from the next buffer_size ones, by seeds or a generator of them.",
        inputs: &[
            INPUT,
            number("buffer_size"),
            number("seed"),
            number("seed2"),
            arg_of("seed_generator", DType::Resource),
        ],
        attrs: &[RESHUFFLES, TYPES, SHAPES, METADATA],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| shuffle(cx, false, Some(4)))],
};

/// Elements of several epochs in a random order.
pub(crate) static SHUFFLE_AND_REPEAT: Op = Op {
    def: OpDef {
        name: "ShuffleAndRepeatDataset",
        summary: "The elements of a dataset several times, each drawn from the next buffer_size ones of its epoch.",
        inputs: &[
            INPUT,
            number("buffer_size"),
            number("seed"),
            number("seed2"),
            number("count"),
        ],
        attrs: &[TYPES, SHAPES, RESHUFFLES, METADATA],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| shuffle(cx, true, None))],
};

/// As [`SHUFFLE_AND_REPEAT`], by seeds or a generator of them.
pub(crate) static SHUFFLE_AND_REPEAT_V2: Op = Op {
    def: OpDef {
        name: "ShuffleAndRepeatDatasetV2",
        summary: "The elements of a dataset several times, each drawn from the next buffer_size ones of its epoch.",
        inputs: &[
            INPUT,
            number("buffer_size"),
            number("seed"),
            number("seed2"),
            number("count"),
            arg_of("seed_generator", DType::Resource),
        ],
        attrs: &[RESHUFFLES, TYPES, SHAPES, METADATA],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| shuffle(cx, true, Some(5)))],
};

/// A handle in place of a generator.
pub(crate) static DUMMY_SEED_GENERATOR: Op = Op {
    def: OpDef {
        name: "DummySeedGenerator",
        summary: "A handle in place of a generator of seeds: the dataset uses its own seeds.",
        inputs: &[],
        outputs: &[arg_of("handle", DType::Resource)],
        attrs: &[],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|_| Ok(vec![handle(SeedGenerator(None))?]))],
};

/// A generator of seeds.
pub(crate) static ANONYMOUS_SEED_GENERATOR: Op = Op {
    def: OpDef {
        name: "AnonymousSeedGenerator",
        summary: "A generator of the seeds of passes over shuffled datasets.",
        inputs: &[
            number("seed"),
            number("seed2"),
            arg_of("reshuffle", DType::Bool),
        ],
        outputs: &[
            arg_of("handle", DType::Resource),
            arg_of("deleter", DType::Variant),
        ],
        attrs: &[],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let seeds = Seeds::new([cx.int(0)?, cx.int(1)?], flag(cx, 2)?);
        Ok(vec![
            handle(SeedGenerator(Some(Arc::new(seeds))))?,
            Tensor::variant(Arc::new(()), Nesting::default())?,
        ])
    })],
};
