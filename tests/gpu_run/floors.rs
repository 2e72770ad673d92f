//! Part `floors`: lower bounds of the card's times for copies, launches and GEMMs.

use std::error::Error;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use thalweg::device::gpu::{Address, Arguments, Command, Driver, Function, Handle, Source};
use thalweg::prelude::*;
use thalweg_examples::report::median;

use crate::bench::{Bench, fallbacks};
use crate::units::UnitResult;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Copies or replays per wait, so that the wait itself counts little.
const COMMANDS_PER_WAIT: u32 = 20;
/// Launches of the captured graph.
const LAUNCHES: usize = 100;
/// Number of measurements of each figure, after two warm-up ones.
const REPEATS: usize = 15;
/// GEMMs of a step.
const GEMMS: usize = 4;

/// A launch with almost no work.
static TINY: Source = Source {
    name: "tiny",
    text: "#include \"thalweg.cuh\"\nKERNEL(Tiny, T* at) { if (first() == 0) at[0] += T(1); }\n",
};

/// The function of that launch.
pub fn tiny() -> Function {
    Function {
        source: &TINY,
        name: "Tiny",
        types: [DType::F32].into_iter().collect(),
        large: false,
        multi_tensor: false,
    }
}

pub fn names() -> Vec<String> {
    let all = [
        "copies",
        "launches",
        "gemm f32",
        "gemm tf32",
        "gemm bf16",
        "gemm f16",
    ];
    all.map(str::to_owned).into()
}

pub fn run(bench: &mut Bench, name: &str) -> UnitResult {
    match name {
        "copies" => copies(bench),
        "launches" => launches(bench),
        "gemm f32" => gemm(bench, DType::F32, false),
        "gemm tf32" => gemm(bench, DType::F32, true),
        "gemm bf16" => gemm(bench, DType::BF16, false),
        "gemm f16" => gemm(bench, DType::F16, false),
        _ => Err("there is no such unit".into()),
    }
}

/// Bytes a second, in units of 10^9.
fn copies(bench: &mut Bench) -> UnitResult {
    let bytes = bench.by_scale(1 << 30, 1 << 20);
    let gpu = CardMemory::open(bench, bytes)?;
    let copy = |command: Command| -> Result<f64> {
        let seconds = gpu.seconds(COMMANDS_PER_WAIT, &command)?;
        Ok(bytes as f64 / seconds / 1e9)
    };
    let [from, to] = gpu.blocks;
    let host = gpu.host.as_ptr() as usize;
    let within = copy(Command::Copy { from, to, bytes })?;
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
    // Within the card's memory each byte is read and written.
    Ok(json!({
        "unit": "GB/s", "within_the_card": 2.0 * within, "from_the_host": from_host,
        "to_the_host": to_host,
    }))
}

fn launches(bench: &mut Bench) -> UnitResult {
    let gpu = CardMemory::open(bench, 1 << 20)?;
    let (empty, many) = (gpu.captured(0)?, gpu.captured(LAUNCHES)?);
    let micros = |together, graph| -> Result<f64> {
        Ok(gpu.seconds(together, &Command::Replay { graph })? * 1e6)
    };
    let found = json!({
        "unit": "us", "replay_of_nothing": micros(1, empty)?,
        "replay_of_nothing_unwaited": micros(COMMANDS_PER_WAIT, empty)?,
        "replay_of_100_launches": micros(1, many)?,
    });
    gpu.driver.drop_graph(empty);
    gpu.driver.drop_graph(many);
    Ok(found)
}

/// GEMMs of large squares.
fn gemm(bench: &mut Bench, dtype: DType, tf32: bool) -> UnitResult {
    let side = bench.by_scale(8192, 64);
    let g = Graph::new();
    let nodes: Vec<Operation<'_>> = g.device("/gpu:0", || {
        let variable = |name| {
            let initial = g.truncated_normal([side, side], 0.0, 0.1, DType::F32, None);
            g.variable(name, initial.cast(dtype))
        };
        let (a, b) = (variable("a"), variable("b"));
        let product = |_| a.value().matmul(b.value()).operation();
        (0..GEMMS).map(product).collect()
    });
    let options = bench.options_with_tf32(tf32)?.optimise(false);
    let session = Session::with_options(&g, options)?;
    session.run(g.initializers(), [])?;
    let fallbacks = fallbacks(&session.explain(&nodes, [])?);
    let mut step = session.callable(&nodes, ())?;
    let taken = bench.seconds(1.0, || Ok(step.call(&[]).map(|_| ())?))?;
    let operations = 2.0 * f64::from(side).powi(3) * GEMMS as f64;
    Ok(json!({
        "unit": "TFLOP/s", "side": side, "rate": operations / taken / 1e12,
        "fallbacks": fallbacks,
    }))
}

/// A card with memory to copy between.
struct CardMemory {
    driver: Arc<dyn Driver>,
    queue: Handle,
    bytes: usize,
    blocks: [Address; 2],
    host: NonNull<u8>,
}

impl CardMemory {
    fn open(bench: &mut Bench, bytes: usize) -> Result<CardMemory> {
        let driver = bench.driver()?;
        let gpu = CardMemory {
            queue: driver.queue()?,
            bytes,
            blocks: [driver.allocate(bytes)?, driver.allocate(bytes)?],
            host: driver.allocate_host(bytes)?,
            driver,
        };
        for to in gpu.blocks {
            gpu.submit(&Command::Fill { to, byte: 0, bytes })?;
        }
        gpu.driver.wait(gpu.queue)?;
        Ok(gpu)
    }

    fn submit(&self, command: &Command) -> Result<()> {
        // SAFETY: every address is of memory that `self` holds until the queue has run all, and has the sizes that the
        // commands declare; a launch's argument has the declared type.
        Ok(unsafe { self.driver.submit(self.queue, command) }?)
    }

    /// A captured graph of `launches` launches.
    fn captured(&self, launches: usize) -> Result<Handle> {
        let function = self.driver.load(&tiny())?;
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

    /// The seconds of a command, with `together` commands per wait.
    fn seconds(&self, together: u32, command: &Command) -> Result<f64> {
        let mut times = Vec::new();
        for _ in 0..REPEATS + 2 {
            let start = Instant::now();
            for _ in 0..together {
                self.submit(command)?;
            }
            self.driver.wait(self.queue)?;
            times.push(start.elapsed().as_secs_f64() / f64::from(together));
        }
        Ok(median(times.split_off(2)).unwrap_or_default())
    }
}

impl Drop for CardMemory {
    fn drop(&mut self) {
        // An error was returned by an earlier wait.
        let _ = self.driver.wait(self.queue);
        self.driver.drop_queue(self.queue);
        for block in self.blocks {
            self.driver.free(block);
        }
        // SAFETY: allocated in `open` with this length, and the queue has run all commands that used it.
        unsafe { self.driver.free_host(self.host, self.bytes) };
    }
}
