//! CSV files: any bytes are read to the end, or give an error; passing over rows meets as many. Memory is bounded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_data::{Column, CsvOptions, Vocabulary, csv};
use thalweg_fuzz::memory::{Counting, bounded};
use thalweg_tensor::Tensor;

#[global_allocator]
static COUNTING: Counting = Counting;

fuzz_target!(|bytes: &[u8]| {
    let Some((&how, bytes)) = bytes.split_first() else {
        return;
    };
    let path = std::env::temp_dir().join(format!("thalweg-fuzz-csv-{}", std::process::id()));
    std::fs::write(&path, bytes).expect("the folder can be written");
    bounded(bytes.len(), || {
        let columns = || {
            [
                Column::texts(0),
                Column::floats(1).or(Tensor::from(0f32)),
                Column::category(1, Vocabulary::new(["a"])),
                Column::ints("a"),
            ]
        };
        let options = CsvOptions {
            header: how & 1 == 1,
            delimiter: if how & 2 == 2 { b'\t' } else { b',' },
            missing: vec!["?".to_owned()],
        };
        let [text, float, category, named] = columns();
        let mut rows = 0;
        let three = [text, float, category];
        let mut whole = true;
        for row in csv([&path], three.clone(), options.clone()) {
            whole &= row.is_ok();
            rows += u64::from(row.is_ok());
        }
        let mut passing = csv([&path], three, options.clone());
        let passed = passing.seek(u64::MAX).map(|()| passing.position());
        assert!(!whole || passed.is_ok_and(|n| n == rows));
        let _ = csv([&path], [named], options).count();
    });
});
