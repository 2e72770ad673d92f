//! A network that TensorFlow trained and froze reads digits: 9060 of 10,000 test images, as there.
//! `frozen/softmax.py` wrote it.
//!
//! ```text
//! cargo run --release --example frozen_graph [GRAPH.pb]
//! ```

use thalweg::graphdef;
use thalweg::prelude::*;
use thalweg::train::data::Mnist;

const BUNDLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/frozen/softmax.pb");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or(BUNDLED.to_owned());
    let g = Graph::new();
    graphdef::load(&g, path)?;
    let session = Session::new(&g)?;
    let mnist = Mnist::load(concat!(env!("CARGO_MANIFEST_DIR"), "/../data/mnist"))?;
    let [images, labels] = mnist.test.tensors()?;
    let digits: Vec<i64> = session.run("digit", ["images".feed(images)])?;
    let labels = labels.as_slice::<i64>()?;
    let right = digits.iter().zip(labels).filter(|(d, l)| d == l).count();
    println!("{right} of {} test images", digits.len());
    Ok(())
}
