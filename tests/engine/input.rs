//! Input that graphs bring: what TensorFlow does not show, such as files that are refused, steps that are cancelled, and
//! readers' counters.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg::data::write_record;
use thalweg::device::Files;
use thalweg::graph::{Attr, Func, NodeBuilder};
use thalweg::prelude::*;
use thalweg::tensor::Memory;

/// A folder of this test, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder =
            std::env::temp_dir().join(format!("thalweg-input-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder.canonicalize().unwrap())
    }

    fn file(&self, name: &str, contents: &[u8]) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, contents).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A session that may use the files of the folder.
    fn session<'g>(&self, g: &'g Graph) -> Session<'g> {
        let files = Files::within([&self.0]).unwrap();
        Session::with_options(g, SessionOptions::new().files(files)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn string<'g>(g: &'g Graph, text: &str) -> Output<'g> {
    g.constant(Tensor::strings(&[], &[text]).unwrap())
}

/// A node with the attributes of a dataset of one scalar component.
fn node<'g>(g: &'g Graph, op: &str, inputs: &[Output<'g>], dtype: DType) -> NodeBuilder<'g> {
    let node = g.op(op).inputs(inputs.iter().copied());
    node.attr("output_types", Attr::Types(vec![dtype]))
        .attr("output_shapes", Attr::Shapes(vec![Shape::unknown()]))
}

/// The numbers from 0 to `stop`.
fn range(g: &Graph, stop: i64) -> Output<'_> {
    node(
        g,
        "RangeDataset",
        &[0, stop, 1].map(|n| g.constant(n)),
        DType::I64,
    )
    .output()
}

/// The start of an iterator over a dataset, and its next element.
fn iterate<'g>(g: &'g Graph, dataset: Output<'g>, dtype: DType) -> (Operation<'g>, Output<'g>) {
    let iterator = node(g, "IteratorV2", &[], dtype)
        .attr("shared_name", "")
        .attr("container", "");
    let iterator = iterator.output();
    let start = g.op("MakeIterator").input(dataset).input(iterator).build();
    (
        start,
        node(g, "IteratorGetNext", &[iterator], dtype).output(),
    )
}

/// The elements of a dataset, up to the error at its end.
fn elements(session: &Session<'_>, dataset: Output<'_>, dtype: DType) -> (Vec<Tensor>, String) {
    let (start, next) = iterate(session.graph(), dataset, dtype);
    session.run::<()>(start, []).unwrap();
    let mut all = Vec::new();
    loop {
        match session.run::<Tensor>(next, []) {
            Ok(element) => all.push(element),
            Err(error) => return (all, error.to_string()),
        }
    }
}

#[test]
fn older_batches_are_those_of_the_newer_ops() {
    let g = Graph::new();
    let session = Session::new(&g).unwrap();
    let batches = node(
        &g,
        "BatchDataset",
        &[range(&g, 5), g.constant(2i64)],
        DType::I64,
    )
    .output();
    let (all, _) = elements(&session, batches, DType::I64);
    let all: Vec<Vec<i64>> = all.iter().map(|t| t.to_vec().unwrap()).collect();
    assert_eq!(all, [vec![0, 1], vec![2, 3], vec![4]]);

    let padded = g.op("PaddedBatchDataset").inputs([
        batches,
        g.constant(2i64),
        g.constant([3i64]),
        g.constant(9i64),
    ]);
    let padded = padded.attr("Toutput_types", Attr::Types(vec![DType::I64]));
    let padded = padded
        .attr("output_shapes", Attr::Shapes(vec![Shape::unknown()]))
        .attr("N", 1)
        .output();
    let none = g.constant(Tensor::strings(&[0], &[""; 0]).unwrap());
    let same = node(
        &g,
        "OptimizeDatasetV2",
        &[padded, none, none, none],
        DType::I64,
    )
    .output();
    let (all, end) = elements(&session, same, DType::I64);
    let all: Vec<Vec<i64>> = all.iter().map(|t| t.to_vec().unwrap()).collect();
    assert_eq!(all, [vec![0, 1, 9, 2, 3, 9], vec![4, 9, 9]]);
    assert!(end.contains("End of sequence"), "{end}");
}

