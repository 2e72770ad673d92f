//! How two inputs are walked to fill an output that they broadcast to.

use smallvec::SmallVec;

/// How two inputs are walked to fill an output: dimensions that both walk alike are taken together.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    /// Lengths, outermost first; the last one is the inner loop.
    lens: SmallVec<[usize; 6]>,
    /// Steps of the two inputs in each dimension, in elements; 0 where one is broadcast.
    steps: SmallVec<[[usize; 2]; 6]>,
}

impl Walk {
    /// The walk over `out` of inputs with dimensions `a` and `b` that broadcast to it.
    pub(crate) fn new(a: &[usize], b: &[usize], out: &[usize]) -> Walk {
        let rank = out.len();
        let steps_of = |dims: &[usize]| {
            let mut steps: SmallVec<[usize; 6]> = SmallVec::from_elem(0, rank);
            let mut step = 1;
            for i in (0..dims.len()).rev() {
                if dims[i] != 1 {
                    steps[rank - dims.len() + i] = step;
                }
                // Only an empty tensor has dimensions whose product overflows; it is not walked.
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
                // The dimension outside steps over exactly this one in both inputs.
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

    /// How many dimensions are walked.
    pub(crate) fn rank(&self) -> usize {
        self.lens.len()
    }

    /// Each dimension's length, and the steps of the two inputs in it, outermost first.
    pub(crate) fn dims(&self) -> impl Iterator<Item = (usize, [usize; 2])> + '_ {
        self.lens.iter().copied().zip(self.steps.iter().copied())
    }

    /// Where the two inputs are for one element of the output.
    pub(crate) fn at(&self, element: usize) -> [usize; 2] {
        let (inner, steps) = self.inner();
        let inside = element % inner;
        let [a, b] = self.start(element / inner);
        [a + inside * steps[0], b + inside * steps[1]]
    }

    /// The length of the inner loop, and the steps of the two inputs in it.
    pub(super) fn inner(&self) -> (usize, [usize; 2]) {
        let last = self.lens.len() - 1;
        (self.lens[last], self.steps[last])
    }

    /// Where the two inputs start for row `row` of the inner loop.
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
}
