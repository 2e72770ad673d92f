//! Gradient checker: gradients of a computation, compared with central finite differences.
//!
//! An op of a program's own is tested with it, and so is every op of Thalweg.
//!
//! ```
//! use thalweg_ops::{MathOps, NnOps};
//! use thalweg_session::gradient_check::{GradientCheck, mixed};
//!
//! # fn main() -> Result<(), thalweg_session::gradient_check::GradientCheckError> {
//! // Two inputs of f64. The check feeds them, and moves each of their elements.
//! let check = GradientCheck::new([mixed(&[2, 3], 1), mixed(&[3], 2)]);
//! check.run(|_, x| vec![(x[0] * x[1]).tanh()])?;
//! # Ok(())
//! # }
//! ```

use thalweg_graph::{Graph, Output, gradients_with};
use thalweg_ops::{ArrayOps, NewGraph, SourceOps, StateOps};
use thalweg_plan::SessionError;
use thalweg_tensor::shape::elements;
use thalweg_tensor::{DType, Shape, Tensor, TensorError};
use thiserror::Error;

use crate::options::SessionOptions;
use crate::{Feed, Feeding, Session};

/// Numbers between 0.2 and 1.7 in size, of both signs, no two the same.
pub fn mixed(dims: &[usize], seed: u64) -> Tensor {
    let sign = |i: usize| {
        if (i as u64 + seed).is_multiple_of(3) {
            -1.0
        } else {
            1.0
        }
    };
    numbers(dims, |i| sign(i) * size(i, seed))
}

/// Numbers between 0.2 and 1.7, no two the same.
pub fn positive(dims: &[usize], seed: u64) -> Tensor {
    numbers(dims, |i| size(i, seed))
}

fn size(i: usize, seed: u64) -> f64 {
    // Multiples of the golden ratio are spread evenly, and none comes twice.
    let turn = (i as f64 + 1.0 + 17.0 * seed as f64) * 0.618_033_988_749_895;
    0.2 + 1.5 * turn.fract()
}

fn numbers(dims: &[usize], number: impl Fn(usize) -> f64) -> Tensor {
    let values: Vec<f64> = (0..elements(dims)).map(number).collect();
    Tensor::new(dims, &values).expect("one number for each element")
}

/// A check of the gradients of a computation.
///
/// The outputs are summed with fixed weights of both signs, so that one check covers all of them. An input without a
/// gradient counts as one with zeros.
#[derive(Clone, Debug)]
pub struct GradientCheck {
    inputs: Vec<Tensor>,
    options: SessionOptions,
    unknown_shapes: bool,
    single: bool,
    /// Half the distance between the two points of a difference.
    step: f64,
    tolerance: f64,
}

impl GradientCheck {
    /// A check with these inputs, of `f64`. They should be away from kinks: from 0 for Relu.
    pub fn new(inputs: impl IntoIterator<Item = Tensor>) -> GradientCheck {
        GradientCheck {
            inputs: inputs.into_iter().collect(),
            options: SessionOptions::new(),
            unknown_shapes: false,
            single: false,
            step: 1e-5,
            tolerance: 1e-6,
        }
    }

    /// With a session of these options: with the ops of a program's own, by [`SessionOptions::ops`].
    pub fn session(self, options: SessionOptions) -> GradientCheck {
        GradientCheck { options, ..self }
    }

    /// With inputs cast to `f32`, and outputs cast back, for an op without a kernel of `f64`. The check is coarser.
    pub fn single(self) -> GradientCheck {
        let check = GradientCheck {
            single: true,
            ..self
        };
        check.step(1.0 / 64.0).tolerance(1e-2)
    }

    /// With inputs whose dimensions are unknown while the graph is built, as they are for batches of any size.
    pub fn unknown_shapes(self) -> GradientCheck {
        GradientCheck {
            unknown_shapes: true,
            ..self
        }
    }

    /// With differences between points at this distance (1e-5) on both sides of an input's element.
    pub fn step(self, step: f64) -> GradientCheck {
        GradientCheck { step, ..self }
    }

    /// With this relative tolerance (1e-6), to which a tenth of it is added as an absolute one.
    pub fn tolerance(self, tolerance: f64) -> GradientCheck {
        GradientCheck { tolerance, ..self }
    }