#[test]
fn mistakes_in_datasets_are_named() {
    let g = Graph::new();
    let session = Session::new(&g).unwrap();
    let three = range(&g, 3);
    let i64s = |all: &[i64]| all.iter().map(|&n| g.constant(n)).collect::<Vec<_>>();
    let of = |op: &str, numbers: &[i64]| {
        let inputs = [vec![three], i64s(numbers)].concat();
        elements(
            &session,
            node(&g, op, &inputs, DType::I64).output(),
            DType::I64,
        )
    };
    let (taken, end) = of("AssertCardinalityDataset", &[4]);
    assert_eq!(taken.len(), 3);
    assert!(
        end.contains("was said to have 4 elements, and has 3"),
        "{end}"
    );
    let (taken, end) = of("AssertCardinalityDataset", &[2]);
    assert_eq!(taken.len(), 2);
    assert!(
        end.contains("was said to have 2 elements, and has more"),
        "{end}"
    );

    let unmade = |op: &str, numbers: &[i64]| {
        let inputs = [vec![three], i64s(numbers)].concat();
        let (start, _) = iterate(&g, node(&g, op, &inputs, DType::I64).output(), DType::I64);
        session.run::<()>(start, []).unwrap_err().to_string()
    };
    for (op, numbers, text) in [
        ("ShardDataset", &[3, 3][..], "index must be from 0 to 2"),
        (
            "ShardDataset",
            &[0, 0],
            "num_shards must be 1 or more, and is 0",
        ),
        (
            "BatchDataset",
            &[-4],
            "batch_size must be 1 or more, and is -4",
        ),
        (
            "ShuffleDataset",
            &[0, 1, 1],
            "buffer_size must be 1 or more, and is 0",
        ),
    ] {
        let error = unmade(op, numbers);
        assert!(error.contains(text), "{op}: {error}");
    }
    // An element of another dtype than the iterator's.
    let (_, end) = elements(&session, three, DType::F32);
    assert!(end.contains("component 0 of the element is i64"), "{end}");
}

#[test]
fn a_generator_of_python_is_refused_with_the_reason() {
    let g = Graph::new();
    let session = Session::new(&g).unwrap();
    let mut generator = node(&g, "GeneratorDataset", &[], DType::I64);
    for name in ["init_func", "next_func", "finalize_func"] {
        generator = generator.attr(name, Attr::Func(Func::named("f")));
    }
    let (start, _) = iterate(&g, generator.output(), DType::I64);
    let error = session.run::<()>(start, []).unwrap_err().to_string();
    assert!(error.contains("runs Python code"), "{error}");
}

