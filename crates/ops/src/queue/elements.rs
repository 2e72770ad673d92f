//! Elements of queues: checks, splitting batches into elements, joining elements into batches.

use std::ops::Deref;
use std::sync::Arc;

use thalweg_device::KernelError;
use thalweg_tensor::text::counted;
use thalweg_tensor::{DType, Memory, Reservation, Shape, Tensor};

use crate::flow::rows::{rows, stacked};
use crate::random::philox::Philox;
use crate::support::padding::padded;
use crate::support::tensors::reserved;

/// One element of a queue, or entry of a staging area: a tensor for each component.
pub(crate) struct QueueElement {
    components: Box<[Tensor]>,
    /// Memory of the element: one value may be in many.
    _reserved: Reservation,
}

impl QueueElement {
    /// An element of these components.
    ///
    /// # Errors
    /// [`KernelError::Memory`] if the limit does not allow it.
    pub(super) fn new(
        components: Vec<Tensor>,
        memory: &Arc<Memory>,
    ) -> Result<QueueElement, KernelError> {
        // The list of elements may have twice the places that it uses.
        let bytes = 2 * size_of::<QueueElement>() + components.len() * size_of::<Tensor>();
        Ok(QueueElement {
            // Without spare places: a list that grows has four at once.
            components: components.into_boxed_slice(),
            _reserved: reserved(bytes, Some(memory))?,
        })
    }

    /// The components.
    pub(crate) fn into_components(self) -> Vec<Tensor> {
        self.components.into_vec()
    }
}

impl Deref for QueueElement {
    type Target = [Tensor];

    fn deref(&self) -> &[Tensor] {
        &self.components
    }
}

/// Settings of a queue, fixed when it is created.
pub(super) struct QueueSettings {
    /// Kind of the queue: the name of its op on references.
    pub(super) kind: &'static str,
    /// Kind and name of the queue, for error messages.
    pub(super) name: String,
    pub(super) dtypes: Vec<DType>,
    /// Required shape of each component; empty for any.
    pub(super) shapes: Vec<Shape>,
    /// Maximum number of elements; negative for no limit.
    pub(super) capacity: i64,
    /// Pads elements of different shapes to make a batch.
    pub(super) pads: bool,
    /// Draws elements in random order, if present.
    pub(super) shuffle: Option<Shuffle>,
    /// Keeps elements in the order of their first component, an integer.
    pub(super) prioritized: bool,
    /// Memory that batches are allocated from.
    pub(super) memory: Arc<Memory>,
}

/// Settings of a shuffling queue.
pub(super) struct Shuffle {
    pub(super) philox: Philox,
    /// The seeds that the draws follow from.
    pub(super) seeds: [i64; 2],
    /// Number of elements that must stay until the queue is closed.
    pub(super) min_after_dequeue: usize,
}

/// Priority of an element: the smallest number comes first.
pub(super) fn priority(element: &QueueElement) -> i64 {
    let first = element.first().and_then(|t| t.to_scalar::<i64>().ok());
    first.unwrap_or(i64::MAX)
}

/// Fails if an element does not fit the queue's dtypes and shapes.
pub(super) fn check_element(
    settings: &QueueSettings,
    element: &QueueElement,
) -> Result<(), KernelError> {
    let name = &settings.name;
    if element.len() != settings.dtypes.len() {
        return Err(KernelError::Invalid(format!(
            "elements of {name} have {}, not {}",
            counted(settings.dtypes.len(), "component"),
            element.len()
        )));
    }
    for (i, (component, dtype)) in element.iter().zip(&settings.dtypes).enumerate() {
        component.check_can_be_held()?;
        let fits = settings
            .shapes
            .get(i)
            .is_none_or(|s| s.admits(component.dims()));
        if component.dtype() != *dtype || !fits {
            let shape = settings.shapes.get(i).cloned().unwrap_or_default();
            return Err(KernelError::Invalid(format!(
                "component {i} of {name} is {dtype}{shape}, not {}{}",
                component.dtype(),
                component.shape()
            )));
        }
    }
    Ok(())
}

/// Splits batches, one for each component, into elements: one for each row.
pub(super) fn split_batches(
    memory: &Arc<Memory>,
    batches: &[Tensor],
) -> Result<Vec<QueueElement>, KernelError> {
    let mut all: Vec<Vec<Tensor>> = Vec::new();
    for (i, batch) in batches.iter().enumerate() {
        let rows = rows(memory, batch)?;
        if i == 0 {
            all = rows
                .iter()
                .map(|_| Vec::with_capacity(batches.len()))
                .collect();
        }
        if rows.len() != all.len() {
            return Err(KernelError::Invalid(format!(
                "component {i} has {}, those before it {}",
                counted(rows.len(), "element"),
                all.len()
            )));
        }
        all.iter_mut()
            .zip(rows)
            .for_each(|(element, row)| element.push(row));
    }
    all.into_iter()
        .map(|components| QueueElement::new(components, memory))
        .collect()
}

/// Joins elements into one batch for each component.
pub(super) fn join_elements(
    settings: &QueueSettings,
    elements: &[QueueElement],
) -> Result<Vec<Tensor>, KernelError> {
    let component = |(i, &dtype): (usize, &DType)| {
        let items = elements.iter().filter_map(|e| e.get(i));
        let items: Vec<Tensor> = match settings.pads {
            false => items.cloned().collect(),
            true => pad_to_largest(&settings.memory, items)?,
        };
        let mut shape = settings.shapes.get(i).cloned().unwrap_or(Shape::unknown());
        if settings.pads && items.is_empty() {
            shape = without_unknown_sizes(&shape);
        }
        stacked(&settings.memory, dtype, &items, &shape)
    };
    settings.dtypes.iter().enumerate().map(component).collect()
}

/// The shape with 0 for each unknown size: that of the longest of no elements.
fn without_unknown_sizes(shape: &Shape) -> Shape {
    match shape.dims() {
        Some(dims) => Shape::partial(dims.iter().map(|d| d.or(Some(0)))),
        None => shape.clone(),
    }
}

/// Pads tensors of one rank with zeros to the largest size in each dimension.
fn pad_to_largest<'a>(
    memory: &Arc<Memory>,
    items: impl Iterator<Item = &'a Tensor> + Clone,
) -> Result<Vec<Tensor>, KernelError> {
    let mut dims: Vec<usize> = Vec::new();
    for item in items.clone() {
        if dims.is_empty() {
            dims = item.dims().to_vec();
        }
        if item.dims().len() != dims.len() {
            return Err(KernelError::Invalid(
                "elements of different ranks make no batch".to_owned(),
            ));
        }
        for (most, &d) in dims.iter_mut().zip(item.dims()) {
            *most = d.max(*most);
        }
    }
    items
        .map(|item| padded(memory, item, &dims, None))
        .collect()
}
