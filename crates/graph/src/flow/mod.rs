//! TensorFlow 1's control flow (Switch, Merge, Enter, Exit, NextIteration): contexts of nodes, and
//! regions that become functions.
//!
//! TensorFlow's files may hold these nodes; [`Graph`](crate::Graph) itself builds branches and loops as functions.
//!
//! ```
//! # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
//! use thalweg_graph::flow::{Contexts, SWITCH};
//!
//! let g = ops::graph();
//! let x = ops::constant(&g, 1.0f32);
//! let choice = g.op(SWITCH).input(x).input(ops::constant(&g, true)).build();
//! let in_branch = choice.output(1) + x;
//!
//! let data = g.snapshot();
//! let order: Vec<_> = data.ids().collect();
//! let contexts = Contexts::new(&data, &order);
//! let flows = |id| contexts.in_control_flow(data.node(id), id);
//! assert!(flows(in_branch.id().node));
//! // Nodes before the branch run exactly once.
//! assert!(!flows(x.id().node));
//! ```

mod call_values;
mod contexts;
mod ops;
mod region_body;
mod regions;
mod split_calls;
mod value_readers;

pub use call_values::with_values;
pub(crate) use call_values::{can_take_value, handle_of_call};
pub use contexts::Contexts;
pub use ops::{ENTER, EXIT, MERGE, NEXT, SWITCH, makes_holder};
pub use region_body::RegionBody;
pub use regions::{REGION, collapse, is_extracted};
pub(crate) use split_calls::can_split;