    /// Compares the gradients of the outputs that `build` makes of the inputs. Returns the largest difference.
    ///
    /// # Errors
    /// [`GradientCheckError`]: a gradient that differs, or a graph that is invalid or does not run.
    pub fn run(
        &self,
        build: impl for<'g> FnOnce(&'g Graph, &[Output<'g>]) -> Vec<Output<'g>>,
    ) -> Result<f64, GradientCheckError> {
        let g = Graph::with_ops(self.options.op_set());
        let fed: Vec<Output<'_>> = self
            .inputs
            .iter()
            .map(|t| self.placeholder(&g, t))
            .collect();
        let ys = match self.single {
            false => build(&g, &fed),
            true => {
                let xs: Vec<Output<'_>> = fed.iter().map(|x| x.cast(DType::F32)).collect();
                let ys = build(&g, &xs).into_iter();
                ys.map(|y| y.cast(DType::F64)).collect()
            }
        };
        let weights: Vec<Output<'_>> = ys
            .iter()
            .map(|_| g.placeholder("weight", DType::F64, Shape::unknown()))
            .collect();
        let given: Vec<Option<Output<'_>>> = weights.iter().copied().map(Some).collect();
        let grads = gradients_with(&ys, &fed, &given, &[]);
        let session = Session::with_options(&g, self.options.clone())?;
        session.step(g.initializers(), [])?;
        let computation = Computation {
            session,
            fed,
            ys,
            weights,
        };
        self.compare(&computation, &grads)
    }

    fn placeholder<'g>(&self, g: &'g Graph, value: &Tensor) -> Output<'g> {
        let shape = match self.unknown_shapes {
            true => Shape::of_rank(value.dims().len()),
            false => value.shape(),
        };
        g.placeholder("x", DType::F64, shape)
    }

    fn compare(
        &self,
        computation: &Computation<'_>,
        grads: &[Option<Output<'_>>],
    ) -> Result<f64, GradientCheckError> {
        let weights = computation.weights_at(&self.inputs)?;
        let mut worst = 0f64;
        for (input, grad) in grads.iter().enumerate() {
            let dims = self.inputs[input].dims();
            let found = match grad {
                Some(grad) => computation.gradient(*grad, &self.inputs, &weights)?,
                None => Tensor::zeros(DType::F64, dims)?,
            };
            if found.dims() != dims {
                let (found, expected) = (found.shape(), self.inputs[input].shape());
                return Err(GradientCheckError::Shape {
                    input,
                    found,
                    expected,
                });
            }
            for (element, &found) in found.as_slice::<f64>()?.iter().enumerate() {
                let moved = |by: f64| -> Result<f64, GradientCheckError> {
                    let mut inputs = self.inputs.clone();
                    inputs[input].as_mut_slice::<f64>()?[element] += by;
                    computation.value(&inputs, &weights)
                };
                let expected = (moved(self.step)? - moved(-self.step)?) / (2.0 * self.step);
                let difference = (found - expected).abs();
                let allowed = self.tolerance * (0.1 + expected.abs());
                // Not a number is no match.
                if difference.is_nan() || difference > allowed {
                    return Err(GradientCheckError::Differs {
                        input,
                        element,
                        found,
                        expected,
                    });
                }
                worst = worst.max(difference);
            }
        }
        Ok(worst)
    }
}

/// The outputs of a computation, and their weighted sum.
struct Computation<'g> {
    session: Session<'g>,
    fed: Vec<Output<'g>>,
    ys: Vec<Output<'g>>,
    weights: Vec<Output<'g>>,
}

impl Computation<'_> {
    fn feeds(&self, inputs: &[Tensor]) -> Vec<Feed<'_>> {
        self.fed
            .iter()
            .zip(inputs)
            .map(|(x, t)| x.feed(t))
            .collect()
    }

    /// A weight for each element of each output.
    fn weights_at(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>, GradientCheckError> {
        let found = self.session.step(&self.ys, self.feeds(inputs))?;
        let weight = |i: usize| Ok(mixed(found.tensor(i)?.dims(), 40 + i as u64));
        (0..self.ys.len()).map(weight).collect()
    }

    /// The weighted sum of all outputs.
    fn value(&self, inputs: &[Tensor], weights: &[Tensor]) -> Result<f64, GradientCheckError> {
        let found = self.session.step(&self.ys, self.feeds(inputs))?;
        let mut sum = 0.0;
        for (i, weight) in weights.iter().enumerate() {
            let values = found.slice::<f64>(i)?.iter();
            let products = values.zip(weight.as_slice::<f64>()?).map(|(y, w)| y * w);
            sum += products.sum::<f64>();
        }
        Ok(sum)
    }

    fn gradient(
        &self,
        grad: Output<'_>,
        inputs: &[Tensor],
        weights: &[Tensor],
    ) -> Result<Tensor, GradientCheckError> {
        let mut feeds = self.feeds(inputs);
        feeds.extend(self.weights.iter().zip(weights).map(|(w, t)| w.feed(t)));
        Ok(self.session.step(grad, feeds)?.tensor(0)?.clone())
    }
}

