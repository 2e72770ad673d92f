//! MaxPoolWithArgmax, MaxPoolGradWithArgmax.

use smallvec::smallvec;
use thalweg_cpu::parallel::for_chunks;
use thalweg_device::{KernelError, Op, Prepare, Prepared, cpu, gpu};
use thalweg_graph::op::{AttrDef, Gradient, arg, attr, bool_attr, type_attr, type_attr_or};
use thalweg_graph::{AttrKind, OpDef};
use thalweg_tensor::{DType, Element, dispatch};

use super::pool::{
    SAME_OR_VALID, expect_pooled, expect_spatial, geometry, output_shape, pool_kernel,
    refined_shape,
};
use crate::support::cpu::slice_cpu;
use crate::support::widened::{widened, widened_ints};
use thalweg_cpu::number::{Arithmetic, Number};
use thalweg_cpu::pooling::{PoolGeometry, max_pool_argmax};

const INDICES: &[DType] = &[DType::I32, DType::I64];

const ATTRS: &[AttrDef] = &[
    attr("ksize", AttrKind::Ints),
    attr("strides", AttrKind::Ints),
    type_attr_or("Targmax", INDICES, DType::I64),
    SAME_OR_VALID,
    bool_attr("include_batch_in_index", false),
    type_attr("T", DType::NUMBERS),
];

const GRAD_ATTRS: &[AttrDef] = &[
    ATTRS[0],
    ATTRS[1],
    ATTRS[3],
    ATTRS[4],
    type_attr("Targmax", INDICES),
    ATTRS[5],
];

/// Maximum of each window, and its index.
pub(crate) static MAX_POOL_WITH_ARGMAX: Op = Op {
    def: OpDef {
        name: "MaxPoolWithArgmax",
        summary: "The maximum of each window, channel by channel, and its index in its image, or among all images.",
        inputs: &[arg("input", "T")],
        outputs: &[arg("output", "T"), arg("argmax", "Targmax")],
        attrs: ATTRS,
        shape: |cx| {
            expect_spatial(cx)?;
            let out = output_shape(cx, 0, &cx.ranked(0, 4)?)?;
            cx.set(0, out.clone());
            cx.set(1, out);
            Ok(())
        },
        gradient: Gradient::Rule(|g| {
            let Some(dy) = g.dy(0) else {
                return smallvec![];
            };
            let node = g.graph().op("MaxPoolGradWithArgmax").input(g.input(0));
            let copied = ["ksize", "strides", "padding", "include_batch_in_index"];
            let node = copied
                .iter()
                .fold(node, |node, name| match g.attrs().get(name) {
                    Some(value) => node.attr(name, value.clone()),
                    None => node,
                });
            smallvec![Some(node.input(dy).input(g.output(1)).output())]
        }),
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| match p.outputs.get(1).map(|o| o.dtype) {
            Some(DType::I32) => forward::<i32>(p),
            Some(DType::I64) => forward::<i64>(p),
            _ => Err(KernelError::Argument("places")),
        }),
        gpu(|p| {
            let g = geometry(p, p.dims(0))?;
            Ok(crate::gpu::pool_argmax(p, &g, image(p, &g)))
        }),
    ],
};

/// Adds the gradient of each window at its index.
pub(crate) static MAX_POOL_GRAD_WITH_ARGMAX: Op = Op {
    def: OpDef {
        name: "MaxPoolGradWithArgmax",
        summary: "The gradient of MaxPoolWithArgmax: that of each window goes to its index.",
        inputs: &[
            arg("input", "T"),
            arg("grad", "T"),
            arg("argmax", "Targmax"),
        ],
        outputs: &[arg("output", "T")],
        attrs: GRAD_ATTRS,
        shape: |cx| {
            expect_spatial(cx)?;
            let image = cx.ranked(0, 4)?;
            let pooled = output_shape(cx, 0, &image)?;
            let pooled = expect_pooled(cx, 1, &pooled)?;
            let pooled = expect_pooled(cx, 2, &pooled)?;
            cx.set(0, refined_shape(cx, image, &pooled)?);
            Ok(())
        },
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| match p.dtype(2) {
            DType::I32 => backward::<i32>(p, i64::from),
            DType::I64 => backward::<i64>(p, |i| i),
            other => Err(KernelError::DType(other)),
        }),
        gpu(|p| {
            let g = geometry(p, p.dims(0))?;
            Ok(crate::gpu::pool_argmax_grad(p, &g, image(p, &g)))
        }),
    ],
};

/// Number of elements after which indices start again.
fn image(p: &Prepare<'_>, g: &PoolGeometry) -> usize {
    match p.node.attrs.bool("include_batch_in_index") {
        true => g.input_len().max(1),
        false => (g.input_len() / g.batch.max(1)).max(1),
    }
}

fn forward<I: Number>(p: &Prepare<'_>) -> Result<Prepared, KernelError> {
    let g = geometry(p, p.dims(0))?;
    let image = image(p, &g);
    widened(p, &[0], &[0], &|p| {
        dispatch!(p.dtype(0), [F32 F64 I64 U64], T => Ok(pool_kernel(g, move |cx| {
        let (x, y, places) = (cx.input::<T>(0)?, cx.output(0)?, cx.output::<I>(1)?);
        max_pool_argmax(slice_cpu(cx.cpu()), &g, x, image, y, places);
        Ok(())
    })), else Err(KernelError::DType(p.dtype(0))))
    })
}

fn backward<I: Element>(p: &Prepare<'_>, to_i64: fn(I) -> i64) -> Result<Prepared, KernelError> {
    let g = geometry(p, p.dims(0))?;
    let whole = p.node.attrs.bool("include_batch_in_index");
    let image = (g.input_len() / g.batch.max(1)).max(1);
    let windows = (g.output_len() / g.batch.max(1)).max(1);
    widened_ints(p, &[1], &[0], &|p| {
        dispatch!(p.dtype(1), [F16 BF16 F32 F64 I64 U64], T => Ok(pool_kernel(g, move |cx| {
        let (grads, places) = (cx.input::<T>(1)?, cx.input::<I>(2)?);
        // Offset in its image of a window's index, if valid.
        let place = |window: usize| {
            let first = if whole { window / windows * image } else { 0 };
            let own = usize::try_from(to_i64(places[window])).ok()?.checked_sub(first)?;
            (own < image).then_some(own)
        };
        if let Some(element) = (0..places.len()).find(|&window| place(window).is_none()) {
            return Err(KernelError::Element {
                input: 2,
                element,
                reason: format!("place {} is not in the window's image", to_i64(places[element])),
            });
        }
        for_chunks(cx.pool(), cx.output::<T>(0)?, image, &|i, out| {
            out.fill(T::ZERO);
            let own = grads.iter().enumerate().skip(i * windows).take(windows);
            for (window, &grad) in own {
                if let Some(out) = place(window).and_then(|at| out.get_mut(at)) {
                    *out = out.add(grad);
                }
            }
        });
        Ok(())
    })), else Err(KernelError::DType(p.dtype(1))))
    })
}
