//! Elements of tables: rows of one dtype, as views and as columns that grow.

use std::sync::Arc;

use thalweg_device::{KernelError, StopCheck, TensorCx};
use thalweg_tensor::{DType, Memory, Reservation, Strings, Tensor, dispatch};

/// Bytes of a string beside its own: its place in the column, and the allocator's.
const STRING_BYTES: usize = size_of::<Box<[u8]>>() + 16;

/// A key of a table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Key<'a> {
    Int(i64),
    String(&'a [u8]),
}

impl std::fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Key::Int(key) => key.fmt(f),
            Key::String(key) => write!(f, "'{}'", key.escape_ascii()),
        }
    }
}

/// Keys, element by element.
#[derive(Clone, Copy)]
pub(super) enum Keys<'a> {
    I32(&'a [i32]),
    I64(&'a [i64]),
    Strings(StringCells<'a>),
}

impl<'a> Keys<'a> {
    /// Key number `i`.
    pub(super) fn at(self, i: usize) -> Key<'a> {
        match self {
            Keys::I32(all) => Key::Int(all[i].into()),
            Keys::I64(all) => Key::Int(all[i]),
            Keys::Strings(all) => Key::String(all.at(i)),
        }
    }

    pub(super) fn len(self) -> usize {
        match self {
            Keys::I32(all) => all.len(),
            Keys::I64(all) => all.len(),
            Keys::Strings(all) => all.len(),
        }
    }
}

/// Elements of a tensor or of a column.
#[derive(Clone, Copy)]
pub(super) enum Cells<'a> {
    Plain(&'a Tensor),
    Strings(StringCells<'a>),
}

/// Strings of a tensor or of a column.
#[derive(Clone, Copy)]
pub(super) enum StringCells<'a> {
    Tensor(Strings<'a>),
    Column(&'a [Box<[u8]>]),
}

impl<'a> StringCells<'a> {
    fn at(self, i: usize) -> &'a [u8] {
        match self {
            StringCells::Tensor(all) => all.range(i..i + 1).bytes(),
            StringCells::Column(all) => &all[i],
        }
    }

    fn len(self) -> usize {
        match self {
            StringCells::Tensor(all) => all.len(),
            StringCells::Column(all) => all.len(),
        }
    }

    /// The strings of a row of so many.
    fn row(self, row: usize, width: usize) -> impl Iterator<Item = &'a [u8]> {
        (row * width..(row + 1) * width).map(move |i| self.at(i))
    }
}

impl<'a> Cells<'a> {
    /// The elements of a tensor of plain elements or of strings.
    pub(super) fn of(tensor: &'a Tensor) -> Result<Cells<'a>, KernelError> {
        Ok(match tensor.dtype() {
            DType::String => Cells::Strings(StringCells::Tensor(tensor.as_strings()?)),
            _ => Cells::Plain(tensor),
        })
    }

    /// The elements as keys.
    pub(super) fn keys(self) -> Result<Keys<'a>, KernelError> {
        Ok(match self {
            Cells::Strings(all) => Keys::Strings(all),
            Cells::Plain(tensor) if tensor.dtype() == DType::I32 => Keys::I32(tensor.as_slice()?),
            Cells::Plain(tensor) => Keys::I64(tensor.as_slice()?),
        })
    }
}

/// Source of a row of a result.
pub(super) enum Source {
    /// A row of the column.
    Row(usize),
    /// A row of the default values.
    Default(usize),
}

/// A column of a table: rows of `width` elements. Its bytes count against a memory.
pub(super) struct Column {
    dtype: DType,
    width: usize,
    rows: usize,
    memory: Arc<Memory>,
    elements: Elements,
}

enum Elements {
    /// A tensor of as many rows.
    Plain(Tensor),
    Strings {
        all: Vec<Box<[u8]>>,
        held: Reservation,
    },
}

impl Column {
    /// A column without rows.
    pub(super) fn new(
        dtype: DType,
        width: usize,
        memory: &Arc<Memory>,
    ) -> Result<Column, KernelError> {
        let elements = match dtype {
            DType::String => Elements::Strings {
                all: Vec::new(),
                held: Reservation::of(Some(memory)),
            },
            _ => Elements::Plain(Tensor::zeros_in(dtype, &[0, width], memory)?),
        };
        Ok(Column {
            dtype,
            width,
            rows: 0,
            memory: memory.clone(),
            elements,
        })
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Extends it to `rows` rows of zeros or empty strings, if it has fewer.
    pub(super) fn grow(&mut self, rows: usize) -> Result<(), KernelError> {
        if rows <= self.rows {
            return Ok(());
        }
        match &mut self.elements {
            Elements::Plain(tensor) => {
                let mut more = Tensor::zeros_in(self.dtype, &[rows, self.width], &self.memory)?;
                dispatch!(self.dtype, PLAIN, T => {
                    let from = tensor.as_slice::<T>()?;
                    more.as_mut_slice::<T>()?[..from.len()].copy_from_slice(from);
                }, else return Err(KernelError::DType(self.dtype)));
                *tensor = more;
            }
            Elements::Strings { all, held } => {
                let more = (rows - self.rows).saturating_mul(self.width);
                let bytes = more.saturating_mul(STRING_BYTES);
                if !held.grow(bytes) || all.try_reserve_exact(more).is_err() {
                    return Err(KernelError::Memory { bytes });
                }
                all.resize_with(rows * self.width, Box::default);
            }
        }
        self.rows = rows;
        Ok(())
    }

    /// Its elements.
    pub(super) fn cells(&self) -> Cells<'_> {
        match &self.elements {
            Elements::Plain(tensor) => Cells::Plain(tensor),
            Elements::Strings { all, .. } => Cells::Strings(StringCells::Column(all)),
        }
    }

    /// Copies row `row` of `from` to row `at`.
    pub(super) fn set(
        &mut self,
        at: usize,
        from: Cells<'_>,
        row: usize,
    ) -> Result<(), KernelError> {
        let (to, from_row) = (at * self.width, row * self.width);
        match (&mut self.elements, from) {
            (Elements::Plain(tensor), Cells::Plain(from)) => {
                dispatch!(self.dtype, PLAIN, T => {
                    let from = &from.as_slice::<T>()?[from_row..][..self.width];
                    tensor.as_mut_slice::<T>()?[to..][..self.width].copy_from_slice(from);
                    Ok(())
                }, else Err(KernelError::DType(self.dtype)))
            }
            (Elements::Strings { all, held }, Cells::Strings(from)) => {
                let from = from.row(row, self.width);
                for (to, from) in all[to..][..self.width].iter_mut().zip(from) {
                    if !held.grow(from.len()) {
                        return Err(KernelError::Memory { bytes: from.len() });
                    }
                    held.shrink(to.len());
                    *to = from.into();
                }
                Ok(())
            }
            _ => Err(KernelError::DType(self.dtype)),
        }
    }

    /// `true` if row `at` has the elements of row `row` of `from`.
    pub(super) fn equals(
        &self,
        at: usize,
        from: Cells<'_>,
        row: usize,
    ) -> Result<bool, KernelError> {
        let (to, from_row) = (at * self.width, row * self.width);
        match (self.cells(), from) {
            (Cells::Plain(tensor), Cells::Plain(from)) => {
                dispatch!(self.dtype, PLAIN, T => {
                    let own = &tensor.as_slice::<T>()?[to..][..self.width];
                    Ok(*own == from.as_slice::<T>()?[from_row..][..self.width])
                }, else Err(KernelError::DType(self.dtype)))
            }
            (Cells::Strings(own), Cells::Strings(from)) => {
                Ok(own.row(at, self.width).eq(from.row(row, self.width)))
            }
            _ => Err(KernelError::DType(self.dtype)),
        }
    }

    /// A tensor of rows of the column and of default values.
    pub(super) fn take(
        &self,
        cx: &TensorCx<'_>,
        sources: impl Iterator<Item = Result<Source, KernelError>>,
        default: Cells<'_>,
        dims: &[usize],
    ) -> Result<Tensor, KernelError> {
        let width = self.width;
        match (self.cells(), default) {
            (Cells::Plain(rows), Cells::Plain(default)) => dispatch!(self.dtype, PLAIN, T => {
                let (rows, default) = (rows.as_slice::<T>()?, default.as_slice::<T>()?);
                let mut taken = cx.zeros(self.dtype, dims)?;
                let mut to = taken.as_mut_slice::<T>()?.chunks_exact_mut(width.max(1));
                for source in sources {
                    let from = match source? {
                        Source::Row(row) => &rows[row * width..][..width],
                        Source::Default(row) => &default[row * width..][..width],
                    };
                    if let Some(to) = to.next() {
                        to.copy_from_slice(from);
                    }
                }
                Ok(taken)
            }, else Err(KernelError::DType(self.dtype))),
            (Cells::Strings(rows), Cells::Strings(default)) => {
                let mut taken = cx.string_tensor(dims)?;
                for source in sources {
                    let from = match source? {
                        Source::Row(row) => rows.row(row, width),
                        Source::Default(row) => default.row(row, width),
                    };
                    for string in from {
                        taken.push(string)?;
                    }
                }
                Ok(taken.finish()?)
            }
            _ => Err(KernelError::DType(self.dtype)),
        }
    }

    /// A tensor of the rows of these numbers.
    pub(super) fn export(
        &self,
        cx: &TensorCx<'_>,
        rows: impl Iterator<Item = usize>,
        dims: &[usize],
    ) -> Result<Tensor, KernelError> {
        let (none, mut stop) = (Tensor::zeros(self.dtype, &[0])?, cx.stop_check());
        let sources = rows.map(|row| stop.tick().map(|()| Source::Row(row)));
        self.take(cx, sources, Cells::of(&none)?, dims)
    }
}

/// Checks that the step goes on, for each of `count` items of work.
pub(super) fn ticked<'a>(
    mut stop: StopCheck<'a>,
    count: usize,
) -> impl Iterator<Item = Result<usize, KernelError>> + 'a {
    (0..count).map(move |i| stop.tick().map(|()| i))
}
