//! Strides of two inputs that are broadcast to an output.

use std::ops::Range;

use smallvec::SmallVec;

use super::block::Block;

/// Rows of fewer elements are computed several at a time: a call for each would take longer than its elements.
const SHORT_ROW: usize = 64;

/// Dimensions of fewer rows are walked row by row.
const SHORT_RUN: usize = 4;

/// Iteration over an output and two inputs that are broadcast to it; dimensions with equal strides are merged.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    /// Lengths, outermost first; the last one is the inner loop.
    lens: SmallVec<[usize; 6]>,
    /// Steps of the two inputs in each dimension, in elements; 0 if the input is broadcast along it.
    steps: SmallVec<[[usize; 2]; 6]>,
}

impl Walk {
    /// The walk over `out` for inputs of dimensions `a` and `b`, which broadcast to it.
    pub(crate) fn new(a: &[usize], b: &[usize], out: &[usize]) -> Walk {
        let rank = out.len();
        let steps_of = |dims: &[usize]| {
            let mut steps: SmallVec<[usize; 6]> = SmallVec::from_elem(0, rank);
            let mut step = 1;
            for i in (0..dims.len()).rev() {
                if dims[i] != 1 {
                    steps[rank - dims.len() + i] = step;
                }
                // Only an empty tensor has dimensions whose product overflows, and it is not iterated.
                step = step.wrapping_mul(dims[i]);
            }
            steps
        };
        let (sa, sb) = (steps_of(a), steps_of(b));
        let mut walk = Walk {
            lens: SmallVec::new(),
            steps: SmallVec::new(),
        };
        for i in 0..rank {
            let (len, step) = (out[i], [sa[i], sb[i]]);
            if len == 1 {
                continue;
            }
            match (walk.lens.last_mut(), walk.steps.last_mut()) {
                // The outer dimension steps over exactly this one in both inputs: both are merged.
                (Some(outer), Some(last))
                    if last[0] == step[0].wrapping_mul(len)
                        && last[1] == step[1].wrapping_mul(len) =>
                {
                    *outer = outer.wrapping_mul(len);
                    *last = step;
                }
                _ => {
                    walk.lens.push(len);
                    walk.steps.push(step);
                }
            }
        }
        if walk.lens.is_empty() {
            walk.lens.push(1);
            walk.steps.push([0, 0]);
        }
        walk
    }

    /// Number of dimensions after merging.
    pub(crate) fn rank(&self) -> usize {
        self.lens.len()
    }

    /// Length of each dimension, and steps of the two inputs along it, outermost first.
    pub(crate) fn dims(&self) -> impl Iterator<Item = (usize, [usize; 2])> + '_ {
        self.lens.iter().copied().zip(self.steps.iter().copied())
    }

    /// Positions in the two inputs for an element of the output.
    pub(crate) fn at(&self, element: usize) -> [usize; 2] {
        let (inner, steps) = self.inner();
        let inside = element % inner;
        let [a, b] = self.start(element / inner);
        [a + inside * steps[0], b + inside * steps[1]]
    }

    /// Length of the inner loop, and steps of the two inputs in it.
    pub(super) fn inner(&self) -> (usize, [usize; 2]) {
        let last = self.lens.len() - 1;
        (self.lens[last], self.steps[last])
    }

    /// Start positions in the two inputs for row `row` of the inner loop.
    pub(super) fn start(&self, mut row: usize) -> [usize; 2] {
        let mut at = [0, 0];
        for i in (0..self.lens.len() - 1).rev() {
            let index = row % self.lens[i];
            row /= self.lens[i];
            at[0] += index * self.steps[i][0];
            at[1] += index * self.steps[i][1];
        }
        at
    }

    /// `true` if rows of the inner loop are short, and more than one.
    pub(super) fn has_short_rows(&self) -> bool {
        self.rank() > 1 && (1..SHORT_ROW).contains(&self.inner().0)
    }

    /// `true` if input `k` has the elements of the output in the same order.
    fn is_in_order(&self, k: usize) -> bool {
        let mut expected = 1;
        self.lens.iter().zip(&self.steps).rev().all(|(len, step)| {
            let fits = step[k] == expected;
            expected *= len;
            fits
        })
    }

    /// Elements of input `k` for these rows: those of the input itself where they lie in order, or else copies in `room`.
    pub(super) fn gather<'a, T: Copy>(
        &self,
        k: usize,
        input: &'a [T],
        rows: Range<usize>,
        room: &'a mut Block<T>,
    ) -> &'a [T] {
        let (inner, steps) = self.inner();
        if self.is_in_order(k) {
            return &input[rows.start * inner..rows.end * inner];
        }
        room.clear();
        room.resize(rows.len() * inner, input[0]);
        let outer = self.lens.len() - 2;
        let run = RowRun {
            inner,
            inside: steps[k],
            step: self.steps[outer][k],
        };
        if self.lens[outer] < SHORT_RUN {
            let starts = RowStarts::new(self, k, rows.start);
            for (row, at) in room.chunks_exact_mut(inner).zip(starts) {
                run.gather(&input[at..], row);
            }
            return room;
        }
        let mut row = rows.start;
        while row < rows.end {
            let left = self.lens[outer] - row % self.lens[outer];
            let end = rows.end.min(row + left);
            let out = &mut room[(row - rows.start) * inner..(end - rows.start) * inner];
            run.gather(&input[self.start(row)[k]..], out);
            row = end;
        }
        room
    }
}

