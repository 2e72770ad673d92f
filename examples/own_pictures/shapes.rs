//! Pictures for a machine without any: discs, squares and triangles under noise, as JPEG files.

use std::error::Error;
use std::path::Path;

use thalweg::image::preprocess::Draws;
use thalweg::image::{Image, Size, encode};

/// Height and width of a picture.
const SIDE: usize = 48;

/// Makes a folder with a folder of `each` pictures for each shape.
pub fn write(folder: &Path, each: u64) -> Result<(), Box<dyn Error>> {
    for (class, name) in ["disc", "square", "triangle"].into_iter().enumerate() {
        std::fs::create_dir_all(folder.join(name))?;
        for n in 0..each {
            let file = encode::jpeg(&picture(class, n)?, &Default::default())?;
            std::fs::write(folder.join(name).join(format!("{n:03}.jpg")), file)?;
        }
    }
    Ok(())
}

/// A shape at a random place, of a random size, light on dark or dark on light.
fn picture(class: usize, number: u64) -> Result<Image, Box<dyn Error>> {
    let mut draws = Draws::new(class as u64, number);
    let radius = draws.uniform(10.0, 17.0);
    let center = [(); 2].map(|()| draws.uniform(19.0, SIDE as f32 - 19.0));
    let mut levels = [draws.uniform(20.0, 90.0), draws.uniform(150.0, 220.0)];
    if draws.coin() {
        levels.reverse();
    }
    let mut pixels = Vec::with_capacity(SIDE * SIDE * 3);
    for at in 0..SIDE * SIDE {
        let y = (at / SIDE) as f32 - center[0];
        let x = (at % SIDE) as f32 - center[1];
        let inside = match class {
            0 => x.hypot(y) < radius,
            1 => x.abs().max(y.abs()) < radius * 0.9,
            _ => y.abs() < radius && x.abs() < (y + radius) * 0.5,
        };
        for _channel in 0..3 {
            pixels.push((levels[usize::from(inside)] + draws.uniform(-20.0, 20.0)) as u8);
        }
    }
    Ok(Image::new(Size::new(SIDE, SIDE, 3), pixels)?)
}
