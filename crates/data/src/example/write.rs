//! Writers of Example and SequenceExample.

use std::collections::BTreeMap;

use super::wire::{put_bytes, put_varint};

/// Writes a `tf.train.Example`. Features are in the order of their keys; of a key that is given twice, the last counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExampleWriter {
    features: BTreeMap<String, Vec<u8>>,
}

impl ExampleWriter {
    /// An Example without features.
    pub fn new() -> ExampleWriter {
        ExampleWriter::default()
    }

    /// Adds a feature of byte strings.
    pub fn bytes<B: AsRef<[u8]>>(
        mut self,
        key: impl Into<String>,
        values: impl IntoIterator<Item = B>,
    ) -> ExampleWriter {
        self.features.insert(key.into(), bytes_feature(values));
        self
    }

    /// Adds a feature of floats.
    pub fn floats(mut self, key: impl Into<String>, values: &[f32]) -> ExampleWriter {
        self.features.insert(key.into(), floats_feature(values));
        self
    }

    /// Adds a feature of integers.
    pub fn ints(mut self, key: impl Into<String>, values: &[i64]) -> ExampleWriter {
        self.features.insert(key.into(), ints_feature(values));
        self
    }

    /// Adds a feature without a list.
    pub fn empty(mut self, key: impl Into<String>) -> ExampleWriter {
        self.features.insert(key.into(), Vec::new());
        self
    }

    /// The record.
    pub fn finish(&self) -> Vec<u8> {
        in_field(1, &map(&self.features))
    }
}

/// Writes a `tf.train.SequenceExample`. Its lists have a feature for each step.
///
/// ```
/// use thalweg_data::example::{ExampleWriter, SequenceExample, SequenceExampleWriter};
///
/// let record = SequenceExampleWriter::new(ExampleWriter::new().ints("length", &[2]))
///     .ints("words", [[3], [5]])
///     .finish();
/// let words = SequenceExample::parse(&record)?.list("words").expect("it was written");
/// let words: Vec<i64> = words.flatten().filter_map(|step| step.ints()?.next()).collect();
/// assert_eq!(words, [3, 5]);
/// # Ok::<(), thalweg_data::DataError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceExampleWriter {
    context: ExampleWriter,
    lists: BTreeMap<String, Vec<u8>>,
}

impl SequenceExampleWriter {
    /// A sequence with these features of its own.
    pub fn new(context: ExampleWriter) -> SequenceExampleWriter {
        SequenceExampleWriter {
            context,
            lists: BTreeMap::new(),
        }
    }

    /// Adds byte strings of each step.
    pub fn bytes<B: AsRef<[u8]>, V: IntoIterator<Item = B>>(
        self,
        key: impl Into<String>,
        steps: impl IntoIterator<Item = V>,
    ) -> SequenceExampleWriter {
        self.list(key.into(), steps.into_iter().map(bytes_feature))
    }

    /// Adds floats of each step.
    pub fn floats<V: AsRef<[f32]>>(
        self,
        key: impl Into<String>,
        steps: impl IntoIterator<Item = V>,
    ) -> SequenceExampleWriter {
        let features = steps.into_iter().map(|step| floats_feature(step.as_ref()));
        self.list(key.into(), features)
    }

    /// Adds integers of each step.
    pub fn ints<V: AsRef<[i64]>>(
        self,
        key: impl Into<String>,
        steps: impl IntoIterator<Item = V>,
    ) -> SequenceExampleWriter {
        let features = steps.into_iter().map(|step| ints_feature(step.as_ref()));
        self.list(key.into(), features)
    }

    fn list(mut self, key: String, steps: impl Iterator<Item = Vec<u8>>) -> SequenceExampleWriter {
        let mut list = Vec::new();
        steps.for_each(|feature| put_bytes(&mut list, 1, &feature));
        self.lists.insert(key, list);
        self
    }

    /// The record.
    pub fn finish(&self) -> Vec<u8> {
        let mut to = self.context.finish();
        put_bytes(&mut to, 2, &map(&self.lists));
        to
    }
}

fn bytes_feature<B: AsRef<[u8]>>(values: impl IntoIterator<Item = B>) -> Vec<u8> {
    let mut list = Vec::new();
    let values = values.into_iter();
    values.for_each(|value| put_bytes(&mut list, 1, value.as_ref()));
    in_field(1, &list)
}

fn floats_feature(values: &[f32]) -> Vec<u8> {
    let packed: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    in_field(2, &packed_field(&packed))
}

fn ints_feature(values: &[i64]) -> Vec<u8> {
    let mut packed = Vec::new();
    let values = values.iter();
    values.for_each(|&value| put_varint(&mut packed, value as u64));
    in_field(3, &packed_field(&packed))
}

/// A list of packed numbers; of none there is no field.
fn packed_field(packed: &[u8]) -> Vec<u8> {
    match packed.is_empty() {
        true => Vec::new(),
        false => in_field(1, packed),
    }
}

/// A message with a map from strings to messages as its field 1.
fn map(entries: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    let mut to = Vec::new();
    for (key, value) in entries {
        let mut entry = in_field(1, key.as_bytes());
        put_bytes(&mut entry, 2, value);
        put_bytes(&mut to, 1, &entry);
    }
    to
}

/// A message with these bytes as its only field.
fn in_field(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut to = Vec::with_capacity(bytes.len() + 8);
    put_bytes(&mut to, number, bytes);
    to
}
