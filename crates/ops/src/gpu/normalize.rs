//! GPU launches of batch normalization and of local response normalization.

use thalweg_cpu::batch_norm::Channels;
use thalweg_cpu::lrn::Response;
use thalweg_device::gpu::{Arg, Launch, Launches};
use thalweg_device::{KernelError, Prepare};

use super::fill::zero;
use super::segments::SumSegments;
use super::sources::{BATCH_NORM, LRN};

/// Maximum bytes of a channel's statistics in `kernels/batch_norm.cu`.
const MAX_CHANNEL_BYTES: usize = 12;

/// Channels as `struct Channels` of `kernels/batch_norm.cu`.
fn to_struct(g: &Channels) -> [usize; 2] {
    [g.channels, g.after]
}

/// Bytes for a value of this size for each channel; 0 if there are no elements, since nothing is written then.
fn channel_bytes(g: &Channels, size: usize) -> usize {
    if g.elements() == 0 {
        size
    } else {
        g.channels * size
    }
}

/// Split of the sums of each channel. Adjacent channels are loaded together, 16 bytes at a time.
fn sum_segments(p: &Prepare<'_>, g: &Channels) -> SumSegments {
    let lanes = 16 / p.dtype(0).size();
    match g.after == 1 && g.channels.is_multiple_of(lanes) {
        true => SumSegments::packed(g.channels, g.count(), lanes),
        false => SumSegments::new(g.channels, g.count(), g.after > 1),
    }
}

/// Batch normalization of images with this view, plus an input, and bounded by 0 from below with `relu`.
pub(crate) fn batch_norm(
    p: &Prepare<'_>,
    g: &Channels,
    (side, relu): (Option<usize>, bool),
) -> Result<Launches, KernelError> {
    let attrs = &p.node.attrs;
    let (n, types) = (g.elements(), [p.dtype(0)]);
    let epsilon = attrs.float("epsilon");
    let training = attrs.bool("is_training");
    let segments = sum_segments(p, g);
    let (partial, rate) = (
        Arg::Scratch(0),
        Arg::Scratch(segments.bytes(MAX_CHANNEL_BYTES)),
    );
    let launch = |name| Launch::over(n.max(g.channels), &BATCH_NORM, name, &types);
    let mut launches = Launches {
        scratch: segments.bytes(MAX_CHANNEL_BYTES) + channel_bytes(g, size_of::<f32>()),
        ..Launches::default()
    };
    let reserve = (p.outputs.len() > 5).then_some(5);
    if g.channels == 0 {
        launches
            .list
            .extend(reserve.map(|i| zero(p, i)).transpose()?);
        return Ok(launches);
    }
    let with_reserve = |launch: Launch| match reserve {
        Some(i) => launch.output(i),
        None => launch.value(0u64),
    };
    if training || n == 0 {
        if n > 0 {
            let moments = launch("BatchNormMoments").input(0).arg(partial.clone());
            let moments = moments
                .indices(&to_struct(g))
                .indices(&segments.to_struct());
            launches.list.push(segments.partial_sums(moments));
        }
        let statistics = launch("BatchNormStatistics").arg(partial).input(1);
        let statistics = (1..5).fold(statistics.input(3).input(4), Launch::output);
        let statistics = statistics.arg(rate.clone()).indices(&segments.to_struct());
        let statistics = statistics.value(epsilon);
        let statistics = statistics.value(attrs.float("exponential_avg_factor"));
        launches.list.push(segments.join(with_reserve(statistics)));
    } else {
        let fixed = launch("BatchNormFixed").input(1).input(3).input(4);
        let fixed = (1..5).fold(fixed, Launch::output).arg(rate.clone());
        let fixed = fixed.indices(&[g.channels]).value(epsilon);
        launches.list.push(with_reserve(fixed));
    }
    if n > 0 {
        let mean = match training {
            true => Arg::Output(3),
            false => Arg::Input(3),
        };
        let name = match side {
            None => "BatchNorm",
            Some(_) => "BatchNormAdd",
        };
        let apply = launch(name).input(0).arg(mean).arg(rate).input(2);
        let apply = apply.output(0).indices(&[n]).indices(&to_struct(g));
        let apply = apply.indices(&[usize::from(relu)]);
        launches
            .list
            .push(side.into_iter().fold(apply, Launch::input));
    }
    Ok(launches)
}

