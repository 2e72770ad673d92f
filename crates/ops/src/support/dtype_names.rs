//! Names of dtypes in messages.

use thalweg_tensor::DType;

/// TensorFlow's name of a dtype.
pub(crate) fn tensorflow_name(dtype: DType) -> String {
    match dtype {
        DType::F16 => "half".to_owned(),
        DType::BF16 => "bfloat16".to_owned(),
        DType::F32 => "float".to_owned(),
        DType::F64 => "double".to_owned(),
        DType::C64 => "complex64".to_owned(),
        DType::C128 => "complex128".to_owned(),
        other => match other.is_int() {
            true => other.name().replace('i', "int").replace('u', "uint"),
            false => other.name().to_owned(),
        },
    }
}
