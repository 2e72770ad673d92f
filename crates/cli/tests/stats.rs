//! `thalweg stats`: the same fit alone and on ranks, from each kind of file, and the text of mistakes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use thalweg_data::example::ExampleWriter;
use thalweg_data::{RecordWriter, write_npy};
use thalweg_tensor::Tensor;

const THALWEG: &str = env!("CARGO_BIN_EXE_thalweg");

/// Folder for files of a test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn stats(arguments: &[&str]) -> Output {
    Command::new(THALWEG)
        .arg("stats")
        .args(arguments)
        .output()
        .unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    // A launcher names the rank before each line.
    let lines = text
        .lines()
        .map(|line| line.split_once("| ").map_or(line, |(_, line)| line));
    serde_json::from_str(&lines.collect::<Vec<_>>().join("\n")).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(all) => all.iter().flat_map(numbers).collect(),
        number => vec![number.as_f64().unwrap()],
    }
}

#[track_caller]
fn assert_close(found: &Value, wanted: &Value) {
    let (found, wanted) = (numbers(found), numbers(wanted));
    assert_eq!(found.len(), wanted.len());
    for (f, w) in found.iter().zip(&wanted) {
        assert!(
            (f - w).abs() <= 1e-5 * (1.0 + w.abs()),
            "{found:?} {wanted:?}"
        );
    }
}

#[test]
fn ranks_have_the_fit_of_one_process() {
    let kmeans = [
        "kmeans",
        "--rows",
        "500",
        "--columns",
        "3",
        "--clusters",
        "4",
        "--seed",
        "2",
        "--json",
    ];
    let linear = [
        "linear",
        "--rows",
        "500",
        "--columns",
        "3",
        "--targets",
        "2",
        "--json",
    ];
    for program in [&kmeans[..], &linear[..]] {
        let alone = json(&stats(program));
        let key = if program[0] == "kmeans" {
            "centroids"
        } else {
            "coefficients"
        };
        assert_eq!(alone["ranks"], 1);
        for elastic in [&[][..], &["--min-np", "1"]] {
            let launched = Command::new(THALWEG)
                .args(["launch", "hvd", "-np", "3"])
                .args(elastic)
                .args(["--", THALWEG, "stats"])
                .args(program)
                .output()
                .unwrap();
            let ranks = json(&launched);
            assert_eq!(ranks["ranks"], 3);
            assert_close(&ranks[key], &alone[key]);
        }
    }
}

#[test]
fn csv_npy_and_records_give_the_same_fit_streamed_or_loaded() {
    let folder = folder("stats_files");
    let (x, y): (Vec<[f32; 2]>, Vec<f32>) = (0..50)
        .map(|i| {
            (
                [(i % 7) as f32, (i / 7) as f32],
                2.0 * (i % 7) as f32 - (i / 7) as f32 + 3.0,
            )
        })
        .unzip();
    let csv = folder.join("rows.csv");
    let lines = x
        .iter()
        .zip(&y)
        .map(|(x, y)| format!("{},{},{y}\n", x[0], x[1]));
    fs::write(&csv, format!("a,b,target\n{}", lines.collect::<String>())).unwrap();
    let npy = folder.join("rows.npy");
    let all: Vec<f64> = x
        .iter()
        .zip(&y)
        .flat_map(|(x, y)| [x[0], x[1], *y])
        .map(f64::from)
        .collect();
    write_npy(&npy, &Tensor::new(&[50, 3], &all).unwrap()).unwrap();
    let records = folder.join("rows.tfrecord");
    let mut writer = RecordWriter::create(&records, Default::default()).unwrap();
    for (x, y) in x.iter().zip(&y) {
        writer
            .write(
                &ExampleWriter::new()
                    .floats("x", x)
                    .floats("y", &[*y])
                    .finish(),
            )
            .unwrap();
    }
    writer.finish().unwrap();
    for file in [csv, npy, records] {
        // 50 rows of 3 numbers are 600 bytes of f32 or more, and 1200 of f64 at most.
        for (way, streamed) in [
            (&[][..], false),
            (&["--stream", "--block-rows", "7"][..], true),
            (&["--memory", "599", "--block-rows", "7"][..], true),
            (&["--memory", "1200"][..], false),
        ] {
            let mut arguments = vec!["linear", "--json", "--data", file.to_str().unwrap()];
            arguments.extend(way);
            let found = json(&stats(&arguments));
            assert_eq!(found["streamed"], streamed, "{file:?} {way:?}");
            assert_close(&found["coefficients"], &serde_json::json!([[2.0, -1.0]]));
            assert_close(&found["intercepts"], &serde_json::json!([3.0]));
        }
    }
}

