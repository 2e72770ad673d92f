//! The epilogue of a fused product or convolution, encoded in its attribute `fused_ops`. Both the fusion rule and the
//! kernels use this encoding.

use thalweg_cpu::number::Number;
use thalweg_cpu::{Activation, Epilogue, Residual};
use thalweg_device::{KernelCx, KernelError};
use thalweg_graph::op::{Arg, AttrDef, arg, count_attr, float_attr, list_attr};
use thalweg_graph::{Attr, AttrKind, Attrs};
use thalweg_tensor::{DType, Element};

/// Dtypes of nodes with an epilogue.
pub const DTYPES: &[DType] = &[DType::F32, DType::F64];

/// Attribute with the ops of the epilogue, in order, as in TensorFlow's fused nodes.
pub const FUSED_OPS: AttrDef = list_attr("fused_ops", AttrKind::Str);

/// Inputs of the epilogue: a bias, the inputs of a batch normalization except for its images, and a residual.
pub(crate) const ARGS: Arg = arg("args", "T").list(NUM_ARGS.name);

/// Number of [`ARGS`].
pub(crate) const NUM_ARGS: AttrDef = count_attr("num_args");

/// Attribute with the epsilon of a batch normalization.
pub(crate) const EPSILON: AttrDef = float_attr("epsilon", 1e-4);

/// Op that adds the bias.
const BIAS: &str = "BiasAdd";

/// Op that normalizes by a given mean and variance.
const BATCH_NORM: &str = "FusedBatchNorm";

/// Input number of the first of [`ARGS`].
const FIRST: usize = 2;

/// Op that adds a tensor of the output's dimensions: a residual.
const SUM: &str = "Add";

/// Ops that may follow, with their functions.
const ACTIVATIONS: &[(&str, Activation)] = &[
    ("Relu", Activation::Relu),
    ("Relu6", Activation::Relu6),
    ("Elu", Activation::Elu),
    ("Sigmoid", Activation::Sigmoid),
    ("Tanh", Activation::Tanh),
];

/// `x sigmoid(x)`, which is two nodes of a graph; TensorFlow's name in fused nodes.
pub const SWISH: &str = "_FusedSwish";
/// `x (Relu6(x + 3) / 6)`, which is four nodes; TensorFlow's name in fused nodes.
pub const HARD_SWISH: &str = "_FusedHardSwish";

/// Functions of several nodes.
const GATED: &[(&str, Activation)] = &[
    (SWISH, Activation::Swish),
    (HARD_SWISH, Activation::HardSwish),
];

/// Epilogue of a product or a convolution in the same node: a bias, a batch normalization or both, a residual, whose
/// tensors are the inputs from 2 on, and an activation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FusedOps {
    bias: bool,
    /// The epsilon of a batch normalization.
    batch_norm: Option<f32>,
    /// A tensor is added, which is the last input.
    residual: bool,
    activation: Activation,
}

impl FusedOps {
    /// No epilogue.
    pub const NONE: FusedOps = FusedOps {
        bias: false,
        batch_norm: None,
        residual: false,
        activation: Activation::None,
    };

    /// A bias alone.
    pub const BIAS: FusedOps = FusedOps {
        bias: true,
        ..FusedOps::NONE
    };

    /// This, and then a batch normalization with this epsilon, and a given mean and variance.
    pub const fn batch_norm(self, epsilon: f32) -> FusedOps {
        FusedOps {
            batch_norm: Some(epsilon),
            ..self
        }
    }

    /// This, and then the sum with a tensor of the output's dimensions; `None` where an activation or a sum came before.
    pub fn residual(self) -> Option<FusedOps> {
        let residual = true;
        (!self.residual && self.activation == Activation::None)
            .then_some(FusedOps { residual, ..self })
    }

    /// This, and then the activation with this name; `None` if there is none of the name, or one came before.
    pub fn then(self, name: &str) -> Option<FusedOps> {
        let mut known = ACTIVATIONS.iter().chain(GATED);
        let &(_, activation) = known.find(|(of, _)| *of == name)?;
        (self.activation == Activation::None).then_some(FusedOps { activation, ..self })
    }

