//! Ops on tensor arrays and stacks of TensorFlow 1, where all lengths and indices are known: they make nodes for elements
//! alone.

use smallvec::smallvec;
use thalweg_graph::{Fact, OutputId};
use thalweg_tensor::{DType, Shape, Tensor};

use super::item::{Item, Items};
use super::new_graph::{NewGraph, OldNode, count};

/// A tensor array or a stack, as it is after the nodes so far.
pub(super) enum Holder {
    Array(Array),
    Stack(Stack),
}

/// A tensor array.
pub(super) struct Array {
    dtype: DType,
    /// Declared shape of the elements.
    shape: Shape,
    dynamic_size: bool,
    clear_after_read: bool,
    identical_shapes: bool,
    /// `true` for a gradient, which adds up repeated writes of an element.
    accumulates: bool,
    elements: Vec<Element>,
    /// The gradients by name, with their numbers.
    gradients: Vec<(String, usize)>,
}

#[derive(Clone, Default)]
struct Element {
    value: Option<OutputId>,
    /// In a gradient: shape of the element that it is the gradient of.
    shape: Shape,
    cleared: bool,
}

/// A stack.
pub(super) struct Stack {
    dtype: DType,
    /// Maximum number of values; negative for no limit.
    max_size: i64,
    values: Vec<OutputId>,
}

/// An op on a tensor array or a stack.
pub(super) struct HolderOp<'n, 'g, 'a> {
    pub(super) new: &'n mut NewGraph<'a>,
    /// All arrays and stacks, by number.
    pub(super) holders: &'n mut Vec<Holder>,
    pub(super) source: OldNode<'g>,
    pub(super) inputs: &'n [Item],
}

