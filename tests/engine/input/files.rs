//! Files of graphs: those that are refused, damaged ones, readers.

use std::time::Duration;

use thalweg::data::write_record;
use thalweg::device::Files;
use thalweg::graph::Attr;
use thalweg::prelude::*;
use thalweg_tests::folders::Folder;

use super::*;

/// A session that may use the files of a folder.
fn session<'g>(folder: &Folder, g: &'g Graph) -> Session<'g> {
    let files = Files::within([folder.path()]).unwrap();
    Session::with_options(g, SessionOptions::new().files(files)).unwrap()
}

/// Writes a file, and returns its path.
fn written(folder: &Folder, name: &str, contents: &[u8]) -> String {
    std::fs::write(folder.join(name), contents).unwrap();
    folder.at(name)
}

fn record_file(records: &[&[u8]]) -> Vec<u8> {
    let mut file = Vec::new();
    records
        .iter()
        .for_each(|record| write_record(&mut file, record).unwrap());
    file
}

#[test]
fn a_session_reads_only_the_files_of_its_folders() {
    let (inside, outside) = (Folder::new("inside"), Folder::new("outside"));
    let own = written(&inside, "own", &record_file(&[b"a", b"bc"]));
    let other = written(&outside, "other", &record_file(&[b"secret"]));
    std::os::unix::fs::symlink(&other, inside.join("link")).unwrap();
    let link = inside.join("link").to_str().unwrap().to_owned();
    let g = Graph::new();
    let records = |name: &str| {
        let inputs = [string(&g, name), string(&g, ""), g.constant(0i64)];
        g.op("TFRecordDataset").inputs(inputs).output()
    };
    let session = session(&inside, &g);
    let (all, _) = elements(&session, records(&own), DType::String);
    assert_eq!(all.len(), 2);
    let none = Session::new(&g).unwrap();
    for (session, name, text) in [
        (&session, &other, "outside of the folders"),
        (&session, &link, "is a symlink"),
        (&none, &own, "allows no files"),
    ] {
        let (all, error) = elements(session, records(name), DType::String);
        assert!(all.is_empty() && error.contains(text), "{name}: {error}");
        for op in ["ReadFile", "MatchingFiles"] {
            let read = g.op(op).input(string(&g, name)).output();
            let error = session.run::<Tensor>(read, []).unwrap_err().to_string();
            assert!(error.contains(text), "{op} of {name}: {error}");
        }
    }
    // A pattern finds what may be read, and nothing of what may not.
    let pattern = inside.join("*");
    let found = g
        .op("MatchingFiles")
        .input(string(&g, pattern.to_str().unwrap()))
        .output();
    let found = session.run::<Tensor>(found, []).unwrap();
    assert_eq!(found.as_strings().unwrap().to_vecs(), [own.into_bytes()]);
    let write = |to: &str| {
        g.op("WriteFile")
            .input(string(&g, to))
            .input(string(&g, "text"))
            .build()
    };
    let new = inside.join("new/deep/file");
    session.run::<()>(write(new.to_str().unwrap()), []).unwrap();
    assert_eq!(std::fs::read(&new).unwrap(), b"text");
    let error = session
        .run::<()>(write(&other), [])
        .unwrap_err()
        .to_string();
    assert!(error.contains("outside of the folders"), "{error}");
}

