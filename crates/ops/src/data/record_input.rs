//! RecordInput.

use std::sync::{Arc, Mutex};

use thalweg_device::{KernelError, Op, SharedObject, TensorCx, cpu_tensors};
use thalweg_graph::op::{AttrDef, Effect, Gradient, arg_of, attr, float_attr, int_attr, str_attr};
use thalweg_graph::{AttrKind, Infer, InferError, OpDef};
use thalweg_tensor::sync::Unpoisoned;
use thalweg_tensor::{DType, Shape, Tensor};

use super::shuffle::Words;
use crate::files::patterns::matches;
use crate::files::record_files::{Format, Record, Records, compression};

/// The records of files in a random order, pass after pass. TensorFlow's order depends on its threads.
#[derive(Default)]
struct Pass {
    /// Number of the next pass.
    number: u64,
    names: Vec<Vec<u8>>,
    /// The file to open next.
    next: usize,
    running: Option<Records>,
    /// Records that one is drawn from.
    buffer: Vec<Record>,
    /// `true` once the pass has had a record.
    found: bool,
    words: Option<Words>,
}

/// The node's attributes.
struct Request {
    pattern: Vec<u8>,
    format: Format,
    seed: u64,
    /// Part of the files that the order is turned by.
    shift: f64,
    buffer: usize,
}

impl Request {
    fn of(cx: &TensorCx<'_>) -> Result<Request, KernelError> {
        let attrs = cx.attrs();
        Ok(Request {
            pattern: attrs.str("file_pattern").as_bytes().to_vec(),
            format: Format::TfRecord(compression(attrs.str("compression_type").as_bytes())?),
            seed: attrs.int("file_random_seed") as u64,
            shift: f64::from(attrs.float("file_shuffle_shift_ratio")),
            buffer: usize::try_from(attrs.int("file_buffer_size"))
                .unwrap_or(1)
                .max(1),
        })
    }
}

impl Pass {
    /// Starts a pass over the files, in an order of its own.
    fn start(&mut self, cx: &TensorCx<'_>, request: &Request) -> Result<(), KernelError> {
        let mut names = matches(cx, &request.pattern)?;
        if names.is_empty() {
            return Err(KernelError::NotFound(format!(
                "Found no files at {}",
                String::from_utf8_lossy(&request.pattern)
            )));
        }
        let mut words = Words::new([request.seed, self.number]);
        for i in (1..names.len()).rev() {
            names.swap(i, words.next() as usize % (i + 1));
        }
        let shift = (names.len() as f64 * request.shift) as usize;
        let count = names.len();
        names.rotate_left(shift % count);
        (self.names, self.words) = (names, Some(words));
        (self.next, self.found) = (0, false);
        self.number += 1;
        Ok(())
    }

    /// The next record of the pass's files; `None` at its end.
    fn read(
        &mut self,
        cx: &TensorCx<'_>,
        request: &Request,
    ) -> Result<Option<Record>, KernelError> {
        loop {
            if let Some(records) = &mut self.running {
                if let Some(record) = records.next(cx.memory())? {
                    self.found = true;
                    return Ok(Some(record));
                }
                self.running = None;
            }
            let Some(name) = self.names.get(self.next) else {
                return Ok(None);
            };
            self.next += 1;
            self.running = Some(request.format.open(cx, name, 0)?);
        }
    }

    fn record(&mut self, cx: &TensorCx<'_>, request: &Request) -> Result<Record, KernelError> {
        let mut stop = cx.stop_check();
        loop {
            stop.tick()?;
            while self.buffer.len() < request.buffer {
                stop.tick()?;
                match self.read(cx, request)? {
                    Some(record) => self.buffer.push(record),
                    None => break,
                }
            }
            if let Some(words) = &mut self.words
                && !self.buffer.is_empty()
            {
                let drawn = words.next() as usize % self.buffer.len();
                return Ok(self.buffer.swap_remove(drawn));
            }
            if self.words.is_some() && !self.found {
                self.words = None;
                return Err(KernelError::NotFound(format!(
                    "the files at {} have no records",
                    String::from_utf8_lossy(&request.pattern)
                )));
            }
            self.start(cx, request)?;
        }
    }
}

fn run(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let request = Request::of(cx)?;
    let batch = usize::try_from(cx.attrs().int("batch_size")).unwrap_or(0);
    let name = format!("RecordInput {}", cx.node().name);
    let made = cx.environment().session_object(&name, &mut || {
        Ok(Arc::new(Mutex::new(Pass::default())) as SharedObject)
    })?;
    let pass: Arc<Mutex<Pass>> = made
        .downcast()
        .map_err(|_| KernelError::Argument("the node's records"))?;
    let mut pass = pass.lock().unpoisoned();
    let mut records = cx.string_tensor(&[batch])?;
    for _ in 0..batch {
        records.push(&pass.record(cx, &request)?.data)?;
    }
    Ok(vec![records.finish()?])
}

fn shape(cx: &mut Infer<'_>) -> Result<(), InferError> {
    for attr in ["batch_size", "file_parallelism"] {
        if cx.attrs().int(attr) < 0 {
            return Err(InferError::Attr {
                attr,
                reason: format!("must be 0 or more, and is {}", cx.attrs().int(attr)),
            });
        }
    }
    let batch = usize::try_from(cx.attrs().int("batch_size")).unwrap_or(0);
    cx.set(0, Shape::from(&[batch][..]));
    Ok(())
}

const ATTRS: &[AttrDef] = &[
    attr("file_pattern", AttrKind::Str),
    int_attr("file_random_seed", 301),
    float_attr("file_shuffle_shift_ratio", 0.0),
    int_attr("file_buffer_size", 10_000),
    int_attr("file_parallelism", 16),
    int_attr("batch_size", 32),
    str_attr("compression_type", "", &[]),
];

/// Batches of the records of files.
pub(crate) static RECORD_INPUT: Op = Op {
    def: OpDef {
        name: "RecordInput",
        summary: "Batches of the records of TFRecord files, shuffled anew in each pass over them, without end.",
        outputs: &[arg_of("records", DType::String)],
        attrs: ATTRS,
        shape,
        gradient: Gradient::None,
        effect: Effect::Stateful,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(run)],
};
