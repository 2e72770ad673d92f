//! The table of models by name, with the defaults of tf_cnn_benchmarks.

use thalweg_graph::Output;

use crate::nasnet::NasNet;
use crate::net::Net;
use crate::residual::Version;
use crate::{densenet, inception, mobilenet, nasnet, residual, sequential};

/// The data set that a model is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Data {
    /// ImageNet's: 1001 classes, the first of which is never used.
    ImageNet,
    /// CIFAR-10's: 11 classes, the last of which is never used.
    Cifar10,
    /// MNIST's: grey images of 10 classes.
    Mnist,
}

impl Data {
    /// The number of classes.
    pub fn classes(self) -> usize {
        match self {
            Data::ImageNet => 1001,
            Data::Cifar10 => 11,
            Data::Mnist => 10,
        }
    }

    /// The number of classes that images have.
    pub fn used_classes(self) -> usize {
        match self {
            Data::ImageNet => 1000,
            Data::Cifar10 | Data::Mnist => 10,
        }
    }

    /// The number of channels of an image.
    pub fn channels(self) -> usize {
        match self {
            Data::ImageNet | Data::Cifar10 => 3,
            Data::Mnist => 1,
        }
    }

    /// The number of training images.
    pub fn images(self) -> usize {
        match self {
            Data::ImageNet => 1_281_167,
            Data::Cifar10 => 50_000,
            Data::Mnist => 60_000,
        }
    }

    /// The number of validation images.
    pub fn validation_images(self) -> usize {
        match self {
            Data::ImageNet => 50_000,
            Data::Cifar10 | Data::Mnist => 10_000,
        }
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Data::ImageNet => "imagenet",
            Data::Cifar10 => "cifar10",
            Data::Mnist => "mnist",
        }
    }
}

/// The learning rate schedule of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// A constant rate.
    Constant(f64),
    /// This rate for each 256 images of a step, times 1, 0.1, ... at the epochs 30, 60, 80 and 90,
    /// after a warm-up of five epochs in which it grows from 0.
    Residual(f64),
    /// These rates, one after the other: each but the last until an epoch.
    Steps(&'static [(f64, usize)], f64),
    /// The rate, multiplied by a factor after every so many epochs.
    Decayed {
        /// The initial rate.
        rate: f64,
        /// The factor.
        factor: f64,
        /// The epochs.
        epochs: usize,
    },
}

/// A network, and the defaults of its training.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// Its name on the command line.
    pub name: &'static str,
    /// The data set that it is for.
    pub data: Data,
    /// Height and width of an image.
    pub size: usize,
    /// Batch size.
    pub batch: usize,
    /// The learning rate.
    pub rate: Rate,
    pub(crate) network: Layers,
}

/// The architecture of a network.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Layers {
    Plain(for<'g> fn(&mut Net<'g>, Output<'g>) -> Output<'g>),
    Vgg([usize; 5]),
    ResNet([usize; 4], Version),
    CifarResNet(usize, Version),
    DenseNet(usize, usize),
    NasNet(NasNet),
}

impl Layers {
    pub(crate) fn on<'g>(self, net: &mut Net<'g>, x: Output<'g>) -> Output<'g> {
        match self {
            Layers::Plain(build) => build(net, x),
            Layers::Vgg(blocks) => sequential::vgg(net, x, blocks),
            Layers::ResNet(blocks, version) => residual::imagenet(net, x, blocks, version),
            Layers::CifarResNet(blocks, version) => residual::cifar(net, x, blocks, version),
            Layers::DenseNet(layers, growth) => densenet::densenet(net, x, layers, growth),
            Layers::NasNet(shape) => nasnet::nasnet(net, x, shape),
        }
    }
}

/// All models.
pub fn all() -> &'static [Model] {
    &ALL
}

/// The model of this name for this data set; some names stand for one network with large images and
/// for another one with small ones.
pub fn find(name: &str, data: Data) -> Option<&'static Model> {
    let names = |m: &&Model| m.data == data && (m.name == name || is_alias(name, m.name));
    ALL.iter().find(names)
}

/// `true` for another name of the model.
fn is_alias(name: &str, model: &str) -> bool {
    (name, model) == ("lenet5", "lenet")
}

const fn imagenet(name: &'static str, size: usize, batch: usize, network: Layers) -> Model {
    Model {
        name,
        data: Data::ImageNet,
        size,
        batch,
        rate: Rate::Constant(0.005),
        network,
    }
}

const fn resnet(name: &'static str, batch: usize, blocks: [usize; 4], version: Version) -> Model {
    Model {
        rate: Rate::Residual(0.128),
        ..imagenet(name, 224, batch, Layers::ResNet(blocks, version))
    }
}

