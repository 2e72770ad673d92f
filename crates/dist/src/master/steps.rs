//! Steps of one graph over the tasks of a cluster.

mod plans;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thalweg_graph::{DeviceSpec, GraphData, OutputId, Tensor};
use thalweg_session::{Cancel, Cutter, Engine, Fetch, Plans, RunOptions, SessionOptions, TaskPart};
use tokio::task::JoinSet;
use tonic::Code;

use super::link::{Link, Opened, Way};
use super::wait;
use crate::platform::Platform;
use crate::status::Status;
use crate::wire::frames::Frames;
use crate::wire::messages as wire;
use crate::wire::messages::header::Kind;
use crate::worker::step::Failure;
use plans::{Key, Plan, Registered};

/// How often a step that waits looks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(10);

/// Plans and runs steps of one graph, which only grows, over several tasks.
pub(crate) struct Steps {
    inner: Arc<Inner>,
}

struct Inner {
    /// What is asked of each task. Nobody can guess the session's handle.
    asked: wire::Open,
    platform: Arc<dyn Platform>,
    engine: Engine,
    options: SessionOptions,
    /// By number of the task.
    links: Vec<Link>,
    /// Made anew when more is known of the devices.
    cutter: Mutex<Option<Arc<Cutter>>>,
    plans: Plans<Key, Plan>,
    next: AtomicU64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Steps {
    /// Over these tasks; where nothing says otherwise a node runs on the first. Constants are folded on
    /// `engine`.
    pub(crate) fn new(
        ways: Vec<Way>,
        engine: Engine,
        options: SessionOptions,
        isolated: bool,
        platform: Arc<dyn Platform>,
    ) -> Steps {
        let (job, index) = match ways.first() {
            Some(Way::Here(worker)) => worker.task.clone(),
            _ => (String::new(), 0),
        };
        Steps {
            inner: Arc::new(Inner {
                asked: wire::Open {
                    session: format!("{:016x}{:016x}", platform.number(), platform.number()),
                    isolated,
                    job,
                    index,
                },
                engine,
                plans: Plans::new(options.plans),
                options,
                links: ways.into_iter().map(Link::new).collect(),
                cutter: Mutex::default(),
                next: AtomicU64::new(platform.number()),
                platform,
            }),
        }
    }

    /// Runs a step: gives a value for each fetched output, in order, and nothing for a node that is
    /// only run.
    ///
    /// # Errors
    /// What is wrong with what is asked, and what went wrong in the step.
    pub(crate) fn run(
        &self,
        data: &Arc<GraphData>,
        fetches: &[Fetch],
        feeds: &[(OutputId, Tensor)],
        options: &RunOptions,
    ) -> Result<Vec<Option<Tensor>>, Status> {
        self.waited(self.run_async(data, fetches, feeds, options))
    }

    /// As [`Steps::run`]; dropping it ends the step.
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn run_async(
        &self,
        data: &Arc<GraphData>,
        fetches: &[Fetch],
        feeds: &[(OutputId, Tensor)],
        options: &RunOptions,
    ) -> Result<Vec<Option<Tensor>>, Status> {
        if self.ended() {
            return Err(over());
        }
        self.inner.step(data, fetches, feeds, options).await
    }

    /// Whether the server of this session was shut down.
    fn ended(&self) -> bool {
        let mut own = self.inner.links.iter().filter_map(|l| match &l.way {
            Way::Here(worker) => Some(worker),
            Way::There(_) => None,
        });
        own.any(|w| w.has_ended())
    }

    /// Looks whether the nodes of a graph have places.
    ///
    /// # Errors
    /// One has none, or a task that is asked for is not reached.
    pub(crate) fn placed(&self, data: &Arc<GraphData>) -> Result<(), Status> {
        let cutter = self.waited(self.inner.cutter(data))?;
        cutter.placed(data).map_err(|e| Status::from(&e))
    }

    /// Runs `work`, which runs steps, to its end.
    ///
    /// # Errors
    /// Its own, or the server of the session has ended.
    pub(crate) fn waited<T: Send>(
        &self,
        work: impl Future<Output = Result<T, Status>> + Send,
    ) -> Result<T, Status> {
        if self.ended() {
            return Err(over());
        }
        match wait::waited(self.inner.platform.runtime(), work) {
            Err(status) if status.code == Code::Internal && self.ended() => Err(over()),
            done => done,
        }
    }

    /// Ends the sessions on all tasks.
    pub(crate) fn close(&self) {
        self.inner.plans.clear();
        self.inner.links.iter().for_each(Link::close);
    }
}

fn over() -> Status {
    Status::new(
        Code::Unavailable,
        "the server of this session was shut down: make a session on one that runs",
    )
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.close();
    }
}

