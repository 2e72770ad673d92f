//! Exponential moving averages of weights.

use thalweg_graph::{Graph, Operation, Output, Reason, VariableInfo};
use thalweg_ops::{ArrayOps, MathOps, StateOps, Variable};
use thalweg_tensor::DType;

use crate::rate::Rate;
use crate::slots::slot;

/// Name of an average, after that of its variable.
const NAME: &str = "ExponentialMovingAverage";

/// Exponential moving averages of variables, as `tf.train.ExponentialMovingAverage`: often better
/// weights than those of the last step.
///
/// The average of `var` is `var/ExponentialMovingAverage`, an untrained variable on the same device. It starts from the
/// initial value of `var`: the initializers of both run in one step, as those of [`StateOps::initializers`] do. Each
/// update is `average -= (1 - decay) * (average - var)`.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{MathOps, NewGraph, StateOps};
/// use thalweg_session::Session;
/// use thalweg_optim::{GradientDescent, MovingAverage, Optimizer};
///
/// # fn main() -> Result<(), thalweg_session::SessionError> {
/// let g = Graph::new();
/// let w = g.variable("w", 4.0f32);
/// let step = GradientDescent::new(0.5).minimize(w.value().square());
/// // The average follows the weight after its update.
/// let mut averages = MovingAverage::new(0.75);
/// let train = g.control_dependencies([step], || averages.apply(&g, &[w]));
///
/// let session = Session::new(&g)?;
/// session.run(g.initializers(), [])?;
/// session.run(train, [])?;
/// let average = averages.average(w).unwrap();
/// assert_eq!(session.run::<f32>(w, [])?, 0.0);
/// assert_eq!(session.run::<f32>(average, [])?, 3.0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct MovingAverage<'g> {
    decay: Rate<'g>,
    num_updates: Option<Variable<'g>>,
    /// Variables and their averages.
    averages: Vec<(Variable<'g>, Variable<'g>)>,
}

impl<'g> MovingAverage<'g> {
    /// Averages that keep `decay` of themselves each step: near 1, such as 0.999.
    pub fn new(decay: impl Into<Rate<'g>>) -> MovingAverage<'g> {
        MovingAverage {
            decay: decay.into(),
            num_updates: None,
            averages: Vec::new(),
        }
    }

    /// The number of updates so far, `n`, a scalar variable such as the global step. The decay is then
    /// `min(decay, (1 + n) / (10 + n))`, so that averages move faster at first.
    pub fn num_updates(self, num_updates: Variable<'g>) -> MovingAverage<'g> {
        MovingAverage {
            num_updates: Some(num_updates),
            ..self
        }
    }

    /// One operation that moves the averages of `variables` towards their values, and creates averages for those that
    /// have none. Values, and the number of updates, are read after the control dependencies around the call: after a
    /// training step, if it is among them.
    ///
    /// A variable whose dtype is not a float is a mistake that the graph keeps.
    #[track_caller]
    pub fn apply(&mut self, graph: &'g Graph, variables: &[Variable<'g>]) -> Operation<'g> {
        graph.at_caller(|| {
            let averages: Vec<_> = variables.iter().map(|&v| (v, self.of(v))).collect();
            graph.name_scope(NAME, || {
                let weight = 1.0 - self.decay(graph);
                let moves = averages.iter().map(|&(v, average)| {
                    v.colocate(|| {
                        let average_now = average.read();
                        let weight = Rate::from(weight).on(graph, "weight", average_now.dtype());
                        average.assign_sub((average_now - v.read()) * weight)
                    })
                });
                graph.group("update", moves.collect::<Vec<_>>())
            })
        })
    }

    /// The average of a variable, if it has one.
    pub fn average(&self, variable: Variable<'_>) -> Option<Variable<'g>> {
        let known = |(v, _): &&(Variable<'g>, _)| v.handle().id() == variable.handle().id();
        self.averages
            .iter()
            .find(known)
            .map(|(_, average)| *average)
    }

    /// Entries of a training checkpoint for a graph that only evaluates: names, each with the variable that takes the
    /// value. A trainable variable, or one with an average here, takes its average; all others take their own values.
    /// The averages need not be in the graph.
    pub fn variables_to_restore(&self, graph: &'g Graph) -> Vec<(String, Variable<'g>)> {
        let averaged = |info: &VariableInfo| {
            let known = |(v, _): &(Variable<'g>, _)| v.handle().id() == info.handle;
            info.trainable || self.averages.iter().any(known)
        };
        let (averaged, others): (Vec<_>, Vec<_>) =
            graph.variables().into_iter().partition(averaged);
        let average = |info: &VariableInfo| format!("{}/{NAME}", info.name);
        let mut all: Vec<(String, &VariableInfo)> =
            averaged.iter().map(|i| (average(i), i)).collect();
        for info in &others {
            // Entries of averages are listed already, with the variables that take them.
            if !all.iter().any(|(name, _)| *name == info.name) {
                all.push((info.name.clone(), info));
            }
        }
        let of = |(name, info): (String, &VariableInfo)| (name, Variable::of(graph, info));
        all.into_iter().map(of).collect()
    }

    /// The decay of this step, in `f32` as in TensorFlow.
    #[track_caller]
    fn decay(&self, graph: &'g Graph) -> Output<'g> {
        let decay = self.decay.on(graph, "decay", DType::F32);
        match self.num_updates {
            None => decay,
            Some(n) => {
                let n = n.read().cast(DType::F32);
                decay.minimum((n + 1.0) / (n + 10.0))
            }
        }
    }

    /// Returns the average of a variable, and creates it first if there is none.
    #[track_caller]
    fn of(&mut self, variable: Variable<'g>) -> Variable<'g> {
        if let Some(average) = self.average(variable) {
            return average;
        }
        let average = slot(variable, NAME, |like| {
            let graph = variable.handle().graph();
            let text = match initial_value(variable) {
                Some(initial) if like.dtype.is_float() => return initial,
                Some(_) => format!("no average of {like} can be taken: it takes floats"),
                None => {
                    "its initializer gives no value, which the average could start from".to_owned()
                }
            };
            let name = variable.handle().operation().name();
            graph.fail(&name, NAME, Reason::Argument(text))
        });
        self.averages.push((variable, average));
        average
    }
}

/// The value that the initializer of a variable assigns.
fn initial_value(variable: Variable<'_>) -> Option<Output<'_>> {
    let graph = variable.handle().graph();
    let data = graph.snapshot();
    let assign = data.get(variable.initializer().id())?;
    assign.inputs.get(1).map(|&id| graph.output(id))
}

#[cfg(test)]
mod tests;
