//! Parsers of Example and SequenceExample.

use super::lists::{Feature, expect};
use super::wire::{Fields, Wire};
use crate::error::DataError;

/// A `tf.train.Example`: features by key.
///
/// Parsing checks the whole message, so that reading a feature cannot fail. Bytes are not copied.
#[derive(Clone, Debug, Default)]
pub struct Example<'a> {
    /// By key; no key comes twice.
    features: Vec<(&'a str, Feature<'a>)>,
}

impl<'a> Example<'a> {
    /// Reads a record that holds an Example. Unknown fields are skipped. Of a key that comes several times, the last
    /// counts.
    ///
    /// # Errors
    /// [`DataError::Message`]: the bytes are no Example.
    pub fn parse(record: &'a [u8]) -> Result<Example<'a>, DataError> {
        let fields = Fields::new("Example", record);
        let mut entries = Vec::new();
        each_message(fields, 1, |features| {
            read_map(features, &mut entries, Feature::parse)
        })?;
        Ok(Example::of(entries))
    }

    fn of(entries: Vec<(&'a str, Option<Feature<'a>>)>) -> Example<'a> {
        let entries = last_of_each(entries).into_iter();
        Example {
            features: entries.filter_map(|(key, f)| Some((key, f?))).collect(),
        }
    }

    /// The feature of a key; `None` if there is none, or one without a list of values.
    pub fn get(&self, key: &str) -> Option<Feature<'a>> {
        let found = self.features.binary_search_by_key(&key, |(key, _)| *key);
        found.ok().map(|at| self.features[at].1.clone())
    }

    /// All features, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &Feature<'a>)> {
        self.features.iter().map(|(key, feature)| (*key, feature))
    }

    /// Number of features.
    pub fn len(&self) -> usize {
        self.features.len()
    }

    /// `true` if it has no features.
    pub fn is_empty(&self) -> bool {
        self.features.is_empty()
    }
}

/// A `tf.train.SequenceExample`: features of a sequence, and features of each of its steps.
#[derive(Clone, Debug, Default)]
pub struct SequenceExample<'a> {
    context: Example<'a>,
    lists: Vec<(&'a str, FeatureList<'a>)>,
}

impl<'a> SequenceExample<'a> {
    /// Reads a record that holds a SequenceExample, as [`Example::parse`] does.
    ///
    /// # Errors
    /// [`DataError::Message`]: the bytes are no SequenceExample.
    pub fn parse(record: &'a [u8]) -> Result<SequenceExample<'a>, DataError> {
        let fields = Fields::new("SequenceExample", record);
        let mut context = Vec::new();
        let mut lists = Vec::new();
        each_message(fields.clone(), 1, |features| {
            read_map(features, &mut context, Feature::parse)
        })?;
        each_message(fields, 2, |all| {
            read_map(all, &mut lists, FeatureList::parse)
        })?;
        Ok(SequenceExample {
            context: Example::of(context),
            lists: last_of_each(lists),
        })
    }

    /// The features of the whole sequence.
    pub fn context(&self) -> &Example<'a> {
        &self.context
    }

    /// The features of the steps for a key.
    pub fn list(&self, key: &str) -> Option<FeatureList<'a>> {
        let found = self.lists.binary_search_by_key(&key, |(key, _)| *key);
        found.ok().map(|at| self.lists[at].1.clone())
    }

    /// All lists of features, by key.
    pub fn lists(&self) -> impl Iterator<Item = (&'a str, &FeatureList<'a>)> {
        self.lists.iter().map(|(key, list)| (*key, list))
    }
}

/// Features of the steps of a sequence. As an iterator, it gives `None` for a step without a list of values.
#[derive(Clone, Debug)]
pub struct FeatureList<'a>(Fields<'a>);

impl<'a> FeatureList<'a> {
    fn parse(message: Fields<'a>) -> Result<FeatureList<'a>, DataError> {
        each_message(message.clone(), 1, |feature| {
            Feature::parse(feature).map(drop)
        })?;
        Ok(FeatureList(message))
    }
}

impl<'a> Iterator for FeatureList<'a> {
    type Item = Option<Feature<'a>>;

    fn next(&mut self) -> Option<Option<Feature<'a>>> {
        // There are no errors: all was checked when it was parsed.
        while let Ok(Some(field)) = self.0.next() {
            if field.number == 1 {
                return Feature::parse(self.0.within(&field)).ok();
            }
        }
        None
    }
}

/// Calls a function with each message that is a field of this number.
fn each_message<'a>(
    mut fields: Fields<'a>,
    number: u32,
    mut read: impl FnMut(Fields<'a>) -> Result<(), DataError>,
) -> Result<(), DataError> {
    while let Some(field) = fields.next()? {
        if field.number == number {
            expect(&fields, &field, Wire::Bytes)?;
            read(fields.within(&field))?;
        }
    }
    Ok(())
}

/// Reads a message with a map from strings to messages as its field 1. Entries are appended.
fn read_map<'a, V>(
    message: Fields<'a>,
    entries: &mut Vec<(&'a str, V)>,
    parse: impl Fn(Fields<'a>) -> Result<V, DataError>,
) -> Result<(), DataError> {
    each_message(message, 1, |mut entry| {
        let mut key = "";
        let mut value = Fields::new("", &[]);
        while let Some(field) = entry.next()? {
            match field.number {
                1 => {
                    expect(&entry, &field, Wire::Bytes)?;
                    let wrong = |_| entry.error(field.offset, "a key is not UTF-8");
                    key = std::str::from_utf8(field.bytes).map_err(wrong)?;
                }
                2 => {
                    expect(&entry, &field, Wire::Bytes)?;
                    value = entry.within(&field);
                }
                _ => {}
            }
        }
        entries.push((key, parse(value)?));
        Ok(())
    })
}

/// The entries by key; of those with one key, the last.
fn last_of_each<V>(mut entries: Vec<(&str, V)>) -> Vec<(&str, V)> {
    entries.reverse();
    entries.sort_by_key(|(key, _)| *key);
    entries.dedup_by_key(|(key, _)| *key);
    entries
}
