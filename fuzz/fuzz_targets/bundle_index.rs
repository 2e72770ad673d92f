//! Indexes of checkpoints: whatever the bytes are, as a file or as a block whose checksums fit, they are read
//! or said to be wrong. Little memory is taken: the fuzzer's own limit holds that.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_checkpoint::bundle::{data_path, index_path};
use thalweg_fuzz::weights::{folder, framed, read_all};

fuzz_target!(|bytes: &[u8]| {
    let Some((&how, bytes)) = bytes.split_first() else {
        return;
    };
    let prefix = folder().join("index");
    let index = match how % 3 {
        0 => bytes.to_vec(),
        kind => framed(bytes, kind - 1),
    };
    std::fs::write(index_path(&prefix), index).expect("room for the index");
    std::fs::write(data_path(&prefix, 0, 1), [0; 256]).expect("room for data");
    read_all(&prefix);
});
