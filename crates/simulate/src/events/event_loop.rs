//! Loop over events: runs a simulation.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::ids::{ActivityId, ResourceId};
use super::outcome::{Blocker, Outcome};
use super::resource::{ResourceKind, Sharing};
use super::simulation::{Simulation, Work};

/// Step of an activity at a time.
#[derive(Clone, Copy)]
struct Event {
    time: f64,
    /// Order among events of one time.
    number: u64,
    step: Step,
}

#[derive(Clone, Copy)]
enum Step {
    /// All that it waits for are done.
    Ready(ActivityId),
    /// The first byte of its message is at the receiver's port.
    Arrived(ActivityId),
    Done(ActivityId),
    /// The next activity of a shared resource is done, if no other has come since.
    Shared(ResourceId, u64),
}

impl PartialEq for Event {
    fn eq(&self, other: &Event) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The earliest is the greatest, for [`BinaryHeap`].
impl Ord for Event {
    fn cmp(&self, other: &Event) -> Ordering {
        let by_time = other.time.total_cmp(&self.time);
        by_time.then(other.number.cmp(&self.number))
    }
}

impl Simulation {
    /// Runs all activities. Activities wait for earlier ones only, so each one ends.
    pub fn run(mut self) -> Outcome {
        let mut run = EventLoop {
            events: BinaryHeap::new(),
            number: 0,
            begins: vec![0.0; self.work.len()],
            ends: vec![0.0; self.work.len()],
            blockers: vec![None; self.work.len()],
        };
        for (index, &waits) in self.waits.iter().enumerate() {
            if waits == 0 {
                run.push(0.0, Step::Ready(ActivityId(index as u32)));
            }
        }
        while let Some(Event { time, step, .. }) = run.events.pop() {
            match step {
                Step::Ready(activity) => self.begin(&mut run, activity, time),
                Step::Arrived(activity) => self.arrive(&mut run, activity, time),
                Step::Done(activity) => self.finish(&mut run, activity, time),
                Step::Shared(resource, generation) => {
                    let ResourceKind::Shared(sharing) = &mut self.resources[resource.index()].kind
                    else {
                        continue;
                    };
                    if sharing.generation != generation {
                        continue;
                    }
                    let done = sharing.remove(time);
                    run.schedule(sharing, resource);
                    if let Some(activity) = done {
                        self.finish(&mut run, activity, time);
                    }
                }
            }
        }
        Outcome {
            begins: run.begins,
            ends: run.ends,
            blockers: run.blockers,
            simulation: self,
        }
    }

    fn begin(&mut self, run: &mut EventLoop, activity: ActivityId, now: f64) {
        let at = activity.index();
        run.begins[at] = now;
        match self.work[at] {
            Work::Join => self.finish(run, activity, now),
            Work::Run { on, seconds } => {
                let resource = &mut self.resources[on.index()];
                resource.busy += seconds;
                if let ResourceKind::Shared(sharing) = &mut resource.kind {
                    sharing.add(now, activity, seconds);
                    run.schedule(sharing, on);
                } else {
                    let begin = self.occupy(run, on, activity, now, seconds);
                    run.begins[at] = begin;
                    run.push(begin + seconds, Step::Done(activity));
                }
            }
            Work::Message {
                out,
                seconds,
                latency,
                ..
            } => {
                self.resources[out.index()].busy += seconds;
                let begin = self.occupy(run, out, activity, now, seconds);
                run.begins[at] = begin;
                run.push(begin + latency, Step::Arrived(activity));
            }
        }
    }

    /// Puts a message into the receiver's port, from its first byte on.
    fn arrive(&mut self, run: &mut EventLoop, activity: ActivityId, now: f64) {
        let Work::Message { into, seconds, .. } = self.work[activity.index()] else {
            return;
        };
        self.resources[into.index()].busy += seconds;
        let begin = self.occupy(run, into, activity, now, seconds);
        run.push(begin + seconds, Step::Done(activity));
    }

    /// Gives a serial resource to an activity from when it is free, and returns that time.
    fn occupy(
        &mut self,
        run: &mut EventLoop,
        on: ResourceId,
        activity: ActivityId,
        now: f64,
        seconds: f64,
    ) -> f64 {
        let ResourceKind::Serial { free, last } = &mut self.resources[on.index()].kind else {
            return now;
        };
        let before = last.replace(activity).filter(|_| *free > now);
        if let Some(before) = before {
            run.blockers[activity.index()] = Some(Blocker::Resource(on, before));
        }
        let begin = free.max(now);
        *free = begin + seconds;
        begin
    }

    fn finish(&mut self, run: &mut EventLoop, activity: ActivityId, now: f64) {
        run.ends[activity.index()] = now;
        let mut entry = self.dependents[activity.index()];
        while let Some(edge) = entry {
            let (next, dependent) = self.edges[edge as usize];
            entry = next;
            let waits = &mut self.waits[dependent.index()];
            *waits -= 1;
            if *waits == 0 {
                run.blockers[dependent.index()] = Some(Blocker::Activity(activity));
                run.push(now, Step::Ready(dependent));
            }
        }
    }
}

/// State of a run.
struct EventLoop {
    events: BinaryHeap<Event>,
    number: u64,
    begins: Vec<f64>,
    ends: Vec<f64>,
    blockers: Vec<Option<Blocker>>,
}

impl EventLoop {
    fn push(&mut self, time: f64, step: Step) {
        self.number += 1;
        self.events.push(Event {
            time,
            number: self.number,
            step,
        });
    }

    /// Schedules the next end of a shared resource.
    fn schedule(&mut self, sharing: &mut Sharing, resource: ResourceId) {
        if let Some(time) = sharing.next_end() {
            self.push(time, Step::Shared(resource, sharing.generation));
        }
    }
}
