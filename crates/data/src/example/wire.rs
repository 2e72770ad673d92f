//! Fields of protobuf messages: tags, varints, lengths, groups.
//!
//! Source: the encoding section of protobuf's documentation.

use crate::error::DataError;

/// Largest depth of groups, which only unknown fields can have. It is that of protobuf's parsers.
const MAX_GROUP_DEPTH: usize = 100;

/// Encoding of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Varint,
    Fixed64,
    Bytes,
    Group,
    Fixed32,
}

/// A field of a message. The bytes are those of its value: of a varint its digits, of a length-delimited one its
/// content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) number: u32,
    pub(crate) wire: Wire,
    pub(crate) bytes: &'a [u8],
    /// Position of `bytes` in the record.
    pub(crate) offset: usize,
}

/// Reads the fields of a message one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    /// Name of the outermost message, for errors.
    message: &'static str,
    rest: &'a [u8],
    /// Position of `rest` in the record.
    offset: usize,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(message: &'static str, bytes: &'a [u8]) -> Fields<'a> {
        Fields {
            message,
            rest: bytes,
            offset: 0,
        }
    }

    /// The fields of the message in a field.
    pub(crate) fn within(&self, field: &Field<'a>) -> Fields<'a> {
        Fields {
            message: self.message,
            rest: field.bytes,
            offset: field.offset,
        }
    }

    pub(crate) fn error(&self, offset: usize, reason: impl Into<String>) -> DataError {
        DataError::Message {
            message: self.message,
            offset,
            reason: reason.into(),
        }
    }

    /// The next field; `None` at the end of the message.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Field<'a>>, DataError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let at = self.offset;
        let (number, kind) = self.tag()?;
        let Some(field) = self.value(number, kind)? else {
            return Err(self.error(at, "ends a group that has not started"));
        };
        if field.wire == Wire::Group {
            self.skip_group(number)?;
        }
        Ok(Some(field))
    }

    /// The number and the wire type of the next field.
    #[inline]
    fn tag(&mut self) -> Result<(u32, u8), DataError> {
        let at = self.offset;
        let tag = self.varint()?;
        match u32::try_from(tag) {
            Ok(tag) if tag >> 3 != 0 => Ok((tag >> 3, (tag & 7) as u8)),
            _ => Err(self.error(at, format!("{tag} is no tag of a field"))),
        }
    }

    /// The value of a field; `None` for the end of a group. Of a group, only the start is read.
    #[inline]
    fn value(&mut self, number: u32, kind: u8) -> Result<Option<Field<'a>>, DataError> {
        let at = self.offset;
        let (wire, bytes, offset) = match kind {
            0 => {
                let from = self.rest;
                self.varint()?;
                (Wire::Varint, &from[..from.len() - self.rest.len()], at)
            }
            1 => (Wire::Fixed64, self.take(8)?, at),
            2 => {
                let length = self.varint()?;
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                let offset = self.offset;
                (Wire::Bytes, self.take(length)?, offset)
            }
            3 => (Wire::Group, &[][..], at),
            4 => return Ok(None),
            5 => (Wire::Fixed32, self.take(4)?, at),
            _ => return Err(self.error(at, format!("there is no wire type {kind}"))),
        };
        Ok(Some(Field {
            number,
            wire,
            bytes,
            offset,
        }))
    }

    fn skip_group(&mut self, number: u32) -> Result<(), DataError> {
        let mut open = vec![number];
        while let Some(&group) = open.last() {
            let at = self.offset;
            let (number, kind) = self.tag()?;
            match self.value(number, kind)? {
                None if number == group => drop(open.pop()),
                None => return Err(self.error(at, "ends a group that has not started")),
                Some(field) if field.wire == Wire::Group => open.push(number),
                Some(_) => {}
            }
            if open.len() > MAX_GROUP_DEPTH {
                let reason = format!("groups are more than {MAX_GROUP_DEPTH} deep");
                return Err(self.error(at, reason));
            }
        }
        Ok(())
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, DataError> {
        match varint(self.rest) {
            Some((value, length)) => {
                self.rest = &self.rest[length..];
                self.offset += length;
                Ok(value)
            }
            None => Err(self.error(self.offset, "a varint is cut off or too long")),
        }
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8], DataError> {
        match self.rest.split_at_checked(length) {
            Some((taken, rest)) => {
                self.rest = rest;
                self.offset += length;
                Ok(taken)
            }
            None => {
                let left = self.rest.len();
                let reason = format!("a value of {length} bytes is cut off: there are {left}");
                Err(self.error(self.offset, reason))
            }
        }
    }
}

/// The varint at the start of `bytes`, and its length. As in protobuf's parsers, bits above the 64th are left out.
#[inline]
pub(crate) fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    if let [byte @ 0..0x80, ..] = bytes {
        return Some((u64::from(*byte), 1));
    }
    let mut value = 0;
    for (at, &byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Some((value, at + 1));
        }
    }
    None
}

/// Appends a varint.
pub(crate) fn put_varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Appends a field that holds a varint.
pub(crate) fn put_number(to: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(to, u64::from(number) << 3);
    put_varint(to, value);
}

/// Appends a field that holds bytes, a string or a message.
pub(crate) fn put_bytes(to: &mut Vec<u8>, number: u32, value: &[u8]) {
    put_varint(to, u64::from(number) << 3 | 2);
    put_varint(to, value.len() as u64);
    to.extend_from_slice(value);
}
