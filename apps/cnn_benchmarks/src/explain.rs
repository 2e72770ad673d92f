//! `--explain`: placement of the variables, bytes moved and operations of a step, its estimated time and bottleneck; on
//! GPUs its launches, library calls and bytes, and the nodes on the host.

use std::sync::Arc;

use serde_json::{Value, json};
use thalweg::device::gpu::PlanningDriver;
use thalweg::graph::GraphData;
use thalweg::graph::device::LoadTable;
use thalweg::parallel::VariableUpdate;
use thalweg::prelude::*;
use thalweg::session::{GpuOptions, GpuWork, OpWork};
use thalweg::tensor::text::counted;
use thalweg_examples::report::table;
use thalweg_simulate::NodeCost;

use crate::Result;
use crate::flags::Device;
use crate::network::Network;
use crate::settings::{Mode, Settings};

/// Assumed bandwidth between tasks, in Gbit/s.
const LINK_GBITS: f64 = 10.0;
/// Memory of the GPUs that a step is planned for: that of an H200.
const PLANNED_BYTES: usize = 141 << 30;
/// Side of the matrices of the GEMM that measures the machine's speed.
const GEMM_SIDE: usize = 768;
/// Assumed share of the GEMM's speed that a network reaches.
const REACHED_SHARE: f64 = 0.6;

/// Estimate of a step of this worker.
pub struct StepEstimate {
    loads: LoadTable,
    /// Bytes that a step moves between tasks, or between the devices of this process.
    bytes: u64,
    /// Floating-point operations of a step of this process.
    flops: f64,
    /// Floating-point operations a second of this machine.
    speed: f64,
    clustered: bool,
    ranks: bool,
    /// The work of each GPU of this process; none in a cluster.
    gpus: Vec<GpuWork>,
}

impl StepEstimate {
    /// # Errors
    /// The measuring GEMM fails.
    pub fn new(settings: &Settings, g: &Graph, network: &Network<'_>) -> Result<StepEstimate> {
        let data = g.snapshot();
        let variables: u64 = network.training.towers[0]
            .iter()
            .map(|v| elements(&data, v.value()) * v.dtype().size() as u64)
            .sum();
        let ranks = settings.update == VariableUpdate::Horovod && settings.workers > 1;
        let clustered = ranks || settings.job().is_some();
        let towers = settings.towers as u64;
        // Values out and gradients in, for each reader that is not where the variables are.
        let crossings = match (settings.update, clustered) {
            (VariableUpdate::Independent, _) => 0,
            (VariableUpdate::ParameterServer | VariableUpdate::DistributedReplicated, true) => 1,
            (_, false) => towers - 1,
            (VariableUpdate::Replicated | VariableUpdate::Horovod, true) => 0,
        };
        let others = settings.workers as u64 - 1;
        let bytes = match ranks {
            true => 2 * variables * others / (others + 1),
            false => 2 * variables * crossings,
        };
        Ok(StepEstimate {
            loads: LoadTable::requested(&data, &[]),
            bytes,
            flops: data
                .nodes()
                .map(|(_, node)| NodeCost::of(&data, node).flops)
                .sum(),
            speed: measure_flops()?,
            clustered,
            ranks,
            gpus: match settings.flags.devices.device == Device::Gpu && !clustered {
                true => gpu_work(settings, g, network)?,
                false => Vec::new(),
            },
        })
    }

    /// Seconds of computing, and of moving bytes between tasks.
    fn seconds(&self) -> [f64; 2] {
        let moving = match self.clustered {
            true => self.bytes as f64 * 8.0 / (LINK_GBITS * 1e9),
            false => 0.0,
        };
        [self.flops / (self.speed * REACHED_SHARE), moving]
    }

    fn bottleneck(&self) -> &'static str {
        let [compute, exchange] = self.seconds();
        match (exchange > compute, self.loads.imbalance() > 1.2) {
            (false, _) => "computing",
            (true, _) if self.ranks => "the links between ranks",
            (true, true) => "the link of the server with the most bytes",
            (true, false) => "the links to the servers",
        }
    }

    pub fn to_json(&self) -> Value {
        let [compute, exchange] = self.seconds();
        let loads = self.loads.loads.iter();
        let devices: Vec<Value> = loads
            .map(|l| json!({ "device": l.device.to_string(), "bytes": l.bytes, "variables": l.variables.len() }))
            .collect();
        json!({
            "devices": devices, "bytes_per_step": self.bytes, "gflop_per_step": self.flops / 1e9,
            "gflops_measured": self.speed / 1e9, "compute_s": compute, "exchange_s": exchange,
            "bottleneck": self.bottleneck(), "gpus": self.gpus.iter().map(gpu_json).collect::<Vec<_>>(),
        })
    }

    pub fn to_text(&self) -> String {
        let all = self.loads.bytes().max(1) as f64;
        let rows = self.loads.loads.iter().map(|load| {
            [
                load.device.to_string(),
                load.variables.len().to_string(),
                megabytes(load.bytes),
                format!("{:.1}", 100.0 * load.bytes as f64 / all),
            ]
        });
        let placed = table(["variables on", "variables", "MB", "%"], rows);
        let [compute, exchange] = self.seconds();
        let speed = self.speed / 1e9;
        let rows = [
            [
                "values and gradients moved, MB".to_owned(),
                megabytes(self.bytes),
            ],
            [
                "operations of this process, GFLOP".to_owned(),
                format!("{:.1}", self.flops / 1e9),
            ],
            [
                "products of matrices on all threads, GFLOP/s".to_owned(),
                format!("{speed:.0}"),
            ],
            [
                format!("computing, at {REACHED_SHARE} of that, ms"),
                format!("{:.1}", compute * 1e3),
            ],
            [
                format!("moving, at {LINK_GBITS} Gbit/s between tasks, ms"),
                format!("{:.1}", exchange * 1e3),
            ],
        ];
        let step = table(["a step of this worker", ""], rows);
        let estimate = 1e3 * compute.max(exchange);
        let gpus: String = self.gpus.iter().map(gpu_text).collect();
        format!(
            "{placed}\n{step}\n{gpus}estimated step time on this machine's processor: {estimate:.1} ms; the bottleneck is {}",
            self.bottleneck()
        )
    }
}

