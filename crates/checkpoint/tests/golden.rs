//! The checkpoints that TensorFlow wrote, read here and written again.

mod support;

use serde_json::Value;
use support::{golden, hex, numpy_name};
use thalweg_checkpoint::bundle::{data_path, index_path};
use thalweg_checkpoint::{
    BundleReader, BundleWriter, CheckpointError, EntryType, MergeOptions, SliceSpec, Weights,
    bundle, state,
};

#[test]
fn every_tensor_of_tensorflows_checkpoints_reads_as_tensorflow_reads_it() {
    let folder = golden();
    let text = std::fs::read_to_string(folder.join("expected.jsonl")).unwrap();
    let mut read = 0;
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let field = |name: &str| line[name].as_str().unwrap();
        let name = field("name");
        let reader = BundleReader::open(folder.join(field("checkpoint"))).unwrap();
        let info = reader.info(name).unwrap();
        assert_eq!(Value::from(info.dims.clone()), line["shape"], "{name}");
        let tensor = reader.tensor(name).unwrap();
        assert_eq!(EntryType::Known(tensor.dtype()), info.dtype);
        assert_eq!(numpy_name(tensor.dtype()), field("dtype"), "{name}");
        assert_eq!(Value::from(tensor.dims()), line["shape"], "{name}");
        assert_eq!(hex(&tensor), line["data"], "{name}");
        read += 1;
    }
    assert!(read > 200, "{read}");
}

/// Rewrites a checkpoint of one shard, in the order of its data.
#[test]
fn rewritten_checkpoints_have_tensorflows_bytes() {
    let folder = golden();
    for name in [
        "many",
        "overlong",
        "run/model.ckpt-4",
        "partitions-12",
        "text_parts",
    ] {
        let from = folder.join(name);
        let again = folder.join(&format!("{name}-again"));
        let reader = BundleReader::open(&from).unwrap();
        let mut writer = BundleWriter::create(&again).unwrap();
        // TensorFlow's ops save tensors in the order of their names.
        for entry in reader.entries() {
            if entry.slices.is_empty() {
                writer
                    .add(&entry.name, &reader.tensor(&entry.name).unwrap())
                    .unwrap();
            }
            for slice in &entry.slices {
                let part = reader.slice(&entry.name, slice).unwrap();
                writer.add_slice(&entry.name, slice, &part).unwrap();
            }
        }
        writer.finish().unwrap();
        let data = |prefix| std::fs::read(data_path(prefix, 0, 1)).unwrap();
        assert!(data(&again) == data(&from), "the data of {name}");
        let index = |prefix| std::fs::read(index_path(prefix)).unwrap();
        assert!(index(&again) == index(&from), "the index of {name}");
    }
}

#[test]
fn partitioned_variables_are_read_in_any_parts() {
    let folder = golden();
    let reader = BundleReader::open(folder.join("partitions-12")).unwrap();
    let info = reader.info("rows").unwrap();
    assert_eq!(
        (info.dims.as_slice(), info.slices.len()),
        ([7, 3].as_slice(), 3)
    );
    assert_eq!((info.shard, info.bytes), (None, 84));
    let whole = reader.tensor("rows").unwrap().to_vec::<f32>().unwrap();
    let part = reader
        .slice("rows", &SliceSpec::parse("7 3 2,4:1,2").unwrap())
        .unwrap();
    let expected: Vec<f32> = (2..6)
        .flat_map(|r| [whole[3 * r + 1], whole[3 * r + 2]])
        .collect();
    assert_eq!(part.dims(), [4, 2]);
    assert_eq!(part.to_vec::<f32>().unwrap(), expected);
    let said = reader
        .slice("rows", &SliceSpec::parse("8 3 2,4:-").unwrap())
        .unwrap_err();
    assert!(
        said.to_string().contains("whose dimensions are [7, 3]"),
        "{said}"
    );
}

#[test]
fn a_folder_opens_at_the_newest_checkpoint_that_its_state_file_names() {
    let folder = golden();
    let run = folder.join("run");
    let newest = state::latest_checkpoint(&run).unwrap();
    assert_eq!(newest, Some(run.join("model.ckpt-4")));
    let weights = Weights::open(&run).unwrap();
    assert_eq!(weights.path(), run.join("model.ckpt-4"));
    assert!(weights.names().contains(&"dense/kernel/Adam_1"));

    // A torn one: the one before is opened.
    let data = data_path(&run.join("model.ckpt-4"), 0, 1);
    std::fs::write(&data, b"cut").unwrap();
    let newest = state::latest_checkpoint(&run).unwrap();
    assert_eq!(newest, Some(run.join("model.ckpt-3")));
    let said = BundleReader::open(run.join("model.ckpt-4"))
        .err()
        .unwrap()
        .to_string();
    assert!(said.contains("model.ckpt-4.index, entry "), "{said}");
    assert!(
        said.contains("behind the end of its data file of 3 bytes"),
        "{said}"
    );
    let advice = format!("{}: restore that one", run.join("model.ckpt-3").display());
    assert!(said.ends_with(&advice), "{said}");
    assert_eq!(state::newest_usable(&run), Some(run.join("model.ckpt-3")));
}

