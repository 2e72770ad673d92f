//! Literals: numbers in a program, which take the dtype of the tensor that they meet.

use thalweg_tensor::dtype::{DType, Element};
use thalweg_tensor::num_complex::Complex;
use thalweg_tensor::{Tensor, half};

/// A number without a dtype of its own: `1` or `0.5`, beside a tensor.
///
/// It becomes a constant of the tensor's dtype, by TensorFlow's rule: an integer fits any numeric
/// dtype that holds it, a float fits floating-point and complex dtypes only. A scalar [`Tensor`] of `i32` or
/// `f64` is such a number too. A number that must keep its dtype has to be a constant of the graph.
///
/// ```
/// use thalweg_graph::Literal;
/// use thalweg_tensor::{DType, Tensor};
///
/// assert_eq!(Literal::from(1).of(DType::F32), Some(Tensor::scalar(1.0f32)));
/// assert_eq!(Literal::from(1).of(DType::I64), Some(Tensor::scalar(1i64)));
/// assert_eq!(Literal::from(0.5).of(DType::I32), None);
/// assert_eq!(Literal::from(-1).of(DType::U8), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Literal {
    /// A whole number.
    Int(i64),
    /// A floating-point number.
    Float(f64),
}

impl From<i32> for Literal {
    fn from(value: i32) -> Literal {
        Literal::Int(value.into())
    }
}

impl From<i64> for Literal {
    fn from(value: i64) -> Literal {
        Literal::Int(value)
    }
}

impl From<f32> for Literal {
    fn from(value: f32) -> Literal {
        Literal::from(f64::from(value))
    }
}

impl From<f64> for Literal {
    fn from(value: f64) -> Literal {
        Literal::Float(value)
    }
}

impl Literal {
    /// The number as a scalar of a dtype; `None` if the dtype does not hold it.
    pub fn of(self, dtype: DType) -> Option<Tensor> {
        match self {
            Literal::Int(value) => {
                integer_scalar(value, dtype).or_else(|| float_scalar(value as f64, dtype))
            }
            Literal::Float(value) => float_scalar(value, dtype),
        }
    }

    /// The literal that a scalar tensor of `i32` or `f64` stands for: these are the types of number
    /// literals in a program.
    pub(crate) fn from_scalar(tensor: &Tensor) -> Option<Literal> {
        match tensor.dims() {
            [] => match tensor.dtype() {
                DType::I32 => tensor.to_scalar::<i32>().ok().map(Literal::from),
                DType::F64 => tensor.to_scalar::<f64>().ok().map(Literal::from),
                _ => None,
            },
            _ => None,
        }
    }

    /// The error message for this number beside a tensor of this dtype.
    pub(crate) fn mismatch_message(self, dtype: DType) -> String {
        match self {
            Literal::Int(value) => format!("{value} is no value of {dtype}"),
            Literal::Float(value)
                if float_scalar(value, dtype).is_none() && integer_scalar(0, dtype).is_some() =>
            {
                format!(
                    "{value:?} is a float and the tensor is {dtype}: write a whole number, or Cast the tensor"
                )
            }
            Literal::Float(value) => format!("{value:?} is no value of {dtype}"),
        }
    }
}

fn integer_scalar(value: i64, dtype: DType) -> Option<Tensor> {
    fn fits<T: Element + TryFrom<i64>>(value: i64) -> Option<Tensor> {
        T::try_from(value).ok().map(Tensor::scalar)
    }
    match dtype {
        DType::I8 => fits::<i8>(value),
        DType::I16 => fits::<i16>(value),
        DType::I32 => fits::<i32>(value),
        DType::I64 => fits::<i64>(value),
        DType::U8 => fits::<u8>(value),
        DType::U16 => fits::<u16>(value),
        DType::U32 => fits::<u32>(value),
        DType::U64 => fits::<u64>(value),
        _ => None,
    }
}

fn float_scalar(value: f64, dtype: DType) -> Option<Tensor> {
    match dtype {
        DType::F16 => Some(Tensor::scalar(half::f16::from_f64(value))),
        DType::BF16 => Some(Tensor::scalar(half::bf16::from_f64(value))),
        DType::F32 => Some(Tensor::scalar(value as f32)),
        DType::F64 => Some(Tensor::scalar(value)),
        DType::C64 => Some(Tensor::scalar(Complex::from(value as f32))),
        DType::C128 => Some(Tensor::scalar(Complex::from(value))),
        _ => None,
    }
}

/// `value` as a scalar tensor of `dtype`, also a whole number of an integer dtype; `None` if the
/// dtype does not hold it.
pub fn scalar_of(dtype: DType, value: f64) -> Option<Tensor> {
    // 2^63 is the first f64 that an i64 does not hold.
    let is_whole = value.fract() == 0.0 && value.abs() < 9_223_372_036_854_775_808.0;
    float_scalar(value, dtype).or_else(|| {
        is_whole
            .then(|| integer_scalar(value as i64, dtype))
            .flatten()
    })
}
