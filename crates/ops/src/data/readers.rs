//! TFRecordReaderV2, TextLineReaderV2, FixedLengthRecordReaderV2, WholeFileReaderV2, IdentityReaderV2, ReaderReadV2,
//! ReaderReadUpToV2, ReaderNumRecordsProducedV2, ReaderNumWorkUnitsCompletedV2, ReaderResetV2.
//! A reader takes names of files from a queue, and gives their records. The rules are those of TensorFlow's `ReaderBase`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use thalweg_data::Compression;
use thalweg_device::{KernelError, Op, SharedObject, TensorCx, cpu_tensors};
use thalweg_graph::op::{Arg, AttrDef, Effect, Gradient, arg_of, attr, int_attr, str_attr};
use thalweg_graph::{AttrKind, OpDef};
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{DType, Shape, Tensor};

use crate::files::record_files::{Format, Record, Records, compression};
use crate::queue::{BlockingQueue, resource_handle};

/// Nodes of ended steps whose requests for a name are remembered.
const MAX_WAITING: usize = 4096;

/// A key and a record.
type KeyedRecord = (Vec<u8>, Record);

/// The records of the files that queues name.
struct Reader {
    /// `None` for a reader whose records are the names.
    format: Option<Format>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The running file and its name.
    running: Option<(Vec<u8>, Records)>,
    /// Names that were taken from a queue while another node started a file.
    names: VecDeque<Vec<u8>>,
    /// Tickets of nodes that wait for a name.
    waiting: VecDeque<u64>,
    produced: i64,
    completed: i64,
}

impl Reader {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unpoisoned()
    }

    /// The next name, from those that were taken or from the queue.
    fn name(&self, cx: &TensorCx<'_>) -> Result<Vec<u8>, KernelError> {
        let ticket = cx.environment().ticket().number();
        {
            let mut state = self.lock();
            let waits = state.waiting.iter().position(|&t| t == ticket);
            if let Some(at) = waits {
                state.waiting.remove(at);
            } else if let Some(name) = state.names.pop_front() {
                return Ok(name);
            }
        }
        let queue = cx.object::<BlockingQueue>(1)?;
        match queue.dequeue(cx, 1, false) {
            Ok(mut taken) => {
                let components = taken.pop().map(|element| element.into_components());
                match components.as_deref() {
                    Some([name]) if name.dtype() == DType::String && name.dims().is_empty() => {
                        Ok(name.as_strings()?[0].to_vec())
                    }
                    _ => Err(KernelError::Invalid(
                        "a reader takes the names of files: its queue must have elements of one string".to_owned(),
                    )),
                }
            }
            Err(KernelError::Blocked) => {
                let mut state = self.lock();
                state.waiting.push_back(ticket);
                if state.waiting.len() > MAX_WAITING {
                    state.waiting.pop_front();
                }
                Err(KernelError::Blocked)
            }
            Err(other) => Err(other),
        }
    }

    /// `true` if this node has asked the queue for a name, and must take the answer.
    fn waits(&self, cx: &TensorCx<'_>) -> bool {
        let ticket = cx.environment().ticket().number();
        self.lock().waiting.contains(&ticket)
    }

    /// Reads up to so many records, and one at least: they are of one file.
    fn read(&self, cx: &TensorCx<'_>, most: usize) -> Result<Vec<KeyedRecord>, KernelError> {
        let mut stop = cx.stop_check();
        let mut all = Vec::new();
        if self.waits(cx) {
            let name = self.name(cx)?;
            self.lock().names.push_front(name);
        }
        loop {
            stop.tick()?;
            let mut state = self.lock();
            while let Some((name, records)) = &mut state.running {
                if all.len() == most {
                    return Ok(all);
                }
                match records.next(cx.memory()) {
                    Ok(Some(record)) => {
                        let mut key = name.clone();
                        if let Some(place) = record.place {
                            key.extend(format!(":{place}").as_bytes());
                        }
                        all.push((key, record));
                        state.produced += 1;
                    }
                    Ok(None) => {
                        state.running = None;
                        state.completed += 1;
                        if !all.is_empty() {
                            return Ok(all);
                        }
                    }
                    Err(error) => {
                        state.running = None;
                        return Err(error);
                    }
                }
            }
            drop(state);
            let name = self.name(cx)?;
            let Some(format) = &self.format else {
                let mut state = self.lock();
                state.produced += 1;
                state.completed += 1;
                return Ok(vec![(name.clone(), Record::of_name(name))]);
            };
            let records = format.open(cx, &name, 0)?;
            let mut state = self.lock();
            match &state.running {
                None => state.running = Some((name, records)),
                // Another node has started a file meanwhile.
                Some(_) => state.names.push_back(name),
            }
        }
    }

    fn reset(&self) {
        let mut state = self.lock();
        *state = State {
            waiting: std::mem::take(&mut state.waiting),
            ..State::default()
        };
    }
}

