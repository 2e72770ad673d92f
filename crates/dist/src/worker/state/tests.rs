use crate::fuzzing::tasks::FuzzedTask;

use super::*;

#[test]
fn sessions_beyond_the_limit_are_refused_and_counted() {
    let task = FuzzedTask::default();
    let worker = &task.worker;
    let open = |handle: &str| worker.open(handle, 0, false, None);
    for number in 1..worker.limits.sessions {
        open(&number.to_string()).unwrap();
    }
    let full = open("more").map(|_| ()).unwrap_err();
    assert_eq!(full.cause, Cause::Exhausted);
    let met = worker.counts.refusals.limits.all();
    assert!(met.contains(&("sessions".to_owned(), 1)), "{met:?}");
    worker.close("1", &worker.session("1").unwrap());
    open("more").unwrap();
}

#[test]
fn a_handle_belongs_to_its_newest_opening() {
    let task = FuzzedTask::default();
    let worker = &task.worker;
    let first = worker.open("a", 1, false, None).unwrap();
    let second = worker.open("a", 2, true, None).unwrap();
    assert!(first.is_closed() && !second.is_closed());
    let late = worker.opened("a", 1).map(|_| ()).unwrap_err();
    assert_eq!(late.cause, Cause::SessionLost);
    // A late close of the first opening changes nothing.
    worker.close("a", &first);
    assert!(Arc::ptr_eq(&worker.opened("a", 2).unwrap(), &second));
    worker.close("a", &second);
    assert!(second.is_closed() && worker.session("a").is_err());
}

#[test]
fn a_draining_task_keeps_its_sessions_and_takes_no_more() {
    let task = FuzzedTask::default();
    let (worker, own) = (&task.worker, task.session());
    let refused = || {
        worker
            .open("b", 0, false, None)
            .map(|_| ())
            .unwrap_err()
            .cause
    };
    worker.drain();
    assert_eq!(refused(), Cause::ShutDown);
    assert!(!own.is_closed() && !worker.has_ended());
    worker.end();
    assert_eq!(refused(), Cause::ShutDown);
    assert!(own.is_closed() && worker.has_ended());
}
