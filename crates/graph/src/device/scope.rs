//! Device scopes: the devices that new nodes get from the scopes around them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::{DeviceFnError, DeviceSpec, SpecError};
use crate::error::Reason;
use crate::node::Node;

/// A function that chooses a device for a node. It sees the device that inner scopes gave the node
/// so far, as [`Node::device`].
///
/// Its result replaces that device, so it has to merge the two itself; outer scopes still fill the
/// parts that it leaves open. `None` clears the device.
pub type DeviceFn = dyn Fn(&Node) -> Result<Option<DeviceSpec>, DeviceFnError> + Send + Sync;

/// One scope: see [`crate::Graph::device`].
///
/// Strings and specs become scopes by themselves; a function needs [`DeviceScope::function`].
///
/// ```
/// # mod ops { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/ops.rs")); }
/// use thalweg_graph::{DeviceScope, DeviceSpec, Output};
///
/// let g = ops::graph();
/// let device = |x: Output<'_>| g.snapshot().node(x.id().node).device.to_string();
/// let x = g.device("/job:worker/cpu:0", || {
///     g.device("/cpu:1", || ops::constant(&g, 1.0f32))
/// });
/// assert_eq!(device(x), "/job:worker/device:CPU:1");
///
/// // Products go to a GPU, whatever the scopes around them.
/// let products = DeviceScope::function(|node| {
///     let gpu = DeviceSpec::parse("/gpu:0").expect("a device");
///     Ok(Some(if node.op.name == "Mul" { gpu } else { node.device.clone() }))
/// });
/// let y = g.device(products, || x * x);
/// assert_eq!(device(y), "/device:GPU:0");
///
/// // Scopes around it do not apply.
/// let z = g.device("/cpu:0", || g.device(DeviceScope::None, || x + x));
/// assert_eq!(device(z), "");
/// ```
#[derive(Clone)]
pub enum DeviceScope {
    /// Fills the parts that inner scopes leave open.
    Spec(DeviceSpec),
    /// A string that is not a device; reported when the scope is entered.
    Invalid(SpecError),
    /// Chooses for each node.
    Function(Arc<DeviceFn>),
    /// Stops outer scopes from applying.
    None,
}

impl From<&str> for DeviceScope {
    fn from(text: &str) -> DeviceScope {
        match DeviceSpec::parse(text) {
            Ok(spec) => DeviceScope::Spec(spec),
            Err(error) => DeviceScope::Invalid(error),
        }
    }
}

impl From<String> for DeviceScope {
    fn from(text: String) -> DeviceScope {
        text.as_str().into()
    }
}

impl From<DeviceSpec> for DeviceScope {
    fn from(spec: DeviceSpec) -> DeviceScope {
        DeviceScope::Spec(spec)
    }
}

impl From<&DeviceSpec> for DeviceScope {
    fn from(spec: &DeviceSpec) -> DeviceScope {
        DeviceScope::Spec(spec.clone())
    }
}

impl DeviceScope {
    /// A scope in which `function` chooses; see [`DeviceFn`].
    pub fn function(
        function: impl Fn(&Node) -> Result<Option<DeviceSpec>, DeviceFnError> + Send + Sync + 'static,
    ) -> DeviceScope {
        DeviceScope::Function(Arc::new(function))
    }
}

/// Gives `node` its device: the scopes apply from the innermost out, as in TensorFlow.
///
/// # Errors
/// A device function that fails or panics.
pub(crate) fn apply(scopes: &[DeviceScope], node: &mut Node) -> Result<(), Reason> {
    for scope in scopes.iter().rev() {
        match scope {
            DeviceScope::Spec(outer) => node.device = node.device.or(outer),
            DeviceScope::Invalid(error) => return Err(Reason::Device(error.clone())),
            DeviceScope::None => return Ok(()),
            DeviceScope::Function(function) => {
                let chosen = catch_unwind(AssertUnwindSafe(|| function(node)));
                let chosen = chosen.map_err(|panic| {
                    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
                    let message = text.or_else(|| panic.downcast_ref::<String>().cloned());
                    Reason::DeviceFunction(message.unwrap_or_default())
                })?;
                node.device = chosen.map_err(Reason::Choice)?.unwrap_or_default();
            }
        }
    }
    Ok(())
}