/// Whatever is wrong with it: cut, a part of it gone, or gone as a whole.
#[test]
fn a_checkpoint_that_is_passed_over_is_told_with_its_reason() {
    let folder = golden();
    let run = folder.join("run");
    let newest = run.join("model.ckpt-4");
    let (data, index) = (data_path(&newest, 0, 1), index_path(&newest));
    let (whole_data, whole_index) = (
        std::fs::read(&data).unwrap(),
        std::fs::read(&index).unwrap(),
    );
    let reason = |damage: &dyn Fn()| {
        damage();
        let found = state::find_latest(&run).unwrap();
        assert_eq!(found.newest, Some(run.join("model.ckpt-3")));
        assert_eq!(found, state::find_usable(&run, &[]));
        let [one] = &found.passed_over[..] else {
            panic!("{found:?}")
        };
        assert_eq!(one.prefix, newest);
        assert_eq!(
            Weights::open(&run).unwrap().passed_over(),
            found.passed_over
        );
        std::fs::write(&data, &whole_data).unwrap();
        std::fs::write(&index, &whole_index).unwrap();
        let said = one.to_string();
        let start = format!("the checkpoint {} is passed over: ", newest.display());
        assert!(said.starts_with(&start), "{said}");
        assert!(!said.contains("restore that one"), "{said}");
        said
    };
    let half = |whole: &[u8]| whole[..whole.len() / 2].to_vec();
    for (damage, why) in [
        (
            &(|| std::fs::write(&data, half(&whole_data)).unwrap()) as &dyn Fn(),
            "the checkpoint was not written to its end, or cut",
        ),
        (
            &|| std::fs::remove_file(&data).unwrap(),
            "is not there, and the index of its checkpoint is",
        ),
        (
            &|| std::fs::write(&index, half(&whole_index)).unwrap(),
            "model.ckpt-4.index ",
        ),
        (
            &|| std::fs::remove_file(&index).unwrap(),
            "model.ckpt-4.index does not exist",
        ),
    ] {
        let said = reason(damage);
        assert!(said.contains(why), "{said}");
    }
    let whole = state::find_latest(&run).unwrap();
    assert_eq!(whole.newest, Some(newest));
    assert_eq!(whole.passed_over, []);
}

#[test]
fn variables_of_objects_are_found_by_their_names() {
    let folder = golden();
    let reader = BundleReader::open(folder.join("objects/ckpt-3")).unwrap();
    let names = reader.by_variable_name().unwrap().unwrap();
    let key = "model/layers/0/kernel/.ATTRIBUTES/VARIABLE_VALUE";
    assert_eq!(names.key("first/kernel"), Some(key));
    let kernel = names.tensor("first/kernel").unwrap();
    assert_eq!(kernel, reader.tensor(key).unwrap());
    assert_eq!(kernel.dims(), [3, 2]);
    let said = names.tensor("twin").unwrap_err().to_string();
    assert!(said.contains("several variables have this name"), "{said}");
    let weights = Weights::open(folder.join("objects")).unwrap();
    assert_eq!(weights.tensor("first/kernel").unwrap(), kernel);
    assert_eq!(weights.info("second/bias").unwrap().dims, [1]);
}

#[test]
fn missing_names_are_errors_with_similar_names() {
    let folder = golden();
    let reader = BundleReader::open(folder.join("run/model.ckpt-4")).unwrap();
    let said = reader.tensor("kernel").unwrap_err().to_string();
    assert!(
        said.starts_with("Key kernel not found in checkpoint "),
        "{said}"
    );
    assert!(said.ends_with("it has dense/kernel"), "{said}");
    let said = BundleReader::open(folder.join("run/model.ckpt-9"))
        .err()
        .unwrap();
    assert!(matches!(said, CheckpointError::Missing { .. }), "{said}");
}

#[test]
fn merged_parts_have_the_bytes_of_tensorflows_sharded_saver() {
    let folder = golden();
    let prefix = folder.join("sharded-3");
    let reader = BundleReader::open(&prefix).unwrap();
    let parts = [0, 1, 2].map(|i| folder.join(&format!("temp/part-{i:05}-of-00003")));
    for (shard, part) in parts.iter().enumerate() {
        let mut writer = BundleWriter::create(part).unwrap();
        for entry in reader.entries().filter(|e| e.shard == Some(shard)) {
            writer
                .add(&entry.name, &reader.tensor(&entry.name).unwrap())
                .unwrap();
        }
        writer.finish().unwrap();
    }
    let merged = folder.join("merged");
    let absent = folder.join("temp/absent");
    let all = [parts.as_slice(), &[absent]].concat();
    let said = bundle::merge(&all, &merged, MergeOptions::default())
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("temp/absent: the task that merges must see"),
        "{said}"
    );
    let options = MergeOptions {
        allow_missing: true,
        ..MergeOptions::default()
    };
    bundle::merge(&all, &merged, options).unwrap();
    let read = |path| std::fs::read(path).unwrap();
    assert!(read(index_path(&merged)) == read(index_path(&prefix)));
    for shard in 0..3 {
        assert!(read(data_path(&merged, shard, 3)) == read(data_path(&prefix, shard, 3)));
    }
    assert!(!folder.join("temp").exists());
}
