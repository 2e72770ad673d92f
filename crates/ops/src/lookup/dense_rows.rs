//! Entries of MutableDenseHashTable: open addressing with quadratic probing. The places of keys are TensorFlow's, since
//! an export has the buckets as they are.

use std::sync::Arc;

use thalweg_device::{KernelError, StopCheck, TensorCx};
use thalweg_tensor::{DType, Memory, Shape, Tensor};

use super::cells::{Cells, Column, Key, Keys, Source, ticked};
use crate::strings::murmur;

/// Settings of a table of buckets.
pub(super) struct BucketSettings {
    /// Key of a bucket that was never used.
    pub(super) empty_key: Tensor,
    /// Key of a bucket whose entry was removed.
    pub(super) deleted_key: Tensor,
    /// Part of the buckets that may be used.
    pub(super) max_load_factor: f32,
    pub(super) value: DType,
    /// Elements of a value.
    pub(super) value_width: usize,
    pub(super) memory: Arc<Memory>,
}

impl BucketSettings {
    /// Checks the settings.
    ///
    /// # Errors
    /// The two keys are equal, or have other shapes than keys can have; the load is no part.
    pub(super) fn check(&self) -> Result<(), KernelError> {
        let (empty, deleted) = (&self.empty_key, &self.deleted_key);
        if !(self.max_load_factor > 0.0 && self.max_load_factor < 1.0) {
            return Err(KernelError::Invalid(format!(
                "max_load_factor must be between 0 and 1, got {}",
                self.max_load_factor
            )));
        }
        if empty.dims().len() > 1 {
            return Err(KernelError::Invalid(format!(
                "Empty key must be a scalar or a vector, got shape {}",
                empty.shape()
            )));
        }
        if empty.dims() != deleted.dims() {
            return Err(KernelError::Invalid(format!(
                "Empty and deleted keys must have same shape, got shapes: {} and {}",
                empty.shape(),
                deleted.shape()
            )));
        }
        let (a, b) = (Cells::of(empty)?.keys()?, Cells::of(deleted)?.keys()?);
        if same(a, 0, b, 0, empty.len()) {
            return Err(KernelError::Invalid(
                "Empty and deleted keys cannot be equal".to_owned(),
            ));
        }
        Ok(())
    }

    fn key_width(&self) -> usize {
        self.empty_key.len()
    }
}

/// Keys and values by bucket.
pub(super) struct DenseRows {
    keys: Column,
    values: Column,
    buckets: usize,
    entries: usize,
}

/// `true` if row `i` of `a` has the elements of row `j` of `b`.
fn same(a: Keys<'_>, i: usize, b: Keys<'_>, j: usize, width: usize) -> bool {
    (0..width).all(|k| a.at(i * width + k) == b.at(j * width + k))
}

/// TensorFlow's hash of a key.
fn hash(keys: Keys<'_>, row: usize, width: usize) -> u64 {
    let scalar = |i: usize| match keys.at(row * width + i) {
        Key::Int(key) => key as u64,
        Key::String(key) => murmur(key),
    };
    if width == 1 {
        return scalar(0);
    }
    (0..width).map(scalar).fold(0, |all: u64, one| {
        let mixed = one
            .wrapping_add(0x9e37_79b9_7f4a_7800)
            .wrapping_add(all << 10)
            .wrapping_add(all >> 4);
        all ^ mixed
    })
}

/// Fails unless this is a number of buckets.
fn check_buckets(buckets: usize) -> Result<(), KernelError> {
    match buckets >= 4 && buckets.is_power_of_two() {
        true => Ok(()),
        false => Err(KernelError::Invalid(format!(
            "Number of buckets must be at least 4 and a power of 2, got: {buckets}"
        ))),
    }
}

