//! Variables: values that outlive steps.
//!
//! ```
//! use thalweg_device::Variable;
//! use thalweg_tensor::{DType, Shape, Tensor};
//!
//! # fn main() -> Result<(), thalweg_device::KernelError> {
//! let w = Variable::new("w", DType::F32, Shape::from([2]));
//! assert!(w.value().is_none());
//! w.assign(Tensor::vector(&[1.0f32, 2.0]))?;
//! assert_eq!(w.read()?, Tensor::vector(&[1.0f32, 2.0]));
//! // Its dtype and shape stay.
//! assert!(w.assign(Tensor::scalar(1i32)).is_err());
//! # Ok(())
//! # }
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{Buffer, DType, Shape, Tensor};

use crate::error::KernelError;
use crate::gate::Gate;
use crate::gpu::{Address, Block};

/// Number of bytes from which on values leave their memory to a later update.
const MIN_SPARE_BYTES: usize = 64 << 10;

/// A value on a device that steps read and update.
///
/// A read shares the value's buffer; an update writes it in place if nothing else holds it, and otherwise into a copy,
/// so that values that were read stay as they were.
#[derive(Debug)]
pub struct Variable {
    name: String,
    dtype: DType,
    shape: Shape,
    value: Mutex<Option<Tensor>>,
    /// The value before an update that wrote elsewhere, because the value was held: the next such update writes there.
    /// The system need not allocate this memory anew.
    spare: Mutex<Option<Tensor>>,
    resident: Option<Resident>,
    gate: Gate,
    /// Another variable has taken its name.
    retired: AtomicBool,
}

/// A variable's memory on a GPU, which is the same for as long as it lives.
#[derive(Debug)]
pub struct Resident {
    block: Block,
    initialized: AtomicBool,
}

impl Resident {
    /// The memory of its elements.
    pub fn address(&self) -> Address {
        self.block.address()
    }

    /// `true` if it has a value.
    pub fn is_initialized(&self) -> bool {
        self.initialized.load(Ordering::Acquire)
    }

    /// Marks it as initialized: the commands that make its value were submitted to the GPU.
    pub fn initialize(&self) {
        self.initialized.store(true, Ordering::Release);
    }
}

impl Variable {
    /// A variable without a value.
    pub fn new(name: &str, dtype: DType, shape: Shape) -> Variable {
        Variable {
            name: name.to_owned(),
            dtype,
            shape,
            value: Mutex::new(None),
            spare: Mutex::new(None),
            resident: None,
            gate: Gate::default(),
            retired: AtomicBool::new(false),
        }
    }

    /// Marks it as replaced by another variable of its name.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    /// `true` if another variable has taken its name.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Returns the gate that keeps steps that must not wait apart from updates of this variable.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// A variable without a value whose elements are in a GPU's memory, and not in tensors.
    pub fn on_gpu(name: &str, dtype: DType, shape: Shape, block: Block) -> Variable {
        Variable {
            resident: Some(Resident {
                block,
                initialized: AtomicBool::new(false),
            }),
            ..Variable::new(name, dtype, shape)
        }
    }

    /// Its place in a GPU's memory, if it is on one.
    pub fn resident(&self) -> Option<&Resident> {
        self.resident.as_ref()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The dtype of its values.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The shape that its values have.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Its value, or `None` before the first assignment and of one on a GPU.
    pub fn value(&self) -> Option<Tensor> {
        self.lock().clone()
    }

    /// Its value.
    ///
    /// # Errors
    /// [`KernelError::Uninitialized`].
    pub fn read(&self) -> Result<Tensor, KernelError> {
        self.value().ok_or_else(|| self.uninitialized())
    }

    /// Gives it a value.
    ///
    /// # Errors
    /// [`KernelError::Variable`] where dtype or shape are not the variable's.
    pub fn assign(&self, value: Tensor) -> Result<(), KernelError> {
        if value.dtype() != self.dtype || !self.shape.admits(value.dims()) {
            return Err(KernelError::Variable {
                variable: self.name.clone(),
                expected_dtype: self.dtype,
                expected: self.shape.clone(),
                found_dtype: value.dtype(),
                found: value.shape(),
            });
        }
        *self.lock() = Some(value);
        Ok(())
    }

    /// Returns the tensor that an update of all of `value`, which is this variable's, is to write: `None` where nothing
    /// else holds `value`, which can then be written as it is.
    ///
    /// # Errors
    /// As [`Tensor::successor`].
    pub fn successor(&self, value: &mut Tensor) -> Result<Option<Tensor>, KernelError> {
        if value.is_alone() {
            return Ok(None);
        }
        if let Some(mut spare) = self.lock_spare().take()
            && spare.dims() == value.dims()
            && spare.dtype() == value.dtype()
            && spare.is_alone()
        {
            return Ok(Some(spare));
        }
        Ok(value.successor()?)
    }

    /// Keeps the earlier value for [`Variable::successor`], if it is large.
    pub fn keep_spare(&self, old: Tensor) {
        // Those in shared memory have a pool of their own.
        let is_own = |b: &Arc<Buffer>| b.len() >= MIN_SPARE_BYTES && b.segment().is_none();
        if old.buffer().is_some_and(is_own) {
            *self.lock_spare() = Some(old);
        }
    }

    /// Frees the memory that is kept for later updates.
    pub fn release_spare(&self) {
        *self.lock_spare() = None;
    }

    fn lock_spare(&self) -> MutexGuard<'_, Option<Tensor>> {
        self.spare.lock().unpoisoned()
    }

