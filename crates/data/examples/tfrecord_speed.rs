//! Speed of reading TFRecord files from the page cache, with checksums, on one thread.
//!
//! `cargo run --release -p thalweg-data --example tfrecord_speed`

use std::time::Instant;

use thalweg_data::example::{Example, ExampleWriter};
use thalweg_data::pipeline::records;
use thalweg_data::{Compression, DataError, RecordFile, RecordIndex, RecordOptions, RecordWriter};

/// Size of each file, in bytes.
const FILE_BYTES: usize = 512 << 20;

fn main() -> Result<(), DataError> {
    let path = std::env::temp_dir().join(format!("thalweg-speed-{}", std::process::id()));
    for record_bytes in [1 << 10, 110 << 10, 1 << 20] {
        let record = ExampleWriter::new()
            .bytes("image/encoded", [vec![7; record_bytes]])
            .ints("image/class/label", &[1])
            .finish();
        let count = FILE_BYTES / record.len();
        let mut writer = RecordWriter::create(&path, Compression::None)?;
        for _ in 0..count {
            writer.write(&record)?;
        }
        writer.finish()?;
        for round in 0..3 {
            let started = Instant::now();
            let mut file = RecordFile::open(&path, RecordOptions::default())?;
            let mut found = 0;
            while file.read()?.is_some() {
                found += 1;
            }
            assert_eq!(found, count);
            let file_time = started.elapsed();

            let started = Instant::now();
            let mut labels = 0;
            for record in records([&path]) {
                let record = record?;
                let example = Example::parse(&record)?;
                let label = example
                    .get("image/class/label")
                    .and_then(|f| f.ints()?.next());
                labels += label.unwrap_or(0);
            }
            assert_eq!(labels, count as i64);
            let pipeline_time = started.elapsed();

            let started = Instant::now();
            assert_eq!(RecordIndex::scan(&path)?.len(), count as u64);
            let scan_time = started.elapsed();
            let rate = |time: std::time::Duration| {
                (record.len() * count) as f64 / time.as_secs_f64() / 1e9
            };
            println!(
                "records of {record_bytes} bytes, round {round}: file {:.2} GB/s, pipeline and Example {:.2} GB/s, index {:.1} ms",
                rate(file_time),
                rate(pipeline_time),
                scan_time.as_secs_f64() * 1e3
            );
        }
    }
    let _ = std::fs::remove_file(path);
    Ok(())
}
