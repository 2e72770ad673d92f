//! TFRecordDataset, TFRecordDatasetV2, TextLineDataset, FixedLengthRecordDataset, FixedLengthRecordDatasetV2,
//! MatchingFilesDataset.

use std::sync::Arc;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::arg_of;
use thalweg_tensor::{DType, Tensor};

use super::dataset::{Cardinality, DATASET_OP, Dataset, METADATA, Row, Rows, number, source};
use crate::files::patterns::matching_files;
use crate::files::record_files::{Format, Records, compression};

/// The records of files, one file after the other.
struct FileRecords {
    names: Tensor,
    /// Position of the first record in each file; 0 for those that it does not have.
    starts: Arc<[u64]>,
    format: Format,
}

impl Dataset for FileRecords {
    fn rows(&self, _: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(FileRows {
            names: self.names.clone(),
            starts: self.starts.clone(),
            format: self.format.clone(),
            next: 0,
            records: None,
        }))
    }
}

struct FileRows {
    names: Tensor,
    starts: Arc<[u64]>,
    format: Format,
    /// The file to open next.
    next: usize,
    records: Option<Records>,
}

impl Rows for FileRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        loop {
            if let Some(records) = &mut self.records {
                if let Some(record) = records.next(cx.memory())? {
                    return Ok(Some(vec![cx.strings_of(&[], [&record.data])?]));
                }
                self.records = None;
            }
            let Some(name) = self.names.as_strings()?.get(self.next) else {
                return Ok(None);
            };
            let start = self.starts.get(self.next).copied().unwrap_or(0);
            self.next += 1;
            self.records = Some(self.format.open(cx, name, start)?);
        }
    }
}

fn records(cx: &TensorCx<'_>, format: Format) -> Result<Vec<Tensor>, KernelError> {
    records_from(cx, format, [].into())
}

fn records_from(
    cx: &TensorCx<'_>,
    format: Format,
    starts: Arc<[u64]>,
) -> Result<Vec<Tensor>, KernelError> {
    let names = cx.tensor(0)?.clone();
    let records = FileRecords {
        names,
        starts,
        format,
    };
    source(records, &[])
}

/// Positions of the first records of files: one for each name, or none.
fn starts(cx: &TensorCx<'_>, i: usize) -> Result<Arc<[u64]>, KernelError> {
    let (names, offsets) = (cx.tensor(0)?, cx.tensor(i)?);
    if offsets.dims() != names.dims() && offsets.dims() != [0] {
        return Err(KernelError::Invalid(format!(
            "byte_offsets have the shape {}, and filenames {}: give one offset for each file, or none",
            offsets.shape(),
            names.shape()
        )));
    }
    let starts = cx.ints(i)?.into_iter().map(|offset| {
        u64::try_from(offset).map_err(|_| {
            KernelError::Invalid(format!("a byte offset must be 0 or more, and is {offset}"))
        })
    });
    starts.collect()
}

/// The only string at input `i`.
pub(super) fn string<'a>(cx: &TensorCx<'a>, i: usize) -> Result<&'a [u8], KernelError> {
    match cx.strings(i)?.only() {
        Some(one) => Ok(one),
        None => Err(KernelError::Invalid(format!(
            "input {i} must be one string"
        ))),
    }
}

/// A number of bytes, 0 or more, at input `i`.
fn bytes(cx: &TensorCx<'_>, i: usize, name: &str) -> Result<u64, KernelError> {
    let value = cx.int(i)?;
    u64::try_from(value)
        .map_err(|_| KernelError::Invalid(format!("{name} must be 0 or more, and is {value}")))
}

fn fixed(cx: &TensorCx<'_>, packed: &[u8]) -> Result<Vec<Tensor>, KernelError> {
    let record = super::dataset::positive(cx, 2, "record_bytes")? as u64;
    let format = Format::Fixed {
        compression: compression(packed)?,
        header: bytes(cx, 1, "header_bytes")?,
        record,
        footer: bytes(cx, 3, "footer_bytes")?,
        hop: record,
        whole: true,
    };
    records(cx, format)
}

