use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::*;
use crate::error::DataError;

/// A file that py-lmdb has written: see `tests/golden/lmdb_files.py`.
fn golden(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    let mut bytes = Vec::new();
    let packed = std::fs::File::open(path).unwrap();
    flate2::read::GzDecoder::new(packed)
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

/// The keys and values of the golden file.
fn golden_entries() -> BTreeMap<Vec<u8>, Vec<u8>> {
    let kept = (0..600usize).filter(|n| n % 100 != 0);
    let length = |n: usize| match n % 4 {
        0 => n * 37 % 3000,
        _ => n % 50,
    };
    let entry = |n| {
        let key = format!("{n:08}_name").into_bytes();
        (key, vec![(n % 251) as u8; length(n)])
    };
    kept.map(entry).collect()
}

fn all(reader: &LmdbReader) -> Result<Vec<LmdbEntry>, DataError> {
    let mut cursor = reader.cursor();
    std::iter::from_fn(|| cursor.next().transpose()).collect()
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("thalweg-lmdb-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

fn write(folder: &Path, entries: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let mut writer = LmdbWriter::create(folder).unwrap();
    entries
        .iter()
        .for_each(|(key, value)| writer.add(key, value).unwrap());
    writer.finish().unwrap();
}

#[test]
fn a_file_of_lmdb_is_read() {
    let reader = LmdbReader::of_bytes(golden("lmdb.mdb.gz"), "f").unwrap();
    let expected = golden_entries();
    assert_eq!(reader.len(), 594);
    let found = all(&reader).unwrap();
    assert!(found.iter().map(|(k, v)| (k, v)).eq(&expected));
    for (key, value) in &expected {
        assert_eq!(reader.get(key).unwrap().as_ref(), Some(value));
    }
    for absent in [&b""[..], b"00000000_name", b"00000100_name", b"1", b"zzz"] {
        assert_eq!(reader.get(absent).unwrap(), None);
    }
    let mut cursor = reader.cursor();
    for at in [0, 1, 100, 300] {
        assert_eq!(cursor.pass(at).unwrap(), at);
    }
    assert_eq!(cursor.next().unwrap().as_ref(), Some(&found[401]));
    assert_eq!(cursor.pass(1000).unwrap(), 594 - 402);
    assert!(cursor.next().unwrap().is_none());
}

#[test]
fn named_databases_are_read() {
    let reader = LmdbReader::of_bytes(golden("lmdb_named.mdb.gz"), "f").unwrap();
    let train = reader.named("train").unwrap().unwrap();
    assert_eq!(all(&train).unwrap(), [(b"k".to_vec(), b"train".to_vec())]);
    assert!(reader.named("other").unwrap().is_none());
    assert!(
        train
            .named("k")
            .unwrap_err()
            .to_string()
            .ends_with("`k` is no database")
    );
    let error = reader.get(b"train").unwrap_err().to_string();
    assert!(
        error.ends_with("the value is a named database: read it with LmdbReader::named"),
        "{error}"
    );
}

#[test]
fn a_written_file_is_a_source_that_is_passed_over() {
    let folder = folder("source");
    let entries: BTreeMap<Vec<u8>, Vec<u8>> = (0..2000u32)
        .map(|n| {
            (
                format!("{n:06}").into_bytes(),
                vec![n as u8; (n * 97 % 9000) as usize],
            )
        })
        .collect();
    write(&folder, &entries);
    let mut source = lmdb(&folder).unwrap();
    let found: Vec<_> = source.by_ref().map(Result::unwrap).collect();
    assert!(found.iter().map(|(k, v)| (k, v)).eq(&entries));
    source.seek(1500).unwrap();
    assert_eq!(source.next().unwrap().unwrap(), found[1500]);
    let mut again = lmdb(&folder).unwrap().repeat(None);
    again.seek(2000 * 1_000_000_000 + 7).unwrap();
    assert_eq!(again.next().unwrap().unwrap(), found[7]);
    assert!(LmdbWriter::create(&folder).is_err());
    std::fs::remove_dir_all(folder).unwrap();

    let folder = self::folder("keys");
    let mut writer = LmdbWriter::create(&folder).unwrap();
    writer.add(b"b", b"").unwrap();
    for key in [&b"b"[..], b"a", b"", &[b'x'; 512]] {
        assert!(matches!(writer.add(key, b""), Err(DataError::Options(_))));
    }
    drop(writer);
    // A file without its meta pages.
    let error = LmdbReader::open(&folder).unwrap_err().to_string();
    assert!(error.contains("data.mdb, byte"), "{error}");
    std::fs::remove_dir_all(folder).unwrap();
}

/// A Python with py-lmdb, if there is one: `LMDB_PYTHON`, or the system's.
fn python() -> Option<String> {
    let python = std::env::var("LMDB_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let found = Command::new(&python).args(["-c", "import lmdb"]).output();
    found.is_ok_and(|o| o.status.success()).then_some(python)
}

#[test]
fn lmdb_reads_written_files() {
    let Some(python) = python() else {
        assert!(
            std::env::var_os("REQUIRE_LMDB").is_none(),
            "no Python with lmdb: set LMDB_PYTHON to one"
        );
        eprintln!("SKIPPED: no Python with lmdb; set LMDB_PYTHON to one");
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/lmdb_files.py");
    // Trees of depth 0 to 4: long keys fill branches.
    for count in [0u32, 1, 2, 15, 50, 1000, 3000] {
        for long in [8, 500] {
            let folder = folder(&format!("python-{count}-{long}"));
            let value =
                |n: u32| vec![n as u8; (n * 61 % 2500) as usize * usize::from(n.is_multiple_of(3))];
            let entries = (0..count).map(|n| (format!("{n:0long$}").into_bytes(), value(n)));
            let entries: BTreeMap<Vec<u8>, Vec<u8>> = entries.collect();
            write(&folder, &entries);
            let reader = LmdbReader::open(&folder).unwrap();
            assert!(
                all(&reader)
                    .unwrap()
                    .iter()
                    .map(|(k, v)| (k, v))
                    .eq(&entries)
            );
            let output = Command::new(&python)
                .arg(&script)
                .arg("read")
                .arg(&folder)
                .output()
                .unwrap();
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            let said = String::from_utf8(output.stdout).unwrap();
            let mut lines = said.lines();
            for (key, value) in &entries {
                let mut crc = flate2::Crc::new();
                crc.update(value);
                let key = String::from_utf8_lossy(key);
                let expected = format!("{key} {} {}", value.len(), crc.sum());
                assert_eq!(lines.next(), Some(&expected[..]));
            }
            assert!(lines.next().unwrap().starts_with(&format!("stat {count} ")));
            std::fs::remove_dir_all(folder).unwrap();
        }
    }
}

#[test]
fn damage_is_an_error() {
    let bytes = golden("lmdb.mdb.gz");
    let error = |bytes: Vec<u8>| {
        let read = LmdbReader::of_bytes(bytes, "f").and_then(|reader| all(&reader));
        read.unwrap_err().to_string()
    };
    assert!(error(Vec::new()).contains("are cut off"));
    assert!(error(vec![0; 8192]).contains("the file is none of LMDB"));
    assert!(error(bytes[..4096].to_vec()).contains("are cut off"));
    assert!(error(bytes[..8192].to_vec()).contains("is not in the file"));
    let changed = |at: usize, to: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        error(bytes)
    };
    // The newer meta page is that of the last transaction.
    let newer = if u64::from_le_bytes(bytes[144..152].try_into().unwrap())
        > u64::from_le_bytes(bytes[4096 + 144..4096 + 152].try_into().unwrap())
    {
        0
    } else {
        4096
    };
    let main = newer + 88;
    assert!(changed(40, &[1, 2]).contains("there are no pages of 513 bytes"));
    assert!(changed(main + 4, &[4]).contains("the database has the flags 0x4"));
    assert!(changed(main + 6, &[33]).contains("a tree of depth 33"));
    assert!(changed(main + 32, &[83]).contains("the tree does not have the 595 keys"));
    assert!(changed(main + 35, &[1]).contains("the file is too short for 16777810 keys"));
    // The root as a child of itself: the depth is wrong.
    let root = u64::from_le_bytes(bytes[main + 40..main + 48].try_into().unwrap());
    let at = root as usize * 4096;
    let first = usize::from(u16::from_le_bytes([bytes[at + 16], bytes[at + 17]]));
    assert!(
        changed(at + first, &(root as u32).to_le_bytes()).contains("at depth 2 of a tree of depth")
    );
    // All children are one page: more pages and keys than there are.
    let mut twice = bytes.clone();
    let children = (usize::from(u16::from_le_bytes([bytes[at + 12], bytes[at + 13]])) - 16) / 2;
    let child = bytes[at + first..at + first + 6].to_vec();
    for n in 0..children {
        let node = usize::from(u16::from_le_bytes([
            bytes[at + 16 + 2 * n],
            bytes[at + 17 + 2 * n],
        ]));
        twice[at + node..at + node + 6].copy_from_slice(&child);
    }
    let twice = error(twice);
    assert!(
        twice.contains("the tree does not have the 594 keys"),
        "{twice}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_written_is_read(entries in btree_map(vec(any::<u8>(), 1..40), vec(any::<u8>(), 0..50), 0..400), big: Option<u16>) {
        let mut entries = entries;
        if let (Some(big), Some(value)) = (big, entries.values_mut().next()) {
            value.resize(big.into(), 7);
        }
        let folder = folder("written");
        write(&folder, &entries);
        let reader = LmdbReader::open(&folder).unwrap();
        prop_assert_eq!(reader.len(), entries.len() as u64);
        prop_assert!(all(&reader).unwrap().iter().map(|(k, v)| (k, v)).eq(&entries));
        for (key, value) in &entries {
            prop_assert_eq!(&reader.get(key).unwrap(), &Some(value.clone()));
            let mut other = key.clone();
            other.push(0);
            prop_assert_eq!(reader.get(&other).unwrap(), entries.get(&other).cloned());
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    /// Whatever the bytes are, a scan ends.
    #[test]
    fn no_change_panics_or_hangs(changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..40), low: bool) {
        let mut bytes = golden("lmdb_named.mdb.gz");
        for (at, to) in changes {
            let at = at.index(bytes.len());
            // Positions and numbers are small.
            bytes[at] = if low { to % 8 } else { to };
        }
        if let Ok(reader) = LmdbReader::of_bytes(bytes, "f") {
            let _ = all(&reader);
            let _ = reader.get(b"train");
            if let Ok(Some(train)) = reader.named("train") {
                let _ = all(&train);
            }
            let _ = reader.cursor().pass(1000);
        }
    }
}
