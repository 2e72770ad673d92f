//! Tensor arrays (TensorArrayV3 and the ops on it): arrays that TensorFlow 1's loops read inputs from and write
//! results to. An array lives for a step; its gradient is another array.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use thalweg_device::{HolderHandle, KernelError, Op, TensorCx, TensorHolder, cpu_tensors, on_host};
use thalweg_graph::op::{
    Arg, AttrDef, Default, Effect, Gradient, arg, arg_of, attr, bool_attr, str_attr, type_attr,
};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{DType, Memory, Shape, Tensor};

use super::stack::{held_shape, widen};
use super::tensor_list::element_count;
use crate::support::tensors::{AccountedVec, sum, unwritten};

/// An array of tensors, each written once.
pub(super) struct TensorArray {
    pub(super) dtype: DType,
    dynamic_size: bool,
    clear_after_read: bool,
    /// All elements have the shape of the first one that is written.
    identical_shapes: bool,
    /// Adds up repeated writes of an element: the array is a gradient.
    accumulates: bool,
    /// Order of the gradient: 0 for an array, 1 for its gradient, 2 for the gradient of that, and so on.
    gradient_order: u32,
    /// Memory that elements are allocated from, apart from their values.
    memory: Arc<Memory>,
    state: Mutex<ArrayState>,
    gradients: Mutex<BTreeMap<String, Arc<TensorArray>>>,
}

/// Maximum order of a gradient of gradients.
const MAX_GRADIENT_ORDER: u32 = 64;

struct ArrayState {
    /// Declared shape of the elements.
    shape: Shape,
    /// The common part of the shapes of all elements that were written.
    written: Option<Shape>,
    elements: AccountedVec<ArrayElement>,
    closed: bool,
}

#[derive(Clone, Default)]
struct ArrayElement {
    value: Option<Tensor>,
    /// In a gradient: shape of the element that it is the gradient of.
    shape: Shape,
    written: bool,
    cleared: bool,
}

impl TensorHolder for TensorArray {
    fn shape(&self) -> Shape {
        let state = self.lock();
        let written = state.written.as_ref().and_then(|w| w.merge(&state.shape));
        written.unwrap_or_else(|| state.shape.clone())
    }
}

impl TensorArray {
    fn lock(&self) -> MutexGuard<'_, ArrayState> {
        self.state.lock().unpoisoned()
    }

    /// Declared shape of the elements.
    pub(super) fn declared_shape(&self) -> Shape {
        self.lock().shape.clone()
    }

    /// Number of elements.
    pub(super) fn len(&self) -> usize {
        self.lock().elements.len()
    }

    /// Grows the array to `len` elements, if it may grow.
    pub(super) fn grow(&self, len: usize) -> Result<(), KernelError> {
        let mut state = self.lock();
        if state.closed {
            return Err(closed());
        }
        if len > state.elements.len() {
            if !self.dynamic_size {
                return Err(out_of_range(len as i64 - 1, state.elements.len()));
            }
            element_count(len as i64)?;
            state.elements.grow(len, ArrayElement::default())?;
        }
        Ok(())
    }

    /// Writes element `i`.
    pub(super) fn write(&self, i: i64, value: Tensor) -> Result<(), KernelError> {
        let at = usize::try_from(i).map_err(|_| out_of_range(i, self.len()))?;
        value.check_can_be_held()?;
        self.grow(at.saturating_add(1))?;
        let mut state = self.lock();
        if value.dtype() != self.dtype || !state.shape.admits(value.dims()) {
            return Err(KernelError::Invalid(format!(
                "an array of {}{} does not take {}{}",
                self.dtype,
                state.shape,
                value.dtype(),
                value.shape()
            )));
        }
        if self.identical_shapes {
            state.shape = value.shape();
        }
        widen(&mut state.written, &value);
        let element = &mut state.elements[at];
        if element.cleared {
            return Err(KernelError::Invalid(format!(
                "element {i} was read, and cleared by that: it cannot be written again"
            )));
        }
        element.value = Some(match element.value.take() {
            None => value,
            Some(before) if self.accumulates => sum(before, &value)?,
            Some(before) => {
                element.value = Some(before);
                return Err(KernelError::Invalid(format!(
                    "element {i} was written before"
                )));
            }
        });
        element.written = true;
        Ok(())
    }

    /// Reads element `i`; zeros of a known shape if it was never written.
    pub(super) fn read(&self, cx: &TensorCx<'_>, i: i64) -> Result<Tensor, KernelError> {
        let mut state = self.lock();
        if state.closed {
            return Err(closed());
        }
        let len = state.elements.len();
        let at = usize::try_from(i).ok().filter(|&at| at < len);
        let at = at.ok_or_else(|| out_of_range(i, len))?;
        let shape = state.shape.clone();
        let element = &mut state.elements[at];
        if element.cleared {
            return Err(KernelError::Invalid(format!(
                "element {i} was read before, and cleared by that: set clear_after_read to false"
            )));
        }
        let value = match &element.value {
            Some(value) => value.clone(),
            None => {
                let dims = shape.merge(&element.shape).and_then(|s| s.to_dims());
                let dims = dims.ok_or_else(|| {
                    KernelError::Invalid(format!(
                        "element {i} was never written, and its shape is not known"
                    ))
                })?;
                unwritten(cx.memory(), self.dtype, &dims)?
            }
        };
        if self.clear_after_read {
            element.value = None;
            element.cleared = true;
        }
        Ok(value)
    }

    /// Gradient array of name `source`; created on first use.
    fn gradient(&self, source: &str, prepended: &Shape) -> Result<Arc<TensorArray>, KernelError> {
        let state = self.lock();
        if state.closed {
            return Err(closed());
        }
        let mut gradients = self.gradients.lock().unpoisoned();
        if let Some(gradient) = gradients.get(source) {
            return Ok(gradient.clone());
        }
        if self.gradient_order == MAX_GRADIENT_ORDER {
            return Err(KernelError::Invalid(format!(
                "an array has gradients of gradients {MAX_GRADIENT_ORDER} times at most"
            )));
        }
        let len = state.elements.len();
        let mut elements = AccountedVec::filled(len, ArrayElement::default(), &self.memory)?;
        for (to, e) in elements.iter_mut().zip(state.elements.iter()) {
            let shape = e.value.as_ref().map_or(e.shape.clone(), Tensor::shape);
            to.shape = behind(prepended, &shape);
        }
        // An element that is not written is zeros of its own shape.
        let shapes = elements.iter().map(|e| e.shape.clone());
        let written = shapes.reduce(|a, b| a.common(&b));
        let gradient = Arc::new(TensorArray {
            dtype: self.dtype,
            dynamic_size: false,
            clear_after_read: true,
            identical_shapes: self.identical_shapes,
            accumulates: true,
            gradient_order: self.gradient_order + 1,
            memory: self.memory.clone(),
            state: Mutex::new(ArrayState {
                shape: behind(prepended, &state.shape),
                written,
                elements,
                closed: false,
            }),
            gradients: Mutex::default(),
        });
        gradients.insert(source.to_owned(), gradient.clone());
        Ok(gradient)
    }

    fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.elements.clear();
    }
}

