//! Images on slices: decoders and encoders, pixel operations, and preprocessing for training.
//!
//! | module | holds |
//! | --- | --- |
//! | [`decode`](mod@decode) | JPEG, PNG, BMP and GIF files: size, pixels, a window of them |
//! | [`encode`] | JPEG and PNG files |
//! | [`pixels`] | resizing, colours, flips, crops, borders |
//! | `boxes` | random crops with bounds on area, shape and objects ([`BoxSampler`]) |
//! | [`preprocess`] | images for training and evaluation: from a file to `f32` in a batch |
//!
//! Nothing here depends on graphs or sessions. An image is a slice of `u8` or `f32` in the order height, width, channel;
//! results go to a buffer of the caller, so that a batch is filled without a copy.
//!
//! Files are not trusted: the size that a header claims is checked before memory is taken ([`Limits`]).
//!
//! ```
//! use thalweg_image::{Image, Size, decode, encode};
//!
//! # fn main() -> Result<(), thalweg_image::ImageError> {
//! let image = Image::new(Size::new(2, 3, 3), (0..18).collect())?;
//! let file = encode::png(&image)?;
//! assert_eq!(thalweg_image::size_of(&file)?, image.size());
//! assert_eq!(decode(&file, 0)?, image);
//! # Ok(())
//! # }
//! ```

mod boxes;
pub mod decode;
pub mod encode;
mod error;
mod format;
mod image;
pub mod pixels;
pub mod preprocess;
mod size;

pub use boxes::BoxSampler;
pub use decode::{Decoder, Limits, decode, size_of};
pub use error::ImageError;
pub use format::Format;
pub use image::Image;
pub use size::{Size, Window};
