//! Ops on lists of tensors, where all lengths and indices are known: they make nodes for elements alone.

use std::rc::Rc;

use smallvec::smallvec;
use thalweg_graph::{Fact, OutputId};
use thalweg_tensor::{DType, Shape, Tensor};

use super::item::{Item, Items, List};
use super::new_graph::{NewGraph, OldNode, count};

/// An op with its inputs, some of which may be lists.
pub(super) struct ListOp<'n, 'g, 'a> {
    pub(super) new: &'n mut NewGraph<'a>,
    pub(super) source: OldNode<'g>,
    pub(super) inputs: &'n [Item],
}

/// Maximum depth of lists in each other.
const MAX_DEPTH: usize = 32;

/// Depth of lists in a list with this element.
fn depth_with(item: &Item) -> usize {
    item.list().map_or(0, |list| list.depth + 1)
}

fn made(list: List) -> Items {
    smallvec![Item::List(Rc::new(list))]
}

impl ListOp<'_, '_, '_> {
    /// Returns the outputs; `None` for another op, for a length or an index that is not known, and where the op would
    /// fail: the host then tells of it.
    pub(super) fn outputs(mut self) -> Option<Items> {
        let outputs = self.resolved()?;
        for list in outputs.iter().filter_map(Item::list) {
            self.new.count_elements(list.items.len() + 1)?;
            if list.depth > MAX_DEPTH {
                return None;
            }
        }
        Some(outputs)
    }

    fn resolved(&mut self) -> Option<Items> {
        match self.source.node.op.name {
            "EmptyTensorList" => self.absent(0, self.new.int(&self.inputs[1])?),
            "TensorListReserve" => self.absent(self.new.int(&self.inputs[1])?, -1),
            "TensorListFromTensor" => self.list_of_rows(),
            "TensorListScatterV2" => self.scatter(),
            "TensorListPushBack" => self.push_back(),
            "TensorListPopBack" => self.pop_back(),
            "TensorListGetItem" => self.get_item(),
            "TensorListSetItem" => self.set_item(),
            "TensorListLength" => {
                let length = self.list(0)?.items.len() as i32;
                self.constant(Tensor::scalar(length))
            }
            "TensorListElementShape" => self.element_shape(),
            "TensorListResize" => {
                let mut list = List::clone(self.list(0)?);
                let length = count(self.new.int(&self.inputs[1])?)?;
                list.items.resize(length, None);
                Some(made(list))
            }
            "TensorListStack" => self.stack(),
            "TensorListGather" => self.gather(),
            // In place of a list that a loop does not need.
            "FakeParam" => Some(made(List {
                dtype: DType::Variant,
                shape: Shape::unknown(),
                max_elements: 0,
                items: Vec::new(),
                depth: 0,
            })),
            "AddN" => self.sum(),
            "ZerosLike" => self.zeros_like(),
            "Identity" => Some(smallvec![Item::List(self.list(0)?.clone())]),
            _ => None,
        }
    }

    fn list(&self, i: usize) -> Option<&Rc<List>> {
        self.inputs.get(i)?.list()
    }

    /// The list at input 0, if its elements have the dtype that the node says.
    fn checked_list(&self) -> Option<&Rc<List>> {
        let list = self.list(0)?;
        (self.source.node.attrs.dtype("element_dtype") == Some(list.dtype)).then_some(list)
    }

    fn constant(&mut self, value: Tensor) -> Option<Items> {
        let constant = self.new.constant(self.source, value)?;
        Some(smallvec![Item::Output(constant)])
    }

    /// A list of so many absent elements.
    fn absent(&self, length: i64, max_elements: i64) -> Option<Items> {
        Some(made(List {
            dtype: self.source.node.attrs.dtype("element_dtype")?,
            shape: self.new.shape(&self.inputs[0])?,
            max_elements,
            items: vec![None; count(length)?],
            depth: 0,
        }))
    }

    fn list_of_rows(&mut self) -> Option<Items> {
        let requested = self.new.shape(&self.inputs[1])?;
        let (rows, row) = self.new.unpacked(self.source, &self.inputs[0])?;
        Some(made(List {
            dtype: self.new.fact(&self.inputs[0]).dtype,
            shape: requested.merge(&row)?,
            max_elements: -1,
            items: rows.into_iter().map(|r| Some(Item::Output(r))).collect(),
            depth: 0,
        }))
    }

    fn scatter(&mut self) -> Option<Items> {
        let indices = self.new.ints(&self.inputs[1])?;
        let shape = self.new.shape(&self.inputs[2])?;
        let last = indices.iter().copied().max().unwrap_or(-1);
        let length = match self.new.int(&self.inputs[3])? {
            n if n < 0 => last.checked_add(1)?,
            n => n,
        };
        let mut items = vec![None; count(length)?];
        let (rows, row) = self.new.unpacked(self.source, &self.inputs[0])?;
        if rows.len() != indices.len() || shape.merge(&row).is_none() {
            return None;
        }
        for (&i, row) in indices.iter().zip(rows) {
            *items.get_mut(usize::try_from(i).ok()?)? = Some(Item::Output(row));
        }
        Some(made(List {
            dtype: self.new.fact(&self.inputs[0]).dtype,
            shape,
            max_elements: -1,
            items,
            depth: 0,
        }))
    }

    /// Input `i` as an element of a list.
    fn taken(&self, list: &List, i: usize) -> Option<Item> {
        let item = self.inputs.get(i)?;
        let Fact { dtype, shape, .. } = self.new.fact(item);
        let fits = dtype == list.dtype && list.shape.admits(&shape.to_dims()?);
        fits.then(|| item.clone())
    }

    fn push_back(&mut self) -> Option<Items> {
        let mut list = List::clone(self.list(0)?);
        let length = list.items.len() as i64;
        if length == list.max_elements {
            return None;
        }
        count(length + 1)?;
        let item = self.taken(&list, 1)?;
        list.depth = list.depth.max(depth_with(&item));
        list.items.push(Some(item));
        Some(made(list))
    }

    fn pop_back(&mut self) -> Option<Items> {
        let mut list = List::clone(self.checked_list()?);
        let requested = self.new.shape(&self.inputs[1])?;
        let last = list.items.len().checked_sub(1)?;
        let item = self.element(&list, last, &requested)?;
        list.items.truncate(last);
        let mut outputs = made(list);
        outputs.push(item);
        Some(outputs)
    }

    fn get_item(&mut self) -> Option<Items> {
        let list = self.checked_list()?.clone();
        let at = usize::try_from(self.new.int(&self.inputs[1])?).ok()?;
        let requested = self.new.shape(&self.inputs[2])?;
        Some(smallvec![self.element(&list, at, &requested)?])
    }

    fn set_item(&mut self) -> Option<Items> {
        let mut list = List::clone(self.list(0)?);
        let at = self.new.int(&self.inputs[1])?;
        let grows = self.source.node.attrs.bool("resize_if_index_out_of_bounds");
        if grows && at >= list.items.len() as i64 {
            let length = count(at.checked_add(1)?)?;
            list.items.resize(length, None);
        }
        let item = self.taken(&list, 2)?;
        list.depth = list.depth.max(depth_with(&item));
        *list.items.get_mut(usize::try_from(at).ok()?)? = Some(item);
        Some(made(list))
    }

    /// An element; zeros if it is absent.
    fn element(&mut self, list: &List, i: usize, requested: &Shape) -> Option<Item> {
        if let Some(item) = list.items.get(i)? {
            let dims = self.new.fact(item).shape.to_dims()?;
            return requested.admits(&dims).then(|| item.clone());
        }
        let mut shape = list.shape.merge(requested).unwrap_or_default();
        if !shape.is_known() {
            // If nothing else gives the shape, an element that is present does.
            shape = self.new.fact(list.items.iter().flatten().next()?).shape;
        }
        let numbers = list.dtype.size() > 0;
        let zeros = numbers.then(|| self.new.zeros(self.source, list.dtype, &shape))?;
        Some(Item::Output(zeros?))
    }

    fn element_shape(&mut self) -> Option<Items> {
        let list = self.list(0)?;
        let wide = self.source.node.attrs.dtype("shape_type") == Some(DType::I64);
        let number = |d: &Option<usize>| d.map_or(-1, |d| d as i64);
        let dims = list.shape.dims();
        let dims: Option<Vec<i64>> = dims.map(|dims| dims.iter().map(number).collect());
        let narrow = |dims: Vec<i64>| dims.iter().map(|&d| d as i32).collect::<Vec<_>>();
        self.constant(match (dims, wide) {
            (None, true) => Tensor::scalar(-1i64),
            (None, false) => Tensor::scalar(-1i32),
            (Some(dims), true) => Tensor::vector(&dims),
            (Some(dims), false) => Tensor::vector(&narrow(dims)),
        })
    }

    fn stack(&mut self) -> Option<Items> {
        let list = self.checked_list()?.clone();
        let wanted = self.source.node.attrs.int("num_elements");
        if wanted >= 0 && wanted != list.items.len() as i64 {
            return None;
        }
        self.packed(
            &list,
            0..list.items.len(),
            &self.new.shape(&self.inputs[1])?,
        )
    }

    fn gather(&mut self) -> Option<Items> {
        let list = self.checked_list()?.clone();
        let indices = self.new.ints(&self.inputs[1])?;
        let indices: Option<Vec<usize>> = indices.into_iter().map(|i| i.try_into().ok()).collect();
        self.packed(&list, indices?, &self.new.shape(&self.inputs[2])?)
    }

    /// Elements as the rows of one tensor.
    fn packed(
        &mut self,
        list: &List,
        indices: impl IntoIterator<Item = usize>,
        requested: &Shape,
    ) -> Option<Items> {
        let mut rows: Vec<OutputId> = Vec::new();
        for i in indices {
            rows.push(self.element(list, i, requested)?.output()?);
        }
        let row = list.shape.merge(requested)?;
        let packed = self.new.packed(self.source, &rows, (list.dtype, &row))?;
        Some(smallvec![Item::Output(packed)])
    }

    /// The sum of lists, element by element; an absent one is zeros.
    fn sum(&mut self) -> Option<Items> {
        let mut inputs = self.inputs.iter();
        let mut total = List::clone(inputs.next()?.list()?);
        for other in inputs {
            let other = other.list()?;
            if other.items.len() != total.items.len() || other.dtype != total.dtype {
                return None;
            }
            total.shape = total.shape.merge(&other.shape)?;
            total.depth = total.depth.max(other.depth);
            for (sum, item) in total.items.iter_mut().zip(&other.items) {
                *sum = match (sum.take(), item) {
                    (sum, None) => sum,
                    (None, Some(item)) => Some(item.clone()),
                    (Some(a), Some(b)) => {
                        let parts = [a.output()?, b.output()?];
                        let added = self.new.sum(self.source, parts, total.dtype)?;
                        Some(Item::Output(added))
                    }
                };
            }
        }
        Some(made(total))
    }

    fn zeros_like(&mut self) -> Option<Items> {
        let mut list = List::clone(self.list(0)?);
        if list.dtype.size() > 0 && list.shape.is_known() {
            list.items.fill(None);
            return Some(made(list));
        }
        for item in list.items.iter_mut().flatten() {
            let Fact { dtype, shape, .. } = self.new.fact(item);
            item.output()?;
            *item = Item::Output(self.new.zeros(self.source, dtype, &shape)?);
        }
        Some(made(list))
    }
}
