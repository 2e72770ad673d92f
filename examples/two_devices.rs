//! A network over two devices: the first layer and its weights on one, the second on the other. On a
//! machine with GPUs the same program takes `/gpu:0` and `/gpu:1`.

use thalweg::layers::dense;
use thalweg::prelude::*;
use thalweg_examples::output;

fn main() -> Result<(), SessionError> {
    let g = Graph::new();
    g.set_seed(1);
    let x = g.random_uniform([64, 8], -1.0, 1.0, DType::F32, None);
    let hidden = g.device("/cpu:0", || dense(32).on(x).tanh());
    let sum = x.reduce_sum(&[1], true);
    let loss = g.device("/cpu:1", || (dense(1).on(hidden) - sum).square().mean());
    // Gradients and updates are on the devices of their variables.
    let train = Adam::new(0.01).minimize(loss);

    // Two CPU devices share the processor, each with threads and memory of its own.
    let session = Session::with_options(&g, SessionOptions::new().cpus(2))?;
    session.run(g.initializers(), [])?;
    for step in 0..=300 {
        let (_, loss): (_, f32) = session.run((train, loss), [])?;
        if step % 100 == 0 {
            output::line(format_args!("step {step:3}: loss {loss:.5}"));
        }
    }
    output::line(session.placement()?.to_text().trim_end());
    Ok(())
}