/// Gradients of batch normalization of images with this view. With an input for the offset, the gradient in input 0 is
/// that of a ReLU behind it.
pub(crate) fn batch_norm_grad(p: &Prepare<'_>, g: &Channels, relu: Option<usize>) -> Launches {
    let attrs = &p.node.attrs;
    let (n, types) = (g.elements(), [p.dtype(0)]);
    let segments = sum_segments(p, g);
    let (partial, factors) = (
        Arg::Scratch(0),
        Arg::Scratch(segments.bytes(MAX_CHANNEL_BYTES)),
    );
    let launch = |name| Launch::over(n.max(g.channels), &BATCH_NORM, name, &types);
    if g.channels == 0 {
        return Launches::default();
    }
    let mut launches = Launches {
        scratch: segments.bytes(MAX_CHANNEL_BYTES) + channel_bytes(g, MAX_CHANNEL_BYTES),
        ..Launches::default()
    };
    let epsilon = attrs.float("epsilon");
    if n > 0 {
        let products = match relu {
            None => launch("BatchNormProducts").input(0).input(1).input(3),
            Some(offset) => {
                let products = launch("BatchNormReluProducts").input(0).input(1).input(3);
                products.input(2).input(4).input(offset).value(epsilon)
            }
        };
        let products = products.arg(partial.clone()).indices(&to_struct(g));
        launches
            .list
            .push(segments.partial_sums(products.indices(&segments.to_struct())));
    }
    let gradients = launch("BatchNormGradients").arg(partial).input(2).input(4);
    let gradients = gradients.output(1).output(2).arg(factors.clone());
    let gradients = gradients.indices(&segments.to_struct());
    launches.list.push(segments.join(gradients.value(epsilon)));
    if n > 0 {
        let name = match relu {
            None => "BatchNormGrad",
            Some(_) => "BatchNormReluGrad",
        };
        let apply = launch(name).input(0).input(1).input(3).arg(factors);
        let apply = apply.output(0).indices(&[n]).indices(&to_struct(g));
        let training = usize::from(attrs.bool("is_training"));
        let apply = apply.indices(&[training]);
        launches
            .list
            .push(relu.into_iter().fold(apply, Launch::input));
    }
    launches
}

/// Local response normalization of the images in input 0.
pub(crate) fn lrn(p: &Prepare<'_>, g: &Response) -> Launches {
    let n = g.pixels * g.channels;
    let launch = Launch::over(n, &LRN, "LRN", &[p.dtype(0)])
        .input(0)
        .output(0);
    let launch = launch.indices(&[n]).indices(&[g.channels, g.radius]);
    launch.value(g.bias).value(g.alpha).value(g.beta).into()
}

/// Gradient of local response normalization.
pub(crate) fn lrn_grad(p: &Prepare<'_>, g: &Response) -> Launches {
    let n = g.pixels * g.channels;
    if n == 0 {
        return Launches::default();
    }
    let response = [g.channels, g.radius];
    let norms = Launch::over(n, &LRN, "LRNNorms", &[p.dtype(0)]).input(1);
    let norms = norms.arg(Arg::Scratch(0)).indices(&[n]).indices(&response);
    let gradient = Launch::over(n, &LRN, "LRNGrad", &[p.dtype(0)]);
    let gradient = gradient.input(0).input(1).input(2).arg(Arg::Scratch(0));
    let gradient = gradient.output(0).indices(&[n]).indices(&response);
    Launches {
        list: [
            norms.value(g.bias).value(g.alpha),
            gradient.value(g.alpha).value(g.beta),
        ]
        .into_iter()
        .collect(),
        scratch: n * size_of::<f32>(),
        ..Launches::default()
    }
}
