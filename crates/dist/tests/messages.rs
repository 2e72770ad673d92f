//! `messages.rs` in `src/tf_client` and in `src/transport` are what prost and tonic make of `proto/*.proto`; `sizes.rs`
//! beside each is what each message takes.

#[path = "../../../tests/support/size_tables.rs"]
mod size_tables;

use std::path::Path;

use prost::Message;
use size_tables::Paths;

/// Files whose messages are those of `thalweg_graphdef`.
const SHARED: [&str; 2] = ["graph.proto", "step_stats.proto"];

#[test]
fn messages_are_what_the_proto_files_say() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = std::env::temp_dir().join(format!("thalweg-dist-messages-{}", std::process::id()));
    std::fs::create_dir_all(&out).unwrap();
    let folders = [here.join("proto"), here.join("../graphdef/proto")];
    let descriptors = protox::compile(["master.proto", "worker.proto"], folders).unwrap();
    let tables = |package, module| {
        let paths = Paths {
            package,
            module,
            elsewhere: (&SHARED, "thalweg_graphdef::messages"),
            sizes: "thalweg_graphdef::sizes",
        };
        size_tables::written(&descriptors, &paths)
    };
    let tables = [
        (
            tables("tensorflow", "super::messages"),
            "src/tf_client/sizes.rs",
        ),
        (
            tables("thalweg", "super::messages"),
            "src/transport/sizes.rs",
        ),
    ];
    let builder = tonic_prost_build::configure().build_server(false);
    let mut builder = builder.btree_map(".").out_dir(&out);
    // The messages that another crate has.
    for file in descriptors
        .file
        .iter()
        .filter(|f| SHARED.contains(&f.name()))
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
    let read = |package: &str| std::fs::read(out.join(package)).unwrap();
    let messages = [
        (read("tensorflow.rs"), "src/tf_client/messages.rs"),
        (read("thalweg.rs"), "src/transport/messages.rs"),
        (read("described"), "src/tf_client/descriptors.bin"),
    ];
    let tables = tables.map(|(made, file)| (made.into_bytes(), file));
    std::fs::remove_dir_all(&out).unwrap();
    for (made, file) in messages.into_iter().chain(tables) {
        // The tables of sizes count a message that lies in another as a part of its struct.
        let boxed = made.windows(4).any(|w| w == b"Box<");
        assert!(!boxed, "a boxed message has no size in the tables");
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
}
