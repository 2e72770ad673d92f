//! DataFormatVecPermute, DataFormatDimMap.

use thalweg_device::{KernelError, Op, Prepared, cpu, on_host};
use thalweg_graph::op::{AttrDef, Gradient, arg, str_attr, type_attr_or};
use thalweg_graph::{Attrs, Infer, InferError, OpDef};
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, dispatch};

const ATTRS: &[AttrDef] = &[
    type_attr_or("T", &[DType::I32, DType::I64], DType::I32),
    str_attr("src_format", "NHWC", &[]),
    str_attr("dst_format", "NCHW", &[]),
];

/// For each dimension of the destination, its dimension in the source.
fn source_dims(attrs: &Attrs) -> Result<Vec<usize>, InferError> {
    let (from, to) = (attrs.str("src_format"), attrs.str("dst_format"));
    let error = |attr: &'static str, reason: String| InferError::Attr { attr, reason };
    if !(4..=5).contains(&from.len()) {
        return Err(error(
            "src_format",
            format!("is '{from}', but must have 4 or 5 letters"),
        ));
    }
    let places = to
        .bytes()
        .map(|letter| from.bytes().position(|own| own == letter));
    let places: Option<Vec<usize>> = places.collect();
    let all = |places: &Vec<usize>| (0..from.len()).all(|i| places.contains(&i));
    places
        .filter(|places| places.len() == from.len() && all(places))
        .ok_or_else(|| {
            error(
                "dst_format",
                format!("is '{to}', but must have the letters of '{from}', each once"),
            )
        })
}

/// The same for `n` values: all dimensions, or the spatial ones only.
fn source_dims_of(attrs: &Attrs, n: usize) -> Result<Vec<usize>, InferError> {
    let (from, all) = (attrs.str("src_format"), source_dims(attrs)?);
    if n == all.len() {
        return Ok(all);
    }
    if n + 2 != all.len() {
        return Err(InferError::Value {
            input: 0,
            reason: format!(
                "has {}, but must have {} or {}",
                counted(n, "value"),
                all.len(),
                all.len() - 2
            ),
        });
    }
    let spatial = |i: &usize| !matches!(from.as_bytes().get(*i), Some(b'N' | b'C'));
    let kept: Vec<usize> = (0..from.len()).filter(spatial).collect();
    let of = all
        .iter()
        .filter_map(|i| kept.iter().position(|k| k == i))
        .collect::<Vec<_>>();
    match of.len() == n {
        true => Ok(of),
        false => Err(InferError::Attr {
            attr: "src_format",
            reason: format!("is '{from}', of which {n} letters must be neither N nor C"),
        }),
    }
}

fn permuted_shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    source_dims(cx.attrs())?;
    let shape = cx.shape(0).clone();
    match shape.rank() {
        Some(1 | 2) | None => {}
        Some(_) => {
            return Err(InferError::Rank {
                input: 0,
                expected: "1 or 2".to_owned(),
                found: shape,
            });
        }
    }
    if shape.rank() == Some(2)
        && let Some(n) = shape.dim(1).filter(|&n| n != 2)
    {
        return Err(InferError::Value {
            input: 0,
            reason: format!(
                "has {} for each dimension, but must have 2",
                counted(n, "value")
            ),
        });
    }
    if let Some(n) = shape.dim(0) {
        source_dims_of(cx.attrs(), n)?;
    }
    cx.set(0, shape);
    Ok(())
}

/// Permutes values for each dimension to the order of another format.
pub(crate) static DATA_FORMAT_VEC_PERMUTE: Op = Op {
    def: OpDef {
        name: "DataFormatVecPermute",
        summary: "Values for each dimension of one data format, or pairs of them, in the order of another.",
        inputs: &[arg("x", "T")],
        outputs: &[arg("y", "T")],
        attrs: ATTRS,
        shape: permuted_shape,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let n = p.dims(0).first().copied().unwrap_or(0);
            let sources = source_dims_of(&p.node.attrs, n);
            let sources = sources.map_err(|e| KernelError::Invalid(e.to_string()))?;
            let each = p.inputs[0].elements() / n.max(1);
            dispatch!(p.dtype(0), [I32 I64], T => Ok(Prepared::new(n, move |cx| {
                let (x, y) = (cx.input::<T>(0)?, cx.output::<T>(0)?);
                for (to, &from) in y.chunks_exact_mut(each.max(1)).zip(&sources) {
                    to.copy_from_slice(&x[from * each..][..each]);
                }
                Ok(())
            })), else Err(KernelError::DType(p.dtype(0))))
        }),
        on_host(),
    ],
};

/// Maps indices of dimensions to another format.
pub(crate) static DATA_FORMAT_DIM_MAP: Op = Op {
    def: OpDef {
        name: "DataFormatDimMap",
        summary: "Indices of dimensions in one data format, negative ones counted from the end, as indices in another.",
        inputs: &[arg("x", "T")],
        outputs: &[arg("y", "T")],
        attrs: ATTRS,
        shape: |cx| {
            source_dims(cx.attrs())?;
            cx.set(0, cx.shape(0).clone());
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[
        cpu(|p| {
            let sources = source_dims(&p.node.attrs);
            let sources = sources.map_err(|e| KernelError::Invalid(e.to_string()))?;
            let rank = sources.len() as i64;
            // For each dimension of the source, its place in the destination.
            let place = |i: usize| sources.iter().position(|&s| s == i).map(|at| at as i64);
            let places: Vec<i64> = (0..sources.len()).filter_map(place).collect();
            let map = move |element: usize, x: i64| {
                let own = usize::try_from(x)
                    .ok()
                    .or_else(|| usize::try_from(x.checked_add(rank)?).ok());
                own.and_then(|i| places.get(i))
                    .copied()
                    .ok_or_else(|| KernelError::Element {
                        input: 0,
                        element,
                        reason: format!("{x} is no dimension: use {}..{rank}", -rank),
                    })
            };
            let n = p.inputs[0].elements();
            match p.dtype(0) {
                DType::I32 => Ok(Prepared::new(n, move |cx| {
                    let (x, y) = (cx.input::<i32>(0)?, cx.output::<i32>(0)?);
                    for (i, (y, &x)) in y.iter_mut().zip(x).enumerate() {
                        *y = map(i, x.into())? as i32;
                    }
                    Ok(())
                })),
                DType::I64 => Ok(Prepared::new(n, move |cx| {
                    let (x, y) = (cx.input::<i64>(0)?, cx.output::<i64>(0)?);
                    for (i, (y, &x)) in y.iter_mut().zip(x).enumerate() {
                        *y = map(i, x)?;
                    }
                    Ok(())
                })),
                other => Err(KernelError::DType(other)),
            }
        }),
        on_host(),
    ],
};
