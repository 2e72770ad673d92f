//! NumPy's files of one array: any bytes, as a file or as the text of a header with zeros as data, are read or give an
//! error. Rows are those of the whole array. Memory is bounded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_data::NpyFile;
use thalweg_fuzz::memory::{Counting, bounded};

#[global_allocator]
static COUNTING: Counting = Counting;

fuzz_target!(|bytes: &[u8]| {
    let Some((&how, bytes)) = bytes.split_first() else {
        return;
    };
    // The highest bit selects the form; the others are the length of the data.
    let data = usize::from(how & 0x7f);
    let file = match how & 0x80 {
        0 => bytes.to_vec(),
        _ => {
            let mut file = b"\x93NUMPY\x01\x00".to_vec();
            file.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
            file.extend_from_slice(bytes);
            file.resize(file.len() + data, 0);
            file
        }
    };
    bounded(file.len(), || read(file));
});

fn read(file: Vec<u8>) {
    let Ok(file) = NpyFile::of_bytes(file, "fuzzed") else {
        return;
    };
    let Ok(whole) = file.tensor() else { return };
    assert_eq!((whole.dims(), whole.dtype()), (file.dims(), file.dtype()));
    for number in 0..file.rows().min(3) {
        let row = file.row(number).expect("the whole array was read");
        let length = row.bytes().len();
        assert_eq!(
            row.bytes(),
            &whole.bytes()[number as usize * length..][..length]
        );
    }
    assert!(file.row(file.rows()).is_err());
}
