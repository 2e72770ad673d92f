//! Benchmark cases: networks, convolutions and ops that a peer can run too.

use serde_json::{Value, json};
use thalweg::ops::DataFormat;

use thalweg_examples::convs::{Conv, INCEPTION_V3, RESNET_50};

/// Images in the convolutions that are compared.
const CONV_BATCH: usize = 8;

/// A convolution's forward pass or one of its gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    Forward,
    /// The gradient to the images.
    Images,
    /// The gradient to the filter.
    Filter,
}

impl Pass {
    const ALL: [Pass; 3] = [Pass::Forward, Pass::Images, Pass::Filter];

    pub fn name(self) -> &'static str {
        match self {
            Pass::Forward => "forward",
            Pass::Images => "images",
            Pass::Filter => "filter",
        }
    }
}

/// A network that is trained, or that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchNetwork {
    DeepMnist,
    LeNet,
}

impl BenchNetwork {
    pub fn name(self) -> &'static str {
        match self {
            BenchNetwork::DeepMnist => "deep_mnist",
            BenchNetwork::LeNet => "lenet",
        }
    }
}

/// Work of a case.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// A step of linear regression over 16 points.
    Line { callable: bool },
    /// A step of training.
    Train {
        model: BenchNetwork,
        format: DataFormat,
        batch: usize,
    },
    /// Inference of a batch.
    Infer {
        model: BenchNetwork,
        format: DataFormat,
        batch: usize,
    },
    /// One product of a convolution.
    Conv {
        conv: Conv,
        pass: Pass,
        format: DataFormat,
    },
    /// `[m, k]` times `[k, n]`, either transposed before.
    Product {
        m: usize,
        n: usize,
        k: usize,
        transposed: [bool; 2],
    },
    /// A chain of elementwise ops.
    Chain { ops: usize, numbers: usize },
    /// The mean of softmax cross entropies, and its gradient.
    CrossEntropy { rows: usize, classes: usize },
    /// Adam's update of one variable.
    Adam { numbers: usize },
}

/// A benchmark case.
#[derive(Clone, Debug)]
pub struct Case {
    pub work: Work,
    pub threads: usize,
}

/// Lower bounds of a case's operations and memory traffic.
#[derive(Clone, Copy, Debug, Default)]
pub struct Floor {
    /// Operations; a multiplication and an addition are two.
    pub flops: f64,
    /// Bytes between memory and caches.
    pub bytes: f64,
}

/// Floats of this many bytes.
fn bytes(floats: usize) -> f64 {
    (floats * size_of::<f32>()) as f64
}

impl Case {
    /// Name of the case, group first.
    pub fn name(&self) -> String {
        let threads = format!("{}t", self.threads);
        match self.work {
            Work::Line { callable: true } => format!("line/callable/{threads}"),
            Work::Line { callable: false } => format!("line/run/{threads}"),
            Work::Train {
                model,
                format,
                batch,
            } => {
                format!("train/{}/{}/{batch}/{threads}", model.name(), format.name())
            }
            Work::Infer {
                model,
                format,
                batch,
            } => {
                format!("infer/{}/{}/{batch}/{threads}", model.name(), format.name())
            }
            Work::Conv { conv, pass, format } => {
                format!(
                    "conv/{}/{}/{}/{threads}",
                    pass.name(),
                    format.name(),
                    conv.name()
                )
            }
            Work::Product {
                m,
                n,
                k,
                transposed,
            } => {
                let mark = |t: bool| if t { "'" } else { "" };
                let [a, b] = transposed.map(mark);
                format!("product/{m}x{k}{a} {k}x{n}{b}/{threads}")
            }
            Work::Chain { ops, numbers } => format!("chain/{ops} ops/{numbers}/{threads}"),
            Work::CrossEntropy { rows, classes } => {
                format!("cross_entropy/{rows}x{classes}/{threads}")
            }
            Work::Adam { numbers } => format!("adam/{numbers}/{threads}"),
        }
    }

    /// The request to a peer.
    pub fn request(&self) -> Value {
        let threads = self.threads;
        match self.work {
            Work::Line { .. } => json!({"kind": "line", "threads": threads}),
            Work::Train {
                model,
                format,
                batch,
            } => json!({
                "kind": "train", "model": model.name(), "format": format.name(), "batch": batch,
                "threads": threads,
            }),
            Work::Infer {
                model,
                format,
                batch,
            } => json!({
                "kind": "infer", "model": model.name(), "format": format.name(), "batch": batch,
                "threads": threads,
            }),
            Work::Conv { conv, pass, format } => json!({
                "kind": "conv", "pass": pass.name(), "format": format.name(), "batch": CONV_BATCH,
                "side": conv.side, "from": conv.from, "to": conv.to, "filter": conv.filter,
                "stride": conv.stride, "same": conv.same, "threads": threads,
            }),
            Work::Product {
                m,
                n,
                k,
                transposed,
            } => json!({
                "kind": "product", "m": m, "n": n, "k": k, "transposed": transposed,
                "threads": threads,
            }),
            Work::Chain { ops, numbers } => json!({
                "kind": "chain", "ops": ops, "numbers": numbers, "threads": threads,
            }),
            Work::CrossEntropy { rows, classes } => json!({
                "kind": "cross_entropy", "rows": rows, "classes": classes, "threads": threads,
            }),
            Work::Adam { numbers } => {
                json!({"kind": "adam", "numbers": numbers, "threads": threads})
            }
        }
    }

