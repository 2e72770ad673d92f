//! GatherNd.

use bytemuck::Pod;
use smallvec::smallvec;
use thalweg_device::gpu::Arg;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg, type_attr};
use thalweg_tensor::DType;

use super::index_nd::{INDICES, POLICY, SliceIndexer, slices, with_policy};
use crate::support::gradient_nodes::shape_of;
use crate::support::numbered_elements::numbered_kernel;
use crate::support::raw_elements::{by_size, input_as, output_as};
use crate::support::widened::with_i64_indices;

/// GatherNd.
pub(crate) static GATHER_ND: Op = Op {
    def: OpDef {
        name: "GatherNd",
        summary: "The slices of params that the vectors in the last dimension of the indices name.",
        inputs: &[arg("params", "Tparams"), arg("indices", "Tindices")],
        outputs: &[arg("output", "Tparams")],
        attrs: &[
            type_attr("Tparams", &DType::ALL),
            type_attr("Tindices", INDICES),
            POLICY,
        ],
        shape: |cx| {
            let shape = slices(cx.shape(0), cx.shape(1), 1)?;
            cx.set(0, shape);
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let indices = g.input(1);
            let node = g.graph().op("ScatterNd").input(indices).input(g.grad());
            let node = node.input(shape_of(g.input(0), indices.dtype()));
            smallvec![Some(with_policy(node, g.attrs()).output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        numbered_kernel!(GATHER_ND, "Tparams"),
        cpu(|p| with_i64_indices(p, &[1], &|p| by_size!(p.dtype(0), T => gather::<T>(p)))),
        gpu(|p| {
            let bad = crate::gpu::BadIndices::of(p);
            crate::gpu::IndexedRows::of(1, p.dims(1), p.dims(0), bad)?.gathered(p, Arg::Input(0))
        }),
    ],
};

fn gather<T: Pod + Send + Sync>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let (slices, dtype) = (
        SliceIndexer::new(p.dims(1), p.dims(0), 1, &p.node.attrs)?,
        p.dtype(0),
    );
    let count = slices.count(p.dims(1));
    Ok(Prepared::new(p.outputs[0].elements() * 2, move |cx| {
        let (params, indices) = (input_as::<T>(cx, 0)?, cx.input::<i64>(1)?);
        // SAFETY: only elements of an input of the same dtype are written to it.
        let out = unsafe { output_as::<T>(cx, 0, dtype) }?;
        let inner = slices.inner;
        if slices.ignores {
            out.fill(T::zeroed());
        }
        slices.each(indices, count, |row, at| {
            out[row * inner..][..inner].copy_from_slice(&params[at..][..inner]);
        })
    }))
}
