//! Convolutions by cuDNN: descriptors, and the algorithm that its heuristic puts first.

use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use cudarc::cudnn::result::{self, CudnnError};
use cudarc::cudnn::sys::{
    self, cudnnConvolutionBwdDataAlgo_t, cudnnConvolutionBwdFilterAlgo_t,
    cudnnConvolutionFwdAlgo_t, cudnnConvolutionMode_t, cudnnDataType_t, cudnnDeterminism_t,
    cudnnMathType_t, cudnnStatus_t, cudnnTensorFormat_t,
};
use cudarc::driver::sys::CUstream;
use thalweg_tensor::DType;

use crate::gpu::{Address, Convolution, Direction, GpuError};

/// The most bytes that a convolution may work with.
const MOST_WORKSPACE: usize = 256 << 20;

/// As many algorithms as there are in any direction.
const ALGORITHMS: usize = 10;

/// cuDNN, opened. A handle has one stream at a time.
#[derive(Debug)]
pub(super) struct Convolutions(Mutex<CuDnn>);

#[derive(Debug)]
struct CuDnn(sys::cudnnHandle_t);

// SAFETY: a handle belongs to no thread; it is used by one at a time.
unsafe impl Send for CuDnn {}

impl Drop for CuDnn {
    fn drop(&mut self) {
        // SAFETY: made by `open`, and not used any more.
        let _ = unsafe { result::destroy_handle(self.0) };
    }
}

/// A convolution that is ready: descriptors, and an algorithm.
#[derive(Debug)]
pub(super) struct ConvolutionPlan {
    images: TensorOf,
    filter: FilterOf,
    output: TensorOf,
    convolution: ConvolutionOf,
    algorithm: Algorithm,
    pub(super) workspace: usize,
    /// Factors come as `f64` where elements do, and as `f32` otherwise.
    double: bool,
}

// SAFETY: descriptors belong to no thread, and are only read once they are made.
unsafe impl Send for ConvolutionPlan {}
// SAFETY: as above.
unsafe impl Sync for ConvolutionPlan {}

#[derive(Clone, Copy, Debug)]
enum Algorithm {
    Forward(cudnnConvolutionFwdAlgo_t),
    Images(cudnnConvolutionBwdDataAlgo_t),
    Filter(cudnnConvolutionBwdFilterAlgo_t),
}

#[derive(Debug)]
struct TensorOf(sys::cudnnTensorDescriptor_t);

impl Drop for TensorOf {
    fn drop(&mut self) {
        // SAFETY: made by `create_tensor_descriptor`, and not used any more.
        let _ = unsafe { result::destroy_tensor_descriptor(self.0) };
    }
}

#[derive(Debug)]
struct FilterOf(sys::cudnnFilterDescriptor_t);

impl Drop for FilterOf {
    fn drop(&mut self) {
        // SAFETY: made by `create_filter_descriptor`, and not used any more.
        let _ = unsafe { result::destroy_filter_descriptor(self.0) };
    }
}

#[derive(Debug)]
struct ConvolutionOf(sys::cudnnConvolutionDescriptor_t);

impl Drop for ConvolutionOf {
    fn drop(&mut self) {
        // SAFETY: made by `create_convolution_descriptor`, and not used any more.
        let _ = unsafe { result::destroy_convolution_descriptor(self.0) };
    }
}

fn error(e: CudnnError) -> GpuError {
    GpuError::Driver {
        what: "convolve by cuDNN",
        reason: format!("{:?}", e.0),
    }
}

/// What elements are, and what they are computed in: halves as `f32`.
fn types(dtype: DType) -> Option<(cudnnDataType_t, cudnnDataType_t)> {
    let single = cudnnDataType_t::CUDNN_DATA_FLOAT;
    let double = cudnnDataType_t::CUDNN_DATA_DOUBLE;
    Some(match dtype {
        DType::F16 => (cudnnDataType_t::CUDNN_DATA_HALF, single),
        DType::BF16 => (cudnnDataType_t::CUDNN_DATA_BFLOAT16, single),
        DType::F32 => (single, single),
        DType::F64 => (double, double),
        _ => return None,
    })
}

/// Dimensions as the library takes them.
fn dims<const N: usize>(dims: [usize; N]) -> Option<[i32; N]> {
    let mut all = [0; N];
    for (to, from) in all.iter_mut().zip(dims) {
        *to = i32::try_from(from).ok()?;
    }
    Some(all)
}

