//! `thalweg data bench`: speed of the stages from records to batches.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use thalweg_data::DataError;
use thalweg_data::Pipeline;
use thalweg_data::pipeline::Remainder;
use thalweg_image::pixels::{Resize, flip_left_right};
use thalweg_image::preprocess::{Draws, Normalize, Training, Workspace};
use thalweg_image::{BoxSampler, Decoder, ImageError, Size, size_of};
use thalweg_tensor::{DType, Tensor};

use super::record_files::{Pictures, expanded, threads};
use crate::failure::Failure;
use crate::output;
use crate::table::table;

/// Largest number of bytes of pictures that are kept in memory.
const SAMPLE_BYTES: usize = 256 << 20;

/// Measure the images per second of each stage: read, decode, crop and resize; and of all together, in batches
///
/// The pictures are those under image/encoded, and in LMDB those of Caffe's Datum. Preprocessing is that of tf_cnn_benchmarks for training, without other
/// colours. Each stage is measured alone, on one thread; then the whole pipeline, with so many threads for decoding and
/// resizing. Files that were read before come from the memory of the system: for a cold disk, drop its caches first.
#[derive(Args)]
pub(crate) struct Bench {
    /// TFRecord files, compressed or not, folders of LMDB, or patterns such as 'data/train-*'
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Number of threads that decode and resize; without it, that of the cores
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Height and width of the images in a batch
    #[arg(long, default_value_t = 224, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    size: u16,
    /// Number of images in a batch
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    batch: u16,
    /// Least time for which a stage is measured
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Speed of a stage.
struct Stage {
    name: &'static str,
    /// Number of threads that it has in the pipeline.
    threads: usize,
    /// Seconds for an image on one thread.
    seconds: f64,
}

impl Stage {
    /// Images per second on all of its threads.
    fn rate(&self) -> f64 {
        self.threads as f64 / self.seconds
    }
}

impl Bench {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        if !(self.seconds > 0.0 && self.seconds <= 3600.0) {
            return Err(format!("--seconds {}: give up to 3600", self.seconds).into());
        }
        let files = expanded(&self.files)?;
        let threads = threads(self.threads)?;
        let (read, sample) = self.read(&files)?;
        let [decode, resize] = self.preprocess(&sample)?;
        let stage = |name, threads, seconds| Stage {
            name,
            threads,
            seconds,
        };
        let stages = [
            stage("read", 1, read),
            stage("decode", threads, decode),
            stage("crop and resize", threads, resize),
        ];
        let whole = self.whole(&files, threads)?;
        let text = match self.json {
            true => format!("{:#}\n", report(&stages, whole, threads)),
            false => text(&stages, whole, threads),
        };
        output::text(&text)
    }

    fn side(&self) -> usize {
        self.size.into()
    }

    fn image_elements(&self) -> usize {
        self.side() * self.side() * 3
    }

