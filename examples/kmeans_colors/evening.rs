//! A picture for a machine without any: an evening by the sea.

use thalweg::image::{Image, ImageError, Size};

const HEIGHT: usize = 320;
const WIDTH: usize = 400;
/// Row of the horizon.
const HORIZON: f32 = 200.0;
/// Column, row and radius of the sun.
const SUN: (f32, f32, f32) = (270.0, 160.0, 34.0);

/// Draws the picture.
pub fn picture() -> Result<Image, ImageError> {
    let mut pixels = Vec::with_capacity(HEIGHT * WIDTH * 3);
    for y in 0..HEIGHT {
        for x in 0..WIDTH {
            let color = color(x as f32, y as f32);
            pixels.extend(color.map(|level| level.clamp(0.0, 255.0) as u8));
        }
    }
    Image::new(Size::new(HEIGHT, WIDTH, 3), pixels)
}

fn color(x: f32, y: f32) -> [f32; 3] {
    let hills = HORIZON - 30.0 - 22.0 * (x / 47.0).sin() - 12.0 * (x / 19.0 + 1.0).sin();
    let left = 1.0 - (x / 190.0).min(1.0);
    match y {
        y if y >= HORIZON => sea(x, y),
        y if y > HORIZON - (HORIZON - hills) * left => {
            mix([26.0, 38.0, 34.0], [58.0, 64.0, 60.0], x / 190.0)
        }
        y => sky(x, y),
    }
}

fn sky(x: f32, y: f32) -> [f32; 3] {
    let (sun_x, sun_y, radius) = SUN;
    let distance = (x - sun_x).hypot(y - sun_y);
    if distance < radius {
        return mix(
            [255.0, 244.0, 190.0],
            [255.0, 196.0, 90.0],
            distance / radius,
        );
    }
    let high = mix(
        [46.0, 60.0, 120.0],
        [250.0, 150.0, 90.0],
        (y / HORIZON).powi(2),
    );
    mix(
        [255.0, 190.0, 100.0],
        high,
        ((distance - radius) / 110.0).min(1.0).sqrt(),
    )
}

fn sea(x: f32, y: f32) -> [f32; 3] {
    let depth = (y - HORIZON) / (HEIGHT as f32 - HORIZON);
    let water = mix([120.0, 92.0, 100.0], [18.0, 30.0, 62.0], depth.sqrt());
    let waves = (x / 6.0 + 3.0 * (y / 3.0).sin()).sin() * (y / 2.0).cos();
    let glitter = (1.0 - (x - SUN.0).abs() / (30.0 + 60.0 * depth)).max(0.0);
    mix(water, [255.0, 205.0, 130.0], glitter * (0.45 + 0.4 * waves))
}

/// `a` where `part` is 0, `b` where it is 1.
fn mix(a: [f32; 3], b: [f32; 3], part: f32) -> [f32; 3] {
    let part = part.clamp(0.0, 1.0);
    [0, 1, 2].map(|i| a[i] + part * (b[i] - a[i]))
}
