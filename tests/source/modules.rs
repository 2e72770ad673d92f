//! The order of modules inside each crate: none uses, through others, a module that uses it. The core of the graph crate is
//! the exception: a node, an output, an op's rules and the graph they stand in are one thing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A module's path inside its crate.
type Module = Vec<String>;

/// The modules of the graph crate that may use each other.
const CORE: &[&str] = &[
    "body",
    "builder",
    "check",
    "data",
    "device::scope",
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

/// The source files of a crate, by module; those of tests and generated ones left out.
fn modules(src: &Path) -> BTreeMap<Module, PathBuf> {
    let mut found = BTreeMap::new();
    let mut folders = vec![src.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") && name != "tests.rs" && name != "messages.rs" {
                let inside = path.strip_prefix(src).unwrap().with_extension("");
                let parts = inside.iter().map(|p| p.to_string_lossy().into_owned());
                let mut module: Module = parts.collect();
                module.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
                found.insert(module, path);
            }
        }
    }
    found
}

/// The paths that a source names, each from `crate`, `super` or `self` on; of a group, each of its members.
fn named(source: &str) -> Vec<Vec<String>> {
    let code = source.lines().map(|l| l.split("//").next().unwrap_or(""));
    let code = code.collect::<Vec<_>>().join("\n");
    let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut paths = Vec::new();
    let starts = ["crate::", "super::", "self::"];
    for (at, _) in code.match_indices("::") {
        let head = code[..at]
            .rsplit(|c: char| !c.is_alphanumeric() && c != '_' && c != ':' && c != '$')
            .next();
        let head = head.unwrap_or_default();
        let whole = format!("{head}::");
        // Of a path with several parts, the first `::` is where it is read.
        if !starts.contains(&whole.as_str()) {
            continue;
        }
        let before = code[..at - head.len()].trim_end();
        let line = before.rsplit(['\n', ';', '}']).next().unwrap_or_default();
        if line.trim_start().starts_with("pub") && line.contains(" use") {
            // A face that only names what others have.
            continue;
        }
        let rest = &code[at - head.len()..];
        let plain = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        let end = rest.find(|c| !plain(c)).unwrap_or(rest.len());
        let base = rest[..end].trim_end_matches(':');
        let split = |p: &str| p.split("::").map(str::to_owned).collect::<Vec<_>>();
        match rest[end..]
            .strip_prefix('{')
            .filter(|_| rest[..end].ends_with("::"))
        {
            None => paths.push(split(base)),
            Some(group) => {
                let group = group.split(['}', '{']).next().unwrap_or_default();
                for member in group.split(',').map(str::trim).filter(|m| !m.is_empty()) {
                    let member = member.split([' ', ':']).next().unwrap_or_default();
                    paths.push(split(&format!("{base}::{member}")));
                }
            }
        }
    }
    paths
}

/// The module that a path leads to from `at`; none outside of the crate's files.
fn target(at: &Module, path: &[String], modules: &BTreeMap<Module, PathBuf>) -> Option<Module> {
    let mut from: Module = if path[0] == "crate" {
        Vec::new()
    } else {
        at.clone()
    };
    let mut rest = path;
    while let Some(first) = rest
        .first()
        .filter(|p| ["crate", "super", "self"].contains(&p.as_str()))
    {
        if first == "super" {
            from.pop();
        }
        rest = &rest[1..];
    }
    from.extend(rest.iter().cloned());
    while !from.is_empty() && !modules.contains_key(&from) {
        from.pop();
    }
    (!from.is_empty()).then_some(from)
}

/// By module: the modules that it uses, but for those that it is inside of.
fn uses(src: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let modules = modules(src);
    let of = |(module, file): (&Module, &PathBuf)| {
        let source = std::fs::read_to_string(file).unwrap();
        let targets = named(&source).into_iter();
        let targets = targets.filter_map(|path| target(module, &path, &modules));
        let others = targets.filter(|t| t != module && !module.starts_with(t));
        (module.clone(), others.collect())
    };
    modules.iter().map(of).collect()
}

/// Modules of which each uses, through others, all the rest: three or more.
fn circles(uses: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<BTreeSet<Module>> {
    let reached = |from: &Module| {
        let mut seen = BTreeSet::new();
        let mut stack = vec![from.clone()];
        while let Some(module) = stack.pop() {
            for next in uses.get(&module).into_iter().flatten() {
                if seen.insert(next.clone()) {
                    stack.push(next.clone());
                }
            }
        }
        seen
    };
    let all: BTreeMap<&Module, BTreeSet<Module>> = uses.keys().map(|m| (m, reached(m))).collect();
    let mut found = BTreeSet::new();
    for (module, reaches) in &all {
        let back = |other: &&Module| all.get(other).is_some_and(|r| r.contains(*module));
        let mut circle: BTreeSet<Module> = reaches.iter().filter(back).cloned().collect();
        circle.insert((*module).clone());
        if circle.len() > 2 {
            found.insert(circle);
        }
    }
    found
}

fn shown(circle: &BTreeSet<Module>) -> Vec<String> {
    circle.iter().map(|m| m.join("::")).collect()
}

#[test]
fn no_modules_of_a_crate_use_each_other_in_a_circle() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut count = 0;
    for folder in std::fs::read_dir(crates).unwrap() {
        let folder = folder.unwrap().path();
        let uses = uses(&folder.join("src"));
        count += uses.len();
        for circle in circles(&uses) {
            let core = folder.ends_with("graph")
                && shown(&circle).iter().all(|m| CORE.contains(&m.as_str()));
            assert!(core, "{}: {:?}", folder.display(), shown(&circle));
        }
    }
    assert!(count > 300, "only {count} modules were found");
}

#[test]
fn a_circle_is_found_when_one_is_added() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("modules");
    std::fs::create_dir_all(folder.join("b")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("lib.rs", "mod a;\nmod b;\nmod c;\n");
    write("a.rs", "use crate::b::{B, self};\n// use crate::c::C;\n");
    write("b.rs", "mod inner;\nuse super::c::C;\n");
    write("b/inner.rs", "fn f() { super::super::c::g() }\n");
    write(
        "c.rs",
        "pub use crate::a::A;\n#[cfg(test)]\nmod tests { use crate::a; }\n",
    );
    assert!(circles(&uses(&folder)).is_empty());
    write("c.rs", "fn g() -> crate::a::A { todo!() }\n");
    let found: Vec<_> = circles(&uses(&folder)).iter().map(shown).collect();
    assert_eq!(found, [["a", "b", "c"]]);
}
