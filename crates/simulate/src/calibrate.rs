//! Calibration: constants of a cluster from measured steps.

use crate::cluster::Cluster;
use crate::run::predict_servers;
use crate::step::StepTemplate;

/// Physical constant of a cluster that a calibration may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constant {
    /// Speed of devices: operations and bytes a second, in proportion.
    Compute,
    /// Bandwidth of a host's port.
    Network,
    /// Time of a message, however short.
    Call,
    /// Bytes a second of updates and sums on a host.
    Update,
    /// Bytes a second between a host and its devices.
    Copy,
    /// Standard deviation of computing times.
    Straggling,
    /// Images that a host reads and decodes in a second.
    Input,
    /// Bandwidth between tasks of one host.
    Local,
    /// Tasks of CPU devices that compute at full speed at the same time on a host.
    TasksAtFullSpeed,
}

/// Factors from which the search starts, for each constant: errors have several minima.
const STARTS: [f64; 5] = [1.0 / 32.0, 1.0 / 8.0, 0.5, 2.0, 8.0];
/// Number of the best starts that are refined.
const REFINED_STARTS: usize = 12;
/// Factors of the search, from coarse to fine.
const STEPS: [f64; 7] = [1.7, 1.3, 1.1, 1.05, 1.02, 1.01, 1.005];
/// Maximum number of times that each factor is tried on all constants.
const ROUNDS: usize = 4;

impl Constant {
    /// Multiplies the constant of a cluster by a factor.
    fn scale(self, cluster: &mut Cluster, factor: f64) {
        match self {
            Constant::Compute => {
                cluster.device.flops *= factor;
                cluster.device.bandwidth *= factor;
            }
            Constant::Network => cluster.network.bandwidth *= factor,
            Constant::Call => cluster.network.call *= factor,
            Constant::Update => cluster.host.bandwidth *= factor,
            Constant::Copy => cluster.host.copy_bandwidth *= factor,
            Constant::Straggling => cluster.straggling *= factor,
            Constant::Local => cluster.local.bandwidth *= factor,
            Constant::TasksAtFullSpeed => cluster.host.tasks_at_full_speed *= factor,
            Constant::Input => {
                if let Some(rate) = &mut cluster.input {
                    *rate *= factor;
                }
            }
        }
    }
}

/// Measured speed of a cluster with parameter servers.
#[derive(Clone, Debug)]
pub struct MeasuredStep {
    /// Step of a worker, with the servers.
    pub template: StepTemplate,
    /// Number of workers.
    pub workers: u32,
    /// Images of a step of a device.
    pub batch: u32,
    /// Images a second of all workers.
    pub images_per_second: f64,
}

/// Changes constants of a cluster so that the squares of the relative errors of its predicted steps have the least sum.
///
/// The speed of devices follows from `alone`, a step of one worker, if there is one. The other constants are searched for, from several starts,
/// along one constant at a time. Constants that are 0 stay 0.
pub fn calibrate(
    cluster: &Cluster,
    alone: Option<&MeasuredStep>,
    measured: &[MeasuredStep],
    constants: &[Constant],
) -> Cluster {
    let mut base = cluster.clone();
    // The rest of a step of one worker does not depend on the device, so that the factor is found in a few rounds.
    for alone in alone.into_iter().flat_map(|step| [step; 4]) {
        let factor = alone.images_per_second / predicted(&base, alone);
        Constant::Compute.scale(&mut base, factor);
    }
    let of = |factors: &[f64]| {
        let mut scaled = base.clone();
        for (constant, factor) in constants.iter().zip(factors) {
            constant.scale(&mut scaled, *factor);
        }
        scaled
    };
    let error = |factors: &[f64]| squared_error(&of(factors), measured);
    let starts = STARTS.len().pow(constants.len() as u32);
    let start = |number: usize| -> Vec<f64> {
        let digit = |at: usize| number / STARTS.len().pow(at as u32) % STARTS.len();
        (0..constants.len()).map(|at| STARTS[digit(at)]).collect()
    };
    let mut tried: Vec<(f64, Vec<f64>)> = (0..starts)
        .map(|number| (error(&start(number)), start(number)))
        .collect();
    tried.sort_by(|a, b| a.0.total_cmp(&b.0));
    tried.truncate(REFINED_STARTS);
    let refined = tried.into_iter().map(|from| refine(from, error));
    match refined.min_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((_, factors)) => of(&factors),
        None => base,
    }
}

/// Searches from these factors, with this error, along one factor at a time.
fn refine(
    (mut least, mut factors): (f64, Vec<f64>),
    error: impl Fn(&[f64]) -> f64,
) -> (f64, Vec<f64>) {
    for step in STEPS {
        for _ in 0..ROUNDS {
            let before = least;
            for at in 0..factors.len() {
                for direction in [step, 1.0 / step] {
                    let mut trial = factors.clone();
                    trial[at] *= direction;
                    let error = error(&trial);
                    if error < least {
                        (least, factors) = (error, trial);
                        break;
                    }
                }
            }
            if least == before {
                break;
            }
        }
    }
    (least, factors)
}

fn predicted(cluster: &Cluster, measured: &MeasuredStep) -> f64 {
    let predicted = predict_servers(
        &measured.template,
        cluster,
        measured.workers,
        measured.batch,
    );
    predicted.images_per_second
}

/// Sum of the squares of the relative errors of predicted steps.
fn squared_error(cluster: &Cluster, measured: &[MeasuredStep]) -> f64 {
    let error = |m: &MeasuredStep| (m.images_per_second / predicted(cluster, m) - 1.0).powi(2);
    measured.iter().map(error).sum()
}
