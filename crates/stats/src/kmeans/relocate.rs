//! Clusters without rows: each takes one of the rows that are farthest from their centroids.

use super::centroids::{element, row_of};
use super::graph::{Steps, Sums};
use crate::error::StatsError;
use crate::passes::over_blocks;
use crate::rows::RowBlocks;
use thalweg_tensor::Tensor;

/// A row that is far from its centroid: its squared distance, its cluster, its weight, and the row.
type Far = (f64, usize, f64, Vec<f64>);

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
    let flat: Vec<f64> = own
        .into_iter()
        .flat_map(|(distance, cluster, weight, row)| {
            [distance, cluster as f64, weight].into_iter().chain(row)
        })
        .collect();
    let mut all: Vec<Vec<f64>> = steps
        .gather(&flat, width)?
        .chunks_exact(width)
        .map(<[f64]>::to_vec)
        .collect();
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
        let nearest = nearest.as_slice::<i32>()?;
        for (row, cluster) in nearest.iter().enumerate() {
            let distance = element(&distances, row)?;
            if far.len() == count && far.last().is_some_and(|last| distance <= last.0) {
                continue;
            }
            let weight = match block.weights.is_empty() {
                true => 1.0,
                false => element(&block.weights, row)?,
            };
            let at = far.partition_point(|known| known.0 >= distance);
            far.insert(
                at,
                (distance, *cluster as usize, weight, row_of(&block.x, row)?),
            );
            far.truncate(count);
        }
        Ok(())
    })?;
    Ok(far)
}