impl HolderOp<'_, '_, '_> {
    /// Returns the outputs; `None` for another op, for a length or an index that is not known, and where the op would
    /// fail: the host then tells of it.
    pub(super) fn outputs(mut self) -> Option<Items> {
        match self.source.node.op.name {
            "TensorArrayV3" => self.new_array(),
            "TensorArrayGradV3" => self.gradient(),
            "TensorArrayWriteV3" => {
                let index = self.new.int(&self.inputs[1])?;
                self.write(index, self.inputs[2].output()?)?;
                Some(smallvec![self.inputs[3].clone()])
            }
            "TensorArrayScatterV3" => {
                let indices = self.new.ints(&self.inputs[1])?;
                let (rows, _) = self.new.unpacked(self.source, &self.inputs[2])?;
                if rows.len() != indices.len() {
                    return None;
                }
                for (index, row) in indices.into_iter().zip(rows) {
                    self.write(index, row)?;
                }
                Some(smallvec![self.inputs[3].clone()])
            }
            "TensorArrayReadV3" => {
                let index = self.new.int(&self.inputs[1])?;
                Some(smallvec![Item::Output(self.read(index)?)])
            }
            "TensorArrayGatherV3" => self.gather(),
            "TensorArraySizeV3" => {
                let size = Tensor::scalar(self.array()?.elements.len() as i32);
                let size = self.new.constant(self.source, size)?;
                Some(smallvec![Item::Output(size)])
            }
            "StackV2" => self.new_stack(self.new.int(&self.inputs[0])?),
            "_NewStack" => self.new_stack(-1),
            "StackPushV2" => self.push(),
            "StackPopV2" => {
                let Holder::Stack(stack) = self.holder()? else {
                    return None;
                };
                Some(smallvec![Item::Output(stack.values.pop()?)])
            }
            // Its elements need no release: they are values of the graph.
            "TensorArrayCloseV3" | "StackCloseV2" => Some(Items::new()),
            _ => None,
        }
    }

    fn add(&mut self, holder: Holder) -> Item {
        self.holders.push(holder);
        Item::Holder(self.holders.len() - 1)
    }

    fn number(&self) -> Option<usize> {
        match self.inputs.first()? {
            Item::Holder(number) => Some(*number),
            Item::Output(_) | Item::List(_) => None,
        }
    }

    fn holder(&mut self) -> Option<&mut Holder> {
        let number = self.number()?;
        self.holders.get_mut(number)
    }

    fn array(&mut self) -> Option<&mut Array> {
        match self.holder()? {
            Holder::Array(array) => Some(array),
            Holder::Stack(_) => None,
        }
    }

    fn flow(&mut self) -> Option<Item> {
        let flow = self.new.constant(self.source, Tensor::scalar(0.0f32))?;
        Some(Item::Output(flow))
    }

    fn new_array(&mut self) -> Option<Items> {
        let attrs = &self.source.node.attrs;
        let size = count(self.new.int(&self.inputs[0])?)?;
        self.new.count_elements(size + 1)?;
        let array = Array {
            dtype: attrs.dtype("dtype")?,
            shape: attrs.shape("element_shape"),
            dynamic_size: attrs.bool("dynamic_size"),
            clear_after_read: attrs.bool("clear_after_read"),
            identical_shapes: attrs.bool("identical_element_shapes"),
            accumulates: false,
            elements: vec![Element::default(); size],
            gradients: Vec::new(),
        };
        Some(smallvec![self.add(Holder::Array(array)), self.flow()?])
    }

    /// The gradient array of an array, which its first use makes.
    fn gradient(&mut self) -> Option<Items> {
        let name = self.source.node.attrs.str("source").to_owned();
        let number = self.number()?;
        let Some(Holder::Array(array)) = self.holders.get(number) else {
            return None;
        };
        if let Some((_, made)) = array.gradients.iter().find(|(n, _)| *n == name) {
            return Some(smallvec![Item::Holder(*made), self.flow()?]);
        }
        let shape = |e: &Element| match e.value.and_then(|v| self.new.graph.fact(v)) {
            Some(fact) => fact.shape.clone(),
            None => e.shape.clone(),
        };
        let like = |e: &Element| Element {
            shape: shape(e),
            ..Element::default()
        };
        let gradient = Array {
            shape: array.shape.clone(),
            dynamic_size: false,
            clear_after_read: true,
            accumulates: true,
            elements: array.elements.iter().map(like).collect(),
            gradients: Vec::new(),
            ..*array
        };
        let made = self.holders.len();
        self.new.count_elements(gradient.elements.len() + 1)?;
        self.array()?.gradients.push((name, made));
        Some(smallvec![self.add(Holder::Array(gradient)), self.flow()?])
    }

    fn write(&mut self, index: i64, value: OutputId) -> Option<()> {
        let Fact { dtype, shape, .. } = self.new.graph.fact(value)?.clone();
        let at = usize::try_from(index).ok()?;
        let array = self.array()?;
        if at >= array.elements.len() && array.dynamic_size {
            let length = count(index.checked_add(1)?)?;
            array.elements.resize(length, Element::default());
        }
        if dtype != array.dtype || !array.shape.admits(&shape.to_dims()?) {
            return None;
        }
        if array.identical_shapes {
            array.shape = shape;
        }
        let accumulates = array.accumulates;
        let element = array.elements.get_mut(at)?;
        let sum = match element.value {
            _ if element.cleared => return None,
            None => value,
            Some(before) if accumulates => self.new.sum(self.source, [before, value], dtype)?,
            Some(_) => return None,
        };
        self.array()?.elements[at].value = Some(sum);
        Some(())
    }

    fn read(&mut self, index: i64) -> Option<OutputId> {
        let at = usize::try_from(index).ok()?;
        let array = self.array()?;
        let (dtype, declared, clears) = (array.dtype, array.shape.clone(), array.clear_after_read);
        let element = array.elements.get_mut(at)?;
        if std::mem::replace(&mut element.cleared, clears) {
            return None;
        }
        match (element.value, declared.merge(&element.shape)) {
            (Some(value), _) => Some(value),
            (None, Some(shape)) if dtype.size() > 0 => self.new.zeros(self.source, dtype, &shape),
            (None, _) => None,
        }
    }

    fn gather(&mut self) -> Option<Items> {
        let indices = self.new.ints(&self.inputs[1])?;
        let rows: Option<Vec<OutputId>> = indices.into_iter().map(|i| self.read(i)).collect();
        let requested = self.source.node.attrs.shape("element_shape");
        let array = self.array()?;
        let row = (array.dtype, &array.shape.merge(&requested)?);
        let packed = self.new.packed(self.source, &rows?, row)?;
        Some(smallvec![Item::Output(packed)])
    }

    fn new_stack(&mut self, max_size: i64) -> Option<Items> {
        self.new.count_elements(1)?;
        let stack = Stack {
            dtype: self.source.node.attrs.dtype("elem_type")?,
            max_size,
            values: Vec::new(),
        };
        Some(smallvec![self.add(Holder::Stack(stack))])
    }

    fn push(&mut self) -> Option<Items> {
        let value = self.inputs.get(1)?;
        let (output, dtype) = (value.output()?, self.new.fact(value).dtype);
        let Holder::Stack(stack) = self.holder()? else {
            return None;
        };
        if dtype != stack.dtype || stack.values.len() as i64 == stack.max_size {
            return None;
        }
        stack.values.push(output);
        Some(smallvec![value.clone()])
    }
}
