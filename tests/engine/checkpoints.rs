//! Checkpoints: the ops that write and read them, the files that a session allows, and the saver.

use std::path::{Path, PathBuf};

use thalweg::checkpoint::{BundleReader, state};
use thalweg::device::Files;
use thalweg::prelude::*;
use thalweg::train::{
    BestCheckpoint, Goal, SavedVariable, Saver, SaverNodes, SaverOptions, TrainError,
};
use thalweg_tests::folders::Folder;

fn name(path: &Path) -> Tensor {
    Tensor::strings(&[], &[path.to_str().unwrap()]).unwrap()
}

#[test]
fn save_and_restore_ops_are_limited_to_allowed_folders() {
    let folder = Folder::new("allowed");
    let g = Graph::new();
    let w = g.variable("w", [1.0f32, 2.0]);
    let n = g.variable("n", 7i64);
    let saved: Vec<_> = g.variables().iter().map(SavedVariable::of).collect();
    let nodes = SaverNodes::add(&g, &saved, &SaverOptions::new()).unwrap();
    let change = g.group("change", [w.assign([0.0f32, 0.0]), n.assign(0i64)]);

    let options = SessionOptions::new().files(Files::within([folder.path()]).unwrap());
    let session = Session::with_options(&g, options).unwrap();
    session.run(g.initializers(), []).unwrap();
    let path = name(&folder.path().join("model"));
    let saved: Tensor = session
        .run(nodes.save_tensor, [nodes.filename.feed(path.clone())])
        .unwrap();
    assert_eq!(saved, path);
    session.run(change, []).unwrap();
    session
        .run(nodes.restore, [nodes.filename.feed(path.clone())])
        .unwrap();
    let (w_now, n_now): ([f32; 2], i64) = session.run((w, n), []).unwrap();
    assert_eq!((w_now, n_now), ([1.0, 2.0], 7));

    // Another folder, and a session that allows none.
    let elsewhere = name(Path::new("/tmp/../etc/model"));
    let error = session
        .run(nodes.save, [nodes.filename.feed(elsewhere)])
        .unwrap_err();
    assert!(error.to_string().contains("'..'"), "{error}");
    let strict = Session::new(&g).unwrap();
    strict.run(g.initializers(), []).unwrap();
    let error = strict
        .run(nodes.save, [nodes.filename.feed(path)])
        .unwrap_err();
    assert!(error.to_string().contains("allows no files"), "{error}");
    // A missing tensor is reported as in TensorFlow.
    let reader = BundleReader::open(folder.path().join("model")).unwrap();
    let error = reader.tensor("v").unwrap_err().to_string();
    assert!(
        error.starts_with("Key v not found in checkpoint"),
        "{error}"
    );
}

#[test]
fn a_sharded_save_of_one_task_writes_one_shard() {
    let folder = Folder::new("sharded");
    let g = Graph::new();
    let w = g.device("/cpu:0", || g.variable("w", [1.0f32, 2.0]));
    let v = g.device("/cpu:1", || g.variable("v", 3.0f32));
    let saved: Vec<_> = g.variables().iter().map(SavedVariable::of).collect();
    let nodes = SaverNodes::add(&g, &saved, &SaverOptions::new().sharded(true)).unwrap();
    let files = Files::within([folder.path()]).unwrap();
    let session = Session::with_options(&g, SessionOptions::new().cpus(2).files(files)).unwrap();
    session.run(g.initializers(), []).unwrap();
    let prefix = folder.path().join("model");
    session
        .run(nodes.save, [nodes.filename.feed(name(&prefix))])
        .unwrap();
    // The devices of one task write one file; tests/cluster/checkpoints.rs has two tasks.
    let files = ["model.data-00000-of-00001", "model.index"];
    assert_eq!(folder.files(), files);

    // A single saver on one device reads it.
    let g = Graph::new();
    let saver = Saver::of(
        &g,
        [
            ("w", g.variable("other", [0.0f32; 2])),
            ("v", g.variable("v", 0.0f32)),
        ],
    );
    let session = Session::new(&g).unwrap();
    saver.restore(&session, &prefix).unwrap();
    let found: ([f32; 2], f32) = session
        .run(("other/Read/ReadVariableOp", "v/Read/ReadVariableOp"), [])
        .unwrap();
    assert_eq!(found, ([1.0, 2.0], 3.0));
    let _ = (w, v);
}

