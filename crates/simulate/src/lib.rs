//! Predicts the time of a training step on a cluster, by simulation.
//!
//! - [`ModelStep`] builds the graph of a worker; the passes that sessions use place it and cut it into parts. [`StepGraph`] is
//!   the same for any graph. Each gives a [`StepTemplate`]: kernels, copies and messages of one worker.
//! - [`Cluster`] has the speeds of devices, hosts and links, from a file, or by [`calibrate`] from measured steps.
//! - [`predict_servers`] and [`predict_all_reduce`] run the template for all workers in [`events`], a discrete-event core, and
//!   return a [`Prediction`]. Messages of all-reduces are those of the collectives' own algorithms.
//! - [`StatisticsPass`] is a pass of a regression or of K-means over rows that ranks share.
//! - [`sweep_servers`] tries numbers of servers, and [`placement_by_cost`] places variables.
//!
//! ```
//! use thalweg_models::Data;
//! use thalweg_simulate::{Cluster, ModelStep, best, predict_servers, server_counts, sweep_servers};
//!
//! let cluster = Cluster::named("p2.xlarge").expect("a known cluster");
//! let step = ModelStep::new("lenet", Data::ImageNet)?.on(&cluster);
//! let step = ModelStep { batch: 64, ..step };
//! let template = |servers| step.template(servers, 4);
//! let all = sweep_servers(template, &cluster, 4, step.batch, &server_counts(4))?;
//! let best = best(&all).expect("four candidates");
//! println!("{} servers: {:.0} images/s", best.servers, best.prediction.images_per_second);
//! assert!(best.prediction.images_per_second > 0.0);
//! # Ok::<(), thalweg_simulate::SimulateError>(())
//! ```

mod calibrate;
mod cluster;
mod cluster_file;
mod error;
pub mod events;
mod run;
mod search;
mod step;

pub use calibrate::{Constant, MeasuredStep, calibrate};
pub use cluster::{Barrier, Cluster, DeviceSpeed, HostSpeed, LinkSpeed, ServerHosts};
pub use error::{Result, SimulateError};
pub use run::{
    AllReduceOptions, PassKernel, PassPrediction, Prediction, ResourceUse, Span, StatisticsPass,
    predict_all_reduce, predict_servers,
};
pub use search::{Candidate, best, placement_by_cost, server_counts, sweep_servers};
pub use step::{
    Item, ItemWork, ModelStep, NodeCost, StepGraph, StepTemplate, Stream, TemplateTask,
};
