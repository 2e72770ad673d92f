use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::wire::{put_bytes, put_number, put_varint};
use super::*;
use crate::tfrecord::RecordReader;

/// Records that TensorFlow has written: see `tests/golden/generate.py`.
fn golden() -> Vec<Vec<u8>> {
    let mut records =
        RecordReader::new(&include_bytes!("../../tests/golden/examples.tfrecord")[..]);
    std::iter::from_fn(|| records.read().unwrap().map(<[u8]>::to_vec)).collect()
}

fn ints(feature: Option<Feature<'_>>) -> Vec<i64> {
    feature.unwrap().ints().unwrap().to_vec()
}

#[test]
fn an_example_of_tensorflow_is_read_and_written() {
    let record = &golden()[0];
    let example = Example::parse(record).unwrap();
    let keys: Vec<&str> = example.iter().map(|(key, _)| key).collect();
    assert_eq!(keys, ["box", "image", "label"]);
    let labels = [0, 1, -1, i64::MAX, i64::MIN, 300];
    assert_eq!(ints(example.get("label")), labels);
    let image = example.get("image").unwrap();
    let images: [&[u8]; 2] = [b"\xff\xd8\x00", b""];
    assert_eq!(image.bytes().unwrap().to_vec(), images);
    assert!(image.floats().is_none() && image.ints().is_none());
    let boxes = example.get("box").unwrap().floats().unwrap();
    assert_eq!(boxes.to_vec(), [0.5, -1.5, 3.0e38]);
    // A feature without a list counts as none.
    assert!(example.get("unset").is_none() && example.get("other").is_none());

    let writer = ExampleWriter::new()
        .ints("label", &labels)
        .bytes("image", images)
        .floats("box", &[0.5, -1.5, 3.0e38]);
    let mut written = writer.finish();
    // TensorFlow's record ends with the feature that has no list.
    let unset = b"\x0a\x09\x0a\x05unset\x12\x00";
    written.extend_from_slice(unset);
    written[1] += unset.len() as u8;
    assert_eq!(&written, record);
}

#[test]
fn a_sequence_example_of_tensorflow_is_read_and_written() {
    let record = &golden()[1];
    let sequence = SequenceExample::parse(record).unwrap();
    assert_eq!(ints(sequence.context().get("length")), [3]);
    let words: Vec<_> = sequence.list("words").unwrap().collect();
    assert!(words[1].is_none());
    assert_eq!(ints(words[0].clone()), [1, 2]);
    assert_eq!(ints(words[2].clone()), [3]);
    assert!(sequence.list("other").is_none());
    assert_eq!(sequence.lists().count(), 1);

    let writer = SequenceExampleWriter::new(ExampleWriter::new().ints("length", &[3]))
        .ints("words", [vec![1, 2], vec![3]])
        .floats("f", [[0.5f32]])
        .bytes("b", [[b"x"]]);
    let written = writer.finish();
    let again = SequenceExample::parse(&written).unwrap();
    assert_eq!(again.lists().count(), 3);
    let f = again.list("f").unwrap().next().unwrap().unwrap();
    assert_eq!(f.floats().unwrap().to_vec(), [0.5]);
}

#[test]
fn lists_that_are_not_packed_are_read() {
    let record = &golden()[2];
    let example = Example::parse(record).unwrap();
    let floats = example.get("f").unwrap().floats().unwrap();
    assert_eq!(floats.clone().collect::<Vec<_>>(), [1.0, 2.0]);
    assert_eq!(floats.to_vec(), [1.0, 2.0]);
    assert_eq!(ints(example.get("i")), [5, 300]);
}

/// A record with one entry of the map of features.
fn entry(key: &str, feature: &[u8]) -> Vec<u8> {
    let (mut entry, mut features, mut record) = (Vec::new(), Vec::new(), Vec::new());
    put_bytes(&mut entry, 1, key.as_bytes());
    put_bytes(&mut entry, 2, feature);
    put_bytes(&mut features, 1, &entry);
    put_bytes(&mut record, 1, &features);
    record
}

#[test]
fn the_last_of_a_duplicate_counts_and_unknown_fields_are_skipped() {
    let first = ExampleWriter::new()
        .ints("k", &[1])
        .floats("other", &[0.0])
        .finish();
    let second = ExampleWriter::new().ints("k", &[2]).finish();
    let mut unknown = Vec::new();
    put_number(&mut unknown, 9, 1);
    put_varint(&mut unknown, 10 << 3 | 1);
    unknown.extend_from_slice(&[0; 8]);
    put_bytes(&mut unknown, 2, b"?");
    // A group that holds a group and a field.
    unknown.extend_from_slice(&[0x5b, 0x63, 0x08, 0x01, 0x64, 0x5c]);
    let record = [first, unknown, second].concat();
    let example = Example::parse(&record).unwrap();
    assert_eq!(ints(example.get("k")), [2]);
    assert_eq!(example.len(), 2);

    // Lists of one kind are merged; one of another kind takes their place.
    let list = |number, value| {
        let (mut values, mut feature) = (Vec::new(), Vec::new());
        put_number(&mut values, 1, value);
        put_bytes(&mut feature, number, &values);
        feature
    };
    let merged = [list(3, 1), list(2, 1).split_off(4), list(3, 2)].concat();
    assert_eq!(
        ints(Example::parse(&entry("k", &merged)).unwrap().get("k")),
        [1, 2]
    );
    let replaced = [list(3, 1), vec![0x0a, 0], list(3, 2)].concat();
    assert_eq!(
        ints(Example::parse(&entry("k", &replaced)).unwrap().get("k")),
        [2]
    );
}