#[test]
fn rows_that_are_made_are_streamed_where_they_exceed_the_memory() {
    let made = "kmeans --json --clusters 2 --columns 3 --rows 100 --memory";
    let run = |bytes| {
        json(&stats(
            &[&made.split(' ').collect::<Vec<_>>()[..], &[bytes]].concat(),
        ))
    };
    let (loaded, streamed) = (run("2400"), run("2399"));
    assert_eq!(
        (&loaded["streamed"], &streamed["streamed"]),
        (&false.into(), &true.into())
    );
    assert_close(&streamed["centroids"], &loaded["centroids"]);
}

#[test]
fn times_on_a_cluster_follow_from_its_speeds_or_those_of_this_machine() {
    let predict = |arguments: &str| {
        let all: Vec<&str> = arguments.split(' ').collect();
        stats(&[&["predict"], &all[..], &["--cluster", "xeon-32x40"]].concat())
    };
    let linear = "linear --rows 36000000 --columns 256 --json --ranks";
    let seconds = |ranks: &str, more: &str| {
        let found = json(&predict(&format!("{linear} {ranks}{more}")));
        found["seconds"].as_f64().unwrap()
    };
    // A core: 36e6 rows of 258 x 259 operations, 30e9 a second.
    let one = seconds("1", "");
    assert!((one - 36e6 * 258.0 * 259.0 / 30e9).abs() < 1e-6 * one);
    let all = seconds("1280", "");
    assert!((one / 1280.0..one / 1200.0).contains(&all), "{all}");
    assert!(seconds("1280", " --gflops 60") < 0.6 * all);

    let kmeans =
        "kmeans --rows 1000000 --columns 4 --clusters 3 --iterations 5 --ranks 40 --measure";
    let found = json(&predict(&format!("{kmeans} --json")));
    let number = |pass: usize| found["passes"][pass]["number"].as_u64();
    assert_eq!((number(0), number(1)), (Some(3), Some(6)));
    assert!(
        found["passes"][1]["operations_per_second"]
            .as_f64()
            .unwrap()
            > 0.0
    );
    let text = predict(kmeans).stdout;
    assert!(String::from_utf8_lossy(&text).contains("a core of this machine"));

    let mistake = predict("linear --rows 10 --columns 4 --ranks 2 --gflops 0");
    assert!(String::from_utf8_lossy(&mistake.stderr).contains("give a number above 0"));
}

#[test]
fn a_fit_is_printed_drawn_and_saved() {
    let folder = folder("stats_outputs");
    let [plot, save] = ["inertia.svg", "centroids.npy"].map(|name| folder.join(name));
    let arguments = [
        "kmeans",
        "--rows",
        "200",
        "--clusters",
        "3",
        "--plot",
        plot.to_str().unwrap(),
        "--save",
        save.to_str().unwrap(),
    ];
    let output = stats(&arguments);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("3 clusters on 1 ranks"),
        "{output:?}"
    );
    assert!(fs::read_to_string(plot).unwrap().contains("inertia"));
    assert_eq!(thalweg_data::NpyFile::open(save).unwrap().dims(), [3, 10]);
}

#[test]
fn mistakes_are_told_with_the_file_and_the_remedy() {
    let folder = folder("stats_mistakes");
    let error = |arguments: &[&str]| {
        let output = stats(arguments);
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let word = write("word.csv", "1,2\n3,four\n");
    assert!(error(&["linear", "--data", &word]).contains("line 2, column 2: 'four' is no number"));
    let uneven = write("uneven.csv", "1,2\n3\n");
    assert!(
        error(&["linear", "--data", &uneven]).contains("line 2 has 1 columns, the first one 2")
    );
    let nan = write("nan.csv", "1,2\n3,NaN\n5,6\n");
    assert!(error(&["linear", "--data", &nan]).contains("row 1, column 0 is NaN"));
    let narrow = write("narrow.csv", "1\n2\n");
    assert!(error(&["linear", "--data", &narrow]).contains("none is left for features"));
    assert!(error(&["linear", "--data", "rows.txt"]).contains("give .csv, .npy or .tfrecord"));
    assert!(
        error(&["kmeans", "--data", &narrow, "--clusters", "9"])
            .contains("9 clusters are asked for, of 2 rows")
    );
    assert!(error(&["linear"]).contains("--data"));
}
