//! Records that `thalweg data convert` makes, read by TensorFlow.

use std::process::Command;

use super::photos;
use super::support::{Folder, works};

/// Reads the records by tf.data with the keys that tf_cnn_benchmarks reads.
const READ: &str = r#"
import glob, sys
import tensorflow as tf

keys = {
    "image/encoded": tf.io.FixedLenFeature([], tf.string),
    "image/class/label": tf.io.FixedLenFeature([1], tf.int64),
    "image/class/text": tf.io.FixedLenFeature([], tf.string),
    "image/height": tf.io.FixedLenFeature([], tf.int64),
    "image/object/bbox/xmin": tf.io.VarLenFeature(tf.float32),
}
seen = []
files = sorted(glob.glob(sys.argv[1] + "/train-*-of-*"))
for record in tf.data.TFRecordDataset(files, compression_type=sys.argv[2]):
    example = tf.io.parse_single_example(record, keys)
    image = tf.io.decode_jpeg(example["image/encoded"], channels=3)
    assert image.shape[0] == example["image/height"]
    text = example["image/class/text"].numpy().decode()
    seen.append((int(example["image/class/label"][0]), text))
print(sorted(seen))
"#;

#[test]
fn tensorflow_reads_the_records() {
    let Some(python) = python() else { return };
    let folder = Folder::new("tensorflow");
    let source = photos(&folder, 2);
    for (method, kind) in [("none", ""), ("gzip", "GZIP"), ("zlib", "ZLIB")] {
        let to = folder.at(method);
        works(&[
            "data",
            "convert",
            &source,
            "--to",
            &to,
            "--shards",
            "2",
            "--compression",
            method,
        ]);
        let mut command = Command::new(&python);
        let output = command.args(["-c", READ, &to, kind]).output().unwrap();
        let (out, errors) = (output.stdout, String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{errors}");
        let seen = "[(1, 'n01440764'), (1, 'n01440764'), (2, 'rose'), (2, 'rose')]";
        assert_eq!(String::from_utf8(out).unwrap().trim(), seen);
    }
}

/// Finds a Python that has TensorFlow.
fn python() -> Option<String> {
    let named = std::env::var("TENSORFLOW_PYTHON").ok();
    let python = named.unwrap_or_else(|| "python3".to_owned());
    let look = "import importlib.util as u, sys; sys.exit(u.find_spec('tensorflow') is None)";
    let found = Command::new(&python).args(["-c", look]).status();
    if found.is_ok_and(|s| s.success()) {
        return Some(python);
    }
    let required = std::env::var("REQUIRE_TENSORFLOW").is_ok_and(|v| v == "1");
    assert!(
        !required,
        "no Python with TensorFlow: set TENSORFLOW_PYTHON"
    );
    eprintln!("SKIPPED: no Python with TensorFlow; set TENSORFLOW_PYTHON to one");
    None
}
