//! Tests of loading MNIST: file names, missing files, sizes, labels.

use std::fs;

use super::*;
use crate::idx::tests::{encode, gzip};

/// The part of MNIST in the repository.
pub fn repository_data() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/mnist"))
}

/// A temporary folder, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("thalweg-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a temporary folder can be made");
        Folder(path)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        fs::write(self.0.join(name), bytes).expect("a temporary file can be written");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn images(count: u32, side: u32) -> Vec<u8> {
    encode(
        &[count, side, side],
        &vec![1; (count * side * side) as usize],
    )
}

#[test]
fn the_repository_data_has_ten_thousand_images_in_each_split() {
    let mnist = Mnist::load(repository_data()).expect("the repository's data");
    for split in [&mnist.train, &mnist.test] {
        assert_eq!(split.len(), 10_000);
        assert_eq!((split.rows(), split.cols()), (28, 28));
        assert_eq!(split.images().len(), 10_000 * 784);
    }
    // The first digits of MNIST, as every description of the set shows them.
    assert_eq!(mnist.train.labels()[..10], [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]);
    assert_eq!(mnist.test.labels()[..10], [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]);
    let ink = |split: &Split| split.images().iter().map(|&b| u64::from(b)).sum::<u64>();
    // MNIST's test set has the mean 0.1325; a wrong file or byte order would not have it.
    let mean = ink(&mnist.test) as f64 / (255.0 * 7_840_000.0);
    assert!((mean - 0.1325).abs() < 5e-5, "{mean}");
}

#[test]
fn all_spellings_of_the_file_names_are_found() {
    let folder = Folder::new("spellings");
    folder.put("train-images-idx3-ubyte", &images(2, 28));
    folder.put("train-labels.idx1-ubyte", &encode(&[2], &[3, 9]));
    folder.put("t10k-images-idx3-ubyte.gz", &gzip(&images(1, 28)));
    folder.put("t10k-labels.idx1-ubyte.gz", &gzip(&encode(&[1], &[0])));
    let mnist = Mnist::load(&folder.0).expect("all four files");
    assert_eq!(mnist.train.labels(), [3, 9]);
    assert_eq!(mnist.test.labels(), [0]);
}

#[test]
fn the_error_for_a_missing_file_lists_the_names_tried() {
    let folder = Folder::new("missing");
    folder.put("train-images-idx3-ubyte", &images(2, 28));
    let error = Mnist::load(&folder.0).expect_err("three files are missing");
    assert!(
        matches!(&error, DataError::NotFound { dir, tried }
            if *dir == folder.0 && tried[2] == "train-labels-idx1-ubyte.gz"),
        "{error:?}"
    );
    assert!(error.to_string().contains("give the folder"), "{error}");
}

#[test]
fn a_missing_folder_is_an_error() {
    let error = Mnist::load("no/such/folder").expect_err("no folder");
    assert!(matches!(error, DataError::NotFound { .. }), "{error:?}");
}

#[test]
fn images_of_another_size_are_an_error() {
    let folder = Folder::new("size");
    folder.put("train-images-idx3-ubyte", &images(2, 32));
    folder.put("train-labels-idx1-ubyte", &encode(&[2], &[3, 9]));
    let error = Mnist::load(&folder.0).expect_err("images of 32 x 32");
    assert!(
        matches!(&error, DataError::ImageSize { path, expected: [28, 28], found: [32, 32] }
            if path.ends_with("train-images-idx3-ubyte")),
        "{error:?}"
    );
}

#[test]
fn the_error_for_a_label_out_of_range_has_its_index() {
    let error = Split::new(vec![0; 12], vec![0, 9, 10], 2, 2).expect_err("label 10");
    assert!(
        matches!(
            error,
            DataError::Label {
                index: 2,
                value: 10,
                classes: 10
            }
        ),
        "{error:?}"
    );
    assert_eq!(error.to_string(), "label 2 is 10, the classes are 0 to 9");
}

#[test]
fn images_without_labels_are_an_error() {
    let error = Split::new(vec![0; 12], vec![1, 2], 2, 2).expect_err("two labels");
    assert!(
        matches!(
            error,
            DataError::CountMismatch {
                images: 3,
                labels: 2
            }
        ),
        "{error:?}"
    );
}

#[test]
fn a_part_of_an_image_is_an_error() {
    for (pixels, rows, cols) in [(13, 2, 2), (1, 0, 5), (3, usize::MAX, usize::MAX)] {
        let error = Split::new(vec![0; pixels], vec![1; 3], rows, cols).expect_err("a part");
        assert!(matches!(error, DataError::PixelCount { .. }), "{error:?}");
    }
}

#[test]
fn images_are_found_by_their_index() {
    let split = Split::new((0..12).collect(), vec![1, 2, 3], 2, 2).expect("three images");
    assert_eq!(split.image(1), Some(&[4, 5, 6, 7][..]));
    assert_eq!(split.image(3), None);
    assert_eq!(split.image(usize::MAX), None);
}

#[test]
fn an_empty_split_is_valid() {
    for side in [0, 28, usize::MAX] {
        let split = Split::new(vec![], vec![], side, side).expect("no images");
        assert!(split.is_empty());
        assert_eq!(split.image(0), None);
        assert_eq!(split.chunks(1).expect("a chunk size").count(), 0);
    }
}
