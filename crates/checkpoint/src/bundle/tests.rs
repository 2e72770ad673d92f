//! Tests of the bytes of written checkpoints, and of reading damaged ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use prost::Message;
use thalweg_tensor::Tensor;

use super::index::Index;
use super::*;
use crate::CheckpointError;
use crate::table::write::TableWriter;

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

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("thalweg-bundle-{name}-{}", std::process::id());
        Folder(std::env::temp_dir().join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Twelve rows in three slices, and a step.
fn saved(folder: &Folder) -> (PathBuf, Tensor) {
    let prefix = folder.0.join("m");
    let rows: Vec<i32> = (0..24).collect();
    let mut writer = BundleWriter::create(&prefix).unwrap();
    for slice in ["12 2 0,4:-", "12 2 4,1:-", "12 2 5,7:-"] {
        let slice = SliceSpec::parse(slice).unwrap();
        let (start, length) = slice.extents()[0].unwrap();
        let part = &rows[2 * start..2 * (start + length)];
        let part = Tensor::new(&slice.dims(), part).unwrap();
        writer.add_slice("rows", &slice, &part).unwrap();
    }
    writer.add("step", &Tensor::scalar(3i64)).unwrap();
    writer.finish().unwrap();
    (prefix, Tensor::new(&[12, 2], &rows).unwrap())
}

/// Rewrites the index with a changed header and changed entries.
fn rewrite(
    prefix: &Path,
    compressed: bool,
    change: impl FnOnce(&mut proto::HeaderProto, &mut BTreeMap<Vec<u8>, proto::EntryProto>),
) {
    let path = index_path(prefix);
    let Index {
        mut header,
        mut entries,
        ..
    } = Index::read(&crate::disk::SystemDisk, &path).unwrap();
    change(&mut header, &mut entries);
    let mut table = match compressed {
        true => TableWriter::compressed(Vec::new(), 64),
        false => TableWriter::new(Vec::new()),
    };
    table.add(b"", &header.encode_to_vec()).unwrap();
    for (key, entry) in &entries {
        table.add(key, &entry.encode_to_vec()).unwrap();
    }
    std::fs::write(&path, table.finish().unwrap()).unwrap();
}

fn refused(prefix: &Path) -> String {
    let read = BundleReader::open(prefix).and_then(|reader| reader.tensor("rows"));
    read.unwrap_err().to_string()
}

#[test]
fn an_index_that_snappy_compressed_is_read() {
    let folder = Folder::new("snappy");
    let (prefix, rows) = saved(&folder);
    rewrite(&prefix, true, |_, _| {});
    let reader = BundleReader::open(&prefix).unwrap();
    reader.verify().unwrap();
    assert_eq!(reader.tensor("rows").unwrap(), rows);
}

#[test]
fn a_big_endian_machines_checkpoint_and_a_newer_format_are_refused() {
    let folder = Folder::new("endian");
    let (prefix, _) = saved(&folder);
    rewrite(&prefix, false, |header, _| header.endianness = 1);
    let said = refused(&prefix);
    assert!(
        said.contains("numbers are big-endian: save it again"),
        "{said}"
    );
    rewrite_header(&prefix);
    let said = refused(&prefix);
    assert!(said.contains("needs a newer reader"), "{said}");
}

/// As [`rewrite`], for an index that is refused for its endianness.
fn rewrite_header(prefix: &Path) {
    let header = proto::HeaderProto {
        num_shards: 1,
        endianness: 0,
        version: Some(proto::Version {
            producer: 9,
            min_consumer: 9,
            bad_consumers: Vec::new(),
        }),
    };
    let mut table = TableWriter::new(Vec::new());
    table.add(b"", &header.encode_to_vec()).unwrap();
    std::fs::write(index_path(prefix), table.finish().unwrap()).unwrap();
}

#[test]
fn slices_that_are_missing_or_overlap_are_errors() {
    let folder = Folder::new("slices");
    let (prefix, rows) = saved(&folder);
    let whole = std::fs::read(index_path(&prefix)).unwrap();
    rewrite(&prefix, false, |_, entries| {
        entries
            .get_mut(b"rows".as_slice())
            .unwrap()
            .slices
            .remove(1);
    });
    assert!(
        refused(&prefix).contains("entry rows, lacks slices"),
        "{}",
        refused(&prefix)
    );
    // The remaining slices can be read.
    let reader = BundleReader::open(&prefix).unwrap();
    let there = SliceSpec::parse("12 2 6,2:1,1").unwrap();
    assert_eq!(
        reader.slice("rows", &there).unwrap(),
        Tensor::from([[13], [15]])
    );

    std::fs::write(index_path(&prefix), &whole).unwrap();
    rewrite(&prefix, false, |_, entries| {
        let slices = &mut entries.get_mut(b"rows".as_slice()).unwrap().slices;
        slices[1] = slices[0].clone();
    });
    assert!(
        refused(&prefix).contains("has slices that overlap"),
        "{}",
        refused(&prefix)
    );

    std::fs::write(index_path(&prefix), &whole).unwrap();
    rewrite(&prefix, false, |_, entries| {
        entries.retain(|key, _| key[0] != 0 || key.len() < 3)
    });
    assert!(
        refused(&prefix).contains("lacks its slice"),
        "{}",
        refused(&prefix)
    );

    std::fs::write(index_path(&prefix), &whole).unwrap();
    assert_eq!(
        BundleReader::open(&prefix).unwrap().tensor("rows").unwrap(),
        rows
    );
}

#[test]
fn entries_larger_than_the_data_are_errors() {
    let folder = Folder::new("promise");
    let (prefix, _) = saved(&folder);
    let whole = std::fs::read(index_path(&prefix)).unwrap();
    type Change = fn(&mut proto::EntryProto);
    let changes: [(Change, &str); 7] = [
        (|e| e.offset = i64::MAX, "behind the end of its data file"),
        (|e| e.offset = -1, "lies before its file"),
        (|e| e.size = -1, "negative size"),
        (|e| e.size = 1 << 40, "another size than its shape needs"),
        (|e| e.shard_id = 1, "in a shard that there is not"),
        (|e| e.offset = 97, "behind the end of its data file"),
        (
            |e| {
                e.shape = Some(proto::Shape {
                    dim: Vec::new(),
                    unknown_rank: true,
                })
            },
            "unknown or negative",
        ),
    ];
    for (change, why) in changes {
        rewrite(&prefix, false, |_, entries| {
            change(entries.get_mut(b"step".as_slice()).unwrap());
        });
        let said = refused(&prefix);
        assert!(said.contains(why) && said.contains("entry step,"), "{said}");
        std::fs::write(index_path(&prefix), &whole).unwrap();
    }
    rewrite(&prefix, false, |_, entries| {
        let step = entries[b"step".as_slice()].clone();
        entries.insert(b"twice".to_vec(), step);
    });
    // Two at one place: together they would be longer than the file.
    assert!(refused(&prefix).contains("entry twice, lies behind the end"));
}

#[test]
fn repeated_slices_allocate_nothing() {
    let folder = Folder::new("again");
    let (prefix, _) = saved(&folder);
    rewrite(&prefix, false, |_, entries| {
        let rows = entries.get_mut(b"rows".as_slice()).unwrap();
        // A thousand times the first four rows, and a shape large enough for all of them.
        rows.slices = vec![rows.slices[0].clone(); 1000];
        rows.shape = Some(proto::Shape::of(&[4000, 2]));
    });
    // The error comes before any read.
    let data = data_path(&prefix, 0, 1);
    let length = std::fs::read(&data).unwrap().len();
    std::fs::write(&data, vec![0xff; length]).unwrap();
    let said = refused(&prefix);
    assert!(said.contains("has slices that overlap"), "{said}");
}

#[test]
fn a_slice_with_slices_is_refused() {
    let folder = Folder::new("nested");
    let (prefix, _) = saved(&folder);
    rewrite(&prefix, false, |_, entries| {
        let all = SliceSpec::whole(&[1 << 40]);
        let mut part = entries[b"rows".as_slice()].clone();
        part.shape = Some(proto::Shape::of(&[1 << 40]));
        part.slices = vec![all.to_proto()];
        // So many strings would exhaust the memory.
        part.dtype = dtype::number(thalweg_tensor::DType::String).unwrap();
        entries.insert(keys::slice_key("rows", &all), part.clone());
        entries.insert(b"rows".to_vec(), part);
    });
    let said = refused(&prefix);
    assert!(said.contains("is a slice, and has slices itself"), "{said}");
}

#[test]
fn empty_names_and_resources_are_refused() {
    let folder = Folder::new("names");
    let mut writer = BundleWriter::create(&folder.0.join("m")).unwrap();
    let one = Tensor::scalar(1i32);
    assert!(writer.add("", &one).is_err());
    writer.add("a", &one).unwrap();
    let said = writer.add("a", &one).unwrap_err();
    assert!(matches!(said, CheckpointError::Duplicate { .. }));
    let whole = SliceSpec::parse("2 0,1").unwrap();
    let said = writer
        .add_slice("a", &whole, &Tensor::vector(&[1i32]))
        .unwrap_err();
    assert!(matches!(said, CheckpointError::Duplicate { .. }), "{said}");
    let said = writer.add_slice("b", &whole, &one).unwrap_err().to_string();
    assert!(
        said.contains("2 0,1 of b is no slice of the tensor that was given"),
        "{said}"
    );
    let thing = Tensor::handle(thalweg_tensor::DType::Variant, std::sync::Arc::new(1)).unwrap();
    let said = writer.add("c", &thing).unwrap_err().to_string();
    assert!(
        said.contains("its dtype is variant, a thing of the runtime's"),
        "{said}"
    );
}
