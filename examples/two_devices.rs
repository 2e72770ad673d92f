//! A network over two devices: the first layer and its weights on one, the second on the other. On a
//! machine with GPUs the same program takes `/gpu:0` and `/gpu:1`.
//!
//! ```text
//! cargo run --release --example two_devices
//! ```

use thalweg::layers::{Layer, dense};
use thalweg::prelude::*;

fn main() -> Result<(), SessionError> {
    let g = Graph::new();
    g.set_seed(1);
    let x = g.placeholder("x", DType::F32, [None, Some(8)]);
    let y = g.placeholder("y", DType::F32, [None, Some(1)]);
    let hidden = g.device("/cpu:0", || dense(32).on(x).tanh());
    let loss = g.device("/cpu:1", || (dense(1).on(hidden) - y).square().mean());
    // Gradients and updates stand where their variables do.
    let train = Adam::new(0.01).minimize(loss);

    // Two CPU devices share the processor, each with threads and memory of its own.
    let session = Session::with_options(&g, SessionOptions::new().cpus(2))?;
    session.run(g.initializers(), [])?;
    let inputs: Vec<f32> = (0..64 * 8)
        .map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0)
        .collect();
    let sums: Vec<f32> = inputs.chunks(8).map(|row| row.iter().sum()).collect();
    let inputs = Tensor::new(&[64, 8], &inputs).expect("64 rows");
    let sums = Tensor::new(&[64, 1], &sums).expect("64 rows");
    for step in 0..=300 {
        let feeds = [x.feed(&inputs), y.feed(&sums)];
        let (_, loss): (_, f32) = session.run((train, loss), feeds)?;
        if step % 100 == 0 {
            println!("step {step:3}: loss {loss:.5}");
        }
    }
    print!("{}", session.placement()?.to_text());
    Ok(())
}
