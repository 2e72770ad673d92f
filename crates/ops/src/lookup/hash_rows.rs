//! Entries of HashTable and MutableHashTable: a hash map from keys to rows of values.

use std::sync::Arc;

use thalweg_device::{KernelError, TensorCx};
use thalweg_tensor::{DType, Memory, Reservation, Tensor};

use super::cells::{Cells, Column, Key, Source, ticked};
use super::key_map::KeyMap;

/// Rows that a table has room for at first.
const FIRST_ROWS: usize = 16;

/// Treatment of a key that the table has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// Its value is replaced.
    Replace,
    /// Another value is an error.
    Refuse,
}

pub(super) struct HashRows {
    map: KeyMap,
    values: Column,
    /// Rows of removed keys.
    free: Vec<usize>,
    /// Rows that were used.
    used: usize,
    /// Memory of `free`, which may have a place for each row.
    held: Reservation,
}

impl HashRows {
    /// A table without entries, whose values are rows of `width` elements.
    pub(super) fn new(
        key: DType,
        value: DType,
        width: usize,
        memory: &Arc<Memory>,
    ) -> Result<HashRows, KernelError> {
        Ok(HashRows {
            map: KeyMap::new(key, memory),
            values: Column::new(value, width, memory)?,
            free: Vec::new(),
            used: 0,
            held: Reservation::of(Some(memory)),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    /// A row for a new key.
    fn free_row(&mut self) -> Result<usize, KernelError> {
        if let Some(row) = self.free.pop() {
            return Ok(row);
        }
        if self.used == self.values.rows() {
            self.values.grow((2 * self.used).max(FIRST_ROWS))?;
        }
        let bytes = 2 * size_of::<usize>();
        if !self.held.grow(bytes) {
            return Err(KernelError::Memory { bytes });
        }
        self.used += 1;
        Ok(self.used - 1)
    }

    /// Adds an entry: row `row` of `values` under a key.
    pub(super) fn put(
        &mut self,
        key: Key<'_>,
        values: Cells<'_>,
        row: usize,
        known: Known,
    ) -> Result<(), KernelError> {
        match (self.map.get(key), known) {
            (Some(at), Known::Replace) => self.values.set(at, values, row),
            (Some(at), Known::Refuse) => match self.values.equals(at, values, row)? {
                true => Ok(()),
                false => Err(KernelError::FailedPrecondition(format!(
                    "HashTable has different value for same key: key {key} has two values, give it one"
                ))),
            },
            (None, _) => {
                let at = self.free_row()?;
                let added = self.values.set(at, values, row);
                let added = added.and_then(|()| self.map.insert(key, at));
                added.inspect_err(|_| self.free.push(at))
            }
        }
    }

    /// Adds entries, one for each key.
    pub(super) fn insert(
        &mut self,
        cx: &TensorCx<'_>,
        keys: &Tensor,
        values: &Tensor,
        known: Known,
    ) -> Result<(), KernelError> {
        let (keys, values) = (Cells::of(keys)?.keys()?, Cells::of(values)?);
        for i in ticked(cx.stop_check(), keys.len()) {
            let i = i?;
            self.put(keys.at(i), values, i, known)?;
        }
        Ok(())
    }

    /// Removes keys; those that are not there are passed over.
    pub(super) fn remove(&mut self, cx: &TensorCx<'_>, keys: &Tensor) -> Result<(), KernelError> {
        let keys = Cells::of(keys)?.keys()?;
        for i in ticked(cx.stop_check(), keys.len()) {
            self.free.extend(self.map.remove(keys.at(i?)));
        }
        Ok(())
    }

    /// The values of keys, in a tensor of dimensions `dims`. A key without one gets its own default, or the only one.
    pub(super) fn find(
        &self,
        cx: &TensorCx<'_>,
        keys: &Tensor,
        default: &Tensor,
        default_each: bool,
        dims: &[usize],
    ) -> Result<Tensor, KernelError> {
        let keys = Cells::of(keys)?.keys()?;
        let sources = ticked(cx.stop_check(), keys.len()).map(|i| {
            let i = i?;
            let default = if default_each { i } else { 0 };
            let found = self.map.get(keys.at(i));
            Ok(found.map_or(Source::Default(default), Source::Row))
        });
        self.values.take(cx, sources, Cells::of(default)?, dims)
    }

    /// All keys, and their values with dimensions `value_dims` each.
    pub(super) fn export(
        &self,
        cx: &TensorCx<'_>,
        key: DType,
        value_dims: &[usize],
    ) -> Result<Vec<Tensor>, KernelError> {
        let all = self.map.by_row();
        let texts = all.iter().filter_map(|(_, key)| match key {
            Key::String(text) => Some(*text),
            Key::Int(_) => None,
        });
        let numbers = all.iter().filter_map(|(_, key)| match key {
            Key::Int(number) => Some(*number),
            Key::String(_) => None,
        });
        let keys = match key {
            DType::String => cx.strings_of(&[all.len()], texts)?,
            DType::I32 => {
                let mut keys = cx.zeros(DType::I32, &[all.len()])?;
                let places = keys.as_mut_slice::<i32>()?.iter_mut();
                // Each was an i32 before.
                places.zip(numbers).for_each(|(to, key)| *to = key as i32);
                keys
            }
            _ => {
                let mut keys = cx.zeros(DType::I64, &[all.len()])?;
                let places = keys.as_mut_slice::<i64>()?.iter_mut();
                places.zip(numbers).for_each(|(to, key)| *to = key);
                keys
            }
        };
        let dims = [&[all.len()], value_dims].concat();
        let values = self
            .values
            .export(cx, all.iter().map(|(row, _)| *row), &dims)?;
        Ok(vec![keys, values])
    }
}
