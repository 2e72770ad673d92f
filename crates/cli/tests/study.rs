//! `thalweg study`, over a script in place of `cnn_benchmarks`.
#![cfg(unix)]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use support::{Folder, fails, works};

/// Script that counts its starts, and tells 100 images/s alone and 150 with others.
const SCRIPT: &str = r#"#!/bin/sh
echo "$*" >> "$STUDY_STARTS"
case "$*" in
    *--job_name\ ps*) exit 0 ;;
    *--job_name*) speed=150.0 ;;
    *) speed=100.0 ;;
esac
echo "{\"total_images_per_sec\":$speed,\"exchange_part\":0.25,\"input_part\":null}"
"#;

#[test]
fn a_study_goes_on_where_it_was_and_compares_points_to_one_process() {
    let folder = Folder::new("study");
    let script = folder.join("bench");
    let starts = folder.at("starts");
    fs::write(&script, SCRIPT.replace("$STUDY_STARTS", &starts)).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let to = folder.at("to");
    let study = |runs: &str, model: &str| {
        let (script, to) = (folder.at("bench"), to.clone());
        [
            "study",
            "--tasks",
            "2",
            "--servers",
            "1,2",
            "--runs",
            runs,
            "--batch-sizes",
            "8",
            "--to",
            &to,
            "--json",
            "--",
            &script,
            model,
        ]
        .map(str::to_owned)
        .to_vec()
    };
    let run = |runs: &str| -> serde_json::Value {
        let words = study(runs, "--model=a");
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        serde_json::from_str(&works(&words)).unwrap()
    };
    let count = || fs::read_to_string(&starts).unwrap().lines().count();
    let result = run("1");
    // One alone; one server and two workers; two of each.
    assert_eq!(count(), 1 + 3 + 4);
    let again = run("1");
    assert_eq!((count(), &again["points"]), (8, &result["points"]));
    let twice = run("2");
    assert_eq!(count(), 16);
    let points = twice["points"].as_array().unwrap();
    assert_eq!(points.len(), 3);
    let [alone, one, two] = &points[..] else {
        panic!("{points:?}")
    };
    assert_eq!(
        (&alone["efficiency"], &alone["tasks"]),
        (&1.0.into(), &1.into())
    );
    for point in [one, two] {
        assert_eq!(point["efficiency"], 0.75);
        assert_eq!(point["exchange"], 0.25);
        assert_eq!(point["images_per_second"]["runs"], 2);
        assert_eq!(point["best_servers"], true);
    }
    let table = fs::read_to_string(folder.join("to/results.csv")).unwrap();
    assert_eq!(table.lines().count(), 4, "{table}");
    let logs = fs::read_dir(folder.join("to/logs")).unwrap().count();
    // One of each run, and that of the link between tasks.
    assert_eq!(logs, 6 + 1);
    let link = &twice["machine"]["link"];
    assert_eq!(link["between"], "tasks of one host");
    assert!(link["bytes_per_second"].as_f64().unwrap() > 0.0, "{link}");
    let other = study("1", "--model=b");
    let other: Vec<&str> = other.iter().map(String::as_str).collect();
    let told = fails(&other);
    assert!(told.contains("runs of another study"), "{told}");
}

#[test]
fn a_point_that_fails_is_kept_with_its_reason() {
    let folder = Folder::new("study_failed");
    let to = folder.at("to");
    let study = |command: &[&str]| {
        let own = [
            "study", "--tasks", "1", "--modes", "horovod", "--runs", "1", "--to", &to, "--",
        ];
        works(&[&own[..], command].concat())
    };
    let told = study(&["sh", "-c", "echo no memory >&2; exit 3"]);
    assert!(told.contains("failed: exit status: 3: no memory"), "{told}");
    let wrong = fails(&["study", "--tasks", "0", "--to", &to, "--", "true"]);
    assert!(wrong.contains("tasks: give numbers from 1 on"), "{wrong}");
}
