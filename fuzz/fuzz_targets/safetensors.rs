//! Safetensors files: any bytes, as a file or as a header of the right length with zeros as data, are read or give an
//! error. Memory is bounded.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use thalweg_checkpoint::disk::memory;
use thalweg_checkpoint::safetensors::SafetensorsReader;
use thalweg_fuzz::memory::{Counting, bounded};

#[global_allocator]
static COUNTING: Counting = Counting;

fuzz_target!(|bytes: &[u8]| {
    let Some((&how, bytes)) = bytes.split_first() else {
        return;
    };
    // The highest bit selects the form; the others are the length of a header's data.
    let data = usize::from(how & 0x7f);
    bounded(bytes.len() + data, || match how & 0x80 {
        0 => read(bytes),
        _ => {
            let mut file = (bytes.len() as u64).to_le_bytes().to_vec();
            file.extend_from_slice(bytes);
            file.resize(file.len() + data, 0);
            read(&file);
        }
    });
});

fn read(bytes: &[u8]) {
    let path = Path::new("/nowhere/f.safetensors");
    memory::put(path, bytes);
    let Ok(reader) = SafetensorsReader::open(path) else {
        return;
    };
    for name in reader.names() {
        let info = reader.info(name).expect("what has a name is known");
        if let Ok(tensor) = reader.tensor(name) {
            assert_eq!((tensor.dims(), Some(tensor.dtype())), (info.dims.as_slice(), info.dtype));
        }
    }
}
