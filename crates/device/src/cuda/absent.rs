//! Absent cards: convolution plans for a card that this machine does not have, from its properties.

use super::cudnn::Convolutions;
use crate::gpu::{Convolution, Engine, GpuError};

/// A card that this machine does not have, known by its properties: cuDNN 9.8 and later reports the engine that would
/// compute a convolution there. So a machine without a GPU can check that each convolution of a network has an engine.
///
/// ```no_run
/// use thalweg_device::cuda::AbsentCard;
/// use thalweg_device::gpu::{Convolution, Direction};
/// use thalweg_tensor::DType;
///
/// let properties = std::fs::read_to_string("tests/cards/h200.json")?;
/// let card = AbsentCard::new(&properties)?;
/// // 3x3 with stride 2 and TensorFlow's SAME padding: a line and a column of zeros behind the image.
/// let convolution = Convolution {
///     direction: Direction::Forward,
///     dtype: DType::F32,
///     channels_last: true,
///     images: [32, 64, 56, 56],
///     filter: [64, 64, 3, 3],
///     output: [32, 64, 28, 28],
///     before: [0, 0],
///     after: [1, 1],
///     stride: [2, 2],
///     dilation: [1, 1],
/// };
/// println!("{}", card.engine(&convolution, false)?.engine);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AbsentCard(Convolutions);

/// The engine for a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineChoice {
    /// The engine.
    pub engine: Engine,
    /// Bytes of its workspace.
    pub workspace: usize,
}

impl AbsentCard {
    /// A card with these properties, as cuDNN writes them
    /// (`CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION`).
    ///
    /// # Errors
    /// [`GpuError::Missing`] where there is no cuDNN; [`GpuError::Driver`] where it is older than 9.8,
    /// or the properties are incomplete.
    pub fn new(properties: &str) -> Result<AbsentCard, GpuError> {
        Convolutions::for_absent_card(properties).map(AbsentCard)
    }

    /// The engine that would compute a convolution.
    ///
    /// # Errors
    /// The reason that none would.
    pub fn engine(&self, c: &Convolution, tf32: bool) -> Result<EngineChoice, String> {
        let plan = self.0.plans(c, tf32)?.remove(0);
        Ok(EngineChoice {
            engine: plan.engine,
            workspace: plan.workspace,
        })
    }
}
