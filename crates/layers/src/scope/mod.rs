//! Variable scopes: names for variables, and their sharing. The rules are those of
//! `tf.compat.v1.variable_scope` and `tf.compat.v1.get_variable`.

mod stack;
mod variable;

use thalweg_graph::{Graph, Reason};
use thalweg_tensor::Shape;

use stack::Scopes;

pub use stack::{Reuse, VariableScope};
pub use variable::NewVariable;

/// Variables by name, in scopes. The graph keeps the entered scopes, and the variables.
pub trait VariableScopes {
    /// Runs `build` in a variable scope, and in a name scope of the same name, which is made
    /// unique: variables are called `scope/...`, and other nodes too, or `scope_1/...`.
    fn variable_scope<R>(&self, scope: impl Into<VariableScope>, build: impl FnOnce() -> R) -> R;

    /// The current variable scope: that of the innermost [`VariableScopes::variable_scope`], or the
    /// root. Entered anywhere else, it is the same scope again: its name is not nested inside
    /// others, and it inherits nothing there.
    ///
    /// ```
    /// use thalweg_graph::Graph;
    /// use thalweg_layers::{VariableScope, VariableScopes};
    /// use thalweg_ops::NewGraph;
    ///
    /// let g = Graph::new();
    /// let encoder = g.variable_scope("encoder", || g.current_variable_scope());
    /// let w = g.variable_scope("decoder", || {
    ///     g.variable_scope(&encoder, || g.get_variable("w", [4]).build())
    /// });
    /// assert_eq!(w.handle().name(), "encoder/w:0");
    /// ```
    fn current_variable_scope(&self) -> VariableScope;

    /// The variable `name` of the current variable scope: [`NewVariable::build`] makes it, or finds
    /// it if it is shared.
    fn get_variable(&self, name: &str, shape: impl Into<Shape>) -> NewVariable<'_>;
}

impl VariableScopes for Graph {
    #[track_caller]
    fn variable_scope<R>(&self, scope: impl Into<VariableScope>, build: impl FnOnce() -> R) -> R {
        let scope = scope.into();
        if scope.reuses_new() {
            let text =
                "a scope with a unique name has no variables yet: name the scope to be reused";
            self.report(
                &scope.name,
                "variable_scope",
                Reason::Argument(text.to_owned()),
            );
        }
        let name_scope = scope.name_scope().to_owned();
        let in_variable_scope = || {
            self.extension(|scopes: &mut Scopes| scopes.enter(scope));
            let _leave = Leave(self);
            build()
        };
        match name_scope.is_empty() {
            true => in_variable_scope(),
            false => self.name_scope(&name_scope, in_variable_scope),
        }
    }

    fn current_variable_scope(&self) -> VariableScope {
        self.extension(|scopes: &mut Scopes| scopes.current())
    }

    fn get_variable(&self, name: &str, shape: impl Into<Shape>) -> NewVariable<'_> {
        NewVariable::new(self, name, shape.into())
    }
}

/// Leaves a scope, by a panic too.
struct Leave<'g>(&'g Graph);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.extension(Scopes::leave);
    }
}
