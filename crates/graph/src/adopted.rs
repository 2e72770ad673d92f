//! Functions of one graph's library in that of another one.

use std::collections::HashMap;
use std::sync::Arc;

use crate::attr::{Attr, Func};
use crate::data::GraphData;
use crate::function::Function;
use crate::node::Attrs;

/// The new names of functions; one that keeps its name is not among them.
#[derive(Default)]
pub struct Renamed(HashMap<String, String>);

impl Renamed {
    /// Replaces the names of functions in attributes.
    pub fn rename(&self, attrs: &mut Attrs) {
        if self.0.is_empty() {
            return;
        }
        let new = |f: &Func| Func {
            name: self.0.get(&f.name).unwrap_or(&f.name).clone(),
            attrs: f.attrs.clone(),
        };
        let mut changed = Vec::new();
        for (name, attr) in attrs.iter() {
            match attr {
                Attr::Func(f) if self.0.contains_key(&f.name) => {
                    changed.push((name.to_owned(), Attr::Func(new(f))));
                }
                Attr::Funcs(all) if all.iter().any(|f| self.0.contains_key(&f.name)) => {
                    changed.push((name.to_owned(), Attr::Funcs(all.iter().map(new).collect())));
                }
                _ => {}
            }
        }
        for (name, attr) in changed {
            attrs.set(name, attr);
        }
    }
}

impl GraphData {
    /// Adds the functions of another library that this one lacks. A function whose name stands for another one here gets a
    /// new name, also where functions that are added call it.
    pub fn adopt(&mut self, other: &GraphData) -> Renamed {
        let mut renamed = Renamed::default();
        if Arc::ptr_eq(&self.functions, &other.functions) {
            return renamed;
        }
        let lacks = |f: &&Arc<Function>| {
            let own = self.function(&f.name);
            own.is_none_or(|own| !Arc::ptr_eq(own, f))
        };
        let lacking: Vec<Arc<Function>> =
            other.functions().values().filter(lacks).cloned().collect();
        let mut number = self.functions().len();
        for function in &lacking {
            if self.function(&function.name).is_some() {
                let free =
                    |name: &str| self.function(name).is_none() && other.function(name).is_none();
                let name = loop {
                    number += 1;
                    let name = format!("{}:{number}", function.name);
                    if free(&name) {
                        break name;
                    }
                };
                renamed.0.insert(function.name.clone(), name);
            }
        }
        for function in lacking {
            if renamed.0.is_empty() {
                let library = Arc::make_mut(&mut self.functions);
                library.insert(function.name.clone(), function);
                continue;
            }
            let mut function = Function::clone(&function);
            if let Some(name) = renamed.0.get(&function.name) {
                function.name.clone_from(name);
            }
            for id in function.body.ids() {
                if let Some(node) = function.body.node_mut(id) {
                    renamed.rename(&mut node.attrs);
                }
            }
            self.define(function);
        }
        renamed
    }
}
