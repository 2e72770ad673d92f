//! The bytes of checkpoints, and what is read from them.

use super::*;
use thalweg_tensor::Tensor;

/// The index that TensorFlow 2.21 writes for one f32 scalar `w` of 1.0.
const GOLDEN: &str = "00000608011a02080100010b770801120028043581a5da2b0000000001000000\
0081e40d4d000000000100000000c0f2a1b00001027800200000000001000000\
00e1ed65da2508320e0000000000000000000000000000000000000000000000\
0000000000000000000000000057fb808b247547db";

#[test]
fn the_index_of_one_scalar_is_tensorflows_to_the_byte() {
    let folder = std::env::temp_dir().join(format!("thalweg-golden-{}", std::process::id()));
    let prefix = folder.join("w");
    let mut writer = BundleWriter::create(&prefix).unwrap();
    writer.add("w", &Tensor::scalar(1.0f32)).unwrap();
    writer.finish().unwrap();
    let index = std::fs::read(index_path(&prefix)).unwrap();
    let hex: String = index.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(hex, GOLDEN);
    let data = std::fs::read(data_path(&prefix, 0, 1)).unwrap();
    assert_eq!(data, [0, 0, 0x80, 0x3f]);
    std::fs::remove_dir_all(&folder).unwrap();
}