#[test]
fn partitioned_variables_are_saved_as_slices_and_restored_into_other_partitions() {
    let folder = Folder::new("slices");
    let values: Vec<f32> = (0..10).map(|i| i as f32).collect();
    let save = |parts: usize, prefix: PathBuf| {
        let g = Graph::new();
        g.partitioned_variable("w", values.clone(), parts);
        let saver = Saver::new(&g);
        let session = Session::new(&g).unwrap();
        session.run(g.initializers(), []).unwrap();
        saver.save(&session, prefix, None).unwrap()
    };
    let path = save(3, folder.path().join("three"));
    let reader = BundleReader::open(&path).unwrap();
    assert_eq!(reader.tensor("w").unwrap().to_vec::<f32>().unwrap(), values);
    for parts in [1, 2, 4] {
        let g = Graph::new();
        let w = g.partitioned_variable("w", vec![0.0f32; 10], parts);
        let session = Session::new(&g).unwrap();
        Saver::new(&g).restore(&session, &path).unwrap();
        assert_eq!(
            session.run::<Vec<f32>>(w.value(), []).unwrap(),
            values,
            "{parts}"
        );
    }
    // And as one variable.
    let g = Graph::new();
    let w = g.variable("w", vec![0.0f32; 10]);
    let session = Session::new(&g).unwrap();
    Saver::new(&g).restore(&session, &path).unwrap();
    assert_eq!(session.run::<Vec<f32>>(w, []).unwrap(), values);
}

#[test]
fn a_background_save_is_a_snapshot() {
    let folder = Folder::new("moment");
    let g = Graph::new();
    let w = g.variable("w", vec![0.0f32; 1 << 20]);
    let add = w.assign_add(vec![1.0f32; 1 << 20]);
    let saver = Saver::new(&g).max_to_keep(0);
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let mut paths = Vec::new();
    for step in 0..8 {
        paths.push(
            saver
                .begin_save(&session, folder.path().join("m"), step)
                .unwrap(),
        );
        for _ in 0..3 {
            session.run(add, []).unwrap();
        }
    }
    saver.wait().unwrap();
    for (step, path) in paths.iter().enumerate() {
        let value = BundleReader::open(path).unwrap().tensor("w").unwrap();
        let wanted = (3 * step) as f32;
        assert!(
            value
                .as_slice::<f32>()
                .unwrap()
                .iter()
                .all(|&x| x == wanted),
            "{step}"
        );
    }
}

#[test]
fn old_checkpoints_are_deleted_including_an_earlier_processs() {
    let folder = Folder::new("retention");
    let save = |steps: std::ops::Range<i64>| {
        let g = Graph::new();
        g.variable("w", 1.0f32);
        let saver = Saver::new(&g).max_to_keep(2);
        let session = Session::new(&g).unwrap();
        session.run(g.initializers(), []).unwrap();
        for step in steps {
            saver.save(&session, folder.path().join("m"), step).unwrap();
        }
    };
    save(0..3);
    save(3..5);
    let kept: Vec<_> = folder
        .files()
        .into_iter()
        .filter(|f| f.ends_with(".index"))
        .collect();
    assert_eq!(kept, ["m-3.index", "m-4.index"]);
    let latest = state::latest_checkpoint(folder.path()).unwrap();
    assert_eq!(latest, Some(folder.path().join("m-4")));
}

#[test]
fn a_restored_training_continues_bit_for_bit() {
    let folder = Folder::new("bits");
    let g = Graph::new();
    g.set_seed(3);
    let w = g.variable("w", vec![0.5f32; 64]);
    let noise = g.random_normal([64], 0.0, 1.0, DType::F32, None);
    let loss = (w.value() * noise).square().mean();
    let step = create_global_step(&g);
    let train = Adam::new(0.01).minimize_counting(loss, step);
    let saver = Saver::new(&g);
    let position = saver.keep("input/position", 0i64);
    let run = |session: &Session<'_>, steps: i64| {
        for _ in 0..steps {
            session.run(train, []).unwrap();
            position.set(position.get().to_scalar::<i64>().unwrap() + 50);
        }
        session.run::<Vec<f32>>(w, []).unwrap()
    };
    let first = Session::new(&g).unwrap();
    first.run(g.initializers(), []).unwrap();
    run(&first, 5);
    let path = saver.save(&first, folder.path().join("m"), 5).unwrap();
    let undisturbed = run(&first, 5);

    let second = Session::new(&g).unwrap();
    saver.restore(&second, &path).unwrap();
    assert_eq!(position.get().to_scalar::<i64>().unwrap(), 250);
    assert_eq!(run(&second, 5), undisturbed);
}

