//! DecodeCSV.

use std::borrow::Cow;

use thalweg_device::{KernelError, Op, TensorCx, cpu_tensors};
use thalweg_graph::OpDef;
use thalweg_graph::op::{Gradient, arg_of, args_of, bool_attr, ints_attr, str_attr, types_attr};
use thalweg_tensor::{DType, Tensor};

use crate::strings::{FromText, parse};

/// The rules of a record's fields.
struct Rules<'a> {
    delimiter: u8,
    quotes: bool,
    /// The text that stands for a missing value beside the empty one.
    missing: &'a [u8],
    /// Numbers of the fields that are taken, ascending; empty for all.
    columns: &'a [i64],
}

impl Rules<'_> {
    fn takes(&self, taken: usize, field: usize) -> bool {
        self.columns.is_empty() || self.columns.get(taken).is_some_and(|&c| c == field as i64)
    }

    /// Adds the fields of a record that are taken; returns their number. The rules are those of TensorFlow's
    /// `decode_csv_op.cc`.
    fn fields<'r>(
        &self,
        record: &'r [u8],
        all: &mut Vec<Field<'r>>,
    ) -> Result<usize, &'static str> {
        let (first_of_record, mut at, mut number) = (all.len(), 0, 0);
        while let Some(&first) = record.get(at) {
            if first == b'\n' || first == b'\r' {
                at += 1;
                continue;
            }
            let field = match self.quotes && first == b'"' {
                true => self.quoted(record, &mut at)?,
                false => self.plain(record, &mut at)?,
            };
            if self.takes(all.len() - first_of_record, number) {
                all.push(field);
                if all.len() - first_of_record == self.columns.len() {
                    return Ok(self.columns.len());
                }
            }
            number += 1;
        }
        // A delimiter at the end has an empty field behind it.
        let taken = all.len() - first_of_record;
        if record.last() == Some(&self.delimiter) && self.takes(taken, number) {
            all.push(Field::default());
        }
        Ok(all.len() - first_of_record)
    }

    fn plain<'r>(&self, record: &'r [u8], at: &mut usize) -> Result<Field<'r>, &'static str> {
        let rest = &record[*at..];
        let end = rest
            .iter()
            .position(|&b| b == self.delimiter)
            .unwrap_or(rest.len());
        let field = &rest[..end];
        let refused = |b: &u8| (self.quotes && *b == b'"') || *b == b'\n' || *b == b'\r';
        if field.iter().any(refused) {
            return Err(
                "a field without quotes has a quote or a line break in it: put the field into quotes",
            );
        }
        *at += end + 1;
        Ok(field.into())
    }

    fn quoted<'r>(&self, record: &'r [u8], at: &mut usize) -> Result<Field<'r>, &'static str> {
        let mut field = Vec::new();
        *at += 1;
        loop {
            match (record.get(*at), record.get(*at + 1)) {
                (Some(b'"'), None) => break,
                (Some(b'"'), Some(next)) if *next == self.delimiter => break,
                (Some(b'"'), Some(b'"')) => {
                    field.push(b'"');
                    *at += 2;
                }
                (Some(b'"'), Some(_)) => {
                    return Err("a quote inside of a field in quotes must be doubled");
                }
                (Some(&other), _) => {
                    field.push(other);
                    *at += 1;
                }
                (None, _) => return Err("a field in quotes has no quote at its end"),
            }
        }
        *at += 2;
        Ok(field.into())
    }
}

/// A field of a record; one in quotes is copied.
type Field<'r> = Cow<'r, [u8]>;

