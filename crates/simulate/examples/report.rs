//! Prediction of the report's Tables 1 to 3 after a calibration on up to 16 GPUs, as Markdown: `docs/results/report.md`.
//!
//! `cargo run --release -p thalweg-simulate --example report > docs/results/report.md`

use std::error::Error;

use thalweg_estimate::Algorithm;
use thalweg_models::Data as DataSet;
use thalweg_parallel::VariableUpdate;
use thalweg_simulate::{
    AllReduceOptions, Candidate, Cluster, Constant, DeviceSpeed, HostSpeed, LinkSpeed,
    MeasuredStep, ModelStep, Prediction, calibrate, placement_by_cost, predict_all_reduce,
    predict_servers, server_counts, sweep_servers,
};
use thalweg_study::Data;
use thalweg_study::report::{REPORT_BATCH, REPORT_CELLS, ReportCell, ReportSystem};

/// Number of GPUs up to which the constants are calibrated.
const CALIBRATED: u32 = 16;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    println!("{INTRODUCTION}");
    let mut clusters = Vec::new();
    for system in ReportSystem::ALL {
        clusters.push(report_system(system)?);
    }
    println!("{MISFITS}");
    others(&clusters[0], &clusters[2])?;
    curves(&clusters)
}

const INTRODUCTION: &str = "\
# The report's tables, predicted

Written by `cargo run --release -p thalweg-simulate --example report`. The measurements are those of Tables 1 to 3 of the report
(E. Bugliarello, CSCS, 2017): InceptionV3, 64 images a GPU, TensorFlow 1.1.

The constants of each system are calibrated on its points on 1 to 16 GPUs alone. The points on 32, 64 and 128 GPUs are predicted
with them. Each mechanism has one constant: the speed of a GPU (from the point on one GPU), the bandwidth of a host's port, the
bytes a second with which a server takes and applies gradients, and the spread of computing times. They are those with the least
square error, from 125 starts around 10 Gbit/s, 10 GB/s and 5%. Images in files have one more, the images a second that a host
reads. The mechanisms and the way to search were chosen while predictions for larger clusters were in view; the constants follow from 16
GPUs and fewer. Latency and the time of a message are given (20 us each), and so is the bandwidth between
a host and its GPUs (10 GB/s).";

const MISFITS: &str = "
## Mechanisms, and misfits

- **Piz Daint and p2.xlarge, 64 and 128 GPUs**: the server of the largest variable takes one gradient of 8.2 MB of each worker after the
  other. That time grows with the number of workers, whatever the number of servers, and explains why bytes per node do not grow
  and steps do. The prediction is slower than the measurement by up to 10%; the reason was not seen.
- **Tokens** of the barrier, n (n - 1) of 20 us each over all servers, are below 1% of every step of the tables. With one server
  and 128 workers they would take 0.3 s.
- **Incast** is the waiting at the receiver's port. It is 8% of a step at most, with the ports' constants of these fits.
- **Piz Daint, 2 GPUs**: two workers lose 4% of a step. The spread of computing times explains 2%.
- **Piz Daint, 32 GPUs**: between the two regimes, where the largest of 32 computing times counts most.
- **The port of a host** bounds no step of Piz Daint or p2.8xlarge, so its constant is a lower limit there.
- **The best number of servers**: of 64 workers on Piz Daint the report found 40; the model finds 3% more speed with 64. Of 128 it found
  116, and the model 0.3% more with 128. On p2.xlarge both find as many servers as workers.
- **Real images, Piz Daint**: 1 to 4 nodes read without loss, 8 to 64 lose 11%. All nodes read one Lustre file system; a rate of each
  host cannot say both.
- **Real images, p2.8xlarge**: a host reads 190 images/s alone and 177 among 16; the model has one rate.
- **DGX-1**: the model adds up gradients on the host after the last of them is computed, and copies values to all GPUs before the
  first kernel. That these overlap in Google's program is an assumption.";

/// A cell, with the step that it measures.
struct MeasuredCell {
    cell: ReportCell,
    step: MeasuredStep,
}

