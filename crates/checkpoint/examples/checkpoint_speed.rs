//! Times saving and restoring of weights, beside `dd`, TensorFlow's Saver and `torch.save`.
//!
//! ```text
//! cargo run --release -p thalweg-checkpoint --example checkpoint_speed -- FOLDER [ROUNDS] [SIZE...]
//! ```
//!
//! Sizes are `mnist` (deep MNIST's variables, 13 MB), `100` and `1000` (MB, in tensors of at most
//! 64 MB). In each round every program works once, one after the other, on the same bytes.
//! TensorFlow and PyTorch run in the Python that TENSORFLOW_PYTHON names, and are left out without
//! it. Files are removed after each round.
//!
//! Every write ends when the bytes are on the disk (`fsync`; `conv=fdatasync` for `dd`), also
//! TensorFlow's and PyTorch's, whose files are synced after they are written. A file is read three
//! times: from the system's cache; at once again, when the memory for it has just been freed (a
//! virtual machine may get fresh memory slowly); and after the system was asked to drop it from the
//! cache (`dd iflag=nocache`, which needs no rights). `dd` reads to `/dev/null` in blocks of 1 MiB,
//! and once more in a single block: the one reuses a megabyte, the other needs memory for all
//! bytes, as any program that keeps them does.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use thalweg_checkpoint::bundle::data_path;
use thalweg_checkpoint::{BundleReader, BundleWriter, save_weights};
use thalweg_tensor::Tensor;

type Failure = Box<dyn std::error::Error>;

/// The dimensions of the variables of a size.
fn shapes(size: &str) -> Result<Vec<Vec<usize>>, Failure> {
    if size == "mnist" {
        let all = [
            &[5, 5, 1, 32][..],
            &[32],
            &[5, 5, 32, 64],
            &[64],
            &[3136, 1024],
            &[1024],
            &[1024, 10],
            &[10],
        ];
        return Ok(all.iter().map(|s| s.to_vec()).collect());
    }
    let mut left = size.parse::<usize>()? * 1_000_000 / 4;
    let mut all = Vec::new();
    while left > 0 {
        let some = left.min(16_000_000);
        all.push(vec![some]);
        left -= some;
    }
    Ok(all)
}

fn weights(shapes: &[Vec<usize>]) -> Result<Vec<(String, Tensor)>, Failure> {
    let mut state = 1u32;
    let mut all = Vec::new();
    for (i, dims) in shapes.iter().enumerate() {
        let elements: Vec<f32> = (0..dims.iter().product::<usize>())
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state as f32 / u32::MAX as f32 - 0.5
            })
            .collect();
        all.push((format!("v{i:03}"), Tensor::new(dims, &elements)?));
    }
    Ok(all)
}