/// The values of a column: of its field in each record, or the default. A record has so many fields.
fn column<T: Clone>(
    (fields, width): (&[Field<'_>], usize),
    number: usize,
    rules: &Rules<'_>,
    default: Option<&T>,
    value: impl Fn(&[u8]) -> Option<T>,
    dtype: DType,
) -> Result<Vec<T>, KernelError> {
    let of = |(record, fields): (usize, &[Field<'_>])| {
        let field = &*fields[number];
        if field.is_empty() || field == rules.missing {
            return default.cloned().ok_or_else(|| {
                KernelError::Invalid(format!(
                    "field {number} of record {record} is missing, and has no default value"
                ))
            });
        }
        value(field).ok_or_else(|| {
            KernelError::Invalid(format!(
                "field {number} of record {record} is '{}', which is no {dtype}",
                String::from_utf8_lossy(field)
            ))
        })
    };
    fields.chunks_exact(width).enumerate().map(of).collect()
}

fn decode(cx: &TensorCx<'_>) -> Result<Vec<Tensor>, KernelError> {
    let attrs = cx.attrs();
    let &[delimiter] = attrs.str("field_delim").as_bytes() else {
        return Err(KernelError::Invalid(
            "field_delim must be one character of one byte".to_owned(),
        ));
    };
    let columns = attrs.ints("select_cols");
    let types = attrs.types("OUT_TYPE");
    if !columns.is_empty()
        && (columns.len() != types.len() || !columns.is_sorted_by(|a, b| 0 <= *a && a < b))
    {
        return Err(KernelError::Invalid(format!(
            "select_cols must be {} ascending numbers from 0 on, one for each default value",
            types.len()
        )));
    }
    let rules = Rules {
        delimiter,
        quotes: attrs.bool("use_quote_delim"),
        missing: attrs.str("na_value").as_bytes(),
        columns,
    };
    let mut stop = cx.stop_check();
    let mut fields = Vec::new();
    for (number, record) in cx.strings(0)?.iter().enumerate() {
        stop.tick()?;
        let count = rules.fields(record, &mut fields);
        let count = count.map_err(|why| KernelError::Invalid(format!("record {number}: {why}")))?;
        if count != types.len() {
            return Err(KernelError::Invalid(format!(
                "record {number} has {count} fields, and there are {} default values: give one for each field",
                types.len()
            )));
        }
    }
    let (dims, fields) = (cx.tensor(0)?.dims(), (&fields[..], types.len()));
    let mut made = Vec::with_capacity(types.len());
    for (i, &dtype) in types.iter().enumerate() {
        let default = cx.tensor(1 + i)?;
        if default.len() > 1 {
            return Err(KernelError::Invalid(format!(
                "default value {i} must be one value, or none"
            )));
        }
        made.push(match dtype {
            DType::F32 => numbers::<f32>(cx, fields, i, &rules, default, dims)?,
            DType::F64 => numbers::<f64>(cx, fields, i, &rules, default, dims)?,
            DType::I32 => numbers::<i32>(cx, fields, i, &rules, default, dims)?,
            DType::I64 => numbers::<i64>(cx, fields, i, &rules, default, dims)?,
            DType::String => {
                let default = default.as_strings()?.first().map(|s| s.to_vec());
                let all = column(
                    fields,
                    i,
                    &rules,
                    default.as_ref(),
                    |f| Some(f.to_vec()),
                    dtype,
                )?;
                cx.strings_of(dims, all)?
            }
            other => return Err(KernelError::DType(other)),
        });
    }
    Ok(made)
}

fn numbers<T: thalweg_tensor::Element + FromText>(
    cx: &TensorCx<'_>,
    fields: (&[Field<'_>], usize),
    number: usize,
    rules: &Rules<'_>,
    default: &Tensor,
    dims: &[usize],
) -> Result<Tensor, KernelError> {
    let default = default.as_slice::<T>()?.first();
    let all = column(
        fields,
        number,
        rules,
        default,
        |f| parse::<T>(f).ok(),
        T::DTYPE,
    )?;
    cx.tensor_of(dims, &all)
}

/// Columns of CSV records.
pub(crate) static DECODE_CSV: Op = Op {
    def: OpDef {
        name: "DecodeCSV",
        summary: "The columns of records in CSV, each with its dtype; a default value stands for an empty field.",
        inputs: &[
            arg_of("records", DType::String),
            args_of("record_defaults", "OUT_TYPE"),
        ],
        outputs: &[args_of("output", "OUT_TYPE")],
        attrs: &[
            types_attr("OUT_TYPE"),
            str_attr("field_delim", ",", &[]),
            bool_attr("use_quote_delim", true),
            str_attr("na_value", "", &[]),
            ints_attr("select_cols", &[]),
        ],
        shape: crate::support::shapes::unchanged,
        gradient: Gradient::None,
        ..OpDef::EMPTY
    },
    kernels: &[cpu_tensors(decode)],
};
