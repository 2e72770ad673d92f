//! Jobs in Kubernetes: their manifests. Nothing is run.
//!
//! Ranks are an indexed Job. Servers are a StatefulSet, and workers an indexed Job. A headless Service gives all Pods names.
//! Kubernetes puts the number of a Pod into flags and variables itself, so that an image needs neither a shell nor the launcher.

mod check;
mod job;
mod manifests;
mod pods;
#[cfg(test)]
mod tests;
mod yaml;

pub use job::{KubernetesJob, PodOptions, PodRestart, PodTasks};
