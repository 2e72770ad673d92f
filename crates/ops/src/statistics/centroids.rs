//! _NearestCentroids, _ClusterSums: the nearest centroid of each row, and the sums of the rows of each cluster.

use thalweg_cpu::Tiled;
use thalweg_cpu::centroids::{Centroids, ClusterSums, nearest_centroids};
use thalweg_cpu::number::{Number, Wide};
use thalweg_device::{KernelCx, KernelError, Op, Prepare, Prepared, cpu};
use thalweg_graph::op::{AttrDef, Gradient, arg, arg_of, type_attr};
use thalweg_graph::{Infer, InferError, OpDef};
use thalweg_tensor::{DType, Shape};

use super::inputs::{check_finite, check_weight_values, check_weights, columns, too_large};

const DTYPES: &[AttrDef] = &[type_attr("T", &[DType::F32, DType::F64])];

/// Index of the nearest centroid, and its squared distance.
pub(crate) static NEAREST_CENTROIDS: Op = Op {
    def: OpDef {
        name: "_NearestCentroids",
        summary: "For each row of x the index of the nearest centroid, the first of equal ones, and its squared distance.",
        inputs: &[arg("x", "T"), arg("centroids", "T")],
        outputs: &[arg_of("nearest", DType::I32), arg("distances", "T")],
        attrs: DTYPES,
        shape: |cx| search_shape(cx, 1).map(|_| ()),
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| match p.dtype(0) {
        DType::F32 => kernel::<f32>(p, 1),
        DType::F64 => kernel::<f64>(p, 1),
        other => Err(KernelError::DType(other)),
    })],
};

/// Nearest centroids and the sums of their clusters.
pub(crate) static CLUSTER_SUMS: Op = Op {
    def: OpDef {
        name: "_ClusterSums",
        summary: "A step of Lloyd's algorithm: the nearest centroid of each row and its squared distance, the weighted sum of the rows of each cluster, of their weights, and of all squared distances.",
        inputs: &[arg("x", "T"), arg("weights", "T"), arg("centroids", "T")],
        outputs: &[
            arg_of("nearest", DType::I32),
            arg("distances", "T"),
            arg_of("sums", DType::F64),
            arg_of("counts", DType::F64),
            arg_of("inertia", DType::F64),
        ],
        attrs: DTYPES,
        shape: |cx| {
            check_weights(cx, 1)?;
            let centroids = search_shape(cx, 2)?;
            let clusters = centroids
                .dims()
                .and_then(|dims| dims.first().copied())
                .flatten();
            cx.set(2, centroids);
            cx.set(3, Shape::partial([clusters]));
            cx.set(4, Shape::scalar());
            Ok(())
        },
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu(|p| match p.dtype(0) {
        DType::F32 => kernel::<f32>(p, 2),
        DType::F64 => kernel::<f64>(p, 2),
        other => Err(KernelError::DType(other)),
    })],
};

/// Shape rule of a search; returns the shape of the centroids.
fn search_shape(cx: &mut Infer<'_>, input: usize) -> Result<Shape, InferError> {
    let (x, own) = (columns(cx, 0)?, columns(cx, input)?);
    let centroids = cx.ranked(input, 2)?;
    if let (Some(x), Some(own)) = (x, own)
        && x != own
    {
        return Err(InferError::Mismatch {
            what: "rows and centroids must have the same number of columns".to_owned(),
            left: cx.shape(0).clone(),
            right: centroids,
        });
    }
    let clusters = centroids
        .dims()
        .and_then(|dims| dims.first().copied())
        .flatten();
    if clusters.is_some_and(|k| k == 0 || i32::try_from(k).is_err()) {
        return Err(InferError::Value {
            input,
            reason: "there must be at least one centroid, and at most 2147483647".to_owned(),
        });
    }
    let rows = cx.ranked(0, 2)?;
    let rows = rows.dims().and_then(|dims| dims.first().copied()).flatten();
    cx.set(0, Shape::partial([rows]));
    cx.set(1, Shape::partial([rows]));
    Ok(centroids)
}

/// Kernel of both ops; `input` is the number of the centroids' input.
fn kernel<T>(p: &Prepare<'_>, input: usize) -> Result<Prepared, KernelError>
where
    T: Wide + Tiled,
{
    let (&[rows, dims], &[clusters, _]) = (p.dims(0), p.dims(input)) else {
        return Err(KernelError::Argument("two matrices"));
    };
    let g = Centroids {
        rows,
        dims,
        clusters,
    };
    let too_many = || {
        KernelError::Invalid(format!(
            "{clusters} centroids do not fit into memory: take fewer"
        ))
    };
    let scratch = g.scratch::<T>(p.cpu.isa(), p.cpu.pool().threads());
    let scratch = scratch.ok_or_else(too_many)?;
    let work = rows.saturating_mul(dims).saturating_mul(clusters);
    let sums = input == 2;
    let run = Prepared::new(work, move |cx| {
        let (x, centroids) = (cx.input::<T>(0)?, cx.input::<T>(input)?);
        let (nearest, distances) = (cx.output::<i32>(0)?, cx.output::<T>(1)?);
        let cpu = thalweg_cpu::Cpu {
            pool: cx.pool(),
            isa: cx.cpu().isa(),
        };
        let scratch = cx.scratch(scratch)?;
        let searched = ([x, centroids], (nearest, &mut *distances));
        match sums {
            false => nearest_centroids(cpu, &g, searched.0, searched.1, None, scratch),
            true => sum_clusters(cx, cpu, &g, searched, scratch)?,
        }
        match distances.iter().all(|d| d.to_f64().is_finite()) {
            true => Ok(()),
            false => Err(unusable(&g, [x, centroids], input)),
        }
    });
    Ok(run.with_scratch(scratch))
}

/// Searches, and sums the clusters.
#[allow(clippy::type_complexity, reason = "operands of one call")]
fn sum_clusters<T>(
    cx: &KernelCx<'_>,
    cpu: thalweg_cpu::Cpu<'_>,
    g: &Centroids,
    (operands, found): ([&[T]; 2], (&mut [i32], &mut [T])),
    scratch: &mut [u8],
) -> Result<(), KernelError>
where
    T: Wide + Tiled,
{
    let weights = cx.input::<T>(1)?;
    check_weight_values(1, weights)?;
    let [inertia] = cx.output::<f64>(4)? else {
        return Err(KernelError::Argument("a scalar output"));
    };
    let clusters = ClusterSums {
        weights: (!weights.is_empty()).then_some(weights),
        sums: cx.output(2)?,
        counts: cx.output(3)?,
        inertia,
    };
    nearest_centroids(cpu, g, operands, found, Some(clusters), scratch);
    Ok(())
}

/// The reason why a distance is not finite.
fn unusable<T: Number>(g: &Centroids, [x, centroids]: [&[T]; 2], input: usize) -> KernelError {
    let checked = check_finite(0, x, g.dims).and_then(|()| check_finite(input, centroids, g.dims));
    checked.err().unwrap_or_else(too_large)
}
