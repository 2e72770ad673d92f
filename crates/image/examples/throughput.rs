//! Images a second on one thread, over the JPEG files below a folder: decoding alone, and whole preprocessing.
//!
//! ```text
//! cargo run --release -p thalweg-image --example throughput -- FOLDER
//! cargo run --release -p thalweg-image --features turbojpeg --example throughput -- FOLDER
//! ```

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use thalweg_image::preprocess::{ColorDistortion, Draws, Evaluation, Training, Workspace};
use thalweg_image::{Decoder, ImageError};

/// Height and width of the net's images.
const SIDE: usize = 224;
const PASSES: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args()
        .nth(1)
        .ok_or("name a folder of JPEG files")?;
    let mut files = Vec::new();
    read(Path::new(&folder), &mut files)?;
    let mut out = vec![0.0; SIDE * SIDE * 3];
    let (mut decoder, mut pixels) = (Decoder::default(), Vec::new());
    measure("decode", &files, |_, file| {
        decoder.decode(file, 3, &mut pixels).map(|_| ())
    })?;
    let mut workspace = Workspace::default();
    for (name, colors) in [
        ("training", None),
        ("training, colours in HSV", Some(ColorDistortion::Hsv)),
        ("training, colours in YIQ", Some(ColorDistortion::Yiq)),
    ] {
        let training = Training {
            colors,
            ..Training::new(SIDE, SIDE)
        };
        measure(name, &files, |i, file| {
            let mut draws = Draws::new(1, i as u64);
            training.run(file, &[], i, &mut draws, &mut workspace, &mut out)
        })?;
    }
    let evaluation = Evaluation::new(SIDE, SIDE);
    measure("evaluation", &files, |i, file| {
        evaluation.run(file, i, &mut workspace, &mut out)
    })?;
    Ok(())
}

/// Reads the JPEG files below a folder.
fn read(folder: &Path, files: &mut Vec<Vec<u8>>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "jpg") {
            files.push(std::fs::read(path)?);
        }
    }
    Ok(())
}

/// Prints the rates of some passes.
fn measure(
    name: &str,
    files: &[Vec<u8>],
    mut run: impl FnMut(usize, &[u8]) -> Result<(), ImageError>,
) -> Result<(), ImageError> {
    let mut rates = Vec::new();
    for _ in 0..PASSES {
        let start = Instant::now();
        for (i, file) in files.iter().enumerate() {
            run(i, file)?;
        }
        rates.push((files.len() as f64 / start.elapsed().as_secs_f64()).round());
    }
    println!("{name}: {rates:?} images/s");
    Ok(())
}
