//! Time of a step by activity: compute, exchange, input, waiting.

use serde_json::{Value, json};
use thalweg::session::{Event, Trace};
use thalweg_examples::report::median;

/// Seconds of a step by activity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepTime {
    /// A device of this process computed.
    pub compute: f64,
    /// No device computed, and values were sent or received.
    pub exchange: f64,
    /// The program made images.
    pub input: f64,
    /// The rest: devices waited for each other or for the program.
    pub waiting: f64,
}

impl StepTime {
    /// Splits a step's time. `took` is the whole step in seconds, input included; `input` is the time of making the
    /// images; `own` names the task whose devices count.
    pub fn of(trace: &Trace, own: &str, took: f64, input: f64) -> StepTime {
        let mine = trace.events.iter().filter(|e| e.device.contains(own));
        let (moves, work): (Vec<&Event>, Vec<&Event>) = mine.partition(|e| is_exchange(&e.op));
        let compute = busy_seconds(work.iter().copied());
        let both = busy_seconds(work.into_iter().chain(moves));
        let waiting = (took - input - both).max(0.0);
        StepTime {
            compute,
            exchange: both - compute,
            input,
            waiting,
        }
    }

    /// Shares of the step, whose sum is 1.
    pub fn shares(&self) -> StepTime {
        let all = self.compute + self.exchange + self.input + self.waiting;
        let share = |seconds: f64| seconds / all.max(1e-12);
        StepTime {
            compute: share(self.compute),
            exchange: share(self.exchange),
            input: share(self.input),
            waiting: share(self.waiting),
        }
    }

    /// Shares of the steps that were traced among the measured ones, or else of that of `--trace_file`, before them: the
    /// median of each. `None` without traces.
    pub fn median_shares(step_times: &[(u64, StepTime)]) -> Option<StepTime> {
        let measured = step_times.iter().any(|(step, _)| *step > 0);
        let counted = step_times
            .iter()
            .filter(|(step, _)| (*step > 0) == measured);
        // The first step with a trace makes its plan.
        let counted = counted.skip(usize::from(!measured));
        let shares: Vec<StepTime> = counted.map(|(_, step_time)| step_time.shares()).collect();
        let part = |of: fn(&StepTime) -> f64| median(shares.iter().map(of).collect());
        Some(StepTime {
            compute: part(|s| s.compute)?,
            exchange: part(|s| s.exchange)?,
            input: part(|s| s.input)?,
            waiting: part(|s| s.waiting)?,
        })
    }

    /// As an object.
    pub fn to_json(self) -> Value {
        json!({
            "compute": self.compute, "exchange": self.exchange, "input": self.input, "waiting": self.waiting,
        })
    }
}

/// `true` for ops that move values between devices or tasks.
fn is_exchange(op: &str) -> bool {
    matches!(op, "_Send" | "_Recv" | "_HostSend" | "_HostRecv") || op.starts_with("copy ")
}

/// Seconds during which at least one of the events was running.
fn busy_seconds<'e>(events: impl Iterator<Item = &'e Event>) -> f64 {
    let mut spans: Vec<(f64, f64)> = events
        .map(|e| (e.start_us, e.start_us + e.duration_us))
        .collect();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut all, mut until) = (0.0, f64::NEG_INFINITY);
    for (begin, end) in spans {
        all += (end - begin.max(until)).max(0.0);
        until = until.max(end);
    }
    all / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(op: &str, start_us: f64, duration_us: f64, device: &str) -> Event {
        Event {
            node: op.to_owned(),
            op: op.to_owned(),
            device: device.to_owned(),
            thread: 0,
            start_us,
            duration_us,
            bytes: 0,
            members: Vec::new(),
            channel: None,
        }
    }

    #[test]
    fn an_exchange_counts_only_while_nothing_computes() {
        let trace = Trace {
            events: vec![
                event("Conv2D", 0.0, 40.0, "/task:0/cpu:0"),
                event("Conv2D", 20.0, 40.0, "/task:0/cpu:1"),
                event("_Send", 50.0, 30.0, "/task:0/cpu:0"),
                event("_Recv", 85.0, 5.0, "/task:0/cpu:0"),
                event("MatMul", 60.0, 40.0, "/task:1/cpu:0"),
            ],
            ..Default::default()
        };
        let step_time = StepTime::of(&trace, "/task:0", 120e-6, 10e-6);
        let micro = |s: f64| (s * 1e6).round();
        assert_eq!(micro(step_time.compute), 60.0);
        assert_eq!(micro(step_time.exchange), 25.0);
        assert_eq!(micro(step_time.input), 10.0);
        assert_eq!(micro(step_time.waiting), 25.0);
        assert!((step_time.shares().exchange - 25.0 / 120.0).abs() < 1e-9);
    }

    #[test]
    fn shares_are_those_of_measured_steps_or_of_the_trace_before_them() {
        let step_time = |compute: f64| StepTime {
            compute,
            waiting: 1.0,
            ..StepTime::default()
        };
        let compute = |all: &[(u64, StepTime)]| StepTime::median_shares(all).map(|s| s.compute);
        assert_eq!(compute(&[]), None);
        let before = [(0, step_time(9.0)), (0, step_time(1.0))];
        assert_eq!(compute(&before), Some(0.5));
        assert_eq!(compute(&before[..1]), None);
        let measured = [before[0], (10, step_time(3.0))];
        assert_eq!(compute(&measured), Some(0.75));
    }
}
