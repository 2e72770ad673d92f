//! Shared memory between two processes, here two mappings in one process.

use std::sync::Arc;

use crate::{BUFFER_OVERHEAD, Buffer, MIN_SHARED_BYTES, Memory, Tensor};

use super::*;

/// A buffer's segment, mapped anew.
fn found(buffer: &Buffer, len: usize) -> Result<Buffer, SegmentError> {
    let file = buffer.segment_file().unwrap();
    Buffer::mapped(file, buffer.segment().unwrap(), len)
}

fn shared() -> Arc<Memory> {
    Arc::new(Memory::new(None).sharing(8 * MIN_SHARED_BYTES))
}

#[test]
fn writes_to_a_segment_are_visible_in_its_mapping() {
    for len in [
        MIN_SHARED_BYTES,
        MIN_SHARED_BYTES + 1,
        5 * PAGE_MULTIPLE - 1,
        3 << 20,
    ] {
        let mut own = Buffer::try_any_in(len, &shared()).unwrap();
        own.bytes_mut().fill(7);
        let mut there = found(&own, len).unwrap();
        assert!(there.len() == len && there.bytes().iter().all(|&b| b == 7));
        own.bytes_mut()[len - 1] = 8;
        assert_eq!(there.bytes()[len - 1], 8);
        // It can neither be written there nor be shared further.
        assert!(there.bytes_mut().is_empty());
        assert_eq!(there.segment(), None);
        assert!(Buffer::get_mut(&mut Arc::new(there)).is_none());
    }
}

#[test]
fn small_buffers_and_those_of_other_memory_are_not_shared() {
    let small = Buffer::try_any_in(MIN_SHARED_BYTES - 1, &shared()).unwrap();
    assert_eq!(small.segment(), None);
    let private = Arc::new(Memory::new(None));
    let private = Buffer::try_any_in(MIN_SHARED_BYTES, &private).unwrap();
    assert_eq!(private.segment(), None);
}

#[test]
fn a_segment_that_is_another_one_or_too_short_is_not_mapped() {
    let memory = shared();
    let own = Buffer::try_any_in(MIN_SHARED_BYTES, &memory).unwrap();
    assert!(found(&own, MIN_SHARED_BYTES).is_ok());
    for needed in [MIN_SHARED_BYTES + 1, usize::MAX] {
        let short = found(&own, needed);
        let is = |e: &SegmentError| {
            matches!(e, SegmentError::Short { needed: n, found }
                if *n == needed && *found == MIN_SHARED_BYTES as u64)
        };
        assert!(short.as_ref().is_err_and(is), "{short:?}");
    }
    let other = Buffer::try_any_in(MIN_SHARED_BYTES, &memory).unwrap();
    let other = Buffer::mapped(
        other.segment_file().unwrap(),
        own.segment().unwrap(),
        MIN_SHARED_BYTES,
    );
    assert!(matches!(other, Err(SegmentError::WrongFile { .. })));
}

/// Tries to map a file that is not a segment.
fn mapped(file: &File) -> Result<Buffer, SegmentError> {
    use std::os::unix::fs::MetadataExt;

    let number = file.metadata().unwrap().ino();
    Buffer::mapped(file, number, MIN_SHARED_BYTES)
}

#[test]
fn a_file_that_can_become_shorter_is_not_mapped() {
    use std::os::fd::FromRawFd;

    // The test binary: it is long enough, and not sealed.
    let file = File::open(std::env::current_exe().unwrap()).unwrap();
    assert!(matches!(mapped(&file), Err(SegmentError::Unsealed)));

    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a string that ends with zero.
    let descriptor = unsafe { libc::memfd_create(c"unsealed".as_ptr(), flags) };
    assert!(descriptor >= 0);
    // SAFETY: the descriptor has no other owner.
    let file = unsafe { File::from_raw_fd(descriptor) };
    file.set_len(MIN_SHARED_BYTES as u64).unwrap();
    assert!(matches!(mapped(&file), Err(SegmentError::Unsealed)));
    // SAFETY: an open file.
    let sealed = unsafe { libc::fcntl(descriptor, libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) };
    assert_eq!(sealed, 0);
    assert!(mapped(&file).is_ok());
}

#[test]
fn more_memory_than_the_system_has_is_refused_without_a_signal() {
    assert!(Segment::new(usize::MAX / 2).is_err());
    assert!(Segment::new(1 << 46).is_err());
}

#[test]
fn a_descriptor_that_is_not_memory_is_not_mapped() {
    let (reader, _writer) = io::pipe().unwrap();
    let file = File::from(std::os::fd::OwnedFd::from(reader));
    assert!(matches!(mapped(&file), Err(SegmentError::Unsealed)));
}

