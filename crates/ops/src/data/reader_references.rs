//! Readers on string references, as in TensorFlow's first graphs: TFRecordReader, ReaderRead and others.
//! Each runs as its counterpart on resource handles.

use thalweg_device::Op;
use thalweg_graph::AttrKind;
use thalweg_graph::op::{Arg, AttrDef, arg_of, attr, int_attr};
use thalweg_tensor::DType;

use super::readers;
use super::readers::{ATTRS, CONTAINER, SHARED_NAME, TEXT_LINE_ATTRS, TF_RECORD_ATTRS};
use crate::support::references::{creator, on_reference};

const READER: Arg = arg_of("reader_handle", DType::String).reference();
const QUEUE: Arg = arg_of("queue_handle", DType::String).reference();
const ONLY: &[Arg] = &[READER];
const FIXED_LENGTH_ATTRS: &[AttrDef] = &[
    int_attr("header_bytes", 0),
    attr("record_bytes", AttrKind::Int),
    int_attr("footer_bytes", 0),
    int_attr("hop_bytes", 0),
    CONTAINER,
    SHARED_NAME,
];

pub(crate) static TF_RECORD: Op =
    creator("TFRecordReader", ONLY, TF_RECORD_ATTRS, &readers::TF_RECORD);
pub(crate) static TEXT_LINE: Op =
    creator("TextLineReader", ONLY, TEXT_LINE_ATTRS, &readers::TEXT_LINE);
pub(crate) static FIXED_LENGTH: Op = creator(
    "FixedLengthRecordReader",
    ONLY,
    FIXED_LENGTH_ATTRS,
    &readers::FIXED_LENGTH,
);
pub(crate) static WHOLE_FILE: Op = creator("WholeFileReader", ONLY, ATTRS, &readers::WHOLE_FILE);
pub(crate) static IDENTITY: Op = creator("IdentityReader", ONLY, ATTRS, &readers::IDENTITY);
pub(crate) static READ: Op = on_reference(
    "ReaderRead",
    &[READER, QUEUE],
    &[arg_of("key", DType::String), arg_of("value", DType::String)],
    &[],
    &readers::READ,
);
pub(crate) static READ_UP_TO: Op = on_reference(
    "ReaderReadUpTo",
    &[READER, QUEUE, arg_of("num_records", DType::I64)],
    &[
        arg_of("keys", DType::String),
        arg_of("values", DType::String),
    ],
    &[],
    &readers::READ_UP_TO,
);
pub(crate) static NUM_RECORDS: Op = on_reference(
    "ReaderNumRecordsProduced",
    ONLY,
    &[arg_of("records_produced", DType::I64)],
    &[],
    &readers::NUM_RECORDS,
);
pub(crate) static NUM_FILES: Op = on_reference(
    "ReaderNumWorkUnitsCompleted",
    ONLY,
    &[arg_of("units_completed", DType::I64)],
    &[],
    &readers::NUM_FILES,
);
pub(crate) static RESET: Op = on_reference("ReaderReset", ONLY, &[], &[], &readers::RESET);
