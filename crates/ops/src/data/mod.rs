//! Input that a graph brings: datasets and iterators, readers of files, parsers of records.
//!
//! A step opens the files that its session allows ([`thalweg_device::Files`]).

pub(crate) mod anonymous_iterators;
mod batch;
mod by_index;
mod cache;
mod cache_file;
mod columns;
mod csv;
mod csv_dataset;
mod csv_records;
pub(crate) mod dataset;
mod decompress;
mod experimental;
mod features;
mod file_datasets;
mod functions;
mod generator;
mod groups;
mod immutable_const;
mod interleave;
mod iterator;
mod iterator_ops;
mod json_example;
mod mixing;
mod order;
pub(crate) mod packed_tensors;
mod padded_batch;
mod padded_raw;
mod parse_example;
mod parse_sequence;
mod pass_through;
mod reader_references;
mod readers;
mod record_input;
mod reduce;
mod selection;
pub(crate) mod serialized_tensors;
mod shuffle;
mod sources;
mod sparse_batch;
mod steps;
mod window;

use thalweg_device::Op;

/// The ops of this family.
pub(crate) static OPS: &[&Op] = &[
    &sources::TENSOR,
    &sources::TENSOR_SLICE,
    &sources::RANGE,
    &generator::GENERATOR,
    &sparse_batch::DENSE_TO_SPARSE_BATCH,
    &file_datasets::TF_RECORD,
    &file_datasets::TF_RECORD_V2,
    &file_datasets::TEXT_LINE,
    &csv_dataset::CSV,
    &csv_dataset::CSV_V2,
    &file_datasets::FIXED_LENGTH,
    &file_datasets::FIXED_LENGTH_V2,
    &file_datasets::MATCHING_FILES,
    &functions::MAP,
    &functions::PARALLEL_MAP,
    &functions::PARALLEL_MAP_V2,
    &functions::FILTER,
    &functions::TAKE_WHILE,
    &functions::SCAN,
    &interleave::FLAT_MAP,
    &interleave::INTERLEAVE,
    &interleave::PARALLEL_INTERLEAVE,
    &interleave::PARALLEL_INTERLEAVE_V2,
    &interleave::PARALLEL_INTERLEAVE_V3,
    &interleave::PARALLEL_INTERLEAVE_V4,
    &interleave::LEGACY_PARALLEL_INTERLEAVE_V2,
    &order::TAKE,
    &order::SKIP,
    &order::SHARD,
    &order::REPEAT,
    &order::CONCATENATE,
    &order::ZIP,
    &shuffle::SHUFFLE,
    &shuffle::SHUFFLE_V2,
    &shuffle::SHUFFLE_V3,
    &shuffle::SHUFFLE_AND_REPEAT,
    &shuffle::SHUFFLE_AND_REPEAT_V2,
    &shuffle::DUMMY_SEED_GENERATOR,
    &shuffle::ANONYMOUS_SEED_GENERATOR,
    &batch::BATCH,
    &batch::BATCH_V2,
    &batch::PARALLEL_BATCH,
    &batch::MAP_AND_BATCH,
    &batch::UNBATCH,
    &padded_batch::PADDED_BATCH,
    &padded_batch::PADDED_BATCH_V2,
    &window::WINDOW,
    &cache::CACHE,
    &cache::CACHE_V2,
    &cache::DUMMY_MEMORY_CACHE,
    &pass_through::PREFETCH,
    &pass_through::OPTIONS,
    &pass_through::MODEL,
    &pass_through::OPTIMIZE,
    &pass_through::OPTIMIZE_V2,
    &pass_through::REWRITE,
    &pass_through::FINALIZE,
    &pass_through::ASSERT_CARDINALITY,
    &pass_through::WRAP,
    &pass_through::UNWRAP,
    &pass_through::ASSERT_NEXT,
    &pass_through::BYTES_STATS,
    &pass_through::LATENCY_STATS,
    &pass_through::MAX_PARALLELISM,
    &pass_through::PRIVATE_THREADS,
    &pass_through::NON_SERIALIZABLE,
    &mixing::CHOOSE_FASTEST,
    &mixing::DIRECTED_INTERLEAVE,
    &mixing::REBATCH,
    &mixing::SLEEP,
    &mixing::SLIDING_WINDOW,
    &selection::UNIQUE,
    &selection::IGNORE_ERRORS,
    &selection::SAMPLING,
    &selection::RANDOM,
    &groups::GROUP_BY_WINDOW,
    &groups::GROUP_BY_REDUCER,
    &experimental::ASSERT_NEXT,
    &experimental::BYTES_STATS,
    &experimental::LATENCY_STATS,
    &experimental::MAX_PARALLELISM,
    &experimental::PRIVATE_THREADS,
    &experimental::NON_SERIALIZABLE,
    &experimental::CHOOSE_FASTEST,
    &experimental::DIRECTED_INTERLEAVE,
    &experimental::REBATCH,
    &experimental::SLEEP,
    &experimental::SLIDING_WINDOW,
    &experimental::UNIQUE,
    &experimental::IGNORE_ERRORS,
    &experimental::RANDOM,
    &experimental::GROUP_BY_WINDOW,
    &experimental::GROUP_BY_REDUCER,
    &experimental::SCAN,
    &experimental::TAKE_WHILE,
    &experimental::UNBATCH,
    &experimental::MAP_AND_BATCH,
    &experimental::MATCHING_FILES,
    &experimental::CSV,
    &experimental::PARALLEL_INTERLEAVE,
    &experimental::CARDINALITY,
    &experimental::GET_DEVICE,
    &iterator_ops::ITERATOR_V1,
    &iterator_ops::ITERATOR_V2,
    &iterator_ops::ONE_SHOT,
    &iterator_ops::MAKE,
    &iterator_ops::GET_NEXT,
    &iterator_ops::GET_NEXT_SYNC,
    &iterator_ops::GET_NEXT_AS_OPTIONAL,
    &iterator_ops::TO_STRING_HANDLE,
    &iterator_ops::FROM_STRING_HANDLE,
    &iterator_ops::FROM_STRING_HANDLE_V2,
    &iterator_ops::GET_DEVICE,
    &iterator_ops::SERIALIZE,
    &iterator_ops::DESERIALIZE,
    &anonymous_iterators::ANONYMOUS_ITERATOR,
    &anonymous_iterators::ANONYMOUS_ITERATOR_V2,
    &anonymous_iterators::ANONYMOUS_ITERATOR_V3,
    &anonymous_iterators::DELETE_ITERATOR,
    &reduce::REDUCE,
    &reduce::SINGLE,
    &reduce::CARDINALITY,
    &immutable_const::IMMUTABLE_CONST,
    &immutable_const::FACT,
    &by_index::GLOBAL_SHUFFLE,
    &by_index::GET_ELEMENT_AT_INDEX,
    &parse_example::PARSE_EXAMPLE,
    &parse_example::PARSE_EXAMPLE_V2,
    &parse_example::PARSE_SINGLE_EXAMPLE,
    &parse_sequence::PARSE_SEQUENCE,
    &parse_sequence::PARSE_SEQUENCE_V2,
    &parse_sequence::PARSE_SINGLE_SEQUENCE,
    &csv::DECODE_CSV,
    &json_example::DECODE_JSON_EXAMPLE,
    &padded_raw::DECODE_PADDED_RAW,
    &decompress::DECODE_COMPRESSED,
    &serialized_tensors::PARSE_TENSOR,
    &serialized_tensors::SERIALIZE_TENSOR,
    &readers::TF_RECORD,
    &readers::TEXT_LINE,
    &readers::FIXED_LENGTH,
    &readers::WHOLE_FILE,
    &readers::IDENTITY,
    &reader_references::TF_RECORD,
    &reader_references::TEXT_LINE,
    &reader_references::FIXED_LENGTH,
    &reader_references::WHOLE_FILE,
    &reader_references::IDENTITY,
    &reader_references::READ,
    &reader_references::READ_UP_TO,
    &reader_references::NUM_RECORDS,
    &reader_references::NUM_FILES,
    &reader_references::RESET,
    &record_input::RECORD_INPUT,
    &readers::READ,
    &readers::READ_UP_TO,
    &readers::NUM_RECORDS,
    &readers::NUM_FILES,
    &readers::RESET,
];
