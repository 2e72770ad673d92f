//! A loss that is multiplied so that f16 holds the gradients.

use thalweg_graph::{Graph, Operation, Output};
use thalweg_ops::{ArrayOps, MathOps, ReduceOps, SourceOps, StateOps, SumOps, Variable};
use thalweg_tensor::DType;

use crate::devices::Places;

/// What the loss is multiplied by before gradients are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum LossScale {
    /// Nothing.
    #[default]
    None,
    /// Always the same number.
    Fixed(f32),
    /// A number that is doubled after so many steps whose gradients are finite. A step with others does not update the
    /// variables, and halves it.
    Automatic {
        /// At first.
        initial: f32,
        /// The steps.
        double_after: u32,
    },
}

/// The scale of a graph.
pub(crate) struct Scale<'g> {
    pub(crate) value: Output<'g>,
    automatic: Option<Automatic<'g>>,
}

struct Automatic<'g> {
    scale: Variable<'g>,
    /// Finite steps since the scale was changed.
    steps: Variable<'g>,
    double_after: u32,
}

impl<'g> Scale<'g> {
    /// None where the loss is to stay as it is.
    pub(crate) fn new(g: &'g Graph, places: &Places, scale: LossScale) -> Option<Scale<'g>> {
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
        places.on_step(g, make)
    }

    /// Applies gradients of towers, each with its optimizer's work; where the scale is automatic, if they are finite.
    pub(crate) fn guarded(
        &self,
        g: &'g Graph,
        gradients: &[(Output<'g>, Variable<'g>)],
        apply: impl FnOnce() -> Operation<'g>,
    ) -> Operation<'g> {
        let (Some(_), Some(&(_, first))) = (&self.automatic, gradients.first()) else {
            return apply();
        };
        first.beside(|| {
            let finite = finite(g, gradients);
            let sides = g.op("Switch").input(finite).input(finite).build();
            let applied = g.control_dependencies([sides.output(1).named("finite")], || {
                let applied = apply();
                g.control_dependencies([applied], || sides.output(1).named("applied"))
            });
            // What waits for the result runs in every step.
            g.op("Merge").input(sides.output(0)).input(applied).build()
        })
    }

    /// Changes the scale by the gradients of a step; nothing, where it is fixed.
    pub(crate) fn adapted(
        &self,
        g: &'g Graph,
        gradients: &[(Output<'g>, Variable<'g>)],
    ) -> Option<Operation<'g>> {
        let automatic = self.automatic.as_ref()?;
        Some(automatic.scale.beside(|| {
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

/// Whether all elements of all gradients are finite, a scalar bool where it is asked for.
fn finite<'g>(g: &'g Graph, gradients: &[(Output<'g>, Variable<'g>)]) -> Output<'g> {
    let all: Vec<Output<'g>> = gradients
        .iter()
        .map(|&(gradient, variable)| {
            variable.beside(|| {
                let finite = gradient.reshape([-1]).is_finite();
                finite.reduce_all(&[0], false).cast(DType::F32)
            })
        })
        .collect();
    g.add_n(&all).greater_equal(all.len() as f64 - 0.5)
}
