//! `thalweg simulate`: predictions, and the text of mistakes.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

/// Folder for files of a test.
fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn simulate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .arg("simulate")
        .args(arguments)
        .output()
        .unwrap()
}

const RESNET20: [&str; 8] = [
    "--model",
    "resnet20",
    "--data-name",
    "cifar10",
    "--cluster",
    "p2.xlarge",
    "--workers",
    "4",
];

#[test]
fn modes_and_numbers_of_servers_are_compared() {
    let folder = folder("simulate");
    let (plot, timeline) = (folder.join("curve.svg"), folder.join("step.json"));
    let mut arguments = RESNET20.to_vec();
    let (plot, timeline) = (plot.to_str().unwrap(), timeline.to_str().unwrap());
    arguments.extend(["--json", "--plot", plot, "--timeline", timeline]);
    let output = simulate(&arguments);
    assert!(output.status.success(), "{output:?}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let modes = result["modes"].as_array().unwrap();
    let names: Vec<&str> = modes.iter().map(|m| m["mode"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["parameter_server", "distributed_replicated", "all_reduce"]
    );
    let candidates = modes[0]["candidates"].as_array().unwrap();
    let servers: Vec<u64> = candidates
        .iter()
        .map(|c| c["servers"].as_u64().unwrap())
        .collect();
    assert_eq!(servers, [1, 2, 3, 4]);
    for mode in modes {
        for candidate in mode["candidates"].as_array().unwrap() {
            let efficiency = candidate["efficiency"].as_f64().unwrap();
            assert!((0.01..=1.0001).contains(&efficiency), "{candidate}");
        }
    }
    assert!(
        fs::read_to_string(plot)
            .unwrap()
            .contains("parameter servers")
    );
    let trace: Value = serde_json::from_str(&fs::read_to_string(timeline).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    assert!(events.len() > 100);
    let has_filter = |e: &&Value| {
        e["args"]["nodes"]
            .to_string()
            .contains("Conv2DBackpropFilter")
    };
    let filter = events
        .iter()
        .find(has_filter)
        .expect("a gradient of a convolution");
    assert_eq!(filter["cat"], "computing");
}

#[test]
fn the_table_names_the_fastest_and_its_busiest_resource() {
    let mut arguments = RESNET20.to_vec();
    arguments.extend([
        "--sweep",
        "servers=2..4",
        "--mode",
        "parameter_server",
        "--placement",
        "cost",
    ]);
    let output = simulate(&arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("4 workers on p2.xlarge, predicted"), "{text}");
    assert!(
        text.contains("The fastest is parameter_server with "),
        "{text}"
    );
    assert!(text.contains("The busiest resource is "), "{text}");
}

#[test]
fn staged_values_make_steps_with_servers_faster_and_no_others() {
    let run = |more: &[&str]| -> Value {
        let output = simulate(&[&RESNET20[..], &["--servers", "1", "--json"], more].concat());
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let (plain, staged) = (run(&[]), run(&["--staged"]));
    let seconds = |of: &Value, mode: usize| {
        let candidate = &of["modes"][mode]["candidates"][0];
        candidate["step_seconds"].as_f64().unwrap()
    };
    assert!(seconds(&staged, 0) < seconds(&plain, 0), "{staged}");
    for mode in [1, 2] {
        assert_eq!(seconds(&staged, mode), seconds(&plain, mode));
    }
    let given = ["--staged", "--mode", "all_reduce"];
    let output = simulate(&[&RESNET20[..], &given].concat());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("--staged is of --mode parameter_server"),
        "{text}"
    );
}

#[test]
fn mistakes_are_told_with_their_remedy() {
    let folder = folder("simulate-mistakes");
    let file = folder.join("cluster.toml");
    fs::write(&file, "name = 'x'\nbarrier = 'wall'\n").unwrap();
    let file = file.to_str().unwrap();
    let model = ["--model", "resnet20", "--data-name", "cifar10"];
    for (arguments, expected) in [
        (&["--cluster", file][..], "line 2: unknown variant `wall`"),
        (&["--cluster", "nowhere.toml"], "nowhere.toml is not read"),
        (
            &["--cluster", "daint", "--workers", "0"],
            "0 is not in 1..=10000",
        ),
        (
            &["--cluster", "daint", "--servers=-1"],
            "give a number from 1 to 10000, or auto",
        ),
        (
            &["--cluster", "daint", "--sweep", "servers=4..2"],
            "give a range such as servers=1..128",
        ),
    ] {
        let all: Vec<&str> = model.iter().chain(arguments).copied().collect();
        let output = simulate(&all);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success());
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let output = simulate(&["--model", "resnet20000", "--cluster", "daint"]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("no network is called 'resnet20000' for imagenet"),
        "{text}"
    );
}

const WORKSTATION: &str = r#"
name = "a workstation"
hosts = 1
device = { kind = "cpu", gflops = 100, gbytes_per_second = 10 }
host = { gbytes_per_second = 4, tasks_at_full_speed = 1.5 }
network = { latency_us = 20, gbits_per_second = 10 }
"#;

#[test]
fn a_calibration_on_a_study_finds_the_speeds_and_predicts_more_tasks() {
    let folder = folder("simulate-calibration");
    let (right, wrong) = (folder.join("right.toml"), folder.join("wrong.toml"));
    fs::write(&right, WORKSTATION).unwrap();
    fs::write(&wrong, WORKSTATION.replace("100", "60").replace("1.5", "1")).unwrap();
    let model = [
        "--model",
        "resnet20",
        "--data-name",
        "cifar10",
        "--batch-size",
        "16",
    ];
    let run = |cluster: &std::path::Path, more: &[&str]| {
        let mut all = model.to_vec();
        all.extend(["--cluster", cluster.to_str().unwrap()]);
        all.extend(more);
        let output = simulate(&all);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let mut records = "{\"study\": \"simulated\"}\n".to_owned();
    for workers in ["1", "2", "4"] {
        let arguments = [
            "--workers",
            workers,
            "--servers",
            "1",
            "--json",
            "--mode",
            "parameter_server",
        ];
        let result: Value = serde_json::from_str(&run(&right, &arguments)).unwrap();
        let speed = &result["modes"][0]["candidates"][0]["images_per_second"];
        records += &format!(
            "{{\"mode\": \"parameter_server\", \"data\": \"synthetic\", \"batch\": 16, \"tasks\": {workers}, \"servers\": 1, \
             \"run\": 0, \"images_per_second\": {speed}}}\n"
        );
    }
    fs::write(folder.join("runs.jsonl"), records).unwrap();
    let written = folder.join("calibrated.toml");
    let study = folder.to_str().unwrap();
    let text = run(
        &wrong,
        &[
            "--calibrate",
            study,
            "--write-cluster",
            written.to_str().unwrap(),
        ],
    );
    let errors: Vec<f64> = text
        .split_whitespace()
        .filter_map(|word| word.strip_suffix('%')?.parse().ok())
        .collect();
    assert_eq!(errors.len(), 3, "{text}");
    assert!(errors.iter().all(|error: &f64| error.abs() < 3.0), "{text}");
    assert!(
        fs::read_to_string(written)
            .unwrap()
            .contains("name = \"a workstation\"")
    );
}
