//! FTRL-proximal: <https://research.google/pubs/pub41159>.

use thalweg_graph::{Operation, Output, Reason};
use thalweg_ops::{MathOps, Variable};
use thalweg_tensor::DType;

use super::optimizer::Optimizer;
use super::updates::Updates;
use crate::rate::Rate;

/// FTRL-proximal. It keeps weights at zero if the penalty outweighs them. With `new = accum + gradient^2` and `r(x) =
/// x^-learning_rate_power / rate`: `linear += gradient + 2 * l2_shrinkage * var - (r(new) - r(accum)) * var`, `var =
/// (clip(linear, -l1, l1) - linear) / (r(new) + beta / rate + 2 * l2)`, and `accum = new`.
///
/// A variable follows from its slots alone: its value before the first step is soon forgotten. The slots are `var/Ftrl`
/// (`accum`) and `var/Ftrl_1` (`linear`, from zeros).
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{MathOps, NewGraph, ReduceOps, SourceOps, StateOps};
/// use thalweg_session::Session;
/// use thalweg_optim::{Ftrl, Optimizer};
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let w = g.variable("w", [0.0f32, 0.0]);
/// let aim = g.constant([1.0f32, 0.01]);
/// let train = Ftrl::new(0.5).l1(0.05).minimize((w - aim).square().sum());
///
/// let session = Session::new(&g)?;
/// session.run(g.initializers(), [])?;
/// for _ in 0..50 {
///     session.run(train, [])?;
/// }
/// // The penalty outweighs the second weight, which stays exactly zero.
/// let now: Vec<f32> = session.run(w, [])?;
/// assert!(now[0] > 0.9 && now[1] == 0.0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Ftrl<'g> {
    learning_rate: Rate<'g>,
    learning_rate_power: f32,
    initial_accumulator: f64,
    l1: f32,
    l2: f32,
    l2_shrinkage: f32,
    beta: f32,
}

impl<'g> Ftrl<'g> {
    /// FTRL with this learning rate, learning rate power -0.5, initial accumulator 0.1, and neither penalties nor
    /// shrinkage nor beta.
    pub fn new(learning_rate: impl Into<Rate<'g>>) -> Ftrl<'g> {
        Ftrl {
            learning_rate: learning_rate.into(),
            learning_rate_power: -0.5,
            initial_accumulator: 0.1,
            l1: 0.0,
            l2: 0.0,
            l2_shrinkage: 0.0,
            beta: 0.0,
        }
    }

    /// Power by which the rate falls as gradients accumulate; at most 0, which keeps it constant.
    pub fn learning_rate_power(self, learning_rate_power: f32) -> Ftrl<'g> {
        Ftrl {
            learning_rate_power,
            ..self
        }
    }

    /// Initial value of `accum`; at least 0. It has the precision of the variable, unlike rates.
    pub fn initial_accumulator(self, initial_accumulator: f64) -> Ftrl<'g> {
        Ftrl {
            initial_accumulator,
            ..self
        }
    }

    /// The penalty on the absolute value of a weight; at least 0.
    pub fn l1(self, l1: f32) -> Ftrl<'g> {
        Ftrl { l1, ..self }
    }

    /// The penalty on the square of a weight, which stabilises; at least 0.
    pub fn l2(self, l2: f32) -> Ftrl<'g> {
        Ftrl { l2, ..self }
    }

    /// The penalty on the square of a weight that is added to the loss; at least 0.
    pub fn l2_shrinkage(self, l2_shrinkage: f32) -> Ftrl<'g> {
        Ftrl {
            l2_shrinkage,
            ..self
        }
    }

    /// The paper's beta, which makes the first steps smaller; at least 0.
    pub fn beta(self, beta: f32) -> Ftrl<'g> {
        Ftrl { beta, ..self }
    }

    /// Describes an argument that is not in its range.
    fn out_of_range(&self) -> Option<String> {
        let below_zero = [
            ("initial_accumulator", self.initial_accumulator),
            ("l1", self.l1.into()),
            ("l2", self.l2.into()),
            ("l2_shrinkage", self.l2_shrinkage.into()),
            ("beta", self.beta.into()),
        ];
        let below_zero = below_zero.into_iter().find(|&(_, value)| value < 0.0);
        match below_zero {
            Some((name, value)) => Some(format!("{name} is {value}, but must be at least 0")),
            None if self.learning_rate_power > 0.0 => Some(format!(
                "learning_rate_power is {}, but must be at most 0",
                self.learning_rate_power
            )),
            None => None,
        }
    }

    /// The penalty on the square with beta in it: TensorFlow's kernel adds twice this to the divisor.
    #[track_caller]
    fn l2_with_beta(&self, updates: &Updates<'g>) -> Rate<'g> {
        if self.beta == 0.0 {
            return self.l2.into();
        }
        let rate = self.learning_rate.on(updates.graph(), "rate", DType::F32);
        let twice = rate.maximum(1e-36f32) * 2.0;
        (f64::from(self.beta) / twice + f64::from(self.l2)).into()
    }
}

impl<'g> Optimizer<'g> for Ftrl<'g> {
    fn name(&self) -> &'static str {
        "Ftrl"
    }

    #[track_caller]
    fn update(
        &self,
        updates: &mut Updates<'g>,
        gradients: &[(Output<'g>, Variable<'g>)],
    ) -> Vec<Operation<'g>> {
        if let Some(wrong) = self.out_of_range() {
            let reason = Reason::Argument(wrong);
            let failed = updates.graph().fail("Ftrl", "Ftrl", reason);
            return vec![failed.operation()];
        }
        let shrinks = self.l2_shrinkage > 0.0;
        let op = match shrinks {
            true => "ResourceApplyFtrlV2",
            false => "ResourceApplyFtrl",
        };
        let l2 = self.l2_with_beta(updates);
        let mut nodes = Vec::with_capacity(gradients.len());
        for &(gradient, variable) in gradients {
            let accum = updates.slot(variable, "Ftrl", self.initial_accumulator);
            let linear = updates.slot(variable, "Ftrl", 0.0);
            let mut rate = |name, rate: Rate<'g>| updates.rate(name, rate, variable);
            let mut scalars = vec![
                rate("learning_rate", self.learning_rate),
                rate("l1", self.l1.into()),
                rate("l2", l2),
            ];
            scalars.extend(shrinks.then(|| rate("l2_shrinkage", self.l2_shrinkage.into())));
            scalars.push(rate("learning_rate_power", self.learning_rate_power.into()));
            let node = updates
                .node(op, variable)
                .inputs([accum.handle(), linear.handle()])
                .input(gradient)
                .inputs(scalars);
            nodes.push(node.build());
        }
        nodes
    }
}
