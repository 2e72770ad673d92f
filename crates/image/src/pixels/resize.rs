//! Images of another size.

use super::bicubic::{Cubic, cubic};
use super::pixel::Pixel;
use super::sampling::Sampling;
use crate::error::{check_len, check_window};
use crate::{ImageError, Size, Window};

/// Method of resizing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// The nearest pixel.
    Nearest,
    /// Between the four nearest pixels.
    #[default]
    Bilinear,
    /// Between sixteen pixels.
    Bicubic,
    /// The mean over the area of a pixel. It takes [`Sampling::HalfPixel`] for [`Sampling::Corner`].
    Area,
}

/// A way to resize images, with results of TensorFlow's CPU kernels to the bit.
///
/// ```
/// use thalweg_image::Size;
/// use thalweg_image::pixels::Resize;
///
/// # fn main() -> Result<(), thalweg_image::ImageError> {
/// let mut wider = [0.0; 4];
/// Resize::default().run(&[10u8, 30], Size::new(1, 2, 1), [1, 4], &mut wider)?;
/// assert_eq!(wider, [10.0, 20.0, 30.0, 30.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resize {
    /// Method.
    pub method: Method,
    /// Rule by which positions correspond.
    pub sampling: Sampling,
}

impl Resize {
    /// Resizes an image to `to`, height and width.
    ///
    /// # Errors
    /// [`ImageError::Buffer`] if a slice is not as long as its image, [`ImageError::Window`] for sizes of 0.
    pub fn run<T: Pixel>(
        &self,
        image: &[T],
        size: Size,
        to: [usize; 2],
        out: &mut [f32],
    ) -> Result<(), ImageError> {
        let window = Size::new(to[0], to[1], size.channels).window();
        self.run_window(image, size, to, window, out)
    }

    /// Computes a window of the image that [`Resize::run`] gives.
    ///
    /// # Errors
    /// Those of [`Resize::run`], and [`ImageError::Window`] for a window that does not lie in the resized image.
    pub fn run_window<T: Pixel>(
        &self,
        image: &[T],
        size: Size,
        to: [usize; 2],
        window: Window,
        out: &mut [f32],
    ) -> Result<(), ImageError> {
        check_window(size.window(), size)?;
        check_window(window, Size::new(to[0], to[1], size.channels))?;
        check_len(size, image.len())?;
        check_len(
            Size::new(window.height, window.width, size.channels),
            out.len(),
        )?;
        if size.channels == 0 {
            return Ok(());
        }
        let image = Source { image, size };
        let lines = Axis {
            sampling: self.sampling,
            from: size.height,
            to: to[0],
            first: window.y,
            count: window.height,
        };
        let columns = Axis {
            from: size.width,
            to: to[1],
            first: window.x,
            count: window.width,
            ..lines
        };
        match self.method {
            Method::Nearest => nearest(image, lines, columns, out),
            Method::Bilinear => bilinear(image, lines, columns, out),
            Method::Bicubic => bicubic(image, lines, columns, out),
            Method::Area => area(image, lines, columns, out),
        }
        Ok(())
    }
}

/// An image that is read.
#[derive(Clone, Copy)]
struct Source<'a, T> {
    image: &'a [T],
    size: Size,
}

impl<'a, T> Source<'a, T> {
    fn line(&self, y: usize) -> &'a [T] {
        let line = self.size.width * self.size.channels;
        &self.image[y * line..][..line]
    }
}

/// Lines or columns of both images, and those that are computed.
#[derive(Clone, Copy)]
struct Axis {
    sampling: Sampling,
    from: usize,
    to: usize,
    first: usize,
    count: usize,
}

impl Axis {
    fn scale(&self) -> f32 {
        self.sampling.scale(self.from, self.to)
    }

    fn each<R>(self, f: impl Fn(usize) -> R) -> Vec<R> {
        (self.first..self.first + self.count).map(f).collect()
    }

    fn between(self) -> Vec<Between> {
        let (scale, last) = (self.scale(), self.from - 1);
        self.each(|i| {
            let at = self.sampling.position(i, scale);
            // Conversions saturate: negative positions become the first pixel.
            Between {
                low: (at.floor() as usize).min(last),
                high: (at.ceil() as usize).min(last),
                fraction: at - at.floor(),
            }
        })
    }
}

