//! The cases on Thalweg: each is a graph and a session, as a user makes them.

use std::error::Error;

use thalweg::prelude::*;

use crate::case::{BenchNetwork, Case, Pass, Work};
use thalweg_examples::convs::Conv;
use thalweg_examples::model::{deep_mnist, synthetic_feeds};

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A measured step.
pub type Step<'a> = dyn FnMut() -> Result<()> + 'a;

/// Arbitrary numbers of this shape.
fn numbers(dims: &[usize]) -> Result<Tensor> {
    let mut tensor = Tensor::zeros(DType::F32, dims)?;
    for (i, x) in tensor.as_mut_slice::<f32>()?.iter_mut().enumerate() {
        *x = (i * 7919 % 1013) as f32 / 1013.0 - 0.5;
    }
    Ok(tensor)
}

/// A placeholder for this tensor.
fn placeholder_for<'g>(g: &'g Graph, tensor: &Tensor) -> Output<'g> {
    let dims: Vec<i64> = tensor.dims().iter().map(|&d| d as i64).collect();
    g.placeholder("fed", tensor.dtype(), dims)
}

fn session<'g>(g: &'g Graph, case: &Case) -> Result<Session<'g>> {
    let session = Session::with_options(g, SessionOptions::new().threads(case.threads))?;
    session.run(g.initializers(), [])?;
    Ok(session)
}