    /// The error of a read before the first assignment.
    pub fn uninitialized(&self) -> KernelError {
        KernelError::Uninitialized {
            variable: self.name.clone(),
        }
    }

    /// Locks its value until the guard is dropped.
    pub fn lock(&self) -> MutexGuard<'_, Option<Tensor>> {
        // A kernel that panicked in the middle of an update leaves a whole tensor, if a half
        // updated one; the panic itself has ended its step.
        self.value.lock().unpoisoned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Elements of a value that leaves its memory to a later update.
    const LARGE: usize = MIN_SPARE_BYTES / 4;

    fn assigned(len: usize) -> Variable {
        let v = Variable::new("v", DType::F32, Shape::known(&[len]));
        v.assign(Tensor::zeros(DType::F32, &[len]).unwrap())
            .unwrap();
        v
    }

    fn address(tensor: &Tensor) -> *mut u8 {
        tensor.buffer().unwrap().as_ptr()
    }

    /// Writes a value over all elements, as an update does.
    fn renew(v: &Variable, value: f32) {
        let mut guard = v.lock();
        let own = guard.as_mut().unwrap();
        if let Some(next) = v.successor(own).unwrap() {
            let old = guard.replace(next).unwrap();
            v.keep_spare(old);
        }
        let own = guard.as_mut().unwrap();
        own.as_mut_slice::<f32>().unwrap().fill(value);
    }

    #[test]
    fn a_value_of_another_dtype_or_shape_is_refused_and_the_old_one_stays() {
        let open = Shape::partial([None, Some(2)]);
        let cases: [(&Shape, Tensor, bool); 5] = [
            (&open, Tensor::zeros(DType::F32, &[3, 2]).unwrap(), true),
            (&open, Tensor::zeros(DType::F32, &[0, 2]).unwrap(), true),
            (&open, Tensor::zeros(DType::F32, &[3, 1]).unwrap(), false),
            (&open, Tensor::zeros(DType::F32, &[6]).unwrap(), false),
            (&open, Tensor::zeros(DType::F64, &[3, 2]).unwrap(), false),
        ];
        for (shape, value, fits) in cases {
            let v = Variable::new("v", DType::F32, shape.clone());
            let old = Tensor::zeros(DType::F32, &[1, 2]).unwrap();
            v.assign(old.clone()).unwrap();
            let found = format!("{}{}", value.dtype(), value.shape());
            match v.assign(value.clone()) {
                Ok(()) => assert!(fits && v.read().unwrap() == value, "{found}"),
                Err(e) => {
                    let text = format!("variable 'v' holds {found}, the step takes it as f32[?,2]");
                    assert_eq!(e.to_string(), text);
                    assert!(!fits && v.read().unwrap() == old);
                }
            }
        }
    }

    #[test]
    fn a_read_before_the_first_assignment_names_the_variable() {
        let v = Variable::new("v", DType::F32, Shape::scalar());
        assert_eq!(v.value(), None);
        let text = "Attempting to use uninitialized value v: run the graph's initializers first";
        assert_eq!(v.read().unwrap_err().to_string(), text);
    }

    #[test]
    fn an_update_is_in_place_where_nothing_else_holds_the_value() {
        let v = assigned(4);
        let before = address(&v.read().unwrap());
        renew(&v, 1.0);
        assert_eq!(address(&v.read().unwrap()), before);
    }

    #[test]
    fn a_reader_keeps_its_bytes_through_later_updates() {
        let v = assigned(4);
        let mut readers = Vec::new();
        for value in [1.0f32, 2.0, 3.0] {
            renew(&v, value);
            readers.push(v.read().unwrap());
        }
        for (reader, value) in readers.iter().zip([1.0f32, 2.0, 3.0]) {
            assert_eq!(reader.to_vec::<f32>().unwrap(), [value; 4]);
        }
    }

    #[test]
    fn a_large_value_leaves_its_memory_to_the_update_after_the_next() {
        for (len, reused) in [(LARGE, true), (LARGE - 1, false)] {
            let v = assigned(len);
            let first = v.read().unwrap();
            let place = address(&first);
            renew(&v, 1.0);
            let second = v.read().unwrap();
            assert_ne!(address(&second), place);
            drop(first);
            renew(&v, 2.0);
            let kept = v.lock_spare().is_some();
            assert_eq!(
                address(&v.read().unwrap()) == place && kept,
                reused,
                "{len}"
            );
            assert_eq!(second.to_vec::<f32>().unwrap()[0], 1.0);
        }
    }

    #[test]
    fn memory_that_a_reader_still_holds_is_not_written() {
        let v = assigned(LARGE);
        let first = v.read().unwrap();
        renew(&v, 1.0);
        let second = v.read().unwrap();
        // The spare is `first`, which is held.
        renew(&v, 2.0);
        let third = v.read().unwrap();
        let values = [&first, &second, &third].map(|t| t.as_slice::<f32>().unwrap()[LARGE - 1]);
        assert_eq!(values, [0.0, 1.0, 2.0]);
    }

    #[test]
    fn a_spare_of_another_size_is_not_taken_and_one_can_be_released() {
        let v = assigned(LARGE);
        v.keep_spare(Tensor::zeros(DType::F32, &[LARGE + 1]).unwrap());
        let held = v.read().unwrap();
        renew(&v, 1.0);
        assert_eq!(v.read().unwrap().len(), held.len());
        assert!(v.lock_spare().is_some());
        v.release_spare();
        assert!(v.lock_spare().is_none());
    }
}
