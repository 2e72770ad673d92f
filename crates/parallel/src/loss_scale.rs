//! Loss scaling: keeps gradients in the range of f16.

use thalweg_graph::{Graph, Operation, Output};
use thalweg_ops::{ArrayOps, MathOps, ReduceOps, SourceOps, StateOps, SumOps, Variable};
use thalweg_tensor::DType;

use crate::placement::Placement;

/// Factor of the loss before gradients are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum LossScale {
    /// No factor.
    #[default]
    None,
    /// A constant factor.
    Fixed(f32),
    /// A factor that is doubled after a number of steps with finite gradients. A step with other gradients does not
    /// update the variables, and halves it.
    Automatic {
        /// Initial factor.
        initial: f32,
        /// Number of steps.
        double_after: u32,
    },
}

/// Nodes of the loss scale in a graph.
pub(crate) struct Scale<'g> {
    pub(crate) value: Output<'g>,
    automatic: Option<Automatic<'g>>,
}

struct Automatic<'g> {
    scale: Variable<'g>,
    /// Number of finite steps since the scale was changed.
    steps: Variable<'g>,
    double_after: u32,
}

impl<'g> Scale<'g> {
    /// Builds the scale; `None` for [`LossScale::None`].
    pub(crate) fn new(g: &'g Graph, placement: &Placement, scale: LossScale) -> Option<Scale<'g>> {
        let make = || match scale {
            LossScale::None => None,
            LossScale::Fixed(scale) => Some(Scale {
                value: g.constant(scale),
                automatic: None,
            }),
            LossScale::Automatic {
                initial,
                double_after,
            } => {
                let scale = g.untrained_variable("loss_scale", initial);
                let steps = g.untrained_variable("loss_scale_normal_steps", 0i64);
                Some(Scale {
                    value: scale.value(),
                    automatic: Some(Automatic {
                        scale,
                        steps,
                        double_after,
                    }),
                })
            }
        };
        placement.on_step(g, make)
    }

    /// Applies gradients of towers; an automatic scale skips the update if they are not finite.
    pub(crate) fn guarded(
        &self,
        g: &'g Graph,
        gradients: &[(Output<'g>, Variable<'g>)],
        apply: impl FnOnce() -> Operation<'g>,
    ) -> Operation<'g> {
        let (Some(_), Some(&(_, first))) = (&self.automatic, gradients.first()) else {
            return apply();
        };
        first.colocate(|| {
            let finite = finite(g, gradients);
            let sides = g.op("Switch").input(finite).input(finite).build();
            let applied = g.control_dependencies([sides.output(1).named("finite")], || {
                let applied = apply();
                g.control_dependencies([applied], || sides.output(1).named("applied"))
            });
            // Nodes that wait for the result run in every step.
            g.op("Merge").input(sides.output(0)).input(applied).build()
        })
    }

    /// Adapts the scale to the gradients of a step; `None` if it is fixed.
    pub(crate) fn adapted(
        &self,
        g: &'g Graph,
        gradients: &[(Output<'g>, Variable<'g>)],
    ) -> Option<Operation<'g>> {
        let automatic = self.automatic.as_ref()?;
        Some(automatic.scale.colocate(|| {
            let finite = finite(g, gradients);
            let (scale, steps) = (automatic.scale, automatic.steps);
            let full = (steps.value() + 1).greater_equal(i64::from(automatic.double_after));
            let doubled = finite.logical_and(full);
            let next = doubled.select(
                scale.value() * 2.0,
                finite.select(scale.value(), scale.value() * 0.5),
            );
            let counted = finite.logical_and(full.logical_not());
            let count = counted.select(steps.value() + 1, 0i64);
            g.group("adapt", [scale.assign(next), steps.assign(count)])
        }))
    }
}

/// A scalar bool that is `true` if all elements of all gradients are finite.
fn finite<'g>(g: &'g Graph, gradients: &[(Output<'g>, Variable<'g>)]) -> Output<'g> {
    let all: Vec<Output<'g>> = gradients
        .iter()
        .map(|&(gradient, variable)| {
            variable.colocate(|| {
                let finite = gradient.reshape([-1]).is_finite();
                finite.reduce_all(&[0], false).cast(DType::F32)
            })
        })
        .collect();
    g.add_n(&all).greater_equal(all.len() as f64 - 0.5)
}
