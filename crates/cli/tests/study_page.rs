//! The page of `thalweg study`, over scripts in place of `cnn_benchmarks`, and the report's.
#![cfg(unix)]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use support::{Folder, fails, works};

/// Script whose speed depends on the number of its starts and on its mode. It writes a trace.
const SCRIPT: &str = r#"#!/bin/sh
case "$*" in
    *horovod*) echo '</table><script>alert("1")</script> & more' >&2; exit 1 ;;
esac
echo x >> "$STARTS"
count=$(wc -l < "$STARTS")
for word; do
    case "$word" in
        --trace_file=*) echo '[]' > "${word#--trace_file=}" ;;
    esac
done
case "$count" in
    3) speed=500.0 ;;
    *) speed=100.0 ;;
esac
echo "{\"total_images_per_sec\":$speed,\"step_parts\":{\"compute\":0.5,\"exchange\":0.25,\"input\":0.0,\"waiting\":0.25}}"
"#;

/// Folder with the script.
fn with_script(name: &str) -> Folder {
    let folder = Folder::new(name);
    let script = folder.join("bench");
    fs::write(&script, SCRIPT.replace("$STARTS", &folder.at("starts"))).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn page(folder: &Folder) -> String {
    fs::read_to_string(folder.join("to/page.html")).unwrap()
}

#[test]
fn a_page_has_outliers_failures_steps_and_traces_and_no_text_becomes_a_tag() {
    let folder = with_script("study_page");
    let (to, script) = (folder.at("to"), folder.at("bench"));
    let study = [
        "study",
        "--tasks",
        "1,2",
        "--modes",
        "horovod",
        "--runs",
        "6",
        "--batch-sizes",
        "8",
        "--traces",
        "--to",
        &to,
        "--",
        &script,
        "--model=<b>",
    ];
    works(&study);
    let told = page(&folder);
    assert!(!told.contains("<script") && !told.contains("<b>"), "{told}");
    let reason = "&lt;/table&gt;&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; more";
    assert!(told.contains(reason), "{told}");
    assert!(told.contains("<mark>500.00</mark>"), "{told}");
    assert!(told.contains("Where the time of a step goes"), "{told}");
    assert!(told.contains("width:50.0%"), "{told}");
    let link = "href=\"traces/independent-1-tasks-0-servers-batch-8-synthetic.json\"";
    assert!(told.contains(link), "{told}");
    // Nothing is fetched: the only address is that of SVG's names.
    let addresses = told.matches("://").count();
    assert_eq!(
        addresses,
        told.matches("http://www.w3.org/2000/svg").count()
    );
    assert_eq!(told.matches("<svg").count(), 2, "{told}");
}

/// Script that tells 100 images/s of one process with a batch of 8, 150 with one server, and 200 with several.
const SERVERS: &str = r#"#!/bin/sh
all="$*"
servers=${all#*--ps_hosts }
case "$all" in
    *--job_name\ ps*) exit 0 ;;
    *--ps_hosts*)
        case "${servers%% *}" in
            *,*) speed=200.0 ;;
            *) speed=150.0 ;;
        esac ;;
    *--batch_size=8*) speed=100.0 ;;
    *) exit 1 ;;
esac
echo "{\"total_images_per_sec\":$speed}"
"#;

#[test]
fn a_study_with_strong_scaling_divides_the_batch_and_draws_speeds_by_servers() {
    let folder = Folder::new("study_servers");
    let (to, script) = (folder.at("to"), folder.at("bench"));
    fs::write(&script, SERVERS).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let study = |servers: &str, to: &str| {
        works(&[
            "study",
            "--tasks",
            "1,2",
            "--servers",
            servers,
            "--runs",
            "1",
            "--batch-sizes",
            "8",
            "--scaling",
            "strong",
            "--json",
            "--to",
            to,
            "--",
            &script,
        ])
    };
    let results: serde_json::Value = serde_json::from_str(&study("1,2", &to)).unwrap();
    assert_eq!(results["scaling"], "strong");
    let points = results["points"].as_array().unwrap().iter();
    let told: Vec<_> = points
        .map(|p| [&p["tasks"], &p["servers"], &p["batch"], &p["efficiency"]].map(|v| v.as_f64()))
        .collect();
    let expected = [
        [1.0, 0.0, 8.0, 1.0],
        [1.0, 1.0, 8.0, 1.5],
        [2.0, 1.0, 4.0, 0.75],
        [2.0, 2.0, 4.0, 1.0],
    ];
    assert_eq!(told, expected.map(|row| row.map(Some)));
    let drawn = page(&folder);
    assert!(drawn.contains("strong scaling"), "{drawn}");
    let caption = "parameter_server, synthetic images, 8 a step of all tasks";
    assert!(drawn.contains(caption), "{drawn}");
    // One task has one number of servers, which is no line.
    let curves = drawn.split("by the number of servers").nth(1).unwrap();
    let legend = curves.split("</ul>").next().unwrap();
    assert!(
        legend.contains("2 tasks") && !legend.contains("1 tasks"),
        "{legend}"
    );
    // A page of one number of servers has no such picture.
    study("1", &folder.at("one"));
    let one = fs::read_to_string(folder.join("one/page.html")).unwrap();
    assert!(!one.contains("by the number of servers"), "{one}");
}

