//! Definition of a file's functions in the graph.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_graph::Function;
use thalweg_graph::function::calls;

use crate::error::{ImportError, Problem};
use crate::import::errors::of_function;
use crate::import::functions::Functions;
use crate::import::{body, gradient};
use crate::messages::FunctionDef;
use crate::tensor::Budget;

impl<'d> Functions<'d> {
    /// Defines the functions that are used, directly or not.
    pub(super) fn define_used(&mut self, budget: &mut Budget) -> Result<(), ImportError> {
        while let Some(next) = self.to_do.pop() {
            let function = body::function(self, &next, budget)?;
            self.define(function)?;
        }
        self.define_derived()
    }

    /// Defines the requested gradients: a gradient whose function calls another gradient comes
    /// after that one.
    fn define_derived(&mut self) -> Result<(), ImportError> {
        let mut left = std::mem::take(&mut self.derived);
        while !left.is_empty() {
            let names: BTreeSet<String> = left.iter().map(|(_, name)| name.clone()).collect();
            let ready = |(of, _): &(String, String)| {
                self.graph.function(of).is_none_or(|f| {
                    let used = f.body.nodes();
                    let mut used = used.flat_map(|(_, n)| n.functions());
                    !used.any(|name| names.contains(name))
                })
            };
            // If they form a cycle, the import reports the missing one.
            let next = left.iter().position(ready).unwrap_or(0);
            let (of, name) = left.remove(next);
            let wrong = |problem| of_function(&self.origin, &of, problem);
            let function = self.graph.function(&of);
            let function = function.ok_or_else(|| wrong(Problem::NoFunction(of.clone())))?;
            let gradient = gradient::of(self.graph, &function, &name).map_err(wrong)?;
            self.define(gradient)?;
        }
        Ok(())
    }

    /// Defines the functions of the file that nothing uses, except those that cannot be built and
    /// their users; returns the names of those.
    pub(super) fn define_others(
        &mut self,
        budget: &mut Budget,
    ) -> Result<Vec<String>, ImportError> {
        let all: Vec<(&'d str, &'d FunctionDef)> =
            self.library.iter().map(|(n, d)| (*n, *d)).collect();
        let mut failed = BTreeSet::new();
        for (name, def) in all {
            let has_attrs = def.signature.as_ref().is_some_and(|s| !s.attr.is_empty());
            if !has_attrs && self.used(name, &mut Vec::new(), budget).is_err() {
                failed.insert(name.to_owned());
            }
        }
        let mut made: BTreeMap<String, Function> = BTreeMap::new();
        // By function: its users.
        let mut users: BTreeMap<String, Vec<String>> = BTreeMap::new();
        while let Some(next) = self.to_do.pop() {
            let Ok(function) = body::function(self, &next, budget) else {
                failed.insert(next.name);
                continue;
            };
            let attrs = function.body.nodes().flat_map(|(_, n)| n.attrs.iter());
            let attrs = attrs
                .map(|(_, a)| a)
                .chain(function.attrs.iter().map(|(_, a)| a));
            for used in calls(attrs) {
                users
                    .entry(used.to_owned())
                    .or_default()
                    .push(function.name.clone());
            }
            made.insert(next.name, function);
        }
        // The gradients of unused functions are not built, and functions that request one are left
        // out too.
        let derived = std::mem::take(&mut self.derived).into_iter();
        let derived = derived.map(|(_, name)| name);
        failed.extend(derived.filter(|name| self.graph.function(name).is_none()));
        let mut stack: Vec<String> = failed.iter().cloned().collect();
        while let Some(name) = stack.pop() {
            for user in users.remove(&name).unwrap_or_default() {
                if failed.insert(user.clone()) {
                    stack.push(user);
                }
            }
        }
        for (name, function) in made {
            if !failed.contains(&name) {
                self.define(function)?;
            }
        }
        let own = failed.into_iter();
        Ok(own
            .filter(|name| self.library.contains_key(&**name))
            .collect())
    }

    fn define(&self, function: Function) -> Result<(), ImportError> {
        if let Some(there) = self.graph.function(&function.name) {
            let same = crate::export::same_function(&there, &function);
            return match same {
                true => Ok(()),
                false => Err(of_function(&self.origin, &function.name, Problem::Taken)),
            };
        }
        self.graph.define(function);
        Ok(())
    }
}