    fn least(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// Reads and parses records, and returns the seconds for each, and pictures of them.
    fn read(&self, files: &[PathBuf]) -> Result<(f64, Vec<Vec<u8>>), Failure> {
        let (mut sample, mut bytes) = (Vec::new(), 0);
        for picture in pictures(files) {
            let picture = picture?;
            bytes += picture.len();
            sample.push(picture);
            if bytes > SAMPLE_BYTES {
                break;
            }
        }
        if sample.is_empty() {
            return Err("the files have no records".into());
        }
        let (start, mut count) = (Instant::now(), 0);
        for picture in pictures(files).repeat(None) {
            std::hint::black_box(picture?.len());
            count += 1;
            if start.elapsed() >= self.least() {
                break;
            }
        }
        Ok((start.elapsed().as_secs_f64() / f64::from(count), sample))
    }

    /// Seconds for decoding the window of an image, and for resizing it.
    fn preprocess(&self, sample: &[Vec<u8>]) -> Result<[f64; 2], Failure> {
        let (mut decoder, mut pixels) = (Decoder::default(), Vec::new());
        let mut out = vec![0.0; self.image_elements()];
        let (mut decode, mut resize) = (Duration::ZERO, Duration::ZERO);
        let mut count = 0u32;
        while decode + resize < 2 * self.least() {
            let file = &sample[count as usize % sample.len()];
            let mut draws = Draws::new(1, count.into());
            let start = Instant::now();
            let size = window(file, &mut draws, &mut decoder, &mut pixels)?;
            let decoded = Instant::now();
            if draws.coin() {
                flip_left_right(&mut pixels, size)?;
            }
            let to = [self.side(); 2];
            Resize::default().run(&pixels, size, to, &mut out)?;
            Normalize::default().apply(&mut out);
            decode += decoded - start;
            resize += decoded.elapsed();
            count += 1;
        }
        Ok([decode, resize].map(|time| time.as_secs_f64() / f64::from(count)))
    }

    /// Images per second of the whole pipeline.
    fn whole(&self, files: &[PathBuf], threads: usize) -> Result<f64, Failure> {
        let training = Training::new(self.side(), self.side());
        // The buffers of the threads.
        let workspaces = Mutex::new(Vec::new());
        let mut batches = pictures(files)
            .repeat(None)
            .enumerate()
            .group(self.batch.into(), Remainder::Drop)
            .map_parallel(threads, move |files| {
                let free = || workspaces.lock().unwrap_or_else(PoisonError::into_inner);
                let taken: Option<Workspace> = free().pop();
                let mut workspace = taken.unwrap_or_default();
                let batch = train(&training, &files, &mut workspace);
                free().push(workspace);
                batch
            })
            .prefetch(2);
        // Starts the threads and their buffers.
        batches.next().ok_or("the records have ended")??;
        let (start, mut count) = (Instant::now(), 0u32);
        while start.elapsed() < 2 * self.least() {
            batches.next().ok_or("the records have ended")??;
            count += u32::from(self.batch);
        }
        Ok(f64::from(count) / start.elapsed().as_secs_f64())
    }
}

/// The pictures' files in files of records.
fn pictures(files: &[PathBuf]) -> Pipeline<Pictures> {
    Pipeline::new(Pictures::new(files))
}

/// Decodes a random window of a picture.
fn window(
    file: &[u8],
    draws: &mut Draws,
    decoder: &mut Decoder,
    pixels: &mut Vec<u8>,
) -> Result<Size, ImageError> {
    let whole = size_of(file)?;
    let mut word = || draws.word();
    let window = BoxSampler::default().sample(whole.height, whole.width, &[], &mut word)?;
    decoder.decode_window(file, window, 3, pixels)
}

/// Training images of pictures' files, each with its number, made in the memory of their batch.
fn train(
    training: &Training,
    files: &[(u64, Vec<u8>)],
    workspace: &mut Workspace,
) -> Result<Tensor, DataError> {
    let dims = [files.len(), training.height, training.width, 3];
    let mut batch = Tensor::zeros(DType::F32, &dims)?;
    let images = batch.as_mut_slice()?;
    let images = images.chunks_exact_mut(training.height * training.width * 3);
    for ((number, file), out) in files.iter().zip(images) {
        let mut draws = Draws::new(1, *number);
        training
            .run(file, &[], *number as usize, &mut draws, workspace, out)
            .map_err(|e| DataError::Function(e.into()))?;
    }
    Ok(batch)
}

/// The stage that limits the pipeline: the one whose threads need longest for an image. Decoding and resizing share
/// their threads, so that the one that takes longer counts for both.
fn bound(stages: &[Stage; 3]) -> &'static str {
    let [read, decode, resize] = stages;
    let shared = (decode.seconds + resize.seconds) / decode.threads as f64;
    if read.seconds > shared {
        return read.name;
    }
    match decode.seconds > resize.seconds {
        true => decode.name,
        false => resize.name,
    }
}

fn text(stages: &[Stage; 3], whole: f64, threads: usize) -> String {
    let row = |stage: &Stage| {
        let milliseconds = format!("{:.3}", stage.seconds * 1e3);
        let rate = format!("{:.0}", stage.rate());
        vec![
            stage.name.to_owned(),
            stage.threads.to_string(),
            milliseconds,
            rate,
        ]
    };
    let mut rows: Vec<_> = stages.iter().map(row).collect();
    let all = format!("{whole:.0}");
    rows.push(vec![
        "all together".to_owned(),
        String::new(),
        String::new(),
        all,
    ]);
    let head = ["stage", "threads", "ms an image", "images/s"];
    let table = table(&head, rows, &[1, 2, 3]);
    format!(
        "{table}bound by: {}; read has a thread, the others share {threads}, which make batches\n",
        bound(stages)
    )
}

fn report(stages: &[Stage; 3], whole: f64, threads: usize) -> serde_json::Value {
    let stages_json = stages.iter().map(|stage| {
        json!({
            "stage": stage.name,
            "threads": stage.threads,
            "ms_per_image": stage.seconds * 1e3,
            "images_per_second": stage.rate(),
        })
    });
    json!({
        "threads": threads,
        "stages": stages_json.collect::<Vec<_>>(),
        "images_per_second": whole,
        "bound": bound(stages),
    })
}
