//! `src/messages.rs` and `src/net/messages.rs` are what prost and tonic make of `proto/*.proto`.

use std::path::Path;

use prost::Message;

#[test]
fn messages_are_what_the_proto_files_say() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = std::env::temp_dir().join(format!("thalweg-dist-messages-{}", std::process::id()));
    std::fs::create_dir_all(&out).unwrap();
    let folders = [here.join("proto"), here.join("../graphdef/proto")];
    let descriptors = protox::compile(["master.proto", "worker.proto"], folders).unwrap();
    let mut builder = tonic_prost_build::configure().out_dir(&out);
    // The messages that another crate has.
    for file in descriptors
        .file
        .iter()
        .filter(|f| f.name() == "graph.proto")
    {
        let messages = file.message_type.iter().map(|m| m.name());
        for name in messages.chain(file.enum_type.iter().map(|e| e.name())) {
            let path = format!("::thalweg_graphdef::messages::{name}");
            builder = builder.extern_path(format!(".tensorflow.{name}"), path);
        }
    }
    let mut described = descriptors.clone();
    // Comments and lines are for people.
    described
        .file
        .iter_mut()
        .for_each(|f| f.source_code_info = None);
    std::fs::write(out.join("described"), described.encode_to_vec()).unwrap();
    builder.compile_fds(descriptors).unwrap();
    for (package, file) in [
        ("tensorflow.rs", "src/messages.rs"),
        ("thalweg.rs", "src/net/messages.rs"),
        ("described", "src/descriptors.bin"),
    ] {
        let made = std::fs::read(out.join(package)).unwrap();
        let at = here.join(file);
        if std::env::var_os("UPDATE_PROTO").is_some() {
            std::fs::write(&at, &made).unwrap();
        }
        let kept = std::fs::read(&at).unwrap_or_default();
        assert!(
            kept == made,
            "{file} is not what the .proto files say: run UPDATE_PROTO=1 cargo test -p thalweg-dist --test messages"
        );
    }
    std::fs::remove_dir_all(&out).unwrap();
}
