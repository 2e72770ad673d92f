//! Parser of the protobuf text format, as far as a state file needs it: scalar fields, lists,
//! strings with escapes. Source: the specification of the text format.

/// A field of a message.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) value: TextValue,
}

/// The value of a field.
#[derive(Debug)]
pub(super) enum TextValue {
    String(Vec<u8>),
    /// A number, or a name.
    Word(String),
    List(Vec<TextValue>),
    /// A message, which is skipped here.
    Message,
}

impl Field {
    /// The elements of a repeated field, whose short form is a list.
    pub(super) fn values(&self) -> &[TextValue] {
        match &self.value {
            TextValue::List(all) => all,
            one => std::slice::from_ref(one),
        }
    }
}

impl TextValue {
    pub(super) fn string(&self) -> Option<String> {
        match self {
            TextValue::String(bytes) => String::from_utf8(bytes.clone()).ok(),
            _ => None,
        }
    }

    pub(super) fn number(&self) -> Option<f64> {
        match self {
            TextValue::Word(word) => word.trim_end_matches(['f', 'F']).parse().ok(),
            _ => None,
        }
    }
}

/// Parses the fields of a text.
pub(super) fn fields(text: &[u8]) -> Result<Vec<Field>, String> {
    let mut reader = Parser { text, at: 0 };
    let mut fields = Vec::new();
    while reader.peek().is_some() {
        let name = reader.word()?;
        if name.is_empty() {
            return Err(reader.wrong("a field's name"));
        }
        let colon = reader.take(b':');
        let value = match reader.peek() {
            Some(b'{' | b'<') => reader.message()?,
            _ if !colon => return Err(reader.wrong("a colon")),
            Some(b'[') => reader.list()?,
            _ => reader.scalar()?,
        };
        fields.push(Field { name, value });
        let _ = reader.take(b',') || reader.take(b';');
    }
    Ok(fields)
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    /// The next byte after blanks and comments.
    fn peek(&mut self) -> Option<u8> {
        while let Some(&byte) = self.text.get(self.at) {
            match byte {
                b'#' => {
                    let rest = &self.text[self.at..];
                    let line = rest.iter().position(|&b| b == b'\n');
                    self.at += line.unwrap_or(rest.len());
                }
                _ if byte.is_ascii_whitespace() => self.at += 1,
                _ => return Some(byte),
            }
        }
        None
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn wrong(&self, wanted: &str) -> String {
        let before = &self.text[..self.at.min(self.text.len())];
        let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
        format!("is no checkpoint state: line {line} lacks {wanted}")
    }

    fn word(&mut self) -> Result<String, String> {
        self.peek();
        let rest = &self.text[self.at..];
        let is_part = |b: &u8| b.is_ascii_alphanumeric() || b"_.+-".contains(b);
        let length = rest.iter().take_while(|b| is_part(b)).count();
        self.at += length;
        Ok(String::from_utf8_lossy(&rest[..length]).into_owned())
    }

    fn scalar(&mut self) -> Result<TextValue, String> {
        match self.peek() {
            Some(b'"' | b'\'') => {
                // Adjacent strings are concatenated.
                let mut all = Vec::new();
                while let Some(quote @ (b'"' | b'\'')) = self.peek() {
                    self.at += 1;
                    self.string(quote, &mut all)?;
                }
                Ok(TextValue::String(all))
            }
            _ => match self.word()? {
                word if word.is_empty() => Err(self.wrong("a value")),
                word => Ok(TextValue::Word(word)),
            },
        }
    }

    fn list(&mut self) -> Result<TextValue, String> {
        self.at += 1;
        let mut all = Vec::new();
        while !self.take(b']') {
            all.push(self.scalar()?);
            if !self.take(b',') && self.peek() != Some(b']') {
                return Err(self.wrong("the end of a list"));
            }
        }
        Ok(TextValue::List(all))
    }

    /// Skips a message, with the messages and strings in it.
    fn message(&mut self) -> Result<TextValue, String> {
        let mut depth = 0usize;
        loop {
            match self.peek() {
                Some(b'{' | b'<') => depth += 1,
                Some(b'}' | b'>') => depth -= 1,
                Some(b'"' | b'\'') => {
                    self.scalar()?;
                    continue;
                }
                Some(_) => {}
                None => return Err(self.wrong("the end of a message")),
            }
            self.at += 1;
            if depth == 0 {
                return Ok(TextValue::Message);
            }
        }
    }

    /// Parses a string after its opening quote.
    fn string(&mut self, quote: u8, to: &mut Vec<u8>) -> Result<(), String> {
        loop {
            match self.next() {
                Some(b'\\') => self.escape(to)?,
                Some(byte) if byte == quote => return Ok(()),
                Some(b'\n') | None => return Err(self.wrong("the end of a string")),
                Some(byte) => to.push(byte),
            }
        }
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.text.get(self.at).copied();
        self.at += usize::from(byte.is_some());
        byte
    }

    fn escape(&mut self, to: &mut Vec<u8>) -> Result<(), String> {
        let simple = match self.next() {
            Some(b'a') => 7,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'v') => 11,
            Some(byte @ (b'\\' | b'\'' | b'"' | b'?')) => byte,
            Some(b'0'..=b'7') => {
                self.at -= 1;
                self.digits(8, 3)
                    .and_then(|n| u8::try_from(n).ok())
                    .ok_or_else(|| self.wrong("an octal byte"))?
            }
            Some(b'x' | b'X') => self
                .digits(16, 2)
                .map(|n| n as u8)
                .ok_or_else(|| self.wrong("a hexadecimal byte"))?,
            Some(kind @ (b'u' | b'U')) => {
                let code = self.digits(16, if kind == b'u' { 4 } else { 8 });
                let char = code.and_then(char::from_u32);
                let char = char.ok_or_else(|| self.wrong("a character's number"))?;
                to.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return Err(self.wrong("a known escape")),
        };
        to.push(simple);
        Ok(())
    }

    /// A number of one to `most` digits.
    fn digits(&mut self, radix: u32, most: usize) -> Option<u32> {
        let rest = &self.text[self.at..];
        let is_digit = |b: &&u8| char::from(**b).is_digit(radix);
        let count = rest.iter().take(most).take_while(is_digit).count();
        let text = std::str::from_utf8(&rest[..count]).ok()?;
        let number = u32::from_str_radix(text, radix).ok()?;
        self.at += count;
        Some(number)
    }
}

/// Quotes a string for the text format: bytes other than printable ASCII become octal escapes.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'"' | b'\\' | b'\'' => {
                out.push('\\');
                out.push(byte.into());
            }
            b' '..=b'~' => out.push(byte.into()),
            _ => out.push_str(&format!("\\{byte:03o}")),
        }
    }
    out.push('"');
    out
}
