//! Modules of columns (Inception): each column starts at the module's input, and the outputs of the
//! columns are concatenated.

use thalweg_graph::Output;
use thalweg_layers::VariableScopes;

use crate::net::Net;
use crate::specs::{Conv, Pool};

/// A layer of a column.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ColumnLayer {
    Conv(Conv),
    Pool(Pool),
    /// The output of the preceding column at the same position.
    Share,
}

impl From<Conv> for ColumnLayer {
    fn from(conv: Conv) -> ColumnLayer {
        ColumnLayer::Conv(conv)
    }
}

impl From<Pool> for ColumnLayer {
    fn from(pool: Pool) -> ColumnLayer {
        ColumnLayer::Pool(pool)
    }
}

/// The layers of a column, from the first to the last.
pub(crate) fn column<const N: usize>(steps: [ColumnLayer; N]) -> Vec<ColumnLayer> {
    steps.into()
}

impl<'g> Net<'g> {
    /// Adds a module of this kind.
    pub(crate) fn module(
        &mut self,
        kind: &'static str,
        x: Output<'g>,
        columns: &[Vec<ColumnLayer>],
    ) -> Output<'g> {
        // tf_cnn_benchmarks does not number modules: those of a kind are all in the first one's
        // scope, and their convolutions are numbered. Checkpoints have these names.
        self.graph.variable_scope(&*format!("{kind}0"), || {
            let mut built: Vec<Vec<Output<'g>>> = Vec::new();
            for column in columns {
                let mut outputs: Vec<Output<'g>> = Vec::new();
                for (at, step) in column.iter().enumerate() {
                    let input = outputs.last().copied().unwrap_or(x);
                    let before = built.last().and_then(|column| column.get(at));
                    outputs.push(match step {
                        ColumnLayer::Conv(conv) => self.conv(input, *conv),
                        ColumnLayer::Pool(pool) => self.pool(input, *pool),
                        ColumnLayer::Share => before.copied().unwrap_or(input),
                    });
                }
                built.push(outputs);
            }
            let ends: Vec<_> = built.iter().filter_map(|c| c.last().copied()).collect();
            self.joined(&ends)
        })
    }
}
