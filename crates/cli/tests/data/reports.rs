//! `thalweg data inspect`, `check` and `bench`.

use serde_json::{Value, json};
use thalweg_image::decode;

use super::photos;
use super::support::{Folder, fails, thalweg, works};

/// A file of records of six pictures.
fn records(folder: &Folder) -> String {
    let file = folder.at("photos.tfrecord");
    works(&["data", "convert", &photos(folder, 3), "--to", &file]);
    file
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn keys_labels_and_a_contact_sheet_are_shown() {
    let folder = Folder::new("inspect");
    let file = records(&folder);
    let sheet = folder.at("sheet.png");
    let shown = works(&["data", "inspect", &file, "--sheet", &sheet]);
    for part in ["1 file, 6 records", "30 x 40", "image/class/label", "rose"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let image = decode(&std::fs::read(&sheet).unwrap(), 3).unwrap();
    assert_eq!((image.height, image.width), (104, 604));

    let report = json_of(&works(&["data", "inspect", &file, "--json"]));
    assert_eq!(report["records"], 6);
    let labels = json!([
        {"label": 1, "class": "n01440764", "records": 3},
        {"label": 2, "class": "rose", "records": 3},
    ]);
    assert_eq!(report["labels"], labels);
    let error = fails(&["data", "inspect", &folder.at("none-*")]);
    assert!(error.contains("no file matches it"), "{error}");
}

#[test]
fn damaged_records_are_listed_with_their_file_and_offset() {
    let folder = Folder::new("check");
    let file = records(&folder);
    let shown = works(&["data", "check", &file]);
    assert_eq!(shown, "1 file, 6 records intact, 0 damaged\n");

    let whole = std::fs::read(&file).unwrap();
    let first = 16 + u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    let mut bytes = whole.clone();
    // A byte of the data of the second record, and the end of the last one.
    bytes[first + 40] ^= 1;
    bytes.truncate(whole.len() - 1);
    std::fs::write(&file, bytes).unwrap();
    let output = thalweg(&["data", "check", &file, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report = json_of(std::str::from_utf8(&output.stdout).unwrap());
    assert_eq!(report["intact"], 4);
    let damaged = report["damaged"].as_array().unwrap();
    assert_eq!(damaged.len(), 2);
    assert_eq!(
        (&damaged[0]["record"], &damaged[0]["offset"]),
        (&json!(1), &json!(first))
    );
    assert_eq!(
        damaged[0]["reason"],
        "the data of a record do not match their checksum"
    );
    assert_eq!(damaged[1]["record"], 5);
    assert_eq!(damaged[1]["reason"], "the last record is cut off");
}

#[test]
fn pictures_are_decoded_where_asked() {
    let folder = Folder::new("check-pictures");
    let file = folder.at("one.tfrecord");
    let mut writer =
        thalweg_data::RecordWriter::create(&file, thalweg_data::Compression::None).unwrap();
    let example = thalweg_data::example::ExampleWriter::new();
    writer
        .write(&example.bytes("image/encoded", [b"\xff\xd8\xff"]).finish())
        .unwrap();
    writer.finish().unwrap();
    works(&["data", "check", &file]);
    let output = thalweg(&["data", "check", &file, "--decode"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("0 records intact, 1 damaged") && text.contains("JPEG"),
        "{text}"
    );
}

#[test]
fn the_speed_of_each_stage_is_measured() {
    let folder = Folder::new("bench");
    let file = records(&folder);
    let report = json_of(&works(&[
        "data",
        "bench",
        &file,
        "--threads",
        "2",
        "--seconds",
        "0.01",
        "--size",
        "16",
        "--batch",
        "4",
        "--json",
    ]));
    let names: Vec<_> = report["stages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| &s["stage"])
        .collect();
    assert_eq!(names, ["read", "decode", "crop and resize"]);
    assert!(report["images_per_second"].as_f64().unwrap() > 0.0);
    assert!(names.contains(&&report["bound"]));
}

#[test]
fn lmdb_is_inspected_checked_and_timed() {
    let folder = Folder::new("reports-lmdb");
    let to = folder.at("out");
    let source = photos(&folder, 3);
    works(&["data", "convert", &source, "--to", &to, "--format", "lmdb"]);
    let file = folder.at("out/train.lmdb");
    let report = json_of(&works(&["data", "inspect", &file, "--json"]));
    assert_eq!(
        (&report["records"], &report["labels"][1]["label"]),
        (&json!(6), &json!(1))
    );
    assert_eq!(report["largest_size"], json!([30, 40]));
    works(&["data", "check", &file, "--decode"]);
    let bench = [
        "data",
        "bench",
        &file,
        "--seconds",
        "0.01",
        "--size",
        "16",
        "--batch",
        "4",
    ];
    let shown = works(&bench);
    assert!(
        shown.contains("all together") && shown.contains("bound by"),
        "{shown}"
    );

    let data = folder.join("out/train.lmdb/data.mdb");
    let whole = std::fs::read(&data).unwrap();
    std::fs::write(&data, &whole[..whole.len() / 2]).unwrap();
    let output = thalweg(&["data", "check", &file]);
    assert_eq!(output.status.code(), Some(1));
    let text = [output.stdout, output.stderr].concat();
    assert!(String::from_utf8(text).unwrap().contains("get it again"));
}
