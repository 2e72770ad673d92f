//! `src/messages.rs` and `src/sizes/tables.rs` are up to date with `proto/*.proto`.

#[path = "../../../tests/support/size_tables.rs"]
mod size_tables;

use std::path::Path;

use size_tables::Paths;

#[test]
fn messages_match_the_proto_files() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = std::env::temp_dir().join(format!("thalweg-messages-{}", std::process::id()));
    std::fs::create_dir_all(&out).unwrap();
    let files = ["meta_graph.proto", "event.proto", "step_stats.proto"];
    let descriptors = protox::compile(files, [here.join("proto")]).unwrap();
    let paths = Paths {
        package: "tensorflow",
        module: "crate::messages",
        elsewhere: (&[], ""),
        sizes: "super",
    };
    let tables = size_tables::written(&descriptors, &paths);
    prost_build::Config::new()
        .btree_map(["."])
        .out_dir(&out)
        .compile_fds(descriptors)
        .unwrap();
    let made = std::fs::read_to_string(out.join("tensorflow.rs")).unwrap();
    std::fs::remove_dir_all(&out).unwrap();
    // The tables of sizes count a nested message as a part of its struct.
    assert!(
        !made.contains("Box<"),
        "a boxed message has no size in the tables"
    );
    for (made, file) in [(made, "src/messages.rs"), (tables, "src/sizes/tables.rs")] {
        let at = here.join(file);
        if std::env::var_os("UPDATE_PROTO").is_some() {
            std::fs::write(&at, &made).unwrap();
        }
        let kept = std::fs::read_to_string(&at).unwrap();
        assert!(
            kept == made,
            "{file} is not what the .proto files say: run UPDATE_PROTO=1 cargo test -p thalweg-graphdef --test messages"
        );
    }
}
