//! CSVDataset, CSVDatasetV2.

use std::sync::Arc;

use thalweg_data::Compression;
use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Arg, arg_of, args_of};
use thalweg_tensor::{DType, Element, Tensor};

use super::csv_records::{CsvRecords, Marks};
use super::dataset::{DATASET_OP, Dataset, Row, Rows, SHAPES, TYPES, flag, number, source};
use super::file_datasets::string;
use crate::files::record_files::compression;
use crate::strings::{FromText, parse};

/// Number of the first default value among the inputs.
const DEFAULTS: usize = 8;

/// The fields that are taken, by ascending numbers.
enum Columns {
    Only(Vec<i64>),
    AllBut(Vec<i64>),
}

impl Columns {
    fn keep(&self, field: usize) -> bool {
        let field = field as i64;
        match self {
            Columns::Only(numbers) => numbers.binary_search(&field).is_ok(),
            Columns::AllBut(numbers) => numbers.binary_search(&field).is_err(),
        }
    }
}

/// The records of CSV files, one file after the other.
struct CsvFiles {
    names: Vec<Vec<u8>>,
    compression: Compression,
    header: bool,
    marks: Marks,
    columns: Columns,
    /// The text that stands for a missing value beside the empty one.
    missing: Vec<u8>,
    /// A default value for each component; an empty tensor for none.
    defaults: Vec<Tensor>,
}

/// The dataset's value.
struct Csv(Arc<CsvFiles>);

impl Dataset for Csv {
    fn rows(&self, _: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(CsvRows {
            files: self.0.clone(),
            next: 0,
            open: None,
        }))
    }
}

struct CsvRows {
    files: Arc<CsvFiles>,
    /// The file to open next.
    next: usize,
    open: Option<CsvRecords>,
}

impl CsvRows {
    /// Opens the next file; `false` if there is none.
    fn open(&mut self, cx: &TensorCx<'_>) -> Result<bool, KernelError> {
        let files = &self.files;
        let Some(name) = files.names.get(self.next) else {
            return Ok(false);
        };
        self.next += 1;
        let mut records = CsvRecords::open(cx, name, files.compression, files.marks)?;
        if files.header {
            let header = records.record(cx, |_| false, |_| Ok(()));
            let why = match &header {
                Ok(true) => None,
                Ok(false) => Some("the file is empty".to_owned()),
                Err(KernelError::Invalid(why)) => Some(why.clone()),
                Err(_) => return header.map(|_| true),
            };
            if let Some(why) = why {
                let name = String::from_utf8_lossy(name).into_owned();
                self.open = Some(records);
                return Err(KernelError::Invalid(format!(
                    "Can't read header of file {name}: {why}"
                )));
            }
        }
        self.open = Some(records);
        Ok(true)
    }
}

impl Rows for CsvRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        loop {
            if let Some(records) = &mut self.open {
                let files = &self.files;
                let mut row = Vec::with_capacity(files.defaults.len());
                let keep = |field| files.columns.keep(field);
                let more = records.record(cx, keep, |field| files.add(cx, &mut row, field))?;
                if more && row.len() < files.defaults.len() {
                    return Err(KernelError::Invalid(format!(
                        "Expect {} fields but have {} in record",
                        files.defaults.len(),
                        row.len()
                    )));
                }
                if more {
                    return Ok(Some(row));
                }
                self.open = None;
            }
            if !self.open(cx)? {
                return Ok(None);
            }
        }
    }
}

impl CsvFiles {
    /// Adds the value of a field to a row. A field that is wrong still takes its place.
    fn add(&self, cx: &TensorCx<'_>, row: &mut Row, field: &[u8]) -> Result<(), KernelError> {
        let number = row.len();
        let Some(default) = self.defaults.get(number) else {
            return Err(KernelError::Invalid(format!(
                "Expect {number} fields but have more in record: give each field a default value, or select columns"
            )));
        };
        let value = self.value(cx, default, number, field);
        row.push(match &value {
            Ok(value) => value.clone(),
            Err(_) => default.clone(),
        });
        value.map(|_| ())
    }

    fn value(
        &self,
        cx: &TensorCx<'_>,
        default: &Tensor,
        number: usize,
        field: &[u8],
    ) -> Result<Tensor, KernelError> {
        if field.is_empty() || field == self.missing {
            return match default.len() {
                1 => Ok(default.reshaped(&[])?),
                _ => Err(KernelError::Invalid(format!(
                    "Field {number} is required but missing in record!"
                ))),
            };
        }
        match default.dtype() {
            DType::F32 => scalar::<f32>(cx, number, field),
            DType::F64 => scalar::<f64>(cx, number, field),
            DType::I32 => scalar::<i32>(cx, number, field),
            DType::I64 => scalar::<i64>(cx, number, field),
            DType::String => cx.strings_of(&[], [field]),
            other => Err(KernelError::DType(other)),
        }
    }
}

