//! CIFAR-10 and CIFAR-100 in their binary form: a label or two, and 3072 bytes of an image.
//!
//! Source: <https://www.cs.toronto.edu/~kriz/cifar.html>.

use std::path::PathBuf;

use thalweg_tensor::Tensor;

use crate::error::DataError;
use crate::pipeline::{Pipeline, Stage};
use crate::positioned::PositionedFile;

/// Bytes of an image: red, green and blue, of 32 rows of 32 pixels each.
pub const CIFAR_BYTES: usize = 3 * 32 * 32;

/// Number of records that are read at once.
const BLOCK: u64 = 64;

/// An image of CIFAR with its labels: one of CIFAR-10; the coarse and the fine one of CIFAR-100.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CifarImage<const L: usize> {
    /// The labels.
    pub labels: [u8; L],
    /// The bytes: channel by channel, row by row.
    pub pixels: Vec<u8>,
}

impl<const L: usize> CifarImage<L> {
    /// The image as `u8[3,32,32]`, and its last label, the fine one, as `i64`.
    ///
    /// # Errors
    /// There is no memory for them.
    pub fn tensors(&self) -> Result<[Tensor; 2], DataError> {
        let image = Tensor::new(&[3, 32, 32], &self.pixels)?;
        let label = self.labels.last().copied().unwrap_or(0);
        Ok([image, Tensor::from(i64::from(label))])
    }
}

/// Images of CIFAR files. Built by [`cifar10`] and [`cifar100`].
pub struct Cifar<const L: usize> {
    paths: Vec<PathBuf>,
    /// Number of classes of each label.
    classes: [u8; L],
    /// Number of the running file, and of the next record in it.
    file: usize,
    record: u64,
    open: Option<PositionedFile>,
    /// Records that were read, from number `block_at` on.
    block: Vec<u8>,
    block_at: u64,
}

/// The images of CIFAR-10's files: `data_batch_1.bin` to `data_batch_5.bin`, `test_batch.bin`.
pub fn cifar10(paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Pipeline<Cifar<1>> {
    Cifar::new(paths, [10])
}

/// The images of CIFAR-100's files: `train.bin`, `test.bin`. The labels are one of 20 and one of 100 classes.
pub fn cifar100(paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Pipeline<Cifar<2>> {
    Cifar::new(paths, [20, 100])
}

impl<const L: usize> Cifar<L> {
    const RECORD_BYTES: u64 = (L + CIFAR_BYTES) as u64;

    fn new(
        paths: impl IntoIterator<Item = impl Into<PathBuf>>,
        classes: [u8; L],
    ) -> Pipeline<Cifar<L>> {
        Pipeline::new(Cifar {
            paths: paths.into_iter().map(Into::into).collect(),
            classes,
            file: 0,
            record: 0,
            open: None,
            block: Vec::new(),
            block_at: 0,
        })
    }

    /// Opens the running file, and returns its number of records; `None` after the last file.
    fn records(&mut self) -> Result<Option<u64>, DataError> {
        let Some(path) = self.paths.get(self.file) else {
            return Ok(None);
        };
        if self.open.is_none() {
            self.open = Some(open::<L>(path)?);
            self.block.clear();
        }
        Ok(self.open.as_ref().map(|f| f.len() / Self::RECORD_BYTES))
    }

    fn next_file(&mut self) {
        self.file += 1;
        self.record = 0;
        self.open = None;
    }
}

fn open<const L: usize>(path: &std::path::Path) -> Result<PositionedFile, DataError> {
    let file = PositionedFile::open(path)?;
    let record = Cifar::<L>::RECORD_BYTES;
    match file.len() % record {
        0 => Ok(file),
        rest => {
            let reason = format!("the file is no whole number of records of {record} bytes");
            Err(file.error(file.len() - rest, reason))
        }
    }
}

impl<const L: usize> Stage for Cifar<L> {
    type Item = CifarImage<L>;

    fn start(&mut self, _epoch: u64) -> Result<(), DataError> {
        self.file = 0;
        self.record = 0;
        self.open = None;
        Ok(())
    }

    fn next(&mut self) -> Result<Option<CifarImage<L>>, DataError> {
        while let Some(records) = self.records()? {
            let Some(file) = self.open.as_ref().filter(|_| self.record < records) else {
                self.next_file();
                continue;
            };
            let record = Self::RECORD_BYTES;
            let inside = self.record.wrapping_sub(self.block_at);
            if inside >= self.block.len() as u64 / record {
                let count = BLOCK.min(records - self.record);
                self.block = file.bytes(self.record * record, count * record)?;
                self.block_at = self.record;
            }
            let at = ((self.record - self.block_at) * record) as usize;
            let (labels, pixels) = self.block[at..][..record as usize].split_at(L);
            let labels: [u8; L] = std::array::from_fn(|n| labels[n]);
            let wrong = labels.iter().zip(self.classes).find(|(l, n)| **l >= *n);
            if let Some((label, classes)) = wrong {
                let reason = format!("label {label} is none of {classes} classes");
                return Err(file.error(self.record * record, reason));
            }
            self.record += 1;
            let pixels = pixels.to_vec();
            return Ok(Some(CifarImage { labels, pixels }));
        }
        Ok(None)
    }

    fn pass(&mut self, count: u64) -> Result<u64, DataError> {
        let mut passed = 0;
        while passed < count {
            let Some(records) = self.records()? else {
                break;
            };
            let left = records - self.record;
            let own = left.min(count - passed);
            passed += own;
            self.record += own;
            if own == left {
                self.next_file();
            }
        }
        Ok(passed)
    }

    fn length(&mut self) -> Result<Option<u64>, DataError> {
        let mut all = 0;
        for path in &self.paths {
            all += open::<L>(path)?.len() / Self::RECORD_BYTES;
        }
        Ok(Some(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::Remainder;

    #[test]
    fn images_and_labels_are_read_and_passed_over() {
        let folder = std::env::temp_dir().join(format!("thalweg-cifar-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let paths = ["a", "b"].map(|name| folder.join(name));
        for (path, images) in paths.iter().zip([0..70u8, 70..100]) {
            let records = images.flat_map(|n| [[n % 20, n].to_vec(), vec![n; CIFAR_BYTES]]);
            std::fs::write(path, records.flatten().collect::<Vec<u8>>()).unwrap();
        }
        let mut images = cifar100(&paths);
        for n in 0..100u8 {
            let image = images.next().unwrap().unwrap();
            assert_eq!((image.labels, image.pixels[3071]), ([n % 20, n], n));
        }
        assert!(images.next().is_none());
        images.seek(90).unwrap();
        assert_eq!(images.next().unwrap().unwrap().labels, [10, 90]);
        let batches = cifar100(&paths).map(|image| image.tensors());
        let [x, y] = batches.batch(100, Remainder::Drop).next().unwrap().unwrap();
        assert_eq!((x.dims(), y.dims()), (&[100, 3, 32, 32][..], &[100][..]));

        let error = cifar10(&paths).next().unwrap().unwrap_err().to_string();
        assert!(
            error.contains("is no whole number of records of 3073 bytes"),
            "{error}"
        );
        let mut bytes = vec![0; 3074];
        bytes[1] = 100;
        std::fs::write(&paths[0], bytes).unwrap();
        let error = cifar100(&paths).next().unwrap().unwrap_err().to_string();
        assert!(
            error.ends_with("a, byte 0: label 100 is none of 100 classes"),
            "{error}"
        );
        std::fs::remove_dir_all(folder).unwrap();
    }
}
