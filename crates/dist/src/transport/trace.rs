//! Encoding of the traces of parts.

use std::time::Duration;

use thalweg_session::{Channel, Event, Trace};

use super::messages as wire;

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Encodes the trace of a part. `began` and `took` are the times from its request to its begin and to its response.
pub(crate) fn encoded(trace: &Trace, began: Duration, took: Duration) -> wire::Traced {
    let event = |e: &Event| wire::Event {
        node: e.node.clone(),
        op: e.op.clone(),
        device: e.device.clone(),
        thread: e.thread as u32,
        start: e.start_us,
        duration: e.duration_us,
        bytes: e.bytes as u64,
        channel: e.channel.map(|c| wire::event::Channel {
            number: c.number,
            remote: c.remote,
        }),
        members: e.members.clone(),
    };
    wire::Traced {
        events: trace.events.iter().map(event).collect(),
        began: micros(began),
        took: micros(took),
    }
}

/// Returns the events of a part on the clock of a step that sent the request at `asked` and has the response at
/// `answered`, both from the step's start. Clocks of two machines are not compared: the duration of the call beyond
/// the task's own time counts as its way there and back, half of it each.
pub(crate) fn decoded(
    traced: wire::Traced,
    asked: Duration,
    answered: Duration,
) -> impl Iterator<Item = Event> {
    let way = (micros(answered) - micros(asked) - traced.took).max(0.0) / 2.0;
    let began = micros(asked) + way + traced.began;
    let told = |e: &wire::Event| e.start.is_finite() && e.duration.is_finite();
    let events = traced.events.into_iter().filter(told);
    events.map(move |e| Event {
        node: e.node,
        op: e.op,
        device: e.device,
        thread: e.thread as usize,
        start_us: began + e.start,
        duration_us: e.duration,
        bytes: usize::try_from(e.bytes).unwrap_or(usize::MAX),
        members: e.members,
        channel: e.channel.map(|c| Channel {
            number: c.number,
            remote: c.remote,
        }),
    })
}

/// Returns the events of a part in this process.
pub(crate) fn moved(trace: Trace, by: Duration) -> impl Iterator<Item = Event> {
    trace.events.into_iter().map(move |e| Event {
        start_us: micros(by) + e.start_us,
        ..e
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_trace_is_centred_in_its_call() {
        let event = Event {
            node: "x".to_owned(),
            op: "Add".to_owned(),
            device: "/job:ps/replica:0/task:0/device:CPU:0".to_owned(),
            thread: 3,
            start_us: 5.0,
            duration_us: 7.0,
            bytes: 12,
            members: vec!["w".to_owned(), "x".to_owned()],
            channel: Some(Channel {
                number: 5,
                remote: true,
            }),
        };
        let trace = Trace {
            events: vec![event],
            ..Trace::default()
        };
        let us = Duration::from_micros;
        let found: Vec<Event> =
            decoded(encoded(&trace, us(10), us(40)), us(100), us(200)).collect();
        // A call of 100 us of which the task took 40: the request arrived after 30.
        assert!((found[0].start_us - (100.0 + 30.0 + 10.0 + 5.0)).abs() < 1e-6);
        assert_eq!((found[0].thread, found[0].bytes), (3, 12));
        assert_eq!(found[0].channel, trace.events[0].channel);
        assert_eq!(found[0].members, trace.events[0].members);
        // The task's clock runs faster.
        let found: Vec<Event> =
            decoded(encoded(&trace, us(10), us(400)), us(100), us(200)).collect();
        assert!((found[0].start_us - (100.0 + 10.0 + 5.0)).abs() < 1e-6);
    }
}