impl DenseRows {
    /// A table of empty buckets.
    pub(super) fn new(
        settings: &BucketSettings,
        buckets: usize,
        mut stop: StopCheck<'_>,
    ) -> Result<DenseRows, KernelError> {
        check_buckets(buckets)?;
        let dtype = settings.empty_key.dtype();
        let mut keys = Column::new(dtype, settings.key_width(), &settings.memory)?;
        let mut values = Column::new(settings.value, settings.value_width, &settings.memory)?;
        keys.grow(buckets)?;
        values.grow(buckets)?;
        let empty = Cells::of(&settings.empty_key)?;
        for at in 0..buckets {
            stop.tick()?;
            keys.set(at, empty, 0)?;
        }
        Ok(DenseRows {
            keys,
            values,
            buckets,
            entries: 0,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.entries
    }

    /// The bucket of a key, and whether the key is there. With `reuse`, a bucket of a removed key will do for a new one.
    fn seek(
        &self,
        settings: &BucketSettings,
        (keys, row): (Keys<'_>, usize),
        reuse: bool,
        stop: &mut StopCheck<'_>,
    ) -> Result<(usize, bool), KernelError> {
        let width = settings.key_width();
        let (own, empty) = (self.keys.cells().keys()?, Cells::of(&settings.empty_key)?);
        let (empty, deleted) = (empty.keys()?, Cells::of(&settings.deleted_key)?.keys()?);
        let is = |other, of: &str| match same(other, 0, keys, row, width) {
            true => Err(KernelError::Invalid(format!(
                "Using the {of} as a table key is not allowed: give the table another {of}"
            ))),
            false => Ok(()),
        };
        is(empty, "empty_key")?;
        is(deleted, "deleted_key")?;
        let mask = self.buckets - 1;
        let mut at = hash(keys, row, width) as usize & mask;
        for probe in 1..=self.buckets {
            stop.tick()?;
            if same(own, at, keys, row, width) {
                return Ok((at, true));
            }
            if same(own, at, empty, 0, width) || (reuse && same(own, at, deleted, 0, width)) {
                return Ok((at, false));
            }
            at = (at + probe) & mask;
        }
        Err(KernelError::Invalid(
            "the table has no empty bucket: it was imported full".to_owned(),
        ))
    }

    /// Adds entries: `count` rows of keys and values.
    pub(super) fn insert(
        &mut self,
        cx: &TensorCx<'_>,
        settings: &BucketSettings,
        (keys, values): (&Tensor, &Tensor),
        count: usize,
    ) -> Result<(), KernelError> {
        let pending = (self.entries + count) as f32;
        let fits = |buckets: usize| pending <= buckets as f32 * settings.max_load_factor;
        let mut buckets = self.buckets;
        while !fits(buckets) {
            let more = buckets.checked_mul(2);
            buckets = more.ok_or(KernelError::Memory { bytes: usize::MAX })?;
        }
        if buckets != self.buckets {
            self.rebucket(cx, settings, buckets)?;
        }
        let (keys, values) = (Cells::of(keys)?, Cells::of(values)?);
        let mut stop = cx.stop_check();
        (0..count).try_for_each(|row| self.put(settings, keys, values, row, &mut stop))
    }

    fn put(
        &mut self,
        settings: &BucketSettings,
        keys: Cells<'_>,
        values: Cells<'_>,
        row: usize,
        stop: &mut StopCheck<'_>,
    ) -> Result<(), KernelError> {
        let (at, known) = self.seek(settings, (keys.keys()?, row), true, stop)?;
        self.values.set(at, values, row)?;
        if !known {
            self.keys.set(at, keys, row)?;
            self.entries += 1;
        }
        Ok(())
    }

    /// Moves all entries to a table of so many buckets.
    fn rebucket(
        &mut self,
        cx: &TensorCx<'_>,
        settings: &BucketSettings,
        buckets: usize,
    ) -> Result<(), KernelError> {
        let mut stop = cx.stop_check();
        let mut larger = DenseRows::new(settings, buckets, cx.stop_check())?;
        let (keys, values) = (self.keys.cells(), self.values.cells());
        for at in (0..self.buckets).filter(|at| self.is_used(settings, *at)) {
            larger.put(settings, keys, values, at, &mut stop)?;
        }
        *self = larger;
        Ok(())
    }

    /// `true` if a bucket has an entry.
    fn is_used(&self, settings: &BucketSettings, at: usize) -> bool {
        let is = |key: &Tensor| {
            let key = Cells::of(key)?;
            self.keys.equals(at, key, 0)
        };
        !(is(&settings.empty_key).unwrap_or(true) || is(&settings.deleted_key).unwrap_or(true))
    }

    /// Removes `count` keys; those that are not there are passed over.
    pub(super) fn remove(
        &mut self,
        cx: &TensorCx<'_>,
        settings: &BucketSettings,
        keys: &Tensor,
        count: usize,
    ) -> Result<(), KernelError> {
        let (keys, mut stop) = (Cells::of(keys)?.keys()?, cx.stop_check());
        let deleted = Cells::of(&settings.deleted_key)?;
        for row in 0..count {
            if let (at, true) = self.seek(settings, (keys, row), false, &mut stop)? {
                self.keys.set(at, deleted, 0)?;
                self.entries -= 1;
            }
        }
        Ok(())
    }

    /// The values of `count` keys, in a tensor of dimensions `dims`.
    pub(super) fn find(
        &self,
        cx: &TensorCx<'_>,
        settings: &BucketSettings,
        (keys, count): (&Tensor, usize),
        default: &Tensor,
        dims: &[usize],
    ) -> Result<Tensor, KernelError> {
        let (keys, mut stop) = (Cells::of(keys)?.keys()?, cx.stop_check());
        let sources = (0..count).map(|row| {
            Ok(match self.seek(settings, (keys, row), false, &mut stop)? {
                (at, true) => Source::Row(at),
                (_, false) => Source::Default(0),
            })
        });
        self.values.take(cx, sources, Cells::of(default)?, dims)
    }

    /// All buckets: keys and values, as matrices.
    pub(super) fn export(
        &self,
        cx: &TensorCx<'_>,
        settings: &BucketSettings,
    ) -> Result<Vec<Tensor>, KernelError> {
        let matrix =
            |column: &Column, width| column.export(cx, 0..self.buckets, &[self.buckets, width]);
        Ok(vec![
            matrix(&self.keys, settings.key_width())?,
            matrix(&self.values, settings.value_width)?,
        ])
    }

    /// A table of the buckets of an export.
    pub(super) fn import(
        cx: &TensorCx<'_>,
        settings: &BucketSettings,
        keys: &Tensor,
        values: &Tensor,
    ) -> Result<DenseRows, KernelError> {
        let expected = [
            keys.dims().first().copied().unwrap_or(0),
            settings.key_width(),
        ];
        if *keys.dims() != expected {
            return Err(KernelError::Invalid(format!(
                "Expected shape {} for keys, got {}",
                Shape::known(&expected),
                keys.shape()
            )));
        }
        let mut rows = DenseRows::new(settings, expected[0], cx.stop_check())?;
        let (keys, values) = (Cells::of(keys)?, Cells::of(values)?);
        for at in ticked(cx.stop_check(), rows.buckets) {
            let at = at?;
            rows.keys.set(at, keys, at)?;
            rows.values.set(at, values, at)?;
            rows.entries += usize::from(rows.is_used(settings, at));
        }
        Ok(rows)
    }
}
