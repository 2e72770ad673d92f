//! Kernels on strings of ops that only copy or compare elements: each distinct string is replaced by a number, the
//! empty one by 0.

use std::collections::HashMap;

use thalweg_device::{Argument, KernelError, Op, TensorCx, evaluate_for};
use thalweg_graph::Attr;
use thalweg_tensor::{DType, Tensor};

/// The kernel of op `$op` for dtype attributes `$attrs` of strings. The op must only copy elements or compare them for
/// equality: its kernel of integers runs on numbers that are equal for equal strings. Where that leaves zeros, strings
/// are empty.
macro_rules! string_kernel {
    ($op:ident, $attrs:expr) => {
        thalweg_device::cpu_tensors(|cx| $crate::support::string_kernel::run(cx, &$op)).only($attrs)
    };
}

pub(crate) use string_kernel;

/// Runs `op`'s kernel of integers on numbers in place of strings.
pub(crate) fn run(cx: &TensorCx<'_>, op: &Op) -> Result<Vec<Tensor>, KernelError> {
    let mut strings: Vec<&[u8]> = vec![b""];
    let mut known: HashMap<&[u8], i64> = HashMap::from([(strings[0], 0)]);
    let mut inputs = Vec::with_capacity(cx.inputs());
    for i in 0..cx.inputs() {
        let tensor = cx.tensor(i)?;
        inputs.push(match tensor.dtype() {
            DType::String => {
                let mut numbers = Vec::with_capacity(tensor.len());
                for s in cx.strings(i)? {
                    let next = strings.len() as i64;
                    let number = *known.entry(&**s).or_insert(next);
                    if number == next {
                        strings.push(s);
                    }
                    numbers.push(number);
                }
                cx.tensor_of(tensor.dims(), &numbers)?
            }
            _ => tensor.clone(),
        });
    }
    let mut node = cx.node().clone();
    for attr in node.op.attrs {
        if node.attrs.dtype(attr.name) == Some(DType::String) {
            node.attrs.set(attr.name, Attr::Type(DType::I64));
        }
    }
    let arguments: Vec<Argument<'_>> = inputs.iter().map(Argument::Value).collect();
    let moved = evaluate_for(cx, op, &node, &arguments)?;
    let back = |(i, tensor): (usize, Tensor)| {
        if cx
            .node()
            .outputs
            .get(i)
            .is_none_or(|o| o.dtype != DType::String)
        {
            return Ok(tensor);
        }
        let mut all = cx.string_tensor(tensor.dims())?;
        for &number in tensor.as_slice::<i64>()? {
            let found = usize::try_from(number).ok().and_then(|n| strings.get(n));
            all.push(found.ok_or(KernelError::Argument("the number of a string"))?)?;
        }
        Ok(all.finish()?)
    };
    moved.into_iter().enumerate().map(back).collect()
}