/// The records of TFRecord files.
pub(crate) static TF_RECORD: Op = Op {
    def: OpDef {
        name: "TFRecordDataset",
        summary: "The records of TFRecord files.",
        inputs: &[
            arg_of("filenames", DType::String),
            arg_of("compression_type", DType::String),
            number("buffer_size"),
        ],
        attrs: &[METADATA],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        records(cx, Format::TfRecord(compression(string(cx, 1)?)?))
    })],
};

/// As [`TF_RECORD`], from a record of each file on.
pub(crate) static TF_RECORD_V2: Op = Op {
    def: OpDef {
        name: "TFRecordDatasetV2",
        summary: "The records of TFRecord files, each from an offset in its unpacked bytes on.",
        inputs: &[
            arg_of("filenames", DType::String),
            arg_of("compression_type", DType::String),
            number("buffer_size"),
            number("byte_offsets"),
        ],
        attrs: &[METADATA],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let format = Format::TfRecord(compression(string(cx, 1)?)?);
        records_from(cx, format, starts(cx, 3)?)
    })],
};

/// The lines of text files.
pub(crate) static TEXT_LINE: Op = Op {
    def: OpDef {
        name: "TextLineDataset",
        summary: "The lines of text files.",
        ..TF_RECORD.def
    },
    kernels: &[cpu_tensors(|cx| {
        let compression = compression(string(cx, 1)?)?;
        records(
            cx,
            Format::Lines {
                compression,
                header: 0,
            },
        )
    })],
};

/// Records of one length.
pub(crate) static FIXED_LENGTH: Op = Op {
    def: OpDef {
        name: "FixedLengthRecordDataset",
        summary: "The records of files that have one length in bytes each, between a header and a footer.",
        inputs: &[
            arg_of("filenames", DType::String),
            number("header_bytes"),
            number("record_bytes"),
            number("footer_bytes"),
            number("buffer_size"),
        ],
        attrs: &[METADATA],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| fixed(cx, b""))],
};

/// As [`FIXED_LENGTH`], and the files may be compressed.
pub(crate) static FIXED_LENGTH_V2: Op = Op {
    def: OpDef {
        name: "FixedLengthRecordDatasetV2",
        summary: "The records of files that have one length in bytes each, between a header and a footer.",
        inputs: &[
            arg_of("filenames", DType::String),
            number("header_bytes"),
            number("record_bytes"),
            number("footer_bytes"),
            number("buffer_size"),
            arg_of("compression_type", DType::String),
        ],
        attrs: &[METADATA],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| fixed(cx, string(cx, 5)?))],
};

/// Names of files.
struct Names(Arc<[Vec<u8>]>);

impl Dataset for Names {
    fn rows(&self, _: &TensorCx<'_>) -> Result<Box<dyn Rows>, KernelError> {
        Ok(Box::new(NameRows {
            names: self.0.clone(),
            next: 0,
        }))
    }

    fn cardinality(&self) -> Cardinality {
        Cardinality::Finite(self.0.len() as u64)
    }
}

struct NameRows {
    names: Arc<[Vec<u8>]>,
    next: usize,
}

impl Rows for NameRows {
    fn next(&mut self, cx: &TensorCx<'_>) -> Result<Option<Row>, KernelError> {
        let Some(name) = self.names.get(self.next) else {
            return Ok(None);
        };
        self.next += 1;
        Ok(Some(vec![cx.strings_of(&[], [name])?]))
    }
}

/// The names of files that match patterns.
pub(crate) static MATCHING_FILES: Op = Op {
    def: OpDef {
        name: "MatchingFilesDataset",
        summary: "The names of the files that match patterns, sorted.",
        inputs: &[arg_of("patterns", DType::String)],
        attrs: &[],
        ..DATASET_OP
    },
    kernels: &[cpu_tensors(|cx| {
        source(Names(matching_files(cx, 0)?.into()), &[])
    })],
};