/// The work of a step, planned for cards that need not be there.
fn gpu_work(settings: &Settings, g: &Graph, network: &Network<'_>) -> Result<Vec<GpuWork>> {
    let driver = Arc::new(PlanningDriver::new(PLANNED_BYTES));
    let options = SessionOptions::new().threads(1).soft_placement(true);
    let options = (0..settings.towers).fold(options, |options, _| {
        options.gpu(GpuOptions::driven_by(driver.clone()))
    });
    let session = Session::with_options(g, options)?;
    let mut feeds = Vec::new();
    for input in network.inputs.iter().flatten() {
        let dims = input.shape().to_dims().unwrap_or_default();
        feeds.push(input.feed(Tensor::zeros(input.dtype(), &dims)?));
    }
    Ok(match settings.mode {
        Mode::Train => session.gpu_work(network.training.step, feeds)?,
        Mode::ForwardOnly | Mode::Evaluate => session.gpu_work(network.loss, feeds)?,
    })
}

fn gpu_json(work: &GpuWork) -> Value {
    let of = |op: &OpWork| json!({ "nodes": op.nodes, "launches": op.launches, "calls": op.calls, "bytes": op.bytes });
    let ops: Vec<(String, Value)> = work
        .ops
        .iter()
        .map(|(name, op)| ((*name).to_owned(), of(op)))
        .collect();
    json!({
        "device": work.device, "segments": work.segments, "host_bytes": work.host_bytes, "all": of(&work.total()),
        "ops": ops.into_iter().collect::<serde_json::Map<_, _>>(), "on_host": work.on_host,
    })
}

fn gpu_text(work: &GpuWork) -> String {
    let row = |name: &str, op: &OpWork| {
        let counts = [op.nodes, op.launches, op.calls].map(|n| n.to_string());
        let [nodes, launches, calls] = counts;
        [name.to_owned(), nodes, launches, calls, megabytes(op.bytes)]
    };
    let mut ops: Vec<_> = work.ops.iter().collect();
    ops.sort_by_key(|(name, op)| (std::cmp::Reverse(op.bytes), *name));
    let rows = ops.into_iter().map(|(name, op)| row(name, op));
    let rows = rows.chain([row("all", &work.total())]);
    let head = [
        "a step on the GPU",
        "nodes",
        "launches",
        "library calls",
        "MB",
    ];
    let on_host: Vec<String> = work
        .on_host
        .iter()
        .map(|(op, n)| format!("{n} {op}"))
        .collect();
    let on_host = match on_host.is_empty() {
        true => "none".to_owned(),
        false => on_host.join(", "),
    };
    format!(
        "{}\n{}: {} launched as one, {} MB from and to the host; nodes on the host: {on_host}\n",
        table(head, rows),
        work.device,
        counted(work.segments, "part"),
        megabytes(work.host_bytes),
    )
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

fn elements(data: &GraphData, output: Output<'_>) -> u64 {
    let fact = data.fact(output.id());
    let dims = fact.and_then(|f| f.shape.to_dims());
    dims.map_or(0, |dims| dims.iter().map(|&d| d as u64).product())
}

/// Measures the floating-point operations a second of a GEMM.
fn measure_flops() -> Result<f64> {
    let g = Graph::new();
    let x = g.placeholder("x", DType::F32, [GEMM_SIDE as i64, GEMM_SIDE as i64]);
    let y = x.matmul(x).sum();
    let session = Session::new(&g)?;
    let ones = Tensor::new(
        &[GEMM_SIDE, GEMM_SIDE],
        &vec![1.0f32; GEMM_SIDE * GEMM_SIDE],
    )?;
    let mut best = f64::INFINITY;
    for _ in 0..6 {
        let began = std::time::Instant::now();
        session.run::<f32>(y, [x.feed(&ones)])?;
        best = best.min(began.elapsed().as_secs_f64());
    }
    Ok(2.0 * (GEMM_SIDE as f64).powi(3) / best)
}
