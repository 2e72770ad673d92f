//! Search for the best number of servers, and for the placement of variables.

use thalweg_parallel::ServerPlacement;

use crate::cluster::Cluster;
use crate::error::{Result, SimulateError};
use crate::run::{Prediction, predict_servers, steps};
use crate::step::{ModelStep, StepTemplate};

/// Predicted step with a number of servers.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Number of servers.
    pub servers: u32,
    /// Prediction.
    pub prediction: Prediction,
}

/// Numbers of servers to try for so many workers: each up to 4, then four or so in each doubling, and the number of workers.
///
/// ```
/// assert_eq!(thalweg_simulate::server_counts(12), [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12]);
/// ```
pub fn server_counts(workers: u32) -> Vec<u32> {
    let mut counts = Vec::new();
    let mut next: u32 = 1;
    while next < workers {
        counts.push(next);
        // A quarter of the largest power of two below.
        next += (next.next_power_of_two() / 8).max(1);
    }
    counts.push(workers.max(1));
    counts
}

/// Maximum number of activities of a simulation, which take about 150 bytes each.
const MAX_ACTIVITIES: usize = 20_000_000;

/// Predicts a step of so many workers with each of these numbers of servers.
///
/// # Errors
/// Those of `template`, which makes the template for a number of servers; [`SimulateError::Size`].
pub fn sweep_servers(
    template: impl Fn(u32) -> Result<StepTemplate>,
    cluster: &Cluster,
    workers: u32,
    batch: u32,
    counts: &[u32],
) -> Result<Vec<Candidate>> {
    let candidate = |&servers: &u32| {
        let template = template(servers)?;
        let steps = steps(cluster.barrier) as usize;
        let activities = (template.items.len() * steps).saturating_mul(workers as usize);
        if activities > MAX_ACTIVITIES {
            return Err(SimulateError::Size {
                activities,
                most: MAX_ACTIVITIES,
            });
        }
        let prediction = predict_servers(&template, cluster, workers, batch);
        Ok(Candidate {
            servers,
            prediction,
        })
    };
    counts.iter().map(candidate).collect()
}

/// The fastest candidate; of those within 1% of it, the one with the fewest servers.
pub fn best(candidates: &[Candidate]) -> Option<&Candidate> {
    let speed = |c: &Candidate| c.prediction.images_per_second;
    let most = candidates.iter().map(speed).fold(0.0, f64::max);
    let good = candidates.iter().filter(|c| speed(c) >= 0.99 * most);
    good.min_by_key(|c| c.servers)
}

/// Places the variables of a network on so many servers by the time that each takes there: [`ServerPlacement::by_cost`], for
/// [`DataParallel::server_placement`](thalweg_parallel::DataParallel::server_placement).
///
/// # Errors
/// The graph is not built.
pub fn placement_by_cost(
    step: &ModelStep,
    cluster: &Cluster,
    servers: u32,
    workers: u32,
) -> Result<ServerPlacement> {
    let seconds =
        |bytes: f64| 2.0 * cluster.network.seconds(bytes) + 3.0 * bytes / cluster.host.bandwidth;
    let variables = step.variables(servers, workers)?.into_iter();
    let costs = variables.map(|(name, bytes)| (name, seconds(bytes)));
    Ok(ServerPlacement::by_cost(costs, servers))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::TemplateTask;

    #[test]
    fn a_simulation_that_does_not_fit_is_an_error() {
        let cluster = Cluster::named("daint").unwrap();
        let step = ModelStep::new("resnet20", thalweg_models::Data::Cifar10).unwrap();
        let template = |servers| step.template(servers, 2);
        let error = sweep_servers(template, &cluster, 10_000_000, 1, &[1]).unwrap_err();
        assert!(
            error.to_string().ends_with("simulate fewer workers"),
            "{error}"
        );
    }

    #[test]
    fn variables_that_take_longest_are_placed_first() {
        let cluster = Cluster::named("daint").unwrap();
        let step = ModelStep::new("lenet", thalweg_models::Data::ImageNet).unwrap();
        let largest = |placement: ServerPlacement| {
            let step = ModelStep {
                placement,
                ..step.clone()
            };
            let template = step.template(3, 2).unwrap();
            let to = |server: u32| -> f64 {
                let own = template.messages();
                let own = own.filter(|(_, to, _)| *to == TemplateTask::Server(server));
                own.map(|(.., bytes)| bytes).sum()
            };
            (0..3).map(to).fold(0.0, f64::max)
        };
        let by_cost = placement_by_cost(&step, &cluster, 3, 2).unwrap();
        let in_turn = largest(ServerPlacement::RoundRobin);
        let by_cost = largest(by_cost);
        assert!(by_cost <= largest(ServerPlacement::Greedy));
        assert!(by_cost < in_turn, "{by_cost} {in_turn}");
    }

    #[test]
    fn counts_are_all_small_ones_and_some_of_each_doubling() {
        assert_eq!(server_counts(1), [1]);
        assert_eq!(server_counts(3), [1, 2, 3]);
        let counts = server_counts(128);
        assert!(counts.len() < 30, "{counts:?}");
        assert!(counts.windows(2).all(|w| w[0] < w[1]));
        assert_eq!(counts.last(), Some(&128));
    }
}