#[test]
fn damaged_files_are_errors_with_the_file_and_the_offset() {
    let folder = Folder::new("damaged");
    let whole = record_file(&[b"first", b"second"]);
    let (mut data, mut length) = (whole.clone(), whole.clone());
    data[21 + 14] ^= 1;
    length[21] ^= 1;
    let huge = [&u64::MAX.to_le_bytes()[..], &[0; 4]].concat();
    let cases: [(&str, &[u8], usize, &str); 5] = [
        ("cut", &whole[..whole.len() - 1], 1, "cut off"),
        ("data", &data, 1, "do not match their checksum"),
        ("length", &length, 1, "length of a record does not match"),
        ("huge", &huge, 0, "length of a record does not match"),
        ("empty", b"", 0, "End of sequence"),
    ];
    let g = Graph::new();
    let session = session(&folder, &g);
    for (name, contents, good, text) in cases {
        let file = written(&folder, name, contents);
        let inputs = [string(&g, &file), string(&g, ""), g.constant(0i64)];
        let (all, error) = elements(
            &session,
            g.op("TFRecordDataset").inputs(inputs).output(),
            DType::String,
        );
        assert_eq!(all.len(), good, "{name}");
        assert!(error.contains(text), "{name}: {error}");
        let named = text == "End of sequence"
            || error.contains(&format!("{name}: the record at byte {}", 21 * good));
        assert!(named, "{name}: {error}");
    }
}

