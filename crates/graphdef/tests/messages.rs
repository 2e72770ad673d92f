//! `src/messages.rs` is what prost makes of `proto/*.proto`.

use std::path::Path;

#[test]
fn messages_are_what_the_proto_files_say() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = std::env::temp_dir().join(format!("thalweg-messages-{}", std::process::id()));
    std::fs::create_dir_all(&out).unwrap();
    let files = ["meta_graph.proto", "event.proto"];
    let descriptors = protox::compile(files, [here.join("proto")]).unwrap();
    prost_build::Config::new()
        .btree_map(["."])
        .out_dir(&out)
        .compile_fds(descriptors)
        .unwrap();
    let made = std::fs::read_to_string(out.join("tensorflow.rs")).unwrap();
    std::fs::remove_dir_all(&out).unwrap();
    let at = here.join("src/messages.rs");
    if std::env::var_os("UPDATE_PROTO").is_some() {
        std::fs::write(&at, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&at).unwrap();
    assert!(
        kept == made,
        "src/messages.rs is not what the .proto files say: run UPDATE_PROTO=1 cargo test -p thalweg-graphdef --test messages"
    );
}
