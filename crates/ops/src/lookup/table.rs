//! A lookup table that steps share. The rules are those of TensorFlow's `LookupInterface` and its tables.

use std::sync::RwLock;

use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{DType, Shape, Tensor};

use super::dense_rows::{BucketSettings, DenseRows};
use super::hash_rows::{HashRows, Known};

/// Entries of a table.
pub(super) enum Entries {
    /// Those of its initializer, once it has run.
    Fixed(RwLock<Option<HashRows>>),
    Mutable(RwLock<HashRows>),
    Dense(BucketSettings, RwLock<DenseRows>),
}

/// A lookup table: entries from keys to values of fixed dtypes and shapes.
pub(super) struct Table {
    /// Name for error messages.
    pub(super) name: String,
    pub(super) key: DType,
    pub(super) value: DType,
    /// Dimensions of a key and of a value.
    pub(super) key_dims: Vec<usize>,
    pub(super) value_dims: Vec<usize>,
    pub(super) entries: Entries,
}

fn shape_error(expected: &[usize], what: &str, found: &Tensor) -> KernelError {
    KernelError::Invalid(format!(
        "Expected shape {} for {what}, got {}",
        Shape::known(expected),
        found.shape()
    ))
}

impl Table {
    fn not_initialized(&self) -> KernelError {
        KernelError::UninitializedTable {
            table: self.name.clone(),
        }
    }

    fn fixed(&self, what: &str) -> KernelError {
        KernelError::Invalid(format!(
            "table '{}' is a HashTable, which does not {what}: use a MutableHashTable",
            self.name
        ))
    }

    /// Fails unless keys and values have the table's dtypes.
    pub(super) fn check_dtypes(&self, key: DType, value: DType) -> Result<(), KernelError> {
        for (what, expected, found) in [("Key", self.key, key), ("Value", self.value, value)] {
            if expected != found {
                return Err(KernelError::Invalid(format!(
                    "{what} must be type {expected} but got {found}, for table '{}'",
                    self.name
                )));
            }
        }
        Ok(())
    }

    /// Dimensions of the values of keys, and the number of keys.
    fn value_dims_of(&self, keys: &Tensor) -> Result<(Vec<usize>, usize), KernelError> {
        let Some(before) = keys.dims().strip_suffix(&self.key_dims[..]) else {
            return Err(KernelError::Invalid(format!(
                "Input key shape {} must end with the table's key shape {}",
                keys.shape(),
                Shape::known(&self.key_dims)
            )));
        };
        let dims = [before, &self.value_dims[..]].concat();
        let Entries::Dense(..) = &self.entries else {
            return Ok((dims, keys.len()));
        };
        // Such a table takes one key or a list of keys.
        let count = keys.dims().first().copied().unwrap_or(1);
        let width = self.key_dims.iter().product::<usize>();
        if keys.len() != count * width {
            let expected = [&[count], &self.key_dims[..]].concat();
            return Err(KernelError::Invalid(format!(
                "Expected key shape {} got {}",
                Shape::known(&expected),
                keys.shape()
            )));
        }
        Ok((dims, count))
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        match &self.entries {
            Entries::Fixed(rows) => rows.read().unpoisoned().as_ref().map_or(0, HashRows::len),
            Entries::Mutable(rows) => rows.read().unpoisoned().len(),
            Entries::Dense(_, rows) => rows.read().unpoisoned().len(),
        }
    }

    /// The values of keys; `default` is the value of all that are not there, or has one for each key.
    pub(super) fn find(
        &self,
        cx: &TensorCx<'_>,
        keys: &Tensor,
        default: &Tensor,
    ) -> Result<Tensor, KernelError> {
        self.check_dtypes(keys.dtype(), default.dtype())?;
        let (dims, count) = self.value_dims_of(keys)?;
        if *default.dims() != self.value_dims && *default.dims() != dims {
            return Err(KernelError::Invalid(format!(
                "Expected shape {} or {} for default value, got {}",
                Shape::known(&self.value_dims),
                Shape::known(&dims),
                default.shape()
            )));
        }
        match &self.entries {
            Entries::Fixed(rows) => {
                let rows = rows.read().unpoisoned();
                let rows = rows.as_ref().ok_or_else(|| self.not_initialized())?;
                rows.find(cx, keys, default, false, &dims)
            }
            Entries::Mutable(rows) => {
                let each = *default.dims() == dims;
                rows.read()
                    .unpoisoned()
                    .find(cx, keys, default, each, &dims)
            }
            Entries::Dense(settings, rows) => {
                let rows = rows.read().unpoisoned();
                rows.find(cx, settings, (keys, count), default, &dims)
            }
        }
    }

    /// Fails unless there is a value of the right shape for each key; returns the number of keys.
    fn check_values(&self, keys: &Tensor, values: &Tensor) -> Result<usize, KernelError> {
        self.check_dtypes(keys.dtype(), values.dtype())?;
        let (dims, count) = self.value_dims_of(keys)?;
        match *values.dims() == dims {
            true => Ok(count),
            false => Err(shape_error(&dims, "value", values)),
        }
    }

