//! Tests of the discrete-event core, against closed forms.

use super::*;

#[test]
fn a_serial_resource_runs_activities_in_the_order_in_which_they_are_ready() {
    let mut s = Simulation::default();
    let (a, b) = (s.serial("a"), s.serial("b"));
    let slow = s.add(
        Work::Run {
            on: b,
            seconds: 5.0,
        },
        &[],
    );
    let last = s.add(
        Work::Run {
            on: a,
            seconds: 1.0,
        },
        &[slow],
    );
    let first = s.add(
        Work::Run {
            on: a,
            seconds: 2.0,
        },
        &[],
    );
    let outcome = s.run();
    assert_eq!((outcome.end(first), outcome.begin(last)), (2.0, 5.0));
    assert_eq!((outcome.seconds(), outcome.busy(a)), (6.0, 3.0));
    assert_eq!(outcome.critical_path(last), [slow, last]);
}

#[test]
fn a_shared_resource_slows_down_when_more_run_than_it_has_room_for() {
    let mut s = Simulation::default();
    let cpu = s.shared("cpu", 2.0);
    let run = |seconds| Work::Run { on: cpu, seconds };
    let all: Vec<ActivityId> = [1.0, 2.0, 2.0].map(|n| s.add(run(n), &[])).into();
    let outcome = s.run();
    // Three at 2/3: the first is done at 1.5 with the others half done, which go on at full speed.
    let ends: Vec<f64> = all.iter().map(|&a| outcome.end(a)).collect();
    for (end, expected) in ends.iter().zip([1.5, 2.5, 2.5]) {
        assert!((end - expected).abs() < 1e-12, "{ends:?}");
    }
}

#[test]
fn messages_from_many_wait_at_the_port_of_the_receiver() {
    let mut s = Simulation::default();
    let into = s.serial("in");
    let all: Vec<ActivityId> = (0..4)
        .map(|n| {
            let out = s.serial(format!("out {n}"));
            s.add(
                Work::Message {
                    out,
                    into,
                    seconds: 1.0,
                    latency: 0.25,
                },
                &[],
            )
        })
        .collect();
    let outcome = s.run();
    let ends: Vec<f64> = all.iter().map(|&a| outcome.end(a)).collect();
    assert_eq!(ends, [1.25, 2.25, 3.25, 4.25]);
    assert_eq!(outcome.critical_path(all[3]), all);
}

#[test]
fn a_join_ends_with_the_last_that_it_waits_for() {
    let mut s = Simulation::default();
    let (a, b) = (s.serial("a"), s.serial("b"));
    let run = |on, seconds| Work::Run { on, seconds };
    let (short, long) = (s.add(run(a, 1.0), &[]), s.add(run(b, 3.0), &[]));
    let join = s.add(Work::Join, &[short, long]);
    let outcome = s.run();
    assert_eq!((outcome.begin(join), outcome.end(join)), (3.0, 3.0));
}
