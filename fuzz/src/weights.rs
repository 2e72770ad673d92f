//! Files of weights for the targets: where they lie, and indexes whose checksums fit.

use std::path::{Path, PathBuf};

use thalweg_checkpoint::{BundleReader, SliceSpec, crc};

/// The folder of this process, in memory where the system has such a place.
pub fn folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let place = match memory.is_dir() {
        true => memory.to_owned(),
        false => std::env::temp_dir(),
    };
    let folder = place.join(format!("thalweg-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder of the fuzzer's own");
    folder
}

/// An index of one block, with checksums that fit.
pub fn framed(block: &[u8], kind: u8) -> Vec<u8> {
    let mut file = Vec::new();
    let handle = put(&mut file, block, kind);
    let meta = put(&mut file, &[0, 0, 0, 0, 1, 0, 0, 0], 0);
    let mut index = vec![0, 1, handle.len() as u8, b'~'];
    index.extend_from_slice(&handle);
    index.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
    let index = put(&mut file, &index, 0);
    let mut footer = [meta, index].concat();
    footer.resize(40, 0);
    footer.extend_from_slice(&0xdb47_7524_8b80_fb57u64.to_le_bytes());
    file.extend_from_slice(&footer);
    file
}

/// Appends a block with its trailer, and gives its handle.
fn put(file: &mut Vec<u8>, block: &[u8], kind: u8) -> Vec<u8> {
    let start = file.len();
    file.extend_from_slice(block);
    file.push(kind);
    let sum = crc::masked(&file[start..]);
    file.extend_from_slice(&sum.to_le_bytes());
    let mut handle = Vec::new();
    for mut number in [start, block.len()] {
        while number >= 0x80 {
            handle.push(number as u8 | 0x80);
            number >>= 7;
        }
        handle.push(number as u8);
    }
    handle
}

/// Reads all that a checkpoint says it has.
pub fn read_all(prefix: &Path) {
    let Ok(reader) = BundleReader::open(prefix) else {
        return;
    };
    for entry in reader.entries() {
        let _ = reader.tensor(&entry.name);
        let first: Vec<_> = entry.dims.iter().map(|_| Some((0, 1))).collect();
        if let Ok(slice) = SliceSpec::new(&entry.dims, &first) {
            let _ = reader.slice(&entry.name, &slice);
        }
    }
    let _ = reader.by_variable_name();
}
