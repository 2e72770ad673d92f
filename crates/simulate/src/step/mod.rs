//! Steps of a training: the graph of one worker, placed and cut by the passes that sessions use.

mod model_step;
mod node_cost;
mod template;
mod template_builder;

pub use model_step::{ModelStep, StepGraph};
pub use node_cost::NodeCost;
pub use template::{Item, ItemWork, StepTemplate, Stream, TemplateTask};
