//! Datum: an image with a label, as Caffe's tools write it into LMDB files.

use super::lists::{FloatList, expect};
use super::wire::{Fields, Wire, put_bytes, put_number, put_varint, varint};
use crate::error::DataError;

/// Caffe's `Datum`.
#[derive(Clone, Debug)]
pub struct Datum<'a> {
    /// Number of channels. They are blue, green and red in images that Caffe's tools write.
    pub channels: i32,
    /// Number of rows.
    pub height: i32,
    /// Number of columns.
    pub width: i32,
    /// Bytes of the image: one for each element, channel by channel, or a file if it is `encoded`.
    pub data: &'a [u8],
    /// The class.
    pub label: i32,
    /// Elements that are floats, in place of `data`.
    pub float_data: FloatList<'a>,
    /// `true` if `data` is a file, JPEG or PNG.
    pub encoded: bool,
}

impl<'a> Datum<'a> {
    /// Reads a record that holds a Datum. Unknown fields are skipped.
    ///
    /// # Errors
    /// [`DataError::Message`]: the bytes are no Datum.
    pub fn parse(record: &'a [u8]) -> Result<Datum<'a>, DataError> {
        let mut fields = Fields::new("Datum", record);
        let mut datum = Datum {
            channels: 0,
            height: 0,
            width: 0,
            data: &[],
            label: 0,
            float_data: FloatList::of_fields(fields.clone(), 6)?,
            encoded: false,
        };
        while let Some(field) = fields.next()? {
            let number = match field.number {
                4 => {
                    expect(&fields, &field, Wire::Bytes)?;
                    datum.data = field.bytes;
                    continue;
                }
                1..=3 | 5 | 7 => {
                    expect(&fields, &field, Wire::Varint)?;
                    varint(field.bytes).map_or(0, |(value, _)| value)
                }
                _ => continue,
            };
            match field.number {
                1 => datum.channels = number as i32,
                2 => datum.height = number as i32,
                3 => datum.width = number as i32,
                5 => datum.label = number as i32,
                _ => datum.encoded = number != 0,
            }
        }
        Ok(datum)
    }

    /// The record. Floats are not packed, as Caffe declares them.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut to = Vec::with_capacity(self.data.len() + 32);
        let dims = [self.channels, self.height, self.width];
        for (number, dim) in (1..).zip(dims) {
            put_number(&mut to, number, i64::from(dim) as u64);
        }
        put_bytes(&mut to, 4, self.data);
        put_number(&mut to, 5, i64::from(self.label) as u64);
        for value in self.float_data.clone() {
            put_varint(&mut to, 6 << 3 | 5);
            to.extend_from_slice(&value.to_le_bytes());
        }
        put_number(&mut to, 7, self.encoded.into());
        to
    }
}