fn measured_cells(system: ReportSystem, data: Data) -> Result<Vec<MeasuredCell>> {
    let own = REPORT_CELLS
        .iter()
        .filter(|c| (c.system, c.data) == (system, data));
    own.map(|cell| {
        let devices = system.gpus_per_node().min(cell.gpus);
        let workers = cell.gpus / devices;
        let template = inception(devices, cell.mode)?.template(cell.servers, workers)?;
        let step = MeasuredStep {
            template,
            workers,
            batch: REPORT_BATCH,
            images_per_second: cell.images_per_second,
        };
        Ok(MeasuredCell { cell: *cell, step })
    })
    .collect()
}

fn inception(devices: u32, mode: &str) -> Result<ModelStep> {
    let cluster = Cluster::named("daint").ok_or("no cluster daint")?;
    let step = ModelStep::new("inception3", DataSet::ImageNet)?.on(&cluster);
    Ok(ModelStep {
        batch: REPORT_BATCH,
        devices,
        update: match mode {
            "parameter_server" => VariableUpdate::ParameterServer,
            _ => VariableUpdate::DistributedReplicated,
        },
        ..step
    })
}

fn file_name(system: ReportSystem) -> &'static str {
    match system {
        ReportSystem::PizDaint => "daint",
        ReportSystem::P2Xlarge => "p2.xlarge",
        ReportSystem::P28Xlarge => "p2.8xlarge",
    }
}

/// Prints the table of a system, and returns its cluster with the calibrated constants.
fn report_system(system: ReportSystem) -> Result<Cluster> {
    let synthetic = measured_cells(system, Data::Synthetic)?;
    let real = measured_cells(system, Data::Real)?;
    let small = |cells: &[MeasuredCell], least: u32| -> Vec<MeasuredStep> {
        let own = cells
            .iter()
            .filter(|c| (least..=CALIBRATED).contains(&c.cell.gpus));
        own.map(|c| c.step.clone()).collect()
    };
    let start = Cluster::named(file_name(system)).ok_or("an unknown cluster")?;
    // The same start for all systems, so that the constants follow from the measurements.
    let start = Cluster {
        host: HostSpeed {
            bandwidth: 10e9,
            ..start.host
        },
        network: LinkSpeed {
            bandwidth: 10e9 / 8.0,
            ..start.network
        },
        straggling: 0.05,
        ..start
    };
    let constants = [Constant::Network, Constant::Update, Constant::Straggling];
    let alone = synthetic.first().map(|c| &c.step);
    let cluster = calibrate(&start, alone, &small(&synthetic, 2), &constants);
    let per_host = f64::from(system.gpus_per_node()) * synthetic[0].cell.images_per_second;
    let reads = Cluster {
        input: Some(per_host),
        ..cluster.clone()
    };
    let reads = calibrate(&reads, None, &small(&real, 1), &[Constant::Input]);

    let fitted = small(&synthetic, 2);
    let squares = fitted.iter().map(|m| {
        let predicted = predict_servers(&m.template, &cluster, m.workers, m.batch);
        (m.images_per_second / predicted.images_per_second - 1.0).powi(2)
    });
    let mean = (squares.sum::<f64>() / fitted.len() as f64).sqrt();
    println!("\n## {system}\n");
    println!(
        "GPU: {:.0} GFLOP/s and {:.0} GB/s. Port of a host: {:.2} Gbit/s. Server: {:.2} GB/s of memory for updates, which is \
         {:.0} MB/s of gradients. Spread of computing times: {:.2}%. Input: {:.0} images/s of a host. Root of the mean square error of the points that are calibrated on: {:.2}%.\n",
        cluster.device.flops / 1e9,
        cluster.device.bandwidth / 1e9,
        cluster.network.bandwidth * 8.0 / 1e9,
        cluster.host.bandwidth / 1e9,
        cluster.host.bandwidth / 3.0 / 1e6,
        100.0 * cluster.straggling,
        reads.input.unwrap_or_default(),
        100.0 * mean
    );
    println!(
        "| servers | GPUs | mode | images | measured, images/s | predicted | error | calibrated on | a step is spent on |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for (cells, cluster) in [(&synthetic, &cluster), (&real, &reads)] {
        for MeasuredCell { cell, step } in cells {
            let predicted = predict_servers(&step.template, cluster, step.workers, step.batch);
            let error = predicted.images_per_second / cell.images_per_second - 1.0;
            println!(
                "| {} | {} | {} | {} | {:.2} | {:.2} | {:+.1}% | {} | {} |",
                cell.servers,
                cell.gpus,
                cell.mode,
                cell.data,
                cell.images_per_second,
                predicted.images_per_second,
                100.0 * error,
                if cell.gpus <= CALIBRATED { "yes" } else { "" },
                predicted.spent_on()
            );
        }
    }
    Ok(cluster)
}

