//! Lists of values in a message: bytes, floats, integers. They borrow from the record.

use super::wire::{Field, Fields, Wire, varint};
use crate::error::DataError;

/// Contents of the fields of one number, in all messages that are fields of another number. Protobuf merges messages
/// that come several times.
#[derive(Clone, Debug)]
struct Contents<'a> {
    outer: Fields<'a>,
    outer_number: u32,
    inner: Fields<'a>,
    inner_number: u32,
}

impl<'a> Contents<'a> {
    fn next(&mut self) -> Result<Option<Field<'a>>, DataError> {
        loop {
            while let Some(field) = self.inner.next()? {
                if field.number == self.inner_number {
                    return Ok(Some(field));
                }
            }
            match self.outer.next()? {
                None => return Ok(None),
                Some(list) if list.number == self.outer_number && list.wire == Wire::Bytes => {
                    self.inner = self.outer.within(&list);
                }
                Some(_) => {}
            }
        }
    }
}

/// Byte strings of a feature.
#[derive(Clone, Debug)]
pub struct BytesList<'a>(Contents<'a>);

/// Floats of a feature. They are packed or not.
#[derive(Clone, Debug)]
pub struct FloatList<'a> {
    contents: Contents<'a>,
    packed: &'a [u8],
}

/// Integers of a feature. They are packed or not.
#[derive(Clone, Debug)]
pub struct IntList<'a> {
    contents: Contents<'a>,
    packed: &'a [u8],
}

/// The values of a feature.
#[derive(Clone, Debug)]
pub enum Feature<'a> {
    /// Byte strings.
    Bytes(BytesList<'a>),
    /// Floats.
    Floats(FloatList<'a>),
    /// Integers.
    Ints(IntList<'a>),
}

impl<'a> Feature<'a> {
    /// Reads a message `Feature`; `None` if it has no list. All values are checked.
    pub(super) fn parse(message: Fields<'a>) -> Result<Option<Feature<'a>>, DataError> {
        // The kind is that of the last list. A list of another kind before it is cleared; one of its own is merged.
        let mut kind = 0;
        let mut first = message.clone();
        let mut fields = message;
        loop {
            let here = fields.clone();
            let Some(field) = fields.next()? else { break };
            if !(1..=3).contains(&field.number) {
                continue;
            }
            expect(&fields, &field, Wire::Bytes)?;
            if field.number != kind {
                kind = field.number;
                first = here;
            }
        }
        let none = Fields::new("", &[]);
        let contents = Contents {
            outer: first,
            outer_number: kind,
            inner: none,
            inner_number: 1,
        };
        Ok(match kind {
            1 => Some(Feature::Bytes(BytesList::parse(contents)?)),
            2 => Some(Feature::Floats(FloatList::parse(contents)?)),
            3 => Some(Feature::Ints(IntList::parse(contents)?)),
            _ => None,
        })
    }

    /// Its byte strings; `None` if it has values of another kind.
    pub fn bytes(&self) -> Option<BytesList<'a>> {
        match self {
            Feature::Bytes(list) => Some(list.clone()),
            _ => None,
        }
    }

    /// Its floats; `None` if it has values of another kind.
    pub fn floats(&self) -> Option<FloatList<'a>> {
        match self {
            Feature::Floats(list) => Some(list.clone()),
            _ => None,
        }
    }

    /// Its integers; `None` if it has values of another kind.
    pub fn ints(&self) -> Option<IntList<'a>> {
        match self {
            Feature::Ints(list) => Some(list.clone()),
            _ => None,
        }
    }
}

/// Checks the encoding of a field.
pub(super) fn expect(fields: &Fields<'_>, field: &Field<'_>, wire: Wire) -> Result<(), DataError> {
    if field.wire == wire {
        return Ok(());
    }
    let (number, found) = (field.number, field.wire);
    let reason = format!("field {number} is encoded as {found:?}, and must be {wire:?}");
    Err(fields.error(field.offset, reason))
}

impl<'a> BytesList<'a> {
    fn parse(contents: Contents<'a>) -> Result<BytesList<'a>, DataError> {
        let mut each = contents.clone();
        while let Some(field) = each.next()? {
            expect(&each.inner, &field, Wire::Bytes)?;
        }
        Ok(BytesList(contents))
    }

    /// The byte strings, from the first on.
    pub fn to_vec(&self) -> Vec<&'a [u8]> {
        self.clone().collect()
    }
}

impl<'a> Iterator for BytesList<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        // There are no errors: all was checked when it was parsed.
        self.0.next().ok().flatten().map(|field| field.bytes)
    }
}

impl<'a> FloatList<'a> {
    fn parse(contents: Contents<'a>) -> Result<FloatList<'a>, DataError> {
        let mut each = contents.clone();
        while let Some(field) = each.next()? {
            if field.wire != Wire::Bytes {
                expect(&each.inner, &field, Wire::Fixed32)?;
            } else if !field.bytes.len().is_multiple_of(4) {
                let reason = format!("{} bytes are no floats", field.bytes.len());
                return Err(each.inner.error(field.offset, reason));
            }
        }
        Ok(FloatList {
            contents,
            packed: &[],
        })
    }

    /// The floats of fields of a message itself.
    pub(super) fn of_fields(message: Fields<'a>, number: u32) -> Result<FloatList<'a>, DataError> {
        FloatList::parse(Contents {
            outer: Fields::new("", &[]),
            outer_number: 0,
            inner: message,
            inner_number: number,
        })
    }

    /// The floats that are left.
    pub fn to_vec(&self) -> Vec<f32> {
        let mut all: Vec<f32> = self.packed.as_chunks().0.iter().map(float).collect();
        let mut contents = self.contents.clone();
        while let Ok(Some(field)) = contents.next() {
            all.extend(field.bytes.as_chunks().0.iter().map(float));
        }
        all
    }
}

fn float(bytes: &[u8; 4]) -> f32 {
    f32::from_le_bytes(*bytes)
}

impl Iterator for FloatList<'_> {
    type Item = f32;

    fn next(&mut self) -> Option<f32> {
        loop {
            if let Some((first, rest)) = self.packed.split_first_chunk() {
                self.packed = rest;
                return Some(float(first));
            }
            self.packed = self.contents.next().ok().flatten()?.bytes;
        }
    }
}

impl<'a> IntList<'a> {
    fn parse(contents: Contents<'a>) -> Result<IntList<'a>, DataError> {
        let mut each = contents.clone();
        while let Some(field) = each.next()? {
            if field.wire != Wire::Bytes {
                expect(&each.inner, &field, Wire::Varint)?;
            }
            let mut rest = field.bytes;
            while !rest.is_empty() {
                let at = field.offset + field.bytes.len() - rest.len();
                let wrong = || each.inner.error(at, "a varint is cut off or too long");
                let (_, length) = varint(rest).ok_or_else(wrong)?;
                rest = &rest[length..];
            }
        }
        Ok(IntList {
            contents,
            packed: &[],
        })
    }

    /// The integers that are left.
    pub fn to_vec(&self) -> Vec<i64> {
        self.clone().collect()
    }
}

impl Iterator for IntList<'_> {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        loop {
            if let Some((value, length)) = varint(self.packed) {
                self.packed = &self.packed[length..];
                return Some(value as i64);
            }
            self.packed = self.contents.next().ok().flatten()?.bytes;
        }
    }
}
