use crate::fuzzing::tasks::FuzzedTask;

use super::*;

const PS: &str = "ps";

fn asked(isolated: bool) -> wire::Open {
    wire::Open {
        session: "m".to_owned(),
        isolated,
        ..wire::Open::default()
    }
}

fn peer(worker: &Worker) -> Arc<Peer> {
    let task = (PS.to_owned(), 0);
    worker.peers.get(&task, "127.0.0.1:1").unwrap()
}

#[test]
fn a_session_that_has_ended_is_opened_again() {
    for isolated in [false, true] {
        let task = FuzzedTask::default();
        let worker = &task.worker;
        let runtime = worker.platform.runtime();
        let link = TaskLink::new(TaskRoute::Local(worker.clone()));
        let open = || runtime.block_on(link.open(&asked(isolated), runtime));
        assert!(link.is_intact() && link.is_known());
        let first = open().unwrap();
        assert!(Arc::ptr_eq(&first, &open().unwrap()));
        worker.close("m", &worker.session("m").unwrap());
        assert!(!first.is_open() && !link.is_intact());
        let again = open();
        // The variables of an isolated session have ended with it.
        let lost = again.err().map(|e| e.cause);
        assert_eq!(lost, isolated.then_some(Cause::SessionLost));
        assert!(link.is_intact());
        assert_eq!(open().unwrap().generation, 1);
        drop((first, link));
        assert!(worker.session("m").is_err());
    }
}

#[test]
fn a_task_that_was_not_reached_counts_as_one_cpu() {
    let task = FuzzedTask::default();
    let link = TaskLink::new(TaskRoute::Remote(peer(&task.worker)));
    let devices: Vec<String> = link.devices().iter().map(ToString::to_string).collect();
    assert_eq!(devices, ["/job:ps/replica:0/task:0/device:CPU:0"]);
    assert!(link.is_intact() && !link.is_known());
}

#[test]
fn a_peer_of_another_version_or_an_old_process_is_refused() {
    let task = FuzzedTask::default();
    let peer = peer(&task.worker);
    let opened = |incarnation, started| wire::Opened {
        version: Some(version::own_version()),
        incarnation,
        started,
        ..wire::Opened::default()
    };
    let refused = |opened: &wire::Opened| {
        let error = check_peer(&peer, &asked(false), opened).unwrap_err();
        assert_eq!(error.task, Some((PS.to_owned(), 0)));
        error.cause
    };
    let other = wire::Opened {
        version: None,
        ..opened(1, 1000)
    };
    assert_eq!(refused(&other), Cause::Unsupported);
    check_peer(&peer, &asked(false), &opened(1, 1000)).unwrap();
    check_peer(&peer, &asked(false), &opened(2, 2000)).unwrap();
    assert_eq!(refused(&opened(1, 1000)), Cause::Replaced);
}

#[test]
fn a_caller_learns_of_its_own_newer_process() {
    let task = FuzzedTask::default();
    let worker = &task.worker;
    let (job, index) = worker.task.clone();
    let newer = wire::Process {
        job: job.clone(),
        index,
        incarnation: worker.incarnation ^ 1,
        started: worker.platform.unix_micros(),
    };
    let asked = wire::Open {
        job,
        index,
        ..asked(false)
    };
    let opened = wire::Opened {
        version: Some(version::own_version()),
        known: vec![newer],
        ..wire::Opened::default()
    };
    worker.check_not_replaced().unwrap();
    check_peer(&peer(worker), &asked, &opened).unwrap();
    let replaced = worker.check_not_replaced().unwrap_err();
    assert_eq!(replaced.cause, Cause::Replaced);
    assert!(task.session().is_closed());
}
