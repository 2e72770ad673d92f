//! Scopes: names, control dependencies and devices that nodes get from the scopes around them. A
//! scope ends when its closure returns or panics.

use smallvec::SmallVec;

use crate::device::DeviceScope;
use crate::error::Reason;
use crate::graph::{Graph, GraphState};
use crate::node::NodeId;
use crate::output::Operation;

impl Graph {
    /// Runs `build` in a name scope: its nodes are called `scope/...`.
    ///
    /// The scope's name is made unique (`a`, then `a_1`); one that ends in `/` is taken as it is,
    /// from the root, so that an earlier scope can be entered again. The empty name is the root.
    pub fn name_scope<R>(&self, scope: &str, build: impl FnOnce() -> R) -> R {
        let prefix = {
            let mut state = self.state();
            match scope.strip_suffix('/') {
                Some(absolute) => absolute.to_owned(),
                None if scope.is_empty() => String::new(),
                None => {
                    let full = state.scoped(scope);
                    state.names.unique(&full)
                }
            }
        };
        self.state().scopes.push(prefix);
        let _pop = Pop(self, |s| {
            s.scopes.pop();
        });
        build()
    }

    /// Runs `build` so that every node it makes waits for `nodes`.
    #[track_caller]
    pub fn control_dependencies<'g, R>(
        &'g self,
        nodes: impl IntoIterator<Item = impl Into<Operation<'g>>>,
        build: impl FnOnce() -> R,
    ) -> R {
        let mut own = SmallVec::new();
        for (input, node) in nodes.into_iter().map(Into::into).enumerate() {
            if !std::ptr::eq(node.graph(), self) {
                let reason = Reason::OtherGraph { input };
                self.report(&node.name(), "control_dependencies", reason);
            } else if !node.is_invalid() {
                own.push(node.id());
            }
        }
        self.state().controls.push(own);
        let _pop = Pop(self, |s| {
            s.controls.pop();
        });
        build()
    }

    /// Runs `build` without the surrounding control dependencies.
    pub fn without_control_dependencies<R>(&self, build: impl FnOnce() -> R) -> R {
        let set_aside = std::mem::take(&mut self.state().controls);
        struct Restore<'g>(&'g Graph, Vec<SmallVec<[NodeId; 2]>>);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                self.0.state().controls = std::mem::take(&mut self.1);
            }
        }
        let _restore = Restore(self, set_aside);
        build()
    }

    /// Runs `build` in a device scope: a device string or spec, or a function
    /// ([`DeviceScope::function`]).
    ///
    /// Scopes nest by TensorFlow's rules: an outer scope fills the parts that an inner one leaves
    /// open; [`DeviceScope::None`] stops the outer scopes from applying; a function sees the device
    /// of the scopes inside of it, and its result replaces that.
    #[track_caller]
    pub fn device<R>(&self, scope: impl Into<DeviceScope>, build: impl FnOnce() -> R) -> R {
        let mut scope = scope.into();
        if let DeviceScope::Invalid(error) = &scope {
            self.report("", "device", Reason::Device(error.clone()));
            // Reported once, here, and not again by each node.
            scope = DeviceScope::Spec(Default::default());
        }
        self.state().devices.push(scope);
        let _pop = Pop(self, |s| {
            s.devices.pop();
        });
        build()
    }

    /// Runs `build` so that its nodes share the device of `node`, whichever that will be. The
    /// surrounding device scopes do not apply.
    #[track_caller]
    pub fn colocate_with<'g, R>(
        &'g self,
        node: impl Into<Operation<'g>>,
        build: impl FnOnce() -> R,
    ) -> R {
        let node = node.into();
        if !std::ptr::eq(node.graph(), self) {
            let reason = Reason::OtherGraph { input: 0 };
            self.report(&node.name(), "colocate_with", reason);
            return build();
        }
        if node.is_invalid() {
            return build();
        }
        let devices = {
            let mut state = self.state();
            state.colocated.push(node.id());
            std::mem::take(&mut state.devices)
        };
        struct Restore<'g>(&'g Graph, Vec<DeviceScope>);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                let mut state = self.0.state();
                state.colocated.pop();
                state.devices = std::mem::take(&mut self.1);
            }
        }
        let _restore = Restore(self, devices);
        build()
    }
}

/// Leaves a scope when it is dropped, by a panic too.
pub(crate) struct Pop<'g>(pub(crate) &'g Graph, pub(crate) fn(&mut GraphState));

impl Drop for Pop<'_> {
    fn drop(&mut self) {
        (self.1)(&mut self.0.state());
    }
}

impl GraphState {
    pub(crate) fn scoped(&self, name: &str) -> String {
        match self.scopes.last() {
            Some(scope) if !scope.is_empty() => format!("{scope}/{name}"),
            _ => name.to_owned(),
        }
    }
}
