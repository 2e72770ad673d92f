//! The feeds of steps: images from files, or synthetic ones (noise with random labels, or a pattern for each class).

use thalweg::models::Data;
use thalweg::tensor::{DType, Tensor, TensorError};

use crate::Result;
use crate::flags::Synthetic;
use crate::input::FileInput;
use crate::settings::Settings;

/// Points along a side of a pattern.
const POINTS: usize = 4;
const MEAN: f32 = 127.0;
const DEVIATION: f32 = 60.0;
/// Factor of the pixels of deep MNIST, which takes them from 0 to 1.
const MNIST_SCALE: f32 = 1.0 / 255.0;

/// Feeds of the towers. Noise stays the same in all steps; patterns change with their labels.
pub struct Images {
    random: Random,
    classes: usize,
    /// Numbers of an image: its height times its width times its channels.
    pixels: usize,
    patterns: Vec<Vec<f32>>,
    scale: f32,
    /// Images of `--data_dir`, in place of synthetic ones.
    pub files: Option<FileInput>,
    /// Images and labels of each tower.
    pub towers: Vec<[Tensor; 2]>,
}

impl Images {
    /// Makes the feeds of a worker's towers.
    ///
    /// # Errors
    /// A batch that is too large; a folder without images.
    pub fn new(settings: &Settings, worker: u32) -> Result<Images> {
        let folder = settings.flags.input.data_dir.as_deref();
        let files = folder.map(|folder| FileInput::new(settings, folder, worker));
        let (side, n) = (settings.model.size, settings.batch);
        let mut random = Random::new(settings.flags.run.tf_random_seed ^ (u64::from(worker) << 32));
        let data = settings.model.data;
        let (classes, channels) = (data.used_classes(), data.channels());
        let patterns = match settings.flags.extensions.synthetic {
            Synthetic::Random => Vec::new(),
            // The same for all workers.
            Synthetic::Patterns => {
                let mut shared = Random::new(settings.flags.run.tf_random_seed);
                (0..classes)
                    .map(|_| pattern(&mut shared, side, channels))
                    .collect()
            }
        };
        let scale = match data {
            Data::Mnist => MNIST_SCALE,
            Data::ImageNet | Data::Cifar10 => 1.0,
        };
        let towers = (0..settings.towers).map(|_| {
            let mut images = Tensor::zeros(DType::F32, &[n, side, side, channels])?;
            for x in images.as_mut_slice::<f32>()? {
                *x = scale * (MEAN + DEVIATION * random.truncated_normal());
            }
            Ok([images, Tensor::zeros(DType::I32, &[n])?])
        });
        Ok(Images {
            towers: towers.collect::<std::result::Result<_, TensorError>>()?,
            files: files.transpose()?,
            random,
            classes,
            pixels: side * side * channels,
            patterns,
            scale,
        })
    }

    /// Makes the feeds of the next step.
    ///
    /// # Errors
    /// Those of the first step; a file that cannot be read.
    pub fn advance(&mut self) -> Result<()> {
        if let Some(files) = &mut self.files {
            for tower in &mut self.towers {
                *tower = files.next()?;
            }
            return Ok(());
        }
        for [images, labels] in &mut self.towers {
            for label in labels.as_mut_slice::<i32>()? {
                *label = self.random.below(self.classes) as i32;
            }
            if self.patterns.is_empty() {
                continue;
            }
            let labels = labels.as_slice::<i32>()?;
            let images = images.as_mut_slice::<f32>()?;
            for (image, &label) in images.chunks_mut(self.pixels).zip(labels) {
                for (x, &p) in image.iter_mut().zip(&self.patterns[label as usize]) {
                    let noisy = p + self.random.truncated_normal();
                    *x = self.scale * (MEAN + DEVIATION * 0.7 * noisy);
                }
            }
        }
        Ok(())
    }
}

/// Random numbers on a coarse grid, with straight lines between them.
fn pattern(random: &mut Random, side: usize, channels: usize) -> Vec<f32> {
    let grid: Vec<f32> = (0..(POINTS + 1) * (POINTS + 1) * channels)
        .map(|_| random.truncated_normal())
        .collect();
    let at = |y: usize, x: usize, c: usize| grid[(y * (POINTS + 1) + x) * channels + c];
    let place = |i: usize| {
        let at = i as f32 * POINTS as f32 / side as f32;
        (at as usize, at.fract())
    };
    let mut pixels = Vec::with_capacity(side * side * channels);
    for y in 0..side {
        for x in 0..side {
            let ((j, v), (i, u)) = (place(y), place(x));
            for c in 0..channels {
                let above = at(j, i, c) * (1.0 - u) + at(j, i + 1, c) * u;
                let below = at(j + 1, i, c) * (1.0 - u) + at(j + 1, i + 1, c) * u;
                pixels.push(above * (1.0 - v) + below * v);
            }
        }
    }
    pixels
}

/// A pseudo-random number generator with a seed.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number in the open interval from 0 to 1.
    fn part(&mut self) -> f32 {
        ((self.next() >> 41) as f32 + 0.5) / (1u32 << 23) as f32
    }

    fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 32) as usize * n) >> 32
    }

    /// A normal number that is no further than two deviations from 0.
    fn truncated_normal(&mut self) -> f32 {
        loop {
            let (u, v) = (self.part(), self.part());
            let x = (-2.0 * u.ln()).sqrt() * (std::f32::consts::TAU * v).cos();
            if x.abs() <= 2.0 {
                return x;
            }
        }
    }
}
