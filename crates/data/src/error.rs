//! Errors of reading and serving data sets.

use std::io;
use std::path::PathBuf;
use thalweg_tensor::text::counted;

use crate::record_error::RecordError;

/// Error of reading or serving a data set.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The system could not open or read a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },

    /// A record of a TFRecord file cannot be read.
    #[error("{}: record {record}, at byte {offset}: {source}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Its number in the file, from 0.
        record: u64,
        /// Its first byte.
        offset: u64,
        /// The error of the reader.
        source: RecordError,
    },

    /// Bytes are not the message that they should be.
    #[error("{message}, byte {offset}: {reason}")]
    Message {
        /// The kind of message: `Example`, `SequenceExample` or `Datum`.
        message: &'static str,
        /// The position in the record.
        offset: usize,
        /// The reason.
        reason: String,
    },

    /// There is no element of this number.
    #[error("element {index} of {len}: give a number below {len}")]
    Index {
        /// The number.
        index: u64,
        /// Number of elements.
        len: u64,
    },

    /// A pattern of file names cannot be used.
    #[error("the pattern `{pattern}`: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// The reason.
        reason: String,
    },

    /// A file is damaged, or of another format.
    #[error("{}, byte {offset}: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The position in the file; in the unpacked bytes of a compressed one.
        offset: u64,
        /// The reason.
        reason: String,
    },

    /// Elements of a batch cannot be put into one tensor.
    #[error("tensor {tensor} of batch {batch}, both counted from 0: {reason}")]
    Batch {
        /// The batch, counted from 0 in its epoch.
        batch: u64,
        /// The tensor among those of an element.
        tensor: usize,
        /// The reason.
        reason: String,
    },

    /// A shard that there is none of.
    #[error("shard {index} of {shards}: give a number below {shards}")]
    Shard {
        /// Number of shards.
        shards: u64,
        /// The shard.
        index: u64,
    },

    /// An operator was given numbers that it cannot use.
    #[error("{0}")]
    Options(String),

    /// A file cannot be written.
    #[error(transparent)]
    Checkpoint(#[from] thalweg_checkpoint::CheckpointError),

    /// A function of a pipeline has failed.
    #[error("{0}")]
    Function(Box<dyn std::error::Error + Send + Sync>),

    /// A function of a pipeline has panicked.
    #[error("a function of the pipeline has panicked: {0}")]
    Panicked(String),

    /// A thread of a pipeline cannot be started.
    #[error("a thread of the pipeline cannot be started: {0}")]
    Thread(io::Error),

    /// A folder holds none of the names that a file of the data set can have.
    #[error(
        "{}: holds no file named {}; give the folder that holds the four MNIST files",
        dir.display(),
        tried.join(" or ")
    )]
    NotFound {
        /// The folder that was searched.
        dir: PathBuf,
        /// The names that were tried, in this order.
        tried: Vec<String>,
    },

    /// A gzip stream is cut off or corrupt.
    #[error(
        "{}: its gzip stream breaks after {offset} unpacked bytes ({source}); \
         get the file again",
        path.display()
    )]
    Gzip {
        /// The file.
        path: PathBuf,
        /// Number of bytes that were unpacked before the error.
        offset: u64,
        /// The error of the decoder.
        source: io::Error,
    },

    /// A compressed file, in a build without the feature `gzip`.
    #[error(
        "{}: is compressed, and the program is built without it: add the feature `gzip` of the package \
         `thalweg`, or unpack the file",
        path.display()
    )]
    WithoutGzip {
        /// The file.
        path: PathBuf,
    },

    /// The first bytes are neither those of gzip nor those of IDX.
    #[error(
        "{}: starts with {:02x} {:02x}, which is neither gzip (1f 8b) nor IDX (00 00)",
        path.display(),
        found[0],
        found[1]
    )]
    Magic {
        /// The file.
        path: PathBuf,
        /// The first two bytes, after unpacking if the file is gzipped.
        found: [u8; 2],
    },

    /// The header names an element type that IDX has, but that is not read here.
    #[error(
        "{}: holds elements of type {name} (0x{found:02x} at byte 2), \
         only u8 (0x08) is read",
        path.display()
    )]
    UnsupportedElement {
        /// The file.
        path: PathBuf,
        /// The type's code in the header.
        found: u8,
        /// The type's name in Rust.
        name: &'static str,
    },

    /// The header names an element type that IDX does not have.
    #[error(
        "{}: names the element type 0x{found:02x} at byte 2, which IDX does not have",
        path.display()
    )]
    UnknownElement {
        /// The file.
        path: PathBuf,
        /// The code in the header.
        found: u8,
    },

    /// The header has another number of dimensions than the caller needs.
    #[error(
        "{}: has {found} dimensions (byte 3), {expected} are needed; \
         images have 3, labels 1",
        path.display()
    )]
    Rank {
        /// The file.
        path: PathBuf,
        /// Number of dimensions that the caller needs.
        expected: usize,
        /// Number of dimensions in the header.
        found: usize,
    },

    /// The header's dimensions multiply to more than [`MAX_BYTES`](crate::MAX_BYTES).
    #[error(
        "{}: its header claims {dims:?} elements, more than the {limit} that are read",
        path.display()
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The dimensions in the header.
        dims: Vec<u32>,
        /// Largest number of elements that is read.
        limit: u64,
    },

    /// The file ends before its header or its elements do.
    #[error(
        "{}: ends after {found} bytes (unpacked), its header needs {expected}; \
         get the file again",
        path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Number of bytes that the file must have, counted from the start of the header.
        expected: u64,
        /// Number of bytes that it has.
        found: u64,
    },

    /// There are bytes after the last element.
    #[error(
        "{}: goes on after byte {expected} (unpacked), where its header says it ends",
        path.display()
    )]
    Trailing {
        /// The file.
        path: PathBuf,
        /// Length of the file by its header.
        expected: u64,
    },

    /// The number of labels is not the number of images.
    #[error("{} with {}: each image needs one label", counted(.images, "image"), counted(.labels, "label"))]
    CountMismatch {
        /// Number of images.
        images: usize,
        /// Number of labels.
        labels: usize,
    },

    /// The number of pixels is not a whole number of images.
    #[error("{found} pixels cannot be divided into images of {rows} x {cols}")]
    PixelCount {
        /// The rows of an image.
        rows: usize,
        /// The columns of an image.
        cols: usize,
        /// Number of pixels.
        found: usize,
    },

    /// A label is not a class.
    #[error("label {index} is {value}, the classes are 0 to {}", classes - 1)]
    Label {
        /// The position of the first such label.
        index: usize,
        /// Its value.
        value: u8,
        /// Number of classes.
        classes: usize,
    },

    /// The images do not have MNIST's size.
    #[error(
        "{}: its images are {} x {}, MNIST's are {} x {}",
        path.display(),
        found[0],
        found[1],
        expected[0],
        expected[1]
    )]
    ImageSize {
        /// The file with the images.
        path: PathBuf,
        /// The rows and columns of MNIST's images.
        expected: [usize; 2],
        /// The rows and columns of the file's images.
        found: [usize; 2],
    },

    /// The batch size is 0.
    #[error("a batch size of 0 makes no progress; use 1 or more")]
    ZeroBatch,

    /// The data set is empty: no batch can be drawn.
    #[error("the data set is empty: no batch can be drawn from it")]
    EmptySplit,

    /// There are more examples than a permutation of `u32` can number.
    #[error("{found} examples are more than can be shuffled ({})", u32::MAX)]
    TooManyExamples {
        /// Number of examples.
        found: usize,
    },

    /// A buffer to fill has the wrong length.
    #[error("the buffer for {what} holds {}, this batch fills {expected}", counted(.found, "element"))]
    BufferLength {
        /// Content of the buffer: `images`, `labels` or `one-hot labels`.
        what: &'static str,
        /// Number of elements that it must hold.
        expected: usize,
        /// Number of elements that it holds.
        found: usize,
    },

    /// Tensors without a row for each example.
    #[error(
        "tensors of shapes {shapes:?} are no examples: give tensors of numbers or strings whose first dimensions are equal"
    )]
    Rows {
        /// Shape of each tensor.
        shapes: Vec<Vec<usize>>,
    },

    /// There is no memory for a batch.
    #[error(transparent)]
    Tensor(#[from] thalweg_tensor::TensorError),
}

/// Prints the message of `Display`: a program that returns the error from `main` prints its `Debug` form.
impl std::fmt::Debug for DataError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