/// The error of a gradient that is wrong, or of a computation that does not run.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum GradientCheckError {
    /// A gradient whose element differs from the finite difference.
    #[error(
        "input {input}, element {element}: the gradient is {found}, the finite difference {expected}"
    )]
    Differs {
        /// The number of the input.
        input: usize,
        /// The number of its element.
        element: usize,
        /// The gradient.
        found: f64,
        /// The finite difference.
        expected: f64,
    },
    /// A gradient of another shape than its input.
    #[error("input {input}: the gradient has shape {found}, the input {expected}")]
    Shape {
        /// The number of the input.
        input: usize,
        /// The gradient's shape.
        found: Shape,
        /// The input's shape.
        expected: Shape,
    },
    /// A graph that is invalid or does not run.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// An input or output of another dtype than `f64`.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

#[cfg(test)]
mod tests {
    use super::*;

    use smallvec::smallvec;
    use thalweg_device::{Kernel, Op, Prepared, cpu};
    use thalweg_graph::op::{Gradient, InputGradients, arg, type_attr};
    use thalweg_graph::{GradCx, OpDef};
    use thalweg_ops::{MathOps, NnOps, OpSet, ReduceOps};

    #[test]
    fn right_gradients_pass() {
        let check = GradientCheck::new([mixed(&[2, 3], 1), mixed(&[3], 2)]);
        for check in [
            check.clone(),
            check.clone().unknown_shapes(),
            check.single(),
        ] {
            let worst = check.run(|_, x| vec![(x[0] * x[1]).tanh(), x[1].square()]);
            assert!(worst.unwrap() < 1e-2);
        }
    }

    const BASE: OpDef = OpDef {
        inputs: &[arg("x", "T")],
        outputs: &[arg("y", "T")],
        attrs: &[type_attr("T", &[DType::F64])],
        shape: |cx| {
            cx.set(0, cx.shape(0).clone());
            Ok(())
        },
        ..OpDef::EMPTY
    };

    /// The cube of each element, with a gradient that a test chooses.
    const fn cube(name: &'static str, gradient: Gradient) -> Op {
        Op {
            def: OpDef {
                name,
                gradient,
                ..BASE
            },
            kernels: KERNELS,
        }
    }

    const KERNELS: &[Kernel] = &[cpu(|p| {
        Ok(Prepared::new(p.outputs[0].elements(), |cx| {
            let (x, y) = (cx.input::<f64>(0)?, cx.output::<f64>(0)?);
            y.iter_mut().zip(x).for_each(|(y, x)| *y = x * x * x);
            Ok(())
        }))
    })];

    fn squared<'g>(cx: &GradCx<'_, 'g>) -> InputGradients<'g> {
        smallvec![Some(cx.grad() * cx.input(0))]
    }

    fn summed<'g>(cx: &GradCx<'_, 'g>) -> InputGradients<'g> {
        smallvec![Some(cx.grad().sum())]
    }

    static WRONG: Op = cube("CubeWrong", Gradient::Rule(squared));
    static NONE: Op = cube("CubeNone", Gradient::None);
    static MISSING: Op = cube("CubeMissing", Gradient::Missing);
    static SUMMED: Op = cube("CubeSummed", Gradient::Rule(summed));

    fn checked(op: &'static Op) -> GradientCheckError {
        let ops = OpSet::new([op]).unwrap();
        let options = SessionOptions::new().ops(&ops);
        let check = GradientCheck::new([mixed(&[3], 1)]).session(options);
        let found = check.run(|g, x| vec![g.op(op.def.name).input(x[0]).output()]);
        found.unwrap_err()
    }

    #[test]
    fn a_wrong_gradient_is_named_with_its_element() {
        let GradientCheckError::Differs {
            input: 0,
            element: 0,
            found,
            expected,
        } = checked(&WRONG)
        else {
            panic!("{}", checked(&WRONG))
        };
        assert!((found - expected).abs() > 1e-3);
        assert!(matches!(
            checked(&NONE),
            GradientCheckError::Differs { found: 0.0, .. }
        ));
        assert!(matches!(
            checked(&SUMMED),
            GradientCheckError::Shape { input: 0, .. }
        ));
    }

    #[test]
    fn a_missing_gradient_and_other_dtypes_are_errors() {
        let text = checked(&MISSING).to_string();
        assert!(
            text.contains("CubeMissing") && text.contains("gradient"),
            "{text}"
        );
        let check = GradientCheck::new([Tensor::vector(&[1.0f32])]);
        assert!(check.run(|_, x| vec![x[0].relu()]).is_err());
    }
}