fn scalar<T: FromText + Element>(
    cx: &TensorCx<'_>,
    number: usize,
    field: &[u8],
) -> Result<Tensor, KernelError> {
    let value = parse::<T>(field).map_err(|_| {
        KernelError::Invalid(format!(
            "Field {number} in record is not a valid {}: {}",
            T::DTYPE,
            String::from_utf8_lossy(field)
        ))
    })?;
    cx.tensor_of(&[], &[value])
}

/// Ascending numbers of columns at input `i`.
fn numbers(cx: &TensorCx<'_>, i: usize, name: &str) -> Result<Vec<i64>, KernelError> {
    let all = cx.ints(i)?;
    if !all.is_sorted_by(|a, b| a < b) {
        return Err(KernelError::Invalid(format!(
            "{name} should be strictly increasing indices"
        )));
    }
    if all.first().is_some_and(|&first| first < 0) {
        return Err(KernelError::Invalid(format!(
            "{name} should be non-negative indices"
        )));
    }
    Ok(all)
}

/// The columns to take: those selected, or all but those excluded.
fn columns(cx: &TensorCx<'_>, count: usize, excluded: bool) -> Result<Columns, KernelError> {
    let only = numbers(cx, DEFAULTS - 1, "select_cols")?;
    let but = match excluded {
        true => numbers(cx, DEFAULTS + count, "exclude_cols")?,
        false => Vec::new(),
    };
    if only.is_empty() {
        return Ok(Columns::AllBut(but));
    }
    if !but.is_empty() {
        return Err(KernelError::Invalid(
            "Either select_cols or exclude_cols should be empty".to_owned(),
        ));
    }
    if only.len() != count {
        return Err(KernelError::Invalid(format!(
            "select_cols should match output size: it has {} columns, and there are {count} default values",
            only.len()
        )));
    }
    Ok(Columns::Only(only))
}

fn defaults(cx: &TensorCx<'_>, count: usize) -> Result<Vec<Tensor>, KernelError> {
    let one = |i: usize| {
        let default = cx.held(DEFAULTS + i)?;
        if default.dims().len() > 1 {
            return Err(KernelError::Invalid(format!(
                "Each record default should be at most rank 1, and that of field {i} has the shape {}",
                default.shape()
            )));
        }
        match default.len() {
            0 | 1 => Ok(default),
            many => Err(KernelError::Invalid(format!(
                "There should only be 1 default per field but field {i} has {many}"
            ))),
        }
    };
    (0..count).map(one).collect()
}

fn csv(cx: &TensorCx<'_>, excluded: bool) -> Result<Vec<Tensor>, KernelError> {
    let count = cx.attrs().types("output_types").len();
    let defaults = defaults(cx, count)?;
    let buffer = cx.int(2)?;
    if buffer <= 0 {
        return Err(KernelError::Invalid(format!(
            "buffer_size should be positive, and is {buffer}"
        )));
    }
    let &[delimiter] = string(cx, 4)? else {
        return Err(KernelError::Invalid(
            "field_delim should be only 1 char".to_owned(),
        ));
    };
    let files = CsvFiles {
        names: cx.strings(0)?.iter().map(|name| name.to_vec()).collect(),
        compression: compression(string(cx, 1)?)?,
        header: flag(cx, 3)?,
        marks: Marks {
            delimiter,
            quotes: flag(cx, 5)?,
        },
        missing: string(cx, 6)?.to_vec(),
        columns: columns(cx, count, excluded)?,
        defaults,
    };
    let held = files.defaults.clone();
    source(Csv(Arc::new(files)), &held)
}

/// Inputs of the second version.
const INPUTS: &[Arg] = &[
    arg_of("filenames", DType::String),
    arg_of("compression_type", DType::String),
    number("buffer_size"),
    arg_of("header", DType::Bool),
    arg_of("field_delim", DType::String),
    arg_of("use_quote_delim", DType::Bool),
    arg_of("na_value", DType::String),
    number("select_cols"),
    args_of("record_defaults", "output_types"),
    number("exclude_cols"),
];

/// The records of CSV files.
pub(crate) static CSV: Op = Op {
    def: OpDef {
        name: "CSVDataset",
        summary: "The records of CSV files: a component for each column that is taken.",
        // Without the numbers of columns that are left out.
        inputs: INPUTS.split_at(9).0,
        attrs: &[TYPES, SHAPES],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| csv(cx, false))],
};

/// As [`CSV`], and columns can be left out by number.
pub(crate) static CSV_V2: Op = Op {
    def: OpDef {
        name: "CSVDatasetV2",
        inputs: INPUTS,
        ..CSV.def
    },
    kernels: &[cpu_tensors(|cx| csv(cx, true))],
};