fn reader(cx: &TensorCx<'_>, format: Option<Format>) -> Result<Vec<Tensor>, KernelError> {
    resource_handle(cx, &|_| {
        let reader: SharedObject = Arc::new(Reader {
            format: format.clone(),
            state: Mutex::default(),
        });
        Ok(reader)
    })
}

/// A number of bytes or lines that attribute `attr` gives.
fn count(cx: &TensorCx<'_>, attr: &'static str) -> Result<u64, KernelError> {
    let value = cx.attrs().int(attr);
    u64::try_from(value)
        .map_err(|_| KernelError::Invalid(format!("{attr} must be 0 or more, and is {value}")))
}

fn fixed_length(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let record = count(cx, "record_bytes")?;
    if record == 0 {
        return Err(KernelError::Invalid(
            "record_bytes must be 1 or more, and is 0".to_owned(),
        ));
    }
    let hop = match count(cx, "hop_bytes")? {
        0 => record,
        hop => hop,
    };
    let format = Format::Fixed {
        compression: compression(cx.attrs().str("encoding").as_bytes())?,
        header: count(cx, "header_bytes")?,
        record,
        footer: count(cx, "footer_bytes")?,
        hop,
        whole: false,
    };
    reader(cx, Some(format))
}

pub(super) const CONTAINER: AttrDef = str_attr("container", "", &[]);
pub(super) const SHARED_NAME: AttrDef = str_attr("shared_name", "", &[]);
const READER: Arg = arg_of("reader_handle", DType::Resource);
const QUEUE: Arg = arg_of("queue_handle", DType::Resource);

/// Attributes of a reader that has no others.
pub(super) const ATTRS: &[AttrDef] = &[CONTAINER, SHARED_NAME];

/// Base definition of an op that makes a reader.
const READER_OP: OpDef = OpDef {
    outputs: &[READER],
    attrs: ATTRS,
    shape: crate::support::shapes::scalar,
    gradient: Gradient::None,
    effect: Effect::Stateful,
    ..OpDef::EMPTY
};

/// Base definition of an op on a reader.
const USE_OP: OpDef = OpDef {
    inputs: &[READER],
    outputs: &[],
    attrs: &[],
    ..READER_OP
};

/// Attributes of the reader, in both versions.
pub(super) const TF_RECORD_ATTRS: &[AttrDef] = &[
    CONTAINER,
    SHARED_NAME,
    str_attr("compression_type", "", &[]),
];

/// A reader of TFRecord files.
pub(crate) static TF_RECORD: Op = Op {
    def: OpDef {
        name: "TFRecordReaderV2",
        summary: "A reader of the records of TFRecord files.",
        attrs: TF_RECORD_ATTRS,
        ..READER_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let compression = compression(cx.attrs().str("compression_type").as_bytes())?;
        reader(cx, Some(Format::TfRecord(compression)))
    })],
};

/// Attributes of the reader, in both versions.
pub(super) const TEXT_LINE_ATTRS: &[AttrDef] =
    &[int_attr("skip_header_lines", 0), CONTAINER, SHARED_NAME];

/// A reader of lines.
pub(crate) static TEXT_LINE: Op = Op {
    def: OpDef {
        name: "TextLineReaderV2",
        summary: "A reader of the lines of text files.",
        attrs: TEXT_LINE_ATTRS,
        ..READER_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let header = count(cx, "skip_header_lines")?;
        let compression = Compression::None;
        reader(
            cx,
            Some(Format::Lines {
                compression,
                header,
            }),
        )
    })],
};

