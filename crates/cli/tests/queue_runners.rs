//! `thalweg run` of graphs whose queues are filled by queue runners.

mod support;

use prost::Message;
use support::{Folder, fails, works};
use thalweg_graph::{Attr, Graph};
use thalweg_graphdef::messages::collection_def::{BytesList, Kind};
use thalweg_graphdef::messages::{CollectionDef, QueueRunnerDef};
use thalweg_graphdef::{MetaOptions, export_meta_graph, file};
use thalweg_ops::{NewGraph, SourceOps};
use thalweg_tensor::{DType, Tensor};

/// A MetaGraph in which a runner fills a queue with the name of a file without end, and another one a queue of its lines.
fn written(
    folder: &Folder,
    lines: &str,
    entries: impl FnOnce(Vec<Vec<u8>>) -> Vec<Vec<u8>>,
) -> String {
    let g = Graph::new();
    let queue = |name: &str, capacity: i64| {
        let queue = g.op("FIFOQueueV2").name(name).attr("capacity", capacity);
        queue
            .attr("component_types", Attr::Types(vec![DType::String]))
            .output()
    };
    let (names, records) = (queue("names", 2), queue("records", 4));
    let name = g.constant(Tensor::strings(&[], &[lines]).unwrap());
    g.op("QueueEnqueueV2")
        .name("add_name")
        .input(names)
        .input(name)
        .build();
    let reader = g.op("TextLineReaderV2").output();
    let line = g.op("ReaderReadV2").input(reader).input(names).outputs()[1];
    let length = g.op("StringLength").input(line).output();
    let taken = g
        .op("QueueDequeueV2")
        .input(records)
        .attr("component_types", Attr::Types(vec![DType::String]));
    g.op("StringLength")
        .name("length")
        .input(taken.output())
        .build();
    g.op("QueueEnqueueV2")
        .name("add_line")
        .input(records)
        .input(line)
        .control(length.operation())
        .build();
    let runner = |queue: &str, enqueue: &str| {
        let close = |name: &str, cancels: bool| {
            let handle = if queue == "names" { names } else { records };
            let close = g.op("QueueCloseV2").name(name).input(handle);
            close.attr("cancel_pending_enqueues", cancels).build();
            name.to_owned()
        };
        QueueRunnerDef {
            queue_name: queue.to_owned(),
            enqueue_op_name: vec![enqueue.to_owned()],
            close_op_name: close(&format!("close_{queue}"), false),
            cancel_op_name: close(&format!("cancel_{queue}"), true),
        }
        .encode_to_vec()
    };
    let value = entries(vec![
        runner("names", "add_name"),
        runner("records", "add_line"),
    ]);
    let mut meta = export_meta_graph(&g, &MetaOptions::new()).unwrap();
    let kind = Some(Kind::BytesList(BytesList { value }));
    meta.collection_def
        .insert("queue_runners".to_owned(), CollectionDef { kind });
    std::fs::write(folder.join("g.meta"), file::encode(&meta)).unwrap();
    folder.at("g.meta")
}

#[test]
fn runners_of_a_meta_graph_fill_its_queues_while_steps_run() {
    let folder = Folder::new("runners");
    std::fs::write(folder.join("lines"), "one\nthree\nfifteen\n").unwrap();
    let meta = written(&folder, &folder.at("lines"), |all| all);
    let (files, out) = (folder.at(""), folder.at("r.npz"));
    // More steps than the queues have room for; the runners never end by themselves.
    let run = [
        "run", &meta, "--fetch", "length", "--steps", "7", "--files", &files, "--out", &out,
    ];
    let said = works(&run);
    assert!(said.contains("7 steps"), "{said}");
    let all = thalweg_checkpoint::Weights::open(&out).unwrap();
    let length = |step| {
        all.tensor(&format!("length/{step}"))
            .unwrap()
            .to_vec::<i32>()
            .unwrap()[0]
    };
    assert_eq!([0, 1, 2, 3, 4, 5, 6].map(length), [3, 5, 7, 3, 5, 7, 3]);
}

#[test]
fn the_error_of_a_runner_is_that_of_the_command() {
    let folder = Folder::new("runner_fails");
    let files = folder.at("");
    let missing = written(&folder, &folder.at("nothing"), |all| all);
    let out = folder.at("r.npz");
    let run = |meta: &str| {
        fails(&[
            "run", meta, "--fetch", "length", "--files", &files, "--out", &out,
        ])
    };
    let said = run(&missing);
    assert!(said.contains("nothing: there is no such file"), "{said}");
    let damaged = written(&folder, "", |_| vec![vec![0xff]]);
    let said = run(&damaged);
    assert!(said.contains("queue_runners"), "{said}");
    let unknown = QueueRunnerDef {
        enqueue_op_name: vec!["none".to_owned()],
        ..QueueRunnerDef::default()
    };
    let unknown = written(&folder, "", |_| vec![unknown.encode_to_vec()]);
    let said = run(&unknown);
    assert!(
        said.contains("needs node 'none', which the graph does not have"),
        "{said}"
    );
}
