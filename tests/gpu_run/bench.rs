//! The worker: the process that holds the card, and runs units one after the other.

use std::any::Any;
use std::error::Error;
use std::io::{BufRead, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use thalweg::device::cuda::Cards;
use thalweg::device::gpu::Driver;
use thalweg::ops::gpu::HEADER;
use thalweg::prelude::*;
use thalweg::session::GpuOptions;
use thalweg_examples::peer::Peer;
use thalweg_examples::report::median;
use thalweg_tests::golden::{Case, cases};
use thalweg_tests::root;
use thalweg_tests::test_gpu::Gpu;

use crate::units::{self, UnitResult};

/// Time that a unit waits for PyTorch's compilation: less than a unit may take.
const COMPILATION_TIMEOUT: Duration = Duration::from_secs(60);

/// Size of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// For a card.
    Full,
    /// For an emulated card.
    Small,
}

/// Shared state of the units.
pub struct Bench {
    pub scale: Scale,
    driver: Option<Arc<dyn Driver>>,
    /// The op table, read once.
    cases: Option<Arc<Vec<Case>>>,
    /// `None` where it has not been looked for.
    peer: Option<Option<Peer>>,
    /// PyTorch, which compiles training steps in the background.
    compilation: Option<Child>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Some(process) = &mut self.compilation {
            // It may have ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Bench {
    pub fn new(scale: Scale) -> Bench {
        Bench {
            scale,
            driver: None,
            cases: None,
            peer: None,
            compilation: None,
        }
    }

    /// Starts PyTorch's compilation of training steps in the background, if there is a Python. It ends at once where there is no
    /// PyTorch, or no card for it.
    pub fn start_compilation(&mut self, cases: &[Value]) -> bool {
        let mut python = python();
        python.arg(peer_script()).args(["cuda", "--compile"]);
        python.args(cases.iter().map(Value::to_string));
        let process = python.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        self.compilation = process.ok();
        self.compilation.is_some()
    }

    /// Waits for the compilation, as it uses the card and its results are the peer's. One that takes too long ends; what
    /// it has compiled is on disk.
    pub fn finish_compilation(&mut self) -> Result<(), Box<dyn Error>> {
        let Some(mut process) = self.compilation.take() else {
            return Ok(());
        };
        let began = Instant::now();
        while process.try_wait()?.is_none() {
            if began.elapsed() > COMPILATION_TIMEOUT {
                process.kill()?;
                process.wait()?;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// The card, opened once.
    pub fn driver(&mut self) -> Result<Arc<dyn Driver>, Box<dyn Error>> {
        if let Some(driver) = &self.driver {
            return Ok(driver.clone());
        }
        let driver = Cards::new(HEADER).open(0)?;
        self.driver = Some(driver.clone());
        Ok(driver)
    }

    /// The op table.
    pub fn cases(&mut self) -> Arc<Vec<Case>> {
        let read = || Arc::new(cases(""));
        self.cases.get_or_insert_with(read).clone()
    }

    /// The card with its libraries, or without.
    pub fn gpu(&mut self, libraries: bool) -> Result<Gpu, Box<dyn Error>> {
        Ok(Gpu::of(self.driver()?, libraries))
    }

    /// Options of a session with the card.
    pub fn options(&mut self) -> Result<SessionOptions, Box<dyn Error>> {
        self.options_with_tf32(false)
    }

    /// Options of a session with the card, with TF32 or without.
    pub fn options_with_tf32(&mut self, tf32: bool) -> Result<SessionOptions, Box<dyn Error>> {
        let gpu = GpuOptions::driven_by(self.driver()?).allow_tf32(tf32);
        Ok(SessionOptions::new().threads(2).gpu(gpu))
    }

    /// PyTorch, if it is there and sees the card.
    pub fn peer(&mut self) -> Option<&mut Peer> {
        self.peer.get_or_insert_with(start_peer).as_mut()
    }

    /// Seconds of a step: the median of at least five, and of as many as fit into `limit` seconds. An
    /// emulated card is measured once.
    pub fn seconds(
        &self,
        limit: f64,
        mut step: impl FnMut() -> Result<(), Box<dyn Error>>,
    ) -> Result<f64, Box<dyn Error>> {
        // The first step submits commands one by one, the second captures them.
        for _ in 0..3 {
            step()?;
        }
        let (least, limit) = self.by_scale((5, limit), (1, 0.0));
        let (began, mut times) = (Instant::now(), Vec::new());
        while times.len() < least || began.elapsed().as_secs_f64() < limit {
            let at = Instant::now();
            step()?;
            times.push(at.elapsed().as_secs_f64());
        }
        Ok(median(times).unwrap_or_default())
    }

    /// Selects by scale.
    pub fn by_scale<T>(&self, full: T, small: T) -> T {
        match self.scale {
            Scale::Full => full,
            Scale::Small => small,
        }
    }
}

fn python() -> Command {
    let mut python = Command::new("python3");
    // Its libraries are those of its own wheels.
    python.env_remove("THALWEG_CUDA_LIBRARIES");
    python
}

fn peer_script() -> PathBuf {
    root().join("benches/peers/pytorch_gpu.py")
}

/// `true` if PyTorch is there and sees a card.
fn sees_card() -> bool {
    let seen = python()
        .args(["-c", "import torch; assert torch.cuda.is_available()"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    seen.is_ok_and(|status| status.success())
}

fn start_peer() -> Option<Peer> {
    let start = || Peer::run(python().arg(peer_script())).ok();
    sees_card().then(start).flatten()
}

/// The nodes that a plan computes by Thalweg's own kernels where a library could, from the plan's text.
pub fn fallbacks(plan: &str) -> Vec<String> {
    let own = plan.lines();
    let own = own.filter(|line| line.contains("is computed by a kernel of our own"));
    own.map(str::to_owned).collect()
}

/// A unit's line, without the members that the results file adds.
fn line(bench: &mut Bench, unit: &str) -> Value {
    let began = Instant::now();
    let found = catch_unwind(AssertUnwindSafe(|| units::run(bench, unit)));
    let found: Result<Value, String> = match found {
        Ok(found) => found.map_err(|e| e.to_string()),
        Err(panic) => Err(panic_message(&*panic)),
    };
    let (result, rest) = match found {
        Ok(rest) if rest.get("skipped").is_some() => ("skipped", rest),
        // Its figures stand: they are those of kernels of our own.
        Ok(rest) if rest["fallbacks"].as_array().is_some_and(|f| !f.is_empty()) => {
            ("fell back", rest)
        }
        Ok(rest) => ("passed", rest),
        Err(why) => ("failed", json!({"why": why})),
    };
    json!({
        "unit": unit, "result": result, "seconds": began.elapsed().as_secs_f64(), "found": rest,
    })
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("it panicked").to_owned()
}

/// Runs one unit, and prints its line.
pub fn one(unit: &str, scale: Scale) -> Result<bool, Box<dyn Error>> {
    let line = line(&mut Bench::new(scale), unit);
    writeln!(std::io::stdout(), "{line}")?;
    Ok(line["result"] != "failed")
}

/// Runs the units that input lines name, until the input ends.
pub fn serve(scale: Scale) -> Result<(), Box<dyn Error>> {
    let mut bench = Bench::new(scale);
    for unit in std::io::stdin().lock().lines() {
        let line = line(&mut bench, &unit?);
        let mut out = std::io::stdout();
        writeln!(out, "{line}")?;
        out.flush()?;
    }
    Ok(())
}

/// A [`UnitResult`] for work that is skipped here.
pub fn skipped(why: &str) -> UnitResult {
    Ok(json!({"skipped": why}))
}
