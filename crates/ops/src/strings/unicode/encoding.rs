//! Encodings of text, read and written one code point at a time.

/// An encoding of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Utf8,
    Utf16(ByteOrder),
    Utf32(ByteOrder),
    Ascii,
    Latin1,
}

/// The order of the bytes of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Big,
    Little,
    /// That of a mark at the beginning of the string, which is no part of the text; without one, big-endian.
    Marked,
}

impl Encoding {
    /// The names of all encodings.
    pub(super) const NAMES: [&str; 9] = [
        "UTF-8",
        "UTF-16",
        "UTF-16-BE",
        "UTF-16-LE",
        "UTF-32",
        "UTF-32-BE",
        "UTF-32-LE",
        "US-ASCII",
        "ISO-8859-1",
    ];

    /// The encoding with this name, in any case and with any punctuation.
    pub(super) fn of(name: &str) -> Option<Encoding> {
        let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        Some(match plain.to_ascii_lowercase().as_str() {
            "utf8" => Encoding::Utf8,
            "utf16" => Encoding::Utf16(ByteOrder::Marked),
            "utf16be" => Encoding::Utf16(ByteOrder::Big),
            "utf16le" => Encoding::Utf16(ByteOrder::Little),
            "utf32" => Encoding::Utf32(ByteOrder::Marked),
            "utf32be" => Encoding::Utf32(ByteOrder::Big),
            "utf32le" => Encoding::Utf32(ByteOrder::Little),
            "usascii" | "ascii" => Encoding::Ascii,
            "iso88591" | "latin1" => Encoding::Latin1,
            _ => return None,
        })
    }

    /// The encoding of a string, and the bytes of its mark.
    fn by_mark(self, bytes: &[u8]) -> (Encoding, usize) {
        let marks: [(&[u8], ByteOrder); 2] = match self {
            Encoding::Utf16(ByteOrder::Marked) => [
                (b"\xfe\xff", ByteOrder::Big),
                (b"\xff\xfe", ByteOrder::Little),
            ],
            Encoding::Utf32(ByteOrder::Marked) => [
                (b"\0\0\xfe\xff", ByteOrder::Big),
                (b"\xff\xfe\0\0", ByteOrder::Little),
            ],
            _ => return (self, 0),
        };
        let mark = marks.into_iter().find(|(mark, _)| bytes.starts_with(mark));
        let (mark, order) = mark.unwrap_or((&[], ByteOrder::Big));
        let encoding = match self {
            Encoding::Utf16(_) => Encoding::Utf16(order),
            _ => Encoding::Utf32(order),
        };
        (encoding, mark.len())
    }

