use crate::fuzzing::tasks::bytes_of;
use crate::limits::server_limits::memory_account;
use crate::transport::messages::{Forget, Loan};
use std::pin::pin;
use std::task::Waker;

use super::*;

/// A body of these bytes, in pieces of one length.
struct Pieces(Bytes, usize);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let length = self.0.len().min(self.1);
        let piece = self.0.split_to(length);
        Poll::Ready((length > 0).then(|| Ok(Frame::data(piece))))
    }
}

/// Returns a reader, whose pool allows `most` bytes in flight.
fn reader(bytes: &[u8], piece: usize, most: u64) -> FrameReader<Pieces> {
    let pool = Arc::new(BufferPool::new(0, memory_account(most), Arc::default()));
    FrameReader::new(Pieces(bytes.to_vec().into(), piece), 1 << 20, pool)
}

/// Returns the result of work that never waits.
fn ready<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("all bytes are there"),
    }
}

fn forget(session: &str) -> Kind {
    Kind::Forget(Forget {
        session: session.to_owned(),
        part: 3,
        opening: 4,
    })
}

fn encoded(kind: Kind) -> Vec<u8> {
    bytes_of(&mut Frames::of(kind))
}

#[test]
fn frames_are_read_from_chunks_of_any_length() {
    let tensors = [
        Tensor::vector(&[1.0f32, 2.0, 3.0]),
        // Too large for its header's buffer.
        Tensor::vector(&vec![7i64; MAX_INLINE_BYTES / 8 + 1]),
    ];
    let mut frames = Frames::of(forget("s"));
    for (number, tensor) in tensors.iter().enumerate() {
        frames.push_value(number as i64, tensor).unwrap();
    }
    frames.push_end(None);
    let bytes = bytes_of(&mut frames);
    for piece in [1, 2, 3, 5, 64, 4096, usize::MAX] {
        let mut reader = reader(&bytes, piece, u64::MAX);
        assert_eq!(ready(reader.next()).unwrap(), Some(forget("s")), "{piece}");
        for (number, tensor) in tensors.iter().enumerate() {
            let (found, value) = ready(reader.value()).unwrap();
            assert_eq!((found, value.bytes()), (number as i64, tensor.bytes()));
        }
        let end = ready(reader.next()).unwrap();
        assert_eq!(end, Some(Kind::End(End { error: None })));
        assert_eq!(ready(reader.next()).unwrap(), None);
    }
}

#[test]
fn a_stream_that_ends_inside_a_frame_is_short() {
    let header = encoded(forget("session"));
    for cut in 1..header.len() {
        let end = ready(reader(&header[..cut], 3, u64::MAX).next());
        assert!(matches!(end, Err(WireError::Short)), "{cut}");
    }
    let mut frames = Frames::default();
    frames.push_value(0, &Tensor::vector(&[1.0f32; 9])).unwrap();
    let value = bytes_of(&mut frames);
    for cut in value.len() - 36..value.len() {
        let end = ready(reader(&value[..cut], 5, u64::MAX).value());
        assert!(matches!(end, Err(WireError::Short)), "{cut}");
    }
}

#[test]
fn unreadable_headers_are_errors() {
    let long = u32::try_from(MAX_HEADER + 1).unwrap().to_le_bytes();
    let longest = u32::try_from(MAX_HEADER).unwrap().to_le_bytes();
    type Check = fn(&WireError) -> bool;
    let cases: [(&[u8], Check); 4] = [
        (
            &long,
            |e| matches!(e, WireError::TooLong { found, limit } if *found == limit + 1),
        ),
        // A length alone allocates nothing.
        (&longest, |e| matches!(e, WireError::Short)),
        (&[0, 0, 0, 0], |e| {
            matches!(e, WireError::Expected("a message"))
        }),
        (&[2, 0, 0, 0, 0xff, 0xff], |e| {
            matches!(e, WireError::Message(_))
        }),
    ];
    for (bytes, check) in cases {
        let error = ready(reader(bytes, 9, u64::MAX).next()).unwrap_err();
        assert!(check(&error), "{bytes:?}: {error}");
    }
    // Another message in the place of a value, and a loan in the place of its bytes.
    let other = ready(reader(&encoded(forget("s")), 9, u64::MAX).value());
    assert!(matches!(other, Err(WireError::Expected("a value"))));
    let lent = Value {
        loan: Some(Loan::default()),
        ..Value::default()
    };
    let lent = ready(reader(&[], 9, u64::MAX).tensor(&lent));
    assert!(matches!(lent, Err(WireError::Expected(_))));
}

#[test]
fn only_large_headers_count_as_bytes_in_flight() {
    let small = encoded(forget("s"));
    ready(reader(&small, 9, 0).next()).unwrap();
    let large = encoded(forget(&"s".repeat(MIN_COUNTED_HEADER)));
    for most in [0, 1000, MIN_COUNTED_HEADER as u64] {
        let full = ready(reader(&large, 999, most).next());
        let met = matches!(full, Err(WireError::Flight { limit }) if limit == most);
        assert!(met, "{most}");
    }
    ready(reader(&large, 999, 1 << 20).next()).unwrap();
}

#[test]
fn the_bytes_of_a_value_are_in_flight_until_its_reader_is_dropped() {
    let mut frames = Frames::default();
    frames.push_value(0, &Tensor::vector(&[1u8; 100])).unwrap();
    let bytes = bytes_of(&mut frames);
    let mut reader = reader(&bytes, 9, 150);
    ready(reader.value()).unwrap();
    let mut other = InFlightBytes::new(reader.pool.clone());
    assert!(other.more(51).is_err());
    other.more(50).unwrap();
    drop(reader);
    other.more(100).unwrap();
}

/// A source that waits before each of its frames.
struct Slow(Vec<Kind>, bool);

impl FrameSource for Slow {
    fn poll(&mut self, frames: &mut Frames, _: &mut Context<'_>) -> Poll<bool> {
        self.1 = !self.1;
        if self.1 {
            return Poll::Pending;
        }
        frames.push(self.0.remove(0));
        Poll::Ready(!self.0.is_empty())
    }
}

#[test]
fn a_stream_sends_all_frames_of_its_source_and_then_ends() {
    let kinds = vec![forget("a"), forget("b")];
    let expected: Vec<Vec<u8>> = kinds.iter().cloned().map(encoded).collect();
    let mut stream = FrameStream::new(Slow(kinds, false), None);
    let mut cx = Context::from_waker(Waker::noop());
    for frame in expected {
        assert!(Pin::new(&mut stream).poll_frame(&mut cx).is_pending());
        assert!(!stream.is_end_stream());
        match Pin::new(&mut stream).poll_frame(&mut cx) {
            Poll::Ready(Some(Ok(found))) => assert_eq!(found.into_data().unwrap(), frame),
            other => panic!("{other:?}"),
        }
    }
    assert!(stream.is_end_stream());
    let end = Pin::new(&mut stream).poll_frame(&mut cx);
    assert!(matches!(end, Poll::Ready(None)));
}
