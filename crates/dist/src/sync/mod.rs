//! Synchronous training over a cluster: see [`thalweg_optim::SyncReplicas`].
//!
//! Each worker gives gradients, and one task of the cluster applies their mean. Here one server is both:
//!
//! ```
//! use thalweg_dist::{ClusterOptions, Server, ServerOptions, Session, sync};
//! use thalweg_graph::Graph;
//! use thalweg_ops::{MathOps, NewGraph, StateOps};
//! use thalweg_optim::{GradientDescent, SyncReplicas, create_global_step};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::start(ServerOptions::listening("127.0.0.1:0"))?;
//! let g = Graph::new();
//! let w = g.variable("w", 4.0f32);
//! let loss = w.value().square();
//! let one = SyncReplicas::new(GradientDescent::new(0.25), 1);
//! let training = one.minimize(loss, create_global_step(&g));
//! let session = Session::on(&server, &g, ClusterOptions::default())?;
//! session.run(g.initializers(), [])?;
//!
//! // Two updates, each of one gradient of worker 0.
//! let steps = std::thread::scope(|scope| {
//!     let coordinator = scope.spawn(|| sync::coordinate(&server, &session, &training, "localhost", 2));
//!     let mut steps = 0;
//!     while sync::give::<f32>(&session, &training, 0, loss, [])?.is_some() {
//!         steps += 1;
//!     }
//!     coordinator.join().expect("no panic")?;
//!     Ok::<_, thalweg_dist::ClusterError>(steps)
//! })?;
//! assert_eq!(steps, 2);
//! assert_eq!(session.run::<f32>(w, [])?, 1.0);
//! # Ok(())
//! # }
//! ```

mod coordinator;
pub(crate) mod replica;

pub use coordinator::{Coordinator, coordinate};
pub use replica::{give, give_with};
