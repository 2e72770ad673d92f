//! Contact sheets: small copies of pictures, side by side.

use std::path::Path;

use thalweg_checkpoint::disk;
use thalweg_image::pixels::{Method, Resize, pad};
use thalweg_image::{Decoder, Image, ImageError, Size, Window, encode};

use crate::failure::Failure;

/// Height and width of the place of a picture, in pixels.
const SIDE: usize = 96;
/// Distance between pictures, in pixels.
const GAP: usize = 4;
const COLUMNS: usize = 10;
/// Level of grey between the pictures.
const PAPER: u8 = 255;
/// Level of grey in the place of a picture that does not decode.
const DAMAGED: u8 = 96;

/// Contact sheet with a number of places.
pub(super) struct Sheet {
    places: usize,
    /// Pictures of `SIDE` x `SIDE` RGB pixels.
    pictures: Vec<Vec<u8>>,
    decoder: Decoder,
}

impl Sheet {
    pub(super) fn new(places: usize) -> Sheet {
        Sheet {
            places,
            pictures: Vec::new(),
            decoder: Decoder::default(),
        }
    }

    /// Adds a picture while there are places. One that does not decode becomes grey.
    pub(super) fn add(&mut self, file: &[u8]) {
        if self.pictures.len() < self.places {
            let picture = self.small(file);
            let damaged = |_| vec![DAMAGED; SIDE * SIDE * 3];
            self.pictures.push(picture.unwrap_or_else(damaged));
        }
    }

    /// The picture in a place of its own, with its proportions.
    fn small(&mut self, file: &[u8]) -> Result<Vec<u8>, ImageError> {
        let mut pixels = Vec::new();
        let size = self.decoder.decode(file, 3, &mut pixels)?;
        let longer = size.height.max(size.width);
        let scaled = |n: usize| (n * SIDE / longer.max(1)).max(1);
        let to = [scaled(size.height), scaled(size.width)];
        let mut small = vec![0.0; to[0] * to[1] * 3];
        let resize = Resize {
            method: Method::Area,
            ..Resize::default()
        };
        resize.run(&pixels, size, to, &mut small)?;
        let small: Vec<u8> = small.into_iter().map(|x| x.round() as u8).collect();
        let window = Window {
            y: (SIDE - to[0]) / 2,
            x: (SIDE - to[1]) / 2,
            height: to[0],
            width: to[1],
        };
        let mut place = vec![0; SIDE * SIDE * 3];
        pad(&small, window, PAPER, &mut place, Size::new(SIDE, SIDE, 3))?;
        Ok(place)
    }

    /// Writes the sheet as a PNG file.
    ///
    /// # Errors
    /// There are no pictures, or the file cannot be written.
    pub(super) fn write(&self, path: &Path) -> Result<(), Failure> {
        if self.pictures.is_empty() {
            return Err("--sheet: the records have no pictures; --image names their key".into());
        }
        let columns = self.pictures.len().min(COLUMNS);
        let rows = self.pictures.len().div_ceil(columns);
        let side = |n: usize| n * (SIDE + GAP) + GAP;
        let size = Size::new(side(rows), side(columns), 3);
        let mut pixels = vec![PAPER; size.elements()];
        for (number, picture) in self.pictures.iter().enumerate() {
            let (y, x) = (side(number / columns), side(number % columns));
            for (line, from) in picture.chunks_exact(SIDE * 3).enumerate() {
                let at = ((y + line) * size.width + x) * 3;
                pixels[at..][..SIDE * 3].copy_from_slice(from);
            }
        }
        let file = encode::png(&Image::new(size, pixels)?)?;
        disk::write(&disk::system(), path, &file)?;
        Ok(())
    }
}
