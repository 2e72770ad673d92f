//! Tests of IDX files: malformed, truncated and compressed ones, and round trips.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::*;

/// The bytes of an IDX file.
pub fn encode(dims: &[u32], data: &[u8]) -> Vec<u8> {
    let rank = u8::try_from(dims.len()).expect("a test uses few dimensions");
    let mut bytes = vec![0, 0, 0x08, rank];
    for dim in dims {
        bytes.extend(dim.to_be_bytes());
    }
    bytes.extend(data);
    bytes
}

/// The same bytes, gzipped.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("a vector takes all bytes");
    encoder.finish().expect("a vector takes all bytes")
}

fn read<const R: usize>(bytes: &[u8]) -> Result<Idx<R>, DataError> {
    Idx::read(bytes, "digits")
}

fn message<const R: usize>(bytes: &[u8]) -> String {
    read::<R>(bytes).expect_err("a bad file").to_string()
}

#[test]
fn a_missing_file_is_named_in_the_error() {
    let error = Idx::<1>::open("no/such/file").expect_err("no file");
    assert!(
        matches!(&error, DataError::Io { path, source }
            if path == Path::new("no/such/file") && source.kind() == io::ErrorKind::NotFound),
        "{error:?}"
    );
    assert!(error.to_string().starts_with("no/such/file: "), "{error}");
}

#[test]
fn a_folder_is_an_error() {
    let error = Idx::<1>::open(env!("CARGO_MANIFEST_DIR")).expect_err("a folder");
    assert!(matches!(error, DataError::Io { .. }), "{error:?}");
}

#[test]
fn the_error_for_a_file_that_is_not_idx_shows_its_first_bytes() {
    assert_eq!(
        message::<1>(b"<!DOCTYPE html>"),
        "digits: starts with 3c 21, which is neither gzip (1f 8b) nor IDX (00 00)"
    );
    assert!(matches!(
        read::<1>(&gzip(b"plain text")),
        Err(DataError::Magic {
            found: [b'p', b'l'],
            ..
        })
    ));
}

#[test]
fn the_error_names_unsupported_element_types() {
    for (code, name) in [
        (9, "i8"),
        (11, "i16"),
        (12, "i32"),
        (13, "f32"),
        (14, "f64"),
    ] {
        let found = message::<1>(&[0, 0, code, 1, 0, 0, 0, 0]);
        let expected = format!(
            "digits: holds elements of type {name} (0x{code:02x} at byte 2), \
             only u8 (0x08) is read"
        );
        assert_eq!(found, expected);
    }
    assert!(matches!(
        read::<1>(&[0, 0, 10, 1, 0, 0, 0, 0]),
        Err(DataError::UnknownElement { found: 10, .. })
    ));
}

#[test]
fn a_file_of_labels_instead_of_images_is_a_rank_error() {
    assert!(matches!(
        read::<3>(&encode(&[2], &[1, 2])),
        Err(DataError::Rank {
            expected: 3,
            found: 1,
            ..
        })
    ));
}

#[test]
fn the_error_for_a_truncated_file_has_the_found_and_expected_lengths() {
    assert_eq!(
        message::<2>(&encode(&[2, 3], &[1, 2, 3, 4])),
        "digits: ends after 16 bytes (unpacked), its header needs 18; get the file again"
    );
    assert!(matches!(
        read::<1>(&[]),
        Err(DataError::Truncated {
            expected: 4,
            found: 0,
            ..
        })
    ));
}

#[test]
fn every_truncation_is_an_error() {
    let whole = encode(&[3, 4, 5], &[7; 60]);
    let packed = gzip(&whole);
    for length in 0..whole.len() {
        let error = read::<3>(&whole[..length]).expect_err("a cut file");
        assert!(
            matches!(error, DataError::Truncated { found, .. } if found == length as u64),
            "{length}: {error:?}"
        );
    }
    for length in 0..packed.len() {
        let error = read::<3>(&packed[..length]).expect_err("a cut file");
        assert!(
            matches!(error, DataError::Truncated { .. } | DataError::Gzip { .. }),
            "{length}: {error:?}"
        );
    }
}

#[test]
fn trailing_bytes_are_an_error() {
    let mut bytes = encode(&[2], &[1, 2]);
    bytes.push(3);
    for bytes in [gzip(&bytes), bytes] {
        assert!(matches!(
            read::<1>(&bytes),
            Err(DataError::Trailing { expected: 10, .. })
        ));
    }
    let mut packed = gzip(&encode(&[2], &[1, 2]));
    packed.extend(b"rest");
    assert!(read::<1>(&packed).is_err());
}

#[test]
fn a_changed_element_fails_the_gzip_checksum() {
    // Compression level 0 stores bytes as they are, so that one can be changed.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
    let whole = encode(&[4], &[11, 22, 33, 44]);
    encoder.write_all(&whole).expect("a vector takes all bytes");
    let mut packed = encoder.finish().expect("a vector takes all bytes");
    let at = packed.iter().position(|&b| b == 33).expect("33 is stored");
    packed[at] = 34;
    assert!(matches!(
        read::<1>(&packed),
        Err(DataError::Gzip { offset: 12, .. })
    ));
}