/// Of the algorithms that the heuristic lists, best first: the first that can be used, and gives the
/// same every time.
fn choose<P: Copy, A>(
    list: &[P],
    of: impl Fn(&P) -> (cudnnStatus_t, usize, cudnnDeterminism_t, A),
) -> Option<(A, usize)> {
    list.iter().find_map(|p| {
        let (status, memory, determinism, algorithm) = of(p);
        let fit = status == cudnnStatus_t::CUDNN_STATUS_SUCCESS
            && memory <= MOST_WORKSPACE
            && determinism == cudnnDeterminism_t::CUDNN_DETERMINISTIC;
        fit.then_some((algorithm, memory))
    })
}

impl Convolutions {
    /// Opens the library for the context that the thread is in.
    pub(super) fn open() -> Result<Convolutions, GpuError> {
        let handle = result::create_handle().map_err(error)?;
        Ok(Convolutions(Mutex::new(CuDnn(handle))))
    }

    /// Makes a convolution ready; `None` where the library does not take it.
    pub(super) fn plan(
        &self,
        c: &Convolution,
        tf32: bool,
    ) -> Result<Option<ConvolutionPlan>, GpuError> {
        match self.planned(c, tf32) {
            Ok(plan) => Ok(plan),
            Err(CudnnError(
                cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED | cudnnStatus_t::CUDNN_STATUS_BAD_PARAM,
            )) => Ok(None),
            Err(e) => Err(error(e)),
        }
    }

    fn planned(&self, c: &Convolution, tf32: bool) -> Result<Option<ConvolutionPlan>, CudnnError> {
        let all = (dims(c.images), dims(c.filter), dims(c.output));
        let (Some(images), Some(filter), Some(output)) = all else {
            return Ok(None);
        };
        let moves = (dims(c.padding), dims(c.stride), dims(c.dilation));
        let (Some([pad_h, pad_w]), Some([u, v]), Some([dilation_h, dilation_w])) = moves else {
            return Ok(None);
        };
        let Some((dtype, compute)) = types(c.dtype) else {
            return Ok(None);
        };
        let format = match c.channels_last {
            true => cudnnTensorFormat_t::CUDNN_TENSOR_NHWC,
            false => cudnnTensorFormat_t::CUDNN_TENSOR_NCHW,
        };
        // By default, `f32` would be computed in TF32.
        let math = match c.dtype {
            DType::F16 | DType::BF16 => cudnnMathType_t::CUDNN_TENSOR_OP_MATH,
            DType::F32 if tf32 => cudnnMathType_t::CUDNN_DEFAULT_MATH,
            _ => cudnnMathType_t::CUDNN_FMA_MATH,
        };
        let tensor = |dims: [i32; 4]| {
            let of = TensorOf(result::create_tensor_descriptor()?);
            // SAFETY: the descriptor was just made.
            unsafe { result::set_tensor4d_descriptor(of.0, format, dtype, dims)? };
            Ok::<_, CudnnError>(of)
        };
        let (images, output) = (tensor(images)?, tensor(output)?);
        let filter_of = FilterOf(result::create_filter_descriptor()?);
        let convolution = ConvolutionOf(result::create_convolution_descriptor()?);
        // SAFETY: both descriptors were just made.
        unsafe {
            result::set_filter4d_descriptor(filter_of.0, dtype, format, filter)?;
            let mode = cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION;
            result::set_convolution2d_descriptor(
                convolution.0,
                pad_h,
                pad_w,
                u,
                v,
                dilation_h,
                dilation_w,
                mode,
                compute,
            )?;
            result::set_convolution_math_type(convolution.0, math)?;
        }
        let of = (&images, &filter_of, &output, &convolution);
        let Some((algorithm, workspace)) = self.algorithm(c.direction, of)? else {
            return Ok(None);
        };
        Ok(Some(ConvolutionPlan {
            images,
            filter: filter_of,
            output,
            convolution,
            algorithm,
            workspace,
            double: c.dtype == DType::F64,
        }))
    }

