//! Pages: chapters are in the book's summary, and relative links lead to files and headings.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The Markdown pages of the repository, but for those of build folders.
fn pages(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                pages(&path, into);
            }
        } else if name.ends_with(".md") {
            into.push(path);
        }
    }
}

/// The targets of the links `[text](target)` outside of code.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        // Of a line in backquotes, the even parts are prose.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("x");
        let mut rest = prose.as_str();
        while let Some((_, after)) = rest.split_once("](").filter(|_| !in_code) {
            let (target, after) = after.split_once(')').unwrap_or((after, ""));
            found.push(target.to_owned());
            rest = after;
        }
    }
    found
}

/// The anchors of a page's headings, as GitHub and mdbook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|l| l.starts_with('#'));
    let anchor = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn relative_links_of_pages_lead_to_files_and_headings() {
    let mut all = Vec::new();
    pages(&root(), &mut all);
    assert!(all.len() > 40, "only {} pages were found", all.len());
    let mut wrong = Vec::new();
    for page in &all {
        let text = std::fs::read_to_string(page).unwrap();
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => page.clone(),
                file => page.parent().unwrap().join(file),
            };
            let is_page = target.extension().is_some_and(|e| e == "md");
            let found = target.exists()
                && (anchor.is_empty() || !is_page || {
                    anchors(&std::fs::read_to_string(&target).unwrap()).contains(anchor)
                });
            if !found {
                wrong.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_chapter_is_in_the_summary() {
    let book = root().join("docs/book");
    let summary = std::fs::read_to_string(book.join("SUMMARY.md")).unwrap();
    let listed: BTreeSet<String> = links(&summary).into_iter().collect();
    for entry in std::fs::read_dir(&book).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") && name != "SUMMARY.md" {
            assert!(listed.contains(&name), "SUMMARY.md lacks {name}");
        }
    }
}
