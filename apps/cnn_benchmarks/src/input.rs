//! Images from files: TFRecords with ImageNet's keys, or CIFAR-10's binary files, preprocessed as in tf_cnn_benchmarks.
//!
//! Threads of their own make whole batches, each in its own buffer, while steps run. The order and the pixels follow from
//! the seed alone, on any number of threads.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use thalweg::data::example::Example;
use thalweg::data::pipeline::{self, Pipeline, Remainder, Stage};
use thalweg::data::{CifarImage, DataError, cifar10};
use thalweg::image::Size;
use thalweg::image::pixels::{self, Method};
use thalweg::image::preprocess::{
    Cifar, ColorDistortion, Draws, Evaluation, ResizeMethod, Training, Workspace,
};
use thalweg::models::Data;
use thalweg::tensor::{DType, Tensor};

use crate::Result;
use crate::settings::{Mode, Settings};

/// Elements that each one is drawn from.
const SHUFFLE_BUFFER: usize = 10_000;
/// Sides of a CIFAR image.
const CIFAR_SIZE: Size = Size {
    height: 32,
    width: 32,
    channels: 3,
};

type Elements = Pipeline<Box<dyn Stage<Item = Element> + Send>>;
type Batches = Pipeline<Box<dyn Stage<Item = [Tensor; 2]> + Send>>;

/// An image as it comes from a file.
#[derive(Clone)]
enum Element {
    /// A serialized `tf.train.Example`.
    Record(Vec<u8>),
    Cifar(CifarImage<1>),
}

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
        let (elements, files) = elements(settings.model.data, folder, trains)?;
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
    ["imagenet", "cifar10"]
        .into_iter()
        .find(|data| name.contains(data))
}

/// The elements of the files in a folder, and the number of files.
fn elements(data: Data, folder: &Path, trains: bool) -> Result<(Elements, usize)> {
    let names = if trains {
        ["train-*", "data_batch_*.bin"]
    } else {
        ["validation-*", "test_batch.bin"]
    };
    let found = |name: &str| -> Vec<PathBuf> {
        let pattern = folder.join(name);
        pipeline::files(&pattern.to_string_lossy()).unwrap_or_default()
    };
    let records = found(names[0]);
    if !records.is_empty() {
        let count = records.len();
        let elements = pipeline::records(records).map(|record| Ok(Element::Record(record)));
        return Ok((elements.boxed(), count));
    }
    let cifar = found(names[1]);
    if data == Data::Cifar10 && !cifar.is_empty() {
        let count = cifar.len();
        let elements = cifar10(cifar).map(|image| Ok(Element::Cifar(image)));
        return Ok((elements.boxed(), count));
    }
    let wanted = match data {
        Data::Cifar10 => format!("TFRecords named {} or files named {}", names[0], names[1]),
        Data::ImageNet => format!("TFRecords named {}", names[0]),
    };
    Err(format!(
        "--data_dir={}: it holds no {wanted}: `thalweg data convert` makes TFRecords of a folder of pictures",
        folder.display()
    )
    .into())
}

/// Preprocessing of elements to batches.
struct Preprocessor {
    data: Data,
    side: usize,
    trains: bool,
    seed: u64,
    training: Training,
    /// Buffers of threads that do not use them now.
    workspaces: Arc<Mutex<Vec<Workspace>>>,
}

impl Preprocessor {
    fn new(settings: &Settings, trains: bool) -> Preprocessor {
        let side = settings.model.size;
        let flags = &settings.flags.input;
        let mut training = Training::new(side, side);
        training.method = match &*flags.resize_method {
            "nearest" => ResizeMethod::Fixed(Method::Nearest),
            "bicubic" => ResizeMethod::Fixed(Method::Bicubic),
            "area" => ResizeMethod::Fixed(Method::Area),
            "round_robin" => ResizeMethod::RoundRobin,
            _ => ResizeMethod::Fixed(Method::Bilinear),
        };
        training.colors = flags
            .distortions
            .then_some(match flags.distort_color_in_yiq {
                true => ColorDistortion::Yiq,
                false => ColorDistortion::Hsv,
            });
        Preprocessor {
            data: settings.model.data,
            side,
            trains,
            seed: settings.flags.run.tf_random_seed,
            training,
            workspaces: Arc::default(),
        }
    }

    fn batch(&self, elements: Vec<(u64, Element)>) -> std::result::Result<[Tensor; 2], DataError> {
        let lock = || {
            self.workspaces
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let mut workspace = lock().pop().unwrap_or_default();
        let pixels = self.side * self.side * 3;
        let mut images = Tensor::zeros(DType::F32, &[elements.len(), self.side, self.side, 3])?;
        let mut labels = vec![0i32; elements.len()];
        let slots = images
            .as_mut_slice::<f32>()?
            .chunks_mut(pixels)
            .zip(&mut labels);
        for (position, ((number, element), (out, label))) in elements.iter().zip(slots).enumerate()
        {
            let mut draws = Draws::new(self.seed, *number);
            *label = self.image(element, position, &mut draws, &mut workspace, out)?;
        }
        lock().push(workspace);
        Ok([images, Tensor::vector(&labels)])
    }

    /// Makes the pixels of an element, and returns its label.
    fn image(
        &self,
        element: &Element,
        position: usize,
        draws: &mut Draws,
        workspace: &mut Workspace,
        out: &mut [f32],
    ) -> std::result::Result<i32, DataError> {
        let failed = |e| DataError::Function(Box::new(e));
        let cifar = Cifar::default();
        let (file, label) = match element {
            Element::Cifar(image) => {
                let mut interleaved = vec![0; CIFAR_SIZE.elements()];
                pixels::planes_to_pixels(&image.pixels, CIFAR_SIZE, &mut interleaved)
                    .map_err(failed)?;
                let done = match self.trains {
                    true => cifar.train(&interleaved, CIFAR_SIZE, draws, out),
                    false => cifar.evaluate(&interleaved, CIFAR_SIZE, out),
                };
                done.map_err(failed)?;
                return Ok(i32::from(image.labels[0]));
            }
            Element::Record(record) => parse(record)?,
        };
        let done = match (self.data, self.trains) {
            (Data::ImageNet, true) => self
                .training
                .run(file, &[], position, draws, workspace, out),
            (Data::ImageNet, false) => {
                Evaluation::new(self.side, self.side).run(file, position, workspace, out)
            }
            (Data::Cifar10, trains) => {
                let image = thalweg::image::decode(file, 3).map_err(failed)?;
                match trains {
                    true => cifar.train(&image.pixels, image.size(), draws, out),
                    false => cifar.evaluate(&image.pixels, image.size(), out),
                }
            }
        };
        done.map_err(failed)?;
        Ok(label)
    }
}

/// The image file and the label of a record.
fn parse(record: &[u8]) -> std::result::Result<(&[u8], i32), DataError> {
    let missing = |key: &str| {
        DataError::Function(format!("a record has no {key}: records need ImageNet's keys").into())
    };
    let example = Example::parse(record)?;
    let file = example.get("image/encoded").and_then(|f| f.bytes()?.next());
    let label = example
        .get("image/class/label")
        .and_then(|f| f.ints()?.next());
    Ok((
        file.ok_or_else(|| missing("image/encoded"))?,
        label.ok_or_else(|| missing("image/class/label"))? as i32,
    ))
}
