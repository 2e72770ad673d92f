//! Tests of the programs' messages: articles before filled-in words, the width of progress bars, output without panics.

use std::path::{Path, PathBuf};

/// The source files in these folders, with their texts.
fn sources(folders: &[&str]) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = folders.iter().map(|f| root.join(f)).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(kind) if kind == "rs" => {
                    let text = std::fs::read_to_string(&path).unwrap();
                    found.push((path, text));
                }
                _ => {}
            }
        }
    }
    found
}

/// Lines of code, without comments.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|l| !l.trim_start().starts_with("//"))
}

#[test]
fn messages_have_no_article_before_a_formatted_word() {
    // "a f32", "an u8": the right article depends on the filled-in word.
    let mut wrong = Vec::new();
    for (path, text) in sources(&["crates", "examples", "src"]) {
        for line in code(&text) {
            for name in ["dtype", "found", "expected", "kind"] {
                for article in [" a {", "\"a {", " an {", "\"an {"] {
                    let said = format!("{article}{name}}}");
                    if line.contains(&said) {
                        wrong.push(format!("{}: {}", path.display(), line.trim()));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The columns of a progress bar's template with long values; `None` where no part of it adapts to the terminal.
fn columns(template: &str) -> Option<usize> {
    let mut rest = template;
    let (mut columns, mut adapts) = (0, false);
    while let Some((before, after)) = rest.split_once('{') {
        let (key, after) = after.split_once('}').unwrap();
        let (key, format) = key.split_once(':').unwrap_or((key, ""));
        let width: Option<usize> = format.split('.').next().and_then(|w| w.parse().ok());
        columns += before.chars().count();
        match key {
            "wide_bar" | "wide_msg" => adapts = true,
            "bar" | "prefix" => columns += width.unwrap(),
            "pos" | "len" => columns += "99999".len(),
            "eta" | "elapsed" => columns += "59m".len(),
            other => panic!("how wide is {other} in {template}?"),
        }
        rest = after;
    }
    adapts.then_some(columns + rest.chars().count())
}

#[test]
fn progress_bars_fit_into_forty_columns() {
    let mut seen = 0;
    for (path, text) in sources(&["crates/cli", "crates/launch", "examples", "tests/gpu_run"]) {
        let name = path.display();
        for line in code(&text) {
            let found = line.split('"').nth(1).filter(|t| {
                ["{bar", "{wide_bar", "{prefix:", "{spinner"]
                    .iter()
                    .any(|k| t.contains(k))
            });
            let Some(template) = found else { continue };
            seen += 1;
            let columns = columns(template);
            assert!(
                columns.is_some_and(|c| c <= 40),
                "{name}: {template} takes {columns:?}"
            );
        }
    }
    assert_eq!(seen, 5, "programs with a progress bar");
}

#[test]
fn programs_print_only_through_functions_that_ignore_write_errors() {
    let mut wrong = Vec::new();
    for (path, text) in sources(&["crates/cli/src", "crates/launch/src", "apps", "examples"]) {
        let printed = code(&text).filter(|l| l.contains("println!") || l.contains("print!("));
        wrong.extend(printed.map(|l| format!("{}: {}", path.display(), l.trim())));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
