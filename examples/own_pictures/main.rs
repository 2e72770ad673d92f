//! Your own pictures: a folder of class folders to a trained, saved and exported network. Without a folder it makes
//! pictures of three shapes, and is right for more than 95% of those it has not seen.
//!
//! ```text
//! cargo run --release --example own_pictures [FOLDER [OUT]]
//! ```
//! OUT gets a checkpoint, `model-N`, and a SavedModel, `exported`.

mod matrix;
mod shapes;

use std::error::Error;
use std::path::{Path, PathBuf};

use thalweg::data::pipeline::{Remainder, from_vec};
use thalweg::data::{DataError, ImageFolder, read_file};
use thalweg::image::preprocess::{Draws, Evaluation, Training, Workspace};
use thalweg::layers::metrics::confusion_matrix;
use thalweg::layers::{batch_norm, conv2d, dense, losses, max_pool, update_ops};
use thalweg::prelude::*;
use thalweg::train::saved_model::{DEFAULT_SIGNATURE, ModelOptions, save_model};
use thalweg_examples::output;

const SIDE: usize = 32;
const BATCH: usize = 32;
const EPOCHS: u64 = 8;
const SEED: u64 = 1;

/// A picture as `[SIDE, SIDE, 3]`, from -1 to 1, and its label. `number` is that of a training image: its window and
/// its mirroring follow from it.
fn image(path: &Path, label: i64, number: Option<u64>) -> Result<[Tensor; 2], DataError> {
    let file = read_file(path)?;
    let mut image = Tensor::zeros(DType::F32, &[SIDE, SIDE, 3])?;
    let (out, mut workspace) = (image.as_mut_slice()?, Workspace::default());
    let made = match number {
        Some(number) => {
            let mut training = Training::new(SIDE, SIDE);
            training.sampler.area = [0.6, 1.0];
            let mut draws = Draws::new(SEED, number);
            training.run(&file, &[], 0, &mut draws, &mut workspace, out)
        }
        None => Evaluation::new(SIDE, SIDE).run(&file, 0, &mut workspace, out),
    };
    made.map_err(|e| DataError::Function(format!("{}: {e}", path.display()).into()))?;
    Ok([image, Tensor::from(label)])
}

/// Logits of images `[n, SIDE, SIDE, 3]`.
fn network<'g>(images: Output<'g>, training: Output<'g>, classes: usize) -> Output<'g> {
    let block = |x, channels| {
        let conv = conv2d(channels, 3).padding(Padding::Same).without_bias();
        let x = batch_norm().momentum(0.9).training(training).on(conv.on(x));
        max_pool(2, 2).on(x.relu())
    };
    let h = block(block(block(images, 16), 32), 64);
    let side = (SIDE / 8) as i64;
    dense(classes).on(h.reshape([-1, side * side * 64]))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(PathBuf::from);
    let given = arguments.next();
    let temporary = || std::env::temp_dir().join(format!("own_pictures-{}", std::process::id()));
    let out = arguments.next().unwrap_or_else(temporary);
    if given.is_none() {
        shapes::write(&out.join("pictures"), 120)?;
    }
    let folder = ImageFolder::scan(given.unwrap_or_else(|| out.join("pictures")))?;
    let (classes, count) = (folder.classes(), folder.files().len());

    // A fifth for validation, of a shuffled order.
    let files = folder.paths().shuffle(count, SEED);
    let mut files = files.collect::<Result<Vec<_>, _>>()?;
    let validation = files.split_off(count - count / 5);
    let steps = (files.len() as u64 * EPOCHS).div_ceil(BATCH as u64);
    let threads = std::thread::available_parallelism()?.get();
    let batches = from_vec(files)
        .shuffle(count, SEED)
        .repeat(Some(EPOCHS))
        .enumerate()
        .map_parallel(threads, |(number, (path, label))| {
            image(&path, label, Some(number))
        })
        .batch(BATCH, Remainder::Keep)
        .prefetch(2);

    let g = Graph::new();
    g.set_seed(1);
    let side = Some(SIDE);
    let images = g.placeholder("images", DType::F32, [None, side, side, Some(3)]);
    let labels = g.placeholder("labels", DType::I64, [None]);
    let training = g.placeholder_with_default("training", false, []);
    let logits = network(images, training, classes.len());
    let predicted = logits.arg_max(1);
    let loss = losses::sparse_softmax_cross_entropy(labels, logits).value();
    let matrix = confusion_matrix(labels, predicted, classes.len());
    let minimize = Adam::new(1e-3).minimize(loss);
    let train = g.group("train", update_ops(&g).into_iter().chain([minimize]));

    let session = Session::new(&g)?;
    session.run(g.initializers(), [])?;
    for (step, batch) in (1..).zip(batches) {
        let [x, y] = batch?;
        let feeds = [images.feed(x), labels.feed(y), training.feed(true)];
        let (_, loss): (_, f32) = session.run((train, loss), feeds)?;
        if step % 10 == 0 || step == steps {
            output::line(format_args!("step {step:4} of {steps}: loss {loss:.3}"));
        }
    }

    let mut counts = vec![0; classes.len() * classes.len()];
    let unseen =
        from_vec(validation).map_parallel(threads, |(path, label)| image(&path, label, None));
    for batch in unseen.batch(BATCH, Remainder::Keep) {
        let [x, y] = batch?;
        let found: Vec<i32> = session.run(matrix, [images.feed(x), labels.feed(y)])?;
        counts.iter_mut().zip(found).for_each(|(all, n)| *all += n);
    }
    matrix::print(classes, &counts);

    let checkpoint = Saver::new(&g).save(&session, out.join("model"), steps as i64)?;
    let outputs = [("class", predicted), ("probabilities", logits.softmax())];
    let options = ModelOptions::new().signature(DEFAULT_SIGNATURE, [("images", images)], outputs);
    save_model(&session, out.join("exported"), &options)?;
    output::line(format_args!("saved: {}", checkpoint.display()));
    output::line(format_args!("exported: {}", out.join("exported").display()));
    Ok(())
}
