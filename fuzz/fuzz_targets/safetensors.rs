//! Files of safetensors: whatever the bytes are, they are read or said to be wrong.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_checkpoint::safetensors::SafetensorsReader;
use thalweg_fuzz::weights::folder;

fuzz_target!(|bytes: &[u8]| {
    let path = folder().join("f.safetensors");
    std::fs::write(&path, bytes).expect("room for a file");
    let Ok(reader) = SafetensorsReader::open(&path) else {
        return;
    };
    for name in reader.names() {
        let info = reader.info(name).expect("what has a name is known");
        if let Ok(tensor) = reader.tensor(name) {
            assert_eq!((tensor.dims(), Some(tensor.dtype())), (info.dims.as_slice(), info.dtype));
        }
    }
});
