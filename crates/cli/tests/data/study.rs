//! `thalweg data study`.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use super::photos;
use super::support::{Folder, fails, works};

/// A program that prints another speed for each kind of input, and notes the kind in a file.
fn program(folder: &Folder, lines: &str) -> String {
    let path = folder.at("program.sh");
    std::fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn kinds_of_input_are_run_in_turn_and_compared_with_synthetic_images() {
    let folder = Folder::new("study");
    let pictures = photos(&folder, 3);
    let (to, runs, svg) = (folder.at("to"), folder.at("runs"), folder.at("study.svg"));
    let script = format!(
        r#"
case "$2" in
    '') kind=synthetic speed=100 ;;
    *tfrecord) kind=tfrecord speed=95; ls ${{2#--data_dir=}}/train-00000-of-00004 || exit 3 ;;
    *lmdb) kind=lmdb speed=90; ls ${{2#--data_dir=}}/train.lmdb/data.mdb || exit 3 ;;
    *photos) kind=photos speed=80; ls ${{2#--data_dir=}}/rose/0.jpg || exit 3 ;;
esac
echo $kind >> {runs}
echo "total images/sec: $speed"
echo "waited for input: 1.5% of the time (4 files, 1 thread)"
"#
    );
    let program = program(&folder, &script);
    let study = [
        "data", "study", &pictures, "--to", &to, "--rounds", "2", "--plot", &svg,
    ];
    let measured = ["--", &program, "--model=m"];
    let text = works(&[&study[..], &["--cold", "--json"], &measured].concat());
    let report: Value = serde_json::from_str(&text).unwrap();
    let rows = report["inputs"].as_array().unwrap().iter().map(|row| {
        let overhead = row["overhead"][1].as_f64().unwrap();
        let files = format!("{} {}", row["input"], row["files"]).replace('"', "");
        (files, (100.0 * overhead).round())
    });
    let expected = [
        ("synthetic ", 0.0),
        ("TFRecord warm", 5.0),
        ("TFRecord cold", 5.0),
        ("LMDB warm", 10.0),
        ("LMDB cold", 10.0),
        ("single files warm", 20.0),
        ("single files cold", 20.0),
    ];
    let expected = expected.map(|(files, overhead)| (files.to_owned(), overhead));
    assert_eq!(rows.collect::<Vec<_>>(), expected);
    let order = "synthetic tfrecord tfrecord lmdb lmdb photos photos".repeat(2);
    let found = std::fs::read_to_string(&runs).unwrap();
    assert_eq!(
        found.split_whitespace().collect::<Vec<_>>().concat(),
        order.replace(' ', "")
    );
    let figure = std::fs::read_to_string(&svg).unwrap();
    for part in ["Cost of input: m", "single files", "20.0%"] {
        assert!(figure.contains(part), "{part}");
    }
    // The records are there already.
    let text = works(&[&study[..], &measured].concat());
    assert!(text.contains("│ LMDB"), "{text}");
}

#[test]
fn a_program_that_fails_or_prints_no_speed_is_shown() {
    let folder = Folder::new("study-fails");
    let pictures = photos(&folder, 3);
    let to = folder.at("to");
    let study = ["data", "study", &pictures, "--to", &to, "--", "PROGRAM"];
    let error = fails(&study);
    assert!(
        error.contains("PROGRAM: ") && error.contains("cannot be started"),
        "{error}"
    );
    let with = |lines: &str| {
        let program = program(&folder, lines);
        let mut study = study;
        study[6] = &program;
        fails(&study)
    };
    let error = with("echo no such model >&2; exit 2");
    assert!(error.contains("exit status: 2\nno such model"), "{error}");
    let error = with("echo done");
    assert!(
        error.contains("it printed no line `total images/sec: N`"),
        "{error}"
    );
}
