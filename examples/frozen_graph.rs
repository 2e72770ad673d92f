//! Inference with a frozen TensorFlow graph: 9060 of 10,000 MNIST test images are right, as in TensorFlow.
//! `frozen/softmax.py` wrote it.

use thalweg::{graphdef, prelude::*, train::data::Mnist};
use thalweg_examples::output;

const EXAMPLES: &str = env!("CARGO_MANIFEST_DIR");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let g = Graph::new();
    graphdef::load(&g, format!("{EXAMPLES}/frozen/softmax.pb"))?;
    let session = Session::new(&g)?;
    let mnist = Mnist::load(format!("{EXAMPLES}/../data/mnist"))?;
    let [images, labels] = mnist.test.tensors()?;
    let digits: Vec<i64> = session.run("digit", ["images".feed(images)])?;
    let same = |(d, l): &(&i64, &i64)| d == l;
    let right = digits.iter().zip(labels.as_slice()?).filter(same).count();
    output::line(format_args!("{right} of {} test images", digits.len()));
    Ok(())
}
