//! Kernels on elements that are no numbers, of ops that only copy or compare elements: each distinct string, and each
//! handle, is replaced by a number.

use thalweg_device::{Argument, KernelError, Op, TensorCx, evaluate_for};
use thalweg_graph::Attr;
use thalweg_tensor::{DType, Tensor};

use super::accounted_map::AccountedMap;
use super::tensors::{AccountedVec, unwritten};

/// The dtypes whose elements are no numbers.
pub(crate) const OPAQUE: &[DType] = &[DType::String, DType::Resource, DType::Variant];

/// The kernel of op `$op` for elements that are no numbers; `$attr` is the attribute with their dtype. The op must only copy elements
/// or compare them for equality: its kernel of integers runs on numbers that are equal for equal strings. Where that
/// leaves zeros, strings are empty, and handles an error.
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

/// The elements that numbers stand for.
struct Known<'a> {
    /// 0 is the empty string.
    strings: AccountedVec<&'a [u8]>,
    numbers: AccountedMap<&'a [u8], i64>,
    /// Tensors of handles, and for each handle its tensor and its place there; 0 is none.
    tensors: Vec<Tensor>,
    handles: AccountedVec<(usize, usize)>,
}

impl<'a> Known<'a> {
    /// The numbers of a tensor's elements; a tensor of numbers as it is.
    fn numbered(&mut self, cx: &TensorCx<'a>, i: usize) -> Result<Tensor, KernelError> {
        let tensor = cx.value(i)?;
        let numbers = match tensor.dtype() {
            DType::String => {
                let mut numbers = AccountedVec::filled(tensor.len(), 0i64, cx.memory())?;
                for (number, s) in numbers.iter_mut().zip(cx.strings(i)?) {
                    let next = self.strings.len();
                    *number = self.numbers.or_insert(s, next as i64, 0)?;
                    if *number == next as i64 {
                        self.strings.grow(next + 1, s)?;
                    }
                }
                numbers
            }
            DType::Resource | DType::Variant => {
                let first = self.handles.len();
                let mut numbers = AccountedVec::filled(tensor.len(), 0i64, cx.memory())?;
                self.handles
                    .grow(first + tensor.len(), (self.tensors.len(), 0))?;
                for (at, number) in numbers.iter_mut().enumerate() {
                    *number = (first + at) as i64;
                    self.handles[first + at].1 = at;
                }
                self.tensors.push(tensor.clone());
                numbers
            }
            _ => return Ok(tensor),
        };
        cx.tensor_of(tensor.dims(), &numbers)
    }

    /// The elements of `dtype` that stand behind numbers.
    fn elements(
        &self,
        cx: &TensorCx<'_>,
        dtype: DType,
        numbers: &Tensor,
        gaps: Gaps,
    ) -> Result<Tensor, KernelError> {
        let dims = numbers.dims();
        let places = numbers.as_slice::<i64>()?.iter();
        let places = places.map(|&n| usize::try_from(n).unwrap_or(usize::MAX));
        if dtype == DType::String {
            let mut all = cx.string_tensor(dims)?;
            for place in places {
                let found = self.strings.get(place);
                all.push(found.ok_or(KernelError::Argument("the number of a string"))?)?;
            }
            return Ok(all.finish()?);
        }
        if gaps == Gaps::Refused && places.clone().any(|place| place == 0) {
            return Err(KernelError::Invalid(format!(
                "an element of the result is no element of an input, and there is no {dtype} for it"
            )));
        }
        let nothing = unwritten(cx.memory(), dtype, &[])?;
        let element = |place: usize| {
            if place == 0 {
                return nothing.handle_at(0);
            }
            let &(tensor, at) = self.handles.get(place)?;
            self.tensors.get(tensor)?.handle_at(at)
        };
        let handles = places.filter_map(element);
        Ok(Tensor::handles(dtype, dims, handles, Some(cx.memory()))?)
    }
}

/// Runs `op`'s kernel of integers on numbers in place of other elements.
pub(crate) fn run(cx: &TensorCx<'_>, op: &Op) -> Result<Vec<Tensor>, KernelError> {
    run_with(cx, op, Gaps::Refused)
}

/// As [`run`], with these gaps.
pub(crate) fn run_with(cx: &TensorCx<'_>, op: &Op, gaps: Gaps) -> Result<Vec<Tensor>, KernelError> {
    let mut known = Known {
        strings: AccountedVec::filled(1, &b""[..], cx.memory())?,
        numbers: AccountedMap::new(cx.memory()),
        tensors: Vec::new(),
        handles: AccountedVec::filled(1, (usize::MAX, 0), cx.memory())?,
    };
    known.numbers.or_insert(b"", 0, 0)?;
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
            Some(dtype) => known.elements(cx, dtype, &tensor, gaps),
            None => Ok(tensor),
        }
    };
    moved.into_iter().enumerate().map(back).collect()
}