    fn algorithm(
        &self,
        direction: Direction,
        (x, w, y, c): (&TensorOf, &FilterOf, &TensorOf, &ConvolutionOf),
    ) -> Result<Option<(Algorithm, usize)>, CudnnError> {
        let handle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (most, mut count) = (ALGORITHMS as i32, 0);
        // SAFETY: handle and descriptors live; the lists have room for as many as are asked for,
        // and results of zeros are results.
        unsafe {
            match direction {
                Direction::Forward => {
                    let mut list: [sys::cudnnConvolutionFwdAlgoPerf_t; ALGORITHMS] =
                        std::mem::zeroed();
                    let ask = result::get_convolution_forward_algorithm;
                    let list_at = list.as_mut_ptr();
                    ask(handle.0, x.0, w.0, c.0, y.0, most, &mut count, list_at)?;
                    let found = &list[..(count as usize).min(ALGORITHMS)];
                    let chosen = choose(found, |p| (p.status, p.memory, p.determinism, p.algo));
                    let Some((algo, _)) = chosen else {
                        return Ok(None);
                    };
                    let size = result::get_convolution_forward_workspace_size;
                    let bytes = size(handle.0, x.0, w.0, c.0, y.0, algo)?;
                    Ok(Some((Algorithm::Forward(algo), bytes)))
                }
                Direction::Images => {
                    let mut list: [sys::cudnnConvolutionBwdDataAlgoPerf_t; ALGORITHMS] =
                        std::mem::zeroed();
                    let ask = result::get_convolution_backward_data_algorithm;
                    let list_at = list.as_mut_ptr();
                    ask(handle.0, w.0, y.0, c.0, x.0, most, &mut count, list_at)?;
                    let found = &list[..(count as usize).min(ALGORITHMS)];
                    let chosen = choose(found, |p| (p.status, p.memory, p.determinism, p.algo));
                    let Some((algo, _)) = chosen else {
                        return Ok(None);
                    };
                    let size = result::get_convolution_backward_data_workspace_size;
                    let bytes = size(handle.0, w.0, y.0, c.0, x.0, algo)?;
                    Ok(Some((Algorithm::Images(algo), bytes)))
                }
                Direction::Filter => {
                    let mut list: [sys::cudnnConvolutionBwdFilterAlgoPerf_t; ALGORITHMS] =
                        std::mem::zeroed();
                    let ask = result::get_convolution_backward_filter_algorithm;
                    let list_at = list.as_mut_ptr();
                    ask(handle.0, x.0, y.0, c.0, w.0, most, &mut count, list_at)?;
                    let found = &list[..(count as usize).min(ALGORITHMS)];
                    let chosen = choose(found, |p| (p.status, p.memory, p.determinism, p.algo));
                    let Some((algo, _)) = chosen else {
                        return Ok(None);
                    };
                    let size = result::get_convolution_backward_filter_workspace_size;
                    let bytes = size(handle.0, x.0, y.0, c.0, w.0, algo)?;
                    Ok(Some((Algorithm::Filter(algo), bytes)))
                }
            }
        }
    }

    /// Hands a convolution to a stream.
    ///
    /// # Safety
    /// The addresses are those of two inputs and an output as large as the convolution says, and of
    /// as many bytes as it works with; nothing else uses what is written until the stream has run
    /// it.
    pub(super) unsafe fn submit(
        &self,
        plan: &ConvolutionPlan,
        addresses: [Address; 3],
        workspace: Address,
        stream: CUstream,
    ) -> Result<(), GpuError> {
        let (single, double) = ([1.0f32, 0.0], [1.0f64, 0.0]);
        let [one, zero]: [*const c_void; 2] = match plan.double {
            true => [(&raw const double[0]).cast(), (&raw const double[1]).cast()],
            false => [(&raw const single[0]).cast(), (&raw const single[1]).cast()],
        };
        let [first, second, result_at] = addresses.map(|a| a as usize as *mut c_void);
        let (first, second) = (first.cast_const(), second.cast_const());
        let space = workspace as usize as *mut c_void;
        let bytes = plan.workspace;
        let (x, w, y) = (plan.images.0, plan.filter.0, plan.output.0);
        let c = plan.convolution.0;
        let handle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: by the caller's promise; the factors are read before the calls return.
        let submitted = unsafe {
            result::set_stream(handle.0, stream.cast()).and_then(|()| match plan.algorithm {
                Algorithm::Forward(a) => result::convolution_forward(
                    handle.0, one, x, first, w, second, c, a, space, bytes, zero, y, result_at,
                ),
                Algorithm::Images(a) => result::convolution_backward_data(
                    handle.0, one, w, first, y, second, c, a, space, bytes, zero, x, result_at,
                ),
                Algorithm::Filter(a) => result::convolution_backward_filter(
                    handle.0, one, x, first, y, second, c, a, space, bytes, zero, w, result_at,
                ),
            })
        };
        submitted.map_err(error)
    }
}
