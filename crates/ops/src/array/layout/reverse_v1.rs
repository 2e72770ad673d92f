//! Reverse: TensorFlow's first version, replaced by ReverseV2.

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg, arg_of, type_attr};
use thalweg_tensor::shape::elements;
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Tensor, dispatch};

use crate::support::shapes;

/// Source position of each element when the axes in `flip` are reversed.
fn reversed_positions(dims: &[usize], flip: &[bool]) -> Vec<usize> {
    let place = |mut at: usize| {
        let (mut from, mut stride) = (0, 1);
        for (&len, &flip) in dims.iter().zip(flip).rev() {
            let i = at % len;
            from += stride * if flip { len - 1 - i } else { i };
            (at, stride) = (at / len, stride * len);
        }
        from
    };
    (0..elements(dims)).map(place).collect()
}

/// The elements of a tensor at these positions.
fn take_elements(
    cx: &TensorCx<'_>,
    from: &Tensor,
    places: &[usize],
) -> Result<Tensor, KernelError> {
    if from.dtype() == DType::String {
        let all = from.as_strings()?;
        let take_elements: Option<Vec<&[u8]>> = places.iter().map(|&i| all.get(i)).collect();
        let take_elements = take_elements.ok_or(KernelError::Argument("an element"))?;
        return cx.strings_of(from.dims(), &take_elements);
    }
    dispatch!(from.dtype(), PLAIN, T => {
        let all = from.as_slice::<T>()?;
        let take_elements: Option<Vec<T>> = places.iter().map(|&i| all.get(i).copied()).collect();
        cx.tensor_of(from.dims(), &take_elements.ok_or(KernelError::Argument("an element"))?)
    }, else Err(KernelError::DType(from.dtype())))
}

/// Reverses the axes whose flag is set.
pub(crate) static REVERSE: Op = Op {
    def: OpDef {
        name: "Reverse",
        summary: "The tensor with the elements along some axes in the opposite order.",
        inputs: &[arg("tensor", "T"), arg_of("dims", DType::Bool)],
        outputs: &[arg("output", "T")],
        attrs: &[type_attr("T", &DType::ALL)],
        shape: shapes::unchanged,
        gradient: Gradient::Missing,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let (tensor, flip) = (cx.tensor(0)?, cx.slice::<bool>(1)?);
        if flip.len() != tensor.dims().len() {
            return Err(KernelError::Invalid(format!(
                "{} for {}: give one for each",
                counted(flip.len(), "flag"),
                counted(tensor.dims().len(), "dimension")
            )));
        }
        Ok(vec![take_elements(
            cx,
            tensor,
            &reversed_positions(tensor.dims(), flip),
        )?])
    })],
};
