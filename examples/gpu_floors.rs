//! What no program can do faster on a GPU: how fast it copies, and how long it takes to start what
//! was captured. Figures of steps are held against these.

use std::error::Error;
use std::process::ExitCode;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use clap::Parser;
use thalweg::device::cuda::{Cards, Compiler, Library, cards};
use thalweg::device::gpu::{Address, Arguments, Command, Driver, Function, Handle, Source};
use thalweg::ops::gpu::HEADER;
use thalweg::prelude::*;
use thalweg_examples::report::{Spread, print};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Measures the bandwidth of copies and the time of launches of a GPU.
#[derive(Parser)]
struct Flags {
    /// The card's number.
    #[arg(long, default_value_t = 0)]
    card: usize,
    /// Bytes of each copy, in MiB.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    megabytes: u32,
    /// How often each figure is measured; the median counts.
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,
    /// Says what card and which libraries there are, and measures nothing.
    #[arg(long)]
    describe: bool,
    /// Prints results as lines of JSON.
    #[arg(long)]
    json: bool,
}

/// Copies or replays that are waited for at once: waiting counts for little then.
const TOGETHER: u32 = 20;
/// Launches of the captured graph.
const LAUNCHES: usize = 100;

/// A launch that does next to nothing.
static TINY: Source = Source {
    name: "tiny",
    text: "#include \"thalweg.cuh\"\nKERNEL(Tiny, T* at) { if (first() == 0) at[0] += T(1); }\n",
};

fn main() -> ExitCode {
    let flags = Flags::parse();
    let done = match flags.describe {
        true => describe(flags.card),
        false => measure(&flags),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Says what there is.
fn describe(number: usize) -> Result<()> {
    // A card that cannot be opened is the first thing to know.
    Cards::new(HEADER).open(number)?;
    let card = &cards()?[number];
    let gigabytes = card.memory as f64 / f64::from(1 << 30);
    println!("card {number}: {}, {gigabytes:.1} GiB", card.name);
    println!("architecture: {}", card.architecture());
    let (major, minor) = Compiler::open(HEADER)?.version();
    println!("NVRTC: {major}.{minor}");
    for library in [Library::CublasLt, Library::Cudnn, Library::Nccl] {
        let there = library.open().map_or("missing", |()| "there");
        println!("{}: {there}", library.name());
    }
    Ok(())
}

fn measure(flags: &Flags) -> Result<()> {
    let gpu = Gpu::open(flags)?;
    let bytes = gpu.bytes as f64;
    let copy = |command: Command| -> Result<f64> {
        let seconds = gpu.seconds(TOGETHER, &command)?;
        Ok(bytes / seconds / 1e9)
    };
    let [from, to] = gpu.blocks;
    let host = gpu.host.as_ptr() as usize;
    let bytes = gpu.bytes;
    // Within the card's memory each byte is read and written.
    let within = 2.0 * copy(Command::Copy { from, to, bytes })?;
    let from_host = copy(Command::CopyIn {
        from: host,
        to,
        bytes,
    })?;
    let to_host = copy(Command::CopyOut {
        from,
        to: host,
        bytes,
    })?;
    let empty = gpu.captured(0)?;
    let many = gpu.captured(LAUNCHES)?;
    let microseconds = |together, graph| -> Result<f64> {
        let seconds = gpu.seconds(together, &Command::Replay { graph })?;
        Ok(seconds * 1e6)
    };
    let results = [
        ("copy_device_to_device", within, "GB/s"),
        ("copy_host_to_device", from_host, "GB/s"),
        ("copy_device_to_host", to_host, "GB/s"),
        ("replay_empty_graph", microseconds(1, empty)?, "us"),
        (
            "replay_empty_graph_unwaited",
            microseconds(TOGETHER, empty)?,
            "us",
        ),
        ("replay_100_launches", microseconds(1, many)?, "us"),
    ];
    print(flags.json, 1, &results);
    gpu.driver.drop_graph(empty);
    gpu.driver.drop_graph(many);
    Ok(())
}

/// A card with memory to copy between.
struct Gpu {
    driver: Arc<dyn Driver>,
    queue: Handle,
    bytes: usize,
    blocks: [Address; 2],
    host: NonNull<u8>,
    repeats: u32,
}

impl Gpu {
    fn open(flags: &Flags) -> Result<Gpu> {
        let driver = Cards::new(HEADER).open(flags.card)?;
        let bytes = (flags.megabytes as usize) << 20;
        let gpu = Gpu {
            queue: driver.queue()?,
            bytes,
            blocks: [driver.allocate(bytes)?, driver.allocate(bytes)?],
            host: driver.allocate_host(bytes)?,
            repeats: flags.repeats,
            driver,
        };
        for to in gpu.blocks {
            gpu.submit(&Command::Fill { to, byte: 0, bytes })?;
        }
        gpu.driver.wait(gpu.queue)?;
        Ok(gpu)
    }

    fn submit(&self, command: &Command) -> Result<()> {
        // SAFETY: every address is of memory that `self` holds until the queue has run all, and
        // has as many bytes as commands say; a launch's argument is as its function declares it.
        Ok(unsafe { self.driver.submit(self.queue, command) }?)
    }

    /// A graph of so many launches.
    fn captured(&self, launches: usize) -> Result<Handle> {
        let function = self.driver.load(&Function {
            source: &TINY,
            name: "Tiny",
            types: [DType::F32].into_iter().collect(),
            large: false,
        })?;
        let mut arguments = Arguments::default();
        arguments.push(&self.blocks[0].to_ne_bytes());
        let launch = Command::Launch {
            function,
            blocks: 1,
            threads: 32,
            arguments,
        };
        self.driver.begin(self.queue)?;
        let submitted = (0..launches).try_for_each(|_| self.submit(&launch));
        let graph = self.driver.end(self.queue)?;
        submitted?;
        Ok(graph)
    }

    /// The seconds that a command takes, where so many are waited for at once.
    fn seconds(&self, together: u32, command: &Command) -> Result<f64> {
        let mut times = Vec::new();
        // The first two are not counted.
        for _ in 0..self.repeats + 2 {
            let start = Instant::now();
            for _ in 0..together {
                self.submit(command)?;
            }
            self.driver.wait(self.queue)?;
            times.push(start.elapsed().as_secs_f64() / f64::from(together));
        }
        let spread = Spread::of(&times[2..]).ok_or("--repeats 0 measures nothing")?;
        Ok(spread.median)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // An error has come out where the commands were waited for.
        let _ = self.driver.wait(self.queue);
        self.driver.drop_queue(self.queue);
        for block in self.blocks {
            self.driver.free(block);
        }
        // SAFETY: taken in `open` with this length, and the queue has run all that used it.
        unsafe { self.driver.free_host(self.host, self.bytes) };
    }
}
