use proptest::collection::vec;
use proptest::prelude::*;

use super::super::*;
use super::all;
use crate::tfrecord::{Compression, RecordWriter};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Records are taken and passed over in turns, with the positions of the records known or not.
    #[test]
    fn records_are_taken_and_passed_over_in_any_order(
        files in vec((vec(prop_oneof![0usize..30, 300_000usize..300_002], 0..8), any::<bool>()), 0..4),
        steps in vec((any::<bool>(), 0u64..5), 0..12), scanned: bool, shards in 1u64..4,
    ) {
        let folder = std::env::temp_dir().join(format!("thalweg-records-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (mut paths, mut expected) = (Vec::new(), Vec::new());
        for (number, (lengths, packed)) in files.iter().enumerate() {
            let packed = *packed && cfg!(feature = "gzip");
            let compression = if packed { Compression::Gzip } else { Compression::None };
            let path = folder.join(number.to_string());
            let mut writer = RecordWriter::create(&path, compression).unwrap();
            for length in lengths {
                let record = vec![expected.len() as u8; *length];
                writer.write(&record).unwrap();
                expected.push(record);
            }
            writer.finish().unwrap();
            paths.push(path);
        }
        let mut stage = records(&paths).stage;
        if scanned {
            let length = stage.length().unwrap();
            let packed = files.iter().any(|(_, packed)| *packed && cfg!(feature = "gzip"));
            prop_assert_eq!(length, (!packed).then_some(expected.len() as u64));
        }
        stage.start(0).unwrap();
        let mut at = 0;
        for (taken, count) in steps {
            let rest = (expected.len() - at) as u64;
            if taken {
                for _ in 0..count.min(rest) {
                    prop_assert_eq!(&stage.next().unwrap().unwrap(), &expected[at]);
                    at += 1;
                }
            } else {
                let passed = stage.pass(count).unwrap();
                prop_assert_eq!(passed, count.min(rest));
                at += passed as usize;
            }
        }
        let rest: Vec<Vec<u8>> = std::iter::from_fn(|| stage.next().unwrap()).collect();
        prop_assert_eq!(&rest[..], &expected[at..]);
        prop_assert!(stage.next().unwrap().is_none());

        let shard = all(records(&paths).shard(shards, 0));
        let every: Vec<Vec<u8>> = expected.into_iter().step_by(shards as usize).collect();
        prop_assert_eq!(shard, every);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
