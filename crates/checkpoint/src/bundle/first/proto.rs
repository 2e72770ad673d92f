//! The messages of TensorFlow's first format. Source: TensorFlow's `core/util/saved_tensor_slice.proto`,
//! `core/framework/tensor.proto`.

use prost::Message;
use thalweg_tensor::num_complex::Complex;
use thalweg_tensor::{DType, Tensor};

use crate::bundle::proto::{Shape, Slice};

/// SavedTensorSlices: the description of all tensors, or the elements of one slice.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Saved {
    #[prost(message, optional, tag = "1")]
    pub(super) meta: Option<Meta>,
    #[prost(message, optional, tag = "2")]
    pub(super) data: Option<SavedSlice>,
}

/// SavedTensorSliceMeta.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Meta {
    #[prost(message, repeated, tag = "1")]
    pub(super) tensor: Vec<SliceMeta>,
}

/// SavedSliceMeta.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SliceMeta {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, optional, tag = "2")]
    pub(super) shape: Option<Shape>,
    #[prost(int32, tag = "3")]
    pub(super) dtype: i32,
    #[prost(message, repeated, tag = "4")]
    pub(super) slice: Vec<Slice>,
}

/// SavedSlice; its key has the name and the place.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SavedSlice {
    #[prost(message, optional, tag = "3")]
    pub(super) data: Option<Values>,
}

/// TensorProto: the elements.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Values {
    #[prost(float, repeated, tag = "5")]
    float: Vec<f32>,
    #[prost(double, repeated, tag = "6")]
    double: Vec<f64>,
    #[prost(int32, repeated, tag = "7")]
    int: Vec<i32>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    string: Vec<Vec<u8>>,
    /// Real and imaginary parts by turns.
    #[prost(float, repeated, tag = "9")]
    complex: Vec<f32>,
    #[prost(int64, repeated, tag = "10")]
    int64: Vec<i64>,
    #[prost(bool, repeated, tag = "11")]
    bool: Vec<bool>,
    #[prost(double, repeated, tag = "12")]
    complex128: Vec<f64>,
    /// Bits of halves.
    #[prost(int32, repeated, tag = "13")]
    half: Vec<i32>,
    #[prost(uint32, repeated, tag = "16")]
    uint32: Vec<u32>,
    #[prost(uint64, repeated, tag = "17")]
    uint64: Vec<u64>,
}

impl Values {
    /// The tensor of these elements.
    ///
    /// # Errors
    /// The defect, as a predicate.
    pub(super) fn tensor(&self, dtype: DType, dims: &[usize]) -> Result<Tensor, String> {
        let bits = |all: &[i32]| all.iter().map(|&x| x as u16).collect::<Vec<u16>>();
        let made = match dtype {
            DType::F32 => Tensor::new(dims, &self.float),
            DType::F64 => Tensor::new(dims, &self.double),
            DType::I32 => Tensor::new(dims, &self.int),
            DType::I16 => Tensor::new(dims, &cut(&self.int, |x| x as i16)),
            DType::I8 => Tensor::new(dims, &cut(&self.int, |x| x as i8)),
            DType::U8 => Tensor::new(dims, &cut(&self.int, |x| x as u8)),
            DType::U16 => Tensor::new(dims, &cut(&self.int, |x| x as u16)),
            DType::I64 => Tensor::new(dims, &self.int64),
            DType::U32 => Tensor::new(dims, &self.uint32),
            DType::U64 => Tensor::new(dims, &self.uint64),
            DType::Bool => Tensor::new(dims, &self.bool),
            DType::F16 => Tensor::new(dims, &cut(&bits(&self.half), half::f16::from_bits)),
            DType::BF16 => Tensor::new(dims, &cut(&bits(&self.half), half::bf16::from_bits)),
            DType::C64 => Tensor::new(dims, &pairs(&self.complex)),
            DType::C128 => Tensor::new(dims, &pairs(&self.complex128)),
            DType::String => Tensor::strings(dims, &self.string),
            other => {
                return Err(format!(
                    "is of {other}, which the first format does not have here"
                ));
            }
        };
        made.map_err(|_| "has another number of elements than its slice".to_owned())
    }
}

fn cut<T: Copy, U>(all: &[T], to: impl Fn(T) -> U) -> Vec<U> {
    all.iter().map(|&x| to(x)).collect()
}

fn pairs<T: Copy>(parts: &[T]) -> Vec<Complex<T>> {
    let (pairs, _) = parts.as_chunks::<2>();
    pairs.iter().map(|&[re, im]| Complex::new(re, im)).collect()
}
