//! The networks of `thalweg::models` against tf_cnn_benchmarks' own: names, shapes, three losses, and the gradients'
//! norms, at full width. `tests/golden/cnn.py` made the table.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::Value;
use thalweg::models::{Data, Options, find};
use thalweg::ops::{DataFormat, Variable};
use thalweg::parallel::{DataParallel, Decay, VariableUpdate};
use thalweg::prelude::*;

/// The networks of every run; the others take minutes, and a test of their own.
const QUICK: [(&str, &str); 5] = [
    ("trivial", "imagenet"),
    ("lenet", "imagenet"),
    ("googlenet", "imagenet"),
    ("resnet20", "cifar10"),
    ("resnet20_v2", "cifar10"),
];
/// Networks that flatten images.
const FLATTEN: [&str; 7] = [
    "trivial", "lenet", "alexnet", "overfeat", "vgg11", "vgg16", "vgg19",
];
const DECAY: f64 = 4e-5;
/// Tolerance of a first loss, which depends on no gradient. NASNet has nearly constant channels, whose last bits
/// normalization amplifies.
const FIRST_LOSS_TOLERANCE: [f64; 2] = [1e-4, 1e-3];
/// Tolerance of all other values: the effect of one active ReLU more or less on a gradient's norm, without and with
/// batch normalization.
const TOLERANCE: [f64; 2] = [1e-3, 2e-2];
/// Alternative tolerance: this multiple of TensorFlow's own variation when images change by a millionth.
const OWN_VARIATIONS: f64 = 3.0;

struct Record {
    model: String,
    data: String,
    batch: usize,
    rate: f32,
    /// TensorFlow's own variation when images change by a millionth.
    varies: f64,
    losses: Vec<f64>,
    norms: BTreeMap<String, f64>,
    shapes: BTreeMap<String, Vec<usize>>,
    moving_variances: BTreeMap<String, f64>,
}

fn lines() -> Vec<Record> {
    let packed: &[u8] = include_bytes!("../golden/cnn.jsonl.gz");
    let mut text = String::new();
    GzDecoder::new(packed).read_to_string(&mut text).unwrap();
    text.lines().map(Record::read).collect()
}

impl Record {
    fn read(text: &str) -> Record {
        let all: Value = serde_json::from_str(text).unwrap();
        let numbers = |key: &str| -> BTreeMap<String, f64> {
            let all = all[key].as_object().unwrap().iter();
            all.map(|(name, x)| (name.clone(), x.as_f64().unwrap()))
                .collect()
        };
        let dims = |x: &Value| -> Vec<usize> {
            let all = x.as_array().unwrap().iter();
            all.map(|d| d.as_u64().unwrap() as usize).collect()
        };
        let shapes = all["shapes"].as_object().unwrap().iter();
        let losses = all["losses"].as_array().unwrap().iter();
        Record {
            model: all["model"].as_str().unwrap().to_owned(),
            data: all["data"].as_str().unwrap().to_owned(),
            batch: all["batch"].as_u64().unwrap() as usize,
            rate: all["rate"].as_f64().unwrap() as f32,
            varies: all["varies"].as_f64().unwrap(),
            losses: losses.map(|x| x.as_f64().unwrap()).collect(),
            norms: numbers("norms"),
            shapes: shapes.map(|(name, x)| (name.clone(), dims(x))).collect(),
            moving_variances: numbers("moving_variances"),
        }
    }
}