/// Rows along one dimension of an input.
#[derive(Clone, Copy)]
struct RowRun {
    /// Elements of a row, and the step from one to the next: 0 or 1.
    inner: usize,
    inside: usize,
    /// The step from one row to the next.
    step: usize,
}

impl RowRun {
    /// Copies rows from an input that begins with the first. Short rows have loops of their own, whose lengths the
    /// compiler knows.
    fn gather<T: Copy>(self, input: &[T], out: &mut [T]) {
        match self.inner {
            _ if self.step == 0 => self.repeat(input, out),
            1 => self.rows::<T, 1>(input, out),
            2 => self.rows::<T, 2>(input, out),
            3 => self.rows::<T, 3>(input, out),
            4 => self.rows::<T, 4>(input, out),
            5 => self.rows::<T, 5>(input, out),
            6 => self.rows::<T, 6>(input, out),
            7 => self.rows::<T, 7>(input, out),
            8 => self.rows::<T, 8>(input, out),
            inner => {
                for (i, row) in out.chunks_exact_mut(inner).enumerate() {
                    self.row(&input[i * self.step..], row);
                }
            }
        }
    }

    fn row<T: Copy>(self, input: &[T], row: &mut [T]) {
        match self.inside {
            0 => row.fill(input[0]),
            _ => row.copy_from_slice(&input[..row.len()]),
        }
    }

    fn rows<T: Copy, const N: usize>(self, input: &[T], out: &mut [T]) {
        let (rows, _) = out.as_chunks_mut::<N>();
        match (self.inside, self.step) {
            (0, 1) => {
                for (row, item) in rows.iter_mut().zip(input) {
                    *row = [*item; N];
                }
            }
            (0, step) => {
                for (row, item) in rows.iter_mut().zip(input.iter().step_by(step)) {
                    *row = [*item; N];
                }
            }
            (_, step) => {
                for (i, row) in rows.iter_mut().enumerate() {
                    row.copy_from_slice(&input[i * step..][..N]);
                }
            }
        }
    }

    /// The same row again and again: twice as many each time.
    fn repeat<T: Copy>(self, input: &[T], out: &mut [T]) {
        self.row(input, &mut out[..self.inner]);
        let mut done = self.inner;
        while done < out.len() {
            let more = done.min(out.len() - done);
            out.copy_within(..more, done);
            done += more;
        }
    }
}

/// Start positions of rows in an input, one after the other, without an end.
struct RowStarts<'a> {
    walk: &'a Walk,
    input: usize,
    /// The index of the next row in each outer dimension.
    index: SmallVec<[usize; 6]>,
    at: usize,
}

impl<'a> RowStarts<'a> {
    fn new(walk: &'a Walk, input: usize, first: usize) -> RowStarts<'a> {
        let outer = walk.lens.len() - 1;
        let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, outer);
        let mut row = first;
        for i in (0..outer).rev() {
            index[i] = row % walk.lens[i];
            row /= walk.lens[i];
        }
        RowStarts {
            walk,
            input,
            index,
            at: walk.start(first)[input],
        }
    }
}

impl Iterator for RowStarts<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let at = self.at;
        for i in (0..self.index.len()).rev() {
            let step = self.walk.steps[i][self.input];
            self.index[i] += 1;
            self.at += step;
            if self.index[i] < self.walk.lens[i] {
                break;
            }
            self.at -= step * self.walk.lens[i];
            self.index[i] = 0;
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathered_rows_are_those_of_the_inputs() {
        for (a, b, out) in [
            (&[3, 4, 5][..], &[4, 1][..], &[3, 4, 5][..]),
            (&[1, 4, 1], &[3, 1, 5], &[3, 4, 5]),
            (&[2, 3, 2, 3], &[3, 1, 3], &[2, 3, 2, 3]),
            (&[6, 1], &[6, 2], &[6, 2]),
            (&[1, 5], &[37, 1], &[37, 5]),
            (&[3, 9, 1, 2], &[1, 9, 4, 1], &[3, 9, 4, 2]),
            (&[2, 11, 1], &[2, 1, 12], &[2, 11, 12]),
        ] {
            let walk = Walk::new(a, b, out);
            let (inner, _) = walk.inner();
            let rows = out.iter().product::<usize>() / inner;
            for (k, dims) in [a, b].into_iter().enumerate() {
                let input: Vec<u16> = (0..dims.iter().product::<usize>() as u16).collect();
                for (first, count) in [(0, rows), (1, rows - 1), (rows / 2, 1)] {
                    let mut room = Block::new();
                    let found = walk.gather(k, &input, first..first + count, &mut room);
                    let expected: Vec<u16> = (first * inner..(first + count) * inner)
                        .map(|i| input[walk.at(i)[k]])
                        .collect();
                    assert_eq!(found, expected, "{a:?} {b:?} {k} {first}");
                }
            }
        }
    }
}
