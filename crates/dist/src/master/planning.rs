//! Makes the plans of steps, once for each combination of fetches and feeds, and registers their parts on the tasks.

use std::sync::Arc;

use thalweg_graph::{GraphData, OutputId};
use thalweg_plan::{TaskPartition, TaskPartitioner};
use thalweg_session::{Fetch, SessionError};
use thalweg_tensor::{Dims, Tensor};

use super::link::TaskRoute;
use super::plan::{ClusterPlan, PartHandle, PlacedPart, PlanKey};
use super::runner::ClusterRunner;
use crate::cluster::spec::TaskName;
use crate::error::{Cause, ClusterError};
use crate::transport::frames::Frames;
use crate::transport::messages as wire;
use crate::transport::messages::header::Kind;
use crate::transport::parts::codec;

impl ClusterRunner {
    pub(super) async fn plan(
        &self,
        data: &Arc<GraphData>,
        fetches: &[Fetch],
        feeds: &[(OutputId, Tensor)],
    ) -> Result<Arc<ClusterPlan>, ClusterError> {
        let given = feeds
            .iter()
            .map(|(o, t)| (*o, t.dtype(), Dims::from_slice(t.dims())));
        let key: PlanKey = (fetches.to_vec(), given.collect());
        if let Some(plan) = self.plans.get(&key) {
            return Ok(plan);
        }
        let (wanted, given) = (key.0.clone(), key.1.clone());
        let cut = move |partitioner: &TaskPartitioner, data: &GraphData| {
            partitioner.cut(data, &wanted, &given)
        };
        let plan = self.planned(data, fetches.len(), cut).await?;
        Ok(self.plans.keep(key, plan))
    }

    /// Returns the plan of a partial run, whose feeds come while it runs.
    pub(super) async fn plan_partial_run(
        &self,
        data: &Arc<GraphData>,
        fetches: &[Fetch],
        feeds: &[OutputId],
    ) -> Result<Arc<ClusterPlan>, ClusterError> {
        let (wanted, fed) = (fetches.to_vec(), feeds.to_vec());
        let cut = move |partitioner: &TaskPartitioner, data: &GraphData| {
            partitioner.cut_partial(data, &wanted, &fed)
        };
        self.planned(data, 0, cut).await
    }

    /// Makes the plan of a step with this number of fetches, cut by `cut`.
    async fn planned(
        &self,
        data: &Arc<GraphData>,
        fetches: usize,
        cut: impl FnOnce(&TaskPartitioner, &GraphData) -> Result<TaskPartition, SessionError>
        + Send
        + 'static,
    ) -> Result<Arc<ClusterPlan>, ClusterError> {
        let partitioner = self.partitioner(data).await?;
        let data = data.clone();
        // The time grows with the graph.
        let cut = move || cut(&partitioner, &data).map(|cut| (cut, partitioner));
        let cut = self.platform.run_compute(cut).await?;
        let (cut, partitioner) = cut.map_err(ClusterError::from)?;
        let parts = cut.parts.into_iter().map(|part| PlacedPart {
            part,
            registered: tokio::sync::Mutex::default(),
        });
        let ways: Vec<TaskRoute> = self.links.iter().map(|l| l.way.clone()).collect();
        Ok(Arc::new(ClusterPlan {
            session: self.asked.session.clone(),
            ways,
            platform: self.platform.clone(),
            parts: parts.collect(),
            channels: cut.channels,
            devices: partitioner.devices().to_vec(),
            fetches,
        }))
    }

    /// Returns a registered part. Registers it if needed, to the end even if the step that needs it ends before.
    pub(super) async fn registered(
        self: &Arc<Self>,
        plan: &Arc<ClusterPlan>,
        index: usize,
    ) -> Result<PartHandle, ClusterError> {
        if let Ok(registered) = plan.parts[index].registered.try_lock()
            && let Some(known) = &*registered
            && known.open.is_open()
        {
            return Ok(known.clone());
        }
        let (this, plan) = (self.clone(), plan.clone());
        let register = async move { this.register(&plan, index).await };
        let registered = self.platform.runtime().spawn(register).await;
        registered.map_err(|e| ClusterError::defect(&e))?
    }

    async fn register(
        &self,
        plan: &Arc<ClusterPlan>,
        index: usize,
    ) -> Result<PartHandle, ClusterError> {
        let placed = &plan.parts[index];
        let link = &self.links[placed.part.task as usize];
        let open = self.open(link).await?;
        let mut registered = placed.registered.lock().await;
        if let Some(known) = &*registered
            && known.open.generation == open.generation
        {
            return Ok(known.clone());
        }
        let tasks: Vec<TaskName> = self.links.iter().map(|l| l.name().clone()).collect();
        let devices = link.own_names(&plan.devices);
        let plan = plan.clone();
        let made = match (&link.way, open.here.clone()) {
            (_, Some((worker, session))) => {
                let keep = move || {
                    let part = plan.parts[index].part.clone();
                    let number =
                        worker.keep_own(&session, part, &plan.channels, &devices, &tasks)?;
                    Ok((number, Some(session.part(number)?)))
                };
                self.platform.run_compute(keep).await?
            }
            (TaskRoute::Remote(peer), None) => {
                let encode = move || {
                    let part = &plan.parts[index].part;
                    codec::encoded(part, &plan.channels, &devices, &tasks)
                };
                let encoded = self.platform.run_compute(encode).await?;
                let (part, values) = encoded?;
                let mut frames = Frames::of(Kind::Register(wire::Register {
                    session: self.asked.session.clone(),
                    part: Some(part),
                    opening: open.opening,
                }));
                for value in &values {
                    frames.push_value(0, value)?;
                }
                match peer.ask("Register", frames).await? {
                    Kind::Registered(r) => Ok((r.part, None)),
                    _ => Err(peer.unreachable("it has sent what is no answer")),
                }
            }
            (TaskRoute::Local(_), None) => {
                Err(ClusterError::new(Cause::Internal, "a task has no session"))
            }
        };
        let (number, here) = made?;
        let made = PartHandle { open, number, here };
        *registered = Some(made.clone());
        Ok(made)
    }
}