#[test]
fn a_header_with_wrong_sizes_allocates_no_memory() {
    let overflow = encode(&[u32::MAX, u32::MAX, u32::MAX], &[]);
    assert!(matches!(
        read::<3>(&overflow),
        Err(DataError::TooLarge { .. })
    ));
    let above = encode(&[u32::MAX], &[1, 2, 3]);
    assert!(matches!(read::<1>(&above), Err(DataError::TooLarge { .. })));
    assert!(matches!(
        read::<1>(&encode(&[1 << 30], &[1, 2, 3])),
        Err(DataError::Truncated {
            expected: 0x4000_0008,
            found: 11,
            ..
        })
    ));
}

#[test]
fn the_buffer_has_no_spare_capacity() {
    let long = vec![1; 3 * FIRST_STEP + 5];
    let length = u32::try_from(long.len()).expect("a few megabytes");
    let idx = read::<1>(&gzip(&encode(&[length], &long))).expect("a good file");
    assert_eq!(idx.data.capacity(), long.len());
    assert_eq!(idx.data, long);
}

#[test]
fn zero_sizes_make_an_empty_array() {
    for dims in [[0, 28, 28], [5, 0, 28], [0, u32::MAX, u32::MAX]] {
        let idx = read::<3>(&encode(&dims, &[])).expect("an empty array");
        assert_eq!(idx.dims, dims.map(|d| d as usize));
        assert!(idx.data.is_empty());
    }
}

#[test]
fn an_array_without_dimensions_has_one_element() {
    let idx = read::<0>(&encode(&[], &[9])).expect("a scalar");
    assert_eq!(idx.data, [9]);
}

#[test]
fn a_gzip_file_of_several_members_is_one_stream() {
    let whole = encode(&[4], &[1, 2, 3, 4]);
    let packed = [gzip(&whole[..9]), gzip(&whole[9..])].concat();
    assert_eq!(read::<1>(&packed).expect("two members").data, [1, 2, 3, 4]);
}

/// A reader of one byte at a time, with an interruption before each.
struct Drip<'a>(&'a [u8], bool);

impl Read for Drip<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let n = into.len().min(1);
        self.0.read(&mut into[..n])
    }
}

#[test]
fn a_slow_and_interrupted_reader_gives_the_same_array() {
    let whole = encode(&[2, 2], &[1, 2, 3, 4]);
    for bytes in [gzip(&whole), whole] {
        let idx = Idx::<2>::read(Drip(&bytes, false), "drip").expect("a good stream");
        assert_eq!(idx.data, [1, 2, 3, 4]);
    }
}

proptest! {
    #[test]
    fn written_arrays_are_read_back(
        (rows, cols, data) in (0u32..40, 0u32..40).prop_flat_map(|(rows, cols)| {
            let n = (rows * cols) as usize;
            (Just(rows), Just(cols), prop::collection::vec(any::<u8>(), n))
        })
    ) {
        let plain = encode(&[rows, cols], &data);
        for bytes in [gzip(&plain), plain] {
            let idx = read::<2>(&bytes).expect("a good file");
            prop_assert_eq!(idx.dims, [rows as usize, cols as usize]);
            prop_assert_eq!(&idx.data, &data);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_data_matches_the_dimensions(
        head in prop::sample::select(vec![
            vec![], vec![0, 0], vec![0, 0, 8, 1], vec![0, 0, 8, 3],
            vec![0x1f, 0x8b], vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3],
        ]),
        tail in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let bytes = [head, tail].concat();
        if let Ok(idx) = read::<1>(&bytes) {
            prop_assert_eq!(idx.data.len(), idx.dims[0]);
        }
        if let Ok(idx) = read::<3>(&gzip(&bytes)) {
            prop_assert_eq!(idx.data.len(), idx.dims.iter().product::<usize>());
        }
    }

    #[test]
    fn one_changed_byte_never_panics(
        at in any::<prop::sample::Index>(), value in any::<u8>(), packed in any::<bool>(),
    ) {
        let mut bytes = encode(&[3, 2], &[1, 2, 3, 4, 5, 6]);
        if packed {
            bytes = gzip(&bytes);
        }
        let at = at.index(bytes.len());
        bytes[at] = value;
        if let Ok(idx) = read::<2>(&bytes) {
            prop_assert_eq!(idx.data.len(), 6);
        }
    }
}

#[test]
fn files_of_several_ranks_are_tensors_and_rows_of_a_pipeline() {
    let data = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/mnist"));
    let file = |name: &str| {
        let found = ["", ".gz"].map(|end| data.join(format!("{name}{end}")));
        found.into_iter().find(|path| path.exists()).unwrap()
    };
    let images = idx_tensor(file("t10k-images-idx3-ubyte")).unwrap();
    let labels = idx_tensor(file("t10k-labels-idx1-ubyte")).unwrap();
    assert_eq!(images.dims()[1..], [28, 28]);
    let mut rows = crate::pipeline::from_tensors([images, labels.clone()]).unwrap();
    rows.seek(7).unwrap();
    let [image, label] = rows.next().unwrap().unwrap();
    assert_eq!(image.dims(), [28, 28]);
    assert_eq!(
        label.to_scalar::<u8>().unwrap(),
        labels.to_vec::<u8>().unwrap()[7]
    );
}
