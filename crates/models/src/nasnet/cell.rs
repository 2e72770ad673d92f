//! The cells of NASNet-A: five pairs of earlier states, each pair transformed and added.

use thalweg_graph::Output;
use thalweg_layers::{Initializer, VariableScopes};
use thalweg_ops::Padding::{Same, Valid};
use thalweg_ops::{ArrayOps, DataFormat, MathOps, NnOps, RandomOps, SourceOps};
use thalweg_tensor::DType;

use crate::net::Net;
use crate::slim::Slim;
use crate::specs::Norm;

/// The transformation of one state of a pair.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transform {
    /// Two separable convolutions of this window.
    Separable(usize),
    Max,
    Mean,
    None,
}

use Transform::{Max, Mean, None as Keep, Separable};

/// The pairs: indices among the cell's inputs and the earlier pairs, and their transformations.
pub(crate) struct Pairs {
    all: [[(usize, Transform); 2]; 5],
    /// The inputs and pairs that are part of the result.
    ends: &'static [usize],
}

pub(crate) static NORMAL: Pairs = Pairs {
    all: [
        [(0, Separable(5)), (1, Separable(3))],
        [(1, Separable(5)), (1, Separable(3))],
        [(0, Mean), (1, Keep)],
        [(1, Mean), (1, Mean)],
        [(0, Separable(3)), (0, Keep)],
    ],
    ends: &[1, 2, 3, 4, 5, 6],
};

pub(crate) static REDUCTION: Pairs = Pairs {
    all: [
        [(0, Separable(5)), (1, Separable(7))],
        [(0, Max), (1, Separable(7))],
        [(0, Mean), (1, Separable(5))],
        [(3, Keep), (2, Mean)],
        [(2, Separable(3)), (0, Max)],
    ],
    ends: &[3, 4, 5, 6],
};

/// The name and options of a convolution of this size. tf_cnn_benchmarks does not enter NASNet's
/// own argument scope, so `slim`'s defaults apply.
pub(crate) fn slim(name: &str, window: usize, stride: usize) -> Slim<'_> {
    Slim {
        name,
        window,
        stride,
        padding: Same,
        initializer: Initializer::glorot_uniform(),
        relu: true,
    }
}

/// A cell.
pub(crate) struct Cell {
    pub(crate) pairs: &'static Pairs,
    pub(crate) filters: usize,
    pub(crate) stride: usize,
    pub(crate) norm: Norm,
    /// The share of paths kept at the end of a training.
    pub(crate) path: f64,
}

