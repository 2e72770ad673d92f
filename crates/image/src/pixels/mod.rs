//! Operations on pixels, equal to TensorFlow's CPU kernels.
//!
//! | module | holds |
//! | --- | --- |
//! | `resize` | images of another size: nearest, bilinear, bicubic, area ([`Resize`]) |
//! | `color` | HSV, hue, saturation, contrast, brightness |
//! | `layout` | flips, crops, borders, the order of channels |

mod bicubic;
mod color;
mod layout;
mod pixel;
mod resize;
mod sampling;

pub use self::bicubic::{Cubic, cubic};
pub use self::color::{
    Channel, adjust_brightness, adjust_contrast, adjust_hsv_in_yiq, adjust_hue, adjust_saturation,
    hsv_to_rgb, rgb_to_hsv, scale_saturation, shift_hue,
};
pub use self::layout::{crop, flip_left_right, flip_up_down, pad, planes_to_pixels};
pub use self::pixel::Pixel;
pub use self::resize::{Method, Resize};
pub use self::sampling::Sampling;
