//! Messages of records: any bytes, as an Example, a SequenceExample or a Datum, are read or give an error. Features of an
//! Example survive a round trip. Memory is bounded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_data::example::{Datum, Example, ExampleWriter, Feature, SequenceExample};
use thalweg_fuzz::memory::{Counting, bounded};

#[global_allocator]
static COUNTING: Counting = Counting;

fuzz_target!(|bytes: &[u8]| bounded(bytes.len(), || read(bytes)));

fn read(bytes: &[u8]) {
    if let Ok(datum) = Datum::parse(bytes) {
        let again = datum.to_vec();
        let again = Datum::parse(&again).expect("what was written is read");
        assert_eq!((again.data, again.label), (datum.data, datum.label));
    }
    if let Ok(sequence) = SequenceExample::parse(bytes) {
        for (_, list) in sequence.lists() {
            list.clone().flatten().for_each(|feature| values(&feature));
        }
    }
    let Ok(example) = Example::parse(bytes) else {
        return;
    };
    let mut writer = ExampleWriter::new();
    for (key, feature) in example.iter() {
        values(feature);
        writer = match feature.clone() {
            Feature::Bytes(list) => writer.bytes(key, list),
            Feature::Floats(list) => writer.floats(key, &list.to_vec()),
            Feature::Ints(list) => writer.ints(key, &list.to_vec()),
        };
    }
    let written = writer.finish();
    let again = Example::parse(&written).expect("what was written is read");
    assert_eq!(again.len(), example.len());
    for (key, feature) in example.iter() {
        let found = again.get(key).expect("it was written");
        let bits = |f: &Feature<'_>| f.floats().map(|l| l.map(f32::to_bits).collect::<Vec<_>>());
        let ints = |f: &Feature<'_>| f.ints().map(|l| l.to_vec());
        assert_eq!(
            found.bytes().map(|l| l.to_vec()),
            feature.bytes().map(|l| l.to_vec())
        );
        assert_eq!((bits(&found), ints(&found)), (bits(feature), ints(feature)));
    }
}

fn values(feature: &Feature<'_>) {
    match feature.clone() {
        Feature::Bytes(list) => assert_eq!(list.clone().count(), list.to_vec().len()),
        // Not compared as floats: NaN differs from itself.
        Feature::Floats(list) => assert_eq!(list.clone().count(), list.to_vec().len()),
        Feature::Ints(list) => assert_eq!(list.clone().count(), list.to_vec().len()),
    }
}
