//! Partitioned variables: a variable in parts, which can lie on several devices.

use thalweg_graph::{Graph, Operand, Output, Reason, Value, VariableSlice};
use thalweg_tensor::shape::elements;
use thalweg_tensor::{DType, Tensor};

use super::variable::{Variable, declare};
use crate::array::{ArrayOps, SourceOps};

/// Several variables that are the slices of one variable along a dimension.
///
/// As an operand it stands for the whole value. A device function sees each part by itself, and
/// may place each on another device; an optimizer trains each part where it is.
///
/// ```
/// use thalweg_graph::Graph;
/// use thalweg_ops::{NewGraph, StateOps};
/// use thalweg_tensor::Shape;
///
/// let g = Graph::new();
/// let w = g.partitioned_variable("w", vec![0.0f32; 10], 2);
/// let sizes: Vec<_> = w.parts().iter().map(|part| part.value().shape()).collect();
/// assert_eq!(sizes, [Shape::from([5]), Shape::from([5])]);
/// assert_eq!(w.value().shape(), Shape::from([10]));
/// ```
#[derive(Clone, Debug)]
pub struct PartitionedVariable<'g> {
    parts: Vec<Variable<'g>>,
    value: Output<'g>,
}

impl<'g> PartitionedVariable<'g> {
    /// The parts, in order.
    pub fn parts(&self) -> &[Variable<'g>] {
        &self.parts
    }

    /// The whole value.
    pub fn value(&self) -> Output<'g> {
        self.value
    }
}

impl<'g> Operand<'g> for &PartitionedVariable<'g> {
    fn beside(self, _: Output<'g>) -> Output<'g> {
        self.into()
    }
}

impl<'g> From<&PartitionedVariable<'g>> for Output<'g> {
    fn from(variable: &PartitionedVariable<'g>) -> Output<'g> {
        variable.value
    }
}

/// Rule for splitting a variable. An integer is a number of parts along the first dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// A number of parts along a dimension.
    Parts {
        /// Number of parts.
        parts: usize,
        /// Dimension to split.
        axis: usize,
    },
    /// Along the longest dimension, into as few parts as possible of at most this many bytes
    /// each; if single rows are larger, into rows.
    MaxBytes(usize),
}

impl From<usize> for Split {
    fn from(parts: usize) -> Split {
        Split::Parts { parts, axis: 0 }
    }
}

impl Split {
    /// Returns the dimension to split, and the lengths of the parts along it; `None` if the variable
    /// cannot be split by this rule. If the parts are not equal, the first ones are longer by one, as in
    /// TensorFlow.
    pub fn of(self, dtype: DType, dims: &[usize]) -> Option<(usize, Vec<usize>)> {
        let (axis, parts) = match self {
            Split::Parts { parts, axis } => (axis, parts),
            Split::MaxBytes(most) => {
                let longest = (0..dims.len()).rev().max_by_key(|&axis| dims[axis])?;
                let bytes = elements(dims).saturating_mul(dtype.size());
                let row = bytes / dims[longest].max(1);
                let rows = (most / row.max(1)).max(1);
                (longest, dims[longest].div_ceil(rows).max(1))
            }
        };
        let len = *dims.get(axis)?;
        if parts == 0 || parts > len.max(1) {
            return None;
        }
        let (each, more) = (len / parts, len % parts);
        let lens = (0..parts).map(|i| each + usize::from(i < more));
        Some((axis, lens.collect()))
    }
}

/// Creates the variables `name/part_0` and so on.
#[track_caller]
pub(super) fn partitioned<'g>(
    graph: &'g Graph,
    name: &str,
    initial: Value<'g>,
    split: Split,
) -> PartitionedVariable<'g> {
    graph.at_caller(|| {
        // As with a single variable, a use of its value waits for nothing else.
        graph.without_control_dependencies(|| {
            let shape = match &initial {
                Value::Tensor(t) => t.shape(),
                Value::Output(o) => o.shape(),
            };
            let dtype = match &initial {
                Value::Tensor(t) => t.dtype(),
                Value::Output(o) => o.dtype(),
            };
            let dims = shape.to_dims();
            match dims.as_deref().and_then(|d| Some((d, split.of(dtype, d)?))) {
                Some((dims, (axis, lens))) => {
                    graph.name_scope(name, || in_parts(graph, &initial, dims, axis, &lens))
                }
                None => {
                    let text = format!(
                        "a variable of shape {shape} cannot be split by {split:?}: its shape must \
                         be known, and no part empty"
                    );
                    PartitionedVariable {
                        parts: Vec::new(),
                        value: graph.fail(name, "VarHandleOp", Reason::Argument(text)),
                    }
                }
            }
        })
    })
}