fn nearest<T: Pixel>(image: Source<'_, T>, lines: Axis, columns: Axis, out: &mut [f32]) {
    let channels = image.size.channels;
    let of = |axis: Axis| {
        let scale = axis.scale();
        axis.each(|i| axis.sampling.nearest(i, scale, axis.from))
    };
    let (rows, columns) = (of(lines), of(columns));
    for (out, y) in out.chunks_exact_mut(columns.len() * channels).zip(rows) {
        let line = image.line(y);
        for (out, x) in out.chunks_exact_mut(channels).zip(&columns) {
            let pixel = &line[x * channels..][..channels];
            out.iter_mut().zip(pixel).for_each(|(o, x)| *o = x.to_f32());
        }
    }
}

/// Two adjacent pixels, and the fraction of the distance from the first to the second.
#[derive(Clone, Copy)]
struct Between {
    low: usize,
    high: usize,
    fraction: f32,
}

fn mix(a: f32, b: f32, fraction: f32) -> f32 {
    a + (b - a) * fraction
}

/// A line of the original image at the columns of the resized one.
fn stretch<T: Pixel>(line: &[T], columns: &[Between], channels: usize, out: &mut [f32]) {
    let (mut out, mut columns) = (out, columns);
    if channels == 3 {
        let done = stretch_rgb(line, columns, out);
        (out, columns) = (&mut out[done * 3..], &columns[done..]);
    }
    for (out, x) in out.chunks_exact_mut(channels).zip(columns) {
        let (a, b) = (&line[x.low * channels..], &line[x.high * channels..]);
        for (k, out) in out.iter_mut().enumerate() {
            *out = mix(a[k].to_f32(), b[k].to_f32(), x.fraction);
        }
    }
}

/// As [`stretch`], for the first columns of pixels of 3 channels. It computes 4 channels at once, which fill a vector; the
/// next pixel replaces the fourth. Returns the number of columns: the last ones have no fourth.
fn stretch_rgb<T: Pixel>(line: &[T], columns: &[Between], out: &mut [f32]) -> usize {
    let inside = columns.partition_point(|x| x.high * 3 + 4 <= line.len());
    let count = inside.min(columns.len().saturating_sub(1));
    for (i, x) in columns[..count].iter().enumerate() {
        let of = |pixel: usize| line[pixel * 3..].first_chunk::<4>();
        let (Some(a), Some(b), Some(out)) =
            (of(x.low), of(x.high), out[i * 3..].first_chunk_mut::<4>())
        else {
            return i;
        };
        for k in 0..4 {
            out[k] = mix(a[k].to_f32(), b[k].to_f32(), x.fraction);
        }
    }
    count
}

fn bilinear<T: Pixel>(image: Source<'_, T>, lines: Axis, columns: Axis, out: &mut [f32]) {
    let channels = image.size.channels;
    let (rows, columns) = (lines.between(), columns.between());
    let line = columns.len() * channels;
    // The two stretched lines that are mixed. A larger image uses each several times.
    let mut low = (usize::MAX, vec![0.0; line]);
    let mut high = (usize::MAX, vec![0.0; line]);
    for (out, y) in out.chunks_exact_mut(line).zip(rows) {
        if low.0 != y.low && high.0 == y.low {
            std::mem::swap(&mut low, &mut high);
        }
        for (kept, wanted) in [(&mut low, y.low), (&mut high, y.high)] {
            if kept.0 != wanted {
                stretch(image.line(wanted), &columns, channels, &mut kept.1);
                kept.0 = wanted;
            }
        }
        for ((out, &a), &b) in out.iter_mut().zip(&low.1).zip(&high.1) {
            *out = mix(a, b, y.fraction);
        }
    }
}

#[inline]
fn weighted(weights: [f32; 4], values: [f32; 4]) -> f32 {
    let [a, b, c, d] = values;
    a * weights[0] + b * weights[1] + c * weights[2] + d * weights[3]
}

