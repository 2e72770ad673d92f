//! Files of weights: TensorFlow's checkpoints, safetensors, npz.
//!
//! ```
//! use thalweg_checkpoint::crc;
//!
//! assert_eq!(crc::masked(b"123456789"), 0xc78a_b0e5);
//! ```

pub mod crc;
