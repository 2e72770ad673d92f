//! Sources of `--data_dir`: the kind of a folder's files, and their elements.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thalweg::data::pipeline::{self, Pipeline, Stage};
use thalweg::data::{CifarImage, ImageFolder, Mnist, Split, cifar10, lmdb};
use thalweg::models::Data;

use crate::Result;

/// An image as it comes from a file.
#[derive(Clone)]
pub(super) enum Element {
    /// A serialized `tf.train.Example`.
    Record(Vec<u8>),
    /// A serialized Datum of Caffe.
    Datum(Vec<u8>),
    /// A picture's file, which is read when its batch is made, and its label.
    Picture(PathBuf, i64),
    Cifar(CifarImage<1>),
    /// Pixels from 0 for paper to 255 for ink, and the digit.
    Digit(Arc<Split>, usize),
}

type Elements = Pipeline<Box<dyn Stage<Item = Element> + Send>>;

/// The elements of a folder.
pub(super) struct Source {
    pub(super) elements: Elements,
    /// Number of files.
    pub(super) files: usize,
}

impl Source {
    /// Opens the first of these that a folder has: TFRecord files named `train-*`; CIFAR-10's binary files; LMDB in
    /// `train.lmdb` or in the folder itself; a folder of pictures for each class, in `train` or in the folder itself.
    /// Evaluation takes `validation` in place of `train`. MNIST has its own files alone.
    ///
    /// # Errors
    /// A folder without such files.
    pub(super) fn open(data: Data, folder: &Path, trains: bool) -> Result<Source> {
        if data == Data::Mnist {
            return digits(folder, trains);
        }
        let set = if trains { "train" } else { "validation" };
        let found = |name: &str| -> Vec<PathBuf> {
            let pattern = folder.join(name);
            pipeline::files(&pattern.to_string_lossy()).unwrap_or_default()
        };
        let records = found(&format!("{set}-*"));
        if !records.is_empty() {
            let files = records.len();
            let elements = pipeline::records(records).map(|record| Ok(Element::Record(record)));
            return Ok(Source::new(elements.boxed(), files));
        }
        let cifar = match data {
            Data::Cifar10 if trains => found("data_batch_*.bin"),
            Data::Cifar10 => found("test_batch.bin"),
            Data::ImageNet | Data::Mnist => Vec::new(),
        };
        if !cifar.is_empty() {
            let files = cifar.len();
            let elements = cifar10(cifar).map(|image| Ok(Element::Cifar(image)));
            return Ok(Source::new(elements.boxed(), files));
        }
        let own = folder.join(format!("{set}.lmdb"));
        if let Some(path) = [own.as_path(), folder]
            .into_iter()
            .find(|path| path.join("data.mdb").is_file())
        {
            let elements = lmdb(path)?.map(|(_, datum)| Ok(Element::Datum(datum)));
            return Ok(Source::new(elements.boxed(), 1));
        }
        let own = folder.join(set);
        let pictures = ImageFolder::scan(&own).or_else(|error| {
            // The folder of this set, if it is there, is the one that was meant.
            ImageFolder::scan(folder).map_err(|other| if own.is_dir() { error } else { other })
        });
        let pictures = pictures.map_err(|reason| {
            format!(
                "--data_dir={}: it holds no TFRecord files named {set}-*, no {set}.lmdb{} and no folders of pictures \
                 ({reason}). `thalweg data convert` makes TFRecord files of a folder of pictures",
                folder.display(),
                match data {
                    Data::Cifar10 => ", no binary files of CIFAR-10",
                    Data::ImageNet | Data::Mnist => "",
                }
            )
        })?;
        let elements = pictures
            .paths()
            .map(|(path, class)| Ok(Element::Picture(path, class)));
        Ok(Source::new(elements.boxed(), pictures.files().len()))
    }

    fn new(elements: Elements, files: usize) -> Source {
        Source { elements, files }
    }
}

/// The images of MNIST's files, which are small enough for memory.
fn digits(folder: &Path, trains: bool) -> Result<Source> {
    let all = Mnist::load(folder).map_err(|e| format!("--data_dir: {e}"))?;
    let split = Arc::new(if trains { all.train } else { all.test });
    let numbers = pipeline::from_vec((0..split.len()).collect());
    let elements = numbers.map(move |number| Ok(Element::Digit(Arc::clone(&split), number)));
    // One file of images, and one of labels.
    Ok(Source::new(elements.boxed(), 2))
}
