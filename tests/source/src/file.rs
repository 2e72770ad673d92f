//! Source files of a crate: their modules, imports, items, and the paths that their code names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, Meta, Token, UseTree};

/// A module's path inside its crate; empty for the root.
pub type Module = Vec<String>;

/// A name that a `use` brings into a module.
#[derive(Debug)]
pub struct Import {
    /// The name in this module; `None` for a glob.
    pub name: Option<String>,
    /// The path that is imported, from the crate's root.
    pub path: Vec<String>,
}

/// A source file.
#[derive(Debug, Default)]
pub struct Source {
    /// Child modules that are files of their own.
    pub children: BTreeSet<String>,
    /// Names from inside the crate, and globs.
    pub imports: Vec<Import>,
    /// Names from other crates.
    pub external: BTreeSet<String>,
    /// Names of the items that the file defines.
    pub items: BTreeSet<String>,
    /// Paths into the crate that code outside of tests names, from the crate's root.
    pub paths: BTreeSet<Vec<String>>,
    /// Child modules that only tests have.
    test_children: BTreeSet<String>,
}

/// Reads the source files of the crate in the folder `src`, by module, without those that only tests
/// compile.
///
/// # Panics
///
/// Panics if a file cannot be read or is not Rust.
pub fn sources(src: &Path) -> BTreeMap<Module, Source> {
    let files = files(src);
    let mut found: BTreeMap<Module, Source> = BTreeMap::new();
    for (module, path) in &files {
        let text = std::fs::read_to_string(path).unwrap();
        let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let is_child =
            |name: &str| files.contains_key(&[module.clone(), vec![name.to_owned()]].concat());
        let mut reader = Reader::new(module, &is_child);
        reader.visit_file(&parsed);
        found.insert(module.clone(), reader.source);
    }
    let test_only: Vec<Module> = found
        .iter()
        .flat_map(|(m, s)| {
            s.test_children
                .iter()
                .map(|c| [m.clone(), vec![c.clone()]].concat())
        })
        .collect();
    found.retain(|module, _| !test_only.iter().any(|t| module.starts_with(t)));
    found
}

fn files(src: &Path) -> BTreeMap<Module, PathBuf> {
    let mut found = BTreeMap::new();
    let mut folders = vec![src.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") {
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

/// Collects imports, items and paths of one file.
struct Reader<'a> {
    module: &'a Module,
    is_child: &'a dyn Fn(&str) -> bool,
    /// Inline modules around the code that is being read.
    inline: Vec<String>,
    source: Source,
}

impl<'a> Reader<'a> {
    fn new(module: &'a Module, is_child: &'a dyn Fn(&str) -> bool) -> Reader<'a> {
        Reader {
            module,
            is_child,
            inline: Vec::new(),
            source: Source::default(),
        }
    }

    /// The path from the crate's root; `None` for one into another crate, and for a name of this file.
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let here = || [self.module.clone(), self.inline.clone()].concat();
        let (mut at, mut rest) = match path.first()?.as_str() {
            "crate" => (Vec::new(), &path[1..]),
            "self" | "super" if path.len() > 1 => (here(), path),
            child if self.inline.is_empty() && (self.is_child)(child) => (here(), path),
            _ => return None,
        };
        while let Some(first) = rest.first() {
            match first.as_str() {
                "self" => {}
                "super" => drop(at.pop()),
                _ => break,
            }
            rest = &rest[1..];
        }
        at.extend(rest.iter().cloned());
        Some(at)
    }

    fn named(&mut self, path: &[String]) {
        if let Some(path) = self.absolute(path).filter(|_| path.len() > 1) {
            self.source.paths.insert(path);
        }
    }

    fn import(&mut self, tree: &UseTree, prefix: &[String]) {
        let with = |name: &dyn ToString| [prefix, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.import(&path.tree, &with(&path.ident)),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, prefix);
                }
            }
            UseTree::Name(name) if name.ident == "self" => {
                self.bring(prefix.last().cloned(), prefix.to_vec());
            }
            UseTree::Name(name) => self.bring(Some(name.ident.to_string()), with(&name.ident)),
            UseTree::Rename(rename) => {
                self.bring(Some(rename.rename.to_string()), with(&rename.ident))
            }
            UseTree::Glob(_) => self.bring(None, prefix.to_vec()),
        }
    }

    fn bring(&mut self, name: Option<String>, path: Vec<String>) {
        let path = match path.as_slice() {
            // `use super::*`: the module around this one.
            [only] if only == "super" => {
                let mut here = [self.module.clone(), self.inline.clone()].concat();
                here.pop();
                Some(here)
            }
            path => self.absolute(path),
        };
        match (path, name) {
            (Some(path), name) => {
                self.source.paths.insert(path.clone());
                if self.inline.is_empty() {
                    self.source.imports.push(Import { name, path });
                }
            }
            (None, Some(name)) if self.inline.is_empty() => drop(self.source.external.insert(name)),
            (None, _) => {}
        }
    }

    /// Paths in the tokens of a macro, which are not parsed.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.named(&std::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.named(&std::mem::take(&mut path));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.named(&path);
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    let mut conditions = attributes.iter().filter(|a| a.path().is_ident("cfg"));
    conditions.any(|a| a.parse_args().is_ok_and(|condition| needs_test(&condition)))
}

/// `true` if a condition of `cfg` holds in tests alone.
fn needs_test(condition: &Meta) -> bool {
    let Meta::List(list) = condition else {
        return condition.path().is_ident("test");
    };
    let inner = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
    let inner = inner.unwrap_or_default();
    match list.path.get_ident().map(ToString::to_string).as_deref() {
        Some("all") => inner.iter().any(needs_test),
        Some("any") => !inner.is_empty() && inner.iter().all(needs_test),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, name) = match item {
            Item::Const(i) => (&i.attrs, Some(&i.ident)),
            Item::Enum(i) => (&i.attrs, Some(&i.ident)),
            Item::Fn(i) => (&i.attrs, Some(&i.sig.ident)),
            Item::Impl(i) => (&i.attrs, None),
            Item::Macro(i) => (&i.attrs, i.ident.as_ref()),
            Item::Mod(i) => (&i.attrs, None),
            Item::Static(i) => (&i.attrs, Some(&i.ident)),
            Item::Struct(i) => (&i.attrs, Some(&i.ident)),
            Item::Trait(i) => (&i.attrs, Some(&i.ident)),
            Item::Type(i) => (&i.attrs, Some(&i.ident)),
            Item::Union(i) => (&i.attrs, Some(&i.ident)),
            Item::Use(i) => (&i.attrs, None),
            _ => return visit::visit_item(self, item),
        };
        if is_for_tests(attributes) {
            if let Item::Mod(module) = item {
                self.source.test_children.insert(module.ident.to_string());
            }
            return;
        }
        if let Some(name) = name.filter(|_| self.inline.is_empty()) {
            self.source.items.insert(name.to_string());
        }
        match item {
            Item::Use(item) => self.import(&item.tree, &[]),
            Item::Mod(module) if module.content.is_none() => {
                self.source.children.insert(module.ident.to_string());
            }
            Item::Mod(module) => {
                self.inline.push(module.ident.to_string());
                visit::visit_item(self, item);
                self.inline.pop();
            }
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        self.named(&segments);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    // `pub(in path)` limits a name; it uses nothing.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}
}
