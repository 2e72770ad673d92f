//! Placement of variables on parameter servers: the report's Figure 4, and the balance of ResNet-50's variables by
//! strategy.

mod resnet;

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use clap::Parser;
use thalweg::graph::device::{Balanced, DeviceFnError, DeviceLoad, LoadTable, byte_size_load};
use thalweg::ops::Split;
use thalweg::prelude::*;
use thalweg_examples::output;
use thalweg_examples::plot::{Boxes, boxes, check_name};
use thalweg_examples::report::table;

/// Places variables on parameter servers, and shows what each of them gets.
#[derive(Parser)]
struct Flags {
    /// Draws both placements of Figure 4 into this SVG file.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// The most servers of the table.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    servers: u32,
    /// Prints the table as lines of JSON, and nothing else.
    #[arg(long)]
    json: bool,
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A variable's name and dimensions.
type NamedShape = (String, Vec<i64>);

fn main() -> Result<()> {
    let flags = Flags::parse();
    if let Some(path) = &flags.plot {
        check_name(path)?;
    }
    if !flags.json {
        figure_4(flags.plot.as_deref())?;
    }
    resnet_50(&flags)
}

/// Listings 4 and 5 of the report: two layers' variables on three servers.
fn figure_4(plot: Option<&std::path::Path>) -> Result<()> {
    let variables = [
        ("weights_1", vec![784, 100]),
        ("biases_1", vec![100]),
        ("weights_2", vec![100, 10]),
        ("biases_2", vec![10]),
    ]
    .map(|(name, dims)| (name.to_owned(), dims));
    let greedy = || ReplicaDeviceSetter::new(3).strategy(Greedy::by_bytes(3));
    let placements = [
        ("Round-robin variables", ReplicaDeviceSetter::new(3)),
        ("Load balancing variables", greedy()),
    ];
    let mut drawn = Vec::new();
    for (title, setter) in placements {
        let loads = place_variables(&variables, setter.into(), 3)?;
        output::line(format_args!("{title}\n{}", loads.to_text()));
        let sized = |name: &String| {
            let dims = variables.iter().find(|(n, _)| n == name);
            let elements: i64 = dims.map_or(0, |(_, dims)| dims.iter().product());
            (name.clone(), elements.unsigned_abs() * 4)
        };
        let column = |l: &DeviceLoad| {
            let things = l.variables.iter().map(sized);
            (l.device.to_string(), things.collect())
        };
        drawn.push(Boxes {
            title,
            columns: loads.loads.iter().map(column).collect(),
        });
    }
    if let Some(path) = plot {
        boxes(path, &drawn)?;
        output::line(format_args!("drawn: {}\n", path.display()));
    }
    Ok(())
}

/// Builds variables in a device scope; returns the load of each server.
fn place_variables(
    variables: &[NamedShape],
    scope: DeviceScope,
    servers: u32,
) -> Result<LoadTable> {
    let g = Graph::new();
    g.device(scope, || {
        for (name, dims) in variables {
            let node = g.op("VarHandleOp").name(name).attr("dtype", DType::F32);
            node.attr("shape", Shape::from(&dims[..])).build();
        }
    });
    if let Some(error) = g.errors().into_iter().next() {
        return Err(error.into());
    }
    let server = |task| DeviceSpec::parse(&format!("/job:ps/task:{task}"));
    let all: std::result::Result<Vec<_>, _> = (0..servers).map(server).collect();
    Ok(LoadTable::requested(&g.snapshot(), &all?))
}

/// Prints the balance of each strategy over 1 to `servers` servers: the largest load over the mean.
fn resnet_50(flags: &Flags) -> Result<()> {
    let variables = resnet::variables();
    let update = UpdateCost::measure()?;
    let elements: i64 = variables
        .iter()
        .map(|(_, d)| d.iter().product::<i64>())
        .sum();
    if !flags.json {
        output::line(format_args!(
            "ResNet-50: {} variables, {:.1} MB. The largest load over the mean, by strategy;\n\
             an update takes {:.1} us and {:.3} ns a byte here:",
            variables.len(),
            elements as f64 * 4e-6,
            update.fixed / 1e3,
            update.per_byte
        ));
    }
    let mut rows = Vec::new();
    for servers in 1..=flags.servers {
        let greedy = || ReplicaDeviceSetter::new(servers).strategy(Greedy::by_bytes(servers));
        let balanced = Balanced::new(servers, move |node| update.of(node));
        let balanced = ReplicaDeviceSetter::new(servers).strategy(balanced);
        // No part larger than a quarter of an even share.
        let most = (elements as usize).div_ceil(servers as usize);
        let even = [
            place_variables(
                &variables,
                ReplicaDeviceSetter::new(servers).into(),
                servers,
            )?,
            place_variables(&variables, greedy().into(), servers)?,
            place_variables(&variables, balanced.into(), servers)?,
            place_variables(&split(&variables, most), greedy().into(), servers)?,
        ]
        .map(|loads| loads.imbalance());
        if flags.json {
            for (strategy, value) in STRATEGIES.iter().zip(even) {
                let line = serde_json::json!({
                    "workload": "resnet50_placement", "servers": servers, "strategy": strategy,
                    "value": value, "unit": "max/mean",
                });
                output::line(line);
            }
        }
        let [a, b, c, d] = even.map(|e| format!("{e:.3}"));
        rows.push([servers.to_string(), a, b, c, d]);
    }
    if !flags.json {
        let [a, b, c, d] = STRATEGIES;
        output::line(table(["servers", a, b, c, d], rows));
    }
    Ok(())
}

const STRATEGIES: [&str; 4] = [
    "round robin",
    "greedy by bytes",
    "bytes and updates",
    "greedy, large ones split",
];

/// The same variables, partitioned as by `partitioned_variable` with this limit.
fn split(variables: &[NamedShape], bytes: usize) -> Vec<NamedShape> {
    let mut all = Vec::new();
    for (name, dims) in variables {
        let lens: Vec<usize> = dims.iter().map(|&d| d as usize).collect();
        let Some((axis, parts)) = Split::MaxBytes(bytes).of(DType::F32, &lens) else {
            all.push((name.clone(), dims.clone()));
            continue;
        };
        for (i, len) in parts.into_iter().enumerate() {
            let mut dims = dims.clone();
            dims[axis] = len as i64;
            all.push((format!("{name}/part_{i}"), dims));
        }
    }
    all
}

/// Cost of a variable's update: a fixed time, and a time for each byte.
#[derive(Clone, Copy)]
struct UpdateCost {
    /// Nanoseconds.
    fixed: f64,
    /// Nanoseconds.
    per_byte: f64,
}

impl UpdateCost {
    /// Times momentum updates of a small and of a large variable on one thread.
    fn measure() -> Result<UpdateCost> {
        let time = |elements: i64| -> Result<f64> {
            let g = Graph::new();
            let v = g.variable("v", Tensor::zeros(DType::F32, &[elements as usize])?);
            let gradient = g.placeholder("gradient", DType::F32, [elements]);
            let update = Momentum::new(0.1, 0.9).apply_gradients(&g, &[(gradient, v)], None);
            let session = Session::with_options(&g, SessionOptions::new().threads(1))?;
            session.run(g.initializers(), [])?;
            let feeds = [Tensor::zeros(DType::F32, &[elements as usize])?];
            let mut step = session.callable(update, [gradient])?;
            let mut best = f64::INFINITY;
            for _ in 0..30 {
                let begin = Instant::now();
                step.call(&feeds)?;
                best = best.min(begin.elapsed().as_secs_f64() * 1e9);
            }
            Ok(best)
        };
        let large = 1 << 20;
        let fixed = time(1)?;
        Ok(UpdateCost {
            fixed,
            per_byte: (time(large)? - fixed).max(0.0) / (4.0 * large as f64),
        })
    }

    fn of(self, node: &thalweg::graph::Node) -> std::result::Result<f64, DeviceFnError> {
        Ok(self.fixed + self.per_byte * byte_size_load(node)?)
    }
}
