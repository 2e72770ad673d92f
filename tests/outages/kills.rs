//! A training with checkpoints that is killed at random moments: the newest checkpoint is always complete, and the
//! training continues from it bit for bit as without kills.
//!
//! `KILLS=1000 cargo test --release -p thalweg-tests --test outages kills:: -- --nocapture` is the long form. `SEED` is the
//! seed of the moments.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use thalweg::checkpoint::{BundleReader, state};
use thalweg::data::Split;
use thalweg::prelude::*;
use thalweg::train::SavedValue;
use thalweg::train::hooks::Every;
use thalweg_tests::folders::Folder;

use super::small_disk::SmallDisk;

/// The folder of a training that runs as a process.
const FOLDER: &str = "THALWEG_TEST_FOLDER";
/// Numbers of each weight: with Adam's slots a checkpoint has some 0.4 MB.
const SIZE: usize = 32 << 10;
/// Most milliseconds before a process is killed.
const MAX_RUN_MS: u64 = 350;

struct KilledModel<'g> {
    x: Output<'g>,
    w: Variable<'g>,
    step: Variable<'g>,
    train: Operation<'g>,
}

/// Has state in its weights, in Adam's slots, in a random op, and in the order of its input.
fn model(g: &Graph) -> KilledModel<'_> {
    g.set_seed(5);
    let x = g.placeholder("x", DType::F32, [4, 2]);
    let w = g.variable("w", vec![0.5f32; SIZE]);
    let noise = g.random_normal([SIZE as i32], 0.0, 1.0, DType::F32, None);
    let loss = ((w.value() * noise + x.sum()) - 0.25).square().mean();
    let step = create_global_step(g);
    let train = Adam::new(0.01).minimize_counting(loss, step);
    KilledModel { x, w, step, train }
}

fn input() -> Split {
    Split::new((0..200).collect(), (0..100).map(|i| i % 10).collect(), 1, 2).unwrap()
}

/// Feeds of the steps from a position on.
struct TrainingInput<'s> {
    batches: thalweg::data::Batches<'s>,
    position: SavedValue,
}

impl TrainingInput<'_> {
    fn next(&mut self) -> Tensor {
        let [images, _] = self.batches.tensors().unwrap();
        self.position.set(self.batches.position());
        images
    }
}

#[test]
#[ignore = "the body of a process that the other tests kill"]
fn a_training() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let g = Graph::new();
    let model = model(&g);
    let saver = Saver::new(&g).max_to_keep(2);
    let position = saver.keep("input/position", 0u64);
    let mut session = MonitoredTrainingSession::new(&g)
        .checkpoint_dir(folder)
        .scaffold(Scaffold::new().saver(saver))
        .save_checkpoint(Every::Steps(2))
        .save_summaries(None)
        .log_step_count(None)
        .start(|| Session::new(&g))
        .unwrap();
    let split = input();
    let mut batches = split.batches(4, 1).unwrap();
    batches.seek(position.get().to_scalar().unwrap());
    let mut input = TrainingInput { batches, position };
    loop {
        let images = input.next();
        session.run(model.train, [model.x.feed(images)]).unwrap();
    }
}

fn start(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["kills::a_training", "--exact", "--ignored"])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The reference training without kills, as far as it has come.
struct ReferenceTraining<'g> {
    session: Session<'g>,
    model: KilledModel<'g>,
    input: TrainingInput<'g>,
}

impl ReferenceTraining<'_> {
    /// The weights after `step` steps.
    fn at(&mut self, step: i64) -> Vec<f32> {
        let now = || self.session.run::<i64>(self.model.step, []).unwrap();
        for _ in now()..step {
            let images = self.input.next();
            let fed = [self.model.x.feed(images)];
            self.session.run(self.model.train, fed).unwrap();
        }
        self.session.run(self.model.w, []).unwrap()
    }
}

/// Numbers that depend on the seed alone: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |n| n.parse().unwrap())
}

fn remove_events(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name().to_string_lossy().starts_with("events.") {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
}

/// Kills a training in this folder `kills` times. With `little_room`, a file fills the free space from time to time.
fn kill(folder: &Path, kills: u64, little_room: bool) {
    let g = Graph::new();
    let (split, model) = (input(), model(&g));
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let position = Saver::new(&g).keep("input/position", 0u64);
    let batches = split.batches(4, 1).unwrap();
    let mut expected_weights = ReferenceTraining {
        session,
        model,
        input: TrainingInput { batches, position },
    };
    let mut moments = Random(number("SEED", 1).max(1));
    let (mut last, mut progress, mut full) = (0, 0, 0);
    let ballast = folder.join("ballast");
    for kill in 0..kills {
        if little_room {
            let _ = std::fs::remove_file(&ballast);
            // Each process begins an event file: a thousand of them leave no room at all.
            remove_events(folder);
            if moments.below(2) == 0 {
                // It fails once the disk is full, as intended.
                let _ = std::fs::write(&ballast, vec![1u8; moments.below(3 << 20) as usize]);
                full += 1;
            }
        }
        let mut child = start(folder);
        std::thread::sleep(Duration::from_micros(moments.below(MAX_RUN_MS * 1000)));
        // It has ended by itself only if it failed.
        let ended = child.try_wait().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(ended.is_none() || little_room, "kill {kill}: {ended:?}");

        let Some(newest) = state::latest_checkpoint(folder).unwrap() else {
            assert_eq!(
                last, 0,
                "kill {kill}: the checkpoint of step {last} is gone"
            );
            continue;
        };
        let reader = BundleReader::open(&newest).unwrap();
        reader.verify().unwrap();
        let step = reader
            .tensor("global_step")
            .unwrap()
            .to_scalar::<i64>()
            .unwrap();
        assert!(step >= last, "kill {kill}: from step {last} back to {step}");
        progress += u64::from(step > last);
        let weights = reader.tensor("w").unwrap().to_vec::<f32>().unwrap();
        // As bits, because NaNs would be unequal.
        let bits = |all: &[f32]| all.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(
            bits(&weights),
            bits(&expected_weights.at(step)),
            "kill {kill}, step {step}"
        );
        // Every file that looks like a checkpoint is one.
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if let Some(prefix) = path.to_str().unwrap().strip_suffix(".index") {
                BundleReader::open(prefix).unwrap().verify().unwrap();
            }
        }
        last = step;
    }
    assert!(
        progress >= kills / 10,
        "{progress} newer checkpoints in {kills} kills"
    );
    println!(
        "{kills} kills in {}: {progress} times there was a newer checkpoint, {full} times little room, {last} steps",
        folder.display()
    );
}

#[test]
fn a_killed_training_continues_bit_for_bit() {
    let folder = Folder::new("kills");
    kill(folder.path(), number("KILLS", 12), false);
}

#[cfg(target_os = "linux")]
#[test]
fn a_training_on_a_filling_disk_continues_bit_for_bit() {
    if let Some(disk) = SmallDisk::new("kills_full", 3) {
        kill(disk.path(), number("KILLS", 12), true);
    }
}
