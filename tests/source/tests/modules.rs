//! Order of the modules inside each crate: the files and folders of a folder do not use each other in a circle.
//!
//! The core of the graph crate is the exception: a node, an output, an op's rules and the graph that holds them refer to
//! each other.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use thalweg_source_tests::{Circle, circles, sources, uses};

/// The modules of the graph crate that may use each other.
const CORE: &[&str] = &[
    "body",
    "builder",
    "check",
    "data",
    "device",
    "error",
    "function",
    "gradients",
    "graph",
    "infer",
    "kept",
    "node",
    "op",
    "output",
    "scopes",
];

fn of_crate(src: &Path) -> (usize, Vec<Circle>) {
    let uses = uses(&sources(src));
    (uses.len(), circles(&uses))
}

#[test]
fn no_children_of_a_folder_use_each_other_in_a_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let crates = std::fs::read_dir(root.join("crates")).unwrap();
    let mut count = 0;
    let mut wrong = Vec::new();
    for folder in crates.map(|f| f.unwrap().path()) {
        let (files, circles) = of_crate(&folder.join("src"));
        count += files;
        let is_core = |c: &Circle| {
            let all_core = c.members.iter().all(|m| CORE.contains(&m.as_str()));
            folder.ends_with("graph") && c.folder.is_empty() && all_core
        };
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        wrong.extend(
            circles
                .into_iter()
                .filter(|c| !is_core(c))
                .map(|c| (name.clone(), c)),
        );
    }
    assert!(wrong.is_empty(), "{} circles: {wrong:#?}", wrong.len());
    assert!(count > 300, "only {count} modules were found");
}

/// A crate of four files in a folder of its own.
struct Small(PathBuf);

impl Small {
    fn new(name: &str) -> Small {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(folder.join("b")).unwrap();
        let small = Small(folder);
        small.write("lib.rs", "mod a;\nmod b;\nmod c;\npub use a::A;\n");
        small.write(
            "a.rs",
            "use crate::b::{self, inner::B};\n// use crate::c::C;\npub struct A;\n",
        );
        small.write("b/mod.rs", "mod inner;\npub use inner::B;\n");
        small.write("b/inner.rs", "pub struct B;\nfn f() { crate::c::g() }\n");
        small.write(
            "c.rs",
            "pub fn g() {}\n#[cfg(test)]\nmod tests { use crate::a::A; }\n",
        );
        small
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    fn circles(&self) -> Vec<(String, BTreeSet<String>)> {
        let found = of_crate(&self.0).1.into_iter();
        found.map(|c| (c.folder.join("::"), c.members)).collect()
    }
}

fn circle(folder: &str, members: &[&str]) -> Vec<(String, BTreeSet<String>)> {
    let members = members.iter().map(|m| (*m).to_owned()).collect();
    vec![(folder.to_owned(), members)]
}

#[test]
fn uses_in_tests_and_comments_make_no_circle() {
    assert_eq!(Small::new("none").circles(), []);
}

#[test]
fn a_path_in_a_signature_closes_a_circle_over_a_folder() {
    let small = Small::new("signature");
    small.write("c.rs", "pub fn g() -> crate::a::A { todo!() }\n");
    assert_eq!(small.circles(), circle("", &["a", "b", "c"]));
}

#[test]
fn a_re_export_of_the_root_leads_to_the_file_that_defines_the_item() {
    let small = Small::new("re_export");
    small.write("c.rs", "use crate::A;\npub fn g() {}\n");
    assert_eq!(small.circles(), circle("", &["a", "b", "c"]));
}

#[test]
fn a_file_that_re_exports_another_uses_it() {
    let small = Small::new("pub_use");
    small.write("c.rs", "pub use crate::a::A;\npub fn g() {}\n");
    assert_eq!(small.circles(), circle("", &["a", "b", "c"]));
}

#[test]
fn two_files_that_use_each_other_are_a_circle() {
    let small = Small::new("pair");
    small.write(
        "b/mod.rs",
        "mod inner;\npub use inner::B;\npub struct Shared;\n",
    );
    small.write("b/inner.rs", "use super::Shared;\npub struct B;\n");
    assert_eq!(small.circles(), circle("b", &["inner", "mod"]));
}

#[test]
fn a_module_inside_of_a_file_uses_the_file_by_super() {
    let small = Small::new("inline");
    small.write("c.rs", "pub fn g() {}\nmod inner { use super::*; }\n");
    assert_eq!(small.circles(), []);
}

#[test]
fn a_path_in_a_macro_is_a_use() {
    let small = Small::new("macro");
    small.write(
        "c.rs",
        "pub fn g() { println!(\"{:?}\", vec![crate::a::f()]) }\n",
    );
    assert_eq!(small.circles(), circle("", &["a", "b", "c"]));
}
