//! Tests of sorted string tables: round trips.

use super::{read, varint, write::TableWriter};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn pairs(n: usize) -> Pairs {
    (0..n)
        .map(|i| {
            let key = format!("layer/{i:05}/kernel").into_bytes();
            (key, vec![i as u8; i % 40])
        })
        .collect()
}

fn read_back(table: &[u8]) -> Result<Pairs, String> {
    let mut found = Vec::new();
    read::for_each(table, |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        Ok(())
    })?;
    Ok(found)
}

#[test]
fn tables_of_any_number_of_blocks_read_back() {
    for n in [0, 1, 15, 16, 17, 33, 20_000] {
        let mut table = TableWriter::new(Vec::new());
        for (key, value) in pairs(n) {
            table.add(&key, &value).unwrap();
        }
        assert_eq!(read_back(&table.finish().unwrap()).unwrap(), pairs(n));
    }
}

#[test]
fn compressed_tables_read_back() {
    let mut table = TableWriter::compressed(Vec::new(), 1000);
    for (key, value) in pairs(500) {
        table.add(&key, &value).unwrap();
    }
    assert_eq!(read_back(&table.finish().unwrap()).unwrap(), pairs(500));
}

#[test]
fn a_changed_byte_of_a_table_is_an_error() {
    let mut table = TableWriter::new(Vec::new());
    for (key, value) in pairs(20) {
        table.add(&key, &value).unwrap();
    }
    let table = table.finish().unwrap();
    let whole = read_back(&table).unwrap();
    for at in 0..table.len() {
        let mut changed = table.clone();
        changed[at] ^= 0x10;
        // The empty block of metadata and the footer's padding are not read.
        if let Ok(found) = read_back(&changed) {
            assert_eq!(found, whole, "byte {at}");
        }
        assert!(read_back(&table[..at]).is_err());
    }
}

#[test]
fn numbers_of_more_than_64_bits_are_refused() {
    for number in [0, 127, 128, u64::from(u32::MAX), u64::MAX] {
        let mut bytes = Vec::new();
        varint::put(&mut bytes, number);
        assert_eq!(varint::take(&mut bytes.as_slice()), Some(number));
    }
    assert_eq!(varint::take(&mut [0xff; 10].as_slice()), None);
    assert_eq!(varint::take(&mut [0x80].as_slice()), None);
}
