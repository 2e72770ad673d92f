//! Epilogue of a batch normalization in the same node: addition of a side input, and an activation.

use thalweg_cpu::Cpu;
use thalweg_cpu::batch_norm::{Channels, apply};
use thalweg_device::{KernelCx, KernelError};
use thalweg_graph::Attrs;
use thalweg_graph::op::{AttrDef, int_attr, str_attr};

/// Attribute: activation, by TensorFlow's names.
pub(super) const ACTIVATION: AttrDef =
    str_attr("activation_mode", "Identity", &["Identity", "Relu"]);
/// Attribute: number of tensors that are added, 0 or 1.
pub(super) const NUM_SIDE_INPUTS: AttrDef = int_attr("num_side_inputs", 0);
/// Index of the input that is added.
pub(super) const SIDE_INPUT: usize = 5;

/// The epilogue of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct NormEpilogue {
    /// `true` if a side input is added.
    side: bool,
    /// Lower bound of the result.
    lower_bound: f32,
}

impl NormEpilogue {
    pub(super) const NONE: NormEpilogue = NormEpilogue {
        side: false,
        lower_bound: f32::NEG_INFINITY,
    };

    /// Reads the attributes of a node.
    ///
    /// # Errors
    /// [`KernelError::Invalid`].
    pub(super) fn of(attrs: &Attrs) -> Result<NormEpilogue, KernelError> {
        let lower_bound = match attrs.str(ACTIVATION.name) {
            "Relu" => 0.0,
            "Identity" => f32::NEG_INFINITY,
            other => {
                let what = format!("activation_mode is {other}: it must be Identity or Relu");
                return Err(KernelError::Invalid(what));
            }
        };
        match attrs.int(NUM_SIDE_INPUTS.name) {
            sides @ 0..=1 => Ok(NormEpilogue {
                side: sides == 1,
                lower_bound,
            }),
            sides => {
                let what = format!("num_side_inputs is {sides}: it must be 0 or 1");
                Err(KernelError::Invalid(what))
            }
        }
    }

    /// Index of the side input, and `true` for a ReLU.
    pub(super) fn parts(self) -> (Option<usize>, bool) {
        (self.side.then_some(SIDE_INPUT), self.lower_bound == 0.0)
    }

    /// Side input of a kernel with this many elements.
    ///
    /// # Errors
    /// As [`KernelCx::input`].
    pub(super) fn side<'a>(
        self,
        cx: &KernelCx<'a>,
        elements: usize,
    ) -> Result<SideInput<'a>, KernelError> {
        if !self.side {
            return Ok(SideInput::Nothing);
        }
        if cx.is_in_place(SIDE_INPUT, 0) {
            return Ok(SideInput::InOutput);
        }
        let side = cx.input::<f32>(SIDE_INPUT)?;
        match side.len() == elements {
            true => Ok(SideInput::Separate(side)),
            false => Err(KernelError::Argument("side_input")),
        }
    }

    /// Normalizes `x` (or the contents of `y` if `x` is `None`) by the mean, the rate and the shift of each
    /// column, applies the epilogue, and writes the result to `y`.
    pub(super) fn write(
        self,
        cpu: Cpu<'_>,
        g: &Channels,
        x: Option<&[f32]>,
        side: SideInput<'_>,
        y: &mut [f32],
        columns: [&[f32]; 3],
    ) {
        let lower_bound = self.lower_bound;
        // NaN stays.
        let bounded = move |y: f32| if y < lower_bound { lower_bound } else { y };
        let of = |x: f32, [mean, rate, shift]: [f32; 3]| (x - mean) * rate + shift;
        match side {
            SideInput::Nothing => {
                apply(cpu, g, x, None, y, columns, |x, _, own| bounded(of(x, own)))
            }
            SideInput::Separate(side) => {
                apply(cpu, g, x, Some(side), y, columns, |x, side, own| {
                    bounded(of(x, own) + side)
                })
            }
            SideInput::InOutput => apply(cpu, g, None, x, y, columns, |side, x, own| {
                bounded(of(x, own) + side)
            }),
        }
    }
}

/// Location of the side input.
#[derive(Clone, Copy)]
pub(super) enum SideInput<'a> {
    Nothing,
    /// In the output's memory.
    InOutput,
    Separate(&'a [f32]),
}