/// Attributes of the reader, in both versions.
pub(super) const FIXED_LENGTH_ATTRS: &[AttrDef] = &[
    int_attr("header_bytes", 0),
    attr("record_bytes", AttrKind::Int),
    int_attr("footer_bytes", 0),
    int_attr("hop_bytes", 0),
    CONTAINER,
    SHARED_NAME,
    str_attr("encoding", "", &[]),
];

/// A reader of records of one length.
pub(crate) static FIXED_LENGTH: Op = Op {
    def: OpDef {
        name: "FixedLengthRecordReaderV2",
        summary: "A reader of records of one length in bytes each.",
        attrs: FIXED_LENGTH_ATTRS,
        ..READER_OP
    },
    kernels: &[cpu_tensors(fixed_length)],
};

/// A reader of whole files.
pub(crate) static WHOLE_FILE: Op = Op {
    def: OpDef {
        name: "WholeFileReaderV2",
        summary: "A reader of files, each as one record.",
        ..READER_OP
    },
    kernels: &[cpu_tensors(|cx| reader(cx, Some(Format::Whole)))],
};

/// A reader of the names themselves.
pub(crate) static IDENTITY: Op = Op {
    def: OpDef {
        name: "IdentityReaderV2",
        summary: "A reader whose records are the elements of its queue.",
        ..READER_OP
    },
    kernels: &[cpu_tensors(|cx| reader(cx, None))],
};

/// The next record.
pub(crate) static READ: Op = Op {
    def: OpDef {
        name: "ReaderReadV2",
        summary: "The next record of a reader, and a key that says where it stands.",
        inputs: &[READER, QUEUE],
        outputs: &[arg_of("key", DType::String), arg_of("value", DType::String)],
        effect: Effect::Blocking,
        ..USE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let mut read = cx.object::<Reader>(0)?.read(cx, 1)?;
        let (key, value) = read.pop().ok_or(KernelError::Argument("a record"))?;
        Ok(vec![
            cx.strings_of(&[], [key])?,
            cx.strings_of(&[], [value.data])?,
        ])
    })],
};

/// The next records.
pub(crate) static READ_UP_TO: Op = Op {
    def: OpDef {
        name: "ReaderReadUpToV2",
        summary: "The next records of a reader, num_records or those that are left of a file, with their keys.",
        inputs: &[READER, QUEUE, arg_of("num_records", DType::I64)],
        outputs: &[
            arg_of("keys", DType::String),
            arg_of("values", DType::String),
        ],
        shape: |cx| {
            cx.set(0, Shape::partial([None]));
            cx.set(1, Shape::partial([None]));
            Ok(())
        },
        effect: Effect::Blocking,
        ..USE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        let most = super::dataset::positive(cx, 2, "num_records")?;
        let read = cx.object::<Reader>(0)?.read(cx, most)?;
        let dims = [read.len()];
        Ok(vec![
            cx.strings_of(&dims, read.iter().map(|(key, _)| key))?,
            cx.strings_of(&dims, read.iter().map(|(_, value)| &value.data))?,
        ])
    })],
};

/// Number of records.
pub(crate) static NUM_RECORDS: Op = Op {
    def: OpDef {
        name: "ReaderNumRecordsProducedV2",
        summary: "The number of records that a reader has given.",
        outputs: &[arg_of("records_produced", DType::I64)],
        ..USE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        Ok(vec![Tensor::scalar(
            cx.object::<Reader>(0)?.lock().produced,
        )])
    })],
};

/// Number of files.
pub(crate) static NUM_FILES: Op = Op {
    def: OpDef {
        name: "ReaderNumWorkUnitsCompletedV2",
        summary: "The number of files that a reader has read to their end.",
        outputs: &[arg_of("units_completed", DType::I64)],
        ..USE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        Ok(vec![Tensor::scalar(
            cx.object::<Reader>(0)?.lock().completed,
        )])
    })],
};

/// A new start.
pub(crate) static RESET: Op = Op {
    def: OpDef {
        name: "ReaderResetV2",
        summary: "Ends the running file of a reader, and counts from 0 again.",
        ..USE_OP
    },
    kernels: &[cpu_tensors(|cx| {
        cx.object::<Reader>(0)?.reset();
        Ok(Vec::new())
    })],
};
