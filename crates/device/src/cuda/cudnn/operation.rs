//! A convolution as a graph of one operation.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use cudarc::cudnn::sys::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type,
    cudnnBackendDescriptorType_t as Kind, cudnnConvolutionMode_t as Mode, cudnnDataType_t as Data,
};
use thalweg_tensor::DType;

use super::api::{CudnnApi, Descriptor};
use super::status::Status;
use crate::gpu::{Convolution, Direction};

/// The reason that the library does not compute a convolution.
pub(super) type Refusal = String;

/// The numbers of the two inputs and the output, by which a variant pack gives their addresses.
pub(super) const NUMBERS: [i64; 3] = [1, 2, 3];

/// Alignment of every address in bytes: those of a plan's values are multiples of [`thalweg_tensor::ALIGNMENT`], and 16
/// is the most that engines ask for.
const ALIGNMENT: i64 = 16;

/// Types of elements and of their arithmetic: halves are computed as `f32`.
fn types(dtype: DType) -> Option<(Data, Data)> {
    Some(match dtype {
        DType::F16 => (Data::CUDNN_DATA_HALF, Data::CUDNN_DATA_FLOAT),
        DType::BF16 => (Data::CUDNN_DATA_BFLOAT16, Data::CUDNN_DATA_FLOAT),
        DType::F32 => (Data::CUDNN_DATA_FLOAT, Data::CUDNN_DATA_FLOAT),
        DType::F64 => (Data::CUDNN_DATA_DOUBLE, Data::CUDNN_DATA_DOUBLE),
        _ => return None,
    })
}

fn integers<const N: usize>(values: [usize; N]) -> Option<[i64; N]> {
    let mut all = [0; N];
    for (to, from) in all.iter_mut().zip(values) {
        // Engines count in 32 bits.
        *to = i64::from(i32::try_from(from).ok()?);
    }
    Some(all)
}

/// The names of an operation's attributes: its two inputs and the output, in the order of a call's
/// addresses, with which of images, filter and output each is; the convolution; the factors.
struct Attributes {
    kind: Kind,
    tensors: [(Name, usize); 3],
    convolution: Name,
    alpha: Name,
    beta: Name,
}

const IMAGES: usize = 0;
const FILTER: usize = 1;
const OUTPUT: usize = 2;

fn attributes(direction: Direction) -> Attributes {
    match direction {
        Direction::Forward => Attributes {
            kind: Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            tensors: [
                (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, IMAGES),
                (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, FILTER),
                (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, OUTPUT),
            ],
            convolution: Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            alpha: Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
            beta: Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
        },
        Direction::Images => Attributes {
            kind: Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            tensors: [
                (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, FILTER),
                (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, OUTPUT),
                (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, IMAGES),
            ],
            convolution: Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            alpha: Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
            beta: Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
        },
        Direction::Filter => Attributes {
            kind: Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
            tensors: [
                (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, IMAGES),
                (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, OUTPUT),
                (Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, FILTER),
            ],
            convolution: Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
            alpha: Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
            beta: Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
        },
    }
}

/// The graph of a convolution.
///
/// # Errors
/// The reason that the library's types cannot express it; the inner error is the library's status.
pub(super) fn graph(
    api: &CudnnApi,
    c: &Convolution,
    handle: Option<*mut c_void>,
) -> Result<Result<Descriptor, Status>, Refusal> {
    let Some((dtype, compute)) = types(c.dtype) else {
        return Err(format!("cuDNN does not convolve {}", c.dtype));
    };
    let dims = (integers(c.images), integers(c.filter), integers(c.output));
    let moves = (
        integers(c.before),
        integers(c.after),
        integers(c.stride),
        integers(c.dilation),
    );
    let (
        (Some(images), Some(filter), Some(output)),
        (Some(before), Some(after), Some(stride), Some(dilation)),
    ) = (dims, moves)
    else {
        return Err("cuDNN takes no dimension beyond 2^31".to_owned());
    };
    let parts = Parts {
        api,
        dtype: dtype as c_int,
        compute: compute as c_int,
        channels_last: c.channels_last,
    };
    let build = || {
        let convolution = Arc::new(parts.convolution([before, after, stride, dilation])?);
        let operation = parts.operation(c.direction, [images, filter, output], &convolution)?;
        let mut graph = Descriptor::new(api, Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?
            .refer(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, &Arc::new(operation))?;
        if let Some(handle) = handle {
            let name = Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE;
            graph = graph.pointers(name, Type::CUDNN_TYPE_HANDLE, &[handle])?;
        }
        graph.finalize()
    };
    Ok(build())
}

/// The properties that all tensors of a convolution share.
struct Parts<'a> {
    api: &'a CudnnApi,
    dtype: c_int,
    compute: c_int,
    channels_last: bool,
}

