//! A block of patches: written from the input, and added to its gradient.

use super::geometry::Conv3dGeometry;
use crate::Cpu;
use crate::conv::Real;
use crate::scratch::for_chunks;

/// Numbers of patches that a task writes.
const TASK: usize = 1 << 13;

/// Some output voxels of all volumes, one after the other, and their patches: a row each.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    pub g: &'a Conv3dGeometry,
    /// The first output voxel, counted over all volumes.
    pub first: usize,
    pub rows: usize,
}

impl<'a> Block<'a> {
    /// The patches of an input with channels last, written to `to` where they are not the input itself.
    pub(super) fn read<'b, T: Real>(
        self,
        cpu: Cpu<'_>,
        input: &'b [T],
        to: &'b mut [T],
    ) -> &'b [T] {
        let (g, patch) = (self.g, self.g.patch());
        if g.is_pointwise() {
            return &input[self.first * patch..][..self.rows * patch];
        }
        let rows = (TASK / patch).max(1);
        let to = &mut to[..self.rows * patch];
        for_chunks(cpu.pool, to, rows * patch, &|task, to| {
            for (i, row) in to.chunks_exact_mut(patch).enumerate() {
                self.read_patch(self.first + task * rows + i, input, row);
            }
        });
        to
    }

    /// Writes the patch of an output voxel.
    fn read_patch<T: Real>(self, voxel: usize, input: &[T], row: &mut [T]) {
        let Conv3dGeometry { axes, in_c, .. } = *self.g;
        let [depth, lines, cols] = axes;
        let (line, x) = (voxel / cols.output, voxel % cols.output);
        let (plane, y) = (line / lines.output, line % lines.output);
        let (volume, z) = (plane / depth.output, plane % depth.output);
        let mut stretches = row.chunks_exact_mut(cols.window * in_c);
        for i in 0..depth.window {
            let in_plane = depth.place(z, i).map(|z| volume * depth.input + z);
            for j in 0..lines.window {
                let Some(to) = stretches.next() else { return };
                let in_line = in_plane
                    .zip(lines.place(y, j))
                    .map(|(z, y)| z * lines.input + y);
                let Some(in_line) = in_line else {
                    to.fill(T::default());
                    continue;
                };
                let from = &input[in_line * cols.input * in_c..][..cols.input * in_c];
                let whole = cols.place(x, 0).zip(cols.place(x, cols.window - 1));
                if let (Some((start, _)), 1) = (whole, cols.dilation) {
                    to.copy_from_slice(&from[start * in_c..][..cols.window * in_c]);
                    continue;
                }
                for (k, to) in to.chunks_exact_mut(in_c).enumerate() {
                    match cols.place(x, k) {
                        Some(x) => to.copy_from_slice(&from[x * in_c..][..in_c]),
                        None => to.fill(T::default()),
                    }
                }
            }
        }
    }

    /// Adds these patches to the input with channels last. A task has one line of it, so that no two write one number,
    /// and sums are in the same order on any number of threads.
    pub(super) fn add<T: Real>(self, cpu: Cpu<'_>, patches: &[T], to: &mut [T]) {
        let g = self.g;
        let [depth, lines, _] = g.axes;
        let (voxels, last) = (g.out_voxels(), self.first + self.rows - 1);
        let per_volume = depth.input * lines.input;
        let line_len = g.axes[2].input * g.in_c;
        let start = self.first / voxels * per_volume;
        let end = (last / voxels + 1) * per_volume;
        let to = &mut to[start * line_len..end * line_len];
        for_chunks(cpu.pool, to, line_len, &|i, line| {
            self.add_line(start + i, patches, line);
        });
    }

    /// Adds to an input line, counted over all volumes.
    fn add_line<T: Real>(self, line: usize, patches: &[T], to: &mut [T]) {
        let Conv3dGeometry { axes, in_c, .. } = *self.g;
        let [depth, lines, cols] = axes;
        let (plane, y) = (line / lines.input, line % lines.input);
        let (volume, z) = (plane / depth.input, plane % depth.input);
        let patch = self.g.patch();
        let end = self.first + self.rows;
        for i in 0..depth.window {
            let Some(z) = depth.window_with(z, i) else {
                continue;
            };
            for j in 0..lines.window {
                let Some(y) = lines.window_with(y, j) else {
                    continue;
                };
                // The output line, of which a part may belong to the block.
                let base = ((volume * depth.output + z) * lines.output + y) * cols.output;
                let from = self.first.saturating_sub(base);
                let until = end.saturating_sub(base).min(cols.output);
                for x in from..until {
                    let row = &patches[(base + x - self.first) * patch..][..patch];
                    let taps = &row[(i * lines.window + j) * cols.window * in_c..];
                    for (k, tap) in taps.chunks_exact(in_c).take(cols.window).enumerate() {
                        let Some(at) = cols.place(x, k) else { continue };
                        for (sum, x) in to[at * in_c..][..in_c].iter_mut().zip(tap) {
                            *sum += *x;
                        }
                    }
                }
            }
        }
    }
}
