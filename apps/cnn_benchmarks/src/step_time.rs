//! Time of a step by activity: compute, exchange, input, waiting.

use thalweg::session::{Event, Trace};

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

    /// Share of the step in which values were exchanged and nothing was computed.
    pub fn exchange_share(&self) -> f64 {
        let all = self.compute + self.exchange + self.input + self.waiting;
        self.exchange / all.max(1e-12)
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
        assert!((step_time.exchange_share() - 25.0 / 120.0).abs() < 1e-9);
    }
}
