//! GPU launches of random numbers.

use thalweg_device::Prepare;
use thalweg_device::gpu::{Arg, Fault, Launch, Launches};

use super::sources::RANDOM;

/// Numbers of the sequence of these seeds (the key, and the upper half of the counter), by the
/// function of `kernels/random.cu` with the op's name; then `blocks` are reserved.
pub(crate) fn random(p: &Prepare<'_>, seeds: [u32; 4], blocks: u64) -> Launches {
    let n = p.outputs[0].elements();
    if n == 0 {
        return Launches::default();
    }
    let dtype = p.outputs[0].dtype;
    let mut launch = Launch::over(n, &RANDOM, p.node.op.name, &[dtype]);
    // Bounds, if there are any.
    let bounds = 1..p.inputs.len();
    let bounded = !bounds.is_empty();
    for i in bounds {
        launch = launch.input(i);
    }
    launch = launch
        .arg(Arg::Counter)
        .output(0)
        .indices(&[n])
        .value(seeds);
    if bounded {
        launch = launch.arg(Arg::Status);
    }
    let mut advance = Launch::over(1, &RANDOM, "Advance", &[dtype])
        .arg(Arg::Counter)
        .value(blocks);
    advance.threads = 1;
    Launches {
        list: [launch, advance].into_iter().collect(),
        scratch: 0,
        fault: bounded.then(|| Fault {
            input: 2,
            reason:
                "no integer lies from minval up to, but not, maxval: maxval must be above minval"
                    .to_owned(),
        }),
        ..Launches::default()
    }
}
