//! Choice of the method of resizing.

use crate::pixels::{Method, Resize};

/// Method by which images get the size of the net. Positions correspond by [`crate::pixels::Sampling::Corner`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeMethod {
    /// One for all images.
    Fixed(Method),
    /// By the position in the batch: nearest, bilinear, bicubic, area, and again.
    RoundRobin,
}

impl Default for ResizeMethod {
    fn default() -> ResizeMethod {
        ResizeMethod::Fixed(Method::Bilinear)
    }
}

impl ResizeMethod {
    /// The method of a position in the batch.
    pub(super) fn at(self, position: usize) -> Resize {
        const TURNS: [Method; 4] = [
            Method::Nearest,
            Method::Bilinear,
            Method::Bicubic,
            Method::Area,
        ];
        let method = match self {
            ResizeMethod::Fixed(method) => method,
            ResizeMethod::RoundRobin => TURNS[position % TURNS.len()],
        };
        Resize {
            method,
            ..Resize::default()
        }
    }
}