fn in_parts<'g>(
    graph: &'g Graph,
    initial: &Value<'g>,
    dims: &[usize],
    axis: usize,
    lens: &[usize],
) -> PartitionedVariable<'g> {
    let mut first = 0;
    let mut parts: Vec<Variable<'g>> = Vec::new();
    for (i, &len) in lens.iter().enumerate() {
        let name = format!("part_{i}");
        let part = match initial {
            Value::Tensor(t) => match slice_rows(t, axis, first, len) {
                Some(part) => Value::Tensor(part),
                // The variable itself reports that it cannot hold strings.
                None => Value::Tensor(t.clone()),
            },
            Value::Output(o) => {
                // Dimensions of a tensor are below 2^63.
                let ints = |dims: &[usize]| dims.iter().map(|&d| d as i64).collect::<Vec<_>>();
                let (mut begin, mut size) = (vec![0; dims.len()], dims.to_vec());
                (begin[axis], size[axis]) = (first, len);
                Value::Output(o.slice(ints(&begin), ints(&size)))
            }
        };
        let part = declare(graph, &name, part, true);
        let mut begin = vec![0; dims.len()];
        begin[axis] = first;
        let of = part.name();
        let of = of.strip_suffix(&format!("/{name}")).unwrap_or(&of);
        graph.declare_slice(
            part.handle().id(),
            VariableSlice {
                of: of.to_owned(),
                dims: dims.to_vec(),
                begin,
            },
        );
        parts.push(part);
        first += len;
    }
    let values: Vec<Output<'g>> = parts.iter().map(|p| p.value()).collect();
    let value = match &values[..] {
        [one] => *one,
        all => graph.concat(all, axis as i64),
    };
    PartitionedVariable { parts, value }
}

/// Returns `len` rows of a tensor along a dimension, from row `first` on; `None` for strings.
fn slice_rows(tensor: &Tensor, axis: usize, first: usize, len: usize) -> Option<Tensor> {
    if tensor.dtype() == DType::String {
        return None;
    }
    let mut dims = tensor.dims().to_vec();
    let row = elements(&dims[axis + 1..]) * tensor.dtype().size();
    let slab = dims[axis] * row;
    let slabs = tensor.bytes().chunks(slab.max(1));
    let bytes: Vec<u8> = slabs
        .flat_map(|s| &s[first * row..(first + len) * row])
        .copied()
        .collect();
    dims[axis] = len;
    Tensor::from_bytes(tensor.dtype(), &dims, &bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_all_rows_and_differ_by_at_most_one() {
        let split = |parts, rows| Split::from(parts).of(DType::F32, &[rows, 2]);
        assert_eq!(split(3, 7), Some((0, vec![3, 2, 2])));
        for rows in 1..30 {
            for parts in 1..=rows {
                let (_, lens) = split(parts, rows).unwrap();
                assert_eq!(lens.iter().sum::<usize>(), rows);
                let (least, most) = (lens.iter().min().unwrap(), lens.iter().max().unwrap());
                assert!(most - least <= 1 && *least > 0);
            }
        }
        assert_eq!(split(8, 7), None);
        assert_eq!(split(0, 7), None);
        assert_eq!(Split::from(1).of(DType::F32, &[]), None);
    }

    #[test]
    fn max_bytes_gives_the_fewest_parts() {
        let split = |bytes| Split::MaxBytes(bytes).of(DType::F32, &[3, 100]).unwrap();
        // A row of the longest dimension has 12 bytes.
        assert_eq!(split(1200), (1, vec![100]));
        assert_eq!(split(1199), (1, vec![50, 50]));
        assert_eq!(split(1).1.len(), 100);
    }

    #[test]
    fn slice_rows_works_along_any_dimension() {
        let t = Tensor::new(&[2, 3, 2], &(0..12).collect::<Vec<i32>>()).unwrap();
        let slice = |axis, first, len| {
            let s = slice_rows(&t, axis, first, len).unwrap();
            s.as_slice::<i32>().unwrap().to_vec()
        };
        assert_eq!(slice(0, 1, 1), [6, 7, 8, 9, 10, 11]);
        assert_eq!(slice(1, 1, 2), [2, 3, 4, 5, 8, 9, 10, 11]);
        assert_eq!(slice(2, 1, 1), [1, 3, 5, 7, 9, 11]);
    }
}
