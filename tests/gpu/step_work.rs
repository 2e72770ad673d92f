//! Launches, library calls and bytes of ResNet-50's training step: `docs/results/gpu_step.md`.

use std::fmt::Write;
use std::sync::Arc;

use thalweg::layers::losses;
use thalweg::models::{self, Options};
use thalweg::ops::DataFormat;
use thalweg::prelude::*;
use thalweg::session::{GpuOptions, GpuWork};
use thalweg_tests::root;

use super::host_nodes::{channels_last, feeds, planned_card, planned_gpu, trained};

const HEAD: &str = "# Launches and bytes of a step on a GPU

A training step of ResNet-50 with momentum, batch 256, as it is planned for an H200 where cuBLASLt and cuDNN are there.
Nothing of it has run on a card.

A row is an op. GB are the bytes that its nodes read and write, each value once for each node that has it, and a variable that is updated twice: the least that the memory of the card has to move if no value stays in a cache. An H200 moves 4,800 GB a second.
A pass is a launch or a call that reads or writes a value of 10 MB or more: an activation, since the largest filter has 9.4 MB. One that reads two counts twice.
`as built` is the same graph without fusion, folding and sharing. `built in NCHW` is one whose images have their channels first: they have them last on the GPU.

Written by `UPDATE_DOCS=1 cargo test -p thalweg-tests --test gpu step_work::`; a test holds it.
";

/// The work of a step of ResNet-50, with fusion or as it is built.
fn work(compute: DType, format: DataFormat, optimise: bool) -> GpuWork {
    let g = Graph::new();
    let train = g.device("/gpu:0", || {
        let model = models::find("resnet50", models::Data::ImageNet).unwrap();
        let images = g.placeholder("images", DType::F32, [256, 224, 224, 3]);
        let labels = g.placeholder("labels", DType::I32, [256]);
        let options = Options::new().compute(compute).data_format(format);
        let network = model.build(&g, images, 1000, &options);
        let loss = losses::sparse_softmax_cross_entropy(labels, network.logits).value();
        trained(&g, loss)
    });
    let card = planned_card();
    let gpu = GpuOptions::driven_by(Arc::new(card.clone()));
    let options = SessionOptions::new().threads(1).gpu(gpu);
    let options = options.soft_placement(true).optimise(optimise);
    let session = Session::with_options(&g, options).unwrap();
    let mut all = session.gpu_work(train, feeds(&g)).unwrap();
    assert_eq!(all.len(), 1);
    // The filters of one pixel and stride 1 are GEMMs.
    let last = channels_last(&card);
    assert!(last.len() > 50 && last.iter().all(|&last| last), "{last:?}");
    all.remove(0)
}

fn table(text: &mut String, compute: DType) {
    let (nhwc, nchw) = (DataFormat::Nhwc, DataFormat::Nchw);
    let (fused, built) = (work(compute, nhwc, true), work(compute, nhwc, false));
    let first = work(compute, nchw, true).total();
    assert!(fused.on_host.is_empty(), "{:?}", fused.on_host);
    let gb = |bytes: u64| format!("{:.2}", bytes as f64 / 1e9);
    write!(
        text,
        "\n## {compute}\n\n| op | nodes | launches | library calls | passes | GB |\n| --- | ---: | ---: | ---: | ---: | ---: |\n"
    )
    .unwrap();
    let mut ops: Vec<_> = fused.ops.iter().collect();
    ops.sort_by_key(|(name, op)| (std::cmp::Reverse(op.bytes), *name));
    let (fused, built) = (fused.total(), built.total());
    let rows = ops.into_iter().map(|(name, op)| (*name, op));
    for (name, op) in rows.chain([
        ("**all**", &fused),
        ("all, as built", &built),
        ("all, built in NCHW", &first),
    ]) {
        let (nodes, launches, calls) = (op.nodes, op.launches, op.calls);
        let (passes, gb) = (op.passes, gb(op.bytes));
        writeln!(
            text,
            "| {name} | {nodes} | {launches} | {calls} | {passes} | {gb} |"
        )
        .unwrap();
    }
    assert!(fused.bytes < built.bytes && fused.launches < built.launches);
    assert!(fused.passes < built.passes);
    // The images and the last gradient are transposed.
    assert!(first.bytes as f64 <= 1.01 * fused.bytes as f64 && first.passes <= fused.passes + 8);
}

#[test]
fn the_table_of_resnet50s_step_matches_its_plan() {
    let mut text = HEAD.to_owned();
    for compute in [DType::F16, DType::F32] {
        table(&mut text, compute);
    }
    let file = root().join("docs/results/gpu_step.md");
    if std::env::var("UPDATE_DOCS").is_ok_and(|v| v == "1") {
        std::fs::write(&file, &text).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == text,
        "{} is not what the plan says: UPDATE_DOCS=1 writes it\n{text}",
        file.display()
    );
}

#[test]
fn a_segment_sum_of_few_ids_sorts_them_where_there_are_many_segments() {
    for (ids, segments, launches) in [(300, 4, 1..2), (300, 50_000, 4..40), (9000, 4, 4..40)] {
        let g = Graph::new();
        let sums = g.device("/gpu:0", || {
            let rows = g.placeholder("rows", DType::F32, [ids, 8]);
            let numbers = g.placeholder("ids", DType::I32, [ids]);
            let node = g.op("UnsortedSegmentSum").input(rows).input(numbers);
            node.input(g.constant(segments)).output()
        });
        let session = Session::with_options(&g, SessionOptions::new().gpu(planned_gpu())).unwrap();
        let work = session.gpu_work(sums, feeds(&g)).unwrap();
        let found = work[0].ops["UnsortedSegmentSum"].launches;
        assert!(
            launches.contains(&found),
            "{ids} ids, {segments} segments: {found}"
        );
    }
}