impl Parts<'_> {
    /// A tensor of `[images, channels, lines, columns]`, or a filter of `[outputs, inputs, lines,
    /// columns]`.
    fn tensor(&self, number: i64, dims: [i64; 4]) -> Result<Descriptor, Status> {
        let [_, channels, lines, columns] = dims;
        let strides = match self.channels_last {
            true => [lines * columns * channels, 1, columns * channels, channels],
            false => [channels * lines * columns, lines * columns, columns, 1],
        };
        Descriptor::new(self.api, Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)?
            .number(
                Name::CUDNN_ATTR_TENSOR_DATA_TYPE,
                Type::CUDNN_TYPE_DATA_TYPE,
                self.dtype,
            )?
            .integers(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &dims)?
            .integers(Name::CUDNN_ATTR_TENSOR_STRIDES, &strides)?
            .integers(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[number])?
            .integers(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[ALIGNMENT])?
            .finalize()
    }

    fn convolution(
        &self,
        [before, after, stride, dilation]: [[i64; 2]; 4],
    ) -> Result<Descriptor, Status> {
        let mode = Mode::CUDNN_CROSS_CORRELATION as c_int;
        Descriptor::new(self.api, Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)?
            .number(
                Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE,
                Type::CUDNN_TYPE_DATA_TYPE,
                self.compute,
            )?
            .number(
                Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE,
                Type::CUDNN_TYPE_CONVOLUTION_MODE,
                mode,
            )?
            .integers(Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, &[2])?
            .integers(Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, &dilation)?
            .integers(Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, &stride)?
            .integers(Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, &before)?
            .integers(Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, &after)?
            .finalize()
    }

    fn operation(
        &self,
        direction: Direction,
        dims: [[i64; 4]; 3],
        convolution: &Arc<Descriptor>,
    ) -> Result<Descriptor, Status> {
        let names = attributes(direction);
        let double = self.compute == Data::CUDNN_DATA_DOUBLE as c_int;
        let mut operation = Descriptor::new(self.api, names.kind)?;
        for ((name, which), number) in names.tensors.into_iter().zip(NUMBERS) {
            let tensor = self.tensor(number, dims[which])?;
            operation = operation.refer(name, &Arc::new(tensor))?;
        }
        operation
            .refer(names.convolution, convolution)?
            .factor(names.alpha, 1.0, double)?
            .factor(names.beta, 0.0, double)?
            .finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_computed_as_singles_and_other_dtypes_as_themselves() {
        for (dtype, expected) in [
            (
                DType::F16,
                Some((Data::CUDNN_DATA_HALF, Data::CUDNN_DATA_FLOAT)),
            ),
            (
                DType::BF16,
                Some((Data::CUDNN_DATA_BFLOAT16, Data::CUDNN_DATA_FLOAT)),
            ),
            (
                DType::F32,
                Some((Data::CUDNN_DATA_FLOAT, Data::CUDNN_DATA_FLOAT)),
            ),
            (
                DType::F64,
                Some((Data::CUDNN_DATA_DOUBLE, Data::CUDNN_DATA_DOUBLE)),
            ),
            (DType::I32, None),
        ] {
            assert_eq!(types(dtype), expected, "{dtype}");
        }
    }

    #[test]
    fn dimensions_have_31_bits() {
        let most = i32::MAX as usize;
        assert_eq!(integers([0, 7, most]), Some([0, 7, most as i64]));
        assert_eq!(integers([0, most + 1]), None);
        assert_eq!(integers([usize::MAX]), None);
    }

    #[test]
    fn each_direction_computes_its_own_tensor_of_the_other_two() {
        for (direction, tensors) in [
            (Direction::Forward, [IMAGES, FILTER, OUTPUT]),
            (Direction::Images, [FILTER, OUTPUT, IMAGES]),
            (Direction::Filter, [IMAGES, OUTPUT, FILTER]),
        ] {
            let names = attributes(direction);
            assert_eq!(names.tensors.map(|(_, which)| which), tensors);
            // Each attribute is one of this kind of operation.
            let prefix = match direction {
                Direction::Forward => "CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_",
                Direction::Images => "CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_",
                Direction::Filter => "CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_",
            };
            let all = names.tensors.map(|(name, _)| name).into_iter();
            for name in all.chain([names.convolution, names.alpha, names.beta]) {
                assert!(format!("{name:?}").starts_with(prefix), "{name:?}");
            }
        }
    }
}
