//! Speed of the kernels of statistics on this machine.

use std::time::Instant;

use thalweg_graph::{Graph, Output};
use thalweg_ops::{NewGraph, SourceOps, StatisticsOps};
use thalweg_session::Session;
use thalweg_simulate::{PassKernel, StatisticsPass};
use thalweg_stats::{RowBlocks, SeededRows};
use thalweg_tensor::{DType, Tensor};

use crate::failure::Failure;

/// Bytes of the rows of a measurement: more than caches hold.
const BYTES: u64 = 128 << 20;
/// Runs of a kernel, of which the fastest counts.
const RUNS: usize = 5;
/// Seconds after which no further run begins.
const MAX_SECONDS: f64 = 3.0;

/// Floating-point operations a second of a core in the kernel of a pass, while all cores run it over rows of f64 in memory.
///
/// # Errors
/// There is no memory for the rows or for their sums.
pub(super) fn measured(pass: &StatisticsPass) -> Result<f64, Failure> {
    let columns = pass.columns as usize;
    let (targets, clusters) = match pass.kernel {
        PassKernel::Products { targets } => (targets as usize, 0),
        PassKernel::Clusters(clusters) => (0, clusters as usize),
    };
    let count = (BYTES / (8 * (columns + targets) as u64)).max(1);
    let rows = SeededRows {
        seed: 0,
        rows: count,
        features: columns,
        targets,
        clusters,
        dtype: DType::F64,
        block_rows: 1 << 15,
        share: (0, 1),
    };
    let Some(block) = rows.made()?.first_block()? else {
        return Err("there are no rows to measure with".into());
    };

    let g = Graph::new();
    let x = g.placeholder("x", DType::F64, [-1, columns as i64]);
    let y = g.placeholder("y", DType::F64, [-1, targets as i64]);
    let centroids = g.placeholder("centroids", DType::F64, [-1, columns as i64]);
    let none = g.constant(Vec::<f64>::new());
    let sums: Output<'_> = match pass.kernel {
        PassKernel::Products { .. } => {
            x.gram_matrix(y, none, vec![0.0; columns + targets], DType::F64)
        }
        PassKernel::Clusters(_) => x.cluster_sums(none, centroids).sums,
    };
    let session = Session::new(&g)?;
    let start = first_rows(&block.x, clusters)?;
    let mut kernel = session.callable(sums, [x, y, centroids])?;
    let feeds = [block.x, block.y, start];

    let begun = Instant::now();
    let mut fastest = f64::INFINITY;
    for _ in 0..RUNS {
        let run = Instant::now();
        kernel.call(&feeds)?;
        fastest = fastest.min(run.elapsed().as_secs_f64());
        if begun.elapsed().as_secs_f64() > MAX_SECONDS {
            break;
        }
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(pass.cost(count).flops / fastest / cores as f64)
}

/// So many of the first rows, again from the first one where there are fewer.
fn first_rows(x: &Tensor, count: usize) -> Result<Tensor, Failure> {
    let columns = x.dims().get(1).copied().unwrap_or(0);
    let all = x.as_slice::<f64>()?.iter().copied().cycle();
    let rows: Vec<f64> = all.take(count * columns).collect();
    Ok(Tensor::new(&[count, columns], &rows)?)
}
