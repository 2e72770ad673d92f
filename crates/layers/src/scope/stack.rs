//! Descriptions of variable scopes, and the stack of scopes that a graph is in.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use thalweg_graph::VariableInfo;
use thalweg_ops::Variable;

use crate::initializers::Initializer;
use crate::regularizers::Regularizer;

/// The sharing of a variable scope: makes new variables, or returns existing ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reuse {
    /// As the scope around it; outside of all scopes each variable is made once, and a second
    /// request is a mistake.
    #[default]
    No,
    /// All variables must exist.
    Yes,
    /// Missing variables are made: TensorFlow's `AUTO_REUSE`.
    Auto,
}

impl From<bool> for Reuse {
    fn from(reuse: bool) -> Reuse {
        match reuse {
            true => Reuse::Yes,
            false => Reuse::No,
        }
    }
}

/// The description of a variable scope.
///
/// A text stands for [`VariableScope::new`]. A scope inherits options that it does not set (reuse,
/// initializer, regularizer) from the scope around it.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_layers::{Reuse, VariableScope, VariableScopes};
/// use thalweg_ops::NewGraph;
///
/// let g = Graph::new();
/// let weights = || g.get_variable("w", [3, 4]).build();
/// let first = g.variable_scope("model", weights);
/// let again = g.variable_scope(VariableScope::new("model").reuse(Reuse::Yes), weights);
/// assert_eq!(first.handle().id(), again.handle().id());
///
/// // Without `reuse` it is a mistake, which names the line where the variable was first made.
/// g.variable_scope("model", weights);
/// let error = g.errors()[0].to_string();
/// assert!(error.starts_with("node 'model/w' (get_variable), made at"), "{error}");
/// assert!(error.contains("it was made before"), "{error}");
/// ```
#[derive(Clone, Debug, Default)]
pub struct VariableScope {
    pub(super) name: String,
    kind: NameKind,
    pub(super) reuse: Reuse,
    pub(super) initializer: Option<Initializer>,
    pub(super) regularizer: Option<Regularizer>,
    pub(super) getter: Option<Getter>,
}

/// A custom getter: replaces the variables that a scope returns.
#[derive(Clone)]
pub(super) struct Getter(Arc<dyn for<'g> Fn(Variable<'g>) -> Variable<'g> + Send + Sync>);

impl Getter {
    pub(super) fn get<'g>(&self, variable: Variable<'g>) -> Variable<'g> {
        (self.0)(variable)
    }
}

impl fmt::Debug for Getter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Getter")
    }
}

/// The meaning of a scope's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum NameKind {
    /// The full name: the scope as it was in another place.
    #[default]
    Whole,
    /// The name inside of the scope around it.
    Inside,
    /// The same, with a number if the scope around it has had such a scope.
    Unique,
}

impl VariableScope {
    /// The scope `name` inside the current one.
    pub fn new(name: &str) -> VariableScope {
        VariableScope {
            name: name.to_owned(),
            kind: NameKind::Inside,
            ..VariableScope::default()
        }
    }

    /// The scope `name`, or `name_1`, `name_2`, ..., whichever was not entered yet inside the
    /// current scope, since that was entered: TensorFlow's `default_name`. Layers without a name do
    /// this.
    pub fn unique(name: &str) -> VariableScope {
        VariableScope {
            kind: NameKind::Unique,
            ..VariableScope::new(name)
        }
    }

    /// Sets the sharing of its variables, for it and the scopes inside it. [`Reuse::No`] inherits
    /// from the scope around it; so does `false`.
    pub fn reuse(mut self, reuse: impl Into<Reuse>) -> VariableScope {
        let reuse = reuse.into();
        if reuse != Reuse::No {
            self.reuse = reuse;
        }
        self
    }

    /// Sets the default initializer of its variables.
    pub fn initializer(mut self, initializer: Initializer) -> VariableScope {
        self.initializer = Some(initializer);
        self
    }

    /// Sets the default regularizer of its variables: of all of them, biases and moving averages
    /// too, as in TensorFlow.
    pub fn regularizer(mut self, regularizer: Regularizer) -> VariableScope {
        self.regularizer = Some(regularizer);
        self
    }