impl Cell {
    /// The cell on the output of the last cell and of another one; without another one, on the last
    /// one's twice.
    pub(crate) fn on<'g>(
        &self,
        net: &mut Net<'g>,
        x: Output<'g>,
        other: Option<Output<'g>>,
    ) -> Output<'g> {
        let other = other.map_or(x, |other| self.fitted(net, other, x));
        let first = net.slim_conv(x.relu(), self.filters, slim("1x1", 1, 1));
        let first = net.slim_norm(first, "beginning_bn", self.norm);
        let mut states = vec![first, other];
        for (at, pair) in self.pairs.all.iter().enumerate() {
            let graph = net.graph;
            let sum = graph.variable_scope(&*format!("comb_iter_{at}"), || {
                let [left, right] = [("left", pair[0]), ("right", pair[1])].map(|(side, one)| {
                    graph.variable_scope(side, || self.changed(net, states[one.0], one))
                });
                left + right
            });
            states.push(sum);
        }
        net.graph
            .variable_scope("cell_output", || self.ended(net, &mut states))
    }

    /// The output of an earlier cell, fitted to the size of `like` and the cell's channels.
    fn fitted<'g>(&self, net: &mut Net<'g>, other: Output<'g>, like: Output<'g>) -> Output<'g> {
        if lines(net, other) != lines(net, like) {
            return self.reduced(net, other.relu(), 2);
        }
        if net.channels(other) == self.filters {
            return other;
        }
        let y = net.slim_conv(other.relu(), self.filters, slim("prev_1x1", 1, 1));
        net.slim_norm(y, "prev_bn", self.norm)
    }

    /// A strided reduction to the cell's channels: half of them see the even pixels, and half the
    /// odd ones.
    fn reduced<'g>(&self, net: &mut Net<'g>, x: Output<'g>, stride: usize) -> Output<'g> {
        if stride == 1 {
            let y = net.slim_conv(x, self.filters, slim("path_conv", 1, 1));
            return net.slim_norm(y, "path_bn", self.norm);
        }
        let format = net.options.format;
        let half = self.filters / 2;
        let even = x.avg_pool([1, 1], [stride; 2], Valid, format);
        let even = net.slim_conv(even, half, slim("path1_conv", 1, 1));
        let odd = shifted(net, x).avg_pool([1, 1], [stride; 2], Valid, format);
        let odd = net.slim_conv(odd, half, slim("path2_conv", 1, 1));
        let both = net.joined(&[even, odd]);
        net.slim_norm(both, "final_path_bn", self.norm)
    }

    /// One state of a pair, transformed.
    fn changed<'g>(
        &self,
        net: &mut Net<'g>,
        x: Output<'g>,
        (from, change): (usize, Transform),
    ) -> Output<'g> {
        // States inside the cell are reduced already.
        let stride = if from < 2 { self.stride } else { 1 };
        let fits = net.channels(x) == self.filters;
        let narrow = |net: &mut Net<'g>, x, stride| {
            let y = net.slim_conv(x, self.filters, slim("1x1", 1, stride));
            net.slim_norm(y, "bn_1", self.norm)
        };
        let format = net.options.format;
        let y = match change {
            Keep if stride == 1 && fits => return x,
            Keep => return narrow(net, x.relu(), stride),
            Separable(window) => self.separable(net, x, window, stride),
            Max | Mean => {
                let y = match change {
                    Max => x.max_pool([3, 3], [stride; 2], Same, format),
                    _ => x.avg_pool([3, 3], [stride; 2], Same, format),
                };
                if fits { y } else { narrow(net, y, 1) }
            }
        };
        self.dropped(net, y)
    }

    /// Two separable convolutions, each after ReLU and before batch normalization.
    fn separable<'g>(
        &self,
        net: &mut Net<'g>,
        x: Output<'g>,
        window: usize,
        stride: usize,
    ) -> Output<'g> {
        let mut x = x;
        for (nth, stride) in [(1, stride), (2, 1)] {
            let name = format!("separable_{window}x{window}_{nth}");
            x = net.slim_separable(x.relu(), self.filters, slim(&name, window, stride));
            let name = format!("bn_sep_{window}x{window}_{nth}");
            x = net.slim_norm(x, &name, self.norm);
        }
        x
    }

    /// Drop path: drops `x` in some images during training.
    fn dropped<'g>(&self, net: &Net<'g>, x: Output<'g>) -> Output<'g> {
        let drops = net.options.training && net.options.drops;
        if !drops || self.path >= 1.0 {
            return x;
        }
        let (graph, dtype) = (net.graph, x.dtype());
        let images = x.shape_tensor().at(0..1);
        let shape = graph.concat(&[images, graph.constant([1i32, 1, 1])], 0);
        let keep = graph.constant(self.path as f32);
        let kept = (graph.random_uniform(shape, 0.0, 1.0, DType::F32, None) + keep).floor();
        x * (kept / keep).cast(dtype)
    }

    /// The states that are part of the result, concatenated.
    fn ended<'g>(&self, net: &mut Net<'g>, states: &mut [Output<'g>]) -> Output<'g> {
        let like = *states.last().expect("a cell has five pairs");
        for &at in self.pairs.ends {
            let stride = match lines(net, states[at]) == lines(net, like) {
                true => 1,
                false => 2,
            };
            if stride == 2 || net.channels(states[at]) != self.filters {
                let name = format!("reduction_{at}");
                let graph = net.graph;
                states[at] = graph.variable_scope(&*name, || self.reduced(net, states[at], stride));
            }
        }
        let ends: Vec<_> = self.pairs.ends.iter().map(|&at| states[at]).collect();
        net.joined(&ends)
    }
}

/// The width of images, which equals their height.
fn lines<'g>(net: &Net<'g>, x: Output<'g>) -> Option<usize> {
    x.shape().dim(match net.options.format {
        DataFormat::Nhwc => 2,
        DataFormat::Nchw => 3,
    })
}

/// Shifted by one row and one column, padded with zeros.
fn shifted<'g>(net: &Net<'g>, x: Output<'g>) -> Output<'g> {
    let (none, behind) = ([0, 0], [0, 1]);
    let (around, begin) = match net.options.format {
        DataFormat::Nhwc => ([none, behind, behind, none], [0, 1, 1, 0]),
        DataFormat::Nchw => ([none, none, behind, behind], [0, 0, 1, 1]),
    };
    let padded = x.pad(net.graph.constant(around));
    padded.slice(
        net.graph.constant(begin),
        net.graph.constant([-1i32, -1, -1, -1]),
    )
}
