//! Encoding of tensors as bytes, and decoding as the bytes arrive.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use thalweg_graphdef::dtype;
use thalweg_tensor::Buffer;
use thalweg_tensor::shape::checked_elements;
use thalweg_tensor::{DType, Dims, Tensor, TensorError};

use super::buffer_pool::BufferPool;
use super::messages::Value;
use super::wire_error::WireError;

/// Number of bytes that are read at a time: received bytes count, not announced ones. The memory of strings grows
/// with them; that of other tensors is not backed by the system until it is written to.
const READ_STEP: usize = 256 << 10;

/// A tensor as the owner of its bytes.
struct BorrowedBytes(Tensor);

impl AsRef<[u8]> for BorrowedBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// Returns a tensor's header and its bytes. Only strings are copied.
///
/// # Errors
/// [`WireError::Handle`].
pub(super) fn encoded(number: i64, tensor: &Tensor) -> Result<(Value, Bytes), WireError> {
    let bytes = match tensor.dtype() {
        DType::Resource | DType::Variant => return Err(WireError::Handle(tensor.dtype())),
        DType::String => {
            let all = tensor.as_strings()?;
            let mut bytes = BytesMut::new();
            all.iter().for_each(|s| bytes.put_u64_le(s.len() as u64));
            bytes.put_slice(all.bytes());
            bytes.freeze()
        }
        _ => Bytes::from_owner(BorrowedBytes(tensor.clone())),
    };
    let header = Value {
        number,
        dtype: dtype::to_number(tensor.dtype()),
        dims: tensor.dims().iter().map(|&d| d as u64).collect(),
        bytes: bytes.len() as u64,
        loan: None,
    };
    Ok((header, bytes))
}

/// Decoded header of a tensor.
pub(crate) struct ValueHeader {
    pub(crate) dtype: DType,
    pub(crate) dims: Dims,
    elements: usize,
    pub(crate) bytes: usize,
}

impl ValueHeader {
    /// # Errors
    /// It is no header of a tensor, or the tensor has more than `limit` bytes.
    pub(crate) fn new(header: &Value, limit: u64) -> Result<ValueHeader, WireError> {
        let dtype = dtype::from_number(header.dtype)?;
        if header.bytes > limit {
            return Err(WireError::Large {
                found: header.bytes,
                limit,
            });
        }
        let dims: Option<Dims> = header
            .dims
            .iter()
            .map(|&d| usize::try_from(d).ok())
            .collect();
        let too_large = |dims: Dims| TensorError::TooLarge { dtype, dims };
        let dims = dims.ok_or_else(|| too_large(Dims::new()))?;
        let elements = checked_elements(&dims).ok_or_else(|| too_large(dims.clone()))?;
        let bytes = usize::try_from(header.bytes).map_err(|_| too_large(dims.clone()))?;
        Ok(ValueHeader {
            dtype,
            dims,
            elements,
            bytes,
        })
    }
}

/// Buffer of a tensor whose bytes arrive in pieces.
pub(crate) struct ValueBuffer {
    dtype: DType,
    dims: Dims,
    bytes: Filling,
}

enum Filling {
    /// Filled in place.
    Plain {
        buffer: Buffer,
        filled: usize,
    },
    Strings {
        bytes: Vec<u8>,
        total: usize,
    },
}

impl ValueBuffer {
    /// Returns an empty buffer for this header.
    ///
    /// # Errors
    /// It is no header of a tensor, or the tensor has more than `limit` bytes.
    pub(crate) fn new(
        header: &Value,
        limit: u64,
        pool: &BufferPool,
    ) -> Result<ValueBuffer, WireError> {
        let ValueHeader {
            dtype,
            dims,
            elements,
            bytes: total,
        } = ValueHeader::new(header, limit).map_err(|e| pool.refused(e))?;
        let too_large = |dims: Dims| TensorError::TooLarge { dtype, dims };
        let length = |expected: usize| WireError::Length {
            expected: expected as u64,
            found: header.bytes,
        };
        let bytes = match dtype {
            DType::Resource | DType::Variant => return Err(WireError::Handle(dtype)),
            DType::String => {
                let least = elements.saturating_mul(8);
                if total < least || (elements == 0 && total > 0) {
                    return Err(length(least));
                }
                let bytes = Vec::new();
                Filling::Strings { bytes, total }
            }
            _ => {
                let expected = elements.saturating_mul(dtype.size());
                if total != expected {
                    return Err(length(expected));
                }
                // Memory that is not written to is not backed by the system.
                let buffer = pool.take(total).ok_or_else(|| too_large(dims.clone()))?;
                Filling::Plain { buffer, filled: 0 }
            }
        };
        Ok(ValueBuffer { dtype, dims, bytes })
    }

    /// Returns the next bytes to fill; empty if the buffer is complete.
    pub(crate) fn next(&mut self) -> &mut [u8] {
        match &mut self.bytes {
            Filling::Plain { buffer, filled } => {
                let from = *filled;
                *filled = (from + READ_STEP).min(buffer.len());
                &mut buffer.bytes_mut()[from..*filled]
            }
            Filling::Strings { bytes, total } => {
                let from = bytes.len();
                bytes.resize((from + READ_STEP).min(*total), 0);
                &mut bytes[from..]
            }
        }
    }

