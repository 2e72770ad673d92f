//! Files of weights for the targets: indexes whose checksums fit, and files in memory.

use std::path::{Path, PathBuf};

use thalweg_checkpoint::bundle::{data_path, index_path};
use thalweg_checkpoint::disk::memory;
use thalweg_checkpoint::{BundleReader, BundleWriter, SliceSpec, crc};
use thalweg_tensor::Tensor;

/// Tensors of some dtypes.
pub fn saved() -> [(&'static str, Tensor); 4] {
    [
        ("flags", Tensor::vector(&[true, false, true])),
        ("kernel", Tensor::from([[1.0f32, 2.0], [3.0, 4.0]])),
        ("step", Tensor::scalar(5i64)),
        ("text", Tensor::strings(&[3], &["a", "longer", ""]).expect("strings")),
    ]
}

/// Saves the tensors in a folder of this process, and returns the checkpoint's prefix.
pub fn save_bundle() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("thalweg-fuzz-{}", std::process::id()));
    let prefix = folder.join("saved");
    let mut writer = BundleWriter::create(&prefix).expect("a checkpoint");
    for (name, tensor) in saved() {
        writer.add(name, &tensor).expect("a tensor");
    }
    writer.finish().expect("a checkpoint");
    prefix
}

/// Makes readers find a checkpoint of one shard at this prefix.
pub fn put_bundle(prefix: &Path, index: &[u8], data: &[u8]) {
    memory::put(&index_path(prefix), index);
    memory::put(&data_path(prefix, 0, 1), data);
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

/// Appends a block with its trailer, and returns its handle.
fn put(file: &mut Vec<u8>, block: &[u8], kind: u8) -> Vec<u8> {
    let start = file.len();
    file.extend_from_slice(block);
    file.push(kind);
    let sum = crc::masked(&file[start..]);
    file.extend_from_slice(&sum.to_le_bytes());
    let mut handle = Vec::new();
    put_varint(&mut handle, start);
    put_varint(&mut handle, block.len());
    handle
}

/// Appends a number, seven bits a byte.
pub fn put_varint(to: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Reads all tensors that a checkpoint lists.
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