    /// Reads a string: `take` gets each code point, or `None` for bytes that are no character, and their number. The first has
    /// those of a mark too.
    ///
    /// # Errors
    /// The first of `take`.
    pub(super) fn read<E>(
        self,
        bytes: &[u8],
        take: &mut dyn FnMut(Option<u32>, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let (encoding, mark) = self.by_mark(bytes);
        let mut of_mark = mark;
        encoding.read_unmarked(&bytes[mark..], &mut |point, bytes| {
            take(point, bytes + std::mem::take(&mut of_mark))
        })
    }

    fn read_unmarked<E>(
        self,
        bytes: &[u8],
        take: &mut dyn FnMut(Option<u32>, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Encoding::Utf8 => {
                for chunk in bytes.utf8_chunks() {
                    (chunk.valid().chars())
                        .try_for_each(|c| take(Some(u32::from(c)), c.len_utf8()))?;
                    if !chunk.invalid().is_empty() {
                        take(None, chunk.invalid().len())?;
                    }
                }
                Ok(())
            }
            Encoding::Utf16(order) => read_utf16(bytes, order == ByteOrder::Little, take),
            Encoding::Utf32(order) => {
                let (whole, rest) = bytes.as_chunks::<4>();
                for four in whole {
                    let point = match order {
                        ByteOrder::Little => u32::from_le_bytes(*four),
                        _ => u32::from_be_bytes(*four),
                    };
                    take(Some(point).filter(|p| char::from_u32(*p).is_some()), 4)?;
                }
                match rest.len() {
                    0 => Ok(()),
                    left => take(None, left),
                }
            }
            Encoding::Ascii => (bytes.iter())
                .try_for_each(|b| take(Some(u32::from(*b)).filter(|_| b.is_ascii()), 1)),
            Encoding::Latin1 => bytes.iter().try_for_each(|b| take(Some(u32::from(*b)), 1)),
        }
    }

    /// Appends a code point; nothing where it is none.
    pub(super) fn write(self, point: u32, to: &mut Vec<u8>) {
        let Some(character) = char::from_u32(point) else {
            return;
        };
        match self {
            Encoding::Utf16(order) => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    to.extend(match order {
                        ByteOrder::Little => unit.to_le_bytes(),
                        _ => unit.to_be_bytes(),
                    });
                }
            }
            Encoding::Utf32(order) => to.extend(match order {
                ByteOrder::Little => point.to_le_bytes(),
                _ => point.to_be_bytes(),
            }),
            _ => to.extend(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

fn read_utf16<E>(
    bytes: &[u8],
    little: bool,
    take: &mut dyn FnMut(Option<u32>, usize) -> Result<(), E>,
) -> Result<(), E> {
    let (whole, rest) = bytes.as_chunks::<2>();
    let units = whole.iter().map(|two| match little {
        true => u16::from_le_bytes(*two),
        false => u16::from_be_bytes(*two),
    });
    for read in char::decode_utf16(units) {
        match read {
            Ok(c) => take(Some(u32::from(c)), 2 * c.len_utf16())?,
            Err(_) => take(None, 2)?,
        }
    }
    match rest.len() {
        0 => Ok(()),
        left => take(None, left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(encoding: Encoding, bytes: &[u8]) -> Vec<(Option<u32>, usize)> {
        let mut all = Vec::new();
        let ended: Result<(), ()> = encoding.read(bytes, &mut |point, bytes| {
            all.push((point, bytes));
            Ok(())
        });
        ended.unwrap();
        all
    }

    #[test]
    fn what_is_written_is_read_again() {
        for name in ["UTF-8", "utf-16-be", "UTF16LE", "UTF-32", "UTF-32-LE"] {
            let encoding = Encoding::of(name).unwrap();
            let points = [0x41, 0xe9, 0x20ac, 0x1f_600];
            let mut bytes = Vec::new();
            points.iter().for_each(|p| encoding.write(*p, &mut bytes));
            let found: Vec<u32> = read(encoding, &bytes)
                .iter()
                .filter_map(|(p, _)| *p)
                .collect();
            assert_eq!(found, points, "{name}");
            let counted: usize = read(encoding, &bytes).iter().map(|(_, n)| n).sum();
            assert_eq!(counted, bytes.len(), "{name}");
        }
        assert_eq!(Encoding::of("EBCDIC"), None);
    }

    #[test]
    fn bytes_that_are_no_character_are_read_as_none() {
        let a = (Some(0x61), 1);
        assert_eq!(read(Encoding::Utf8, b"a\xffa"), [a, (None, 1), a]);
        assert_eq!(read(Encoding::Utf8, b"\xe2\x82a"), [(None, 2), a]);
        assert_eq!(read(Encoding::Ascii, b"a\x80"), [a, (None, 1)]);
        assert_eq!(read(Encoding::Latin1, b"\xe9"), [(Some(0xe9), 1)]);
        let utf16 = Encoding::Utf16(ByteOrder::Big);
        assert_eq!(
            read(utf16, b"\xd8\x00\x00a\x00"),
            [(None, 2), (Some(0x61), 2), (None, 1)]
        );
        let utf32 = Encoding::Utf32(ByteOrder::Big);
        assert_eq!(read(utf32, b"\x00\x11\x00\x00"), [(None, 4)]);
    }

    /// The numbers are those of TensorFlow 2.21.
    #[test]
    fn a_mark_tells_the_order_of_bytes_where_the_encoding_does_not() {
        let of = |name: &str, bytes: &[u8]| -> Vec<(u32, usize)> {
            let all = read(Encoding::of(name).unwrap(), bytes);
            all.into_iter().map(|(p, n)| (p.unwrap(), n)).collect()
        };
        let (a, b) = (0x61, 0x62);
        assert_eq!(of("UTF-16", b"\xfe\xff\0a\0b"), [(a, 4), (b, 2)]);
        assert_eq!(of("UTF-16", b"\xff\xfea\0b\0"), [(a, 4), (b, 2)]);
        assert_eq!(of("UTF-16", b"\0a\0b"), [(a, 2), (b, 2)]);
        assert_eq!(of("UTF-16", b"\xff\xfea\0\xff\xfe"), [(a, 4), (0xfeff, 2)]);
        assert_eq!(of("UTF-16-BE", b"\xfe\xff\0a"), [(0xfeff, 2), (a, 2)]);
        assert_eq!(of("UTF-16-LE", b"\xff\xfea\0"), [(0xfeff, 2), (a, 2)]);
        assert_eq!(of("UTF-8", b"\xef\xbb\xbfa"), [(0xfeff, 3), (a, 1)]);
        assert_eq!(of("UTF-32", b"\0\0\xfe\xff\0\0\0a"), [(a, 8)]);
        assert_eq!(of("UTF-32", b"\xff\xfe\0\0a\0\0\0"), [(a, 8)]);
        assert_eq!(
            of("UTF-32-BE", b"\0\0\xfe\xff\0\0\0a"),
            [(0xfeff, 4), (a, 4)]
        );
    }
}