/// Prints points of other sources, predicted without further fitting.
fn others(daint: &Cluster, aggregating: &Cluster) -> Result<()> {
    println!("\n## Other systems, without further fitting\n");
    println!(
        "Their GPUs are P100, with the speed of Piz Daint's. In the DGX-1 one process adds up the gradients of its GPUs, as on \
         p2.8xlarge, whose host's speed it has; its variables are in the same process.\n"
    );
    println!("| system | mode | published efficiency | predicted | source |");
    println!("| --- | --- | --- | --- | --- |");
    let dgx = Cluster {
        name: "DGX-1".to_owned(),
        hosts: Some(1),
        device: DeviceSpeed {
            per_worker: 8,
            ..daint.device
        },
        // Four PCIe switches.
        host: HostSpeed {
            copy_bandwidth: 4.0 * 10e9,
            ..aggregating.host
        },
        local: LinkSpeed {
            latency: 0.0,
            bandwidth: f64::INFINITY,
            call: 0.0,
        },
        ..daint.clone()
    };
    let alone = predict_servers(
        &inception(1, "parameter_server")?.template(1, 1)?,
        &dgx,
        1,
        REPORT_BATCH,
    );
    let eight = inception(8, "parameter_server")?.template(1, 1)?;
    let eight = predict_servers(&eight, &dgx, 1, REPORT_BATCH);
    let efficiency =
        |p: &Prediction, gpus: f64| 100.0 * p.images_per_second / gpus / alone.images_per_second;
    println!(
        "| DGX-1, 8 GPUs | parameter_server | 99.56% | {:.1}% | Google, as quoted by the report |",
        efficiency(&eight, 8.0)
    );
    let roce = Cluster {
        hosts: Some(128),
        network: LinkSpeed {
            bandwidth: 25e9 / 8.0,
            ..daint.network
        },
        ..daint.clone()
    };
    let template = inception(1, "parameter_server")?.template(1, 1)?;
    let options = AllReduceOptions {
        algorithm: Some(Algorithm::Ring),
        ..AllReduceOptions::default()
    };
    let horovod = predict_all_reduce(&template, &roce, 512, REPORT_BATCH, &options);
    println!(
        "| 128 hosts with 4 GPUs, 25 Gbit/s | ring all-reduce | 90% | {:.1}% | Horovod (Sergeev and Del Balso, 2018) |",
        efficiency(&horovod, 512.0)
    );
    Ok(())
}

/// Prints images/s by the number of servers, with two placements of variables.
fn curves(clusters: &[Cluster]) -> Result<()> {
    println!("\n## Images/s by the number of servers\n");
    println!(
        "In the mode parameter_server, synthetic images. *Greedy* is the placement of the report's program: each variable goes to the server with the fewest bytes so far, in the order of the network. *By cost* places the largest variables first.\n"
    );
    for (cluster, gpus) in [
        (&clusters[0], 64),
        (&clusters[0], 128),
        (&clusters[1], 64),
        (&clusters[1], 128),
    ] {
        let counts = server_counts(gpus);
        let step = inception(1, "parameter_server")?;
        let greedy = |servers| step.template(servers, gpus);
        let by_cost = |servers| {
            let placement = placement_by_cost(&step, cluster, servers, gpus)?;
            let step = ModelStep {
                placement,
                ..step.clone()
            };
            step.template(servers, gpus)
        };
        let greedy = sweep_servers(greedy, cluster, gpus, REPORT_BATCH, &counts)?;
        let by_cost = sweep_servers(by_cost, cluster, gpus, REPORT_BATCH, &counts)?;
        println!("{}, {gpus} workers:\n", cluster.name);
        println!("| servers | greedy, images/s | by cost, images/s |");
        println!("| --- | --- | --- |");
        for (one, other) in greedy.iter().zip(&by_cost) {
            let speed = |c: &Candidate| c.prediction.images_per_second;
            println!(
                "| {} | {:.0} | {:.0} |",
                one.servers,
                speed(one),
                speed(other)
            );
        }
        println!();
    }
    Ok(())
}
