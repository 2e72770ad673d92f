//! The plan of a step over a cluster: a part for each task.

use std::sync::Arc;

use thalweg_graph::{DeviceSpec, OutputId};
use thalweg_plan::{TaskChannel, TaskPart};
use thalweg_session::Fetch;
use thalweg_tensor::{DType, Dims};

use super::link::{OpenSession, TaskRoute};
use crate::runtime::platform::Platform;
use crate::transport::frames::Frames;
use crate::transport::messages as wire;
use crate::transport::messages::header::Kind;
use crate::worker::registered_part::RegisteredPart;

/// Key of a plan: fetches, and feeds with their dtypes and dimensions.
pub(super) type PlanKey = (Vec<Fetch>, Vec<(OutputId, DType, Dims)>);

/// A step in parts. A drop removes the parts from their tasks.
pub(super) struct ClusterPlan {
    pub(super) session: String,
    pub(super) ways: Vec<TaskRoute>,
    pub(super) platform: Arc<dyn Platform>,
    pub(super) parts: Vec<PlacedPart>,
    pub(super) channels: Vec<TaskChannel>,
    /// Names of all devices, by number.
    pub(super) devices: Vec<DeviceSpec>,
    pub(super) fetches: usize,
}

impl Drop for ClusterPlan {
    fn drop(&mut self) {
        for placed in &mut self.parts {
            let Some(registered) = placed.registered.get_mut().take() else {
                continue;
            };
            let way = &self.ways[placed.part.task as usize];
            match (&registered.open.here, way) {
                (Some((_, session)), _) => session.drop_part(registered.number),
                (None, TaskRoute::Remote(peer)) => {
                    let (peer, session) = (peer.clone(), self.session.clone());
                    self.platform.runtime().spawn(async move {
                        let forget = Kind::Forget(wire::Forget {
                            session,
                            part: registered.number,
                            opening: registered.open.opening,
                        });
                        // A task that is gone has no parts.
                        let _ = peer.ask("Forget", Frames::of(forget)).await;
                    });
                }
                (None, TaskRoute::Local(_)) => {}
            }
        }
    }
}

/// Part of a step for one task.
pub(super) struct PlacedPart {
    pub(super) part: TaskPart,
    pub(super) registered: tokio::sync::Mutex<Option<PartHandle>>,
}

/// A part that is registered on its task.
#[derive(Clone)]
pub(super) struct PartHandle {
    pub(super) open: Arc<OpenSession>,
    pub(super) number: u64,
    /// The part itself, if its task is this process.
    pub(super) here: Option<Arc<RegisteredPart>>,
}