/// A shape behind other dimensions.
fn behind(prepended: &Shape, shape: &Shape) -> Shape {
    match (prepended.dims(), shape.dims()) {
        (Some(first), Some(rest)) => Shape::partial([first, rest].concat()),
        _ => Shape::unknown(),
    }
}

fn closed() -> KernelError {
    KernelError::Invalid("the array was closed".to_owned())
}

fn out_of_range(i: i64, len: usize) -> KernelError {
    KernelError::Invalid(format!(
        "there is no element {i} in an array of {len}: make it larger, or set dynamic_size"
    ))
}

/// Base definition of a tensor array op.
pub(super) const ARRAY_OP: OpDef = OpDef {
    gradient: Gradient::Missing,
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};

/// Input or output: the handle of an array.
pub(super) const HANDLE: Arg = arg_of("handle", DType::Resource);
/// Input that orders this use of an array after others.
pub(super) const FLOW_IN: Arg = arg_of("flow_in", DType::F32);
/// Output that orders later uses after this one.
pub(super) const FLOW_OUT: Arg = arg_of("flow_out", DType::F32);

/// Optional attribute for a shape.
pub(super) const fn shape_attr(name: &'static str) -> AttrDef {
    AttrDef {
        default: Default::UnknownShape,
        ..attr(name, AttrKind::Shape)
    }
}

/// Makes every output a scalar.
pub(super) fn scalars(cx: &mut Infer<'_>) -> Result<(), InferError> {
    crate::support::shapes::scalar(cx)
}

/// Array behind the handle at input 0.
pub(super) fn array(cx: &TensorCx<'_>) -> Result<Arc<TensorArray>, KernelError> {
    cx.holder::<TensorArray>(0)
}

/// Creates an array.
pub(crate) static ARRAY: Op = Op {
    def: OpDef {
        name: "TensorArrayV3",
        summary: "A new array of tensors, which lives as long as the step.",
        inputs: &[arg_of("size", DType::I32)],
        outputs: &[HANDLE, arg_of("flow", DType::F32)],
        attrs: &[
            type_attr("dtype", &DType::ALL),
            shape_attr("element_shape"),
            bool_attr("dynamic_size", false),
            bool_attr("clear_after_read", true),
            bool_attr("identical_element_shapes", false),
            str_attr("tensor_array_name", "", &[]),
        ],
        shape: |cx| {
            let size = cx.ints(0).filter(|_| !cx.attrs().bool("dynamic_size"));
            let size = size.and_then(|s| usize::try_from(*s.first()?).ok());
            cx.set_count(0, size);
            scalars(cx)
        },
        ..ARRAY_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let attrs = cx.attrs();
            let size = element_count(cx.int(0)?)?;
            let array = TensorArray {
                dtype: attrs.dtype("dtype").unwrap_or(DType::F32),
                dynamic_size: attrs.bool("dynamic_size"),
                clear_after_read: attrs.bool("clear_after_read"),
                identical_shapes: attrs.bool("identical_element_shapes"),
                accumulates: false,
                gradient_order: 0,
                memory: cx.memory().clone(),
                state: Mutex::new(ArrayState {
                    shape: attrs.shape("element_shape"),
                    written: None,
                    elements: AccountedVec::filled(size, ArrayElement::default(), cx.memory())?,
                    closed: false,
                }),
                gradients: Mutex::default(),
            };
            let handle = HolderHandle(Arc::new(array));
            let handle = Tensor::handle(DType::Resource, Arc::new(handle))?;
            Ok(vec![handle, Tensor::scalar(0.0f32)])
        }),
        on_host(),
    ],
};

