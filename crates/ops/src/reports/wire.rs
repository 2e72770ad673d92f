//! Encoder and decoder for the part of the protocol buffer wire format that summaries need: TensorFlow's `Summary`
//! (`tensorflow/core/framework/summary.proto`) consists of numbers, strings and messages, each with a field
//! number. The format: <https://protobuf.dev/programming-guides/encoding>.

/// Field `value` of a `Summary`.
pub(super) const VALUE: u32 = 1;
/// Field `tag` of a `Summary.Value`.
pub(super) const TAG: u32 = 1;

/// A message that is being encoded.
#[derive(Default)]
pub(super) struct Message(pub(super) Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn key(&mut self, field: u32, wire: u64) {
        self.varint(u64::from(field) << 3 | wire);
    }

    /// Appends a string, bytes, a message, or packed numbers.
    pub(super) fn bytes(mut self, field: u32, bytes: &[u8]) -> Message {
        self.key(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends an integer or an enum.
    pub(super) fn int(mut self, field: u32, value: u64) -> Message {
        self.key(field, 0);
        self.varint(value);
        self
    }

    pub(super) fn float(mut self, field: u32, value: f32) -> Message {
        self.key(field, 5);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends a double, unless it is zero: the default.
    pub(super) fn double(mut self, field: u32, value: f64) -> Message {
        if value.to_bits() != 0 {
            self.key(field, 1);
            self.0.extend_from_slice(&value.to_le_bytes());
        }
        self
    }

    /// Appends packed doubles.
    pub(super) fn doubles(self, field: u32, values: &[f64]) -> Message {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.bytes(field, &bytes)
    }
}

/// Fields of a message that are bytes, with their numbers; `None` if the bytes are not a message.
pub(super) fn fields(mut rest: &[u8]) -> Option<Vec<(u64, &[u8])>> {
    let mut found = Vec::new();
    while !rest.is_empty() {
        let key = read_varint(&mut rest)?;
        let len = match key & 7 {
            0 => {
                read_varint(&mut rest)?;
                0
            }
            1 => 8,
            2 => usize::try_from(read_varint(&mut rest)?).ok()?,
            5 => 4,
            _ => return None,
        };
        let bytes = rest.get(..len)?;
        rest = &rest[len..];
        if key & 7 == 2 {
            found.push((key >> 3, bytes));
        }
    }
    Some(found)
}

fn read_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
