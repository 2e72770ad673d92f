//! `thalweg data`: pictures and tables to records and back, damaged files, reports.

#[path = "../support/mod.rs"]
mod support;

mod read_records;
mod reports;
mod sources;
#[cfg(target_os = "linux")]
mod study;

use support::Folder;
use thalweg_data::example::Example;
use thalweg_data::{RecordFile, RecordOptions};
use thalweg_image::encode::{self, JpegOptions};
use thalweg_image::{Image, Size};

/// A picture of one level of grey, `height` x `width`.
fn picture(level: u8, height: usize, width: usize) -> Image {
    let size = Size::new(height, width, 3);
    Image::new(size, vec![level; size.elements()]).unwrap()
}

fn jpeg(level: u8) -> Vec<u8> {
    encode::jpeg(&picture(level, 30, 40), &JpegOptions::default()).unwrap()
}

/// A folder `photos` of two classes with so many JPEG files each.
fn photos(folder: &Folder, each: u8) -> String {
    for (class, level) in [("n01440764", 10), ("rose", 130)] {
        std::fs::create_dir_all(folder.join("photos").join(class)).unwrap();
        for n in 0..each {
            let file = folder.join("photos").join(class).join(format!("{n}.jpg"));
            std::fs::write(file, jpeg(level + n)).unwrap();
        }
    }
    folder.at("photos")
}

/// Calls a function with each record of a file, and returns the results.
fn each_example<T>(file: &str, mut see: impl FnMut(&Example<'_>) -> T) -> Vec<T> {
    let mut file = RecordFile::open(file, RecordOptions::default()).unwrap();
    let mut all = Vec::new();
    while let Some(record) = file.read().unwrap() {
        all.push(see(&Example::parse(record).unwrap()));
    }
    all
}

fn text(example: &Example<'_>, key: &str) -> Option<String> {
    let bytes = example.get(key)?.bytes()?.next()?;
    Some(String::from_utf8(bytes.to_vec()).unwrap())
}

fn int(example: &Example<'_>, key: &str) -> Option<i64> {
    example.get(key)?.ints()?.next()
}

/// The names in a folder, sorted.
fn names(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