/// Gradient array of an array.
pub(crate) static GRADIENT: Op = Op {
    def: OpDef {
        name: "TensorArrayGradV3",
        summary: "The array of the gradients of another array's elements; repeated writes are added up.",
        inputs: &[HANDLE, FLOW_IN],
        outputs: &[arg_of("grad_handle", DType::Resource), FLOW_OUT],
        attrs: &[attr("source", AttrKind::Str)],
        shape: |cx| {
            cx.set_count(0, cx.count(0));
            scalars(cx)
        },
        ..ARRAY_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let gradient = array(cx)?.gradient(cx.attrs().str("source"), &Shape::scalar())?;
            let handle = Tensor::handle(DType::Resource, Arc::new(HolderHandle(gradient)))?;
            Ok(vec![handle, Tensor::scalar(0.0f32)])
        }),
        on_host(),
    ],
};

/// Gradient array of an array, whose elements have more dimensions.
pub(crate) static GRADIENT_WITH_SHAPE: Op = Op {
    def: OpDef {
        name: "TensorArrayGradWithShape",
        summary: "The array of the gradients of another array's elements, each with more dimensions before its own.",
        inputs: &[HANDLE, FLOW_IN, arg_of("shape_to_prepend", DType::I32)],
        outputs: &[arg_of("grad_handle", DType::Resource), FLOW_OUT],
        attrs: &[attr("source", AttrKind::Str)],
        shape: |cx| {
            cx.set_count(0, cx.count(0));
            scalars(cx)
        },
        ..ARRAY_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            let prepended = super::tensor_list::shape_input(cx, 2)?;
            let gradient = array(cx)?.gradient(cx.attrs().str("source"), &prepended)?;
            let handle = Tensor::handle(DType::Resource, Arc::new(HolderHandle(gradient)))?;
            Ok(vec![handle, Tensor::scalar(0.0f32)])
        }),
        on_host(),
    ],
};

/// Writes an element.
pub(crate) static WRITE: Op = Op {
    def: OpDef {
        name: "TensorArrayWriteV3",
        summary: "Writes an element of an array.",
        inputs: &[
            HANDLE,
            arg_of("index", DType::I32),
            arg("value", "T"),
            FLOW_IN,
        ],
        outputs: &[FLOW_OUT],
        attrs: &[type_attr("T", &DType::ALL)],
        shape: scalars,
        ..ARRAY_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            array(cx)?.write(cx.int(1)?, cx.held(2)?)?;
            Ok(vec![cx.value(3)?])
        }),
        on_host(),
    ],
};

/// Reads an element.
pub(crate) static READ: Op = Op {
    def: OpDef {
        name: "TensorArrayReadV3",
        summary: "The value of an element of an array.",
        inputs: &[HANDLE, arg_of("index", DType::I32), FLOW_IN],
        outputs: &[arg("value", "dtype")],
        attrs: &[type_attr("dtype", &DType::ALL)],
        shape: held_shape,
        ..ARRAY_OP
    },
    kernels: &[
        cpu_tensors(|cx| Ok(vec![array(cx)?.read(cx, cx.int(1)?)?])),
        on_host(),
    ],
};

/// Number of elements.
pub(crate) static SIZE: Op = Op {
    def: OpDef {
        name: "TensorArraySizeV3",
        summary: "The number of an array's elements.",
        inputs: &[HANDLE, FLOW_IN],
        outputs: &[arg_of("size", DType::I32)],
        shape: |cx| {
            if let Some(size) = cx.count(0).and_then(|n| i32::try_from(n).ok()) {
                cx.set_value(0, Tensor::scalar(size));
            }
            scalars(cx)
        },
        ..ARRAY_OP
    },
    kernels: &[
        cpu_tensors(|cx| Ok(vec![Tensor::scalar(array(cx)?.len() as i32)])),
        on_host(),
    ],
};

/// Releases the elements of an array.
pub(crate) static CLOSE: Op = Op {
    def: OpDef {
        name: "TensorArrayCloseV3",
        summary: "Releases the elements of an array.",
        inputs: &[HANDLE],
        ..ARRAY_OP
    },
    kernels: &[
        cpu_tensors(|cx| {
            array(cx)?.close();
            Ok(Vec::new())
        }),
        on_host(),
    ],
};
