//! State files, and what retention keeps.

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
fn texts_that_are_no_states_say_the_line() {
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
