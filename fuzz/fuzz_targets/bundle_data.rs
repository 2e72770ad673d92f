//! Data of checkpoints: bytes that are what was saved, or an error.
#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use thalweg_checkpoint::bundle::data_path;
use thalweg_checkpoint::{BundleReader, BundleWriter};
use thalweg_fuzz::weights::folder;
use thalweg_tensor::Tensor;

fn saved() -> [(&'static str, Tensor); 4] {
    [
        ("flags", Tensor::vector(&[true, false, true])),
        ("kernel", Tensor::from([[1.0f32, 2.0], [3.0, 4.0]])),
        ("step", Tensor::scalar(5i64)),
        ("text", Tensor::from(["a", "longer", ""].map(String::from).join(" "))),
    ]
}

fn prefix() -> &'static PathBuf {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = folder().join("data");
        let mut writer = BundleWriter::create(&prefix).expect("a checkpoint");
        for (name, tensor) in saved() {
            writer.add(name, &tensor).expect("a tensor");
        }
        writer.finish().expect("a checkpoint");
        prefix
    })
}

fuzz_target!(|bytes: &[u8]| {
    std::fs::write(data_path(prefix(), 0, 1), bytes).expect("room for data");
    let Ok(reader) = BundleReader::open(prefix()) else {
        return;
    };
    for (name, tensor) in saved() {
        if let Ok(found) = reader.tensor(name) {
            assert_eq!(found, tensor, "{name}");
        }
    }
});
