//! Ready-made convolutional networks, from LeNet to NASNet: those of the program tf_cnn_benchmarks,
//! with its layers, its variables' names and its initial values; and deep MNIST, that of TensorFlow's tutorial.
//!
//! ```
//! use thalweg_graph::Graph;
//! use thalweg_models as models;
//! use thalweg_ops::{NewGraph, SourceOps};
//! use thalweg_tensor::{DType, Shape};
//!
//! let g = Graph::new();
//! // Images are batches with channels last; batches of 16 here.
//! let images = g.placeholder("images", DType::F32, [16, 224, 224, 3]);
//! let network = models::resnet50(&g, images, 1001, &models::Options::new());
//! assert_eq!(network.logits.shape(), Shape::from([16, 1001]));
//! assert_eq!(g.variables()[0].name, "cg/conv0/conv2d/kernel");
//! assert!(g.errors().is_empty());
//!
//! // By name, with the program's defaults.
//! let model = models::find("resnet20", models::Data::Cifar10).expect("a model of that name");
//! assert_eq!((model.size, model.batch), (32, 128));
//! ```
//!
//! NASNet drops paths with the final rate of a training from its first step on; the program raises
//! it from step to step. The numbers of variables of MobileNet and NASNet were not compared with
//! the program's.
//!
//! Training them, on one device or on many, is not part of this crate.

mod columns;
mod densenet;
mod inception;
mod mobilenet;
mod nasnet;
mod net;
mod options;
mod residual;
mod sequential;
mod slim;
mod specs;
mod table;

use thalweg_graph::{Graph, Output};
use thalweg_layers::VariableScopes;
use thalweg_ops::{ArrayOps, DataFormat, SourceOps};
use thalweg_tensor::DType;

use net::Net;
pub use options::Options;
pub use table::{Data, Model, Rate, all, find};

/// The outputs of a network.
#[derive(Clone, Copy, Debug)]
pub struct Network<'g> {
    /// `[images, classes]`, f32.
    pub logits: Output<'g>,
    /// The logits of the auxiliary head, if it was requested and the network has one.
    pub auxiliary: Option<Output<'g>>,
}

impl Model {
    /// Builds the network on a batch of images, `[n, height, width, channels]`, with values in any range.
    /// Variables are made in the variable scope `cg` of the current one; a second network in the
    /// same scope needs one that [reuses](thalweg_layers::Reuse) variables.
    #[track_caller]
    pub fn build<'g>(
        &self,
        graph: &'g Graph,
        images: Output<'g>,
        classes: usize,
        options: &Options,
    ) -> Network<'g> {
        graph.at_caller(|| {
            graph.variable_scope("cg", || {
                let mut net = Net::new(graph, options);
                let x = self.network.on(&mut net, prepared(images, options));
                let logits = net.logits(x, classes, None);
                let auxiliary = net.auxiliary.map(|x| net.logits(x, classes, Some(0.001)));
                Network { logits, auxiliary }
            })
        })
    }
}

/// Converts images to the dtype and the data format of the network.
fn prepared<'g>(images: Output<'g>, options: &Options) -> Output<'g> {
    let images = match options.compute {
        DType::F32 => images,
        dtype => images.cast(dtype),
    };
    match options.format {
        DataFormat::Nhwc => images,
        DataFormat::Nchw => images.transpose(images.graph().constant([0i32, 3, 1, 2])),
    }
}

/// ResNet-50 (He et al., 2015) on images of about 224 x 224 pixels; see [`Model::build`]. All
/// others are in [`find`]'s table.
#[track_caller]
pub fn resnet50<'g>(
    graph: &'g Graph,
    images: Output<'g>,
    classes: usize,
    options: &Options,
) -> Network<'g> {
    table::RESNET50.build(graph, images, classes, options)
}

/// Inception v3 (Szegedy et al., 2015) on images of 299 x 299 pixels; see [`Model::build`].
#[track_caller]
pub fn inception3<'g>(
    graph: &'g Graph,
    images: Output<'g>,
    classes: usize,
    options: &Options,
) -> Network<'g> {
    table::INCEPTION3.build(graph, images, classes, options)
}
