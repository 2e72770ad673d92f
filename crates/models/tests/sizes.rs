//! The networks have the variables of tf_cnn_benchmarks' own: their number and size, checked
//! against that program.

use thalweg_graph::{Graph, VariableInfo};
use thalweg_models::{Data, Options, all, find};
use thalweg_ops::{DataFormat, NewGraph, SourceOps};
use thalweg_tensor::{DType, Shape};

/// Name, data; trainable variables, their elements, the elements of moving averages, and those of
/// the largest variable.
const SIZES: [(&str, Data, usize, usize, usize, usize); 31] = {
    use Data::{Cifar10 as C, ImageNet as I};
    [
        ("trivial", I, 6, 4_263_877, 0, 4_100_096),
        ("lenet", I, 8, 2_173_353, 0, 1_605_632),
        ("alexnet", I, 16, 61_842_345, 0, 37_748_736),
        ("overfeat", I, 16, 145_924_969, 0, 113_246_208),
        ("vgg11", I, 22, 132_867_433, 0, 102_760_448),
        ("vgg16", I, 32, 138_361_641, 0, 102_760_448),
        ("vgg19", I, 38, 143_671_337, 0, 102_760_448),
        ("googlenet", I, 116, 6_999_577, 0, 1_025_024),
        ("inception3", I, 190, 23_819_401, 34_432, 2_050_048),
        ("inception4", I, 300, 42_649_769, 63_168, 1_537_536),
        ("resnet50", I, 161, 25_559_081, 53_120, 2_359_296),
        ("resnet50_v1.5", I, 161, 25_559_081, 53_120, 2_359_296),
        ("resnet50_v2", I, 138, 25_536_361, 45_568, 2_359_296),
        ("resnet101", I, 314, 44_551_209, 105_344, 2_359_296),
        ("resnet101_v2", I, 274, 44_511_081, 97_792, 2_359_296),
        ("resnet152", I, 467, 60_194_857, 151_424, 2_359_296),
        ("resnet152_v2", I, 410, 60_139_369, 143_872, 2_359_296),
        ("trivial", C, 6, 56_332, 0, 45_056),
        ("alexnet", C, 10, 1_756_619, 0, 1_572_864),
        ("resnet20", C, 59, 269_787, 1_376, 36_864),
        ("resnet20_v2", C, 51, 269_467, 1_408, 36_864),
        ("resnet32", C, 95, 464_219, 2_272, 36_864),
        ("resnet32_v2", C, 81, 463_675, 2_304, 36_864),
        ("resnet44", C, 131, 658_651, 3_168, 36_864),
        ("resnet44_v2", C, 111, 657_883, 3_200, 36_864),
        ("resnet56", C, 167, 853_083, 4_064, 36_864),
        ("resnet56_v2", C, 141, 852_091, 4_096, 36_864),
        ("resnet110", C, 329, 1_728_027, 8_096, 36_864),
        ("densenet40_k12", C, 158, 357_491, 7_280, 16_848),
        ("densenet100_k12", C, 398, 2_217_411, 42_240, 42_768),
        ("densenet100_k24", C, 398, 8_659_995, 83_424, 171_072),
    ]
};

/// The variables of a network: the trainable ones, their elements, those of moving averages, and
/// the largest.
fn sizes(name: &str, data: Data, options: &Options) -> (usize, usize, usize, usize) {
    let model = find(name, data).unwrap();
    let g = Graph::new();
    let n = model.size;
    let images = g.placeholder("images", DType::F32, [2, n, n, data.channels()]);
    let network = model.build(&g, images, data.classes(), options);
    assert!(g.errors().is_empty(), "{name}: {:?}", g.errors());
    assert_eq!(network.logits.shape(), Shape::from([2, data.classes()]));
    let elements = |v: &VariableInfo| {
        let shape = g.output(v.value).shape();
        shape.to_dims().unwrap().iter().product::<usize>()
    };
    let (learn, averages): (Vec<_>, Vec<_>) = g.variables().into_iter().partition(|v| v.trainable);
    (
        learn.len(),
        learn.iter().map(elements).sum(),
        averages.iter().map(elements).sum(),
        learn.iter().map(elements).max().unwrap(),
    )
}

#[test]
fn networks_have_the_variables_of_tf_cnn_benchmarks() {
    for format in [DataFormat::Nhwc, DataFormat::Nchw] {
        let options = Options::new().data_format(format);
        for (name, data, variables, parameters, averages, largest) in SIZES {
            let found = sizes(name, data, &options);
            let expected = (variables, parameters, averages, largest);
            assert_eq!(found, expected, "{name} {data:?} {format:?}");
        }
    }
}

#[test]
fn an_auxiliary_head_has_six_variables() {
    let found = sizes("inception3", Data::ImageNet, &Options::new().auxiliary());
    assert_eq!(found, (196, 27_145_970, 36_224, 2_457_600));
}

#[test]
fn deep_mnist_has_the_variables_of_its_tutorial() {
    let found = sizes("deep_mnist", Data::Mnist, &Options::new());
    assert_eq!(found, (8, 3_274_634, 0, 3_211_264));
}

#[test]
fn all_models_are_built_for_use_and_in_half_precision() {
    for model in all() {
        for options in [
            Options::new().inference(),
            Options::new().compute(DType::BF16),
            Options::new().compute(DType::F16).weights(DType::F16),
        ] {
            sizes(model.name, model.data, &options);
        }
    }
}