    /// Lower bounds of the case; zeros where they mean little.
    pub fn floor(&self) -> Floor {
        match self.work {
            Work::Line { .. } => Floor::default(),
            Work::Train {
                model: BenchNetwork::DeepMnist,
                batch,
                ..
            } => Floor {
                flops: 82e6 * batch as f64,
                // Adam: three reads and three writes of each number, and its gradient.
                bytes: bytes(3_274_634 * 7),
            },
            Work::Train {
                model: BenchNetwork::LeNet,
                ..
            }
            | Work::Infer {
                model: BenchNetwork::LeNet,
                ..
            } => Floor::default(),
            Work::Infer { batch, .. } => Floor {
                flops: 27.8e6 * batch as f64,
                bytes: bytes(3_274_634),
            },
            Work::Conv { conv, .. } => {
                let [h, w] = conv.out();
                let image = conv.side * conv.side * conv.from + h * w * conv.to;
                let filter = conv.filter[0] * conv.filter[1] * conv.from * conv.to;
                Floor {
                    flops: conv.flops() * CONV_BATCH as f64,
                    bytes: bytes(image * CONV_BATCH + filter),
                }
            }
            Work::Product { m, n, k, .. } => Floor {
                flops: 2.0 * m as f64 * n as f64 * k as f64,
                bytes: bytes(m * k + k * n + m * n),
            },
            Work::Chain { numbers, .. } => Floor {
                flops: 0.0,
                bytes: bytes(2 * numbers),
            },
            Work::CrossEntropy { rows, classes } => Floor {
                flops: 0.0,
                bytes: bytes(3 * rows * classes),
            },
            Work::Adam { numbers } => Floor {
                flops: 0.0,
                bytes: bytes(7 * numbers),
            },
        }
    }

    /// Images in a convolution.
    pub fn conv_batch(&self) -> usize {
        CONV_BATCH
    }

    /// Images of a step, where it has images.
    pub fn images(&self) -> Option<usize> {
        match self.work {
            Work::Train { batch, .. } | Work::Infer { batch, .. } => Some(batch),
            _ => None,
        }
    }
}

const FORMATS: [DataFormat; 2] = [DataFormat::Nhwc, DataFormat::Nchw];

/// All cases: linear regression on one thread, others on `threads`, and training of deep MNIST on one too.
pub fn all(threads: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |threads: usize, work: Work| cases.push(Case { work, threads });
    for callable in [true, false] {
        add(1, Work::Line { callable });
    }
    let networks = [
        (
            BenchNetwork::DeepMnist,
            &[1, 16, 50, 128, 512][..],
            &[1, 128][..],
        ),
        (BenchNetwork::LeNet, &[1, 128], &[1, 128]),
    ];
    let work =
        |training: bool, model: BenchNetwork, format: DataFormat, batch: usize| match training {
            true => Work::Train {
                model,
                format,
                batch,
            },
            false => Work::Infer {
                model,
                format,
                batch,
            },
        };
    for (model, trained, asked) in networks {
        for format in FORMATS {
            for &batch in trained {
                // One thread too, where there are several.
                if threads > 1 && model == BenchNetwork::DeepMnist {
                    add(1, work(true, model, format, batch));
                }
                add(threads, work(true, model, format, batch));
            }
            for &batch in asked {
                add(threads, work(false, model, format, batch));
            }
        }
    }
    let mut convs = RESNET_50.to_vec();
    convs.extend(INCEPTION_V3.iter().filter(|c| !RESNET_50.contains(c)));
    for conv in convs {
        for pass in Pass::ALL {
            for format in FORMATS {
                add(threads, Work::Conv { conv, pass, format });
            }
        }
    }
    // The dense layers of deep MNIST and of AlexNet: outputs, and both gradients.
    for (m, k, n) in [
        (50, 3136, 1024),
        (50, 1024, 10),
        (128, 9216, 4096),
        (128, 4096, 4096),
        (128, 4096, 1000),
        (1, 3136, 1024),
        (1, 9216, 4096),
    ] {
        let products = [
            (m, n, k, [false, false]),
            (m, k, n, [false, true]),
            (k, n, m, [true, false]),
        ];
        for (m, n, k, transposed) in products {
            add(
                threads,
                Work::Product {
                    m,
                    n,
                    k,
                    transposed,
                },
            );
        }
    }
    for ops in [1, 4, 16] {
        for numbers in [1 << 10, 1 << 16, 1 << 20, 16 << 20] {
            add(threads, Work::Chain { ops, numbers });
        }
    }
    let (rows, classes) = (128, 1000);
    add(threads, Work::CrossEntropy { rows, classes });
    for numbers in [3_300_000, 25_000_000] {
        add(threads, Work::Adam { numbers });
    }
    cases
}
