//! Lookup tables: what the golden graphs do not show, such as text files with mistakes, checkpoints and memory.

use thalweg::device::Files;
use thalweg::graph::{Attr, NodeBuilder};
use thalweg::prelude::*;
use thalweg::session::CpuOptions;
use thalweg_tests::folders::Folder;

/// A node of a table of these dtypes.
fn table<'g>(g: &'g Graph, op: &str, key: DType, value: DType) -> NodeBuilder<'g> {
    g.op(op).attr("key_dtype", key).attr("value_dtype", value)
}

/// A session that may use the files of a folder.
fn session<'g>(folder: &Folder, g: &'g Graph) -> Session<'g> {
    let files = Files::within([folder.path()]).unwrap();
    Session::with_options(g, SessionOptions::new().files(files)).unwrap()
}

fn strings(all: &[&str]) -> Tensor {
    Tensor::strings(&[all.len()], all).unwrap()
}

fn find<'g>(table: Output<'g>, keys: Output<'g>, default: Output<'g>) -> Output<'g> {
    let inputs = [table, keys, default];
    keys.graph().op("LookupTableFindV2").inputs(inputs).output()
}

#[test]
fn a_table_is_saved_by_its_export_and_restored_by_an_import() {
    let folder = Folder::new("saved-table");
    let g = Graph::new();
    let counts = table(&g, "MutableHashTableV2", DType::String, DType::I64);
    let counts = counts.attr("shared_name", "counts").output();
    let words = g.constant(strings(&["fox", "dog"]));
    let insert = g.op("LookupTableInsertV2").input(counts).input(words);
    let insert = insert.input(g.constant([7i64, 3])).build();
    let export = g
        .op("LookupTableExportV2")
        .input(counts)
        .attr("Tkeys", DType::String)
        .attr("Tvalues", DType::I64)
        .build();
    let prefix = g.constant(Tensor::strings(&[], &[folder.at("model")]).unwrap());
    let names = g.constant(strings(&["counts-keys", "counts-values"]));
    let whole = g.constant(strings(&["", ""]));
    let saved = [prefix, names, whole, export.output(0), export.output(1)];
    let save = g.op("SaveV2").inputs(saved).build();
    let restored = g.op("RestoreV2").inputs([prefix, names, whole]);
    let restored = restored.attr("dtypes", Attr::Types(vec![DType::String, DType::I64]));
    let restored = restored.build();
    let import = g.op("LookupTableImportV2").input(counts);
    let import = import.inputs([restored.output(0), restored.output(1)]);
    let import = import.build();
    let asked = g.constant(strings(&["dog", "cat", "fox"]));
    let found = find(counts, asked, g.constant(-1i64));

    let first = session(&folder, &g);
    first.run::<()>(insert, []).unwrap();
    first.run::<()>(save, []).unwrap();
    let second = session(&folder, &g);
    assert_eq!(second.run::<[i64; 3]>(found, []).unwrap(), [-1, -1, -1]);
    second.run::<()>(import, []).unwrap();
    assert_eq!(second.run::<[i64; 3]>(found, []).unwrap(), [3, -1, 7]);
}

#[test]
fn a_text_file_with_a_mistake_fills_no_table() {
    let folder = Folder::new("text-tables");
    let write = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).unwrap();
        folder.at(name)
    };
    let pairs = write("pairs", "1\tone\n2\ttwo\n");
    let (string, whole, number) = (DType::String, -2i64, -1i64);
    let cases = [
        (
            &pairs,
            string,
            string,
            1,
            2,
            -1,
            "\t",
            "Invalid number of columns in line 1",
        ),
        (
            &pairs,
            string,
            DType::I64,
            1,
            1,
            -1,
            "\t",
            "'one' in line 1 is not a valid i64",
        ),
        (
            &pairs,
            string,
            DType::I64,
            1,
            0,
            3,
            "\t",
            "expected 3 lines but got 2",
        ),
        (
            &pairs,
            string,
            DType::I64,
            1,
            0,
            -1,
            "--",
            "delimiter should be only 1 char",
        ),
        (
            &pairs,
            DType::I32,
            string,
            number,
            whole,
            -1,
            "\t",
            "line number requires table key",
        ),
        (
            &pairs,
            string,
            DType::F32,
            whole,
            whole,
            -1,
            "\t",
            "whole line requires string or integer",
        ),
        (
            &write("none", ""),
            string,
            DType::I64,
            whole,
            number,
            -1,
            "\t",
            "the file has no lines",
        ),
        (
            &write("gap", "a\n\nb\n"),
            string,
            DType::I64,
            whole,
            number,
            -1,
            "\t",
            "line 2 is an empty line",
        ),
        (
            &write("twice", "a\nb\na\n"),
            string,
            DType::I64,
            whole,
            number,
            -1,
            "\t",
            "different value for same key",
        ),
        (
            &folder.at("missing"),
            string,
            DType::I64,
            whole,
            number,
            -1,
            "\t",
            "there is no such file",
        ),
        (
            &"/etc/hostname".to_owned(),
            string,
            DType::I64,
            whole,
            number,
            -1,
            "\t",
            "outside of the folders",
        ),
    ];
    for (i, (file, key, value, key_index, value_index, size, delimiter, text)) in
        cases.into_iter().enumerate()
    {
        let g = Graph::new();
        let table = table(&g, "HashTableV2", key, value).output();
        let name = g.constant(Tensor::strings(&[], &[file]).unwrap());
        let init = g
            .op("InitializeTableFromTextFileV2")
            .inputs([table, name])
            .attr("key_index", key_index)
            .attr("value_index", value_index)
            .attr("vocab_size", size)
            .attr("delimiter", delimiter)
            .build();
        let size = g.op("LookupTableSizeV2").input(table).output();
        let session = session(&folder, &g);
        let error = session.run::<()>(init, []).unwrap_err().to_string();
        assert!(error.contains(text), "case {i}: {error}");
        assert_eq!(session.run::<i64>(size, []).unwrap(), 0, "case {i}");
    }
}

#[test]
fn a_table_stops_growing_at_the_memory_limit_and_keeps_its_entries() {
    for op in ["MutableHashTableV2", "MutableDenseHashTableV2"] {
        let g = Graph::new();
        let table = table(&g, op, DType::I64, DType::F64);
        let table = match op {
            "MutableDenseHashTableV2" => {
                let marks = [g.constant(-1i64), g.constant(-2i64)];
                table.inputs(marks).attr("initial_num_buckets", 4).output()
            }
            _ => table.output(),
        };
        let first = g.placeholder("first", DType::I64, []);
        let keys = g.constant((0..1000i64).collect::<Vec<_>>()) + first;
        let values = keys.cast(DType::F64);
        let insert = g.op("LookupTableInsertV2").inputs([table, keys, values]);
        let insert = insert.build();
        let found = find(table, first, g.constant(-1.0f64));
        let limited = CpuOptions::new().memory_limit(1 << 20);
        let options = SessionOptions::new().cpus(1).each_cpu(limited);
        let session = Session::with_options(&g, options).unwrap();
        let failed = (0..1000i64).find_map(|batch| {
            let feed = first.feed(batch * 1000);
            session.run::<()>(insert, [feed]).err()
        });
        let error = failed.expect("the memory is limited").to_string();
        assert!(error.contains("memory"), "{op}: {error}");
        assert!(session.devices()[0].memory().used() <= 1 << 20);
        let known: f64 = session.run(found, [first.feed(7i64)]).unwrap();
        assert_eq!(known, 7.0, "{op}");
    }
}