#[test]
fn free_segments_are_reused_and_frozen_ones_are_not() {
    let memory = shared();
    let make = || Buffer::try_any_in(MIN_SHARED_BYTES, &memory).unwrap();
    let first = make();
    let name = first.segment().unwrap();
    let counted = MIN_SHARED_BYTES + BUFFER_OVERHEAD;
    assert_eq!((memory.used(), memory.buffers()), (counted, 1));
    drop(first);
    assert_eq!((memory.used(), memory.buffers()), (0, 0));
    let mut again = Arc::new(make());
    assert_eq!(again.segment().unwrap(), name);
    Buffer::get_mut(&mut again).unwrap().bytes_mut().fill(3);
    let there = found(&again, MIN_SHARED_BYTES).unwrap();
    again.freeze();
    assert!(Buffer::get_mut(&mut again).is_none());
    drop(again);
    let mut next = make();
    assert_ne!(next.segment().unwrap(), name);
    next.bytes_mut().fill(4);
    // The bytes stay for as long as they are mapped.
    assert!(there.bytes().iter().all(|&b| b == 3));
}

#[test]
fn free_segments_are_bounded() {
    let memory = Arc::new(Memory::new(None).sharing(MIN_SHARED_BYTES));
    let make = || Buffer::try_any_in(MIN_SHARED_BYTES, &memory).unwrap();
    let (mut first, second) = (make(), make());
    first.bytes_mut().fill(5);
    let there = found(&first, MIN_SHARED_BYTES).unwrap();
    drop(first);
    assert!(there.bytes().iter().all(|&b| b == 5));
    drop(second);
    // The older of the two was dropped: its memory went back to the system, also where it is
    // mapped.
    assert!(there.bytes().iter().all(|&b| b == 0));
    let mut last = make();
    last.bytes_mut().fill(6);
    let there = found(&last, MIN_SHARED_BYTES).unwrap();
    drop((last, memory));
    assert!(there.bytes().iter().all(|&b| b == 0));
}

#[test]
fn a_device_has_a_bounded_number_of_segments() {
    let segments = SegmentPool::new(0);
    let all: Vec<_> = (0..segments.most)
        .map(|_| segments.take(1).unwrap())
        .collect();
    assert!(segments.take(1).is_none());
    all.into_iter().for_each(|s| segments.give(s));
    assert!(segments.take(1).is_some());
}

#[test]
fn a_held_tensor_has_a_successor() {
    let memory = shared();
    let mut value = Tensor::zeros_in(crate::DType::F32, &[MIN_SHARED_BYTES], &memory).unwrap();
    assert!(value.successor().unwrap().is_none());
    let held = value.clone();
    let mut next = value.successor().unwrap().unwrap();
    assert_eq!((next.dims(), next.dtype()), (held.dims(), held.dtype()));
    next.as_mut_slice::<f32>().unwrap().fill(1.0);
    assert!(next.buffer().unwrap().segment().is_some());
    assert!(held.as_slice::<f32>().unwrap().iter().all(|&v| v == 0.0));
    // A write while others hold the value goes to a copy, in memory that these can map.
    value.as_mut_slice::<f32>().unwrap()[0] = 2.0;
    assert!(value.buffer().unwrap().segment().is_some());
    assert_eq!(held.as_slice::<f32>().unwrap()[0], 0.0);
    drop(held);
    assert!(value.successor().unwrap().is_none());
    let text = &mut Tensor::strings(&[1], &["a"]).unwrap();
    assert!(text.successor().is_err());
}

/// Runs only in the process that the test below starts.
#[test]
#[ignore = "it needs a process with a file size limit, which the next test starts"]
fn with_a_file_size_limit() {
    if std::env::var_os("FILE_SIZE_LIMITED").is_none() {
        return;
    }
    let memory = shared();
    let mut large = Buffer::try_any_in(1 << 20, &memory).unwrap();
    large.bytes_mut().fill(7);
    assert_eq!((large.segment(), large.bytes()[9]), (None, 7));
    let small = Buffer::try_any_in(MIN_SHARED_BYTES, &memory).unwrap();
    assert!(small.segment().is_some());
}

#[test]
fn buffers_beyond_the_file_size_limit_are_in_ordinary_memory() {
    // In blocks of 512 bytes: more than the smallest segment, and less than a MiB.
    let limited = "ulimit -f 512; exec \"$@\"";
    let output = std::process::Command::new("sh")
        .args(["-c", limited, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args([
            "segment::tests::with_a_file_size_limit",
            "--exact",
            "--ignored",
        ])
        .env("FILE_SIZE_LIMITED", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{:?}: {said}", output.status);
    assert!(said.contains("1 passed"), "{said}");
}