#[test]
fn records_are_read_from_a_byte_offset_of_each_file() {
    let folder = Folder::new("offsets");
    let records = record_file(&[b"one", b"two!", b"three"]);
    let plain = written(&folder, "plain", &records);
    let packed = written(&folder, "packed", &super::strings::zlib(&records));
    let g = Graph::new();
    let session = session(&folder, &g);
    let read = |files: &[&str], compression: &str, offsets: &[i64]| {
        let names = g.constant(Tensor::strings(&[files.len()], files).unwrap());
        let offsets = g.constant(Tensor::vector(offsets));
        let node = g.op("TFRecordDatasetV2").input(names);
        let node = node.input(string(&g, compression)).input(g.constant(0i64));
        let (all, error) = elements(&session, node.input(offsets).output(), DType::String);
        let text = |t: &Tensor| String::from_utf8_lossy(&t.as_strings().unwrap()[0]).into_owned();
        (all.iter().map(text).collect::<Vec<_>>().join(" "), error)
    };
    let two = [&*plain, &*plain];
    // TensorFlow's elements, and its errors.
    for (files, compression, offsets, records, text) in [
        (
            &two[..],
            "",
            &[19, 39][..],
            "two! three three",
            "End of sequence",
        ),
        (
            &two,
            "",
            &[],
            "one two! three one two! three",
            "End of sequence",
        ),
        (&[&plain], "", &[60], "", "End of sequence"),
        (&[&plain], "", &[1000], "", "End of sequence"),
        (&[&plain], "", &[5], "", "byte 5"),
        (&[&packed], "ZLIB", &[39], "three", "End of sequence"),
        (&[&packed], "ZLIB", &[i64::MAX], "", "End of sequence"),
    ] {
        let (all, error) = read(files, compression, offsets);
        assert!(
            all == records && error.contains(text),
            "{offsets:?}: {all}; {error}"
        );
    }
    for (offsets, text) in [
        (&[-1i64][..], "0 or more"),
        (&[1, 2], "one offset for each file"),
    ] {
        let names = g.constant(Tensor::strings(&[1], &[&plain]).unwrap());
        let node = g.op("TFRecordDatasetV2").input(names);
        let node = node.input(string(&g, "")).input(g.constant(0i64));
        let dataset = node.input(g.constant(Tensor::vector(offsets)));
        let error = session
            .run::<()>(dataset.build(), [])
            .unwrap_err()
            .to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn records_of_compressed_files_count_against_the_memory_limit() {
    let folder = Folder::new("bomb");
    let bomb = super::strings::zlib(&record_file(&[b"small", &vec![0; 64 << 20]]));
    assert!(bomb.len() < 1 << 20);
    let file = written(&folder, "bomb", &bomb);
    let g = Graph::new();
    let files = Files::within([folder.path()]).unwrap();
    let options = SessionOptions::new().files(files);
    let options = options.default_memory_limit(8 << 20);
    let session = Session::with_options(&g, options).unwrap();
    let inputs = [string(&g, &file), string(&g, "ZLIB"), g.constant(0i64)];
    let records = g.op("TFRecordDataset").inputs(inputs).output();
    let (all, error) = elements(&session, records, DType::String);
    assert!(all.len() == 1 && error.contains("memory"), "{error}");

    let queue = g.op("FIFOQueueV2");
    let queue = queue.attr("component_types", Attr::Types(vec![DType::String]));
    let queue = queue.output();
    let add = g.op("QueueEnqueueV2").input(queue).input(string(&g, &file));
    session.run::<()>(add.build(), []).unwrap();
    let reader = g.op("TFRecordReaderV2").attr("compression_type", "ZLIB");
    let read = g.op("ReaderReadUpToV2").input(reader.output()).input(queue);
    let read = read.input(g.constant(10i64)).outputs();
    let error = session.run::<Tensor>(read[1], []).unwrap_err().to_string();
    assert!(error.contains("memory"), "{error}");
}

#[test]
fn a_cache_file_appears_after_a_whole_pass_and_is_read_by_later_ones() {
    let folder = Folder::new("cache");
    let name = folder.at("kept");
    let g = Graph::new();
    let session = session(&folder, &g);
    let cache = |stop: i64, name: &str| {
        let inputs = [range(&g, stop), string(&g, name)];
        node(&g, "CacheDataset", &inputs, DType::I64).output()
    };
    let numbers = |dataset| {
        let (all, error) = elements(&session, dataset, DType::I64);
        let all: Vec<i64> = all.iter().map(|t| t.to_scalar().unwrap()).collect();
        (all, error)
    };
    // A pass that stops early leaves no file.
    let (start, next) = iterate(&g, cache(3, &name), DType::I64);
    session.run::<()>(start, []).unwrap();
    assert_eq!(session.run::<i64>(next, []).unwrap(), 0);
    assert!(!folder.join("kept").exists());
    // The second dataset has other elements, and gives those of the file.
    for stop in [3, 7] {
        let (all, error) = numbers(cache(stop, &name));
        assert!(
            all == [0, 1, 2] && error.contains("End of sequence"),
            "{all:?}: {error}"
        );
        assert!(folder.join("kept").exists());
    }
    // The pipelines of a program read the same file.
    let other = thalweg::data::pipeline::from_fn(|_| [[Tensor::from(9i64)]].into_iter());
    let mut kept = other.cache_file(&name);
    assert_eq!(kept.next().unwrap().unwrap(), [Tensor::from(0i64)]);

    let mut cut = std::fs::read(&name).unwrap();
    cut.truncate(cut.len() - 24);
    let cut = cache(3, &written(&folder, "cut", &cut));
    let (all, error) = numbers(cut);
    assert!(
        all == [0, 1] && error.contains("no whole cache"),
        "{all:?}: {error}"
    );
    let outside = Folder::new("outside");
    for (name, text) in [
        (written(&folder, "empty", b""), "no whole cache"),
        (
            written(&folder, "other", &record_file(&[b"a", b"b"])),
            "no whole cache",
        ),
        (outside.at("kept"), "outside of the folders"),
    ] {
        let (start, _) = iterate(&g, cache(3, &name), DType::I64);
        let error = session.run::<()>(start, []).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn a_reader_counts_its_records_and_starts_anew() {
    // The second version, and the first one on references.
    for version in ["V2", ""] {
        check_reader(version);
    }
}

fn check_reader(version: &str) {
    let op = |name: &str| format!("{name}{version}");
    let folder = Folder::new("reader");
    let file = written(&folder, "lines", b"one\ntwo\nthree");
    let g = Graph::new();
    let session = session(&folder, &g);
    let queue = g
        .op(&op("FIFOQueue"))
        .attr("component_types", Attr::Types(vec![DType::String]))
        .output();
    let add = g
        .op(&op("QueueEnqueue"))
        .input(queue)
        .input(string(&g, &file))
        .build();
    let reader = g.op(&op("TextLineReader")).output();
    let read = g.op(&op("ReaderRead")).input(reader).input(queue).outputs();
    let count = |name: &str| g.op(&op(name)).input(reader).output();
    let counts = (
        count("ReaderNumRecordsProduced"),
        count("ReaderNumWorkUnitsCompleted"),
    );
    let text = |value: Tensor| String::from_utf8(value.as_strings().unwrap()[0].to_vec()).unwrap();
    let line = || text(session.run(read[1], []).unwrap());
    session.run::<()>(add, []).unwrap();
    session.run::<()>(add, []).unwrap();
    assert_eq!(
        [line(), line(), line(), line()],
        ["one", "two", "three", "one"]
    );
    assert_eq!(session.run::<(i64, i64)>(counts, []).unwrap(), (4, 1));
    session
        .run::<()>(g.op(&op("ReaderReset")).input(reader).build(), [])
        .unwrap();
    session.run::<()>(add, []).unwrap();
    assert_eq!(line(), "one");
    assert_eq!(session.run::<(i64, i64)>(counts, []).unwrap(), (1, 0));
    // A step that waits for a name ends at its deadline, and loses none.
    assert_eq!([line(), line()], ["two", "three"]);
    let options = RunOptions::new().timeout(Duration::from_millis(50));
    let error = session.step_with(read[0], [], &options).unwrap_err();
    assert!(matches!(error, SessionError::Timeout { .. }), "{error}");
    session.run::<()>(add, []).unwrap();
    assert_eq!(text(session.run(read[0], []).unwrap()), format!("{file}:1"));
}

#[test]
fn a_checkpoint_holds_the_position_of_an_iterator() {
    let folder = Folder::new("iterator-position");
    let g = Graph::new();
    let iterator = node(&g, "IteratorV2", &[], DType::I64);
    let iterator = iterator.attr("shared_name", "").attr("container", "");
    let iterator = iterator.output();
    let start = g.op("MakeIterator").input(range(&g, 4)).input(iterator);
    let start = start.build();
    let next = node(&g, "IteratorGetNext", &[iterator], DType::I64).output();
    let prefix = string(&g, &folder.at("model"));
    let strings = |text: &str| g.constant(Tensor::strings(&[1], &[text]).unwrap());
    let entry = [prefix, strings("iterator"), strings("")];
    let position = g.op("SerializeIterator").input(iterator).output();
    let save = g.op("SaveV2").inputs(entry).input(position).build();
    let read = |dtype: DType| {
        let read = g.op("RestoreV2").inputs(entry);
        read.attr("dtypes", Attr::Types(vec![dtype])).output()
    };
    let restore = g.op("DeserializeIterator").input(iterator);
    let restore = restore.input(read(DType::Variant)).build();
    let number = read(DType::I64);

    let first = session(&folder, &g);
    first.run::<()>(start, []).unwrap();
    let [a, b] = [(); 2].map(|()| first.run::<i64>(next, []).unwrap());
    first.run::<()>(save, []).unwrap();
    assert_eq!((a, b, first.run::<i64>(next, []).unwrap()), (0, 1, 2));

    let second = session(&folder, &g);
    second.run::<()>(start, []).unwrap();
    second.run::<()>(restore, []).unwrap();
    let rest = [(); 2].map(|()| second.run::<i64>(next, []).unwrap());
    assert_eq!(rest, [2, 3]);
    assert!(second.run::<i64>(next, []).is_err());
    assert_eq!(second.run::<i64>(number, []).unwrap(), 2);
    second.run::<()>(restore, []).unwrap();
    assert_eq!(second.run::<i64>(next, []).unwrap(), 2);
}

#[test]
fn an_entry_that_is_no_position_restores_no_iterator() {
    let folder = Folder::new("no-iterator-position");
    let g = Graph::new();
    let prefix = string(&g, &folder.at("model"));
    let names = Tensor::strings(&[3], &["below", "vector", "float"]).unwrap();
    let slices = Tensor::strings(&[3], &["", "", ""]).unwrap();
    let entries = [prefix, g.constant(names), g.constant(slices)];
    let values = [g.constant(-1i64), g.constant([1i64, 2]), g.constant(1.0f32)];
    let save = g.op("SaveV2").inputs(entries).inputs(values).build();
    let session = session(&folder, &g);
    session.run::<()>(save, []).unwrap();
    for (name, expected) in [
        ("below", "'below' is no position of an iterator"),
        ("vector", "'vector' is no position of an iterator"),
        ("float", "'float' is of f32 in the checkpoint"),
    ] {
        let text = |text: &str| g.constant(Tensor::strings(&[1], &[text]).unwrap());
        let read = g.op("RestoreV2").inputs([prefix, text(name), text("")]);
        let read = read.attr("dtypes", Attr::Types(vec![DType::Variant]));
        let error = session.run::<()>(read.build(), []).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn records_of_one_length_may_overlap_and_may_have_gaps_in_packed_files_too() {
    let folder = Folder::new("hops");
    let gaps = (4, &b"HH000G111G222FFF"[..], ["000", "111", "222"]);
    let overlaps = (2, &b"HH0123456FFF"[..], ["012", "234", "456"]);
    for (hop, contents, expected) in [gaps, overlaps] {
        for encoding in ["", "ZLIB"] {
            let packed = match encoding {
                "" => contents.to_vec(),
                _ => super::strings::zlib(contents),
            };
            let file = written(&folder, "records", &packed);
            let g = Graph::new();
            let session = session(&folder, &g);
            let queue = g.op("FIFOQueueV2");
            let queue = queue.attr("component_types", Attr::Types(vec![DType::String]));
            let queue = queue.output();
            let add = g.op("QueueEnqueueV2").input(queue).input(string(&g, &file));
            session.run::<()>(add.build(), []).unwrap();
            let reader = g.op("FixedLengthRecordReaderV2").attr("header_bytes", 2i64);
            let reader = reader.attr("record_bytes", 3i64).attr("footer_bytes", 3i64);
            let reader = reader.attr("hop_bytes", hop).attr("encoding", encoding);
            let read = g.op("ReaderReadUpToV2").input(reader.output()).input(queue);
            let read = read.input(g.constant(10i64)).outputs();
            let found = session.run::<Tensor>(read[1], []).unwrap();
            assert_eq!(
                found,
                Tensor::strings(&[3], &expected).unwrap(),
                "{hop} {encoding}"
            );
        }
    }
}

#[test]
fn record_input_gives_each_record_once_in_each_pass() {
    let folder = Folder::new("record_input");
    let records: Vec<Vec<u8>> = (0..10u8).map(|i| vec![b'0' + i]).collect();
    for (name, part) in ["part-0", "part-1"].iter().zip(records.chunks(5)) {
        let part: Vec<&[u8]> = part.iter().map(|record| &record[..]).collect();
        written(&folder, name, &record_file(&part));
    }
    written(&folder, "empty", &record_file(&[]));
    let g = Graph::new();
    let input = |pattern: &str, batch: i64| {
        let node = g.op("RecordInput").attr("file_pattern", pattern);
        let node = node
            .attr("batch_size", batch)
            .attr("file_buffer_size", 4i64);
        node.attr("file_shuffle_shift_ratio", 0.5f32).output()
    };
    let batches = input(&folder.at("part-*"), 5);
    let (none, empty) = (input(&folder.at("no*"), 1), input(&folder.at("empty"), 1));
    let session = session(&folder, &g);
    let mut orders = Vec::new();
    for _ in 0..3 {
        let mut pass = Vec::new();
        for _ in 0..2 {
            let batch = session.run::<Tensor>(batches, []).unwrap();
            assert_eq!(batch.dims(), [5]);
            pass.extend(batch.as_strings().unwrap().iter().map(|r| r.to_vec()));
        }
        orders.push(pass.clone());
        pass.sort();
        assert_eq!(pass, records);
    }
    assert!(orders[0] != orders[1] && orders[1] != orders[2]);
    for (op, said) in [(none, "Found no files at"), (empty, "have no records")] {
        let error = session.run::<Tensor>(op, []).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}
