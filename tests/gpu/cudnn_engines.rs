//! cuDNN's engines for the convolutions of ResNet-50 and InceptionV3 on an H200, queried on a machine without one.
//!
//! Needs cuDNN 9.8 or later and NVRTC. Where they are missing it is skipped with a message; with `REQUIRE_CUDNN=1` it
//! fails. With `--nocapture` it prints the table of `docs/results/gpu.md`.

use std::collections::BTreeMap;
use std::fmt::Write;

use thalweg::device::cuda::{AbsentCard, Library};
use thalweg::device::gpu::{Convolution, Direction};
use thalweg::tensor::DType;
use thalweg_examples::convs::{Conv, INCEPTION_V3, RESNET_50};
use thalweg_tests::root;

/// Numbers of images of a step.
const BATCHES: [usize; 3] = [32, 64, 256];

const DIRECTIONS: [(Direction, &str); 3] = [
    (Direction::Forward, "forward"),
    (Direction::Images, "to the images"),
    (Direction::Filter, "to the filter"),
];

fn convolution(
    (c, batch): (&Conv, usize),
    direction: Direction,
    dtype: DType,
    channels_last: bool,
) -> Convolution {
    let out = c.out();
    // As TensorFlow pads: an odd element goes after.
    let all: [usize; 2] = std::array::from_fn(|axis| {
        let reach = (out[axis] - 1) * c.stride + c.filter[axis];
        reach.saturating_sub(c.side)
    });
    let before = all.map(|all| all / 2);
    Convolution {
        direction,
        dtype,
        channels_last,
        images: [batch, c.from, c.side, c.side],
        filter: [c.to, c.from, c.filter[0], c.filter[1]],
        output: [batch, c.to, out[0], out[1]],
        before,
        after: [all[0] - before[0], all[1] - before[1]],
        stride: [c.stride; 2],
        dilation: [1; 2],
    }
}

/// The gradient of images with lines and columns in place of one-sided padding.
fn with_even_padding(mut c: Convolution) -> Option<Convolution> {
    for axis in 0..2 {
        c.images[2 + axis] += c.after[axis] - c.before[axis];
    }
    c.after = c.before;
    (c.direction == Direction::Images).then_some(c)
}

/// The convolutions that the first list of cuDNN 9.19 has no engine for. The second list is not asked for where the card is
/// absent.
const LACKING_IN_9_19: [&str; 6] = [
    "64 x 56x56x128 3x3 to 128 /2 f32 NHWC to the filter",
    "64 x 56x56x128 3x3 to 128 /2 f32 NCHW to the filter",
    "256 x 56x56x128 3x3 to 128 /2 f32 NHWC to the filter",
    "256 x 56x56x128 3x3 to 128 /2 f32 NCHW to the filter",
    "256 x 14x14x512 3x3 to 512 /2 f32 NHWC forward",
    "256 x 14x14x512 3x3 to 512 /2 f32 NCHW forward",
];

fn card() -> Option<AbsentCard> {
    let properties = std::fs::read_to_string(root().join("tests/cards/h200.json")).unwrap();
    match AbsentCard::new(&properties) {
        Ok(card) => Some(card),
        Err(error) => {
            let required = std::env::var("REQUIRE_CUDNN").is_ok_and(|v| v == "1");
            assert!(!required, "REQUIRE_CUDNN=1: {error}");
            println!("SKIPPED: no plans for an absent card: {error}");
            None
        }
    }
}

#[test]
fn cudnn_has_an_engine_for_every_convolution_of_resnet_and_inception_on_an_h200() {
    let Some(card) = card() else { return };
    let mut convs = RESNET_50.to_vec();
    convs.extend(INCEPTION_V3.iter().filter(|c| !RESNET_50.contains(c)));
    let mut engines: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    let mut without = Vec::new();
    let resnet = BATCHES
        .iter()
        .flat_map(|&b| RESNET_50.iter().map(move |c| (c, b)));
    let inception = convs[RESNET_50.len()..].iter().map(|c| (c, BATCHES[0]));
    for (conv, batch) in resnet.chain(inception) {
        for (direction, name) in DIRECTIONS {
            for dtype in [DType::F32, DType::F16, DType::BF16] {
                for channels_last in [true, false] {
                    let format = if channels_last { "NHWC" } else { "NCHW" };
                    let asked = format!("{dtype} {format} {name}");
                    let c = convolution((conv, batch), direction, dtype, channels_last);
                    // As the kernel does: where cuDNN has no exact engine, cuBLASLt multiplies.
                    if conv.filter == [1, 1]
                        && (direction, dtype) == (Direction::Filter, DType::F32)
                    {
                        continue;
                    }
                    // As the kernel does where no engine supports uneven padding.
                    let even = || {
                        with_even_padding(c).map_or(Err(String::new()), |c| card.engine(&c, false))
                    };
                    match card
                        .engine(&c, false)
                        .or_else(|why| even().map_err(|_| why))
                    {
                        Ok(_) if batch > BATCHES[0] => {}
                        Ok(choice) => {
                            let counts = engines.entry(asked).or_default();
                            *counts
                                .entry(choice.engine.to_string().replace("engine ", ""))
                                .or_default() += 1;
                        }
                        Err(why) => {
                            without.push(format!("{batch} x {} {asked}: {why}", conv.name()))
                        }
                    }
                }
            }
        }
    }
    let mut table = String::from(
        "| dtype, layout, direction | engines: how many of the convolutions |\n| --- | --- |\n",
    );
    for (asked, counts) in &engines {
        let counts: Vec<String> = counts.iter().map(|(e, n)| format!("{e}: {n}")).collect();
        writeln!(table, "| {asked} | {} |", counts.join(", ")).unwrap();
    }
    println!("{} convolutions\n{table}", convs.len());
    if Library::Cudnn.version().is_some_and(|v| v / 100 == 919) {
        let known = |line: &String| LACKING_IN_9_19.iter().any(|k| line.starts_with(k));
        let lacking = without.iter().filter(|line| known(line)).count();
        assert_eq!(lacking, LACKING_IN_9_19.len(), "{}", without.join("\n"));
        without.retain(|line| !known(line));
    }
    assert!(
        without.is_empty(),
        "{} without an engine:\n{}",
        without.len(),
        without.join("\n")
    );
}
