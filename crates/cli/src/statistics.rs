//! Statistics of a tensor's numbers.

use serde_json::{Value, json};
use thalweg_tensor::half::{bf16, f16};
use thalweg_tensor::{Tensor, dispatch};

/// Statistics of a tensor. Numbers that are not finite are counted, and in no other statistic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Statistics {
    pub min: f64,
    pub max: f64,
    pub mean: f64,
    /// Population standard deviation.
    pub std: f64,
    /// Number of NaN and infinite elements.
    pub not_finite: u64,
    /// Number of finite elements.
    pub finite: u64,
}

/// Element that converts to f64.
pub(crate) trait Number: Copy {
    fn number(self) -> f64;
}

macro_rules! numbers {
    ($($t:ty: $v:ident => $number:expr;)*) => {$(
        impl Number for $t {
            fn number(self) -> f64 {
                let $v = self;
                $number
            }
        }
    )*};
}

numbers! {
    f16: v => v.to_f64();
    bf16: v => v.to_f64();
    f32: v => f64::from(v);
    f64: v => v;
    i8: v => f64::from(v);
    i16: v => f64::from(v);
    i32: v => f64::from(v);
    i64: v => v as f64;
    u8: v => f64::from(v);
    u16: v => f64::from(v);
    u32: v => f64::from(v);
    u64: v => v as f64;
    bool: v => f64::from(u8::from(v));
}

/// Calls `see` with each element as a number. Returns `false` if the elements are no numbers.
fn each_number(tensor: &Tensor, mut see: impl FnMut(f64)) -> bool {
    fn all<T: Number>(elements: &[T], see: &mut dyn FnMut(f64)) {
        elements.iter().for_each(|v| see(v.number()));
    }
    dispatch!(
        tensor.dtype(),
        [F16 BF16 F32 F64 I8 I16 I32 I64 U8 U16 U32 U64 Bool],
        T => match tensor.as_slice::<T>() {
            Ok(elements) => {
                all(elements, &mut see);
                true
            }
            Err(_) => false,
        },
        else false
    )
}

impl Statistics {
    /// Statistics of a tensor; `None` for strings. If no element is finite, all but the counts are zero.
    pub(crate) fn of(tensor: &Tensor) -> Option<Statistics> {
        let mut s = Statistics {
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            mean: 0.0,
            std: 0.0,
            not_finite: 0,
            finite: 0,
        };
        // Welford's sums: one pass, and no difference of large numbers.
        let mut squares = 0.0;
        let numbers = each_number(tensor, |v| {
            if !v.is_finite() {
                s.not_finite += 1;
                return;
            }
            s.finite += 1;
            s.min = s.min.min(v);
            s.max = s.max.max(v);
            let off = v - s.mean;
            s.mean += off / s.finite as f64;
            squares += off * (v - s.mean);
        });
        if !numbers {
            return None;
        }
        match s.finite {
            0 => (s.min, s.max) = (0.0, 0.0),
            n => s.std = (squares / n as f64).sqrt(),
        }
        Some(s)
    }

    /// Cells of a table: min, max, mean, std, not finite.
    pub(crate) fn cells(found: Option<Statistics>) -> [String; 5] {
        match found {
            None => Default::default(),
            Some(s) if s.finite == 0 => {
                let mut cells: [String; 5] = Default::default();
                cells[4] = s.not_finite.to_string();
                cells
            }
            Some(s) => [
                format_number(s.min),
                format_number(s.max),
                format_number(s.mean),
                format_number(s.std),
                s.not_finite.to_string(),
            ],
        }
    }

    pub(crate) fn json(found: Option<Statistics>) -> Value {
        match found {
            None => Value::Null,
            Some(s) if s.finite == 0 => json!({"not_finite": s.not_finite}),
            Some(s) => json!({
                "min": s.min, "max": s.max, "mean": s.mean, "std": s.std, "not_finite": s.not_finite,
            }),
        }
    }
}

/// Formats a number for a column.
pub(crate) fn format_number(value: f64) -> String {
    let size = value.abs();
    match value == value.trunc() && size < 1e9 {
        true => format!("{value}"),
        false if (1e-3..1e6).contains(&size) => format!("{value:.5}"),
        false => format!("{value:.3e}"),
    }
}

/// Calls `see` with each pair of elements of two tensors of one dtype and length, and `true` if they are equal: two NaN are.
/// Returns `false` if the elements are no numbers.
pub(crate) fn each_pair(a: &Tensor, b: &Tensor, mut see: impl FnMut(f64, f64, bool)) -> bool {
    fn all<T: Number + PartialEq>(a: &[T], b: &[T], see: &mut dyn FnMut(f64, f64, bool)) {
        for (&a, &b) in a.iter().zip(b) {
            let (x, y) = (a.number(), b.number());
            // Compared before the conversion: f64 cannot represent all 64-bit integers.
            see(x, y, a == b || (x.is_nan() && y.is_nan()));
        }
    }
    dispatch!(
        a.dtype(),
        [F16 BF16 F32 F64 I8 I16 I32 I64 U8 U16 U32 U64 Bool],
        T => match (a.as_slice::<T>(), b.as_slice::<T>()) {
            (Ok(a), Ok(b)) => {
                all(a, b, &mut see);
                true
            }
            _ => false,
        },
        else false
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_not_finite_are_only_counted() {
        let tensor = Tensor::vector(&[1.0f32, f32::NAN, 3.0, f32::INFINITY]);
        let s = Statistics::of(&tensor).unwrap();
        assert_eq!((s.min, s.max, s.mean, s.std), (1.0, 3.0, 2.0, 1.0));
        assert_eq!((s.not_finite, s.finite), (2, 2));
        let none = Statistics::of(&Tensor::vector(&[f64::NAN])).unwrap();
        assert_eq!(Statistics::cells(Some(none))[..4], [""; 4]);
        assert_eq!(
            Statistics::of(&Tensor::strings(&[1], &["a"]).unwrap()),
            None
        );
        let flags = Statistics::of(&Tensor::vector(&[true, false])).unwrap();
        assert_eq!((flags.mean, flags.std), (0.5, 0.5));
    }

    #[test]
    fn numbers_are_formatted_for_a_column() {
        for (value, text) in [
            (3.0, "3"),
            (-0.25, "-0.25000"),
            (1.5e-7, "1.500e-7"),
            (12345678.5, "1.235e7"),
        ] {
            assert_eq!(format_number(value), text);
        }
    }
}