/// Numbers from -1 to 1, by a name and the index: those of `cnn.py`.
fn uniform(name: &str, count: usize) -> impl Iterator<Item = f64> {
    let seed = crc32(name.as_bytes());
    (0..count as u32).map(move |i| {
        let mut x = i.wrapping_mul(2_654_435_761).wrapping_add(seed);
        for _ in 0..2 {
            x = (x ^ (x >> 16)).wrapping_mul(0x045d_9f3b);
        }
        f64::from(x ^ (x >> 16)) / 2f64.powi(31) - 1.0
    })
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

fn value(name: &str, dims: &[usize]) -> Tensor {
    let kind = name.rsplit('/').next().unwrap();
    let inputs: usize = match kind.contains("depthwise") {
        true => dims[..2].iter().product(),
        false => dims[..dims.len().saturating_sub(1)].iter().product(),
    };
    let of = |x: f64| match kind {
        "moving_mean" => 0.0,
        "moving_variance" => 1.0,
        "gamma" => 1.0 + 0.1 * x,
        _ if dims.len() == 1 => 0.05 * x,
        _ => x * (6.0 / inputs as f64).sqrt(),
    };
    let all: Vec<f32> = uniform(name, dims.iter().product())
        .map(|x| of(x) as f32)
        .collect();
    Tensor::new(dims, &all).unwrap()
}

/// The largest relative difference of a network from the table's.
fn compare(line: &Record, format: DataFormat) -> f64 {
    let data = match &*line.data {
        "cifar10" => Data::Cifar10,
        _ => Data::ImageNet,
    };
    let model = find(&line.model, data).unwrap();
    let g = Graph::new();
    let (n, size) = (line.batch, model.size);
    let images = g.placeholder(
        "images",
        DType::F32,
        [n as i64, size as i64, size as i64, 3],
    );
    let labels = g.placeholder("labels", DType::I32, [n as i64]);
    let options = Options::new().without_dropout().data_format(format);
    let training = DataParallel::new(VariableUpdate::ParameterServer)
        .decay(Decay::new(DECAY).only(|name| !name.contains("batchnorm")))
        .build(
            &g,
            |_| GradientDescent::new(line.rate),
            |tower| {
                let logits = model
                    .build(tower.graph(), images, data.classes(), &options)
                    .logits;
                logits.sparse_softmax_cross_entropy(labels).mean()
            },
        )
        .unwrap();
    let norms: Vec<(String, Output<'_>)> = training
        .gradients
        .iter()
        .map(|&(gradient, v)| {
            let decayed = match v.name().contains("batchnorm") {
                true => gradient,
                false => gradient + v.value() * DECAY,
            };
            (v.name(), decayed.square().sum().sqrt())
        })
        .collect();
    let found: BTreeMap<String, Vec<usize>> = (training.gradients.iter())
        .map(|(_, v)| (v.name(), v.shape().to_dims().unwrap().to_vec()))
        .collect();
    assert_eq!(found, line.shapes, "{}: names and shapes", line.model);
    let session = Session::new(&g).unwrap();
    training.initialize(&session).unwrap();
    for info in g.variables() {
        let variable = Variable::of(&g, &info);
        let dims = variable.shape().to_dims().unwrap();
        if !dims.is_empty() {
            let fed = g.placeholder("value", DType::F32, variable.shape());
            let assign = variable.assign(fed);
            session
                .run(assign, [fed.feed(value(&info.name, &dims))])
                .unwrap();
        }
    }
    let pixels: Vec<f32> = uniform("images", n * size * size * 3)
        .map(|x| (x * 3f64.sqrt()) as f32)
        .collect();
    let classes: Vec<i32> = (0..n)
        .map(|i| ((7 * i + 3) % (data.classes() - 1)) as i32)
        .collect();
    let feeds = [
        images.feed(Tensor::new(&[n, size, size, 3], &pixels).unwrap()),
        labels.feed(classes),
    ];
    let outputs: Vec<Output<'_>> = norms.iter().map(|(_, norm)| *norm).collect();
    let ours: Vec<f32> = session.run(&outputs[..], &feeds).unwrap();
    let mut worst = 0f64;
    let mut see = |what: &str, ours: f64, theirs: f64| {
        let far = (ours - theirs).abs() / theirs.abs().max(1e-3);
        if far > TOLERANCE[1] {
            eprintln!("{} {what}: {ours}, and TensorFlow's {theirs}", line.model);
        }
        worst = worst.max(far);
    };
    for ((name, _), norm) in norms.iter().zip(ours) {
        see(name, f64::from(norm), line.norms[name]);
    }
    for (step, &loss) in line.losses.iter().enumerate() {
        let (ours, ()): (f32, ()) = session
            .run((training.total_loss, training.step), &feeds)
            .unwrap();
        // No gradient has been used before the first.
        let far = (f64::from(ours) - loss).abs() / loss;
        let most = FIRST_LOSS_TOLERANCE[usize::from(line.model == "nasnet")];
        assert!(
            step > 0 || far <= most,
            "{}: {ours}, and TensorFlow's {loss}",
            line.model
        );
        see("loss", f64::from(ours), loss);
    }
    for (name, &sum) in &line.moving_variances {
        let info = g.variables().into_iter().find(|v| v.name == *name).unwrap();
        let value: Tensor = session.run(info.value, []).unwrap();
        let ours: f64 = value
            .as_slice::<f32>()
            .unwrap()
            .iter()
            .map(|x| f64::from(x.abs()))
            .sum();
        see(name, ours, sum);
    }
    worst
}

fn assert_networks_match(wanted: impl Fn(&Record) -> bool) {
    let (mut seen, mut far) = (0, Vec::new());
    for line in lines().iter().filter(|l| wanted(l)) {
        // The weights after a flattening differ where channels come first.
        let flattens = FLATTEN.contains(&&*line.model);
        let formats = [DataFormat::Nhwc, DataFormat::Nchw];
        for format in formats
            .into_iter()
            .filter(|&f| !flattens || f == DataFormat::Nhwc)
        {
            let worst = compare(line, format);
            println!(
                "{} {} {format:?}: {worst:.1e}, TensorFlow's own {:.1e}",
                line.model, line.data, line.varies
            );
            let normalized = !line.moving_variances.is_empty();
            if worst > TOLERANCE[usize::from(normalized)].max(OWN_VARIATIONS * line.varies) {
                far.push(format!(
                    "{} {} {format:?}: {worst:.1e}",
                    line.model, line.data
                ));
            }
        }
        seen += 1;
    }
    assert!(seen > 0);
    assert!(far.is_empty(), "{far:?}");
}

#[test]
fn small_networks_match_tf_cnn_benchmarks() {
    assert_networks_match(|line| QUICK.contains(&(&*line.model, &*line.data)));
}

#[test]
#[ignore = "takes minutes: run it by name, optimised"]
fn all_networks_match_tf_cnn_benchmarks() {
    assert_networks_match(|_| true);
}
