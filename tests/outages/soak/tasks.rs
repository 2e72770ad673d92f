//! Bodies of the soak's tasks, each in a process of its own.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thalweg::dist::{ClusterOptions, Protection, Server, Session, Timeouts};
use thalweg::prelude::*;
use thalweg::train::Role;
use thalweg::train::hooks::Every;
use thalweg_tests::endless_training;
use thalweg_tests::processes::{self, send_line};
use thalweg_tests::synchronous_training;

/// Environment variable of the folder with keys and certificates, if any.
pub const KEYS: &str = "THALWEG_SOAK_KEYS";
/// Environment variable that is set where the workers train synchronously.
pub const IN_STEP: &str = "THALWEG_SOAK_IN_STEP";
/// Environment variable of the folder for checkpoints.
pub const FOLDER: &str = "THALWEG_SOAK_FOLDER";

/// Time that a server lets steps run after SIGTERM.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Two cores carry six tasks: a worker leaves some time to the others.
const WORKER_PAUSE: Duration = Duration::from_millis(10);

fn timeouts() -> Timeouts {
    Timeouts::new()
        .heartbeat(Duration::from_secs(2))
        .connect(Duration::from_secs(30))
}

#[test]
#[ignore = "the body of a task's process, which the soak starts"]
fn a_task() {
    let server = Arc::new(processes::server_protected(timeouts(), keys()));
    match &*server.task().0 {
        "ps" if server.task().1 == 0 && std::env::var_os(IN_STEP).is_some() => {
            coordinate(&server);
        }
        "worker" if std::env::var_os(IN_STEP).is_some() => {
            synchronous_training::train(&server, timeouts(), false);
            server.finish("ps");
        }
        "ps" => {
            let signalled = server.clone();
            let ends = move || {
                signalled.drain(DRAIN_TIMEOUT);
                signalled.shutdown();
            };
            ctrlc::set_handler(ends).unwrap();
            match server.join_workers("worker") {
                Ok(()) => send_line("done"),
                Err(e) => send_line(&format!("ended {e}")),
            }
        }
        _ => work(&server),
    }
}

fn coordinate(server: &Server) {
    let done = synchronous_training::coordinate_until(server, timeouts(), &folder(), &stop_flag());
    match done.map(|()| server.join_workers("worker")) {
        Ok(Ok(())) => send_line("done"),
        Ok(Err(e)) => send_line(&format!("ended {e}")),
        Err(e) => send_line(&format!("ended {}", e.to_string().replace('\n', " "))),
    }
}

fn folder() -> PathBuf {
    PathBuf::from(std::env::var_os(FOLDER).unwrap())
}

/// The cluster's protection.
pub fn keys() -> Option<Protection> {
    std::env::var_os(KEYS).map(|folder| Protection::from_dir(folder).unwrap())
}

/// Set once this process is to end: its input has ended, or SIGTERM came.
fn stop_flag() -> Arc<AtomicBool> {
    let stop_flag = Arc::<AtomicBool>::default();
    let noted = stop_flag.clone();
    ctrlc::set_handler(move || noted.store(true, Ordering::Relaxed)).unwrap();
    let noted = stop_flag.clone();
    std::thread::spawn(move || {
        // An error is an end too.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        noted.store(true, Ordering::Relaxed);
    });
    stop_flag
}

fn work(server: &Server) {
    let stop_flag = stop_flag();
    let g = Graph::new();
    let servers = server.cluster().len("ps") as u32;
    let setter = ReplicaDeviceSetter::new(servers).worker_device(server.device());
    let model = g.device(setter, || endless_training::model(&g));
    let mut monitored = MonitoredTrainingSession::new(&g)
        .log_step_count(None)
        .save_summaries(None);
    monitored = match server.task().1 {
        0 => monitored
            .role(Role::Chief)
            .checkpoint_dir(folder())
            .save_checkpoint(Every::Steps(100)),
        _ => monitored.role(Role::Worker),
    };
    let options = ClusterOptions::new()
        .device_filter("/job:ps")
        .timeouts(timeouts());
    let started = monitored.start(|| Session::on(server, &g, options.clone()));
    let mut session = match started {
        Ok(session) => session,
        Err(e) => return send_line(&format!("ended {e}")),
    };
    let feed = endless_training::batch();
    while !stop_flag.load(Ordering::Relaxed) {
        let fetches = (model.train, model.loss, model.step);
        match session.run::<((), f32, i64)>(fetches, [model.x.feed(&feed)]) {
            Ok(Some((_, loss, step))) if loss.is_finite() => send_line(&format!("step {step}")),
            Ok(Some((_, loss, step))) => send_line(&format!("wrong {loss} at {step}")),
            Ok(None) => break,
            Err(e) => {
                send_line(&format!("ended {}", e.to_string().replace('\n', " ")));
                return;
            }
        }
        std::thread::sleep(WORKER_PAUSE);
    }
    if let Err(e) = session.close() {
        send_line(&format!("error {}", e.to_string().replace('\n', " ")));
    }
    server.finish("ps");
    send_line("done");
}
