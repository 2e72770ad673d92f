//! YAML of manifests.
//!
//! The shape is YAML's block style, which people read and change. Keys and scalars are as in JSON, which YAML 1.2 contains, so that
//! no text can be taken for a number, a boolean or a comment. This is less code than a binding to a YAML crate, and `serde_yaml` is
//! not maintained any more.

use std::fmt::Write;

use serde_json::Value;

/// Text of several documents.
pub(super) fn documents(all: &[Value]) -> String {
    let mut text = String::new();
    for value in all {
        text += "---";
        node(value, 0, &mut text);
    }
    text
}

/// Writes a value after its key, or after a dash or the start of a document; it ends its line.
fn node(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            text.push('\n');
            for (key, value) in map {
                pad(indent, text);
                scalar(key, text);
                text.push(':');
                node(value, indent + 2, text);
            }
        }
        Value::Array(all) if !all.is_empty() => {
            text.push('\n');
            for value in all {
                pad(indent, text);
                text.push('-');
                item(value, indent + 2, text);
            }
        }
        Value::String(string) => {
            text.push(' ');
            quoted(string, text);
            text.push('\n');
        }
        // Numbers, booleans, and empty lists and maps.
        other => {
            let _ = writeln!(text, " {other}");
        }
    }
}

/// Writes an item of a list after its dash: a map begins in the same line.
fn item(value: &Value, indent: usize, text: &mut String) {
    let Value::Object(map) = value else {
        return node(value, indent, text);
    };
    if map.is_empty() {
        return node(value, indent, text);
    }
    text.push(' ');
    for (number, (key, value)) in map.iter().enumerate() {
        if number > 0 {
            pad(indent, text);
        }
        scalar(key, text);
        text.push(':');
        node(value, indent + 2, text);
    }
}

fn pad(indent: usize, text: &mut String) {
    text.extend(std::iter::repeat_n(' ', indent));
}

/// Writes a key: without quotes if it is a plain word. No key of a manifest is a boolean.
fn scalar(key: &str, text: &mut String) {
    let plain = |c: char| c.is_ascii_alphabetic() || matches!(c, '.' | '/' | '-');
    let is_plain = key.starts_with(|c: char| c.is_ascii_alphabetic()) && key.chars().all(plain);
    match is_plain {
        true => text.push_str(key),
        false => quoted(key, text),
    }
}

/// Writes a string in double quotes. Characters that YAML does not print are escaped; JSON escapes fewer.
fn quoted(string: &str, text: &mut String) {
    text.push('"');
    for c in string.chars() {
        let _ = match c {
            '"' | '\\' => write!(text, "\\{c}"),
            '\n' => write!(text, "\\n"),
            '\t' => write!(text, "\\t"),
            ' '..='~' => write!(text, "{c}"),
            _ if c.is_alphanumeric() => write!(text, "{c}"),
            _ => write!(text, "\\U{:08X}", u32::from(c)),
        };
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_written_in_blocks_with_quoted_strings() {
        let value = json!({
            "kind": "Job",
            "n": 3,
            "list": [{"a": "no", "b": {"c": "1.5"}}, "x: y # z", [1, true], {}],
            "none": [],
            "1st key": null,
        });
        let expected = "---\nkind: \"Job\"\nn: 3\nlist:\n  - a: \"no\"\n    b:\n      c: \"1.5\"\n  - \"x: y # z\"\n  -\n    - 1\n    \
                        - true\n  - {}\nnone: []\n\"1st key\": null\n";
        let mut lines: Vec<&str> = expected.lines().collect();
        let text = documents(&[value]);
        let mut found: Vec<&str> = text.lines().collect();
        // The order of keys is that of the map.
        lines.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, lines, "{text}");
    }

    #[test]
    fn characters_that_yaml_does_not_print_are_escaped() {
        let mut text = String::new();
        quoted("a\"\\\n\t\u{7f}\u{85}é\u{1f600}\u{2028}'", &mut text);
        let expected = r#""a\"\\\n\t\U0000007F\U00000085é\U0001F600\U00002028'""#;
        assert_eq!(text, expected);
    }
}
