//! Volumes: the order of their dimensions, and windows that slide over depth, lines and columns.

use thalweg_cpu::Layout;
use thalweg_cpu::window_axis::WindowAxis;
use thalweg_device::KernelError;
use thalweg_graph::op::{AttrDef, str_attr};
use thalweg_graph::{Attrs, GradCx, Infer, InferError, NodeBuilder};
use thalweg_tensor::Shape;
use thalweg_tensor::text::counted;

use super::format::{SlidingAxis, has_dilations, positive};

/// Attribute `data_format` of ops on volumes.
pub(super) const VOLUME_FORMAT: AttrDef = str_attr("data_format", "NDHWC", &["NDHWC", "NCDHW"]);

/// Windows that slide over volumes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Volumes {
    /// The place of the channels.
    pub(super) layout: Layout,
    same: bool,
    strides: [usize; 3],
    dilations: [usize; 3],
    /// A window larger than its volume has no places, in place of being an error.
    may_be_empty: bool,
}

impl Volumes {
    /// Reads the attributes of a convolution or of a pooling op.
    ///
    /// # Errors
    /// [`InferError::Attr`].
    pub(super) fn of(attrs: &Attrs) -> Result<Volumes, InferError> {
        let layout = layout(attrs);
        if attrs.str("padding") == "EXPLICIT" {
            return Err(InferError::Unsupported(
                "padding of volumes is SAME or VALID: pad them with Pad before".to_owned(),
            ));
        }
        Ok(Volumes {
            layout,
            same: attrs.str("padding") == "SAME",
            strides: triple(layout, attrs, "strides")?,
            dilations: match has_dilations(attrs) {
                true => triple(layout, attrs, "dilations")?,
                false => [1; 3],
            },
            may_be_empty: false,
        })
    }

    /// The same for a gradient: a window larger than its volume has no places.
    pub(super) fn of_gradient(attrs: &Attrs) -> Result<Volumes, InferError> {
        let volumes = Volumes::of(attrs)?;
        Ok(Volumes {
            may_be_empty: true,
            ..volumes
        })
    }

    /// Axis of the channels.
    pub(super) fn channel(&self) -> usize {
        match self.layout {
            Layout::Nhwc => 4,
            Layout::Nchw => 1,
        }
    }

    /// Axis of depth (0), lines (1) or columns (2).
    pub(super) fn spatial(&self, axis: usize) -> usize {
        match self.layout {
            Layout::Nhwc => axis + 1,
            Layout::Nchw => axis + 2,
        }
    }

    /// A shape in this order.
    pub(super) fn shape(
        &self,
        batch: Option<usize>,
        [depth, lines, columns]: [Option<usize>; 3],
        channels: Option<usize>,
    ) -> Shape {
        Shape::partial(match self.layout {
            Layout::Nhwc => [batch, depth, lines, columns, channels],
            Layout::Nchw => [batch, channels, depth, lines, columns],
        })
    }

    /// Number of windows of `window` elements along an axis of `input`, and the padding before them.
    fn count(
        &self,
        i: usize,
        axis: usize,
        input: usize,
        window: usize,
    ) -> Result<(usize, usize), InferError> {
        let along = SlidingAxis {
            what: ["planes", "lines", "columns"][axis],
            sides: if self.same { None } else { Some([0, 0]) },
            stride: self.strides[axis],
            dilation: self.dilations[axis],
            may_be_empty: self.may_be_empty,
        };
        along.count(i, input, window)
    }

    /// Shape of the windows over volumes, with this number of channels. Input `i` is blamed for a window that does not
    /// fit.
    ///
    /// # Errors
    /// [`InferError::Value`].
    pub(super) fn windows(
        &self,
        i: usize,
        volumes: &Shape,
        window: [Option<usize>; 3],
        channels: Option<usize>,
    ) -> Result<Shape, InferError> {
        let mut counts = [None; 3];
        for axis in 0..3 {
            if let (Some(input), Some(window)) = (volumes.dim(self.spatial(axis)), window[axis]) {
                counts[axis] = Some(self.count(i, axis, input, window)?.0);
            }
        }
        Ok(self.shape(volumes.dim(0), counts, channels))
    }

