//! Columns of CSV files: place, type, default.

use std::fmt;

use thalweg_tensor::{DType, Tensor};

use crate::vocabulary::Vocabulary;

/// The place of a column: its number, from 0, or its name in the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnPlace {
    /// The number.
    Number(usize),
    /// The name.
    Name(String),
}

impl From<usize> for ColumnPlace {
    fn from(number: usize) -> ColumnPlace {
        ColumnPlace::Number(number)
    }
}

impl From<&str> for ColumnPlace {
    fn from(name: &str) -> ColumnPlace {
        ColumnPlace::Name(name.to_owned())
    }
}

impl fmt::Display for ColumnPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ColumnPlace::Number(number) => write!(f, "{number}"),
            ColumnPlace::Name(name) => write!(f, "`{name}`"),
        }
    }
}

/// A column of a CSV file that is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub(super) place: ColumnPlace,
    kind: Kind,
    default: Option<Tensor>,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Floats,
    Ints,
    Texts,
    Category(Vocabulary),
}

impl Column {
    /// A column of numbers, as `f32`.
    pub fn floats(place: impl Into<ColumnPlace>) -> Column {
        Column::new(place.into(), Kind::Floats)
    }

    /// A column of whole numbers, as `i64`.
    pub fn ints(place: impl Into<ColumnPlace>) -> Column {
        Column::new(place.into(), Kind::Ints)
    }

    /// A column of texts, as strings. A text that is missing is the empty one, without a default.
    pub fn texts(place: impl Into<ColumnPlace>) -> Column {
        Column::new(place.into(), Kind::Texts)
    }

    /// A column of words, as their numbers in a vocabulary, `i64`. A word that is missing has the number of words that
    /// are not in the vocabulary, without a default.
    pub fn category(place: impl Into<ColumnPlace>, words: Vocabulary) -> Column {
        Column::new(place.into(), Kind::Category(words))
    }

    fn new(place: ColumnPlace, kind: Kind) -> Column {
        Column {
            place,
            kind,
            default: None,
        }
    }

    /// Takes this scalar where a value is missing. Without it, a missing number is an error.
    pub fn or(mut self, default: Tensor) -> Column {
        self.default = Some(default);
        self
    }

    fn dtype(&self) -> DType {
        match self.kind {
            Kind::Floats => DType::F32,
            Kind::Texts => DType::String,
            Kind::Ints | Kind::Category(_) => DType::I64,
        }
    }

    /// The value of a field. The error is the reason why there is none.
    pub(super) fn value(&self, field: Option<&[u8]>, missing: &[String]) -> Result<Tensor, String> {
        let field = field.ok_or("the row has no such column")?;
        let text = std::str::from_utf8(field).map_err(|_| "the field is not UTF-8")?;
        let known = text.trim();
        let none = known.is_empty() || missing.iter().any(|m| m == known);
        match (&self.default, &self.kind) {
            (Some(default), _) if none => self.checked(default),
            (_, Kind::Texts) => {
                let text = if none { "" } else { text };
                Tensor::strings(&[], &[text]).map_err(|e| e.to_string())
            }
            (_, Kind::Category(words)) if none => Ok(Tensor::from(words.words().len() as i64)),
            (_, Kind::Category(words)) => Ok(Tensor::from(words.id(known))),
            _ if none => Err("the value is missing: give the column a default".to_owned()),
            (_, Kind::Floats) => match known.parse::<f32>() {
                Ok(value) => Ok(Tensor::from(value)),
                Err(_) => Err(format!("`{}` is no number", shortened(known))),
            },
            (_, Kind::Ints) => match known.parse::<i64>() {
                Ok(value) => Ok(Tensor::from(value)),
                Err(_) => Err(format!("`{}` is no whole number", shortened(known))),
            },
        }
    }

    fn checked(&self, default: &Tensor) -> Result<Tensor, String> {
        let dtype = self.dtype();
        match default.dtype() == dtype && default.dims().is_empty() {
            true => Ok(default.clone()),
            false => Err(format!(
                "the default is of {}{}: give a scalar of {dtype}",
                default.dtype(),
                default.shape()
            )),
        }
    }
}

/// The start of a text, for messages.
fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}
