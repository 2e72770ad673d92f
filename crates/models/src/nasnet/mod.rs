//! NASNet-A (Zoph et al., 2017).

mod cell;

use thalweg_graph::Output;
use thalweg_layers::VariableScopes;
use thalweg_ops::NnOps;
use thalweg_ops::Padding::Valid;

use crate::net::Net;
use crate::slim::Slim;
use crate::specs::Norm;
use cell::{Cell, NORMAL, REDUCTION, slim};

/// The configuration of a NASNet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NasNet {
    cells: usize,
    filters: usize,
    stem: usize,
    /// The share of paths kept at the end of a training.
    path: f64,
    norm: Norm,
    /// `true` for large images: two cells reduce them first.
    large_images: bool,
    /// `true` if the cell after a reduction takes the state before it.
    skips_reduction: bool,
}

/// For images of 224 x 224 pixels.
pub(crate) const MOBILE: NasNet = NasNet {
    cells: 12,
    filters: 44,
    stem: 32,
    path: 1.0,
    norm: Norm::USUAL,
    large_images: true,
    skips_reduction: false,
};

/// For images of 331 x 331 pixels.
pub(crate) const LARGE: NasNet = NasNet {
    cells: 18,
    filters: 168,
    stem: 96,
    path: 0.7,
    skips_reduction: true,
    ..MOBILE
};

/// For images of 32 x 32 pixels.
pub(crate) const CIFAR: NasNet = NasNet {
    cells: 18,
    filters: 32,
    stem: 96,
    path: 0.6,
    large_images: false,
    ..MOBILE
};

/// A chain of cells, each of which takes the outputs of the two before it.
pub(crate) fn nasnet<'g>(net: &mut Net<'g>, x: Output<'g>, shape: NasNet) -> Output<'g> {
    let mut cells = Cells::new(shape);
    let mut x = match shape.large_images {
        true => cells.stem(net, x),
        false => cells.small_stem(net, x),
    };
    let reductions = [shape.cells / 3, 2 * shape.cells / 3];
    for at in 0..shape.cells {
        let before_reduction = cells.before();
        if let Some(nth) = reductions.iter().position(|&r| r == at) {
            cells.filters *= 2;
            let name = format!("reduction_cell_{nth}");
            x = cells.add(net, x, &name, &REDUCTION, 2, cells.before());
        }
        let other = match shape.skips_reduction {
            true => before_reduction,
            false => cells.before(),
        };
        x = cells.add(net, x, &format!("cell_{at}"), &NORMAL, 1, other);
    }
    net.graph
        .variable_scope("final_layer", || net.mean(x.relu()))
}

/// The cells so far.
struct Cells<'g> {
    shape: NasNet,
    /// Their outputs, in order.
    made: Vec<Output<'g>>,
    /// The channels inside the next cell.
    filters: usize,
    count: usize,
}

impl<'g> Cells<'g> {
    fn new(shape: NasNet) -> Cells<'g> {
        Cells {
            shape,
            made: Vec::new(),
            filters: shape.filters,
            count: 0,
        }
    }

    /// The output of the cell before the last one, if there was one.
    fn before(&self) -> Option<Output<'g>> {
        let at = self.made.len().checked_sub(2)?;
        self.made.get(at).copied()
    }

    /// A convolution and two cells, each of which halves height and width.
    fn stem(&mut self, net: &mut Net<'g>, x: Output<'g>) -> Output<'g> {
        let first = Slim {
            padding: Valid,
            ..slim("conv0", 3, 2)
        };
        let x = net.slim_conv(x, self.shape.stem, first);
        let mut x = net.slim_norm(x, "conv0_bn", self.shape.norm);
        self.made.push(x);
        for at in 0..2 {
            self.filters = self.shape.filters >> (2 - at);
            let name = format!("cell_stem_{at}");
            x = self.add(net, x, &name, &REDUCTION, 2, self.before());
        }
        self.filters = self.shape.filters;
        x
    }

    fn small_stem(&mut self, net: &mut Net<'g>, x: Output<'g>) -> Output<'g> {
        let x = net.slim_conv(x, self.shape.stem, slim("l1_stem_3x3", 3, 1));
        let x = net.slim_norm(x, "l1_stem_bn", self.shape.norm);
        self.made.push(x);
        x
    }

    /// Adds a cell, on the output of the last one and on `other`.
    fn add(
        &mut self,
        net: &mut Net<'g>,
        x: Output<'g>,
        name: &str,
        pairs: &'static cell::Pairs,
        stride: usize,
        other: Option<Output<'g>>,
    ) -> Output<'g> {
        // Two reductions count as well, and with large images two cells of the stem.
        let all = self.shape.cells + if self.shape.large_images { 4 } else { 2 };
        let depth = (self.count + 1) as f64 / all as f64;
        let cell = Cell {
            pairs,
            filters: self.filters,
            stride,
            norm: self.shape.norm,
            path: 1.0 - depth * (1.0 - self.shape.path),
        };
        let made = net.graph.variable_scope(name, || cell.on(net, x, other));
        self.count += 1;
        self.made.push(made);
        made
    }
}