#[test]
fn an_endless_dataset_without_elements_ends_with_its_step() {
    let g = Graph::new();
    let session = Session::new(&g).unwrap();
    // Each pass skips all elements, so no pass has one.
    let all = node(
        &g,
        "RepeatDataset",
        &[range(&g, 1 << 40), g.constant(-1i64)],
        DType::I64,
    )
    .output();
    let none = node(&g, "SkipDataset", &[all, g.constant(i64::MAX)], DType::I64).output();
    let (start, next) = iterate(&g, none, DType::I64);
    session.run::<()>(start, []).unwrap();
    let started = Instant::now();
    let options = RunOptions::new().timeout(Duration::from_millis(50));
    let error = session.step_with(next, [], &options).unwrap_err();
    assert!(matches!(error, SessionError::Timeout { .. }), "{error}");
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn elements_that_a_dataset_keeps_count_against_the_memory() {
    let g = Graph::new();
    let limited = || {
        let memory = Arc::new(Memory::new(Some(1 << 20)));
        let options = SessionOptions::new().memory_account(memory);
        Session::with_options(&g, options).unwrap()
    };
    let all = range(&g, i64::MAX);
    let n = |n: i64| g.constant(n);
    let none = g.constant(Tensor::strings(&[], &[""]).unwrap());
    let drop = g.constant(false);
    let large = 1 << 40;
    for (op, inputs) in [
        ("ShuffleDataset", vec![all, n(large), n(1), n(2)]),
        ("BatchDatasetV2", vec![all, n(large), drop]),
        ("WindowDataset", vec![all, n(large), n(1), n(1), drop]),
    ] {
        let (taken, end) = elements(
            &limited(),
            node(&g, op, &inputs, DType::I64).output(),
            DType::I64,
        );
        assert!(
            taken.is_empty() && end.contains("no memory for"),
            "{op}: {end}"
        );
    }
    let cache = node(&g, "CacheDataset", &[all, none], DType::I64).output();
    let (taken, end) = elements(&limited(), cache, DType::I64);
    assert!(
        taken.len() > 1000 && end.contains("no memory for"),
        "{}: {end}",
        taken.len()
    );
}

#[test]
fn a_deep_chain_of_datasets_is_an_error() {
    let g = Graph::new();
    let session = Session::new(&g).unwrap();
    let mut chain = range(&g, 3);
    for at in 0..500 {
        if at == 399 {
            assert_eq!(elements(&session, chain, DType::I64).0.len(), 3);
        }
        chain = node(&g, "SkipDataset", &[chain, g.constant(0i64)], DType::I64).output();
    }
    let (start, _) = iterate(&g, chain, DType::I64);
    let error = session.run::<()>(start, []).unwrap_err().to_string();
    assert!(error.contains("datasets stand on each other"), "{error}");
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
    let own = inside.file("own", &record_file(&[b"a", b"bc"]));
    let other = outside.file("other", &record_file(&[b"secret"]));
    std::os::unix::fs::symlink(&other, inside.0.join("link")).unwrap();
    let link = inside.0.join("link").to_str().unwrap().to_owned();
    let g = Graph::new();
    let records = |name: &str| {
        let inputs = [string(&g, name), string(&g, ""), g.constant(0i64)];
        g.op("TFRecordDataset").inputs(inputs).output()
    };
    let session = inside.session(&g);
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
    let pattern = inside.0.join("*");
    let found = g
        .op("MatchingFiles")
        .input(string(&g, pattern.to_str().unwrap()))
        .output();
    let found = session.run::<Tensor>(found, []).unwrap();
    assert_eq!(
        found.as_strings().unwrap(),
        [own.into_bytes().into_boxed_slice()]
    );
    let write = |to: &str| {
        g.op("WriteFile")
            .input(string(&g, to))
            .input(string(&g, "text"))
            .build()
    };
    let new = inside.0.join("new/deep/file");
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
    let session = folder.session(&g);
    for (name, contents, good, text) in cases {
        let file = folder.file(name, contents);
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
fn a_reader_counts_its_records_and_starts_anew() {
    let folder = Folder::new("reader");
    let file = folder.file("lines", b"one\ntwo\nthree");
    let g = Graph::new();
    let session = folder.session(&g);
    let queue = g
        .op("FIFOQueueV2")
        .attr("component_types", Attr::Types(vec![DType::String]))
        .output();
    let add = g
        .op("QueueEnqueueV2")
        .input(queue)
        .input(string(&g, &file))
        .build();
    let reader = g.op("TextLineReaderV2").output();
    let read = g.op("ReaderReadV2").input(reader).input(queue).outputs();
    let count = |op: &str| g.op(op).input(reader).output();
    let counts = (
        count("ReaderNumRecordsProducedV2"),
        count("ReaderNumWorkUnitsCompletedV2"),
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
        .run::<()>(g.op("ReaderResetV2").input(reader).build(), [])
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
fn an_iterator_says_its_device() {
    let g = Graph::new();
    let session = Session::new(&g).unwrap();
    let iterator = node(&g, "IteratorV2", &[], DType::I64)
        .attr("shared_name", "")
        .attr("container", "")
        .output();
    let device = session
        .run::<Tensor>(g.op("IteratorGetDevice").input(iterator).output(), [])
        .unwrap();
    let device = String::from_utf8_lossy(&device.as_strings().unwrap()[0]).into_owned();
    assert!(device.ends_with("device:CPU:0"), "{device}");
}

/// Bytes in a zlib stream.
fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

#[test]
fn damaged_compressed_strings_are_errors() {
    let g = Graph::new();
    let session = Session::new(&g).unwrap();
    let packed = g.placeholder("packed", DType::String, [1]);
    let unpacked = g.op("DecodeCompressed").input(packed);
    let unpacked = unpacked.attr("compression_type", "ZLIB").output();
    let run = |bytes: &[u8]| {
        let bytes = Tensor::strings(&[1], &[bytes]).unwrap();
        session.run::<Tensor>(unpacked, [packed.feed(bytes)])
    };
    let whole = zlib(b"abcdefgh");
    assert_eq!(&*run(&whole).unwrap().as_strings().unwrap()[0], b"abcdefgh");
    for damaged in [&whole[..whole.len() - 6], b"no stream", b""] {
        let error = run(damaged).unwrap_err().to_string();
        assert!(error.contains("element 0 cannot be unpacked"), "{error}");
    }
}

#[test]
fn unpacked_strings_count_against_the_memory_limit() {
    let g = Graph::new();
    let options = SessionOptions::new().default_memory_limit(4 << 20);
    let session = Session::with_options(&g, options).unwrap();
    let packed = g.placeholder("packed", DType::String, []);
    let unpacked = g.op("DecodeCompressed").input(packed);
    let unpacked = unpacked.attr("compression_type", "ZLIB").output();
    let bomb = Tensor::strings(&[], &[zlib(&vec![0; 64 << 20])]).unwrap();
    let error = session.run::<Tensor>(unpacked, [packed.feed(bomb)]);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("memory"), "{error}");
}

#[test]
fn row_splits_that_do_not_fit_are_errors() {
    let g = Graph::new();
    let session = Session::new(&g).unwrap();
    let splits = g.placeholder("splits", DType::I64, Shape::of_rank(1));
    let inner = g.placeholder("inner", DType::I64, Shape::of_rank(1));
    let rows = g.op("RaggedTensorToVariant").inputs([splits, inner]);
    let rows = rows.input(g.constant([1i32, 2, 3]));
    let rows = rows.attr("RAGGED_RANK", 2).attr("batched_input", true);
    let rows = rows.output();
    let run = |ends: &[i64], inner_ends: &[i64]| {
        let feeds = [
            splits.feed(Tensor::vector(ends)),
            inner.feed(Tensor::vector(inner_ends)),
        ];
        session.run::<()>(rows.operation(), feeds)
    };
    run(&[0, 1, 2], &[0, 1, 3]).unwrap();
    for (ends, inner_ends) in [
        (&[][..], &[0, 3][..]),
        (&[0, 1], &[]),
        (&[0, 2, 1], &[0, 3]),
        (&[0, 5], &[0, 3]),
        (&[1, 1], &[0, 3]),
        (&[0, 1], &[0, 4]),
        (&[0, 1], &[-1, 3]),
        (&[0, i64::MAX], &[0, 3]),
    ] {
        let error = run(ends, inner_ends).unwrap_err().to_string();
        assert!(error.contains("row splits"), "{error}");
    }
}