const fn cifar(name: &'static str, batch: usize, rate: Rate, network: Layers) -> Model {
    Model {
        name,
        data: Data::Cifar10,
        size: 32,
        batch,
        rate,
        network,
    }
}

const fn cifar_resnet(name: &'static str, blocks: usize, version: Version) -> Model {
    let rate = Rate::Steps(&[(0.1, 82), (0.01, 123), (0.001, 300)], 0.0002);
    cifar(name, 128, rate, Layers::CifarResNet(blocks, version))
}

const fn dense(name: &'static str, layers: usize, growth: usize) -> Model {
    let rate = Rate::Steps(&[(0.1, 150), (0.01, 225), (0.001, 300)], 0.0001);
    cifar(name, 64, rate, Layers::DenseNet(layers, growth))
}

pub(crate) const RESNET50: Model = resnet("resnet50", 64, [3, 4, 6, 3], Version::V1);
pub(crate) const INCEPTION3: Model =
    imagenet("inception3", 299, 32, Layers::Plain(inception::inception3));

const ALEXNET_CIFAR: Rate = Rate::Decayed {
    rate: 0.1,
    factor: 0.1,
    epochs: 100,
};

static ALL: [Model; 39] = [
    imagenet("trivial", 227, 32, Layers::Plain(sequential::trivial)),
    imagenet("lenet", 28, 32, Layers::Plain(sequential::lenet)),
    imagenet("alexnet", 227, 512, Layers::Plain(sequential::alexnet)),
    imagenet("overfeat", 231, 32, Layers::Plain(sequential::overfeat)),
    imagenet("vgg11", 224, 64, Layers::Vgg([1, 1, 2, 2, 2])),
    imagenet("vgg16", 224, 64, Layers::Vgg([2, 2, 3, 3, 3])),
    imagenet("vgg19", 224, 64, Layers::Vgg([2, 2, 4, 4, 4])),
    imagenet("googlenet", 224, 32, Layers::Plain(inception::googlenet)),
    INCEPTION3,
    imagenet("inception4", 299, 32, Layers::Plain(inception::inception4)),
    RESNET50,
    resnet("resnet101", 32, [3, 4, 23, 3], Version::V1),
    resnet("resnet152", 32, [3, 8, 36, 3], Version::V1),
    resnet("resnet50_v1.5", 64, [3, 4, 6, 3], Version::V1Half),
    resnet("resnet101_v1.5", 32, [3, 4, 23, 3], Version::V1Half),
    resnet("resnet152_v1.5", 32, [3, 8, 36, 3], Version::V1Half),
    resnet("resnet50_v2", 64, [3, 4, 6, 3], Version::V2),
    resnet("resnet101_v2", 32, [3, 4, 23, 3], Version::V2),
    resnet("resnet152_v2", 32, [3, 8, 36, 3], Version::V2),
    imagenet("mobilenet", 224, 32, Layers::Plain(mobilenet::mobilenet)),
    imagenet("nasnet", 224, 32, Layers::NasNet(nasnet::MOBILE)),
    imagenet("nasnetlarge", 331, 16, Layers::NasNet(nasnet::LARGE)),
    cifar(
        "trivial",
        32,
        Rate::Constant(0.005),
        Layers::Plain(sequential::trivial),
    ),
    cifar(
        "alexnet",
        128,
        ALEXNET_CIFAR,
        Layers::Plain(sequential::alexnet_cifar),
    ),
    cifar_resnet("resnet20", 3, Version::V1),
    cifar_resnet("resnet32", 5, Version::V1),
    cifar_resnet("resnet44", 7, Version::V1),
    cifar_resnet("resnet56", 9, Version::V1),
    cifar_resnet("resnet110", 18, Version::V1),
    cifar_resnet("resnet20_v2", 3, Version::V2),
    cifar_resnet("resnet32_v2", 5, Version::V2),
    cifar_resnet("resnet44_v2", 7, Version::V2),
    cifar_resnet("resnet56_v2", 9, Version::V2),
    cifar_resnet("resnet110_v2", 18, Version::V2),
    dense("densenet40_k12", 12, 12),
    dense("densenet100_k12", 32, 12),
    dense("densenet100_k24", 32, 24),
    cifar(
        "nasnet",
        32,
        Rate::Constant(0.025),
        Layers::NasNet(nasnet::CIFAR),
    ),
    Model {
        name: "deep_mnist",
        data: Data::Mnist,
        size: 28,
        batch: 50,
        rate: Rate::Constant(0.01),
        network: Layers::Plain(sequential::deep_mnist),
    },
];