    /// The windows along each axis of volumes of these dimensions.
    ///
    /// # Errors
    /// [`KernelError`] if they do not fit.
    pub(super) fn axes(
        &self,
        volumes: &[usize],
        window: [usize; 3],
    ) -> Result<[WindowAxis; 3], KernelError> {
        let invalid = |e: InferError| KernelError::Invalid(e.to_string());
        let axis = |axis: usize| {
            let input = volumes.get(self.spatial(axis)).copied();
            let input = input.ok_or(KernelError::Argument("volumes"))?;
            let (output, pad) = self.count(0, axis, input, window[axis]).map_err(invalid)?;
            Ok::<_, KernelError>(WindowAxis {
                input,
                output,
                window: window[axis],
                stride: self.strides[axis],
                dilation: self.dilations[axis],
                pad,
            })
        };
        Ok([axis(0)?, axis(1)?, axis(2)?])
    }
}

/// Layout given by attribute `data_format`, if there is one.
pub(super) fn layout(attrs: &Attrs) -> Layout {
    let format = attrs.get("data_format").map(|_| attrs.str("data_format"));
    match format {
        Some("NCDHW" | "CHANNELS_FIRST") => Layout::Nchw,
        _ => Layout::Nhwc,
    }
}

/// The three values of a five-element attribute for depth, lines and columns, each at least 1; those for volumes and
/// channels must be 1.
///
/// # Errors
/// [`InferError::Attr`].
pub(super) fn triple(
    layout: Layout,
    attrs: &Attrs,
    attr: &'static str,
) -> Result<[usize; 3], InferError> {
    let error = |reason: String| InferError::Attr { attr, reason };
    let &[a, b, c, d, e] = attrs.ints(attr) else {
        return Err(error(format!(
            "has {}, but must have 5, one for each dimension",
            counted(attrs.ints(attr).len(), "value")
        )));
    };
    let (channels, spatial) = match layout {
        Layout::Nhwc => (e, [b, c, d]),
        Layout::Nchw => (b, [c, d, e]),
    };
    if a != 1 || channels != 1 {
        return Err(error(format!(
            "is {a} for volumes and {channels} for channels: windows move over depth, lines and columns only, so both must be 1"
        )));
    }
    match spatial.map(positive) {
        [Some(depth), Some(lines), Some(columns)] => Ok([depth, lines, columns]),
        _ => Err(error(format!(
            "is {spatial:?} for depth, lines and columns; each must be between 1 and {}",
            i32::MAX
        ))),
    }
}

/// Checks that input `i` has the shape `expected` of the windows' results.
///
/// # Errors
/// [`InferError::Mismatch`].
pub(super) fn expect_result(
    cx: &Infer<'_>,
    i: usize,
    expected: &Shape,
) -> Result<Shape, InferError> {
    let found = cx.ranked(i, 5)?;
    expected.merge(&found).ok_or_else(|| InferError::Mismatch {
        what: format!("input {i} must have the shape of the forward op's output"),
        left: found,
        right: expected.clone(),
    })
}

/// Node of `op` with the windows of this node.
pub(super) fn node_like<'g>(g: &GradCx<'_, 'g>, op: &str) -> NodeBuilder<'g> {
    let copied = ["ksize", "strides", "padding", "data_format", "dilations"];
    let node = g.graph().op(op);
    copied
        .iter()
        .fold(node, |node, name| match g.attrs().get(name) {
            Some(value) => node.attr(name, value.clone()),
            None => node,
        })
}

/// Maximum number of elements of a tensor: beyond it no machine has enough memory.
const MAX_ELEMENTS: usize = 1 << 40;

/// `true` if there can be a tensor of these dimensions, whichever of them are zero.
pub(super) fn countable(dims: &[usize]) -> bool {
    dims.iter()
        .try_fold(1, |n: usize, &d| n.checked_mul(d.max(1)))
        .is_some_and(|n| n <= MAX_ELEMENTS)
}