    /// Adds entries, or replaces their values.
    pub(super) fn insert(
        &self,
        cx: &TensorCx<'_>,
        keys: &Tensor,
        values: &Tensor,
    ) -> Result<(), KernelError> {
        let count = self.check_values(keys, values)?;
        match &self.entries {
            Entries::Fixed(_) => Err(self.fixed("take entries after its initializer")),
            Entries::Mutable(rows) => {
                let mut rows = rows.write().unpoisoned();
                rows.insert(cx, keys, values, Known::Replace)
            }
            Entries::Dense(settings, rows) => {
                let mut rows = rows.write().unpoisoned();
                rows.insert(cx, settings, (keys, values), count)
            }
        }
    }

    /// Removes the entries of keys.
    pub(super) fn remove(&self, cx: &TensorCx<'_>, keys: &Tensor) -> Result<(), KernelError> {
        self.check_dtypes(keys.dtype(), self.value)?;
        let (_, count) = self.value_dims_of(keys)?;
        match &self.entries {
            Entries::Fixed(_) => Err(self.fixed("lose entries")),
            Entries::Mutable(rows) => rows.write().unpoisoned().remove(cx, keys),
            Entries::Dense(settings, rows) => {
                let mut rows = rows.write().unpoisoned();
                rows.remove(cx, settings, keys, count)
            }
        }
    }

    /// All keys and all values.
    pub(super) fn export(&self, cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
        match &self.entries {
            Entries::Fixed(rows) => {
                let rows = rows.read().unpoisoned();
                let rows = rows.as_ref().ok_or_else(|| self.not_initialized())?;
                rows.export(cx, self.key, &self.value_dims)
            }
            Entries::Mutable(rows) => {
                let rows = rows.read().unpoisoned();
                rows.export(cx, self.key, &self.value_dims)
            }
            Entries::Dense(settings, rows) => rows.read().unpoisoned().export(cx, settings),
        }
    }

    /// Replaces all entries by those of an export.
    pub(super) fn import(
        &self,
        cx: &TensorCx<'_>,
        keys: &Tensor,
        values: &Tensor,
    ) -> Result<(), KernelError> {
        match &self.entries {
            Entries::Fixed(_) => self.initialize_from(cx, keys, values),
            Entries::Mutable(rows) => {
                self.check_values(keys, values)?;
                let mut new = self.hash_rows(cx)?;
                new.insert(cx, keys, values, Known::Replace)?;
                *rows.write().unpoisoned() = new;
                Ok(())
            }
            Entries::Dense(settings, rows) => {
                self.check_dtypes(keys.dtype(), values.dtype())?;
                // An export has matrices, of scalars too.
                let buckets = keys.dims().first().copied().unwrap_or(0);
                let expected = [buckets, self.value_dims.iter().product()];
                if *values.dims() != expected {
                    return Err(shape_error(&expected, "value", values));
                }
                let new = DenseRows::import(cx, settings, keys, values)?;
                *rows.write().unpoisoned() = new;
                Ok(())
            }
        }
    }

    /// An empty map for the entries of this table.
    pub(super) fn hash_rows(&self, cx: &TensorCx<'_>) -> Result<HashRows, KernelError> {
        let width = self.value_dims.iter().product();
        HashRows::new(self.key, self.value, width, cx.memory())
    }

    /// Adds entries to those that an initializer collects.
    pub(super) fn add(
        &self,
        cx: &TensorCx<'_>,
        rows: &mut HashRows,
        keys: &Tensor,
        values: &Tensor,
    ) -> Result<(), KernelError> {
        self.check_values(keys, values)?;
        rows.insert(cx, keys, values, Known::Refuse)
    }

    /// Gives a HashTable its entries. One that has as many already stays as it is.
    pub(super) fn initialize_from(
        &self,
        cx: &TensorCx<'_>,
        keys: &Tensor,
        values: &Tensor,
    ) -> Result<(), KernelError> {
        self.check_values(keys, values)?;
        if keys.is_empty() {
            return Err(KernelError::Invalid(format!(
                "keys and values cannot be empty tensors: table '{}' needs one entry",
                self.name
            )));
        }
        let fill = |rows: &mut HashRows| rows.insert(cx, keys, values, Known::Refuse);
        match self.initialize(cx, fill)? {
            None => Ok(()),
            Some(entries) if entries == keys.len() => Ok(()),
            Some(entries) => Err(KernelError::FailedPrecondition(format!(
                "Table was already initialized with different data: table '{}' has {entries} entries, not {}",
                self.name,
                keys.len()
            ))),
        }
    }

    /// Fills a HashTable that has no entries yet; returns the number of those that it has already.
    pub(super) fn initialize(
        &self,
        cx: &TensorCx<'_>,
        fill: impl FnOnce(&mut HashRows) -> Result<(), KernelError>,
    ) -> Result<Option<usize>, KernelError> {
        let Entries::Fixed(own) = &self.entries else {
            return Err(KernelError::Invalid(format!(
                "Table '{}' is not initializable: insert its entries",
                self.name
            )));
        };
        if let Some(rows) = &*own.read().unpoisoned() {
            return Ok(Some(rows.len()));
        }
        let mut rows = self.hash_rows(cx)?;
        fill(&mut rows)?;
        let mut own = own.write().unpoisoned();
        // Another step may have been faster.
        if let Some(others) = &*own {
            return Ok(Some(others.len()));
        }
        *own = Some(rows);
        Ok(None)
    }
}
