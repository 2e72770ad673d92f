//! Flips, crops, borders, and the order of channels.

use crate::error::{check_len, check_window};
use crate::{ImageError, Size, Window};

/// Mirrors an image, left and right.
///
/// # Errors
/// [`ImageError::Buffer`] if the slice is not as long as the image.
pub fn flip_left_right<T>(image: &mut [T], size: Size) -> Result<(), ImageError> {
    check_len(size, image.len())?;
    let channels = size.channels;
    if image.is_empty() {
        return Ok(());
    }
    for line in image.chunks_exact_mut(size.width * channels) {
        match channels {
            1 => line.reverse(),
            3 => line.as_chunks_mut::<3>().0.reverse(),
            _ => {
                for x in 0..size.width / 2 {
                    let (left, right) = line.split_at_mut((size.width - 1 - x) * channels);
                    left[x * channels..][..channels].swap_with_slice(&mut right[..channels]);
                }
            }
        }
    }
    Ok(())
}

/// Mirrors an image, top and bottom.
///
/// # Errors
/// [`ImageError::Buffer`] if the slice is not as long as the image.
pub fn flip_up_down<T>(image: &mut [T], size: Size) -> Result<(), ImageError> {
    check_len(size, image.len())?;
    let line = size.width * size.channels;
    for y in 0..size.height / 2 {
        let (top, bottom) = image.split_at_mut((size.height - 1 - y) * line);
        top[y * line..][..line].swap_with_slice(&mut bottom[..line]);
    }
    Ok(())
}

/// Copies a window of an image.
///
/// # Errors
/// [`ImageError::Window`] for a window that does not lie in the image, [`ImageError::Buffer`] if a slice is not as long
/// as its image.
pub fn crop<T: Copy>(
    image: &[T],
    size: Size,
    window: Window,
    out: &mut [T],
) -> Result<(), ImageError> {
    check_window(window, size)?;
    check_len(size, image.len())?;
    let cut = Size::new(window.height, window.width, size.channels);
    check_len(cut, out.len())?;
    if out.is_empty() {
        return Ok(());
    }
    let line = window.width * size.channels;
    for (i, out) in out.chunks_exact_mut(line).enumerate() {
        let from = ((window.y + i) * size.width + window.x) * size.channels;
        out.copy_from_slice(&image[from..][..line]);
    }
    Ok(())
}

/// Copies an image into a window of a larger one, whose other pixels become `value`.
///
/// # Errors
/// [`ImageError::Window`] for a window that does not lie in the larger image, [`ImageError::Buffer`] if a slice is not as
/// long as its image.
pub fn pad<T: Copy>(
    image: &[T],
    window: Window,
    value: T,
    out: &mut [T],
    size: Size,
) -> Result<(), ImageError> {
    check_window(window, size)?;
    check_len(size, out.len())?;
    check_len(
        Size::new(window.height, window.width, size.channels),
        image.len(),
    )?;
    out.fill(value);
    let line = window.width * size.channels;
    for i in 0..window.height {
        let to = ((window.y + i) * size.width + window.x) * size.channels;
        out[to..][..line].copy_from_slice(&image[i * line..][..line]);
    }
    Ok(())
}

/// Writes channels that lie one behind the other, as in CIFAR's files and Caffe's Datum, as an image.
///
/// # Errors
/// [`ImageError::Buffer`] if a slice is not as long as the image.
pub fn planes_to_pixels<T: Copy>(
    planes: &[T],
    size: Size,
    out: &mut [T],
) -> Result<(), ImageError> {
    check_len(size, planes.len())?;
    check_len(size, out.len())?;
    let pixels = size.height * size.width;
    for (i, out) in out.chunks_exact_mut(size.channels.max(1)).enumerate() {
        for (k, out) in out.iter_mut().enumerate() {
            *out = planes[k * pixels + i];
        }
    }
    Ok(())
}
