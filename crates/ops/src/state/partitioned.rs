//! A variable in parts, so that it can lie on several devices.

use thalweg_graph::{Graph, Output, Reason, Tensor, Value};

use super::{StateOps, Variable};
use crate::array::{ArrayOps, SourceOps};

/// Several variables that are the slices of one along its first dimension.
///
/// Used as an operand it stands for the whole value. A device function sees each part by itself,
/// and puts it where it likes; an optimizer trains each part where it is.
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

impl<'g> From<&PartitionedVariable<'g>> for Output<'g> {
    fn from(variable: &PartitionedVariable<'g>) -> Output<'g> {
        variable.value
    }
}

/// The first row and the number of rows of each of `parts` slices of `rows` rows: the first ones
/// have one more where they do not come out even, as in TensorFlow.
fn slices(rows: usize, parts: usize) -> impl Iterator<Item = (usize, usize)> {
    let (each, more) = (rows / parts, rows % parts);
    (0..parts).map(move |i| (i * each + i.min(more), each + usize::from(i < more)))
}

/// Makes `name/part_0` and so on.
#[track_caller]
pub(super) fn partitioned<'g>(
    graph: &'g Graph,
    name: &str,
    initial: Value<'g>,
    parts: usize,
) -> PartitionedVariable<'g> {
    graph.at_caller(|| {
        let invalid = |text: String| PartitionedVariable {
            parts: Vec::new(),
            value: graph.fail(name, "VarHandleOp", Reason::Argument(text)),
        };
        let shape = match &initial {
            Value::Tensor(t) => t.shape(),
            Value::Output(o) => o.shape(),
        };
        let dims = match shape.to_dims() {
            Some(dims) if !dims.is_empty() => dims,
            _ => {
                return invalid(format!(
                    "a variable of shape {shape} has no rows to split by: give it a known first dimension"
                ));
            }
        };
        if parts == 0 || parts > dims[0].max(1) {
            return invalid(format!("{} rows do not make {parts} parts", dims[0]));
        }
        graph.name_scope(name, || {
            let parts: Vec<Variable<'g>> = slices(dims[0], parts)
                .enumerate()
                .map(|(i, (first, rows))| {
                    let mut part_dims = dims.clone();
                    part_dims[0] = rows;
                    let part = match &initial {
                        Value::Tensor(t) => match rows_of(t, first, rows) {
                            Some(part) => Value::Tensor(part),
                            None => return graph.variable("part", t.clone()),
                        },
                        Value::Output(o) => {
                            let ints = |d: &[usize]| d.iter().map(|&d| d as i32).collect::<Vec<_>>();
                            let mut begin = vec![0; dims.len()];
                            begin[0] = first;
                            Value::Output(o.slice(ints(&begin), ints(&part_dims)))
                        }
                    };
                    graph.variable(&format!("part_{i}"), part)
                })
                .collect();
            let values: Vec<Output<'g>> = parts.iter().map(|p| p.value()).collect();
            let value = match &values[..] {
                [one] => *one,
                all => graph.concat(all, 0),
            };
            PartitionedVariable { parts, value }
        })
    })
}

/// Some rows of a tensor; `None` for strings, which no variable holds.
fn rows_of(tensor: &Tensor, first: usize, rows: usize) -> Option<Tensor> {
    let mut dims = tensor.dims().to_vec();
    let row = tensor.bytes().len() / dims[0].max(1);
    dims[0] = rows;
    let bytes = tensor.bytes().get(first * row..(first + rows) * row)?;
    Tensor::from_bytes(tensor.dtype(), &dims, bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::slices;

    #[test]
    fn slices_cover_all_rows_and_differ_by_one_at_most() {
        assert_eq!(slices(7, 3).collect::<Vec<_>>(), [(0, 3), (3, 2), (5, 2)]);
        for rows in 1..30 {
            for parts in 1..=rows {
                let mut next = 0;
                for (first, n) in slices(rows, parts) {
                    assert_eq!(first, next);
                    assert!(n == rows / parts || n == rows / parts + 1);
                    next += n;
                }
                assert_eq!(next, rows);
            }
        }
    }
}
