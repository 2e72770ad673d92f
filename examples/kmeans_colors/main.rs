//! The colours of a picture, quantised by K-means on any number of ranks. Each rank holds a part of the rows of pixels;
//! rank 0 writes the picture and reports.
//!
//! ```text
//! cargo build --release -p thalweg-examples -p thalweg-cli --bins
//! target/release/thalweg launch hvd -np 4 -- kmeans_colors --colors 16 --to out
//! ```
//!
//! Options: `--image FILE` (PNG or JPEG; without it, a picture is drawn), `--colors N` (16), `--to FOLDER` (.). The folder gets
//! `colors.png`: the picture, the quantised one, and the palette below them.

mod evening;

use std::error::Error;
use std::path::{Path, PathBuf};

use thalweg::hvd::{Hvd, ReduceOp};
use thalweg::image::{Image, Size, decode, encode};
use thalweg::prelude::*;
use thalweg::stats::{KMeans, Rows};
use thalweg_examples::output;

/// Height of the palette, in pixels.
const PALETTE_HEIGHT: usize = 40;

fn main() -> Result<(), Box<dyn Error>> {
    let (mut image, mut colors, mut folder) = (None, 16, PathBuf::from("."));
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        match (&*flag, args.next()) {
            ("--image", Some(file)) => image = Some(file),
            ("--colors", Some(n)) => colors = n.parse()?,
            ("--to", Some(path)) => folder = path.into(),
            _ => {
                return Err(
                    "usage: kmeans_colors [--image FILE] [--colors N] [--to FOLDER]".into(),
                );
            }
        }
    }
    let hvd = Hvd::init()?;
    let picture = match image {
        Some(file) => decode::decode(&std::fs::read(file)?, 3)?,
        None => evening::picture()?,
    };

    // A row for each pixel: red, green and blue from 0 to 1. Each rank takes consecutive ones.
    let size = picture.size();
    let pixels = size.height * size.width;
    let (first, end) = (
        pixels * hvd.rank() / hvd.size(),
        pixels * (hvd.rank() + 1) / hvd.size(),
    );
    let own = &picture.pixels[3 * first..3 * end];
    let own: Vec<f32> = own.iter().map(|level| f32::from(*level) / 255.0).collect();
    let own = Tensor::new(&[end - first, 3], &own)?;

    let model = KMeans::new(colors)
        .seed(1)
        .fit(&hvd, &Rows::new(own.clone()))?;

    // Rank 0 gets the colour of each pixel.
    let nearest = model.predict(&own)?;
    let nearest = hvd.allgather(Tensor::new(&[nearest.len()], &nearest)?)?;
    let counts = hvd.allreduce(Tensor::vector(&[1i64]), ReduceOp::Sum)?;
    if hvd.rank() != 0 {
        return Ok(());
    }
    let palette: Vec<u8> = model
        .centroids
        .as_slice::<f32>()?
        .iter()
        .map(|x| (255.0 * x).round() as u8)
        .collect();
    let quantised: Vec<u8> = nearest
        .as_slice::<i32>()?
        .iter()
        .flat_map(|color| palette[3 * *color as usize..][..3].to_vec())
        .collect();
    write(&folder.join("colors.png"), &picture, &quantised, &palette)?;
    let error = 255.0 * (model.inertia / (3 * pixels) as f64).sqrt();
    output::line(format_args!(
        "{} x {} pixels, {colors} colours, {} ranks: {} iterations, root mean square error {error:.2} of 255 levels",
        size.width,
        size.height,
        counts.as_slice::<i64>()?[0],
        model.iterations
    ));
    Ok(())
}

/// Writes both pictures side by side, and the palette below.
fn write(
    path: &Path,
    picture: &Image,
    quantised: &[u8],
    palette: &[u8],
) -> Result<(), Box<dyn Error>> {
    let Size { height, width, .. } = picture.size();
    let mut pixels = Vec::with_capacity((height + PALETTE_HEIGHT) * 2 * width * 3);
    for row in 0..height {
        let at = 3 * row * width..3 * (row + 1) * width;
        pixels.extend_from_slice(&picture.pixels[at.clone()]);
        pixels.extend_from_slice(&quantised[at]);
    }
    let colors = palette.len() / 3;
    for at in 0..PALETTE_HEIGHT * 2 * width {
        let color = (at % (2 * width)) * colors / (2 * width);
        pixels.extend_from_slice(&palette[3 * color..][..3]);
    }
    let both = Image::new(Size::new(height + PALETTE_HEIGHT, 2 * width, 3), pixels)?;
    std::fs::write(path, encode::png(&both)?)?;
    Ok(())
}