/// TensorFlow or PyTorch: a child process that is asked line by line.
struct Peer {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Peer {
    fn start(kind: &str, shapes: &[Vec<usize>]) -> Result<Option<Peer>, Failure> {
        let Ok(python) = std::env::var("TENSORFLOW_PYTHON") else {
            return Ok(None);
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/peers.py");
        let mut child = Command::new(python)
            .arg(script)
            .args([kind, &serde_json::to_string(shapes)?])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let to = child.stdin.take().ok_or("no way to the peer")?;
        let from = BufReader::new(child.stdout.take().ok_or("no way from the peer")?);
        let mut peer = Peer { child, to, from };
        peer.line()?;
        Ok(Some(peer))
    }

    fn line(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        match line.trim() {
            "" => Err("the peer has ended".into()),
            line => Ok(line.to_owned()),
        }
    }

    /// Seconds of a save or a restore.
    fn ask(&mut self, what: &str, path: &Path) -> Result<f64, Failure> {
        writeln!(self.to, "{what} {}", path.display())?;
        self.to.flush()?;
        Ok(self.line()?.parse()?)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn dd(arguments: &[String]) -> Result<f64, Failure> {
    let start = Instant::now();
    let done = Command::new("dd")
        .args(arguments)
        .stderr(Stdio::null())
        .status()?;
    match done.success() {
        true => Ok(start.elapsed().as_secs_f64()),
        false => Err("dd failed".into()),
    }
}

/// Times by program, in the order of first appearance.
#[derive(Default)]
struct Times(Vec<(String, Vec<f64>)>);

impl Times {
    fn add(&mut self, name: &str, time: f64) {
        match self.0.iter_mut().find(|(n, _)| n == name) {
            Some((_, times)) => times.push(time),
            None => self.0.push((name.to_owned(), vec![time])),
        }
    }

    fn print(&self, bytes: f64) {
        for (name, times) in &self.0 {
            let mut times = times.clone();
            times.sort_by(f64::total_cmp);
            let rate = |time: f64| bytes / time / 1e6;
            let (slowest, fastest) = (times[times.len() - 1], times[0]);
            println!(
                "  {name:20} {:7.0} MB/s   ({:.0} to {:.0})",
                rate(times[times.len() / 2]),
                rate(slowest),
                rate(fastest)
            );
        }
    }
}

fn read_all(prefix: &Path) -> Result<f64, Failure> {
    let start = Instant::now();
    let reader = BundleReader::open(prefix)?;
    let tensors = reader.names().map(|name| reader.tensor(name));
    let tensors = tensors.collect::<Result<Vec<_>, _>>()?;
    let time = start.elapsed().as_secs_f64();
    drop(tensors);
    Ok(time)
}

/// The measured times.
#[derive(Default)]
struct All {
    writes: Times,
    cached: Times,
    again: Times,
    cold: Times,
}

impl All {
    /// Times a read of files of this folder three times.
    fn read(
        &mut self,
        name: &str,
        folder: &Path,
        mut read: impl FnMut() -> Result<f64, Failure>,
    ) -> Result<(), Failure> {
        self.cached.add(name, read()?);
        self.again.add(name, read()?);
        // Files in memory have no other place to be read from.
        if !folder.starts_with("/dev/shm") {
            for file in std::fs::read_dir(folder)? {
                let file = file?.path();
                let arguments = [
                    format!("if={}", file.display()),
                    "of=/dev/null".into(),
                    "iflag=nocache".into(),
                    "count=0".into(),
                ];
                dd(&arguments)?;
            }
            self.cold.add(name, read()?);
        }
        Ok(())
    }
}

fn clear(folder: &Path) -> Result<(), Failure> {
    for file in std::fs::read_dir(folder)? {
        std::fs::remove_file(file?.path())?;
    }
    Ok(())
}

fn round(
    folder: &Path,
    weights: &[(String, Tensor)],
    peers: &mut [(&str, Option<Peer>)],
    all: &mut All,
) -> Result<(), Failure> {
    let data: usize = weights.iter().map(|(_, t)| t.bytes().len()).sum();
    let source = PathBuf::from("/dev/shm").join(format!("thalweg-dd-{}", std::process::id()));
    {
        // The same bytes, from memory.
        let mut file = std::fs::File::create(&source)?;
        for (_, tensor) in weights {
            file.write_all(tensor.bytes())?;
        }
    }
    let raw = format!("{}", folder.join("dd").display());
    let from = format!("if={}", source.display());
    let arguments = [
        from,
        format!("of={raw}"),
        "bs=1M".into(),
        "conv=fdatasync".into(),
    ];
    all.writes.add("dd conv=fdatasync", dd(&arguments)?);
    std::fs::remove_file(&source)?;
    for (name, block) in [("dd, 1 MiB blocks", 1 << 20), ("dd, one block", data)] {
        let arguments = [
            format!("if={raw}"),
            "of=/dev/null".into(),
            format!("bs={block}"),
        ];
        all.read(name, folder, || dd(&arguments))?;
    }
    clear(folder)?;

    let prefix = folder.join("ours");
    let start = Instant::now();
    let mut writer = BundleWriter::create(&prefix)?;
    for (name, tensor) in weights {
        writer.add(name, tensor)?;
    }
    writer.finish()?;
    all.writes
        .add("thalweg checkpoint", start.elapsed().as_secs_f64());
    assert_eq!(data_path(&prefix, 0, 1).metadata()?.len(), data as u64);
    all.read("thalweg checkpoint", folder, || read_all(&prefix))?;
    clear(folder)?;
    let path = folder.join("ours.safetensors");
    let start = Instant::now();
    save_weights(&path, weights.iter().map(|(n, t)| (n.as_str(), t.clone())))?;
    all.writes
        .add("thalweg safetensors", start.elapsed().as_secs_f64());
    clear(folder)?;
    for (name, peer) in peers {
        if let Some(peer) = peer {
            let path = folder.join("peer");
            all.writes.add(name, peer.ask("save", &path)?);
            all.read(name, folder, || peer.ask("restore", &path))?;
        }
        clear(folder)?;
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let place = arguments
        .next()
        .ok_or("usage: checkpoint_speed FOLDER [ROUNDS] [SIZE...]")?;
    let rounds: usize = arguments.next().map_or(Ok(5), |n| n.parse())?;
    let mut sizes: Vec<String> = arguments.collect();
    if sizes.is_empty() {
        sizes = ["mnist", "100", "1000"].map(str::to_owned).into();
    }
    let folder = Path::new(&place).join(format!("checkpoint-speed-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    for size in sizes {
        let shapes = shapes(&size)?;
        let weights = weights(&shapes)?;
        let bytes: usize = weights.iter().map(|(_, t)| t.bytes().len()).sum();
        let mut peers = [
            ("TensorFlow's Saver", Peer::start("tensorflow", &shapes)?),
            ("torch.save", Peer::start("torch", &shapes)?),
        ];
        let mut all = All::default();
        for _ in 0..rounds {
            round(&folder, &weights, &mut peers, &mut all)?;
        }
        println!(
            "{size}: {:.1} MB in {} tensors, median of {rounds} rounds",
            bytes as f64 / 1e6,
            weights.len()
        );
        for (what, times) in [
            ("written", &all.writes),
            ("read, cached", &all.cached),
            ("read, cached, at once again", &all.again),
            ("read, not cached", &all.cold),
        ] {
            if !times.0.is_empty() {
                println!(" {what}");
                times.print(bytes as f64);
            }
        }
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