    /// Returns the tensor of the complete buffer.
    ///
    /// # Errors
    /// The bytes are no elements of the dtype.
    pub(crate) fn finish(self, pool: &BufferPool) -> Result<Tensor, WireError> {
        let (bytes, total) = match self.bytes {
            Filling::Plain { buffer, .. } => {
                let buffer = Arc::new(buffer);
                pool.keep(&buffer);
                return Ok(Tensor::from_buffer(self.dtype, &self.dims, buffer)?);
            }
            Filling::Strings { bytes, total } => (bytes, total),
        };
        let elements = checked_elements(&self.dims).unwrap_or(0);
        let (lengths, mut rest) = bytes.split_at((elements * 8).min(bytes.len()));
        let mut all = Vec::with_capacity(lengths.len() / 8);
        for length in lengths.chunks_exact(8) {
            let length = length.try_into().map_or(u64::MAX, u64::from_le_bytes);
            let (now, after) = usize::try_from(length)
                .ok()
                .and_then(|n| rest.split_at_checked(n))
                .ok_or(WireError::Length {
                    expected: length,
                    found: total as u64,
                })?;
            all.push(now);
            rest = after;
        }
        match rest {
            [] => Ok(Tensor::strings(&self.dims, &all)?),
            rest => Err(WireError::Length {
                expected: (total - rest.len()) as u64,
                found: total as u64,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use proptest::prelude::*;

    use super::super::frames::{FrameReader, Frames};
    use super::super::messages::header::Kind;
    use super::*;
    use crate::limits::server_limits::memory_account;

    /// Reads these frames, without waiting.
    fn read(frames: Frames, limit: u64) -> Result<(i64, Tensor), WireError> {
        let mut reader = FrameReader::new(
            frames,
            limit,
            Arc::new(BufferPool::new(
                1 << 20,
                memory_account(u64::MAX),
                Arc::default(),
            )),
        );
        let mut cx = Context::from_waker(Waker::noop());
        match pin!(reader.value()).poll(&mut cx) {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("the whole message is there"),
        }
    }

    fn back(tensor: &Tensor) -> Tensor {
        let mut frames = Frames::default();
        frames.push_value(7, tensor).unwrap();
        let (number, found) = read(frames, u64::MAX).unwrap();
        assert_eq!(number, 7);
        assert_eq!(found.dtype(), tensor.dtype());
        assert_eq!(found.dims(), tensor.dims());
        found
    }

    #[test]
    fn values_round_trip() {
        for dims in [&[][..], &[0], &[3, 0, 2], &[7], &[100, 1000]] {
            for &dtype in DType::PLAIN {
                let tensor = Tensor::zeros(dtype, dims).unwrap();
                assert_eq!(back(&tensor).bytes(), tensor.bytes());
            }
        }
        let values: Vec<f32> = (0..100_000).map(|i| i as f32).collect();
        let tensor = Tensor::vector(&values);
        assert_eq!(back(&tensor).bytes(), tensor.bytes());
    }

    #[test]
    fn a_resource_handle_cannot_be_sent() {
        let tensor = Tensor::handle(DType::Resource, std::sync::Arc::new(1)).unwrap();
        let error = Frames::default().push_value(0, &tensor).unwrap_err();
        assert!(error.to_string().contains("lives in one task"), "{error}");
    }

    #[test]
    fn a_false_value_header_is_an_error_and_allocates_nothing() {
        let header = |dtype: i32, dims: &[u64], bytes: u64| Value {
            number: 0,
            dtype,
            dims: dims.into(),
            bytes,
            loan: None,
        };
        let (float, string) = (1, 7);
        for header in [
            header(float, &[1 << 40], 1 << 42),
            header(float, &[3], 8),
            header(float, &[u64::MAX, u64::MAX], 4),
            header(string, &[1 << 60], 8),
            header(string, &[2], 15),
            header(20, &[], 8),
            header(999, &[], 8),
            header(-1, &[], 8),
        ] {
            assert!(
                ValueBuffer::new(
                    &header,
                    1 << 30,
                    &Arc::new(BufferPool::new(0, memory_account(u64::MAX), Arc::default()))
                )
                .is_err(),
                "{header:?}"
            );
        }
        // More bytes are announced than arrive.
        let mut frames = Frames::default();
        let promised = header(float, &[1 << 26], 1 << 28);
        frames.push(Kind::Value(promised));
        assert!(matches!(read(frames, u64::MAX), Err(WireError::Short)));
    }

    proptest! {
        #[test]
        fn strings_round_trip(
            all in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..20),
        ) {
            let tensor = Tensor::strings(&[all.len()], &all).unwrap();
            let found = back(&tensor);
            let found = found.as_strings().unwrap().to_vecs();
            prop_assert_eq!(found, all);
        }
    }
}
