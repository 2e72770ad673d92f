//! GPU launches of random numbers.

use thalweg_device::gpu::{Arg, Fault, Launch, Launches};
use thalweg_device::{KernelError, Prepare};
use thalweg_tensor::DType;

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
        .value(seeds)
        .value(0u32);
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

/// Bytes of the start of random numbers: the first block, the key and the upper half of the counter.
const START_BYTES: usize = 24;

/// Numbers that depend on two seeds, or on a key and a counter, by the function of `kernels/random.cu` of this name. A
/// launch before stores where they start.
pub(crate) fn stateless(p: &Prepare<'_>, name: &'static str) -> Result<Launches, KernelError> {
    let n = p.outputs[0].elements();
    if n == 0 {
        return Ok(Launches::default());
    }
    let dtype = p.outputs[0].dtype;
    let at = |name: &str| p.node.op.inputs.iter().position(|arg| arg.name == name);
    let start = |name| Launch {
        threads: 1,
        ..Launch::over(1, &RANDOM, name, &[dtype])
    };
    let (start, algorithm) = match (at("seed"), at("key"), at("counter"), at("alg")) {
        (Some(seed), ..) => {
            let kind: u32 = match p.dtype(seed) {
                DType::I32 => 0,
                DType::U32 => 1,
                _ => 2,
            };
            (
                start("SeedStart")
                    .input(seed)
                    .value(kind)
                    .arg(Arg::Scratch(0)),
                None,
            )
        }
        (None, Some(key), Some(counter), Some(algorithm)) => {
            let start = start("KeyStart").input(key).input(counter).input(algorithm);
            (start.arg(Arg::Scratch(0)).arg(Arg::Status), Some(algorithm))
        }
        _ => return Err(KernelError::Argument("seeds")),
    };
    let mut launch = Launch::over(n, &RANDOM, name, &[dtype]);
    let bounds = [at("minval"), at("maxval")];
    for bound in bounds.into_iter().flatten() {
        launch = launch.input(bound);
    }
    launch = launch.arg(Arg::Scratch(0)).output(0).indices(&[n]);
    launch = launch.value([0u32; 4]).value(1u32);
    let [_, high] = bounds;
    if high.is_some() {
        launch = launch.arg(Arg::Status);
    }
    let reason = match high {
        Some(_) => "maxval must be above minval, and the algorithm 1 (Philox), or 3 for any",
        None => "the algorithm is not known: use 1 (Philox), or 3 for any",
    };
    Ok(Launches {
        list: [start, launch].into_iter().collect(),
        scratch: START_BYTES,
        fault: high.or(algorithm).map(|input| Fault {
            input,
            reason: reason.to_owned(),
        }),
        ..Launches::default()
    })
}