#[test]
fn a_mismatching_checkpoint_is_an_error_and_changes_nothing() {
    let folder = Folder::new("misfit");
    let prefix = folder.path().join("m");
    {
        let g = Graph::new();
        g.variable("a", 1.0f32);
        g.variable("b", [1.0f32, 2.0]);
        let session = Session::new(&g).unwrap();
        session.run(g.initializers(), []).unwrap();
        Saver::new(&g).save(&session, &prefix, None).unwrap();
    }
    let g = Graph::new();
    let a = g.variable("a", 5.0f32);
    g.variable("b", [1.0f32, 2.0, 3.0]);
    let saver = Saver::new(&g);
    let session = Session::new(&g).unwrap();
    session.run(g.initializers(), []).unwrap();
    let error = saver.restore(&session, &prefix).unwrap_err();
    assert!(
        matches!(&error, TrainError::Mismatch { name, .. } if name == "b"),
        "{error}"
    );
    assert!(
        error.to_string().contains("float32[2]") || error.to_string().contains("f32"),
        "{error}"
    );
    assert_eq!(session.run::<f32>(a, []).unwrap(), 5.0);

    // A variable without a value cannot be saved; the error names it.
    let empty = Session::new(&g).unwrap();
    let error = saver.save(&empty, &prefix, 1).unwrap_err();
    assert!(
        error.to_string().contains("uninitialized value a"),
        "{error}"
    );
    // A folder that cannot be made.
    let error = saver.save(&session, "/proc/none/m", 1).unwrap_err();
    assert!(error.to_string().contains("/proc/none"), "{error}");
}

#[test]
fn averages_are_saved_under_tensorflows_names_and_restored_into_weights() {
    let folder = Folder::new("averages");
    let prefix = folder.path().join("m");
    {
        let g = Graph::new();
        let w = g.variable("w", 4.0f32);
        let step = GradientDescent::new(0.5).minimize(w.value().square());
        let mut averages = MovingAverage::new(0.75);
        let train = g.control_dependencies([step], || averages.apply(&g, &[w]));
        let session = Session::new(&g).unwrap();
        session.run(g.initializers(), []).unwrap();
        session.run(train, []).unwrap();
        Saver::new(&g).save(&session, &prefix, None).unwrap();
    }
    let reader = BundleReader::open(&prefix).unwrap();
    let average = reader.tensor("w/ExponentialMovingAverage").unwrap();
    assert_eq!(average, Tensor::scalar(3.0f32));

    let g = Graph::new();
    let w = g.variable("w", 0.0f32);
    let saver = Saver::of(&g, MovingAverage::new(0.75).variables_to_restore(&g));
    let session = Session::new(&g).unwrap();
    saver.restore(&session, &prefix).unwrap();
    assert_eq!(session.run::<f32>(w, []).unwrap(), 3.0);
}

#[test]
fn the_best_checkpoint_survives_restarts_and_worse_metrics() {
    let folder = Folder::new("best");
    let offer = |value: f32, metric: f64, step: i64| {
        let g = Graph::new();
        g.variable("w", value);
        let session = Session::new(&g).unwrap();
        session.run(g.initializers(), []).unwrap();
        let mut best = BestCheckpoint::open(&g, folder.path(), Goal::Lowest).unwrap();
        let is_best = best.offer(&session, metric, step).unwrap();
        (is_best, best.metric())
    };
    assert_eq!(offer(1.0, f64::NAN, 0), (false, None));
    assert_eq!(offer(1.0, 0.5, 1), (true, Some(0.5)));
    assert_eq!(offer(2.0, 0.75, 2), (false, Some(0.5)));
    assert_eq!(offer(3.0, 0.25, 3), (true, Some(0.25)));
    let files = ["best-3.data-00000-of-00001", "best-3.index", "checkpoint"];
    assert_eq!(folder.files(), files);
}

#[test]
fn tensorflows_checkpoints_are_restored_object_based_ones_too() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/checkpoints");
    let restored = |prefix: PathBuf| {
        let reader = BundleReader::open(&prefix).unwrap();
        let objects = reader.by_variable_name().unwrap();
        let names: Vec<String> = match &objects {
            Some(objects) => objects.names().map(str::to_owned).collect(),
            None => reader.names().map(str::to_owned).collect(),
        };
        let value = |name: &str| match &objects {
            Some(objects) => objects.tensor(name).unwrap(),
            None => reader.tensor(name).unwrap(),
        };
        let g = Graph::new();
        let all: Vec<_> = names
            .iter()
            .map(|name| {
                let like = value(name);
                let zeros = Tensor::zeros(like.dtype(), like.dims()).unwrap();
                let variable = g.untrained_variable(name, zeros);
                (name.clone(), variable)
            })
            .collect();
        let session = Session::new(&g).unwrap();
        Saver::of(&g, all.clone())
            .restore(&session, &prefix)
            .unwrap();
        for (name, variable) in &all {
            let found: Tensor = session.run(*variable, []).unwrap();
            assert_eq!(found, value(name), "{name}");
        }
        all.len()
    };
    assert_eq!(restored(golden.join("run/model.ckpt-4")), 7);
    let newest = state::latest_checkpoint(&golden.join("objects"))
        .unwrap()
        .unwrap();
    assert!(restored(newest) > 1);
}