impl Inner {
    async fn open(&self, link: &Link) -> Result<Arc<Opened>, Status> {
        link.open(&self.asked, self.platform.runtime()).await
    }

    /// What cuts steps over the devices as they are known now.
    async fn cutter(&self, data: &GraphData) -> Result<Arc<Cutter>, Status> {
        // A task that nobody asked is taken to have a CPU; where a node wants more, it is asked.
        for link in self.links.iter().filter(|l| !l.is_known()) {
            let (job, index) = link.way.task();
            let here = |d: &DeviceSpec| {
                let known = self.links.iter().filter(|l| l.is_known());
                let mut known = known.flat_map(|l| l.devices());
                known.any(|k| d.device_type.is_none() || k.device_type == d.device_type)
            };
            let more = |d: &DeviceSpec| {
                let job_fits = match d.job.as_deref() {
                    Some(named) => named == job,
                    None => !here(d),
                };
                job_fits
                    && d.task.is_none_or(|t| t == *index)
                    && (d.device_type.as_deref().is_some_and(|t| t != "CPU")
                        || d.index.is_some_and(|i| i > 0))
            };
            if data.nodes().any(|(_, n)| more(&n.device)) {
                self.open(link).await?;
            }
        }
        let mut kept = locked(&self.cutter);
        // Numbers of devices stay, whatever is learnt: plans have them, and variables lie on them.
        let known = kept.as_ref().map_or(&[][..], |c| c.devices());
        let mut more = Vec::new();
        for (number, link) in self.links.iter().enumerate() {
            let own = link.devices().into_iter();
            let new = own.filter(|d| !known.contains(d));
            more.extend(new.map(|d| (d, number as u32)));
        }
        let made = match &*kept {
            Some(cutter) if more.is_empty() => return Ok(cutter.clone()),
            Some(cutter) => cutter.with(more),
            None => Cutter::new(self.engine.clone(), self.options.clone(), more),
        };
        let made = Arc::new(made);
        *kept = Some(made.clone());
        Ok(made)
    }

