//! Clusters without rows: each takes one of the rows that are farthest from their centroids.

use thalweg_tensor::Tensor;

use super::centroids::{row_of, widened};
use super::graph::{Steps, Sums};
use crate::error::StatsError;
use crate::passes::over_blocks;
use crate::rows::RowBlocks;

/// A row that is far from its centroid: its squared distance, its cluster, its weight, and the row.
type Far = Vec<f64>;

/// Moves the farthest rows of all ranks into the clusters that have none, as scikit-learn does: a row is counted in its new
/// cluster, and no more in its old one.
///
/// # Errors
/// An error of a step.
pub(super) fn fill_empty_clusters(
    steps: &mut Steps<'_>,
    rows: &dyn RowBlocks,
    (centroids, dims): (&Tensor, usize),
    sums: &mut Sums,
) -> Result<(), StatsError> {
    let empty: Vec<usize> = (0..sums.counts.len())
        .filter(|c| sums.counts[*c] <= 0.0)
        .collect();
    if empty.is_empty() {
        return Ok(());
    }
    let own = farthest_rows(steps, rows, centroids, empty.len())?;
    let width = 3 + dims;
    let all = steps.gather(&own.concat(), width)?;
    let mut all: Vec<&[f64]> = all.chunks_exact(width).collect();
    // A stable sort: equal distances stay in the order of ranks and rows.
    all.sort_by(|a, b| b[0].total_cmp(&a[0]));
    for (to, far) in empty.into_iter().zip(all) {
        let (from, weight) = (far[1] as usize, far[2]);
        for (i, x) in far[3..].iter().enumerate() {
            sums.rows[to * dims + i] = weight * x;
            sums.rows[from * dims + i] -= weight * x;
        }
        sums.counts[to] = weight;
        sums.counts[from] -= weight;
    }
    Ok(())
}

/// The rows of this rank that are farthest from their centroids, at most `count`.
fn farthest_rows(
    steps: &mut Steps<'_>,
    rows: &dyn RowBlocks,
    centroids: &Tensor,
    count: usize,
) -> Result<Vec<Far>, StatsError> {
    let mut far: Vec<Far> = Vec::new();
    over_blocks(rows, &mut |first_row, block| {
        let (nearest, distances) = steps.search(first_row, &block.x, centroids)?;
        let (distances, weights) = (widened(&distances)?, widened(&block.weights)?);
        for (row, cluster) in nearest.as_slice::<i32>()?.iter().enumerate() {
            let distance = distances[row];
            if far.len() == count && far.last().is_some_and(|last| distance <= last[0]) {
                continue;
            }
            let weight = weights.get(row).copied().unwrap_or(1.0);
            let mut own = vec![distance, f64::from(*cluster), weight];
            own.extend(row_of(&block.x, row)?);
            far.insert(far.partition_point(|known| known[0] >= distance), own);
            far.truncate(count);
        }
        Ok(())
    })?;
    Ok(far)
}
