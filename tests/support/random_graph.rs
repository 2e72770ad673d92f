//! Random graphs from lists of bytes, so that failing graphs shrink: each group of bytes selects the next op and its
//! inputs. Groups that do not fit are left out.

use thalweg_graph::{Attr, Graph, NodeBuilder, Operation, Output};
use thalweg_ops::{SourceOps, StateOps, Variable};
use thalweg_tensor::shape::{broadcast_dims, elements};
use thalweg_tensor::{DType, Dims, Shape, Tensor};

/// The bytes of one node.
pub type Gene = [u8; 6];

/// A graph with its feeds and possible fetches.
pub struct RandomModel<'g> {
    pub graph: &'g Graph,
    /// Values with their dimensions, which the graph itself need not know.
    pub values: Vec<(Output<'g>, Dims)>,
    pub variables: Vec<(Variable<'g>, Dims)>,
    pub updates: Vec<Operation<'g>>,
    /// Feeds of a step.
    pub feeds: Vec<(Output<'g>, Tensor)>,
}

/// Numbers that depend on `seed` alone: multiples of an eighth between -2 and 2.
pub fn numbers(dims: &[usize], seed: u64) -> Tensor {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as i64 % 17 - 8
    };
    let all: Vec<f32> = (0..elements(dims)).map(|_| next() as f32 / 8.0).collect();
    Tensor::new(dims, &all).unwrap()
}

const BINARY: &[&str] = &[
    "AddV2",
    "Sub",
    "Mul",
    "Maximum",
    "Minimum",
    "SquaredDifference",
];
const UNARY: &[&str] = &[
    "Neg", "Square", "Tanh", "Sigmoid", "Relu", "Abs", "Identity", "OnesLike",
];
const REDUCE: &[&str] = &["Sum", "Mean", "Max", "Min"];

/// The most elements of a value: enough for several tasks, few enough to be fast.
const MOST: usize = 40_000;

impl<'g> RandomModel<'g> {
    /// Builds a graph; `vague` hides the shapes of placeholders from it.
    pub fn new(graph: &'g Graph, genes: &[Gene], vague: bool) -> RandomModel<'g> {
        let mut model = RandomModel {
            graph,
            values: Vec::new(),
            variables: Vec::new(),
            updates: Vec::new(),
            feeds: Vec::new(),
        };
        for (i, dims) in [
            &[4, 6][..],
            &[6],
            &[4, 1],
            &[],
            &[6, 4],
            &[0, 6],
            &[130, 120],
        ]
        .into_iter()
        .enumerate()
        {
            let shape = match (vague, i % 2) {
                (true, 0) => Shape::unknown(),
                (true, _) => Shape::of_rank(dims.len()),
                _ => Shape::known(dims),
            };
            let x = graph.placeholder(&format!("x{i}"), DType::F32, shape);
            model.feeds.push((x, numbers(dims, i as u64 + 1)));
            model.values.push((x, dims.into()));
        }
        for (i, dims) in [&[4, 6][..], &[6], &[]].into_iter().enumerate() {
            let v = graph.variable(&format!("v{i}"), numbers(dims, 50 + i as u64));
            model.variables.push((v, dims.into()));
            model.values.push((v.value(), dims.into()));
        }
        let constant = graph.constant(numbers(&[4, 6], 99));
        model.values.push((constant, Dims::from_slice(&[4, 6])));
        for gene in genes {
            model.grow(*gene);
        }
        model
    }

    /// The value that a byte selects, newer ones more often.
    pub fn value(&self, byte: u8) -> (Output<'g>, Dims) {
        let back = usize::from(byte) % self.values.len();
        self.values[self.values.len() - 1 - back].clone()
    }

    fn node(&self, op: &str) -> NodeBuilder<'g> {
        self.graph.op(op)
    }

    fn grow(&mut self, gene: Gene) {
        let waits = gene[5];
        let graph = self.graph;
        match usize::from(waits).checked_sub(192) {
            // One in four waits for an update.
            Some(which) if !self.updates.is_empty() => {
                let update = self.updates[which % self.updates.len()];
                graph.control_dependencies([update], || self.add(gene));
            }
            _ => self.add(gene),
        }
    }

    fn add(&mut self, [kind, a, b, c, d, _]: Gene) {
        let ((x, xd), (y, yd)) = (self.value(a), self.value(b));
        let pick = |list: &[&'static str]| list[usize::from(c) % list.len()];
        let rank = xd.len();
        let made: Option<(Output<'g>, Dims)> = match kind % 14 {
            0 | 1 => broadcast_dims(&xd, &yd)
                .filter(|dims| elements(dims) <= MOST)
                .map(|dims| (self.node(pick(BINARY)).input(x).input(y).output(), dims)),
            2 => Some((self.node(pick(UNARY)).input(x).output(), xd)),
            3 => self.product((x, xd), (y, yd), c),
            4 | 5 => Some(self.reduction(pick(REDUCE), x, &xd, d)),
            6 => Some(self.reshaped(x, &xd, c)),
            7 if rank > 0 => {
                let perm: Vec<i32> = (0..rank as i32).rev().collect();
                let to: Dims = xd.iter().rev().copied().collect();
                let perm = self.host(perm, d);
                Some((self.node("Transpose").input(x).input(perm).output(), to))
            }
            8 if rank > 0 && xd[1..] == *yd.get(1..).unwrap_or(&[]) && !yd.is_empty() => {
                let mut to = xd.clone();
                to[0] += yd[0];
                let axis = self.host_scalar(-(rank as i32), d);
                let node = self.node("ConcatV2").input(x).input(y).input(axis);
                Some((node.output(), to)).filter(|(_, to)| elements(to) <= MOST)
            }
            9 if rank > 0 && xd[0] > 0 => {
                let begin = usize::from(c) % xd[0];
                let mut to = xd.clone();
                to[0] -= begin;
                let starts = (0..rank).map(|i| if i == 0 { begin as i32 } else { 0 });
                let starts = self.host(starts.collect(), d);
                let sizes = self.host(to.iter().map(|&n| n as i32).collect(), d / 2);
                let node = self.node("Slice").input(x).input(starts).input(sizes);
                Some((node.output(), to))
            }
            10 if rank > 0 && *xd.last().unwrap() > 0 => {
                let op = if c < 128 { "Softmax" } else { "LogSoftmax" };
                Some((self.node(op).input(x).output(), xd))
            }
            11 => {
                let value = self.graph.constant(f32::from(c) / 64.0);
                Some((value, Dims::new()))
            }
            12 => {
                let (v, dims) = self.variables[usize::from(a) % self.variables.len()].clone();
                Some((v.read(), dims))
            }
            13 => {
                self.update(a, b, c);
                None
            }
            _ => None,
        };
        self.values.extend(made);
    }

    /// An update of a variable by a value of its shape.
    fn update(&mut self, a: u8, b: u8, c: u8) {
        let (v, dims) = self.variables[usize::from(a) % self.variables.len()].clone();
        let same: Vec<Output<'g>> = self
            .values
            .iter()
            .filter(|(_, d)| *d == dims)
            .map(|(x, _)| *x)
            .collect();
        let value = same[same.len() - 1 - usize::from(b) % same.len()];
        self.updates.push(match c % 3 {
            0 => v.assign(value),
            1 => v.assign_add(value),
            _ => v.assign_sub(value),
        });
    }

    fn product(
        &self,
        (x, xd): (Output<'g>, Dims),
        (y, yd): (Output<'g>, Dims),
        c: u8,
    ) -> Option<(Output<'g>, Dims)> {
        let (&[a, b], &[e, f]) = (&xd[..], &yd[..]) else {
            return None;
        };
        let (ta, tb) = (c & 1 == 1, c & 2 == 2);
        let (m, k) = if ta { (b, a) } else { (a, b) };
        let (l, n) = if tb { (f, e) } else { (e, f) };
        let node = self.node("MatMul").input(x).input(y);
        (k == l).then(|| {
            let node = node.attr("transpose_a", ta).attr("transpose_b", tb);
            (node.output(), Dims::from_slice(&[m, n]))
        })
    }

    fn reduction(&mut self, op: &str, x: Output<'g>, xd: &Dims, d: u8) -> (Output<'g>, Dims) {
        let reduced: Vec<usize> = (0..xd.len()).filter(|i| d >> i & 1 == 1).collect();
        let keep = d & 8 == 8;
        let axes = self.host(reduced.iter().map(|&i| i as i32).collect(), d);
        let left = |(i, &n): (usize, &usize)| match reduced.contains(&i) {
            true => keep.then_some(1),
            false => Some(n),
        };
        let to: Dims = xd.iter().enumerate().filter_map(left).collect();
        let node = self.node(op).input(x).input(axes);
        (node.attr("keep_dims", Attr::Bool(keep)).output(), to)
    }

    fn reshaped(&mut self, x: Output<'g>, xd: &Dims, c: u8) -> (Output<'g>, Dims) {
        let n = elements(xd);
        let to: Dims = match c % 3 {
            0 => Dims::from_slice(&[n]),
            1 if n.is_multiple_of(4) => Dims::from_slice(&[n / 4, 4]),
            _ => xd.iter().rev().copied().collect(),
        };
        let shape = match c & 8 {
            // By the shape of another value that fits.
            8 => self
                .values
                .iter()
                .find(|(_, d)| *d == to)
                .map(|(y, _)| self.node("Shape").input(*y).output()),
            _ => None,
        };
        let shape = shape.unwrap_or_else(|| self.host(to.iter().map(|&n| n as i32).collect(), c));
        (self.node("Reshape").input(x).input(shape).output(), to)
    }

    /// A host input: a constant, or a fed value, which is known only when a step runs.
    fn host(&mut self, values: Vec<i32>, byte: u8) -> Output<'g> {
        self.host_tensor(Tensor::from(values), byte)
    }

    fn host_scalar(&mut self, value: i32, byte: u8) -> Output<'g> {
        self.host_tensor(Tensor::from(value), byte)
    }

    fn host_tensor(&mut self, value: Tensor, byte: u8) -> Output<'g> {
        if !byte.is_multiple_of(5) {
            return self.graph.constant(value);
        }
        let x = self.graph.placeholder("host", DType::I32, value.shape());
        self.feeds.push((x, value));
        x
    }
}
