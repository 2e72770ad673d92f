//! Sources of examples: folders of pictures, IDX, CIFAR and CSV files.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use thalweg_data::pipeline::Stage;
use thalweg_data::{
    CIFAR_BYTES, CifarImage, DataError, Idx, ImageFolder, Pipeline, cifar10, cifar100, read_file,
};
use thalweg_image::pixels::planes_to_pixels;
use thalweg_image::{Image, ImageError, Size};

use super::arguments::{Convert, Kind, RecordFormat};
use super::picture::{About, PictureOptions, of_file, of_image};
use super::table::Table;
use crate::failure::Failure;

/// Size of CIFAR's images.
const CIFAR_SIZE: Size = Size {
    height: 32,
    width: 32,
    channels: 3,
};

/// Examples by number.
pub(super) enum Source {
    Folder(ImageFolder),
    Idx {
        images: Idx<3>,
        labels: Vec<u8>,
        classes: Vec<String>,
    },
    Cifar {
        images: Vec<Box<[u8]>>,
        labels: Vec<u8>,
        classes: Vec<String>,
    },
    Table(Table),
}

/// A record that was made of an example, or the reason why there is none.
pub(super) enum Made {
    Record {
        /// Name of the picture's file; empty for a row of a table.
        name: String,
        record: Vec<u8>,
    },
    /// The picture does not decode: its name, and the reason.
    Damaged(String),
}

impl Source {
    /// Number of examples.
    pub(super) fn len(&self) -> usize {
        match self {
            Source::Folder(folder) => folder.files().len(),
            Source::Idx { labels, .. } | Source::Cifar { labels, .. } => labels.len(),
            Source::Table(table) => table.len(),
        }
    }

    /// The names of the classes; none of a table.
    pub(super) fn classes(&self) -> &[String] {
        match self {
            Source::Folder(folder) => folder.classes(),
            Source::Idx { classes, .. } | Source::Cifar { classes, .. } => classes,
            Source::Table(_) => &[],
        }
    }

    /// The record of an example.
    pub(super) fn make(&self, number: usize, options: &PictureOptions) -> Result<Made, DataError> {
        let name = format!("{number:06}.png");
        let about = |label: u8| About {
            class: usize::from(label),
            text: &self.classes()[usize::from(label)],
            filename: &name,
        };
        match self {
            Source::Folder(folder) => {
                let (path, label) = &folder.files()[number];
                picture_file(
                    path,
                    *label as usize,
                    &folder.classes()[*label as usize],
                    options,
                )
            }
            Source::Idx { images, labels, .. } => {
                let [_, height, width] = images.dims;
                let pixels = images.data[number * height * width..][..height * width].to_vec();
                let image = Image::new(Size::new(height, width, 1), pixels);
                made(
                    &name,
                    &name,
                    image.and_then(|i| of_image(i, &about(labels[number]), options)),
                )
            }
            Source::Cifar { images, labels, .. } => {
                let mut pixels = vec![0; CIFAR_BYTES];
                let image = planes_to_pixels(&images[number], CIFAR_SIZE, &mut pixels)
                    .and_then(|()| Image::new(CIFAR_SIZE, pixels));
                made(
                    &name,
                    &name,
                    image.and_then(|i| of_image(i, &about(labels[number]), options)),
                )
            }
            Source::Table(table) => {
                let record = table.record(number).map(|record| Made::Record {
                    name: String::new(),
                    record,
                });
                record.map_err(|reason| DataError::Function(reason.into()))
            }
        }
    }
}

fn picture_file(
    path: &Path,
    class: usize,
    text: &str,
    options: &PictureOptions,
) -> Result<Made, DataError> {
    let filename = path.file_name().unwrap_or_default().to_string_lossy();
    let about = About {
        class,
        text,
        filename: &filename,
    };
    made(
        &filename,
        path.display(),
        of_file(read_file(path)?, &about, options),
    )
}

/// The result for a picture of this file name. `shown` names it in messages.
fn made(
    filename: &str,
    shown: impl Display,
    record: Result<Vec<u8>, ImageError>,
) -> Result<Made, DataError> {
    Ok(match record {
        Ok(record) => Made::Record {
            name: filename.to_owned(),
            record,
        },
        Err(e) => Made::Damaged(format!("{shown}: {e}")),
    })
}

/// The kind of a source, by its names and first bytes.
pub(super) fn kind_of(paths: &[PathBuf]) -> Result<Kind, Failure> {
    let first = &paths[0];
    if first.is_dir() {
        return Ok(if !cifar10_files(first).is_empty() {
            Kind::Cifar10
        } else if first.join("train.bin").is_file() {
            Kind::Cifar100
        } else {
            Kind::Folder
        });
    }
    let extension = first.extension().and_then(|e| e.to_str()).unwrap_or("");
    match extension.to_ascii_lowercase().as_str() {
        "csv" | "tsv" => return Ok(Kind::Csv),
        "bin" => {
            let about = std::fs::metadata(first);
            let length = about
                .map_err(|e| format!("{}: {e}", first.display()))?
                .len();
            return Ok(match length % (1 + CIFAR_BYTES as u64) {
                0 => Kind::Cifar10,
                _ => Kind::Cifar100,
            });
        }
        _ => {}
    }
    match rank(first)? {
        Some(_) => Ok(Kind::Idx),
        None => Err(format!(
            "{}: is no folder, IDX file, CIFAR file (.bin) or CSV file (.csv); say with --from which it is",
            first.display()
        )
        .into()),
    }
}

