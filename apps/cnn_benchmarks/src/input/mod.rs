//! Images from files: records, LMDB, CIFAR-10's binary files, MNIST's files or folders of pictures, preprocessed as in
//! tf_cnn_benchmarks.
//!
//! Threads of their own make whole batches, each in its own buffer, while steps run. The order and the pixels follow from
//! the seed alone, on any number of threads.

mod preprocessor;
mod source;

use std::path::Path;

use thalweg::data::pipeline::{Pipeline, Remainder, Stage};
use thalweg::tensor::Tensor;

use self::preprocessor::Preprocessor;
use self::source::Source;
use crate::Result;
use crate::settings::{Mode, Settings};

/// Elements that each one is drawn from.
const SHUFFLE_BUFFER: usize = 10_000;

type Batches = Pipeline<Box<dyn Stage<Item = [Tensor; 2]> + Send>>;

/// Batches of images and labels.
pub struct FileInput {
    batches: Batches,
    /// Threads that make batches.
    pub threads: usize,
    /// Number of files.
    pub files: usize,
}

impl FileInput {
    /// Opens the files of `--data_dir`, of which a worker takes its share.
    ///
    /// # Errors
    /// A folder without such files.
    pub fn new(settings: &Settings, folder: &Path, worker: u32) -> Result<FileInput> {
        let trains = settings.mode != Mode::Evaluate;
        let flags = &settings.flags.input;
        let Source { elements, files } = Source::open(settings.model.data, folder, trains)?;
        let elements = elements.shard(settings.workers as u64, u64::from(worker));
        let elements = match flags.datasets_use_caching {
            true => elements.cache().boxed(),
            false => elements.boxed(),
        };
        let seed = settings.flags.run.tf_random_seed;
        let elements = match (flags.datasets_repeat_cached_sample, trains) {
            (true, _) => elements
                .take(settings.batch as u64)
                .cache()
                .repeat(None)
                .boxed(),
            (_, true) => elements.shuffle(SHUFFLE_BUFFER, seed).repeat(None).boxed(),
            (_, false) => elements.repeat(None).boxed(),
        };
        let threads = flags
            .datasets_num_private_threads
            .unwrap_or_else(available_threads);
        let preprocessor = Preprocessor::new(settings, trains);
        let batches = elements.enumerate().group(settings.batch, Remainder::Drop);
        let batches = batches.map_parallel(threads, move |batch| preprocessor.batch(batch));
        let ahead = match flags.datasets_use_prefetch {
            true => flags.datasets_prefetch_buffer_size.max(1) * settings.towers,
            false => 1,
        };
        Ok(FileInput {
            batches: batches.prefetch(ahead).boxed(),
            threads,
            files,
        })
    }

    /// Goes to the batch of this number.
    ///
    /// # Errors
    /// As [`FileInput::next`].
    pub fn seek(&mut self, batch: u64) -> Result<()> {
        Ok(self.batches.seek(batch)?)
    }

    /// The next batch.
    ///
    /// # Errors
    /// A file that cannot be read; no image at all.
    pub fn next(&mut self) -> Result<[Tensor; 2]> {
        let batch = self.batches.next();
        let batch = batch.ok_or("the files of --data_dir have fewer images than one batch")?;
        Ok(batch?)
    }
}

/// Half of the machine's threads, and one at least: steps need the others. Other shares are not measured.
fn available_threads() -> usize {
    let all = std::thread::available_parallelism().map_or(1, |n| n.get());
    (all / 2).max(1)
}

/// The data set that the name of a folder tells, as in tf_cnn_benchmarks.
pub fn guess(folder: &Path) -> Option<&'static str> {
    let name = folder.display().to_string();
    ["imagenet", "cifar10", "mnist"]
        .into_iter()
        .find(|data| name.contains(data))
}
