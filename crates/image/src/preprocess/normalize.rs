//! Normalization of pixels of 0 to 255.

/// Normalization of pixels of 0 to 255.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Normalize {
    /// To -1 to 1: `x / 127.5 - 1`.
    #[default]
    Symmetric,
    /// Each channel minus its mean.
    Means([f32; 3]),
    /// Each channel minus its mean, times a factor of its own.
    Standard {
        /// Means of the channels.
        means: [f32; 3],
        /// One divided by the standard deviations.
        factors: [f32; 3],
    },
}

impl Normalize {
    /// Means of ImageNet's channels in RGB, as MLPerf subtracts them.
    pub const IMAGENET: Normalize = Normalize::Means([123.68, 116.78, 103.94]);

    /// Normalizes RGB pixels.
    pub fn apply(&self, pixels: &mut [f32]) {
        if *self == Normalize::Symmetric {
            pixels.iter_mut().for_each(|x| *x = symmetric(*x));
            return;
        }
        let (means, factors) = match *self {
            Normalize::Standard { means, factors } => (means, factors),
            Normalize::Means(means) => (means, [1.0; 3]),
            Normalize::Symmetric => return,
        };
        for pixel in pixels.as_chunks_mut::<3>().0 {
            *pixel = std::array::from_fn(|k| (pixel[k] - means[k]) * factors[k]);
        }
    }
}

/// `x / 127.5 - 1`, rounded as tf_cnn_benchmarks computes it.
fn symmetric(x: f32) -> f32 {
    x * (1.0 / 127.5) - 1.0
}
