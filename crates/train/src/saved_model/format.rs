//! Names of the SavedModel format: tags, signatures, files.

/// Tag of a graph for inference.
pub const SERVE: &str = "serve";

/// The default signature of TensorFlow's tools.
pub const DEFAULT_SIGNATURE: &str = "serving_default";

/// Prefix of the checkpoint in a SavedModel's folder.
pub const VARIABLES: &str = "variables/variables";

/// Signature by which TensorFlow 2 names the node to run when a model is loaded.
pub(super) const INIT_SIGNATURE: &str = "__saved_model_init_op";
