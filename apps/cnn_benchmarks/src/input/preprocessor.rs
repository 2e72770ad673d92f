//! Preprocessing of elements to batches.

use std::sync::{Arc, Mutex, PoisonError};

use thalweg::data::DataError;
use thalweg::data::example::{Datum, Example};
use thalweg::data::read_file;
use thalweg::image::Size;
use thalweg::image::pixels::{self, Method};
use thalweg::image::preprocess::{
    Cifar, ColorDistortion, Draws, Evaluation, ResizeMethod, Training, Workspace,
};
use thalweg::models::Data;
use thalweg::tensor::{DType, Tensor};

use super::source::Element;
use crate::settings::Settings;

type Result<T> = std::result::Result<T, DataError>;

/// Sides of a CIFAR image.
const CIFAR_SIZE: Size = Size {
    height: 32,
    width: 32,
    channels: 3,
};

/// Preprocessing of elements to batches.
pub(super) struct Preprocessor {
    data: Data,
    side: usize,
    trains: bool,
    seed: u64,
    training: Training,
    /// Buffers of threads that do not use them now.
    workspaces: Arc<Mutex<Vec<Workspace>>>,
}

impl Preprocessor {
    pub(super) fn new(settings: &Settings, trains: bool) -> Preprocessor {
        let side = settings.model.size;
        let flags = &settings.flags.input;
        let mut training = Training::new(side, side);
        training.method = match &*flags.resize_method {
            "nearest" => ResizeMethod::Fixed(Method::Nearest),
            "bicubic" => ResizeMethod::Fixed(Method::Bicubic),
            "area" => ResizeMethod::Fixed(Method::Area),
            "round_robin" => ResizeMethod::RoundRobin,
            _ => ResizeMethod::Fixed(Method::Bilinear),
        };
        training.colors = flags
            .distortions
            .then_some(match flags.distort_color_in_yiq {
                true => ColorDistortion::Yiq,
                false => ColorDistortion::Hsv,
            });
        Preprocessor {
            data: settings.model.data,
            side,
            trains,
            seed: settings.flags.run.tf_random_seed,
            training,
            workspaces: Arc::default(),
        }
    }

    /// Makes the tensors of a batch.
    ///
    /// # Errors
    /// An element that is no image, or a file that cannot be read.
    pub(super) fn batch(&self, elements: Vec<(u64, Element)>) -> Result<[Tensor; 2]> {
        let lock = || {
            self.workspaces
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let mut workspace = lock().pop().unwrap_or_default();
        let (side, channels) = (self.side, self.data.channels());
        let pixels = side * side * channels;
        let mut images = Tensor::zeros(DType::F32, &[elements.len(), side, side, channels])?;
        let mut labels = vec![0i32; elements.len()];
        let slots = images
            .as_mut_slice::<f32>()?
            .chunks_mut(pixels)
            .zip(&mut labels);
        for (position, ((number, element), (out, label))) in elements.iter().zip(slots).enumerate()
        {
            let mut draws = Draws::new(self.seed, *number);
            *label = self.image(element, position, &mut draws, &mut workspace, out)?;
        }
        lock().push(workspace);
        Ok([images, Tensor::vector(&labels)])
    }

    /// Makes the pixels of an element, and returns its label.
    fn image(
        &self,
        element: &Element,
        position: usize,
        draws: &mut Draws,
        workspace: &mut Workspace,
        out: &mut [f32],
    ) -> Result<i32> {
        let read;
        let (file, label) = match element {
            Element::Cifar(image) => {
                self.planes(&image.pixels, draws, out)?;
                return Ok(i32::from(image.labels[0]));
            }
            Element::Digit(split, number) => {
                let image = split.image(*number).unwrap_or_default();
                for (x, ink) in out.iter_mut().zip(image) {
                    *x = f32::from(*ink) / 255.0;
                }
                return Ok(i32::from(split.labels()[*number]));
            }
            Element::Record(record) => parse(record)?,
            Element::Datum(record) => {
                let datum = Datum::parse(record)?;
                let label = datum.label + self.first_label();
                if !datum.encoded {
                    self.check_planes(&datum)?;
                    self.planes(datum.data, draws, out)?;
                    return Ok(label);
                }
                (datum.data, label)
            }
            Element::Picture(path, class) => {
                read = read_file(path)?;
                (&*read, *class as i32 + self.first_label())
            }
        };
        let done = match (self.data, self.trains) {
            (Data::ImageNet, true) => self
                .training
                .run(file, &[], position, draws, workspace, out),
            (Data::ImageNet, false) => {
                Evaluation::new(self.side, self.side).run(file, position, workspace, out)
            }
            // MNIST has no image files.
            (Data::Cifar10 | Data::Mnist, trains) => {
                let image = thalweg::image::decode(file, 3).map_err(failed)?;
                let cifar = Cifar::default();
                match trains {
                    true => cifar.train(&image.pixels, image.size(), draws, out),
                    false => cifar.evaluate(&image.pixels, image.size(), out),
                }
            }
        };
        done.map_err(|e| match element {
            Element::Picture(path, _) => {
                DataError::Function(format!("{}: {e}", path.display()).into())
            }
            _ => failed(e),
        })?;
        Ok(label)
    }

    /// The label of the first class of LMDB and of folders. Class 0 of ImageNet's networks is the background.
    fn first_label(&self) -> i32 {
        match self.data {
            Data::ImageNet => 1,
            Data::Cifar10 | Data::Mnist => 0,
        }
    }

    /// Makes the pixels of an image of CIFAR: planes of red, green and blue.
    fn planes(&self, planes: &[u8], draws: &mut Draws, out: &mut [f32]) -> Result<()> {
        let cifar = Cifar::default();
        let mut interleaved = vec![0; CIFAR_SIZE.elements()];
        pixels::planes_to_pixels(planes, CIFAR_SIZE, &mut interleaved).map_err(failed)?;
        let done = match self.trains {
            true => cifar.train(&interleaved, CIFAR_SIZE, draws, out),
            false => cifar.evaluate(&interleaved, CIFAR_SIZE, out),
        };
        done.map_err(failed)
    }

    /// Checks that a Datum without a file is an image of CIFAR, as Caffe's `convert_cifar_data` writes it.
    fn check_planes(&self, datum: &Datum<'_>) -> Result<()> {
        let sides = [datum.height, datum.width, datum.channels];
        let is_cifar = self.data == Data::Cifar10 && sides == [32, 32, 3];
        if is_cifar && datum.data.len() == CIFAR_SIZE.elements() {
            return Ok(());
        }
        let reason = format!(
            "a Datum of {} bytes, {sides:?}, holds pixels: those of CIFAR-10 may, of 32x32 and 3 channels; others need the \
             picture's file (convert_imageset -encoded)",
            datum.data.len()
        );
        Err(DataError::Function(reason.into()))
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> DataError {
    DataError::Function(Box::new(error))
}

/// The image file and the label of a record.
fn parse(record: &[u8]) -> Result<(&[u8], i32)> {
    let missing = |key: &str| {
        DataError::Function(format!("a record has no {key}: records need ImageNet's keys").into())
    };
    let example = Example::parse(record)?;
    let file = example.get("image/encoded").and_then(|f| f.bytes()?.next());
    let label = example
        .get("image/class/label")
        .and_then(|f| f.ints()?.next());
    Ok((
        file.ok_or_else(|| missing("image/encoded"))?,
        label.ok_or_else(|| missing("image/class/label"))? as i32,
    ))
}