/// Builds a case, and passes its step to `measure`.
pub fn with<R>(case: &Case, measure: impl FnOnce(&mut Step<'_>) -> Result<R>) -> Result<R> {
    let g = Graph::new();
    g.set_seed(1);
    match case.work {
        Work::Line { callable } => line(&g, case, callable, measure),
        Work::Train {
            model,
            format,
            batch,
        } => match model {
            BenchNetwork::DeepMnist => {
                let net = deep_mnist(&g, format, 1e-4);
                let feeds = synthetic_feeds(batch)?;
                run(
                    &g,
                    case,
                    (net.train, net.loss),
                    &net.inputs(),
                    &feeds,
                    measure,
                )
            }
            BenchNetwork::LeNet => {
                let [images, labels, _] = synthetic_feeds(batch)?;
                let (x, y) = (placeholder_for(&g, &images), placeholder_for(&g, &labels));
                let loss = lenet(&g, x, format).softmax_cross_entropy(y).mean();
                let train = GradientDescent::new(0.01).minimize(loss);
                run(&g, case, (train, loss), &[x, y], &[images, labels], measure)
            }
        },
        Work::Infer {
            model,
            format,
            batch,
        } => {
            let [images, ..] = synthetic_feeds(batch)?;
            let x = placeholder_for(&g, &images);
            let logits = match model {
                BenchNetwork::DeepMnist => deep_mnist_logits(&g, x, format),
                BenchNetwork::LeNet => lenet(&g, x, format),
            };
            run(&g, case, logits.arg_max(1), &[x], &[images], measure)
        }
        Work::Conv { conv, pass, format } => convolution(&g, case, (conv, pass, format), measure),
        Work::Product {
            m,
            n,
            k,
            transposed: [ta, tb],
        } => {
            let a = numbers(&if ta { [k, m] } else { [m, k] })?;
            let b = numbers(&if tb { [n, k] } else { [k, n] })?;
            let (x, y) = (placeholder_for(&g, &a), placeholder_for(&g, &b));
            let product = x.matmul_t(y, ta, tb).operation();
            run(&g, case, product, &[x, y], &[a, b], measure)
        }
        Work::Chain { ops, numbers: n } => {
            let a = numbers(&[n])?;
            let x = placeholder_for(&g, &a);
            let chain = (0..ops).fold(x, |x, op| match op % 4 {
                0 => x * 1.01,
                1 => x + 0.1,
                2 => x.maximum(x.constant_like(-0.3)),
                _ => x * x,
            });
            run(&g, case, chain.operation(), &[x], &[a], measure)
        }
        Work::CrossEntropy { rows, classes } => {
            let a = numbers(&[rows, classes])?;
            let mut b = Tensor::zeros(DType::F32, &[rows, classes])?;
            for (i, row) in b.as_mut_slice::<f32>()?.chunks_mut(classes).enumerate() {
                row[i % classes] = 1.0;
            }
            let (x, y) = (placeholder_for(&g, &a), placeholder_for(&g, &b));
            let loss = x.softmax_cross_entropy(y).mean();
            let found = gradients(&[loss], &[x])[0].ok_or("a loss has a gradient")?;
            run(
                &g,
                case,
                (loss, found.operation()),
                &[x, y],
                &[a, b],
                measure,
            )
        }
        Work::Adam { numbers: n } => {
            let a = numbers(&[n])?;
            let gradient = placeholder_for(&g, &a);
            let w = g.variable("w", Tensor::zeros(DType::F32, &[n])?);
            let train = Adam::new(1e-4).apply_gradients(&g, &[(gradient, w)], None);
            run(&g, case, train, &[gradient], &[a], measure)
        }
    }
}

/// Passes a callable's step to `measure`.
fn run<'g, R>(
    g: &'g Graph,
    case: &Case,
    fetches: impl thalweg::session::Fetches,
    inputs: &[Output<'g>],
    feeds: &[Tensor],
    measure: impl FnOnce(&mut Step<'_>) -> Result<R>,
) -> Result<R> {
    let session = session(g, case)?;
    let mut step = session.callable(fetches, inputs)?;
    measure(&mut || Ok(step.call(feeds).map(|_| ())?))
}

fn line<R>(
    g: &Graph,
    case: &Case,
    callable: bool,
    measure: impl FnOnce(&mut Step<'_>) -> Result<R>,
) -> Result<R> {
    let points = numbers(&[16])?;
    let (x, y) = (placeholder_for(g, &points), placeholder_for(g, &points));
    let (w, b) = (g.variable("w", 0.0f32), g.variable("b", 0.0f32));
    let loss = (w * x + b - y).square().mean();
    let train = GradientDescent::new(0.1).minimize(loss);
    if callable {
        let feeds = [points.clone(), points];
        return run(g, case, (train, loss), &[x, y], &feeds, measure);
    }
    let session = session(g, case)?;
    measure(&mut || {
        session.step((train, loss), [x.feed(&points), y.feed(&points)])?;
        Ok(())
    })
}

/// Deep MNIST's logits, without dropout.
fn deep_mnist_logits<'g>(g: &'g Graph, x: Output<'g>, format: DataFormat) -> Output<'g> {
    let x = images(x, format);
    let x = conv_pool(g, x, [5, 1, 32], Padding::Same, format);
    let x = conv_pool(g, x, [5, 32, 64], Padding::Same, format);
    let x = dense(g, x.reshape([-1, 7 * 7 * 64]), [7 * 7 * 64, 1024]).relu();
    dense(g, x, [1024, 10])
}

/// LeNet-5 with rectified units and maximum pools.
fn lenet<'g>(g: &'g Graph, x: Output<'g>, format: DataFormat) -> Output<'g> {
    let x = images(x, format);
    let x = conv_pool(g, x, [5, 1, 6], Padding::Same, format);
    let x = conv_pool(g, x, [5, 6, 16], Padding::Valid, format);
    let x = dense(g, x.reshape([-1, 5 * 5 * 16]), [5 * 5 * 16, 120]).relu();
    let x = dense(g, x, [120, 84]).relu();
    dense(g, x, [84, 10])
}

fn images(x: Output<'_>, format: DataFormat) -> Output<'_> {
    match format {
        DataFormat::Nhwc => x.reshape([-1, 28, 28, 1]),
        DataFormat::Nchw => x.reshape([-1, 1, 28, 28]),
    }
}

fn conv_pool<'g>(
    g: &'g Graph,
    x: Output<'g>,
    [k, from, to]: [i32; 3],
    padding: Padding,
    format: DataFormat,
) -> Output<'g> {
    let filter = g.truncated_normal([k, k, from, to], 0.0, 0.1, DType::F32, None);
    let filter = g.variable("filter", filter);
    let bias = g.variable("bias", vec![0.1f32; to as usize]);
    x.conv2d(filter, [1, 1], padding, format)
        .bias_add(bias, format)
        .relu()
        .max_pool([2, 2], [2, 2], Padding::Same, format)
}

fn dense<'g>(g: &'g Graph, x: Output<'g>, [from, to]: [i32; 2]) -> Output<'g> {
    let weight = g.truncated_normal([from, to], 0.0, 0.1, DType::F32, None);
    let weight = g.variable("weight", weight);
    x.matmul(weight) + g.variable("bias", vec![0.1f32; to as usize])
}

fn convolution<R>(
    g: &Graph,
    case: &Case,
    (conv, pass, format): (Conv, Pass, DataFormat),
    measure: impl FnOnce(&mut Step<'_>) -> Result<R>,
) -> Result<R> {
    let [h, w] = conv.out();
    let shape = |h: usize, w: usize, c: usize| match format {
        DataFormat::Nhwc => [case.conv_batch(), h, w, c],
        DataFormat::Nchw => [case.conv_batch(), c, h, w],
    };
    let image = numbers(&shape(conv.side, conv.side, conv.from))?;
    let filter = numbers(&[conv.filter[0], conv.filter[1], conv.from, conv.to])?;
    let given = numbers(&shape(h, w, conv.to))?;
    let (x, f, dy) = (
        placeholder_for(g, &image),
        placeholder_for(g, &filter),
        placeholder_for(g, &given),
    );
    let padding = if conv.same {
        Padding::Same
    } else {
        Padding::Valid
    };
    let y = x.conv2d(f, [conv.stride; 2], padding, format);
    let done = gradients_with(&[y], &[x, f], &[Some(dy)], &[]);
    let asked = match pass {
        Pass::Forward => Some(y),
        Pass::Images => done[0],
        Pass::Filter => done[1],
    };
    let asked = asked.ok_or("a convolution has gradients")?.operation();
    run(
        g,
        case,
        asked,
        &[x, f, dy],
        &[image, filter, given],
        measure,
    )
}