    /// Refuses a residual behind `what`.
    ///
    /// # Errors
    /// [`KernelError::Invalid`] if there is one.
    pub(crate) fn without_residual(self, what: &str) -> Result<(), KernelError> {
        match self.residual {
            true => Err(KernelError::Invalid(format!(
                "a residual cannot follow {what} in one node"
            ))),
            false => Ok(()),
        }
    }

    /// Names of the activations that are ops of their own.
    pub fn activations() -> impl Iterator<Item = &'static str> {
        ACTIVATIONS.iter().map(|&(name, _)| name)
    }

    /// Parses the attributes.
    ///
    /// # Errors
    /// [`KernelError::Invalid`] if no kernel supports it.
    pub fn parse(attrs: &Attrs) -> Result<FusedOps, KernelError> {
        let names = match attrs.get(FUSED_OPS.name) {
            Some(Attr::Strs(names)) => names.as_slice(),
            _ => &[],
        };
        let add = |ops: FusedOps, name: &[u8]| match std::str::from_utf8(name).ok()? {
            BIAS if ops == FusedOps::NONE => Some(FusedOps::BIAS),
            BATCH_NORM if ops == FusedOps::NONE || ops == FusedOps::BIAS => {
                Some(ops.batch_norm(attrs.float(EPSILON.name)))
            }
            _ if ops == FusedOps::NONE => None,
            SUM => ops.residual(),
            name => ops.then(name),
        };
        let found = names
            .iter()
            .try_fold(FusedOps::NONE, |ops, name| add(ops, name));
        found.filter(|ops| *ops != FusedOps::NONE).ok_or_else(|| {
            let names: Vec<_> = names.iter().map(|n| String::from_utf8_lossy(n)).collect();
            let gated = GATED.iter().map(|&(name, _)| name);
            let known: Vec<_> = FusedOps::activations().chain(gated).collect();
            KernelError::Invalid(format!(
                "fused_ops is [{}]: it must be {BIAS}, {BATCH_NORM} or both, and may go on with {SUM}, and with one of [{}]",
                names.join(", "),
                known.join(", ")
            ))
        })
    }

    /// Writes the attributes.
    pub fn write(self, attrs: &mut Attrs) {
        if let Some(epsilon) = self.batch_norm {
            attrs.set(EPSILON.name, epsilon.into());
        }
        let bias = self.bias.then_some(BIAS);
        let norm = self.batch_norm.map(|_| BATCH_NORM);
        let sum = self.residual.then_some(SUM);
        let mut activations = ACTIVATIONS.iter().chain(GATED);
        let then = activations.find(|(_, a)| *a == self.activation);
        let then = then.map(|&(name, _)| name);
        let names = [bias, norm, sum, then].into_iter().flatten();
        let names = names.map(|name| name.as_bytes().to_vec()).collect();
        attrs.set(FUSED_OPS.name, Attr::Strs(names));
        let args = self.residual_input() - FIRST + usize::from(self.residual);
        attrs.set(NUM_ARGS.name, Attr::Int(args as i64));
    }

    /// Number of the residual's input, behind those of the bias and the batch normalization.
    fn residual_input(self) -> usize {
        FIRST + usize::from(self.bias) + 4 * usize::from(self.batch_norm.is_some())
    }

    /// Length of the scratch slice of [`FusedOps::epilogue`], for this many channels.
    pub fn room(self, channels: usize) -> usize {
        match self.batch_norm {
            Some(_) => 2 * channels,
            None => 0,
        }
    }

    /// The function that a kernel applies to its sums. `room` is scratch memory with the length of
    /// [`FusedOps::room`], `output` the node's output.
    ///
    /// # Errors
    /// As [`KernelCx::input`].
    pub fn epilogue<'a, T: Element + Number>(
        self,
        cx: &KernelCx<'a>,
        room: &'a mut [T],
        output: &[T],
    ) -> Result<Epilogue<'a, T>, KernelError> {
        let bias = match self.bias {
            true => Some(cx.input::<T>(FIRST)?),
            false => None,
        };
        let residual = match self.residual {
            true => {
                let values = cx.input::<T>(self.residual_input())?;
                Some(Residual::new(values, output))
            }
            false => None,
        };
        let Some(epsilon) = self.batch_norm else {
            return Ok(Epilogue {
                scale: None,
                bias,
                residual,
                activation: self.activation,
            });
        };
        let first = FIRST + usize::from(self.bias);
        let (scale, offset) = (cx.input::<T>(first)?, cx.input::<T>(first + 1)?);
        let (mean, variance) = (cx.input::<T>(first + 2)?, cx.input::<T>(first + 3)?);
        let (rates, shifts) = room.split_at_mut(room.len() / 2);
        for c in 0..rates.len() {
            let deviation = (variance[c].to_f64() + f64::from(epsilon)).sqrt();
            let rate = scale[c].to_f64() / deviation;
            let bias = bias.map_or(0.0, |bias| bias[c].to_f64());
            rates[c] = T::from_f64(rate);
            shifts[c] = T::from_f64(offset[c].to_f64() + (bias - mean[c].to_f64()) * rate);
        }
        Ok(Epilogue {
            scale: Some(rates),
            bias: Some(shifts),
            residual,
            activation: self.activation,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(list: &[&str]) -> Result<FusedOps, KernelError> {
        let names = list.iter().map(|n| n.as_bytes().to_vec()).collect();
        let mut attrs = Attrs::default();
        attrs.set(FUSED_OPS.name, Attr::Strs(names));
        FusedOps::parse(&attrs)
    }

    #[test]
    fn every_activation_has_a_name_that_is_parsed_back() {
        let firsts = [
            (FusedOps::BIAS, 1, 1),
            (FusedOps::NONE.batch_norm(0.25), 1, 4),
            (FusedOps::BIAS.batch_norm(0.25), 2, 5),
            (FusedOps::BIAS.residual().unwrap(), 2, 2),
            (FusedOps::BIAS.batch_norm(0.25).residual().unwrap(), 3, 6),
        ];
        for ((first, before, args), &activation) in firsts
            .into_iter()
            .flat_map(|first| Activation::ALL.iter().map(move |a| (first, a)))
        {
            let ops = FusedOps {
                activation,
                ..first
            };
            let mut attrs = Attrs::default();
            ops.write(&mut attrs);
            let Some(Attr::Strs(names)) = attrs.get(FUSED_OPS.name) else {
                panic!("{attrs:?}");
            };
            let named = usize::from(activation != Activation::None);
            assert_eq!(names.len(), before + named, "{activation:?}");
            assert_eq!(attrs.int(NUM_ARGS.name), args);
            assert_eq!(FusedOps::parse(&attrs).unwrap(), ops);
        }
    }

    #[test]
    fn an_activation_is_an_op_of_its_own() {
        for name in FusedOps::activations() {
            assert!(crate::kernels().contains_key(name), "{name}");
        }
    }

    #[test]
    fn other_lists_are_refused_with_what_is_known() {
        let lists: [&[&str]; 10] = [
            &[],
            &["Relu"],
            &["BiasAdd", "BiasAdd"],
            &["FusedBatchNorm", "BiasAdd"],
            &["FusedBatchNorm", "FusedBatchNorm"],
            &["BiasAdd", "Softplus"],
            &["BiasAdd", "Relu", "Relu"],
            &["Add", "Relu"],
            &["BiasAdd", "Relu", "Add"],
            &["BiasAdd", "Add", "Add"],
        ];
        for list in lists {
            let error = parsed(list).unwrap_err().to_string();
            assert!(error.contains(&format!("[{}]", list.join(", "))), "{error}");
        }
    }
}