    async fn step(
        self: &Arc<Self>,
        data: &Arc<GraphData>,
        fetches: &[Fetch],
        feeds: &[(OutputId, Tensor)],
        options: &RunOptions,
    ) -> Result<Vec<Option<Tensor>>, Status> {
        let cancelled = || Status::new(Code::Cancelled, "the step was cancelled");
        let late = |limit: Duration| {
            let text = format!("the step did not end within its {limit:?}");
            Status::new(Code::DeadlineExceeded, text)
        };
        let stopped = async {
            let end = options.timeout.map(|t| tokio::time::Instant::now() + t);
            loop {
                let look = tokio::time::Instant::now() + LOOK;
                let next = match (&options.cancel, end) {
                    (None, None) => std::future::pending().await,
                    (None, Some(end)) => end,
                    (Some(_), None) => look,
                    (Some(_), Some(end)) => look.min(end),
                };
                tokio::time::sleep_until(next).await;
                if options.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
                    return cancelled();
                }
                if let (Some(limit), Some(end)) = (options.timeout, end)
                    && tokio::time::Instant::now() >= end
                {
                    return late(limit);
                }
            }
        };
        if options.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
            return Err(cancelled());
        }
        let run = async {
            let plan = self.plan(data, fetches, feeds).await?;
            self.parts(&plan, feeds, options.timeout).await
        };
        tokio::select! {
            biased;
            done = run => done,
            why = stopped => Err(why),
        }
    }

    /// Runs all parts. Dropping this ends them.
    async fn parts(
        self: &Arc<Self>,
        plan: &Arc<Plan>,
        feeds: &[(OutputId, Tensor)],
        limit: Option<Duration>,
    ) -> Result<Vec<Option<Tensor>>, Status> {
        let mut values = vec![None; plan.fetches];
        let mut registered = Vec::with_capacity(plan.parts.len());
        for index in 0..plan.parts.len() {
            registered.push(self.registered(plan, index).await?);
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut give = |part: &TaskPart, fetched: Vec<Tensor>| {
            for (&(fetch, _), value) in part.fetches.iter().zip(fetched) {
                values[fetch] = Some(value);
            }
        };
        let own = |part: &TaskPart| -> Vec<Tensor> {
            part.feeds
                .iter()
                .map(|&(i, _)| feeds[i].1.clone())
                .collect()
        };
        if let [placed] = &plan.parts[..] {
            let fed = own(&placed.part);
            let done = self.part(&placed.part, &registered[0], number, fed, limit);
            give(&placed.part, done.await.map_err(|f| f.status)?);
            return Ok(values);
        }
        let mut running = JoinSet::new();
        for (index, registered) in registered.into_iter().enumerate() {
            let (this, plan) = (self.clone(), plan.clone());
            let fed = own(&plan.parts[index].part);
            let run = async move {
                let part = &plan.parts[index].part;
                (
                    index,
                    this.part(part, &registered, number, fed, limit).await,
                )
            };
            running.spawn_on(run, self.platform.runtime());
        }
        let mut derived: Option<Failure> = None;
        loop {
            let next = running.join_next();
            let done = match &derived {
                None => next.await,
                // What it follows from is about to come.
                Some(failure) => match tokio::time::timeout(self.patience(), next).await {
                    Ok(done) => done,
                    Err(_) => return Err(failure.status.clone()),
                },
            };
            match done {
                None => break,
                Some(Err(e)) => return Err(Status::defect(&e)),
                Some(Ok((index, Ok(fetched)))) => give(&plan.parts[index].part, fetched),
                Some(Ok((_, Err(failure)))) if failure.derived => {
                    derived.get_or_insert(failure);
                }
                Some(Ok((_, Err(failure)))) => return Err(failure.status),
            }
        }
        match derived {
            Some(failure) => Err(failure.status),
            None => Ok(values),
        }
    }

    fn patience(&self) -> Duration {
        let mut all = self.links.iter().filter_map(|l| match &l.way {
            Way::There(peer) => Some(peer.patience().silence),
            Way::Here(_) => None,
        });
        all.next().unwrap_or_default()
    }

    async fn part(
        &self,
        part: &TaskPart,
        registered: &Registered,
        step: u64,
        feeds: Vec<Tensor>,
        limit: Option<Duration>,
    ) -> Result<Vec<Tensor>, Failure> {
        if let (Some((worker, session)), Some(own)) = (&registered.open.here, &registered.here) {
            let run = worker.run(
                session,
                &self.asked.session,
                own.clone(),
                step,
                feeds,
                limit,
            );
            return run.await;
        }
        let Way::There(peer) = &self.links[part.task as usize].way else {
            return Err(Status::new(Code::Internal, "a task has no session").into());
        };
        let near = peer.near().await?;
        let mut frames = Frames::of(Kind::Run(wire::Run {
            session: self.asked.session.clone(),
            part: registered.number,
            step,
            limit: limit.map_or(0, |l| u64::try_from(l.as_micros()).unwrap_or(u64::MAX)),
            near: near.map_or(0, |n| n.incarnation),
        }));
        for (number, feed) in feeds.iter().enumerate() {
            frames
                .push_value(number as i64, feed)
                .map_err(Failure::from)?;
        }
        let mut answer = peer.call("Run", frames).await?.near(near);
        let mut fetched = Vec::with_capacity(part.fetches.len());
        loop {
            let next = peer.next(&mut answer).await;
            match next.map_err(|(status, derived)| Failure { status, derived })? {
                Kind::Value(header) => fetched.push(peer.tensor(&mut answer, &header).await?),
                Kind::End(_) if fetched.len() == part.fetches.len() => return Ok(fetched),
                _ => return Err(peer.lost("its answer is not what was asked for").into()),
            }
        }
    }
}
