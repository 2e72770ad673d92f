//! Op `Where`: the indices of the elements that are not 0.

use thalweg_device::{KernelError, Op, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg, arg_of, type_attr_or};
use thalweg_tensor::{DType, Shape, dispatch};

use crate::support::tensors::AccountedVec;

/// Indices of the elements that are not 0.
pub(crate) static WHERE: Op = Op {
    def: OpDef {
        name: "Where",
        summary: "The indices of all elements that are true, or not 0, in order: a row for each.",
        inputs: &[arg("input", "T")],
        outputs: &[arg_of("index", DType::I64)],
        attrs: &[type_attr_or("T", DType::COMPUTED, DType::Bool)],
        shape: |cx| {
            cx.set(0, Shape::partial([None, cx.shape(0).rank()]));
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(|cx| {
        let tensor = cx.tensor(0)?;
        let mut set = AccountedVec::filled(tensor.len(), false, cx.memory())?;
        dispatch!(tensor.dtype(), COMPUTED, T => {
            let elements = set.iter_mut().zip(tensor.as_slice::<T>()?);
            elements.for_each(|(set, &x)| *set = x != T::default());
        }, else return Err(KernelError::DType(tensor.dtype())));
        let dims = tensor.dims();
        let count = set.iter().filter(|&&s| s).count();
        let mut rows = cx.zeros(DType::I64, &[count, dims.len()])?;
        let found = set.iter().enumerate().filter(|(_, s)| **s);
        if !dims.is_empty() {
            for ((mut i, _), row) in
                found.zip(rows.as_mut_slice::<i64>()?.chunks_exact_mut(dims.len()))
            {
                for (index, &d) in row.iter_mut().zip(dims).rev() {
                    *index = (i % d) as i64;
                    i /= d;
                }
            }
        }
        Ok(vec![rows])
    })],
};
