//! GraphDefs: any bytes are imported or give an error. An imported graph survives a round trip through export, and a
//! session of it is made or refused. Memory is bounded by the fuzzer's own limit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_graph::Graph;
use thalweg_graphdef::{ExportOptions, GraphDef, ImportOptions, describe, export, file, import};
use thalweg_ops::NewGraph;
use thalweg_session::Session;

fuzz_target!(|bytes: &[u8]| {
    let Ok(def) = file::decode::<GraphDef>(bytes, "fuzzed", "GraphDef") else {
        return;
    };
    let options = ImportOptions::new().max_expanded_bytes(1 << 20).max_nodes(1 << 12);
    let g = Graph::new();
    let _ = describe(&def, g.registry());
    if import(&g, &def, &options).is_err() {
        assert!(g.snapshot().is_empty() && g.errors().is_empty());
        return;
    }
    // Ops that only runtimes make cannot be exported, and no file has them.
    let written = export(&g, &ExportOptions::default()).expect("what came out of a file fits one");
    let h = Graph::new();
    import(&h, &written, &ImportOptions::default()).expect("what was exported is imported");
    let again = export(&h, &ExportOptions::default()).expect("and exported again");
    assert_eq!(prost::Message::encode_to_vec(&again), prost::Message::encode_to_vec(&written));
    let _ = Session::new(&g);
});
