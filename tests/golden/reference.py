"""TensorFlow as the reference: one import that sets it up first."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# The Eigen kernels are the reference: oneDNN's differ between processors.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

v1 = tf.compat.v1
raw = tf.raw_ops
v1.disable_eager_execution()

bf16 = tf.bfloat16.as_numpy_dtype
f16, f32, f64 = np.float16, np.float32, np.float64
i8, i16, i32, i64 = np.int8, np.int16, np.int32, np.int64
u8, u16, u32, u64 = np.uint8, np.uint16, np.uint32, np.uint64
