//! Kernels on elements that are no numbers, of ops that only copy elements: each string and each handle is replaced by a
//! number.

use thalweg_device::{Argument, KernelError, Op, TensorCx, evaluate_for};
use thalweg_graph::Attr;
use thalweg_tensor::{DType, Strings, Tensor};

use super::tensors::unwritten;

/// The dtypes whose elements are no numbers.
pub(crate) const OPAQUE: &[DType] = &[DType::String, DType::Resource, DType::Variant];

/// The kernel of op `$op` for elements that are no numbers; `$attr` is the attribute with their dtype. The op must only copy
/// elements: its kernel of integers runs on their numbers. Where that leaves zeros, strings are empty, and handles an error.
macro_rules! numbered_kernel {
    ($op:ident, $attr:literal) => {
        thalweg_device::cpu_tensors(|cx| $crate::support::numbered_elements::run(cx, &$op))
            .only(&[($attr, $crate::support::numbered_elements::OPAQUE)])
    };
}

pub(crate) use numbered_kernel;

/// The elements of places of a result that no input reaches, of resources and variants.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Gaps {
    /// There are none: such a place is an error.
    Refused,
    /// Handles that hold nothing, as zeros.
    Nothing,
}

/// The elements that numbers stand for: those of all inputs, one after the other, from 1 on. 0 is the empty string, and no
/// handle.
#[derive(Default)]
struct Known {
    /// The number of the first element of each input, and the input.
    inputs: Vec<(usize, Tensor)>,
    /// How many elements they have.
    count: usize,
}

impl Known {
    /// The numbers of a tensor's elements; a tensor of numbers as it is.
    fn numbered(&mut self, cx: &TensorCx<'_>, i: usize) -> Result<Tensor, KernelError> {
        let tensor = cx.value(i)?;
        if !OPAQUE.contains(&tensor.dtype()) {
            return Ok(tensor);
        }
        let mut numbers = cx.zeros(DType::I64, tensor.dims())?;
        let first = self.count + 1;
        for (number, known) in numbers.as_mut_slice::<i64>()?.iter_mut().zip(first..) {
            *number = known as i64;
        }
        self.count += tensor.len();
        self.inputs.push((first, tensor));
        Ok(numbers)
    }

    /// The input with an element, and its place there.
    fn find(&self, number: usize) -> Option<(&Tensor, usize)> {
        let after = self.inputs.partition_point(|(first, _)| *first <= number);
        let (first, tensor) = self.inputs.get(after.checked_sub(1)?)?;
        Some((tensor, number - first))
    }

    /// The strings that stand behind numbers.
    fn strings(&self, cx: &TensorCx<'_>, numbers: &Tensor) -> Result<Tensor, KernelError> {
        let mut all = cx.string_tensor(numbers.dims())?;
        let (mut first, mut strings) = (0, Strings::default());
        let mut stop = cx.stop_check();
        for &number in numbers.as_slice::<i64>()? {
            stop.tick()?;
            let number = usize::try_from(number).unwrap_or(usize::MAX);
            if number == 0 {
                all.end();
                continue;
            }
            let mut found = strings.get(number.wrapping_sub(first));
            if found.is_none() {
                let (tensor, at) = self.find(number).ok_or(NO_ELEMENT)?;
                (first, strings) = (number - at, tensor.as_strings()?);
                found = strings.get(at);
            }
            all.push(found.ok_or(NO_ELEMENT)?)?;
        }
        Ok(all.finish()?)
    }

    /// The handles of `dtype` that stand behind numbers.
    fn handles(
        &self,
        cx: &TensorCx<'_>,
        dtype: DType,
        numbers: &Tensor,
        gaps: Gaps,
    ) -> Result<Tensor, KernelError> {
        let (dims, numbers) = (numbers.dims(), numbers.as_slice::<i64>()?);
        if gaps == Gaps::Refused && numbers.contains(&0) {
            return Err(KernelError::Invalid(format!(
                "an element of the result is no element of an input, and there is no {dtype} for it"
            )));
        }
        let nothing = unwritten(cx.memory(), dtype, &[])?;
        let element = |&number: &i64| match usize::try_from(number).ok()? {
            0 => nothing.handle_at(0),
            number => {
                let (tensor, at) = self.find(number)?;
                tensor.handle_at(at)
            }
        };
        let handles = numbers.iter().filter_map(element);
        Ok(Tensor::handles(dtype, dims, handles, Some(cx.memory()))?)
    }
}

const NO_ELEMENT: KernelError = KernelError::Argument("the number of an element");

/// Runs `op`'s kernel of integers on numbers in place of other elements.
pub(crate) fn run(cx: &TensorCx<'_>, op: &Op) -> Result<Vec<Tensor>, KernelError> {
    run_with(cx, op, Gaps::Refused)
}

/// As [`run`], with these gaps.
pub(crate) fn run_with(cx: &TensorCx<'_>, op: &Op, gaps: Gaps) -> Result<Vec<Tensor>, KernelError> {
    let mut known = Known::default();
    let inputs = (0..cx.inputs()).map(|i| known.numbered(cx, i));
    let inputs: Vec<Tensor> = inputs.collect::<Result<_, _>>()?;
    let mut node = cx.node().clone();
    for attr in node.op.attrs {
        if node
            .attrs
            .dtype(attr.name)
            .is_some_and(|d| OPAQUE.contains(&d))
        {
            node.attrs.set(attr.name, Attr::Type(DType::I64));
        }
    }
    let arguments: Vec<Argument<'_>> = inputs.iter().map(Argument::Value).collect();
    let moved = evaluate_for(cx, op, &node, &arguments)?;
    let back = |(i, tensor): (usize, Tensor)| {
        let dtype = cx.node().outputs.get(i).map(|o| o.dtype);
        match dtype.filter(|d| OPAQUE.contains(d)) {
            Some(DType::String) => known.strings(cx, &tensor),
            Some(dtype) => known.handles(cx, dtype, &tensor, gaps),
            None => Ok(tensor),
        }
    };
    moved.into_iter().enumerate().map(back).collect()
}