    /// Returns `get` of a variable whenever it is requested: TensorFlow's `custom_getter`. With
    /// [`Variable::with_value`] the requester reads something else in its place. The getter of an
    /// inner scope replaces that of the scope around it.
    ///
    /// ```
    /// use thalweg_graph::Graph;
    /// use thalweg_layers::{VariableScope, VariableScopes};
    /// use thalweg_ops::{ArrayOps, NewGraph};
    ///
    /// let g = Graph::new();
    /// let frozen = VariableScope::new("model").getter(|v| v.with_value(v.value().stop_gradient()));
    /// let w = g.variable_scope(frozen, || g.get_variable("w", [4]).build());
    /// assert!(w.value().name().contains("StopGradient"));
    /// assert_eq!(w.name(), "model/w");
    /// ```
    pub fn getter(
        mut self,
        get: impl for<'g> Fn(Variable<'g>) -> Variable<'g> + Send + Sync + 'static,
    ) -> VariableScope {
        self.getter = Some(Getter(Arc::new(get)));
        self
    }

    /// Its name; the empty name is that of the root.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `true` if it is a new, unique scope that is asked to reuse existing variables.
    pub(super) fn reuses_new(&self) -> bool {
        self.kind == NameKind::Unique && self.reuse == Reuse::Yes
    }

    /// The full name of a variable or scope `name` in it.
    pub(super) fn full_name(&self, name: &str) -> String {
        match &*self.name {
            "" => name.to_owned(),
            scope => format!("{scope}/{name}"),
        }
    }

    /// The name scope that is entered with it.
    pub(super) fn name_scope(&self) -> &str {
        match self.kind {
            NameKind::Whole => self.name.rsplit('/').next().unwrap_or_default(),
            NameKind::Inside | NameKind::Unique => &self.name,
        }
    }
}

impl From<&str> for VariableScope {
    fn from(name: &str) -> VariableScope {
        VariableScope::new(name)
    }
}

impl From<&VariableScope> for VariableScope {
    fn from(scope: &VariableScope) -> VariableScope {
        scope.clone()
    }
}

/// The scopes and variables of a graph.
#[derive(Default)]
pub(super) struct Scopes {
    entered: Vec<Entered>,
    /// The number of entries into each scope since the one around it was left. A scope without a
    /// count was not entered.
    counts: HashMap<String, usize>,
    pub(super) variables: BTreeMap<String, VariableInfo>,
}

struct Entered {
    scope: VariableScope,
    /// For a scope from another place: the counts that leaving it restores.
    counts: Option<HashMap<String, usize>>,
}

impl Scopes {
    pub(super) fn current(&self) -> VariableScope {
        let innermost = self.entered.last().map(|e| e.scope.clone());
        innermost.unwrap_or_default()
    }

    pub(super) fn enter(&mut self, scope: VariableScope) {
        let outer = self.current();
        let elsewhere = scope.kind == NameKind::Whole;
        let scope = match scope.kind {
            NameKind::Whole => scope,
            NameKind::Inside | NameKind::Unique => VariableScope {
                name: match scope.kind {
                    NameKind::Unique => self.unique(outer.full_name(&scope.name)),
                    _ => outer.full_name(&scope.name),
                },
                kind: NameKind::Whole,
                reuse: outer.reuse,
                initializer: scope.initializer.or(outer.initializer),
                regularizer: scope.regularizer.or(outer.regularizer),
                getter: scope.getter.or(outer.getter),
            }
            .reuse(scope.reuse),
        };
        *self.counts.entry(scope.name.clone()).or_default() += 1;
        let counts = elsewhere.then(|| self.counts.clone());
        self.entered.push(Entered { scope, counts });
    }

    pub(super) fn leave(&mut self) {
        let Some(Entered { scope, counts }) = self.entered.pop() else {
            return;
        };
        match counts {
            Some(counts) => self.counts = counts,
            // Entered again, it yields the same unique names again.
            None => {
                let inside = format!("{}/", scope.name);
                self.counts.retain(|name, _| !name.starts_with(&inside));
            }
        }
    }

    fn unique(&self, name: String) -> String {
        if !self.counts.contains_key(&name) {
            return name;
        }
        let mut n = 1;
        loop {
            let numbered = format!("{name}_{n}");
            if !self.counts.contains_key(&numbered) {
                return numbered;
            }
            n += 1;
        }
    }
}
