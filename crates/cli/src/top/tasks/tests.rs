//! Tests of the rows that follow from two polls.

use super::*;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Numbers of a task with one peer, after `steps` steps of 1000 bytes.
fn after(steps: f64) -> TaskNumbers {
    let peer = PeerNumbers {
        sent: 1000.0 * steps,
        received: 500.0 * steps,
        shared: 0.0,
        silent: Some(0.5),
        waiting: 2.0,
    };
    TaskNumbers {
        name: Some("/job:worker/task:0".to_owned()),
        steps,
        memory: 4096.0,
        peers: [("/job:ps/task:0".to_owned(), peer)].into(),
        ..TaskNumbers::default()
    }
}

fn report(at: Instant, answer: Result<TaskNumbers, &str>) -> Report {
    Report {
        endpoint: 0,
        at,
        answer: answer.map_err(str::to_owned),
    }
}

#[test]
fn rates_follow_from_two_polls() {
    let began = Instant::now();
    let at = |seconds| began + Duration::from_secs(seconds);
    let mut task = Task::new("host:9101", began);
    let row = |task: &Task, seconds| task.row(at(seconds), TIMEOUT);
    let pending = row(&task, 1);
    assert_eq!(
        (pending.state, &*pending.name),
        (State::Pending, "host:9101")
    );
    assert_eq!(pending.contact, None);

    task.record(report(at(1), Ok(after(10.0))));
    let first = row(&task, 2);
    assert_eq!(
        (first.state, &*first.name),
        (State::Up, "/job:worker/task:0")
    );
    assert_eq!((first.steps(), first.link), (None, LinkRates::default()));
    assert_eq!(
        (first.memory, first.contact),
        (Some(4096.0), Some(Duration::from_secs(1)))
    );

    task.record(report(at(3), Ok(after(20.0))));
    let second = row(&task, 3);
    assert_eq!((second.client_steps, second.parts), (Some(5.0), Some(0.0)));
    let link = LinkRates {
        sent: Some(5000.0),
        received: Some(2500.0),
        shared: Some(0.0),
    };
    assert_eq!(second.link, link);
    assert_eq!(second.peers[0].link, link);
    assert_eq!(second.waits_for().unwrap().name, "/job:ps/task:0");
}

#[test]
fn a_task_that_began_again_has_no_rate_of_its_old_counters() {
    let began = Instant::now();
    let mut task = Task::new("host:9101", began);
    for (seconds, steps) in [(1, 100.0), (2, 3.0)] {
        task.record(report(
            began + Duration::from_secs(seconds),
            Ok(after(steps)),
        ));
    }
    let row = task.row(began + Duration::from_secs(2), TIMEOUT);
    assert_eq!(
        (row.state, row.steps(), row.link.sent),
        (State::Up, None, None)
    );
}

#[test]
fn a_task_is_not_reached_after_an_error_or_a_long_time() {
    let began = Instant::now();
    let at = |seconds| began + Duration::from_secs(seconds);
    let mut task = Task::new("host\u{1b}:9101", began);
    let late = task.row(at(6), TIMEOUT);
    assert_eq!(late.state, State::NotReached);
    assert_eq!(late.address, "host\u{fffd}:9101");
    task.record(report(at(7), Ok(after(1.0))));
    task.record(report(at(8), Err("it is gone")));
    let gone = task.row(at(9), TIMEOUT);
    assert_eq!(gone.state, State::NotReached);
    assert_eq!(
        (gone.error.as_deref(), gone.steps()),
        (Some("it is gone"), None)
    );
    assert_eq!(
        (&*gone.name, gone.contact),
        ("/job:worker/task:0", Some(Duration::from_secs(2)))
    );
    // After the error, rates begin anew.
    task.record(report(at(10), Ok(after(2.0))));
    assert_eq!(task.row(at(10), TIMEOUT).steps(), None);
    task.record(report(at(11), Ok(after(3.0))));
    assert_eq!(task.row(at(11), TIMEOUT).steps(), Some(1.0));
    let drains = TaskNumbers {
        draining: true,
        ..after(3.0)
    };
    task.record(report(at(12), Ok(drains)));
    assert_eq!(task.row(at(12), TIMEOUT).state, State::Draining);
}