#[test]
fn a_study_of_one_point_has_a_page_which_replay_draws_anew_without_a_run() {
    let folder = with_script("study_one_point");
    let (to, script) = (folder.at("to"), folder.at("bench"));
    works(&[
        "study", "--tasks", "1", "--modes", "horovod", "--runs", "1", "--to", &to, "--", &script,
    ]);
    let first = page(&folder);
    assert!(
        first.contains("<svg") && first.contains("100.00"),
        "{first}"
    );
    fs::remove_file(folder.join("to/page.html")).unwrap();
    let other = folder.at("other");
    works(&["study", "--replay", &to]);
    works(&["study", "--replay", &to, "--to", &other]);
    let starts = fs::read_to_string(folder.join("starts")).unwrap();
    assert_eq!((page(&folder), starts.lines().count()), (first.clone(), 1));
    let copy = fs::read_to_string(folder.join("other/page.html")).unwrap();
    assert_eq!(copy, first);
    let missing = fails(&["study", "--replay", &folder.at("nothing")]);
    assert!(missing.contains("runs.jsonl"), "{missing}");
}

#[test]
fn the_report_is_replayed_with_all_cells_and_the_efficiencies_of_its_text() {
    let folder = Folder::new("study_report");
    let to = folder.at("to");
    let predictions = folder.at("predicted.csv");
    fs::write(
        &predictions,
        "system,mode,data,batch,servers,tasks,images_per_second\n\
         Piz Daint,parameter_server,synthetic,64,116,128,9680.75\n",
    )
    .unwrap();
    works(&[
        "study",
        "--replay",
        "report",
        "--to",
        &to,
        "--predictions",
        &predictions,
    ]);
    let told = page(&folder);
    for text in [
        "92.07%",
        "93.46%",
        "88.31%",
        "91.77%",
        "84.46%",
        "88.35%",
        "50.96%",
        "88.55%",
        "99.56%",
        "94.58%",
        "92.86%",
        "Table 3",
        "Figure 11",
        "9680.75",
        "5.00%",
    ] {
        assert!(told.contains(text), "{text}: {told}");
    }
    // Figures 5 to 11, and efficiencies of all systems and of each.
    assert_eq!(told.matches("<svg").count(), 7 + 1 + 3);
    let table = fs::read_to_string(folder.join("to/results.csv")).unwrap();
    assert_eq!(table.lines().count(), 1 + 48, "{table}");
    let text = fs::read_to_string(folder.join("to/results.json")).unwrap();
    let results: serde_json::Value = serde_json::from_str(&text).unwrap();
    let points = results["points"].as_array().unwrap();
    let of = |system: &str| points.iter().filter(|p| p["system"] == system).count();
    assert_eq!(["Piz Daint", "p2.xlarge", "p2.8xlarge"].map(of), [16; 3]);
}

#[test]
fn predictions_stand_beside_the_measured_speeds_and_a_bad_line_is_named() {
    let folder = with_script("study_predicted");
    let (to, script) = (folder.at("to"), folder.at("bench"));
    let file = folder.at("predicted.csv");
    let study = [
        "study",
        "--tasks",
        "1",
        "--modes",
        "horovod",
        "--runs",
        "1",
        "--batch-sizes",
        "8",
        "--to",
        &to,
        "--predictions",
        &file,
        "--json",
        "--",
        &script,
    ];
    let head = "mode,data,batch,servers,tasks,images_per_second\n";
    let good = format!("{head}independent,synthetic,8,0,1,110.0\n");
    fs::write(&file, &good).unwrap();
    let results: serde_json::Value = serde_json::from_str(&works(&study)).unwrap();
    assert_eq!(results["points"][0]["predicted"], 110.0);
    assert!(page(&folder).contains("10.00%"));
    fs::write(&file, good + "horovod,synthetic,8,0,two,1.0\n").unwrap();
    let told = fails(&study);
    assert!(
        told.contains("predicted.csv: line 3: tasks is 'two'"),
        "{told}"
    );
}

#[test]
fn a_study_needs_a_program_and_a_folder_or_a_study_to_replay() {
    for words in [
        &["study", "--to", "x"][..],
        &["study", "--", "true"],
        &["study", "--replay", "report", "--", "true"],
    ] {
        let output = support::thalweg(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
    }
}