fn bicubic<T: Pixel>(image: Source<'_, T>, lines: Axis, columns: Axis, out: &mut [f32]) {
    let channels = image.size.channels;
    let of = |axis: Axis| axis.each(|i| cubic(axis.sampling, i, axis.from, axis.to));
    let (rows, columns): (Vec<Cubic>, Vec<Cubic>) = (of(lines), of(columns));
    // A line of the result's height and the image's width.
    let mut line = vec![0.0; image.size.width * channels];
    for (out, y) in out.chunks_exact_mut(columns.len() * channels).zip(rows) {
        let [a, b, c, d] = y.pixels.map(|y| image.line(y));
        for ((((at, &a), &b), &c), &d) in line.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *at = weighted(y.weights, [a.to_f32(), b.to_f32(), c.to_f32(), d.to_f32()]);
        }
        match channels {
            1 => bicubic_columns::<1>(&line, &columns, out),
            3 => bicubic_columns::<3>(&line, &columns, out),
            4 => bicubic_columns::<4>(&line, &columns, out),
            _ => {
                for (out, x) in out.chunks_exact_mut(channels).zip(&columns) {
                    let [a, b, c, d] = x.pixels.map(|x| &line[x * channels..][..channels]);
                    for ((((out, &a), &b), &c), &d) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                        *out = weighted(x.weights, [a, b, c, d]);
                    }
                }
            }
        }
    }
}

/// Interpolates a line of pixels of so many channels between columns.
fn bicubic_columns<const CHANNELS: usize>(line: &[f32], columns: &[Cubic], out: &mut [f32]) {
    let (pixels, _) = line.as_chunks::<CHANNELS>();
    let (out, _) = out.as_chunks_mut::<CHANNELS>();
    for (out, x) in out.iter_mut().zip(columns) {
        let [a, b, c, d] = x.pixels;
        let (a, b, c, d) = (&pixels[a], &pixels[b], &pixels[c], &pixels[d]);
        for k in 0..CHANNELS {
            out[k] = weighted(x.weights, [a[k], b[k], c[k], d[k]]);
        }
    }
}

/// The pixels that a pixel of the resized image covers, the last one included, and the covered share of the first and
/// the last.
struct Cover {
    first: usize,
    last: usize,
    shares: [f32; 2],
}

impl Axis {
    fn covers(self) -> Vec<Cover> {
        let scale = self.scale();
        self.each(|i| {
            let (from, to) = (i as f32 * scale, (i + 1) as f32 * scale);
            let share = |v: i64| {
                let next = (v + 1) as f32;
                match ((v as f32) < from, next > to) {
                    (true, true) => scale,
                    (true, false) => next - from,
                    (false, true) => to - v as f32,
                    (false, false) => 1.0,
                }
            };
            let (first, last) = (from.floor() as i64, to.ceil() as i64 - 1);
            Cover {
                first: first as usize,
                last: last.max(first) as usize,
                shares: [share(first), share(last)],
            }
        })
    }
}

fn area<T: Pixel>(image: Source<'_, T>, lines: Axis, columns: Axis, out: &mut [f32]) {
    let Size {
        height,
        width,
        channels,
    } = image.size;
    let factor = (1.0 / f64::from(lines.scale() * columns.scale())) as f32;
    let (rows, columns) = (lines.covers(), columns.covers());
    for (out, y) in out.chunks_exact_mut(columns.len() * channels).zip(rows) {
        for (out, x) in out.chunks_exact_mut(channels).zip(&columns) {
            for (k, out) in out.iter_mut().enumerate() {
                let mut sum = 0.0;
                for i in y.first..=y.last {
                    let line = image.line(i.min(height - 1));
                    let at = |j: usize| line[j.min(width - 1) * channels + k].to_f32();
                    let mut of_line = at(x.first) * x.shares[0];
                    if x.last > x.first {
                        of_line = (x.first + 1..x.last).fold(of_line, |sum, j| sum + at(j));
                        of_line += at(x.last) * x.shares[1];
                    }
                    let share = match i {
                        i if i == y.first => y.shares[0],
                        i if i == y.last => y.shares[1],
                        _ => 1.0,
                    };
                    sum += of_line * share;
                }
                *out = sum * factor;
            }
        }
    }
}
