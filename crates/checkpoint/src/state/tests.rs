//! Tests of state files and of the retention of checkpoints.

use super::CheckpointState;

#[test]
fn texts_of_other_writers_are_read() {
    let text = br#"# written by hand
model_checkpoint_path: 'a\x20b-\320\266' "c"
all_model_checkpoint_paths: [ "one", "two" ];
all_model_checkpoint_paths:"a b-\u0436c",
unknown { field: "}" nested < x: 1 > }
other: -3e5
all_model_checkpoint_timestamps: 1.5
all_model_checkpoint_timestamps: [2, 3f]
last_preserved_timestamp: 4
"#;
    let state = CheckpointState::parse(text).unwrap();
    assert_eq!(state.model_checkpoint_path, "a b-\u{436}c");
    let paths = ["one", "two", "a b-\u{436}c"];
    assert_eq!(state.all_model_checkpoint_paths, paths);
    assert_eq!(state.all_model_checkpoint_timestamps, [1.5, 2.0, 3.0]);
    assert_eq!(state.last_preserved_timestamp, Some(4.0));
    let again = CheckpointState::parse(state.to_text().as_bytes());
    assert_eq!(again, Ok(state));
}

#[test]
fn malformed_state_files_are_errors_with_the_line() {
    for (text, why) in [
        ("model_checkpoint_path \"x\"", "line 1 lacks a colon"),
        ("a: 1\nb: \"x", "line 2 lacks the end of a string"),
        ("a: \"\\q\"", "lacks a known escape"),
        ("a: [1 2]", "lacks the end of a list"),
        ("a {", "lacks the end of a message"),
        ("\x00", "lacks a field's name"),
        ("a:", "lacks a value"),
        (
            "model_checkpoint_path: 3",
            "another kind of value for model_checkpoint_path",
        ),
        ("a: \"\\400\"", "lacks an octal byte"),
    ] {
        let said = CheckpointState::parse(text.as_bytes()).unwrap_err();
        assert!(said.contains(why), "{text}: {said}");
    }
}

mod keeping {
    use std::path::PathBuf;
    use std::time::Duration;

    use thalweg_tensor::Tensor;

    use crate::BundleWriter;
    use crate::state::{CheckpointState, Retention, RetentionOptions};

    fn folder(name: &str) -> PathBuf {
        let name = format!("thalweg-keeping-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn save(folder: &std::path::Path, step: i64) -> PathBuf {
        let prefix = folder.join(format!("m-{step}"));
        let mut writer = BundleWriter::create(&prefix).unwrap();
        writer.add("step", &Tensor::scalar(step)).unwrap();
        writer.finish().unwrap();
        // The other file of a Saver is deleted with it.
        std::fs::write(prefix.with_file_name(format!("m-{step}.meta")), b"graph").unwrap();
        prefix
    }

    fn steps(folder: &std::path::Path) -> Vec<String> {
        let all = std::fs::read_dir(folder).unwrap();
        let names = all.map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut steps: Vec<_> = names
            .filter_map(|n| Some(n.strip_suffix(".index")?.to_owned()))
            .collect();
        steps.sort();
        steps
    }

    #[test]
    fn one_checkpoint_per_interval_is_kept_permanently() {
        let folder = folder("good");
        let options = RetentionOptions {
            max_to_keep: 2,
            keep_every: Duration::from_secs(3600),
            ..RetentionOptions::default()
        };
        let mut retention = Retention::open(&folder, options.clone()).unwrap();
        let start = super::super::retention::now();
        for step in 1..=8 {
            // Every half hour.
            let time = start + 1800.0 * step as f64 + 1.0;
            retention.saved_at(&save(&folder, step), time).unwrap();
        }
        // The first past each hour, and the last two.
        assert_eq!(steps(&folder), ["m-2", "m-4", "m-6", "m-7", "m-8"]);
        let state = CheckpointState::read(&folder).unwrap().unwrap();
        assert_eq!(
            state.last_preserved_timestamp,
            Some(start + 6.0 * 1800.0 + 1.0)
        );
        // A new process continues from there.
        let mut retention = Retention::open(&folder, options).unwrap();
        assert_eq!(retention.kept().count(), 2);
        let time = start + 1800.0 * 9.0 + 1.0;
        retention.saved_at(&save(&folder, 9), time).unwrap();
        assert_eq!(steps(&folder), ["m-2", "m-4", "m-6", "m-8", "m-9"]);
        assert!(!folder.join("m-7.meta").exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn zero_keeps_all_and_names_the_newest_only() {
        let folder = folder("zero");
        let options = RetentionOptions {
            max_to_keep: 0,
            relative_paths: true,
            ..RetentionOptions::default()
        };
        let mut retention = Retention::open(&folder, options).unwrap();
        for step in 1..=7 {
            retention.saved(&save(&folder, step)).unwrap();
        }
        assert_eq!(steps(&folder).len(), 7);
        let state = CheckpointState::read(&folder).unwrap().unwrap();
        assert_eq!(state.all_model_checkpoint_paths, ["m-7"]);
        assert_eq!(state.newest(&folder), Some(folder.join("m-7")));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
