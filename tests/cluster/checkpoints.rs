//! Checkpoints of a cluster: each server saves its own variables, and a training survives the loss of its servers.

use std::path::Path;
use std::time::Duration;

use thalweg::checkpoint::BundleReader;
use thalweg::device::Files;
use thalweg::dist::{ClusterOptions, ClusterSpec, Server, ServerOptions, Session, Timeouts};
use thalweg::prelude::{Session as Local, *};
use thalweg::train::Role;
use thalweg::train::hooks::{Every, StopAtStepHook};
use thalweg_tests::folders::Folder;
use thalweg_tests::servers::{cluster, server};

fn server_with_files(cluster: &ClusterSpec, job: &str, index: u32, folder: &Path) -> Server {
    let options = ServerOptions::listening("")
        .session(SessionOptions::new().threads(1))
        .files(Files::within([folder]).unwrap());
    Server::new(cluster.clone(), job, index, options).unwrap()
}

/// Two weights spread over the servers; a step adds one to each.
struct SpreadWeights<'g> {
    weights: Vec<Variable<'g>>,
    train: Operation<'g>,
}

fn model(g: &Graph, servers: u32) -> SpreadWeights<'_> {
    g.device(ReplicaDeviceSetter::new(servers), || {
        let step = create_global_step(g);
        let weights = ["a", "b"].map(|name| g.variable(name, vec![1.0f32; 1000]));
        let add = weights.map(|w| w.assign_add(vec![1.0f32; 1000]));
        let counted = step.assign_add(1i64);
        let train = g.group("train", add.into_iter().chain([counted]));
        SpreadWeights {
            weights: weights.to_vec(),
            train,
        }
    })
}

fn sum(session: &Session<'_>, model: &SpreadWeights<'_>) -> f32 {
    let all: Vec<Vec<f32>> = session.run(&model.weights[..], []).unwrap();
    all.concat().iter().sum()
}

#[test]
fn checkpoints_are_sharded_by_server_and_restored_by_any_number_of_servers() {
    let folder = Folder::new("servers");
    let own = cluster(&[("ps", 2), ("worker", 1)]);
    let tasks = [("ps", 0), ("ps", 1), ("worker", 0)];
    let tasks = tasks.map(|(job, i)| server_with_files(&own, job, i, folder.path()));
    let g = Graph::new();
    let two = model(&g, 2);
    let saver = Saver::sharded(&g).unwrap();
    let kept = saver.keep("input/position", 7i64);
    let session = Session::on(&tasks[2], &g, ClusterOptions::default()).unwrap();
    session.run(g.initializers(), []).unwrap();
    session.run(two.train, []).unwrap();
    let path = saver.save(&session, folder.path().join("m"), 1).unwrap();
    let files = [
        "checkpoint",
        "m-1.data-00000-of-00003",
        "m-1.data-00001-of-00003",
        "m-1.data-00002-of-00003",
        "m-1.index",
    ];
    assert_eq!(folder.files(), files);
    BundleReader::open(&path).unwrap().verify().unwrap();
    // The servers' own files hold one weight each.
    for shard in 0..2 {
        let bytes = std::fs::metadata(folder.path().join(files[1 + shard]))
            .unwrap()
            .len();
        assert!((4000..5000).contains(&bytes), "{bytes}");
    }

    session.run(two.train, []).unwrap();
    kept.set(9i64);
    saver.restore(&session, &path).unwrap();
    assert_eq!(sum(&session, &two), 4000.0);
    assert_eq!(kept.get().to_scalar::<i64>().unwrap(), 7);

    // On one server, which reads its files itself.
    let one = cluster(&[("ps", 1), ("worker", 1)]);
    let tasks =
        [("ps", 0), ("worker", 0)].map(|(job, i)| server_with_files(&one, job, i, folder.path()));
    let g = Graph::new();
    let single = model(&g, 1);
    let saver = Saver::sharded(&g).unwrap();
    let session = Session::on(&tasks[1], &g, ClusterOptions::default()).unwrap();
    saver.restore(&session, &path).unwrap();
    assert_eq!(sum(&session, &single), 4000.0);

    // And in one process.
    let g = Graph::new();
    let a = g.variable("a", vec![0.0f32; 1000]);
    let local = Local::new(&g).unwrap();
    Saver::new(&g).restore(&local, &path).unwrap();
    assert_eq!(local.run::<Vec<f32>>(a, []).unwrap(), vec![2.0; 1000]);
}

#[test]
fn a_server_without_a_checkpoint_folder_returns_an_error() {
    let folder = Folder::new("refused");
    let own = cluster(&[("ps", 1), ("worker", 1)]);
    let tasks =
        [("ps", 0), ("worker", 0)].map(|(job, i)| server(&own, job, i, 1, Timeouts::default()));
    let g = Graph::new();
    model(&g, 1);
    let saver = Saver::sharded(&g).unwrap();
    let session = Session::on(&tasks[1], &g, ClusterOptions::default()).unwrap();
    session.run(g.initializers(), []).unwrap();
    let error = saver
        .save(&session, folder.path().join("m"), 1)
        .unwrap_err();
    assert!(error.to_string().contains("--files DIR"), "{error}");
    assert!(error.to_string().contains("SaveV2"), "{error}");
    assert!(folder.files().is_empty());
}

#[test]
fn a_training_survives_the_replacement_of_a_server() {
    let folder = Folder::new("replaced");
    let own = cluster(&[("ps", 2), ("worker", 1)]);
    let timeouts = Timeouts::new().heartbeat(Duration::from_secs(1));
    let start = |job: &str, index: u32| server(&own, job, index, 1, timeouts);
    let (_first, mut second, worker) = (start("ps", 0), Some(start("ps", 1)), start("worker", 0));
    let g = Graph::new();
    let model = model(&g, 2);
    let options = ClusterOptions::new().timeouts(timeouts);
    let mut session = MonitoredTrainingSession::new(&g)
        .role(Role::Chief)
        .checkpoint_dir(folder.path())
        .save_checkpoint(Every::Steps(5))
        .hook(StopAtStepHook::last_step(20))
        .wait(Duration::from_secs(30), Duration::from_millis(20))
        .quiet()
        .start(|| Session::on(&worker, &g, options.clone()))
        .unwrap();
    let mut steps = 0;
    while !session.should_stop() {
        if steps == 12 {
            let gone = second.take().unwrap();
            gone.shutdown();
            drop(gone);
            second = Some(start("ps", 1));
        }
        session.run(model.train, []).unwrap();
        steps += 1;
    }
    // The steps since the last checkpoint ran twice; in the final values each counts once.
    assert!(steps > 20, "{steps}");
    assert_eq!(sum(session.session(), &model), 2000.0 * 21.0);
    session.close().unwrap();
}
