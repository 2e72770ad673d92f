//! Sizes of images, and windows in them.

/// Height, width and channels of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Lines of pixels.
    pub height: usize,
    /// Pixels of a line.
    pub width: usize,
    /// Channels of a pixel.
    pub channels: usize,
}

impl Size {
    /// The size of `height` lines of `width` pixels with `channels` channels.
    pub fn new(height: usize, width: usize, channels: usize) -> Size {
        Size {
            height,
            width,
            channels,
        }
    }

    /// Number of elements, or `usize::MAX` if it does not fit.
    pub fn elements(&self) -> usize {
        self.height
            .saturating_mul(self.width)
            .saturating_mul(self.channels)
    }

    /// All of the image as a window.
    pub fn window(&self) -> Window {
        Window {
            y: 0,
            x: 0,
            height: self.height,
            width: self.width,
        }
    }
}

/// A rectangle of an image, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First line.
    pub y: usize,
    /// First column.
    pub x: usize,
    /// Lines.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

impl Window {
    /// Returns `true` if the window has pixels and lies in an image.
    pub fn lies_in(&self, size: Size) -> bool {
        let inside = |at: usize, n: usize, all: usize| {
            n > 0 && at.checked_add(n).is_some_and(|end| end <= all)
        };
        inside(self.y, self.height, size.height) && inside(self.x, self.width, size.width)
    }
}
