//! The epilogue of a fused product or convolution, as its attribute `fused_ops` says it: the one vocabulary of the rule
//! that makes such nodes and of their kernels.

use thalweg_cpu::{Activation, Epilogue};
use thalweg_device::{KernelCx, KernelError};
use thalweg_graph::op::{AttrDef, list_attr};
use thalweg_graph::{Attr, AttrKind, Attrs};
use thalweg_tensor::Element;

/// The ops that follow, in their order: as TensorFlow's nodes of this name say it.
pub(crate) const FUSED_OPS: AttrDef = list_attr("fused_ops", AttrKind::Str);

/// The op that adds the bias.
const BIAS: &str = "BiasAdd";

/// The ops that may follow the bias, and what they apply.
const ACTIVATIONS: &[(&str, Activation)] = &[("Relu", Activation::Relu)];

/// The ops that follow a product or a convolution in the same node: a bias, which is input 2, and an activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FusedOps {
    bias: bool,
    activation: Activation,
}

impl FusedOps {
    /// Nothing follows.
    pub(crate) const NONE: FusedOps = FusedOps {
        bias: false,
        activation: Activation::None,
    };

    /// A bias alone.
    pub(crate) const BIAS: FusedOps = FusedOps {
        bias: true,
        activation: Activation::None,
    };

    /// A bias, and then the activation that the op of this name is; none where it is not one.
    pub(crate) fn bias_then(op: &str) -> Option<FusedOps> {
        let &(_, activation) = ACTIVATIONS.iter().find(|(name, _)| *name == op)?;
        Some(FusedOps {
            activation,
            ..FusedOps::BIAS
        })
    }

    /// The names of the ops that may follow a bias.
    pub(crate) fn activations() -> impl Iterator<Item = &'static str> {
        ACTIVATIONS.iter().map(|&(name, _)| name)
    }

    /// What the attribute says.
    ///
    /// # Errors
    /// [`KernelError::Invalid`] where no kernel computes it.
    pub(crate) fn parse(attrs: &Attrs) -> Result<FusedOps, KernelError> {
        let names = match attrs.get(FUSED_OPS.name) {
            Some(Attr::Strs(names)) => names.as_slice(),
            _ => &[],
        };
        let found = match names {
            [bias] if bias == BIAS.as_bytes() => Some(FusedOps::BIAS),
            [bias, then] if bias == BIAS.as_bytes() => {
                std::str::from_utf8(then).ok().and_then(FusedOps::bias_then)
            }
            _ => None,
        };
        found.ok_or_else(|| {
            let names: Vec<_> = names.iter().map(|n| String::from_utf8_lossy(n)).collect();
            let known: Vec<_> = FusedOps::activations().collect();
            KernelError::Invalid(format!(
                "fused_ops is [{}]: it must be [{BIAS}], or {BIAS} and one of [{}]",
                names.join(", "),
                known.join(", ")
            ))
        })
    }

    /// The attribute that says it.
    pub(crate) fn attr(self) -> Attr {
        let bias = self.bias.then_some(BIAS);
        let then = ACTIVATIONS.iter().find(|(_, a)| *a == self.activation);
        let names = bias.into_iter().chain(then.map(|&(name, _)| name));
        Attr::Strs(names.map(|name| name.as_bytes().to_vec()).collect())
    }

    /// What the kernel does to its sums, with the bias that it is given.
    ///
    /// # Errors
    /// As [`KernelCx::input`].
    pub(crate) fn epilogue<'a, T: Element>(
        self,
        cx: &KernelCx<'a>,
    ) -> Result<Epilogue<'a, T>, KernelError> {
        Ok(Epilogue {
            bias: self.bias.then(|| cx.input::<T>(2)).transpose()?,
            activation: self.activation,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(attr: Attr) -> Result<FusedOps, KernelError> {
        let mut attrs = Attrs::default();
        attrs.set(FUSED_OPS.name, attr);
        FusedOps::parse(&attrs)
    }

    #[test]
    fn every_activation_has_a_name_that_is_parsed_back() {
        for &activation in Activation::ALL {
            let ops = FusedOps {
                bias: true,
                activation,
            };
            let attr = ops.attr();
            let Attr::Strs(names) = &attr else {
                panic!("{attr:?}");
            };
            let named = usize::from(activation != Activation::None);
            assert_eq!(names.len(), 1 + named, "{activation:?}");
            assert_eq!(parsed(attr).unwrap(), ops);
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
        let lists: [&[&str]; 5] = [
            &[],
            &["Relu"],
            &["BiasAdd", "BiasAdd"],
            &["BiasAdd", "Tanh"],
            &["BiasAdd", "Relu", "Relu"],
        ];
        for list in lists {
            let names = list.iter().map(|n| n.as_bytes().to_vec()).collect();
            let error = parsed(Attr::Strs(names)).unwrap_err().to_string();
            assert!(error.contains(&format!("[{}]", list.join(", "))), "{error}");
        }
    }
}