/// Number of dimensions of an IDX file; `None` if it is none.
fn rank(path: &Path) -> Result<Option<usize>, DataError> {
    match Idx::<1>::open(path) {
        Ok(_) => Ok(Some(1)),
        Err(DataError::Rank { found, .. }) => Ok(Some(found)),
        Err(e @ DataError::Io { .. }) => Err(e),
        Err(_) => Ok(None),
    }
}

/// Opens a source.
pub(super) fn open(kind: Kind, paths: &[PathBuf], convert: &Convert) -> Result<Source, Failure> {
    if matches!(kind, Kind::Folder | Kind::Csv) && paths.len() > 1 {
        return Err(format!("{}: give one source", paths[1].display()).into());
    }
    if kind == Kind::Csv && convert.format == RecordFormat::Lmdb {
        return Err("--format lmdb: a Datum holds a picture, not the row of a table".into());
    }
    match kind {
        Kind::Folder => Ok(Source::Folder(ImageFolder::scan(&paths[0])?)),
        Kind::Csv => Table::open(&paths[0], convert.delimiter, &convert.column).map(Source::Table),
        Kind::Idx => open_idx(paths),
        Kind::Cifar10 => {
            let files = files_of(paths, cifar10_files);
            let names = class_names(&files, "batches.meta.txt", 10);
            collect_cifar(cifar10(files), names)
        }
        Kind::Cifar100 => {
            let files = files_of(paths, |folder| vec![folder.join("train.bin")]);
            let names = class_names(&files, "fine_label_names.txt", 100);
            collect_cifar(cifar100(files), names)
        }
    }
}

fn open_idx(paths: &[PathBuf]) -> Result<Source, Failure> {
    let (images, labels) = match paths {
        [images] => (images.clone(), labels_of(images)?),
        [a, b] if rank(a)? == Some(1) => (b.clone(), a.clone()),
        [a, b] => (a.clone(), b.clone()),
        _ => return Err("IDX: give a file of images and one of labels".into()),
    };
    let (images, labels) = (Idx::<3>::open(images)?, Idx::<1>::open(labels)?.data);
    if images.dims[0] != labels.len() {
        return Err(Box::new(DataError::CountMismatch {
            images: images.dims[0],
            labels: labels.len(),
        }));
    }
    let most = labels
        .iter()
        .max()
        .map_or(0, |&label| usize::from(label) + 1);
    Ok(Source::Idx {
        images,
        labels,
        classes: numbers(most),
    })
}

/// The file of labels beside a file of images with MNIST's name.
fn labels_of(images: &Path) -> Result<PathBuf, Failure> {
    let name = images.file_name().unwrap_or_default().to_string_lossy();
    let labels = name
        .replacen("images", "labels", 1)
        .replacen("idx3", "idx1", 1);
    let path = images.with_file_name(&labels);
    match labels != name && path.is_file() {
        true => Ok(path),
        false => Err(format!("{}: name its file of labels too", images.display()).into()),
    }
}

/// The training files of CIFAR-10 in a folder.
fn cifar10_files(folder: &Path) -> Vec<PathBuf> {
    let files = (1..=5).map(|n| folder.join(format!("data_batch_{n}.bin")));
    files.filter(|path| path.is_file()).collect()
}

/// The files, with a folder replaced by files in it.
fn files_of(paths: &[PathBuf], in_folder: impl Fn(&Path) -> Vec<PathBuf>) -> Vec<PathBuf> {
    let files = paths.iter().map(|path| match path.is_dir() {
        true => in_folder(path),
        false => vec![path.clone()],
    });
    files.flatten().collect()
}

/// The names of the classes in a file beside the data; their numbers if there is none.
fn class_names(files: &[PathBuf], name: &str, classes: usize) -> Vec<String> {
    let path = files.first().map(|f| f.with_file_name(name));
    let text = path.and_then(|path| std::fs::read_to_string(path).ok());
    let names = text.unwrap_or_default();
    let names: Vec<String> = names
        .lines()
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect();
    match names.len() == classes {
        true => names,
        false => numbers(classes),
    }
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|n| n.to_string()).collect()
}

/// All images of CIFAR files, with their fine labels.
fn collect_cifar<const L: usize, S: Stage<Item = CifarImage<L>>>(
    all: Pipeline<S>,
    classes: Vec<String>,
) -> Result<Source, Failure> {
    let (mut images, mut labels) = (Vec::new(), Vec::new());
    for image in all {
        let image = image?;
        labels.extend(image.labels.last());
        images.push(image.pixels.into_boxed_slice());
    }
    Ok(Source::Cifar {
        images,
        labels,
        classes,
    })
}