#[test]
fn damage_is_named_with_its_place() {
    let error = |record: &[u8]| Example::parse(record).unwrap_err().to_string();
    assert_eq!(
        error(&[0x0a, 5, 0]),
        "Example, byte 2: a value of 5 bytes is cut off: there are 1"
    );
    assert_eq!(error(&[0x00]), "Example, byte 0: 0 is no tag of a field");
    assert_eq!(error(&[0x0e]), "Example, byte 1: there is no wire type 6");
    assert_eq!(
        error(&[0x0c]),
        "Example, byte 0: ends a group that has not started"
    );
    assert_eq!(
        error(&[0x08, 1]),
        "Example, byte 1: field 1 is encoded as Varint, and must be Bytes"
    );
    assert!(error(&[0x5b; 200]).contains("groups are more than 100 deep"));
    let floats = entry("f", &[0x12, 5, 0x0a, 3, 0, 0, 0]);
    assert!(
        error(&floats).ends_with("3 bytes are no floats"),
        "{}",
        error(&floats)
    );
    let ints = entry("i", &[0x1a, 4, 0x0a, 2, 1, 0x80]);
    assert!(error(&ints).ends_with("a varint is cut off or too long"));
    let key = [0x0a, 5, 0x0a, 3, 0x0a, 1, 0xff];
    assert_eq!(error(&key), "Example, byte 6: a key is not UTF-8");
}

#[test]
fn a_datum_is_read_and_written() {
    // The message that protobuf writes for channels 3, height 2, width 1, six bytes, label -1, floats 0.5, not encoded.
    let mut record = b"\x08\x03\x10\x02\x18\x01\x22\x06abcdef\x28".to_vec();
    put_varint(&mut record, u64::MAX);
    record.extend_from_slice(b"\x35\x00\x00\x00\x3f\x38\x00");
    let datum = Datum::parse(&record).unwrap();
    assert_eq!((datum.channels, datum.height, datum.width), (3, 2, 1));
    assert_eq!(
        (datum.data, datum.label, datum.encoded),
        (&b"abcdef"[..], -1, false)
    );
    assert_eq!(datum.float_data.to_vec(), [0.5]);
    assert_eq!(datum.to_vec(), record);
    let packed = Datum::parse(b"\x32\x04\x00\x00\x00\x3f").unwrap();
    assert_eq!(packed.float_data.to_vec(), [0.5]);
    assert!(
        Datum::parse(b"\x20\x01")
            .unwrap_err()
            .to_string()
            .starts_with("Datum, byte 1: ")
    );
}

#[derive(Clone, Debug)]
enum Values {
    Bytes(Vec<Vec<u8>>),
    Floats(Vec<f32>),
    Ints(Vec<i64>),
}

fn values() -> impl Strategy<Value = Values> {
    prop_oneof![
        vec(vec(any::<u8>(), 0..9), 0..4).prop_map(Values::Bytes),
        vec(any::<f32>(), 0..9).prop_map(Values::Floats),
        vec(any::<i64>(), 0..9).prop_map(Values::Ints),
    ]
}

fn write(all: &BTreeMap<String, Values>) -> Vec<u8> {
    let mut writer = ExampleWriter::new();
    for (key, values) in all {
        writer = match values {
            Values::Bytes(v) => writer.bytes(key, v),
            Values::Floats(v) => writer.floats(key, v),
            Values::Ints(v) => writer.ints(key, v),
        };
    }
    writer.finish()
}

proptest! {
    #[test]
    fn what_is_written_is_read(all in btree_map(any::<String>(), values(), 0..6)) {
        let record = write(&all);
        let example = Example::parse(&record).unwrap();
        prop_assert_eq!(example.len(), all.len());
        for (key, values) in &all {
            match (values, example.get(key).unwrap()) {
                (Values::Bytes(v), Feature::Bytes(found)) => prop_assert_eq!(v, &found.to_vec()),
                (Values::Floats(v), Feature::Floats(found)) => prop_assert_eq!(v, &found.to_vec()),
                (Values::Ints(v), Feature::Ints(found)) => prop_assert_eq!(v, &found.to_vec()),
                _ => prop_assert!(false, "another kind"),
            }
        }
    }

    #[test]
    fn no_bytes_panic(bytes in vec(any::<u8>(), 0..80), all in btree_map(any::<String>(), values(), 0..3), at: usize) {
        let mut record = write(&all);
        for (n, byte) in bytes.iter().enumerate().take(3) {
            let length = record.len().max(1);
            if let Some(place) = record.get_mut((at ^ (n * 7)) % length) {
                *place = *byte;
            }
        }
        for record in [&bytes, &record] {
            if let Ok(example) = Example::parse(record) {
                example.iter().for_each(|(_, feature)| drop(format!("{feature:?}")));
            }
            if let Ok(sequence) = SequenceExample::parse(record) {
                sequence.lists().for_each(|(_, list)| assert!(list.clone().count() <= record.len()));
            }
            if let Ok(datum) = Datum::parse(record) {
                assert!(Datum::parse(&datum.to_vec()).is_ok());
            }
        }
    }
}
