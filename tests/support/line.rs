//! A line that is fitted to points: the smallest graph that trains.

use thalweg::prelude::*;
use thalweg::session::Feed;

/// `y = x * w + b`, and a step that brings `w` and `b` nearer to a target.
pub struct Line<'g> {
    pub x: Output<'g>,
    pub y: Output<'g>,
    pub w: Variable<'g>,
    pub loss: Output<'g>,
    pub train: Operation<'g>,
}

pub fn line(g: &Graph) -> Line<'_> {
    let x = g.placeholder("x", DType::F32, [-1]);
    let y = g.placeholder("y", DType::F32, [-1]);
    let w = g.variable("w", 0.5f32);
    let b = g.variable("b", 0.0f32);
    let loss = (x * w.value() + b.value() - y).square().mean();
    let train = GradientDescent::new(0.1).minimize(loss);
    Line {
        x,
        y,
        w,
        loss,
        train,
    }
}

/// Three points of a line.
pub fn values() -> [Tensor; 2] {
    [[1.0f32, 2.0, 3.0].into(), [2.0f32, 4.0, 6.0].into()]
}

pub fn feeds<'g>(line: &Line<'g>) -> [Feed<'g>; 2] {
    let [x, y] = values();
    [line.x.feed(x), line.y.feed(y)]
}
